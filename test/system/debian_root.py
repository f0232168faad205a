# SPDX-License-Identifier: BSD-3-Clause
"""Roots of Debian, made by mmdebstrap: in the build folder's releases/ (UROCE_ROOTS=DIR: there) with the source, in its
distros/ with the programs of rdma-core."""
import filecmp
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

import container_kit
import lib

MIRROR = "http://deb.debian.org/debian"
SOURCE = pathlib.Path(__file__).resolve().parents[2]
ROOTS = pathlib.Path(os.environ.get("UROCE_ROOTS") or lib.BUILD / "releases")
sys.path.insert(0, str(SOURCE / "scripts"))
import userns  # noqa: E402

TREE = "/srv/uroce"  # not in /root: tests run programs of it as another user
PROGRAMS = (*container_kit.RDMA_PACKAGES, "python3-pyverbs",  # and rdma-core, with the tests of pyverbs
            "ucx-utils", "openmpi-bin")
# Runs the rest of its arguments in a root, with the file systems that a machine has. $2: a command for the root.
ENTER = """root=$1; prepare=$2; shift 2
for fs in dev sys; do mount --rbind /$fs "$root/$fs"; done
mount -t proc proc "$root/proc"
for fs in run tmp; do mount -t tmpfs tmpfs "$root/$fs"; done
eval "$prepare"
exec chroot "$root" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
"$@"
"""


def kept(folder, release, *options):
    """This folder. Makes it as Root.made() if it does not exist."""
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        fresh = folder.with_name(f"{folder.name}.{os.getpid()}")
        lib.processes.at_end(lambda: shutil.rmtree(fresh, ignore_errors=True))
        Root.made(fresh, release, *options)
        fresh.rename(folder)
    return folder


def programs_of(release):
    """The folder with the release's rdma-core, perftest, UCX and Open MPI. Makes it at the first call (up to 620 MB)."""
    name = f"{release}-{hashlib.sha256(' '.join(PROGRAMS).encode()).hexdigest()[:8]}"
    return kept(lib.BUILD / "distros" / name, release, "--include=" + ",".join(PROGRAMS))


class Root:
    # shell commands before its commands; $root is the folder. What makes namespaces there expects a mount point.
    prepare = 'mount --rbind "$root" "$root"'
    preexec = None

    def __init__(self, folder):
        self.folder = folder

    @classmethod
    def made(cls, folder, release, *options):
        """A new root of the release, without packages besides the smallest set. options: of mmdebstrap."""
        # an archived mirror's lists have expired
        lib.sh("mmdebstrap", "--quiet", "--variant=minbase", '--aptopt=Acquire::Check-Valid-Until "false"',
               *options, release, folder, MIRROR, timeout=1500)
        return cls(folder)

    @classmethod
    def of(cls, name, release, *options):
        """The root of this name, made if there is none, with this source in it."""
        folder = kept(ROOTS / name, release, *options)
        copy_source(folder / TREE[1:])
        return cls(folder)

    def run(self, *argv, timeout=3000):
        """Output of a command in the root; AssertionError with its end if it fails. A new PID namespace ends its
        children with it."""
        done = subprocess.run(["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-ec", ENTER, "sh",
                               self.folder, self.prepare, *argv], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, check=False, timeout=timeout,
                              preexec_fn=self.preexec)
        assert done.returncode == 0, f"{' '.join(argv)}: {done.returncode}\n{done.stdout[-4000:]}"
        return done.stdout

    def bash(self, script):
        return self.run("bash", "-ec", f"cd {TREE}\n. scripts/setup.sh\n{script}")


class ForeignRoot(Root):
    """Runs programs of arm64, too, by the root's qemu. The machine is left as it is: since Linux 6.7 a user namespace
    has a separate binfmt_misc. Its users are the machine's."""

    # The first bytes of an ELF file of arm64, and which of their bits count. The entry lasts as long as the mount.
    prepare = Root.prepare + r"""
mount -t binfmt_misc binfmt_misc "$root/mnt"
magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
printf %s ":qemu-aarch64:M::$magic:$mask:$root/usr/bin/qemu-aarch64-static:F" >"$root/mnt/register"
"""

    preexec = staticmethod(userns.enter)

    @classmethod
    def works(cls):
        """Whether this kernel allows that."""
        done = subprocess.run(["unshare", "--mount", "mount", "-t", "binfmt_misc", "binfmt_misc", "/mnt"],
                              capture_output=True, check=False, preexec_fn=cls.preexec)
        return done.returncode == 0


def dev_packages():
    """Names of the libraries that the build needs."""
    setup = ("bash", "-c", f". {SOURCE}/scripts/setup.sh && echo $BUILD_PACKAGES")
    return [name for name in lib.sh(*setup).split() if name.endswith("-dev")]


def arm64_build(*targets):
    """A root of Debian 12 with the cross build for arm64 in TREE/build, made or brought up to date; all of it, or only
    these targets of ninja."""
    packages = ["gcc", "gcc-aarch64-linux-gnu", "meson", "ninja-build", "pkgconf", "scdoc", "python3", "qemu-user-static",
                *(f"{name}:arm64" for name in dev_packages())]
    root = ForeignRoot.of("bookworm-arm64", "bookworm", "--architectures=amd64,arm64", "--include=" + ",".join(packages))
    root.bash("[ -e build/build.ninja ] || meson setup build --cross-file scripts/cross/aarch64.ini "
              f"--cross-file scripts/cross/run.ini\nninja -C build {' '.join(targets)}")
    return root


def copy_source(to):
    """The files that git knows, as they are in the work tree. An unchanged file is left alone, so that it is not compiled
    again, also if the work tree is a new clone."""
    listed = to / ".copied"
    before = listed.read_text().splitlines() if listed.exists() else ()
    names = [name for name in lib.sh("git", "-C", SOURCE, "ls-files").splitlines() if (SOURCE / name).exists()]
    for name in {*before} - {*names}:
        (to / name).unlink(missing_ok=True)
    for name in names:
        if not (to / name).exists() or not filecmp.cmp(SOURCE / name, to / name, shallow=False):
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(SOURCE / name, to / name)
    listed.write_text("\n".join(names))
