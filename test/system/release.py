#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Builds uroce in a root of another Debian release, as a user there would, and runs what it built: unit tests, demo.sh,
and the packages, installed in a bare root.

release.py RELEASE. The root is in the build folder's releases/, made by mmdebstrap at the first run (1.5 GB)."""
import os
import pathlib
import shutil
import subprocess
import sys

import lib

MIRROR = "http://deb.debian.org/debian"
SOURCE = pathlib.Path(__file__).resolve().parents[2]
TREE = "/srv/uroce"  # not in /root: tests run programs of it as another user
# Runs the rest of its arguments in a root, with the file systems that a machine has.
ENTER = """root=$1; shift
mount --bind "$root" "$root" # what makes namespaces there expects a mount point
for fs in dev sys; do mount --rbind /$fs "$root/$fs"; done
mount -t proc proc "$root/proc"
for fs in run tmp; do mount -t tmpfs tmpfs "$root/$fs"; done
exec chroot "$root" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
"$@"
"""
# Starts the daemon and pings from one program to another, as a user of the packages would.
FIRST_STEPS = """set -e
uroced --daemon
trap 'kill $(pidof uroced)' EXIT
uroce-run ibv_rc_pingpong -g 1 -d uroce_lo >/tmp/server 2>&1 &
until uroce-run ibv_rc_pingpong -g 1 -d uroce_lo 127.0.0.1; do kill -0 $!; sleep 0.2; done
wait $!
"""


class Root:
    def __init__(self, folder):
        self.folder = folder

    @classmethod
    def made(cls, folder, release):
        """A new root of the release, without packages besides the smallest set."""
        # an archived mirror's lists have expired
        lib.sh("mmdebstrap", "--quiet", "--variant=minbase", '--aptopt=Acquire::Check-Valid-Until "false"',
               release, folder, MIRROR, timeout=1500)
        return cls(folder)

    def run(self, *argv, timeout=3000):
        """Output of a command in the root; AssertionError with its end if it fails. A new PID namespace ends its
        children with it."""
        done = subprocess.run(["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-ec", ENTER, "sh",
                               self.folder, *argv], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              stdin=subprocess.DEVNULL, check=False, timeout=timeout)
        assert done.returncode == 0, f"{' '.join(argv)}: {done.returncode}\n{done.stdout[-4000:]}"
        return done.stdout

    def bash(self, script):
        return self.run("bash", "-ec", f"cd {TREE}\n. scripts/setup.sh\n{script}")


def copy_source(to):
    """The files that git knows, as they are in the work tree."""
    names = lib.sh("git", "-C", SOURCE, "ls-files").splitlines()
    for name in names:
        if (SOURCE / name).exists():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            # an unchanged file keeps its time, so that it is not compiled again
            shutil.copy2(SOURCE / name, to / name)


def root_of(release):
    """The root with the release's compiler, and this source in it."""
    folder = lib.BUILD / "releases" / release
    if not folder.exists():
        folder.parent.mkdir(exist_ok=True)
        fresh = folder.with_name(f"{release}.{os.getpid()}")
        lib.processes.at_end(lambda: shutil.rmtree(fresh, ignore_errors=True))
        Root.made(fresh, release)
        fresh.rename(folder)
    copy_source(folder / TREE[1:])
    return Root(folder)


def main(release):
    lib.need_root()
    root = root_of(release)
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
