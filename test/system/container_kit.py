# SPDX-License-Identifier: BSD-3-Clause
"""podman for tests: images that are built once, private storage and a private CDI folder."""
import json
import os
import pathlib
import resource
import shutil
import stat
import subprocess
import sys

import lib

CACHE = pathlib.Path("/var/tmp/uroce-images")
TOOLS = "podman crun runc uidmap mmdebstrap"
RDMA_PACKAGES = ("ibverbs-utils", "ibverbs-providers", "perftest", "rdmacm-utils")  # in the image; none is from uroce
# What podman's profile allows to everybody and Docker's only with CAP_SYS_ADMIN, or never.
REFUSED = {"unshare", "setns", "mount", "mount_setattr", "umount", "umount2", "move_mount", "open_tree", "fsopen", "fsconfig",
           "fsmount", "fspick", "pivot_root", "keyctl", "add_key", "request_key", "clone", "clone3", "io_uring_setup",
           "io_uring_enter", "io_uring_register", "userfaultfd"}
NAMESPACES = 0x7E020000  # CLONE_NEW* of clone
USER, SUBIDS = 4711, "200000:65536"  # of rootless podman


def private_mounts():
    """Restarts this program in a private mount namespace, where it may hide and replace files of the machine."""
    if os.environ.get("UROCE_PRIVATE") != "1":
        os.environ["UROCE_PRIVATE"] = "1"
        os.execvp("unshare", ["unshare", "--mount", sys.executable, *sys.argv])


def install(more=""):
    """Installs what containers need, and more packages, by the function that check.sh uses."""
    lib.sh("bash", "-c", f". {lib.HERE.parent.parent}/scripts/setup.sh; setup_packages {TOOLS} {more}", timeout=300)


def image(packages=RDMA_PACKAGES):
    """A tar file with a Debian that has these packages; made at the first call on this machine."""
    CACHE.mkdir(exist_ok=True)
    tar = CACHE / ("-".join(packages) + ".tar")
    if not tar.exists():
        fresh = tar.with_suffix(f".{os.getpid()}.tar")
        lib.sh("mmdebstrap", "--variant=minbase", "--include=" + ",".join(packages), "bookworm", fresh, timeout=280)
        fresh.rename(tar)
    return tar


def limit(which, most=4096):
    hard = resource.getrlimit(which)[1]
    return most if hard == resource.RLIM_INFINITY else min(hard, most)


def empty(folder):
    """An empty folder over one of the machine, for this mount namespace."""
    os.makedirs(folder, exist_ok=True)
    lib.sh("mount", "-t", "tmpfs", "tmpfs", folder)
    return pathlib.Path(folder)


def replace(path, text):
    """Other contents of a file of the machine, for this mount namespace."""
    path = pathlib.Path(path)
    copy = lib.tmpdir() / path.name
    copy.write_text(text)
    copy.chmod(0o644)
    copy.parent.chmod(0o755)
    if not path.exists():
        path.touch()
    lib.sh("mount", "--bind", copy, path)


