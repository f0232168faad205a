# SPDX-License-Identifier: BSD-3-Clause
"""Processes, network namespaces, veth pairs and daemons, for the system and interop tests and for uroce-bench's
Python modes, which install this file.

The program's end removes everything made here, except after SIGKILL. Names contain the pid. Only processes started
here get signals.
"""
import atexit
import contextlib
import functools
import itertools
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HANGS_S = 300  # only ends a hang: nothing that works takes so long, even on a machine twenty times slower

_cleanup = contextlib.ExitStack()
_serial = itertools.count()
_ports = itertools.count(18000 + os.getpid() % 1000 * 10)


class Failed(RuntimeError):
    """A command or program failed; the message contains its output."""


def start():
    """Call once: arranges the clean-up at exit and on SIGTERM, SIGINT and SIGHUP."""
    atexit.register(_cleanup.close)
    for sig in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(sig, lambda number, frame: sys.exit(128 + number))


def at_end(call, *args):
    """Calls call(*args) before the program ends, in reverse order of registration."""
    _cleanup.callback(call, *args)


def unique(stem):
    """A unique name; at most 15 characters if stem has at most 3."""
    return f"{stem}{os.getpid()}x{next(_serial)}"


def tcp_port():
    """A TCP port number that this program has not used."""
    return next(_ports)


@functools.cache
def ucx_perftest():
    """Its command line. With MPI, as Debian 13's, it takes an input that is no terminal for the work of mpirun."""
    name = "ucx_perftest"
    shown = shutil.which(name) and subprocess.run([name, "-h"], text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                                  stderr=subprocess.STDOUT, check=False, timeout=60).stdout
    return (name, "-P", "0") if shown and "MPI mode" in shown else (name,)


def tmpdir():
    """A new folder, removed at the end."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="uroce-kit-"))
    _cleanup.callback(shutil.rmtree, path, ignore_errors=True)
    return path


def sh(*argv, ns=None, timeout=120):
    """Runs a set-up command and returns its output. Raises Failed with the output on failure."""
    argv = [str(a) for a in (["ip", "netns", "exec", ns, *argv] if ns else argv)]
    try:
        done = subprocess.run(argv, text=True, capture_output=True, timeout=timeout, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failed(f"{argv[0]}: {error}") from None
    if done.returncode:
        raise Failed(f"{' '.join(argv)}: {(done.stdout + done.stderr).strip()}")
    return done.stdout


def until(what, check, timeout=HANGS_S, every=0.02):
    """Waits until check() returns a true value and returns it; TimeoutError after timeout seconds."""
    end = time.monotonic() + timeout
    while True:
        value = check()
        if value:
            return value
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {timeout} s")
        time.sleep(every)


ON_A_DESCRIPTOR = ("0", "1", "45", "47", "232", "281")  # read, write, recvfrom, recvmsg, epoll_wait, epoll_pwait


def waits(pid):
    """What each thread of a hung process waits for, a line each: system call, its first argument if that is a
    descriptor, and the kernel function."""
    lines = []
    for task in sorted(pathlib.Path(f"/proc/{pid}/task").glob("*")):
        with contextlib.suppress(OSError):
            call = (task / "syscall").read_text().split()
            name = (task / "comm").read_text().strip()
            fd = task / "fd" / str(int(call[1], 16)) if call[0] in ON_A_DESCRIPTOR else task
            file = f" ({os.readlink(fd)})" if fd.is_symlink() else ""
            lines.append(f"thread {task.name} {name}: {(task / 'wchan').read_text()}, system call "
                         f"{' '.join(call[:7])}{file}")
    return "\n".join(lines)


def stacks(pid):
    """The stacks of a hung process's threads; empty without gdb."""
    if not shutil.which("gdb"):
        return ""
    return subprocess.run(["gdb", "-batch", "-p", str(pid), "-ex", "thread apply all bt 12"], text=True,
                          capture_output=True, timeout=60, check=False).stdout


