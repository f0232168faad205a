# SPDX-License-Identifier: BSD-3-Clause
"""What the system and interop tests share: processes, network namespaces, daemons, links, TAP.

Everything made here is removed at the end of the program, however it ends (but SIGKILL): names
carry the pid, and only processes that were started here are ever signalled.
"""
import atexit
import collections
import concurrent.futures
import contextlib
import ctypes
import functools
import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ.get("UROCE_BUILD", HERE.parent.parent / "build")).resolve()
UROCED = BUILD / "app/uroced/uroced"
UROCECTL = BUILD / "app/urocectl/urocectl"
UROCE_RUN = BUILD / "app/uroce-run/uroce-run"
RCDATA = BUILD / "test/system/rcdata/rcdata"
SANITIZED = os.environ.get("UROCE_SANITIZED") == "1"  # the provider needs libasan preloaded
SHORT = os.environ.get("UROCE_TEST_SHORT") == "1"  # fewer sizes, for slow (sanitized) builds
FULL = os.environ.get("UROCE_TEST_FULL") == "1"  # every combination of suite programs: minutes
UID = int(os.environ.get("UROCE_TEST_UID", "0"))  # clients run as this user and group; 0: root
READY_S = 30
ONE_WORKER = ()
TWO_WORKERS = ("--workers", "2")

_cleanup = contextlib.ExitStack()
_serial = itertools.count()
_ports = itertools.count(18000 + os.getpid() % 1000 * 10)

atexit.register(_cleanup.close)
for _sig in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(_sig, lambda sig, frame: sys.exit(128 + sig))


def unique(stem):
    """A name nobody else uses; at most 15 characters if stem has at most 3."""
    return f"{stem}{os.getpid()}x{next(_serial)}"


def tcp_port():
    """A TCP port number not used by another test of this run."""
    return next(_ports)


def skip(why):
    """Ends the program as skipped, as meson understands it."""
    print(f"1..0 # SKIP {why}")
    sys.exit(0)


def need_root():
    if os.geteuid():
        skip("needs root (network namespaces)")


