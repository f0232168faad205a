#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Builds uroce in a root of another Debian release, as a user there would.

release.py RELEASE           builds and runs unit tests and demo.sh
release.py RELEASE all       builds everything else; makes the packages, and installs them in a bare root
release.py RELEASE packages  only the packages. Of bookworm in a root with the packages that debian/control names

The root is in the build folder's releases/ (UROCE_ROOTS=DIR: there), made by mmdebstrap at the first run (1.5 GB)."""
import json
import shutil
import sys
import urllib.request

import debian
import lib
from debian_root import MIRROR, ROOTS, SOURCE, TREE, Root

PACKAGES = {"bookworm": "deb12", "trixie": "deb13", "sid": "debsid"}  # names of scripts/release.sh
LACKING = ("wire_oracle", "wire_mad_oracle", "bench-report")  # in Python, with packages that the build does not need


def unit_tests(root):
    """Names of the unit tests, and what ninja has to build for them."""
    found = json.loads(root.bash("meson introspect --tests --targets build"))
    files = {target["id"]: target["filename"] for target in found["targets"]}
    tests = [test for test in found["tests"] if "uroce:unit" in test["suite"] and test["name"] not in LACKING]
    return ([test["name"] for test in tests],
            {name.removeprefix(f"{TREE}/build/") for test in tests for target in test["depends"] for name in files[target]})


def most(root, release):
    with lib.case(f"{release}: unit tests and the demo's programs compile"):
        names, files = unit_tests(root)
        root.bash(f"ninja -C build $DEMO_TARGETS {' '.join(files)}")
    with lib.case(f"{release}: {len(names)} unit tests pass"):
        root.bash(f"meson test -C build --no-rebuild --timeout-multiplier 10 --print-errorlogs {' '.join(names)}")
    with lib.case(f"{release}: demo.sh succeeds"):
        assert "success: all bytes received as sent" in root.bash("./demo.sh")


def rest(root, release):
    with lib.case(f"{release}: everything compiles"):
        root.bash("ninja -C build")
    with lib.case(f"{release}: demo.sh succeeds in a chroot whose root is no mount point"):
        plain = Root(root.folder)
        plain.prepare = ""
        assert "success: all bytes received as sent" in plain.bash("./demo.sh")
    packages(release)


def packages(release):
    with lib.case(f"{release}: packages are built, and work in a bare root"):
        output = lib.tmpdir()
        lib.sh("env", f"UROCE_ROOTS={ROOTS}", SOURCE / "scripts/release.sh", "--output", output, PACKAGES[release],
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
    if what == "packages":
        packages(release)
        return
    try:
        root = Root.of(release, release)
    except lib.processes.Failed as failed:
        lib.skip(f"no root of {release} can be made here: {str(failed).splitlines()[-1]}")
    with lib.case(f"{release}: the build's packages are installed"):
        # an earlier run may have been ended in the middle
        root.bash("dpkg --configure -a\nsetup_packages $BUILD_PACKAGES perftest ibverbs-utils python3-seccomp\n"
                  "[ -e build/build.ninja ] || meson setup build")
    {"": most, "all": rest}[what](root, release)


main(*sys.argv[1:])
lib.finish()