class Proc:
    """
    A process with its output in a file; standard error goes to the same file or, if apart, to another. The end of
    the program kills it. It has a separate process group and, if own_session, a separate session: the scheduler
    groups by session, and a yield reaches only threads of the same group. Its standard input is empty or, if terminal,
    a terminal at which nobody types.
    """

    def __init__(self, argv, ns=None, env=None, apart=False, own_session=False, terminal=False):
        self.argv = [str(a) for a in argv]
        argv = ["ip", "netns", "exec", ns, *self.argv] if ns else self.argv
        folder = tmpdir()
        self.logs = [folder / name for name in (("out", "err") if apart else ("out",))]
        with contextlib.ExitStack() as logs:
            out, *err = [logs.enter_context(open(path, "wb")) for path in self.logs]
            stdin = subprocess.DEVNULL
            if terminal:
                keyboard, stdin = os.openpty()
                _cleanup.callback(os.close, keyboard)
                logs.callback(os.close, stdin)
            try:
                self.popen = subprocess.Popen(
                    argv, stdin=stdin, stdout=out, stderr=err[0] if apart else subprocess.STDOUT,
                    process_group=None if own_session else 0, start_new_session=own_session,
                    env={**os.environ, **(env or {})})
            except OSError as error:
                raise Failed(f"{argv[0]}: {error.strerror}") from None
        self.pid = self.popen.pid
        _cleanup.callback(self.kill)

    def poll(self):
        return self.popen.poll()

    def wait(self, timeout):
        """Exit status (negative: signal); TimeoutError after timeout seconds."""
        try:
            return self.popen.wait(timeout)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"{self.argv}: no end after {timeout} s:\n{self.tail()}\n{waits(self.pid)}") from None

    def output(self):
        """Standard output so far; includes standard error unless apart."""
        return self.logs[0].read_text(errors="replace")

    def tail(self, n=2500):
        """The end of its output."""
        return "".join(path.read_text(errors="replace") for path in self.logs).strip()[-n:]

    def result(self, timeout):
        """Its output after a successful end; else Failed, or TimeoutError after killing it."""
        try:
            rc = self.wait(timeout)
        finally:
            self.kill()
        if rc:
            raise Failed(f"{' '.join(self.argv[:8])}: status {rc}: {self.tail(600)}")
        return self.output()

    def term(self, timeout=HANGS_S):
        """Sends SIGTERM; returns the exit status."""
        if self.poll() is None:
            self.popen.terminate()
        return self.wait(timeout)

    def kill(self):
        """Sends SIGKILL to its process group."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            self.popen.wait()

    def listens(self, port):
        """Whether a process in its network namespace listens on this TCP port."""
        for table in ("tcp", "tcp6"):
            with contextlib.suppress(OSError):
                for line in pathlib.Path(f"/proc/{self.pid}/net/{table}").read_text().splitlines():
                    field = line.split()
                    if field[3:4] == ["0A"] and int(field[1].rsplit(":", 1)[1], 16) == port:
                        return True
        return False


def netns():
    """Makes a network namespace; returns its name."""
    if os.geteuid():
        raise Failed("needs root: it makes network namespaces")
    name = unique("ur")
    sh("ip", "netns", "add", name)
    at_end(remove_netns, name)
    sh("ip", "-n", name, "link", "set", "lo", "up")
    # uroced shares the interface's MAC. With IPv6 the kernel would have the link-local address of uroced's GID 0
    # and would answer for it.
    sh("sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1", "net.ipv4.ip_forward=0", ns=name)
    return name


def remove_netns(name):
    """Removes the namespace before the end of the program. No error if it does not exist."""
    subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


def veth(ns_a, addr_a, ns_b, addr_b, mtu):
    """Joins two namespaces by a veth pair: eth0 on both sides, with these addresses (with prefix length)."""
    tmp_a, tmp_b = unique("va"), unique("vb")
    sh("ip", "link", "add", tmp_a, "mtu", mtu, "type", "veth", "peer", "name", tmp_b, "mtu", mtu)
    for tmp, ns, addr in ((tmp_a, ns_a, addr_a), (tmp_b, ns_b, addr_b)):
        sh("ip", "link", "set", tmp, "netns", ns, "name", "eth0")
        sh("ip", "-n", ns, "addr", "add", addr, "dev", "eth0")
        sh("ip", "-n", ns, "link", "set", "eth0", "up")


class Daemon:
    """A running uroced, ready for clients. program: its path; vdevs: EAL's --vdev values; devs: --dev values; ns:
    its network namespace (default: the machine's); extra: more options; socket: an earlier daemon's socket to
    reuse; before: command prefix. It has its own session, as a daemon of systemd has: yields do not reach clients."""

    def __init__(self, program, vdevs, devs, ns=None, extra=(), socket=None, before=()):
        self.ns, self.vdevs, self.devs = ns, vdevs, devs
        self.socket = socket or tmpdir() / "uroced.sock"
        prefix = unique("ur")
        # It leaves EAL's empty folder behind.
        at_end(_rmdir_if_there, f"/var/run/dpdk/{prefix}")
        argv = [*before, program, "--socket", self.socket, "--file-prefix", prefix, "--idle", "adaptive"]
        for value in vdevs:
            argv += ["--vdev", value]
        for value in devs:
            argv += ["--dev", value]
        self.proc = Proc([*argv, *extra], ns, own_session=True)
        until("uroced: ready", self._ready)

    def _ready(self):
        self.alive()
        return any(line.startswith("uroced: ready") for line in self.proc.output().splitlines())

    def alive(self):
        """Raises Failed with the end of its output if it has ended."""
        rc = self.proc.poll()
        if rc is not None:
            raise Failed(f"uroced ended with status {rc}:\n{self.proc.tail()}")


def _rmdir_if_there(path):
    for left in pathlib.Path(path).glob("dpdk_telemetry*"):  # of a killed daemon
        left.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        os.rmdir(path)


class Pair:
    """A server and its client after both have ended."""

    def __init__(self, server, client, rcs):
        self.server, self.client, (self.server_rc, self.client_rc) = server, client, rcs

    def good(self):
        """Raises Failed with both outputs unless both statuses are 0."""
        if (self.server_rc, self.client_rc) != (0, 0):
            raise Failed(f"server {self.server_rc}, client {self.client_rc}\n{_both(self.server, self.client)}")
        return self


def _both(server, client):
    return f"--- server:\n{server.tail(1500)}\n--- client:\n{client.tail(1500)}"


def run_pair(start_server, start_client, port, timeout=HANGS_S):
    """Starts a server and, once it listens on port, its client; waits for both."""
    server = start_server()
    try:
        until(f"the server listens on port {port}",
              lambda: server.listens(port) or server.poll() is not None)
        client = start_client()
        try:
            client_rc = client.wait(timeout)
            return Pair(server, client, (server.wait(HANGS_S), client_rc))
        except TimeoutError as late:
            raise TimeoutError(f"{late}\n{_both(server, client)}") from None
        finally:
            client.kill()
    finally:
        server.kill()
