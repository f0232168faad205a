# SPDX-License-Identifier: BSD-3-Clause
"""Processes, network namespaces, links and daemons of a measurement.

Everything made here is gone at the end, however the program ends (but by SIGKILL): names carry the
pid, and only processes that were started here are signalled. Processes get a group, never a session,
of their own: the scheduler groups by session, and a daemon's sched_yield would not reach its clients.
"""
import atexit
import contextlib
import itertools
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import machine

READY_S = 30

_cleanup = contextlib.ExitStack()
_serial = itertools.count()
_ports = itertools.count(19000 + os.getpid() % 1000 * 10)


def start():
    """To be called once: what is made is removed at exit, and by the signals that end programs."""
    atexit.register(_cleanup.close)
    for sig in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(sig, lambda number, frame: sys.exit(128 + number))


class Failed(Exception):
    """A measurement that gave no figure, and why."""


def unique(stem):
    """A name that nobody else uses; at most 15 characters if stem has at most 3."""
    return f"{stem}{os.getpid()}x{next(_serial)}"


def tcp_port():
    return next(_ports)


def tmpdir():
    path = pathlib.Path(tempfile.mkdtemp(prefix="uroce-bench-"))
    _cleanup.callback(shutil.rmtree, path, ignore_errors=True)
    return path


def at_end(call, *args):
    """call(*args) before the program ends."""
    _cleanup.callback(call, *args)


def sh(*argv, ns=None, timeout=120):
    """A set-up command: its output; Failed with what it said where it fails."""
    argv = [str(a) for a in (["ip", "netns", "exec", ns, *argv] if ns else argv)]
    try:
        done = subprocess.run(argv, text=True, capture_output=True, timeout=timeout,
                              check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failed(f"{argv[0]}: {error}") from None
    if done.returncode:
        raise Failed(f"{' '.join(argv)}: {(done.stdout + done.stderr).strip()}")
    return done.stdout


class Proc:
    """A process with its output in files. Dies with the program."""

    def __init__(self, argv, ns=None, env=None):
        self.argv = [str(a) for a in argv]
        argv = ["ip", "netns", "exec", ns, *self.argv] if ns else self.argv
        folder = tmpdir()
        self.out, self.err = folder / "out", folder / "err"
        with open(self.out, "wb") as out, open(self.err, "wb") as err:
            try:
                self.popen = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                              process_group=0, env={**os.environ, **(env or {})})
            except OSError as error:
                raise Failed(f"{argv[0]}: {error.strerror}") from None
        self.pid = self.popen.pid
        _cleanup.callback(self.kill)

    def poll(self):
        return self.popen.poll()

    def output(self):
        return self.out.read_text(errors="replace")

    def said(self):
        """The end of all that it printed."""
        return (self.output() + self.err.read_text(errors="replace")).strip()[-600:]

    def wait(self, timeout):
        """Its standard output, once it has ended well; Failed otherwise."""
        name = " ".join(self.argv[:8])
        try:
            rc = self.popen.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Failed(f"{name}: no end within {timeout} s: {self.said()}") from None
        if rc:
            raise Failed(f"{name}: status {rc}: {self.said()}")
        return self.output()

    def kill(self):
        """SIGKILL for it and what it started."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            self.popen.wait()

    def listens(self, port):
        """Whether something in its network namespace listens on this TCP port."""
        for table in ("tcp", "tcp6"):
            with contextlib.suppress(OSError):
                for line in pathlib.Path(f"/proc/{self.pid}/net/{table}").read_text().splitlines():
                    field = line.split()
                    if field[3:4] == ["0A"] and int(field[1].rsplit(":", 1)[1], 16) == port:
                        return True
        return False


def until(what, check, timeout, every=0.02):
    """Waits until check() says something true; Failed after timeout seconds."""
    end = time.monotonic() + timeout
    while not check():
        if time.monotonic() > end:
            raise Failed(f"{what}: not within {timeout} s")
        time.sleep(every)


def pair(server, client, port, timeout=60):
    """Both are functions that start a Proc; the client starts when the server listens on port.
    The client's output, once both have ended well."""
    first = server()
    try:
        until(f"{first.argv[0]} listens", lambda: first.listens(port) or first.poll() is not None, 20)
        if first.poll():
            first.wait(1)
        second = client()
        try:
            return second.wait(timeout)
        except Failed as why:
            raise Failed(f"{why}; its server: {first.said()[-200:]}") from None
        finally:
            second.kill()
    finally:
        with contextlib.suppress(subprocess.TimeoutExpired):
            first.popen.wait(2)  # a server of one client ends by itself
        first.kill()


