# SPDX-License-Identifier: BSD-3-Clause
"""Code shared by the system and interop tests beyond test/kit_py: the build's programs, links, TAP."""
import collections
import concurrent.futures
import contextlib
import ctypes
import functools
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "kit_py"))
import processes  # noqa: E402
from processes import Proc, at_end, netns, run_pair, sh, stacks, tcp_port, unique, until, veth  # noqa: E402

BUILD = pathlib.Path(os.environ.get("UROCE_BUILD", HERE.parent.parent / "build")).resolve()
UROCED = BUILD / "app/uroced/uroced"
UROCECTL = BUILD / "app/urocectl/urocectl"
UROCE_RUN = BUILD / "app/uroce-run/uroce-run"
RCDATA = BUILD / "app/uroce-bench/check/rcdata"
SANITIZED = os.environ.get("UROCE_SANITIZED") == "1"  # the provider needs libasan preloaded
SHORT = os.environ.get("UROCE_TEST_SHORT") == "1"  # fewer sizes, for slow (sanitized) builds
FULL = os.environ.get("UROCE_TEST_FULL") == "1"  # every combination of suite programs: minutes
UID = int(os.environ.get("UROCE_TEST_UID", "0"))  # clients run as this user and group; 0: root
# A system call that the daemon's filters lack ends it and fails the test.
SANDBOX = os.environ.get("UROCE_TEST_SANDBOX", "kill")
ANY_WORKERS = ("--workers", os.environ.get("UROCE_TEST_WORKERS", "1"))  # more: test/kit/amplify
ONE_WORKER = ("--workers", "1")
TWO_WORKERS = ("--workers", "2")

if SANITIZED:
    os.environ["LSAN_OPTIONS"] = f"suppressions={HERE / 'lsan.supp'}:print_suppressions=0"

processes.start()


def skip(why):
    """Ends the program as skipped, in meson's format."""
    print(f"1..0 # SKIP {why}")
    sys.exit(0)


def need_root():
    if os.geteuid():
        skip("needs root (network namespaces)")


def tmpdir():
    """A new folder, removed at the end."""
    path = processes.tmpdir()
    if UID:
        path.chmod(0o711)  # clients may reach the socket; its group and mode decide
    return path


@functools.cache
def public_copy():
    """A folder with the programs, the provider and container test programs, at the same paths as in the build.
    Every user can read it; the build may be in a home folder."""
    top = tmpdir()
    top.chmod(0o755)
    for path in ("app/uroced/uroced", "app/uroce-run/uroce-run", "app/urocectl/urocectl", "drivers/verbs/liburoce-rdmav34.so",
                 "drivers/verbs/liburoce-preload.so", "test/system/hugeclient"):
        to = top / path
        to.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        shutil.copy(BUILD / path, to)
        to.chmod(0o755)
    return top


spawn = Proc


@functools.cache
def public_program(name, folder="test/system"):
    """A copy, which every user can run, of a program of a folder of the build."""
    path = public_copy() / name
    shutil.copy(BUILD / folder / name, path)
    path.chmod(0o755)
    return path


def enough(*procs):
    """Ends a transfer: both rcdata stop sending requests and exit after checking all data."""
    for proc in procs:
        proc.popen.send_signal(signal.SIGUSR1)


