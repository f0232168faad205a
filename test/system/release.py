#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Builds uroce in a root of another Debian release, as a user there would, and runs what it built: unit tests, demo.sh,
and the packages, installed in a bare root.

release.py RELEASE. The root is in the build folder's releases/, made by mmdebstrap at the first run (1.5 GB)."""
import shutil
import sys

import lib
from debian_root import Root

# Starts the daemon and pings from one program to another, as a user of the packages would.
FIRST_STEPS = """set -e
uroced --daemon
trap 'kill $(pidof uroced)' EXIT
uroce-run ibv_rc_pingpong -g 1 -d uroce_lo >/tmp/server 2>&1 &
until uroce-run ibv_rc_pingpong -g 1 -d uroce_lo 127.0.0.1; do kill -0 $!; sleep 0.2; done
wait $!
"""


def main(release):
    lib.need_root()
    root = Root.of(release, release)
    with lib.case(f"{release}: the build's packages are installed"):
        root.bash("setup_packages $BUILD_PACKAGES build-essential debhelper perftest ibverbs-utils python3-seccomp")
    with lib.case(f"{release}: everything compiles"):
        root.bash("[ -e build/build.ninja ] || meson setup build\nninja -C build")
    with lib.case(f"{release}: unit tests pass"):
        # those in Python need packages of the tests
        root.bash("cd build\nmeson test --timeout-multiplier 10 --print-errorlogs $(meson test --list --suite unit"
                  " | sed 's,.* / ,,' | grep -vE '^(wire_oracle|wire_mad_oracle|bench-report)$')")
    with lib.case(f"{release}: demo.sh succeeds"):
        assert "success: all bytes received as sent" in root.bash("./demo.sh")
    with lib.case(f"{release}: packages are built, and work in a bare root"):
        root.bash("rm -rf /srv/packages\nmkdir /srv/packages\ncp -a . /srv/packages/uroce\ncd /srv/packages/uroce\n"
                  "rm -rf build\ndpkg-buildpackage -b -us -uc")
        bare = Root.made(lib.tmpdir() / "bare", release)
        for deb in (root.folder / "srv/packages").glob("*.deb"):
            shutil.copy(deb, bare.folder / "root")
        bare.run("sh", "-ec", "apt-get -q update\napt-get -q -y install /root/uroce_*.deb /root/liburoce-ibverbs_*.deb ibverbs-utils")
        said = bare.run("bash", "-c", FIRST_STEPS)
        assert "1000 iters in" in said, said


main(*sys.argv[1:])
lib.finish()