def tmpdir():
    """A new folder, removed at the end."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="uroce-test-"))
    if UID:
        path.chmod(0o711)  # its clients reach the socket, whose group and mode decide
    _cleanup.callback(shutil.rmtree, path, ignore_errors=True)
    return path


@functools.cache
def public_copy():
    """A folder with the programs, the provider and what tests run in containers, in the places that
    they have in the build, where every user can read them: the build may be in a home folder."""
    top = tmpdir()
    top.chmod(0o755)
    for path in ("app/uroce-run/uroce-run", "app/urocectl/urocectl",
                 "drivers/verbs/liburoce-rdmav34.so", "test/system/hugeclient"):
        to = top / path
        to.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        shutil.copy(BUILD / path, to)
        to.chmod(0o755)
    return top


def rmdir_if_there(path):
    with contextlib.suppress(OSError):
        os.rmdir(path)


def sh(*argv, ns=None):
    """Runs a set-up command; raises with its output if it fails."""
    argv = ["ip", "netns", "exec", ns, *argv] if ns else argv
    done = subprocess.run([str(a) for a in argv], text=True, capture_output=True, timeout=60)
    if done.returncode:
        raise RuntimeError(f"{argv}: {done.stdout}{done.stderr}")
    return done.stdout


# --- processes -----------------------------------------------------------------------------------

class Proc:
    """
    A process with its output in a file. Dies with the test. A process group of its own, not a
    session: the scheduler groups by session, and sched_yield would not reach the daemon.
    """

    def __init__(self, argv, ns=None, env=None):
        argv = [str(a) for a in argv]
        self.argv = argv
        if ns:
            argv = ["ip", "netns", "exec", ns, *argv]
        self.log = tmpdir() / "out"
        with open(self.log, "wb") as out:
            self.popen = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                process_group=0, env={**os.environ, **(env or {})})
        self.pid = self.popen.pid
        _cleanup.callback(self.kill)

    def poll(self):
        return self.popen.poll()

    def wait(self, timeout):
        """Exit status (negative: signal); TimeoutError after timeout seconds."""
        try:
            return self.popen.wait(timeout)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"{self.argv}: no end after {timeout} s:\n{self.tail()}") from None

    def output(self):
        return self.log.read_text(errors="replace")

    def tail(self, n=2500):
        return self.output()[-n:]

    def term(self, timeout=15):
        if self.poll() is None:
            self.popen.terminate()
        return self.wait(timeout)

    def kill(self):
        """SIGKILL for it and everything that it started."""
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


def spawn(argv, ns=None, env=None):
    return Proc(argv, ns, env)


def enough(*procs):
    """rcdata on both ends of a transfer: no more requests, and an end once all is checked."""
    for proc in procs:
        proc.popen.send_signal(signal.SIGUSR1)


def until(what, check, timeout=10, every=0.02):
    """Waits until check() gives something true and returns it."""
    end = time.monotonic() + timeout
    while True:
        value = check()
        if value:
            return value
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {timeout} s")
        time.sleep(every)


# --- network -------------------------------------------------------------------------------------

def netns():
    """Makes a network namespace; returns its name."""
    name = unique("ur")
    sh("ip", "netns", "add", name)
    _cleanup.callback(subprocess.run, ["ip", "netns", "del", name], capture_output=True)
    sh("ip", "-n", name, "link", "set", "lo", "up")
    # uroced shares the interface's MAC: a kernel with the link-local address that follows from it
    # would answer for uroced's GID 0
    sh("sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1", "net.ipv4.ip_forward=0", ns=name)
    return name


def veth(ns_a, addr_a, ns_b, addr_b, mtu):
    """Joins two namespaces by eth0 - eth0; the kernels get the addresses (with prefix length)."""
    tmp_a, tmp_b = unique("va"), unique("vb")
    sh("ip", "link", "add", tmp_a, "mtu", str(mtu), "type", "veth",
       "peer", "name", tmp_b, "mtu", str(mtu))
    for tmp, ns, addr in ((tmp_a, ns_a, addr_a), (tmp_b, ns_b, addr_b)):
        sh("ip", "link", "set", tmp, "netns", ns, "name", "eth0")
        sh("ip", "-n", ns, "addr", "add", addr, "dev", "eth0")
        sh("ip", "-n", ns, "link", "set", "eth0", "up")


def raw_socket(ns, iface):
    """A packet socket on an interface of another namespace: sends and receives whole frames."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/self/ns/net", "rb") as home, open(f"/run/netns/{ns}", "rb") as there:
        if libc.setns(there.fileno(), 0):
            raise OSError(ctypes.get_errno(), f"setns {ns}")
        try:
            sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
            sock.bind((iface, 0))
        finally:
            if libc.setns(home.fileno(), 0):
                raise OSError(ctypes.get_errno(), "setns back")
    return sock


def mac_of(ns, iface):
    shown = json.loads(sh("ip", "-n", ns, "-j", "link", "show", "dev", iface))
    return shown[0]["address"]


# --- daemon and clients --------------------------------------------------------------------------

def as_user():
    """What stands before a client's command line to make it run as the user it shall run as."""
    return ["setpriv", "--reuid", UID, "--regid", UID, "--clear-groups"] if UID else []


def asan_env():
    """Clients are Debian's own binaries: a sanitized provider needs its run-time preloaded."""
    if not SANITIZED:
        return {}
    libs = [sh("gcc", f"-print-file-name={name}").strip() for name in ("libasan.so", "libubsan.so")]
    return {"LD_PRELOAD": " ".join(libs), "ASAN_OPTIONS": "detect_leaks=0"}