@contextlib.contextmanager
def entered(ns):
    """This thread in another network namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/self/ns/net", "rb") as home, open(f"/run/netns/{ns}", "rb") as there:
        if libc.setns(there.fileno(), 0):
            raise OSError(ctypes.get_errno(), f"setns {ns}")
        try:
            yield
        finally:
            if libc.setns(home.fileno(), 0):
                raise OSError(ctypes.get_errno(), "setns back")


def raw_socket(ns, iface):
    """A packet socket on an interface of another namespace; sends and receives whole frames."""
    with entered(ns):
        sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        sock.bind((iface, 0))
    return sock


def cmdline(pid):
    """The command line of a process; empty if it has ended."""
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_text(encoding="ascii")
    except OSError:
        return ""


def ping(ns, address, count, *args):
    """Each of these echo requests must get a reply. One program each: `ping -c N` waits only two round trips for the
    last reply."""
    for _ in range(count):
        sh("ping", "-n", "-c", "1", "-W", str(processes.HANGS_S), *args, address, ns=ns)


def mac_of(ns, iface):
    shown = json.loads(sh("ip", "-n", ns, "-j", "link", "show", "dev", iface))
    return shown[0]["address"]


def frames_in(path):
    """Number of frames in a pcap file, which tcpdump may still be writing."""
    data, pos, frames = path.read_bytes() if path.exists() else b"", 24, 0
    while pos + 16 <= len(data):
        pos += 16 + int.from_bytes(data[pos + 8:pos + 12], sys.byteorder)
        frames += pos <= len(data)
    return frames


# --- daemon and clients --------------------------------------------------------------------------

def as_user():
    """Command prefix that runs a client as the configured user."""
    return ["setpriv", "--reuid", UID, "--regid", UID, "--clear-groups"] if UID else []


def asan_env():
    """Environment of a sanitized provider: Debian's client binaries must preload its run-time."""
    if not SANITIZED:
        return {}
    libs = [sh("gcc", f"-print-file-name={name}").strip() for name in ("libasan.so", "libubsan.so")]
    return {"LD_PRELOAD": " ".join(libs), "ASAN_OPTIONS": "detect_leaks=0"}


class Daemon(processes.Daemon):
    """A running uroced of the build. vdevs: EAL --vdev values; devs: --dev values; socket: an earlier daemon's
    socket to reuse; huge: use huge pages; program: replaces the build's uroced; before: command prefix."""

    def __init__(self, vdevs, devs, ns=None, extra=ANY_WORKERS, socket=None, huge=False, program=UROCED, before=()):
        ours = ("--sandbox", SANDBOX) if huge else ("--sandbox", SANDBOX, "--no-huge")
        if UID:
            ours += ("--socket-mode", "0660", "--socket-group", UID)
        super().__init__(program, vdevs, devs, ns, (*ours, *extra), socket or tmpdir() / "uroced.sock", before)

    def ctl(self, *words, rc=0, own=()):
        """Runs `urocectl --json WORDS`, which must end with status rc; own: command prefix. Returns its output, decoded
        (None if there is none), or its message if it must fail."""
        done = subprocess.run([*own, UROCECTL, "--socket", self.socket, "--json", *map(str, words)],
                              text=True, capture_output=True, timeout=processes.HANGS_S)
        if done.returncode != rc:
            self.alive()
        assert done.returncode == rc, f"urocectl {words}: {done.returncode}: {done.stdout}{done.stderr}"
        return done.stderr if rc else json.loads(done.stdout) if done.stdout else None

    def show(self, what):
        return self.ctl("show", what)

    def impair(self, dev, *words):
        """Runs `urocectl impair DEV WORDS`; returns the device's row."""
        return self.ctl("impair", dev, *words)["impair"][0]

    def sockets(self):
        """Number of its open sockets."""
        links = pathlib.Path(f"/proc/{self.proc.pid}/fd").iterdir()
        return sum(os.path.islink(link) and os.readlink(link).startswith("socket:") for link in links)

    def link_up(self):
        return all(device["link"] == "up" for device in self.show("device")["device"])

    def counters(self, what="stats"):
        """The totals of `show stats` or `show drops` over all devices."""
        sums = collections.Counter()
        for device in self.show(what)[what]:
            sums.update(device["total"])
        return dict(sums)

    def objects(self):
        """Number of the daemon's objects by kind: qp, mr, cq, client."""
        return {what: len(self.show(what)[what]) for what in ("qp", "mr", "cq", "client")}

    @contextlib.contextmanager
    def stopped(self):
        """Stops the daemon: what clients do meanwhile becomes ready in this order."""
        self.proc.popen.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.proc.popen.send_signal(signal.SIGCONT)

    def client(self, argv, env=None, before=()):
        """Starts a verbs program on this daemon's devices. before: a command prefix that runs as root."""
        run = public_copy() / "app/uroce-run/uroce-run" if UID else UROCE_RUN
        return Proc([*before, *as_user(), run, "--socket", self.socket, *argv], self.ns,
                    {**asan_env(), **(env or {})})

    def stop(self):
        """Sends SIGTERM: the daemon must end cleanly and remove its socket."""
        self.alive()
        rc = self.proc.term()
        assert rc == 0, f"uroced ended with status {rc} on SIGTERM:\n{self.proc.tail()}"
        assert not self.socket.exists(), "uroced left its socket behind"
        assert not pathlib.Path(f"{self.socket}.sysfs").exists(), "uroced left its counters behind"
        assert "ERROR: AddressSanitizer" not in self.proc.output(), self.proc.tail()
        assert "runtime error:" not in self.proc.output(), self.proc.tail()


