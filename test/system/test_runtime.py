#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A port changes while programs use it: link (EVT-11), addresses (EVT-12), P_Keys (EVT-13, QP-04, WIRE-09). The
programs get events and see the new state, and their QPs keep working."""
import errno
import json
import socket
import subprocess

import lib

CLIENT = lib.BUILD / "test/system/portclient"
PORT_ACTIVE, PORT_ERR, PKEY_CHANGE, GID_CHANGE = 9, 10, 12, 18
COMM_EST = 4  # of QPs, may come in between
DOWN, ACTIVE = 1, 4
RTS = 3
RETRY_EXC = 12
LONG_MS = 60000
PATIENT, BRIEF = 7, 1  # retries
NOBODY = 65534


class Client:
    """portclient on a side's device; ask() returns its response."""

    def __init__(self, side):
        self.side = side
        argv = [lib.UROCE_RUN, "--socket", side.daemon.socket, CLIENT, side.dev]
        self.popen = subprocess.Popen(
            ["ip", "netns", "exec", side.daemon.ns, *(str(a) for a in argv)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, process_group=0,
            env={**lib.os.environ, **lib.asan_env()})
        lib.at_end(self.popen.kill)
        assert self.answer() == "ready"
        self.remote = {}

    def answer(self):
        line = self.popen.stdout.readline()
        assert line, f"portclient ended: {self.popen.wait(60)}"
        return line.strip()

    def ask(self, *words):
        self.popen.stdin.write(" ".join(str(w) for w in words) + "\n")
        self.popen.stdin.flush()
        return self.answer()

    def ok(self, *words):
        got = self.ask(*words)
        assert got == "ok", f"{words}: {got}"

    def look(self):
        return json.loads(self.ask("look"))

    def event(self, want):
        """Waits for the next event of the port, which must be want."""
        while (got := self.ask("event", LONG_MS)).startswith(f"event {COMM_EST} "):
            pass
        assert got == f"event {want} 1", f"{got}, not event {want} of port 1"

    def no_event(self):
        got = self.ask("event", 0)
        assert got == "none" or got.startswith(f"event {COMM_EST} "), got

    def done(self, *want):
        got = self.ask("poll", LONG_MS)
        assert got == " ".join(str(w) for w in ("wc", *want)), f"{got}, not {want}"

    def nothing_done(self):
        assert self.ask("poll", 300) == "none"

    def qp(self, n, kind, index=0, retries=PATIENT):
        got = self.ask("qp", n, kind, index, retries).split()
        return int(got[1]) if got[0] == "qpn" else -int(got[1])

    def close(self):
        self.popen.stdin.close()
        assert self.popen.wait(60) == 0


def gid(address):
    return f"::ffff:{address}" if "." in address else address


def connect(n, kind, ends, index=0, retries=PATIENT):
    """Creates QP n on both of two ends (client, GID index, address) and connects them."""
    qpns = [client.qp(n, kind, index, retries) for client, _, _ in ends]
    assert min(qpns) > 0, qpns
    for (client, sgid, _), (_, _, far), qpn in zip(ends, ends[::-1], qpns[::-1]):
        client.ok("connect", n, sgid, gid(far), qpn)


def exchange(n, *clients):
    """Sends a message each way between two QPs of that number."""
    for one, other in (clients, clients[::-1]):
        other.ok("recv", n)
        one.ok("send", n)
        one.done(n, 0, "send")
        other.done(n, 0, "recv")


def addr(side, verb, address, length=24):
    return side.daemon.ctl("addr", verb, f"{address}/{length}", "dev", side.dev)["set"][0]["index"]


def pkey(side, index, key):
    side.daemon.ctl("pkey", "set", hex(key), "dev", side.dev, "index", str(index))


def link_set(side, state):
    lib.sh("ip", "-n", side.daemon.ns, "link", "set", "eth0", state)


# Requirements: EVT-11
def test_link_down_and_up_raise_port_events(link, a, b):
    """The interface goes down on one side, and the other side of the veth loses its carrier."""
    ends = ((a, 1, "10.9.0.101"), (b, 1, "10.9.0.102"))
    connect(0, "rc", ends)
    exchange(0, a, b)
    link_set(link.a, "down")
    for client in (a, b):
        client.event(PORT_ERR)
        assert client.look()["state"] == DOWN
        assert client.ask("state", 0) == f"state {RTS}"
    assert {d["link"] for d in link.a.daemon.show("device")["device"]} == {"down"}
    # Messages sent meanwhile wait for retransmission.
    b.ok("recv", 0)
    a.ok("send", 0)
    a.nothing_done()
    link_set(link.a, "up")
    for client in (a, b):
        client.event(PORT_ACTIVE)
        assert client.look()["state"] == ACTIVE
    a.done(0, 0, "send")
    b.done(0, 0, "recv")
    exchange(0, a, b)
    for client in (a, b):
        client.no_event()
        client.ok("destroy", 0)


def announced(sock, address):
    """Whether a gratuitous ARP of the address arrives."""
    want = socket.inet_aton(address)
    sock.settimeout(60)
    while True:
        frame = sock.recv(9000)
        if frame[12:14] == b"\x08\x06" and frame[28:32] == want and frame[38:42] == want:
            return True


def pings(ns, address):
    """Whether the namespace's kernel gets replies from the address."""
    return subprocess.run(["ip", "netns", "exec", ns, "ping", "-c", "3", "-i", "0.2", "-W", "2",
                           address], capture_output=True).returncode == 0


# Requirements: EVT-12
def test_added_addresses_become_gids(link, a, b):
    lib.sh("ip", "-n", link.b.daemon.ns, "addr", "add", "10.8.0.2/24", "dev", "eth0")
    second = Client(link.a)  # every context gets the event
    wire = lib.raw_socket(link.b.daemon.ns, "eth0")
    assert addr(link.a, "add", "10.8.0.101") == 2
    assert announced(wire, "10.8.0.101")
    wire.close()
    assert addr(link.a, "add", "fd00:8::101", 64) == 3
    for client in (a, second):
        client.event(GID_CHANGE)
        client.event(GID_CHANGE)
        table = client.look()
        assert table["gids"]["2"] == "::ffff:10.8.0.101", table
        assert table["gids"]["3"] == "fd00:8::101", table
        assert table["table"] == [0, 1, 2, 3], table
    b.no_event()
    second.close()
    assert b.look()["table"] == [0, 1]
    assert addr(link.b, "add", "fd00:8::102", 64) == 2
    assert addr(link.b, "add", "10.8.0.102") == 3
    b.event(GID_CHANGE)
    b.event(GID_CHANGE)
    lib.until("the device replies", lambda: pings(link.b.daemon.ns, "10.8.0.101"))
    show = link.a.daemon.show("port")["port"][0]["gids"]
    assert [(g["index"], g["gid"], g["prefix"]) for g in show[1:]] == [
        (1, "10.9.0.101", 24), (2, "10.8.0.101", 24), (3, "fd00:8::101", 64)], show


# Requirements: EVT-12
def test_added_addresses_carry_traffic(a, b):
    v4 = ((a, 2, "10.8.0.101"), (b, 3, "10.8.0.102"))
    v6 = ((a, 3, "fd00:8::101"), (b, 2, "fd00:8::102"))
    for n, (kind, ends) in enumerate((k, e) for k in ("rc", "uc", "ud") for e in (v4, v6)):
        connect(n, kind, ends)
        exchange(n, a, b)


# Requirements: EVT-12
def test_removed_addresses_leave_the_gid_table(link, a, b):
    """QPs 0 (RC) and 4 (UD) use the removed IPv4 address."""
    assert addr(link.a, "del", "10.8.0.101") == 2
    a.event(GID_CHANGE)
    assert a.look()["table"] == [0, 1, 3]
    assert not pings(link.b.daemon.ns, "10.8.0.101")
    exchange(0, a, b)  # the QP has its own copy, like a NIC's QP
    b.no_event()
    # Datagrams to the address are dropped; datagrams from it still arrive.
    before = link.a.daemon.counters("drops")["not_ours"]
    a.ok("recv", 4)
    b.ok("send", 4)
    b.done(4, 0, "send")
    lib.until("the datagram is dropped",
              lambda: link.a.daemon.counters("drops")["not_ours"] > before)
    a.nothing_done()
    b.ok("recv", 4)
    a.ok("send", 4)
    a.done(4, 0, "send")
    b.done(4, 0, "recv")
    # New QPs cannot use the index, and it is not reused while a QP refers to it.
    assert a.qp(7, "rc") > 0
    assert a.ask("connect", 7, 2, gid("10.8.0.102"), 77) == f"error {errno.EINVAL}"
    assert a.qp(8, "ud") > 0
    assert a.ask("connect", 8, 2, gid("10.8.0.102"), 77) == f"error {errno.EINVAL}"
    assert addr(link.a, "add", "10.8.0.111") == 4
    a.event(GID_CHANGE)
    for n in (0, 1, 2, 3, 5, 7, 8):
        a.ok("destroy", n)
    assert addr(link.a, "add", "10.8.0.131") == 5  # QP 4's address handle still uses index 2
    a.event(GID_CHANGE)
    a.ok("destroy", 4)
    assert addr(link.a, "add", "10.8.0.121") == 2
    a.event(GID_CHANGE)
    assert a.look()["gids"]["2"] == "::ffff:10.8.0.121"
    for address in ("10.8.0.111", "10.8.0.121", "10.8.0.131"):
        addr(link.a, "del", address)
        a.event(GID_CHANGE)
    assert addr(link.a, "del", "fd00:8::101", 64) == 3
    a.event(GID_CHANGE)
    assert a.look()["table"] == [0, 1]
    for n in range(6):
        b.ok("destroy", n)


# Requirements: EVT-13, QP-04, WIRE-09
def test_changed_pkeys_apply_to_qps(link, a, b):
    ends = ((a, 1, "10.9.0.101"), (b, 1, "10.9.0.102"))
    assert a.look()["pkeys"] == [0xffff] + [0] * 15
    assert a.qp(0, "rc", 1) == -errno.EINVAL, "an empty entry"
    assert a.qp(0, "rc", 16) == -errno.EINVAL, "beyond the table"
    for side, client in ((link.a, a), (link.b, b)):
        pkey(side, 1, 0x8001)
        client.event(PKEY_CHANGE)
        assert client.look()["pkeys"][:3] == [0xffff, 0x8001, 0]
    for n, kind in enumerate(("rc", "uc", "ud")):
        connect(n, kind, ends, index=1)
        exchange(n, a, b)
    connect(3, "rc", ends)  # uses entry 0, so these changes do not affect it
    pkey(link.a, 1, 0x8002)
    a.event(PKEY_CHANGE)
    b.no_event()
    assert a.look()["pkeys"][1] == 0x8002
    exchange(3, a, b)
    check_cut_off(link, a, b)
    pkey(link.b, 1, 0x0002)  # a limited and a full member may communicate
    b.event(PKEY_CHANGE)
    for n in range(3):
        exchange(n, a, b)
    pkey(link.a, 1, 0x0002)  # two limited members may not
    a.event(PKEY_CHANGE)
    check_cut_off(link, a, b)
    # Both sides modify QP 0 to another index: the default key is always valid.
    for client in (a, b):
        client.ok("index", 0, 0)
        assert client.ask("index", 2, 9) == f"error {errno.EINVAL}"
    exchange(0, a, b)
    # Setting the same key again changes nothing.
    pkey(link.a, 1, 0x0002)
    a.no_event()
    link.a.daemon.ctl("pkey", "del", "dev", "uroce0", "index", "1")
    a.event(PKEY_CHANGE)
    assert a.look()["pkeys"] == [0xffff] + [0] * 15
    show = link.b.daemon.show("port")["port"][0]["pkeys"]
    assert show == [{"index": 0, "pkey": "0xffff", "member": "full"},
                    {"index": 1, "pkey": "0x0002", "member": "limited"}], show
    exchange(3, a, b)


def check_cut_off(link, a, b):
    """a drops and counts what b sends on entry 1, as UC (1), UD (2) and RC."""
    before = link.a.daemon.counters("drops")["bad_pkey"]
    for n in (1, 2):
        a.ok("recv", n)
        b.ok("send", n)
        b.done(n, 0, "send")
        lib.until("it is dropped",
                  lambda n=n: link.a.daemon.counters("drops")["bad_pkey"] >= before + n)
        a.nothing_done()
    ends = ((a, 1, "10.9.0.101"), (b, 1, "10.9.0.102"))
    connect(9, "rc", ends, index=1, retries=BRIEF)
    b.ok("send", 9)
    b.done(9, RETRY_EXC, "send")
    a.nothing_done()
    for client in (a, b):
        client.ok("destroy", 9)
    assert a.look()["bad_pkey"] == link.a.daemon.counters("drops")["bad_pkey"] >= before + 4


REFUSED = [  # words, exit status, message
    (("addr",), 2, "addr add|del IP/LEN dev DEVICE"),
    (("addr", "list"), 2, "unknown 'list'; legal: add, del"),
    (("addr", "add"), 2, "no address"),
    (("addr", "add", "10.7.0.1/24"), 2, "no dev DEVICE"),
    (("addr", "add", "dev", "uroce0"), 2, "no address"),
    (("addr", "add", "10.7.0.1/24", "dev"), 2, "'dev' needs a value"),
    (("addr", "add", "10.7.0.1/24", "10.7.0.2/24", "dev", "uroce0"), 2, "unexpected argument"),
    (("addr", "add", "10.7.0.1", "dev", "uroce0"), 1, "like 10.9.0.1/24"),
    (("addr", "add", "10.7.0.0/24", "dev", "uroce0"), 1, "'10.7.0.0/24' is not a host address"),
    (("addr", "add", "x" * 64, "dev", "uroce0"), 2, "is not an address"),
    (("addr", "add", "10.9.0.101/24", "dev", "uroce0"), 1, "already exists"),
    (("addr", "add", "10.7.0.1/24", "dev", "uroce9"), 1, "addr: no device 'uroce9'; devices: uroce0"),
    (("addr", "add", "10.7.0.1/24", "dev", "u" * 32), 2, "longer than 31 bytes"),
    (("addr", "del", "10.7.0.1/24", "dev", "uroce0"), 1, "'10.7.0.1/24' not found"),
    (("addr", "del", "10.9.0.101/16", "dev", "uroce0"), 1, "not found"),
    (("pkey", "set", "0x8001", "dev", "uroce0"), 2, "no index N"),
    (("pkey", "set", "dev", "uroce0", "index", "1"), 2, "no key"),
    (("pkey", "set", "0x10000", "dev", "uroce0", "index", "1"), 2, "from 0x0001 to 0xffff"),
    (("pkey", "set", "0x8000", "dev", "uroce0", "index", "1"), 2, "other than 0x8000"),
    (("pkey", "set", "0", "dev", "uroce0", "index", "1"), 2, "from 0x0001 to 0xffff"),
    (("pkey", "set", "0x8001", "dev", "uroce0", "index", "16"), 2, "from 0 to 15"),
    (("pkey", "del", "0x8001", "dev", "uroce0", "index", "1"), 2, "unexpected argument"),
    (("pkey", "del", "dev", "uroce0", "index", "0"), 1, "entry 0 must have a key"),
]


def refused(link, a):
    before = a.look()
    for words, rc, says in REFUSED:
        said = link.a.daemon.ctl(*words, rc=rc)
        assert says in said, f"{words}: {said}"
    own = next(g["gid"] for g in link.a.daemon.show("gid")["gid"] if g["index"] == 0)
    said = link.a.daemon.ctl("addr", "del", own, "dev", "uroce0", rc=1)
    assert "GID 0" in said, said
    link.a.daemon.socket.chmod(0o777)
    link.a.daemon.socket.parent.chmod(0o755)
    said = link.a.daemon.ctl("pkey", "set", "0x8001", "dev", "uroce0", "index", "1", rc=1,
                    own=("setpriv", f"--reuid={NOBODY}", "--clear-groups"))
    assert "only root" in said, said
    assert a.look() == before
    a.no_event()


# Requirements: EVT-12
def test_full_gid_table_refuses_addresses(link, a):
    """Every entry is taken; after a removal one entry is free again."""
    for i in range(62):
        addr(link.a, "add", f"10.6.0.{i + 1}")
    said = link.a.daemon.ctl("addr", "add", "10.6.0.200/24", "dev", "uroce0", rc=1)
    assert "no free GID entry" in said, said
    assert a.look()["table"] == list(range(64))
    index = addr(link.a, "del", "10.6.0.7")
    assert addr(link.a, "add", "10.6.0.200") == index
    for _ in range(64):
        a.event(GID_CHANGE)


# Requirements: QP-04
def test_pkeys_from_the_start():
    """The table given by --dev, also for programs that read sysfs themselves."""
    dev = "name=uroce0,port=net_ring0,addr=10.9.0.101/24,pkey=0x8005,pkey=7,pkey=0xffff"
    side = lib.Side(lib.Daemon(["net_ring0"], [dev], lib.netns()), "uroce0", "127.0.0.1")
    client = Client(side)
    assert client.look()["pkeys"] == [0x8005, 7, 0xffff] + [0] * 13
    files = side.spawn(["sh", "-c", "cd /sys/class/infiniband/uroce0/ports/1/pkeys && "
                        "cat 0 1 2 3 15 && test ! -e 16"])
    assert files.wait(60) == 0, files.output()
    assert files.output().split() == ["0x8005", "0x0007", "0xffff", "0x0000", "0x0000"]
    devinfo = side.spawn(["ibv_devinfo", "-v"])
    assert devinfo.wait(60) == 0 and "max_pkeys:\t\t\t16" in devinfo.output(), devinfo.output()
    client.close()
    side.daemon.stop()


def main():
    lib.need_root()
    with lib.case("P_Keys from the start"):
        test_pkeys_from_the_start()
    link = lib.link_veth(1024, lib.TWO_WORKERS)
    a, b = Client(link.a), Client(link.b)
    with lib.case("EVT-11: the link goes down and comes up"):
        test_link_down_and_up_raise_port_events(link, a, b)
    with lib.case("EVT-12: addresses are added"):
        test_added_addresses_become_gids(link, a, b)
    with lib.case("EVT-12: traffic over them, RC, UC and UD, IPv4 and IPv6"):
        test_added_addresses_carry_traffic(a, b)
    with lib.case("EVT-12: addresses are removed"):
        test_removed_addresses_leave_the_gid_table(link, a, b)
    with lib.case("EVT-13, QP-04, WIRE-09: P_Keys"):
        test_changed_pkeys_apply_to_qps(link, a, b)
    with lib.case("errors name an invalid value, and nothing changes"):
        refused(link, a)
    with lib.case("EVT-12: a full table"):
        test_full_gid_table_refuses_addresses(link, a)
    with lib.case("the daemons end cleanly"):
        a.close()
        b.close()
        link.stop()
    lib.finish()


main()