def private_null():
    """Another /dev/null for this mount namespace: crun gives a container's standard descriptors to its user."""
    folder = empty(lib.tmpdir())
    os.mknod(folder / "null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    (folder / "null").chmod(0o666)
    lib.sh("mount", "--bind", folder / "null", "/dev/null")
    lib.sh("umount", "-l", folder)


def docker_profile():
    """A file with Docker's default profile, as far as it differs from podman's in what uroce could use."""
    profile = json.loads(pathlib.Path("/usr/share/containers/seccomp.json").read_text())
    for rule in profile["syscalls"]:
        if not rule.get("includes"):
            rule["names"] = [name for name in rule["names"] if name not in REFUSED]
    profile["syscalls"] += [
        {"names": ["clone"], "action": "SCMP_ACT_ALLOW",
         "args": [{"index": 0, "value": NAMESPACES, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}]},
        {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38},
        {"names": sorted(REFUSED - {"clone", "clone3"}), "action": "SCMP_ACT_ERRNO", "errnoRet": 1}]
    profile["syscalls"] = [rule for rule in profile["syscalls"] if rule["names"]]
    path = lib.tmpdir() / "docker.json"
    path.write_text(json.dumps(profile))
    return path


def usr():
    """Options of podman that show this machine's programs and libraries in a container with a skeleton."""
    return [f"-v={path}:{path}:ro" for path in ("/usr", "/etc/libibverbs.d", "/etc/alternatives", "/etc/ld.so.cache")]


def skeleton():
    """A folder for --rootfs, which needs usr()."""
    root = lib.tmpdir()
    root.chmod(0o755)
    for inside in ("usr", "etc/libibverbs.d", "etc/alternatives", "opt", "proc", "sys", "dev", "run", "tmp", "var/lib"):
        (root / inside).mkdir(parents=True)
    (root / "var/run").symlink_to("/run")
    (root / "etc/ld.so.cache").touch()
    for link in ("bin", "sbin", "lib", "lib64"):
        (root / link).symlink_to(f"usr/{link}")
    return root


class Podman:
    """podman with private folders; removes its containers at the end."""

    def __init__(self, runtime, rootless=False):
        self.folder = lib.tmpdir()
        self.folder.chmod(0o755)
        base = ["podman", "--cgroup-manager", "cgroupfs", "--runtime", runtime]
        self.limits = [f"--ulimit=nofile={limit(resource.RLIMIT_NOFILE)}:{limit(resource.RLIMIT_NOFILE)}",
                       f"--ulimit=nproc={limit(resource.RLIMIT_NPROC)}:{limit(resource.RLIMIT_NPROC)}"]
        if rootless:
            for name in ("home", "run"):
                (self.folder / name).mkdir(mode=0o700)
                shutil.chown(self.folder / name, USER, USER)
            self.base = ["setpriv", "--reuid", USER, "--regid", USER, "--init-groups", "env", "-i", "PATH=/usr/bin:/usr/sbin",
                         f"HOME={self.folder}/home", f"XDG_RUNTIME_DIR={self.folder}/run", *base, "--storage-driver", "vfs"]
            if runtime == "crun":  # cannot make its own in version 1; runc goes on without, but refuses this
                self.limits += ["--cgroups", "disabled"]
        else:
            self.base = [*base, "--root", self.folder / "root", "--runroot", self.folder / "runroot"]
        self.names = []
        lib.processes.at_end(self.remove)

    def __call__(self, *argv, timeout=120):
        return lib.sh(*self.base, *argv, timeout=timeout)

    def command(self, *argv):
        """The command line of `podman run`."""
        return [*self.base, "run", *self.limits, *argv]

    def spawn(self, *argv):
        """Starts `podman run`; returns the process and the container's name."""
        name = lib.processes.unique("uroce")
        self.names.append(name)
        return lib.Proc(self.command("--rm", "--name", name, *argv)), name

    def run(self, *argv, timeout=60):
        """Output of `podman run`, which must succeed."""
        return self.spawn(*argv)[0].result(timeout)

    def refuses(self, *argv):
        """Output of a `podman run` that must fail."""
        proc, _ = self.spawn(*argv)
        assert proc.wait(60) != 0, proc.output()
        return proc.output()

    def remove(self):
        for name in self.names:
            subprocess.run([*map(str, self.base), "rm", "-f", "-t", "0", name], capture_output=True, check=False)


def listening(proc, podman, name, port):
    """Does a program in the container listen on this TCP port?"""
    if proc.poll() is not None:
        return True
    shown = subprocess.run([*map(str, podman.base), "exec", name, "cat", "/proc/net/tcp", "/proc/net/tcp6"],
                           text=True, capture_output=True, check=False).stdout
    return any(line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A"
               for line in shown.splitlines() if ": " in line)