def public_socket():
    """A path for the control socket of a daemon (with --socket-mode 0666) that every user can reach."""
    folder = tmpdir()
    folder.chmod(0o711)
    return folder / "uroced.sock"


def public_daemon(*extra, ns=None):
    """A daemon with one device, connected to itself, for every user."""
    return Daemon(["net_ring0"], ["name=uroce0,port=net_ring0,addr=10.9.0.101/24,mtu=4096"], ns or netns(),
                  (*ONE_WORKER, "--socket-mode", "0666", *extra), socket=public_socket())


class Side:
    """One end of a link: the daemon, the device, and the address for TCP connections to its server."""

    def __init__(self, daemon, dev, host):
        self.daemon, self.dev, self.host = daemon, dev, host

    def spawn(self, argv, env=None):
        return self.daemon.client(argv, env)


class Link:
    """Two sides that can reach each other, and the daemons behind them."""

    def __init__(self, kind, a, b, mtu):
        self.kind, self.a, self.b, self.mtu = kind, a, b, mtu
        self.daemons = list(dict.fromkeys((a.daemon, b.daemon)))
        for daemon in self.daemons:  # a memif is up after its peer has connected
            until("the link is up", lambda daemon=daemon: daemon.link_up())

    def nothing_left(self):
        """Waits until no daemon has an object left; TimeoutError if objects remain."""
        for daemon in self.daemons:
            until("no object is left", lambda daemon=daemon: not any(daemon.objects().values()))

    def stop(self):
        for daemon in self.daemons:
            daemon.stop()

    def end(self, what=""):
        """A case: the daemons have no object left and end cleanly. what: the start of its name."""
        with case(f"{what}{': ' if what else ''}nothing is left, the daemons end cleanly"):
            self.nothing_left()
            self.stop()


def af_packet(iface, index=0):
    return (f"net_af_packet{index},iface={iface},blocksz=16384,framesz=8192,framecnt=1024,"
            "qpairs=1,qdisc_bypass=1")


def link_veth(mtu=4096, extra=ANY_WORKERS, more=""):
    """Two daemons in two namespaces, net_af_packet on a veth pair. more: of --dev, such as ",sr=off"."""
    sides = []
    spaces = [netns(), netns()]
    veth(spaces[0], "10.9.0.1/24", spaces[1], "10.9.0.2/24", {4096: 4200, 1024: 1500}[mtu])
    for i, ns in enumerate(spaces):
        dev = f"name=uroce0,port=net_af_packet0,addr=10.9.0.{101 + i}/24,mtu={mtu}{more}"
        daemon = Daemon([af_packet("eth0")], [dev], ns, extra)
        sides.append(Side(daemon, "uroce0", f"10.9.0.{1 + i}"))
    return Link("veth", *sides, mtu)


def link_memif(extra=ANY_WORKERS, more=""):
    """Two daemons joined by memif."""
    sides = []
    ns, path = netns(), tmpdir() / "memif.sock"
    for i, role in enumerate(("server", "client")):
        vdev = f"net_memif0,role={role},socket={path},socket-abstract=no,bsize=4608"
        dev = f"name=uroce0,port=net_memif0,addr=10.9.0.{101 + i}/24,mtu=4096{more}"
        sides.append(Side(Daemon([vdev], [dev], ns, extra), "uroce0", "127.0.0.1"))
    return Link("memif", *sides, 4096)


