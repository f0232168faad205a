# SPDX-License-Identifier: BSD-3-Clause
"""The Soft-RoCE guest: its image, its boot, and commands run through a shared folder."""
import fcntl
import hashlib
import itertools
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "system"))
import lib  # noqa: E402

ADDR = "10.77.0.2"
BOOT_S = 600


def kernel_package():
    """Name and version of the kernel package that build-image.sh would install now."""
    dep = subprocess.run(["apt-cache", "depends", "linux-image-amd64"], text=True,
                         capture_output=True, check=True).stdout
    name = next(line.split()[-1] for line in dep.splitlines() if "Depends:" in line)
    show = subprocess.run(["apt-cache", "show", "--no-all-versions", name], text=True,
                          capture_output=True, check=True).stdout
    version = next(line for line in show.splitlines() if line.startswith("Version:"))
    return f"{name} {version}"


def cache_dir():
    """The folder for images: $UROCE_CACHE, else /var/cache/uroce, else the build folder."""
    for path in (os.environ.get("UROCE_CACHE"), "/var/cache/uroce", lib.BUILD / "cache"):
        if not path:
            continue
        try:
            pathlib.Path(path).mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(path, os.W_OK):
            return pathlib.Path(path)
    raise RuntimeError("no folder to keep the guest image in; set UROCE_CACHE")


def image(kernel=None):
    """The folder with the guest's image. Builds it if it is missing or outdated. kernel: SUITE/PACKAGE; None: this
    machine's distribution's."""
    script = HERE / "build-image.sh"
    key = hashlib.sha256(script.read_bytes() + (kernel or kernel_package()).encode()).hexdigest()[:16]
    cache = cache_dir()
    kind = "guest" if kernel is None else "guest." + kernel.replace("/", ".")
    final = cache / f"{kind}-{key}"
    env = {**os.environ, "KERNEL": kernel or ""}
    with open(cache / "guest.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not final.exists():
            print(f"# building the guest image {final} (about a minute)", flush=True)
            partial = cache / f"{kind}-{key}.partial"
            shutil.rmtree(partial, ignore_errors=True)
            with open(cache / "guest-build.log", "w") as log:
                rc = subprocess.run([script, partial], stdout=log, stderr=subprocess.STDOUT,
                                    timeout=3600, env=env).returncode  # only ends a hang
            if rc:
                tail = (cache / "guest-build.log").read_text().splitlines()[-15:]
                raise RuntimeError("build-image.sh failed:\n" + "\n".join(tail))
            partial.rename(final)
            for old in cache.glob(f"{kind}-*"):
                if old.is_dir() and old != final:
                    shutil.rmtree(old, ignore_errors=True)
    return final


class Command:
    """A command in the guest, with the part of lib.Proc's interface that lib.run_pair uses."""

    def __init__(self, guest, name):
        self.guest, self.name = guest, name
        self.path = guest.share / "cmd" / name

    def poll(self):
        rc = self.path.with_suffix(".rc")
        return int(rc.read_text()) if rc.exists() else None

    def wait(self, timeout):
        """timeout: seconds, without those in which the guest waited for a processor of this machine"""
        end = time.monotonic() + timeout - self.guest.starved()
        while self.poll() is None:
            if time.monotonic() > end + self.guest.starved():
                raise TimeoutError(f"guest command {self.name}: no end after {timeout} s")
            self.guest.alive()
            time.sleep(0.05)
        return self.poll()

    def output(self):
        out = self.path.with_suffix(".out")
        return out.read_text(errors="replace") if out.exists() else ""

    def tail(self, n=2500):
        return self.output()[-n:]

    def listens(self, port):
        """Whether a process in the guest listens on this TCP port."""
        return self.guest.run(f"ss -ltn | grep -q ':{port} '", timeout=60)[0] == 0

    def kill(self):
        if self.poll() is None:
            self.guest.run(f"kill -9 -- $(cat cmd/{self.name}.pid)", timeout=60)


class Guest:
    """A booted guest. mode is guest/agent.sh's argument: "tap", "two MTU" or "stock DIR"."""

    def __init__(self, mode, ns=None, tap=None, mtu=1500, more=(), kernel=None):
        self.share = lib.tmpdir()
        shutil.copytree(HERE / "guest", self.share / "guest")
        for program in ("app/uroce-bench/check/rcdata", "test/interop/reject", "test/interop/collective",
                        "test/system/paused"):
            if (lib.BUILD / program).exists():
                shutil.copy(lib.BUILD / program, self.share)
        (self.share / "cmd").mkdir()
        self.lock = threading.Lock()
        self.waited_s = 0
        self.names = (f"c{i}" for i in itertools.count(1))
        argv = [HERE / "run-guest.sh", HERE / "guest/agent.sh", "--image", image(kernel),
                "--share", self.share, "--timeout", "900", "--mem", "1024", "--mtu", str(mtu)]
        argv += more  # options of run-guest.sh
        if tap:
            argv += ["--tap", tap]
        self.proc = lib.spawn([*argv, "--", *mode.split()], ns=ns)
        end = time.monotonic() + BOOT_S
        while not (self.share / "cmd/ready").exists():
            self.alive()
            if time.monotonic() > end + self.starved():
                raise TimeoutError(f"the guest did not boot within {BOOT_S} s")
            time.sleep(0.1)

    def alive(self):
        if self.proc.poll() is not None:
            raise RuntimeError("the guest has ended:\n" + self.proc.output()[-3000:])

    def starved(self):
        """Seconds that the guest has waited for a processor of this machine: the most of QEMU's threads."""
        try:
            pid = (self.share / ".run/pid").read_text().strip()
            for path in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat"):
                self.waited_s = max(self.waited_s, int(path.read_text().split()[1]) / 1e9)
        except OSError:  # QEMU or one of its threads is ending
            pass
        return self.waited_s

    def spawn(self, script):
        """Starts a shell script in the guest. Any thread may call this."""
        with self.lock:
            name = next(self.names)
        tmp = self.share / "cmd" / f"{name}.new"
        tmp.write_text(f"cd /mnt/host; echo $$ >cmd/{name}.pid\n{script}\n")
        tmp.rename(self.share / "cmd" / f"{name}.sh")
        return Command(self, name)

    def run(self, script, timeout=60):
        """Runs it to completion: (exit status, output)."""
        cmd = self.spawn(script)
        return cmd.wait(timeout), cmd.output()

    def stop(self):
        (self.share / "cmd/stop").touch()
        self.proc.wait(60)