def netns():
    """A new network namespace's name."""
    if os.geteuid():
        raise Failed("needs root: it makes network namespaces")
    name = unique("ub")
    sh("ip", "netns", "add", name)
    _cleanup.callback(subprocess.run, ["ip", "netns", "del", name], capture_output=True, check=False)
    sh("ip", "-n", name, "link", "set", "lo", "up")
    return name


class Veth:
    """Two namespaces, joined by a veth pair, their ends called eth0: 10.9.0.1 and 10.9.0.2."""

    def __init__(self, mtu):
        self.ns = (netns(), netns())
        self.mtu = mtu
        tmp = (unique("ua"), unique("ub"))
        sh("ip", "link", "add", tmp[0], "mtu", mtu, "type", "veth", "peer", "name", tmp[1], "mtu", mtu)
        for i in (0, 1):
            sh("ip", "link", "set", tmp[i], "netns", self.ns[i], "name", "eth0")
            sh("ip", "-n", self.ns[i], "addr", "add", f"10.9.0.{1 + i}/24", "dev", "eth0")
            sh("ip", "-n", self.ns[i], "link", "set", "eth0", "up")
        self.server_host = "10.9.0.2"

    def remove(self):
        for ns in self.ns:
            subprocess.run(["ip", "netns", "del", ns], capture_output=True, check=False)


class Daemon:
    """A running uroced. vdevs: EAL's --vdev values; devs: --dev values."""

    def __init__(self, vdevs, devs, ns, extra=()):
        self.ns = ns
        self.socket = tmpdir() / "uroced.sock"
        prefix = unique("ub")
        _cleanup.callback(_rmdir, f"/var/run/dpdk/{prefix}")
        argv = [machine.program("uroced"), "--socket", self.socket, "--file-prefix", prefix,
                "--idle", "adaptive", *extra]
        for value in vdevs:
            argv += ["--vdev", value]
        for value in devs:
            argv += ["--dev", value]
        self.argv = [str(a) for a in argv]
        self.proc = Proc(argv, ns)
        until("uroced is ready", self._ready, READY_S)

    def _ready(self):
        if self.proc.poll() is not None:
            raise Failed(f"uroced ended: {self.proc.said()}")
        return "uroced: ready" in self.proc.output() + self.proc.err.read_text(errors="replace")

    def client(self, argv, env=None):
        """Starts a verbs program on this daemon's devices."""
        return Proc([machine.program("uroce-run"), "--socket", self.socket, *argv], self.ns, env)

    def stop(self):
        if self.proc.poll() is None:
            self.proc.popen.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.proc.popen.wait(15)
        self.proc.kill()


def _rmdir(path):
    with contextlib.suppress(OSError):
        os.rmdir(path)


class Local:
    """
    uroce's link within a host: one daemon, one device that talks to itself.
    placed  the worker has the last CPU, both programs the first, as doc/tuning.md says for two
            programs that wait for each other; otherwise the scheduler decides
    """

    def __init__(self, placed=False):
        dev = "name=uroce0,port=net_ring0,addr=10.9.0.101/24,mtu=4096"
        cpus = sorted(os.sched_getaffinity(0))
        placed = placed and len(cpus) > 1
        self.daemon = Daemon(["net_ring0"], [dev], netns(), ("--lcores", cpus[-1]) if placed else ())
        self.before = ("taskset", "-c", str(cpus[0])) if placed else ()
        self.server_host = "127.0.0.1"

    def start(self, argv, env=None):
        """A verbs program on this link."""
        return self.daemon.client([*self.before, *argv], env)

    def close(self):
        self.daemon.stop()