def link_ring(extra=ANY_WORKERS, huge=False, addr6=False, more=""):
    """One daemon with two devices joined by rings in memory."""
    six = ",addr=fd00::{}/64" if addr6 else ""
    devs = [f"name=uroce{i},port=net_ring_pair{end},addr=10.9.0.{101 + i}/24,mtu=4096{six.format(101 + i)}{more}"
            for i, end in enumerate("ab")]
    daemon = Daemon([], devs, netns(), ("--pair", "pair", *extra), huge=huge)
    return Link("ring", Side(daemon, "uroce0", "127.0.0.1"), Side(daemon, "uroce1", "127.0.0.1"),
                4096)


def link_loop(extra=ANY_WORKERS):
    """One device connected to itself."""
    dev = "name=uroce0,port=net_ring0,addr=10.9.0.101/24,mtu=4096"
    side = Side(Daemon(["net_ring0"], [dev], netns(), extra), "uroce0", "127.0.0.1")
    return Link("loop", side, side, 4096)


LINKS = {"veth": link_veth, "memif": link_memif, "ring": link_ring, "loop": link_loop}


# --- client and server ---------------------------------------------------------------------------

def logs(*sides):
    """The last lines of the daemons of these sides, for the report of a failure."""
    daemons = dict.fromkeys(side.daemon for side in sides)
    return "\n".join(f"--- its daemon {daemon.proc.pid}:\n{daemon.proc.tail(1000)}" for daemon in daemons)


def verbs_pair(server, client, tool, args=(), *, server_args=None, timeout=processes.HANGS_S):
    """Runs a verbs program between two sides: server side, client side. Replaces {dev} in args. The server gets
    server_args instead of args, if given. Both must end with status 0."""
    port = tcp_port()

    def argv(side, given):
        return [tool, *(str(a).replace("{dev}", side.dev) for a in given), "-p", str(port)]

    try:
        return run_pair(
            lambda: server.spawn(argv(server, args if server_args is None else server_args)),
            lambda: client.spawn([*argv(client, args), server.host]),
            port, timeout).good()
    except (processes.Failed, TimeoutError) as failed:
        raise type(failed)(f"{failed}\n{logs(server, client)}") from None


def groups(link, group, index):
    """Datagrams to a multicast group cross the link and reach its member, each once (groups.c); index: of the sender's
    GID."""
    program = public_program("groups")
    receiver = link.b.spawn([program, "recv", link.b.dev, group])
    until("it has joined", lambda: "joined" in receiver.output() or receiver.poll() is not None)
    sender = link.a.spawn([program, "send", link.a.dev, group, index])
    try:
        receiver.result(processes.HANGS_S)
    finally:
        sender.kill()


# --- TAP output ----------------------------------------------------------------------------------

_cases = []


@contextlib.contextmanager
def case(name):
    """One test. An exception fails it and is printed; the next test still runs."""
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


def skip_case(name, why):
    """Counts one test as skipped."""
    _cases.append("ok")
    print(f"ok {len(_cases)} - {name} # SKIP {why}", flush=True)


def cases_beside(lanes, cases):
    """Runs tests in parallel, because they mostly wait. cases: (name, function)"""
    with concurrent.futures.ThreadPoolExecutor(lanes) as pool:
        for name, run in [(name, pool.submit(call)) for name, call in cases]:
            with case(name):
                run.result()


def tap(prog, what, timeout=10 * processes.HANGS_S):
    """Turns the TAP lines of a test program into cases; the program must also end with status 0."""
    rc = prog.wait(timeout)
    notes = []
    for line in prog.output().splitlines():
        if re.match(r"(not )?ok \d+ - ", line):
            with case(f"{what}: {line.split(' - ', 1)[1]}"):
                assert line.startswith("ok"), "\n".join(notes)
            notes = []
        else:
            notes.append(line)
    with case(f"{what}: the program succeeded"):
        assert rc == 0, f"ended with {rc}:\n{prog.tail()}"


def finish():
    """Prints the plan and ends the program."""
    print(f"1..{len(_cases)}")
    sys.exit(0 if _cases and all(v == "ok" for v in _cases) else 1)