class Daemon:
    """A running uroced. vdevs: EAL --vdev values; devs: --dev values; socket: of one before it;
    huge: on huge pages."""

    def __init__(self, vdevs, devs, ns=None, extra=ONE_WORKER, socket=None, huge=False):
        self.ns = ns
        self.socket = socket or tmpdir() / "uroced.sock"
        prefix = unique("ur")
        argv = [UROCED, "--socket", self.socket, "--file-prefix", prefix, "--idle", "adaptive"]
        if not huge:
            argv.append("--no-huge")
        if UID:
            argv += ["--socket-mode", "0660", "--socket-group", UID]
        self.vdevs, self.devs = vdevs, devs
        # a daemon that a test kills cannot take EAL's empty folder away
        _cleanup.callback(rmdir_if_there, f"/var/run/dpdk/{prefix}")
        for value in vdevs:
            argv += ["--vdev", value]
        for value in devs:
            argv += ["--dev", value]
        self.proc = Proc([*argv, *extra], ns)
        until("uroced: ready", self._ready, READY_S)

    def _ready(self):
        self.alive()
        return any(line.startswith("uroced: ready") for line in self.proc.output().splitlines())

    def alive(self):
        rc = self.proc.poll()
        assert rc is None, f"uroced ended with status {rc}:\n{self.proc.tail()}"

    def show(self, what):
        """`urocectl --json show WHAT`, decoded."""
        done = subprocess.run([UROCECTL, "--socket", self.socket, "--json", "show", what],
                              text=True, capture_output=True, timeout=20)
        if done.returncode:
            self.alive()
        assert done.returncode == 0, f"urocectl show {what}: {done.stdout}{done.stderr}"
        return json.loads(done.stdout)

    def link_up(self):
        return all(device["link"] == "up" for device in self.show("device")["device"])

    def counters(self, what="stats"):
        """The totals under `show stats` or `show drops`, all devices together."""
        sums = collections.Counter()
        for device in self.show(what)[what]:
            sums.update(device["total"])
        return dict(sums)

    def objects(self):
        """How many qp, mr, cq and client objects the daemon has, by kind."""
        return {what: len(self.show(what)[what]) for what in ("qp", "mr", "cq", "client")}

    def client(self, argv, env=None):
        """Starts a verbs program on this daemon's devices."""
        run = public_copy() / "app/uroce-run/uroce-run" if UID else UROCE_RUN
        return Proc([*as_user(), run, "--socket", self.socket, *argv], self.ns,
                    {**asan_env(), **(env or {})})

    def stop(self):
        """SIGTERM must end it cleanly and leave no socket behind."""
        self.alive()
        rc = self.proc.term()
        assert rc == 0, f"uroced ended with status {rc} on SIGTERM:\n{self.proc.tail()}"
        assert not self.socket.exists(), "uroced left its socket behind"
        assert not pathlib.Path(f"{self.socket}.sysfs").exists(), "uroced left its counters behind"
        assert "ERROR: AddressSanitizer" not in self.proc.output(), self.proc.tail()
        assert "runtime error:" not in self.proc.output(), self.proc.tail()


class Side:
    """One end of a link: where a program runs, on which device, and how the other end reaches
    its TCP server."""

    def __init__(self, daemon, dev, host):
        self.daemon, self.dev, self.host = daemon, dev, host

    def spawn(self, argv, env=None):
        return self.daemon.client(argv, env)


class Link:
    """Two sides that can reach each other, and the daemons behind them."""

    def __init__(self, kind, a, b, mtu):
        self.kind, self.a, self.b, self.mtu = kind, a, b, mtu
        self.daemons = list(dict.fromkeys((a.daemon, b.daemon)))
        for daemon in self.daemons:  # a memif is up when its peer has come
            until("the link is up", lambda daemon=daemon: daemon.link_up())

    def nothing_left(self):
        """Waits until no daemon has an object left; TimeoutError if one keeps some."""
        for daemon in self.daemons:
            until("no object is left", lambda daemon=daemon: not any(daemon.objects().values()))

    def stop(self):
        for daemon in self.daemons:
            daemon.stop()


def af_packet(iface, index=0):
    return (f"net_af_packet{index},iface={iface},blocksz=16384,framesz=8192,framecnt=1024,"
            "qpairs=1,qdisc_bypass=1")


def link_veth(mtu=4096, extra=ONE_WORKER):
    """Two daemons in two namespaces, net_af_packet on a veth pair."""
    sides = []
    spaces = [netns(), netns()]
    veth(spaces[0], "10.9.0.1/24", spaces[1], "10.9.0.2/24", {4096: 4200, 1024: 1500}[mtu])
    for i, ns in enumerate(spaces):
        dev = f"name=uroce0,port=net_af_packet0,addr=10.9.0.{101 + i}/24,mtu={mtu}"
        daemon = Daemon([af_packet("eth0")], [dev], ns, extra)
        sides.append(Side(daemon, "uroce0", f"10.9.0.{1 + i}"))
    return Link("veth", *sides, mtu)


def link_memif(extra=ONE_WORKER):
    """Two daemons joined by shared memory."""
    sides = []
    ns, path = netns(), tmpdir() / "memif.sock"
    for i, role in enumerate(("server", "client")):
        vdev = f"net_memif0,role={role},socket={path},socket-abstract=no,bsize=4608"
        dev = f"name=uroce0,port=net_memif0,addr=10.9.0.{101 + i}/24,mtu=4096"
        sides.append(Side(Daemon([vdev], [dev], ns, extra), "uroce0", "127.0.0.1"))
    return Link("memif", *sides, 4096)


