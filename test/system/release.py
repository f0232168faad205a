#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Builds uroce in a root of another Debian release, as a user there would, and runs what it built: unit tests, demo.sh,
and the packages, installed in a bare root.

release.py RELEASE. The root is in the build folder's releases/, made by mmdebstrap at the first run (1.5 GB)."""
import shutil
import sys

import debian
import lib
from debian_root import SOURCE, Root

PACKAGES = {"bookworm": "deb12", "trixie": "deb13", "sid": "debsid"}  # names of scripts/release.sh


def main(release):
    lib.need_root()
    root = Root.of(release, release)
    with lib.case(f"{release}: the build's packages are installed"):
        root.bash("setup_packages $BUILD_PACKAGES build-essential debhelper perftest ibverbs-utils python3-seccomp")
    with lib.case(f"{release}: everything compiles"):
        root.bash("[ -e build/build.ninja ] || meson setup build\nninja -C build")
    with lib.case(f"{release}: unit tests pass"):
        # those in Python need packages of the tests; the list's form depends on meson's version
        root.bash("cd build\nmeson test --timeout-multiplier 10 --print-errorlogs $(meson test --list --suite unit"
                  " | sed -E 's,^.*( / | - uroce:),,' | grep -vE '^(wire_oracle|wire_mad_oracle|bench-report)$')")
    with lib.case(f"{release}: demo.sh succeeds"):
        assert "success: all bytes received as sent" in root.bash("./demo.sh")
    with lib.case(f"{release}: packages are built, and work in a bare root"):
        output = lib.tmpdir()
        lib.sh("env", f"UROCE_ROOTS={root.folder.parent}", SOURCE / "scripts/release.sh", "--output", output, PACKAGES[release],
               timeout=3000)
        bare = debian.Bare.made(lib.tmpdir() / "bare", release)
        for deb in output.glob("*/*.deb"):
            shutil.copy(deb, bare.folder / "root")
        bare.install("/root/uroce_*.deb", "/root/liburoce-ibverbs_*.deb", "ibverbs-utils")
        pings = debian.PINGS.format("", "uroce_lo", "uroce_lo")
        said = bare.apart("bash", "-ec", f"uroced --daemon\n{pings}{debian.exercise('')}")
        assert debian.PONGS in said, said
        debian.assert_sandboxed(said)


main(*sys.argv[1:])
lib.finish()
