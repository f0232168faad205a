#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Builds uroce in a root of another Debian release, as a user there would.

release.py RELEASE           runs unit tests and demo.sh there
release.py RELEASE packages  makes the packages, and installs them in a bare root

The root is in the build folder's releases/ (UROCE_ROOTS=DIR: there), made by mmdebstrap at the first run (1.5 GB)."""
import shutil
import sys
import urllib.request

import debian
import lib
from debian_root import MIRROR, ROOTS, SOURCE, Root

PACKAGES = {"bookworm": "deb12", "trixie": "deb13", "sid": "debsid"}  # names of scripts/release.sh


def build(root, release):
    with lib.case(f"{release}: the build's packages are installed"):
        # an earlier run may have been ended in the middle
        root.bash("dpkg --configure -a\nsetup_packages $BUILD_PACKAGES perftest ibverbs-utils python3-seccomp")
    with lib.case(f"{release}: everything compiles"):
        root.bash("[ -e build/build.ninja ] || meson setup build\nninja -C build")
    with lib.case(f"{release}: unit tests pass"):
        # those in Python need packages of the tests; the list's form depends on meson's version
        root.bash("cd build\nmeson test --timeout-multiplier 10 --print-errorlogs $(meson test --list --suite unit"
                  " | sed -E 's,^.*( / | - uroce:),,' | grep -vE '^(wire_oracle|wire_mad_oracle|bench-report)$')")
    with lib.case(f"{release}: demo.sh succeeds"):
        assert "success: all bytes received as sent" in root.bash("./demo.sh")


def packages(root, release):
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


def main(release, what=""):
    lib.need_root()
    if not (ROOTS / release).exists():
        try:
            urllib.request.urlopen(f"{MIRROR}/dists/{release}/InRelease", timeout=60).close()
        except OSError as failed:
            lib.skip(f"no root of {release} yet, and no mirror of Debian: {failed}")
    {"": build, "packages": packages}[what](Root.of(release, release), release)


main(*sys.argv[1:])
lib.finish()
