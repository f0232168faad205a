#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Daemons, their brokers and clients are killed at random instants under load, or stopped, or short of memory. Each work
request completes once (survivor.c), the others go on, and nothing stays: no object, descriptor, process, route, interface
or file.

    test_crashes.py [WHAT..]    daemons, brokers, clients, stopped, without, memory; default: all

UROCE_KILLS: daemons and brokers to kill, and a fifth of the clients; default 3. UROCE_KILLS_FROM: the first, to resume;
each has its own seed, which its name tells."""
import contextlib
import json
import os
import pathlib
import random
import signal
import socket
import struct
import sys
import threading
import time

import control
import lib
from test_badinput import transfer
from test_daemon_lost import SHAPES, SURVIVOR, daemon, said, survive

KILLS = int(os.environ.get("UROCE_KILLS", 3))
FROM = int(os.environ.get("UROCE_KILLS_FROM", 1))
CLIENTS = 5  # killed in each round
STORM = lib.BUILD / "test/system/storm/storm"
RSS_KIB = 8192  # that a daemon may grow, at most, in the second half of many kills
MANY = 20
CGROUPS = pathlib.Path("/sys/fs/cgroup/memory")
SPARE_BYTES = 6 << 20
OTHER = 65534
LEFT, SLACK = 64, 8  # connections that the daemon keeps for the next broker (LEFT_MAX); descriptors for other reasons


def seeded(what, kill):
    """Seeds all random choices of this kill, those of survive() too."""
    random.seed(f"{what} {kill}")
    return random


def rounds(what):
    for kill in range(FROM, KILLS + 1):
        yield kill, f"{what}, kill {kill} of {KILLS}", seeded(what, kill)


def family(pid):
    """A process and its descendants."""
    found = [pid]
    for parent in found:
        for path in pathlib.Path(f"/proc/{parent}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                found += [int(child) for child in path.read_text().split()]
    return found


def running(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def broker_of(served):
    return next((pid for pid in family(served.proc.pid) if "broker" in lib.cmdline(pid)), None)


def kernel(ns):
    """What the kernel holds of a daemon in its namespace: interfaces, routes, neighbours."""
    return [json.loads(lib.sh("ip", "-n", ns, "-j", *what) or "[]")
            for what in (("link",), ("route", "show", "table", "all"), ("neigh",))]


def descriptors(served):
    return len(os.listdir(f"/proc/{served.proc.pid}/fd"))


def resident(served):
    status = pathlib.Path(f"/proc/{served.proc.pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))


def workers(rng):
    return rng.choice((lib.ONE_WORKER, lib.TWO_WORKERS))


def goes_on(served, progs):
    """Waits until the queue pairs of these programs have received more messages."""
    def count():
        for prog in progs:
            assert prog.poll() is None, f"{prog.argv} ended with {prog.poll()}:\n{prog.tail()}"
        return [qp["msn"] for qp in served.show("qp")["qp"] if qp["pid"] in {prog.pid for prog in progs}]
    before = lib.until("they have queue pairs", count)
    lib.until("messages arrive", lambda: all(a != b for a, b in zip(before, count())))


def complete(progs):
    with lib.case("the transfer beside is complete"):
        lib.enough(*progs)
        for prog in progs:
            assert prog.wait(lib.processes.HANGS_S) == 0, prog.tail()


def last(served):
    with lib.case("nothing is left, and the daemon ends cleanly"):
        lib.until("no object is left", lambda: not any(served.objects().values()))
        there = family(served.proc.pid)
        served.stop()
        lib.until("its processes have ended", lambda: not any(map(running, there)))
        assert not list(served.socket.parent.iterdir()), list(served.socket.parent.iterdir())


def daemons():
    """CQE-15: clients complete each work request once; the next daemon finds nothing of the one before."""
    ns = lib.netns()
    empty = kernel(ns)
    served = daemon(lib.ONE_WORKER, ns=ns)
    for kill, name, rng in rounds("daemon"):
        with lib.case(name):
            shape, extra = rng.choice(list(SHAPES)), workers(rng)
            print(f"# {shape}, {len(extra) and 2 or 1} workers")
            there = family(served.proc.pid)
            with open(f"/proc/{os.getpid()}/mountinfo", encoding="ascii") as file:
                mounts = file.read().count(str(served.socket.parent))
            served = survive(served, SHAPES[shape], extra, signal.SIGKILL)
            lib.until("its processes have ended", lambda t=there: not any(map(running, t)))
            lib.until("no object is left", lambda d=served: not any(d.objects().values()))
            assert kernel(ns) == empty, (kernel(ns), empty)
            with open(f"/proc/{os.getpid()}/mountinfo", encoding="ascii") as file:
                assert file.read().count(str(served.socket.parent)) == mounts
        if served.proc.poll() is not None:  # the case failed half way
            served = daemon(lib.ONE_WORKER, served.socket, ns)
    last(served)


class Registering(threading.Thread):
    """A client that registers and deregisters memory, which takes the broker. One whose request a broker has taken when
    it is killed loses its connection, and connects again."""

    def __init__(self, served):
        super().__init__()
        self.served, self.stop = served, threading.Event()
        self.count, self.connected, self.failed = 0, 0, None

    def register(self):
        """Until the connection is lost."""
        client = control.Client(self.served.socket, "uroce0")
        self.connected += 1
        _, pd, _ = client.make("ALLOC_PD")
        fd = control.memfd()
        while not self.stop.is_set():
            answer = client.call("REG_MR", control.region(pd), [fd])
            if answer is control.CLIENT_ENDED:
                break
            if answer[0] == 0:
                assert client.do("DEREG_MR", control.one(struct.unpack_from("<I", answer[1])[0])) == 0
                self.count += 1
        os.close(fd)
        client.close()

    def run(self):
        try:
            while not self.stop.is_set():
                self.register()
        except Exception as error:  # pylint: disable=broad-except
            self.failed = error

    def goes_on(self):
        before = self.count
        lib.until("memory is registered", lambda: self.count > before + 5 or self.failed)
        assert self.failed is None, self.failed

    def end(self):
        self.stop.set()
        self.join()


def brokers():
    link = lib.link_ring()
    served, good = link.a.daemon, transfer(link)
    goes_on(served, good)
    at_rest = served.objects()
    registering = Registering(served)
    registering.start()
    registering.goes_on()
    size = None
    for kill, name, rng in rounds("broker"):
        with lib.case(name):
            old = lib.until("a broker", lambda: broker_of(served))
            time.sleep(rng.random() * 0.3)
            os.kill(old, signal.SIGKILL)
            lib.until("another broker", lambda o=old: broker_of(served) not in (None, o))
            registering.goes_on()
            goes_on(served, good)
        if size is None or kill == KILLS // 2:
            size = descriptors(served), resident(served)
    registering.end()
    with lib.case("a daemon whose brokers were killed has kept nothing of them"):
        print(f"# descriptors, resident KiB: {size}, {descriptors(served), resident(served)}")
        print(f"# {registering.count} registrations by {registering.connected} clients")
        lib.until("its objects are gone", lambda: served.objects() == at_rest)
        assert descriptors(served) <= size[0], (descriptors(served), size)
        assert lib.SANITIZED or KILLS < MANY or resident(served) - size[1] < RSS_KIB, (resident(served), size)
    complete(good)
    last(served)


def clients():
    """They are killed at any instant: while they open the device, create objects, use, destroy them."""
    link = lib.link_ring(lib.TWO_WORKERS)
    served, good = link.a.daemon, transfer(link)
    goes_on(served, good)
    at_rest = served.objects()
    size = None
    for kill, name, rng in rounds(f"{CLIENTS} clients"):
        with lib.case(name):
            there = []
            for _ in range(CLIENTS):
                argv = rng.choice(([SURVIVOR, *rng.choice(list(SHAPES.values())), "uroce0"],
                                   [STORM, "uroce0", "10.9.0.101", "60", "4"]))
                there.append((served.client(argv), rng.random()))
            for victim, when in sorted(there, key=lambda one: one[1]):
                time.sleep(when * 0.4)
                assert victim.poll() is None, f"{victim.argv} ended with {victim.poll()}:\n{victim.tail()}"
                victim.kill()
            lib.until("their objects are gone", lambda: served.objects() == at_rest)
            goes_on(served, good)
        if size is None or kill == KILLS // 2:
            size = descriptors(served), resident(served)
    with lib.case("a daemon whose clients were killed has kept nothing of them"):
        print(f"# descriptors, resident KiB: {size}, {descriptors(served), resident(served)}")
        lib.until("their descriptors are closed", lambda: descriptors(served) <= size[0])
        assert lib.SANITIZED or KILLS < MANY or resident(served) - size[1] < RSS_KIB, (resident(served), size)
    complete(good)
    last(served)


def answer(client):
    """The reply that a client waits for, or None if the daemon has ended the connection."""
    got = client.receive()
    return None if got is control.CLIENT_ENDED else got


@contextlib.contextmanager
def stopped(*pids):
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def stop_each():
    """A client or the broker is stopped: the others go on, and so does it when it may. For a daemon: test_stalled.py."""
    link = lib.link_ring()
    served, good, victim = link.a.daemon, transfer(link), transfer(link)
    with lib.case("a client is stopped"):
        goes_on(served, victim)
        with stopped(victim[0].pid):
            for _ in range(20):
                goes_on(served, good)
        goes_on(served, victim)
    with lib.case("the broker is stopped"):
        fd, waits, other = control.memfd(), *(control.Client(served.socket, "uroce0") for _ in range(2))
        _, pd, _ = waits.make("ALLOC_PD")
        with stopped(broker_of(served)):
            waits.send("REG_MR", control.region(pd), [fd])
            for _ in range(20):
                assert other.do("ALLOC_PD") == 0
                goes_on(served, good)
        # A broker that does not take a message in time ends its connection, because none may be read after it.
        print(f"# the registration that waited: {'lost' if answer(waits) is None else 'answered'}")
        _, pd, _ = other.make("ALLOC_PD")
        lib.until("memory is registered", lambda: other.make("REG_MR", control.region(pd), [fd])[0] == 0)
        os.close(fd)
        for client in (waits, other):
            client.close()
    complete(good)
    complete(victim)
    last(served)


def send_and_leave(served, client):
    """Another user's connections, each ended with a descriptor that was not received, which only a broker may close: more
    than the daemon keeps until then. Between them a client of root is served, so that the daemon has seen them."""
    fd = control.memfd()
    for _ in range(5 * LEFT):
        with control.as_uid(OTHER), socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
            sock.setblocking(False)
            with contextlib.suppress(BlockingIOError):  # as many wait as can
                sock.connect(str(served.socket))
                head = struct.pack("<IHHIIII", control.MAGIC, control.VERSION, control.OPS["HELLO"], 5, 0, 0, 1)
                sock.sendmsg([head], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", fd))])
        status, handle, _ = client.make("ALLOC_PD")
        assert status == 0 and client.do("DEALLOC_PD", control.one(handle)) == 0
    os.close(fd)


def without_broker():
    """While there is no broker, connections with descriptors do not use up those of the daemon: new ones wait."""
    link = lib.link_ring(("--workers", "1", "--socket-mode", "0666"))
    served, good = link.a.daemon, transfer(link)
    served.socket.parent.chmod(0o711)
    goes_on(served, good)
    client = control.Client(served.socket, "uroce0")
    before = descriptors(served)
    with lib.case("for a second there is no broker"):
        for kill in (1, 2):  # a second one is started at once, a third a second later
            os.kill(lib.until("a broker", lambda: broker_of(served)), signal.SIGKILL)
            lib.until("it is lost", lambda k=kill: served.proc.output().count(") has ended") == k)
        send_and_leave(served, client)
        assert descriptors(served) <= before + LEFT + SLACK, (before, descriptors(served))
        goes_on(served, good)
        later, fd = control.Client(served.socket, "uroce0"), control.memfd()
        _, pd, _ = later.make("ALLOC_PD")
        assert later.make("REG_MR", control.region(pd), [fd])[0] == 0
        later.close()
        os.close(fd)
        lib.until("their descriptors are closed", lambda: descriptors(served) <= before)
    with lib.case("no broker can be started any more"):
        for pid in family(served.proc.pid)[1:]:
            os.kill(pid, signal.SIGKILL)
        lib.until("it has noticed", lambda: "no broker: " in served.proc.output())
        send_and_leave(served, client)
        assert descriptors(served) <= before + LEFT + SLACK, (before, descriptors(served))
    client.close()
    complete_unseen(served, good)


def complete_unseen(served, progs):
    """The transfer ends; the daemon takes no urocectl any more."""
    with lib.case("the transfer beside is complete, and the daemon ends cleanly"):
        lib.enough(*progs)
        for prog in progs:
            assert prog.wait(lib.processes.HANGS_S) == 0, prog.tail()
        served.stop()


def limited():
    """The daemon's control group has no more memory: clients are refused, or the kernel ends the daemon. Then its clients
    complete everything and go to the next one."""
    if not os.access(CGROUPS / "memory.limit_in_bytes", os.W_OK):
        lib.skip_case("no memory is left", "no writable control group of cgroups v1")
        return
    group = CGROUPS / lib.unique("uroce")
    group.mkdir()
    lib.at_end(lambda: group.exists() and group.rmdir())
    with lib.case("no memory is left in the daemon's control group"):
        served = daemon(lib.ONE_WORKER, ns=lib.netns())
        for pid in family(served.proc.pid):
            (group / "cgroup.procs").write_text(str(pid))
        (group / "memory.limit_in_bytes").write_text(str(SPARE_BYTES))
        there = []

        def ended():
            return served.proc.poll() is not None or any(prog.poll() is not None for prog in there)
        while not ended() and len(there) < 40:
            there.append(served.client([SURVIVOR, "-q", "4", "uroce0"]))
            lib.until("it runs or is refused", lambda: ended() or said(there[-1], "running")())
        assert ended(), f"{len(there)} clients fit into {SPARE_BYTES} bytes"
        refused = [prog for prog in there if prog.poll() is not None]
        print(f"# {len(there)} clients; daemon's status {served.proc.poll()}; refused: {[p.tail(200) for p in refused]}")
        if served.proc.poll() is None:
            for prog in there:
                if prog not in refused:
                    assert any(qp["pid"] == prog.pid for qp in served.show("qp")["qp"])
            served.proc.kill()
        lib.until("the control group is empty", lambda: not (group / "cgroup.procs").read_text())
        went_on = [prog for prog in there if "running" in prog.output()]
        assert went_on
        for prog in went_on:
            lib.until("all WRs have completed", said(prog, "drained"))
        served = daemon(lib.ONE_WORKER, served.socket, served.ns)
        for prog in went_on:
            assert prog.wait(lib.processes.HANGS_S) == 0 and said(prog, "again")(), prog.tail()
    last(served)


PARTS = {"daemons": daemons, "brokers": brokers, "clients": clients, "stopped": stop_each, "without": without_broker, "memory": limited}


def main():
    lib.need_root()
    for what in sys.argv[1:] or PARTS:
        PARTS[what]()
    lib.finish()


main()