def link_ring(extra=ONE_WORKER, huge=False):
    """One daemon with two devices joined in memory by rings."""
    devs = [f"name=uroce{i},port=net_ring_pair{end},addr=10.9.0.{101 + i}/24,mtu=4096"
            for i, end in enumerate("ab")]
    daemon = Daemon([], devs, netns(), ("--pair", "pair", *extra), huge=huge)
    return Link("ring", Side(daemon, "uroce0", "127.0.0.1"), Side(daemon, "uroce1", "127.0.0.1"),
                4096)


def link_loop(extra=ONE_WORKER):
    """One device talking to itself."""
    dev = "name=uroce0,port=net_ring0,addr=10.9.0.101/24,mtu=4096"
    side = Side(Daemon(["net_ring0"], [dev], netns(), extra), "uroce0", "127.0.0.1")
    return Link("loop", side, side, 4096)


LINKS = {"veth": link_veth, "memif": link_memif, "ring": link_ring, "loop": link_loop}


# --- client and server ---------------------------------------------------------------------------

class Pair:
    """What a server and its client did."""

    def __init__(self, server, client, rcs):
        self.server, self.client, (self.server_rc, self.client_rc) = server, client, rcs

    def good(self):
        """Raises with both outputs unless both ended with status 0."""
        assert (self.server_rc, self.client_rc) == (0, 0), (
            f"server {self.server_rc}, client {self.client_rc}\n"
            f"--- server:\n{self.server.output()[-1500:]}\n"
            f"--- client:\n{self.client.output()[-1500:]}")
        return self


def run_pair(start_server, start_client, port, timeout=60):
    """Starts a server, its client once the server listens on port, and waits for both."""
    server = start_server()
    try:
        until(f"the server listens on port {port}",
              lambda: server.listens(port) or server.poll() is not None, timeout=30)
        client = start_client()
        try:
            client_rc = client.wait(timeout)
            return Pair(server, client, (server.wait(10), client_rc))
        except TimeoutError as late:
            raise TimeoutError(f"{late}\n--- server:\n{server.output()[-1500:]}\n"
                               f"--- client:\n{client.output()[-1500:]}") from None
        finally:
            client.kill()
    finally:
        server.kill()


def verbs_pair(server, client, tool, args=(), *, server_args=None, timeout=60):
    """Runs a verbs program between two sides: server side, client side. {dev} in args is replaced;
    server_args, if given, is what the server gets instead of args. Both must end well."""
    port = tcp_port()

    def argv(side, given):
        return [tool, *(str(a).replace("{dev}", side.dev) for a in given), "-p", str(port)]

    return run_pair(
        lambda: server.spawn(argv(server, args if server_args is None else server_args)),
        lambda: client.spawn([*argv(client, args), server.host]),
        port, timeout).good()


# --- TAP output ----------------------------------------------------------------------------------

_cases = []


@contextlib.contextmanager
def case(name):
    """One test: what it raises makes it fail and is printed; the next one runs all the same."""
    start = time.monotonic()
    verdict = "ok"
    try:
        yield
    except Exception:  # pylint: disable=broad-except
        verdict = "not ok"
        for line in traceback.format_exc().splitlines():
            print(f"# {line}")
    _cases.append(verdict)
    print(f"{verdict} {len(_cases)} - {name} ({time.monotonic() - start:.1f} s)", flush=True)


def cases_beside(lanes, cases):
    """Tests that wait most of their time, so many at once. cases: (name, function)"""
    with concurrent.futures.ThreadPoolExecutor(lanes) as pool:
        for name, run in [(name, pool.submit(call)) for name, call in cases]:
            with case(name):
                run.result()


def tap(prog, what, timeout):
    """Takes over the TAP lines of a program of ours, one case each; it must end well, too."""
    rc = prog.wait(timeout)
    notes = []
    for line in prog.output().splitlines():
        if re.match(r"(not )?ok \d+ - ", line):
            with case(f"{what}: {line.split(' - ', 1)[1]}"):
                assert line.startswith("ok"), "\n".join(notes)
            notes = []
        else:
            notes.append(line)
    with case(f"{what}: the program ended well"):
        assert rc == 0, f"ended with {rc}:\n{prog.tail()}"


def finish():
    """Prints the plan and ends the program."""
    print(f"1..{len(_cases)}")
    sys.exit(0 if _cases and all(v == "ok" for v in _cases) else 1)
