#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""rdma_cm channels of real daemons (include/uroce_abi/cm.h), without librdmacm: connections, rejects and services
over rings, af_packet and the kernel's UDP, lost MADs, clients and daemons that end."""
import collections
import errno
import itertools
import os
import select
import signal
import struct
import subprocess
import sys
import time
import types

import cmclient
import control
import lib
from cmclient import Channel, PS_TCP, PS_UDP, QP_UD, Refused, sockaddr

PORT = 7471
QPNS = itertools.count(0x100, 2)  # a QPN is not free again before TIMEWAIT ends
LISTENER, ACTIVE, PASSIVE = 1, 2, 3
RETRIES = 15  # of a MAD, before its peer is unreachable
SIDR_UNSUPPORTED, SIDR_REJECTED = 1, 2


def link_udp():
    """Two daemons on the addresses of their kernels."""
    spaces = [lib.netns(), lib.netns()]
    lib.veth(spaces[0], "10.9.0.1/24", spaces[1], "10.9.0.2/24", 4200)
    sides = []
    for i, ns in enumerate(spaces, 1):
        lib.sh("sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=0", "net.ipv6.conf.eth0.disable_ipv6=0", ns=ns)
        lib.sh("ip", "-n", ns, "addr", "add", f"fd00::{i}/64", "dev", "eth0", "nodad")
        sides.append(lib.Side(lib.Daemon([], ["name=uroce0,port=udp,iface=eth0"], ns), "uroce0", f"10.9.0.{i}"))
    return lib.Link("udp", *sides, 4096)


def link_one_host():
    """Two daemons on two addresses of one host: its route to the other address begins at that address."""
    ns, sides = lib.netns(), []
    lib.sh("ip", "-n", ns, "link", "set", "lo", "up")
    for i in (1, 2):
        lib.sh("ip", "-n", ns, "addr", "add", f"10.9.0.{i}/24", "dev", "lo")
        sides.append(lib.Side(lib.Daemon([], [f"name=uroce0,port=udp,addr=10.9.0.{i}"], ns), "uroce0", ""))
    return lib.Link("one host", *sides, 1024)


def serve(daemon, address, space=PS_TCP, port=PORT):
    """A channel that listens, and its listener."""
    channel = Channel(daemon.socket)
    number = channel.create(LISTENER, space, QP_UD if space == PS_UDP else cmclient.QP_RC)
    channel.bind(number, sockaddr(address, port))
    channel.listen(number)
    return channel, number


def ask(daemon, address, space=PS_TCP, source=""):
    """A channel and an id whose route to address is known."""
    channel = Channel(daemon.socket)
    number = channel.create(ACTIVE, space)
    channel.resolve(number, sockaddr(address, PORT), sockaddr(source) if source else b"")
    return channel, number


def established(server, client, number):
    """Connects. The passive id."""
    qpn = next(QPNS)
    client.connect(number, qpn, b"ask", (0xabcdef, 7))
    request = server.event("CONNECT_REQUEST")
    assert (request.uid, request.qpn, request.ece) == (LISTENER, qpn, (0xabcdef, 7))
    assert len(request.data) == 56 and request.data.startswith(b"ask\0")
    server.accept(request.id, PASSIVE, qpn + 1, b"answer")
    response = client.event("CONNECT_RESPONSE")
    assert (response.uid, response.qpn) == (ACTIVE, qpn + 1)
    assert len(response.data) == 196 and response.data.startswith(b"answer\0")
    client.ready(number)
    assert server.event("ESTABLISHED").uid == PASSIVE
    return request.id


def connect(a, b, address, source=""):
    """Connect, disconnect, destroy; the counts of events."""
    server, listener = serve(b, address)
    client, number = ask(a, address, source=source)
    passive = established(server, client, number)
    client.disconnect(number)
    assert client.event("DISCONNECTED").uid == ACTIVE
    assert server.event("DISCONNECTED").uid == PASSIVE
    assert (client.destroy(number), server.destroy(passive), server.destroy(listener)) == (4, 2, 1)
    client.close()
    server.close()


def reject(a, b, address):
    """No listener; a program rejects; its accept is refused."""
    client, number = ask(a, address)
    client.connect(number, next(QPNS))
    assert client.event("REJECTED").status == 8
    server, _ = serve(b, address)
    client, number = ask(a, address)
    client.connect(number, next(QPNS))
    server.reject(server.event("CONNECT_REQUEST").id, b"go away")
    event = client.event("REJECTED")
    assert event.status == 28 and event.data.startswith(b"go away\0"), event.status
    client.close()
    client, number = ask(a, address)
    client.connect(number, next(QPNS))
    request = server.event("CONNECT_REQUEST")
    try:
        server.accept(request.id, PASSIVE, next(QPNS) + 1, bytes(197))
        raise AssertionError("197 bytes of private data were accepted")
    except Refused as refused:
        assert refused.errno == errno.EINVAL, refused
    assert client.event("REJECTED").status == 28
    server.destroy(request.id)
    client.close()
    server.close()


def service(a, b, address):
    """A UD service is resolved."""
    server, _ = serve(b, address, PS_UDP)
    client, number = ask(a, address, PS_UDP)
    client.connect(number, next(QPNS), b"which")
    request = server.event("CONNECT_REQUEST")
    assert len(request.ud_data) == 180 and request.ud_data.startswith(b"which\0")
    server.accept(request.id, PASSIVE, 0x22)
    event = client.event("ESTABLISHED")
    assert (event.qpn, event.qkey) == (0x22, 0x01234567)
    client.close()
    server.close()


def refused_service(a, b, address):
    """No listener; a program rejects; its accept is refused: the client gets an answer each time, before the program
    destroys its id."""
    client, number = ask(a, address, PS_UDP)
    client.connect(number, next(QPNS))
    assert client.event("UNREACHABLE").status == SIDR_UNSUPPORTED
    client.close()
    server, _ = serve(b, address, PS_UDP)

    def rejected():
        """Rejects with private data."""
        server.reject(request.id, b"go away")
        return b"go away\0"

    def too_long():
        """Accepts with a byte more than a SIDR_REP holds."""
        try:
            server.accept(request.id, PASSIVE, 0x22, bytes(137))
        except Refused as refused:
            assert refused.errno == errno.EINVAL, refused
            return b"\0"
        raise AssertionError("137 bytes of private data were accepted")

    for answer in rejected, too_long:
        client, number = ask(a, address, PS_UDP)
        client.connect(number, next(QPNS))
        request = server.event("CONNECT_REQUEST")
        data = answer()
        event = client.event("UNREACHABLE")
        assert event.status == SIDR_REJECTED and event.ud_data.startswith(data), (event.status, event.ud_data)
        try:
            server.accept(request.id, PASSIVE, 0x22)
            raise AssertionError("a request was answered twice")
        except Refused as refused:
            assert refused.errno == errno.EINVAL, refused
        server.destroy(request.id)
        client.close()
    server.close()


def client_killed(a, b, address):
    """The peer of a killed client is disconnected, nothing of the client stays."""
    server, _ = serve(b, address)
    with subprocess.Popen([sys.executable, __file__, "--client", a.socket, address], stdout=subprocess.PIPE) as proc:
        request = server.event("CONNECT_REQUEST")
        server.accept(request.id, PASSIVE, next(QPNS) + 1)
        server.event("ESTABLISHED")
        assert proc.stdout.readline() == b"connected\n"
        proc.send_signal(signal.SIGKILL)
    assert server.event("DISCONNECTED").uid == PASSIVE
    server.close()


def client_main(path, address):
    client, number = ask(types.SimpleNamespace(socket=path), address)
    client.connect(number, 0x31 + 0x1000 * ord(address[-1]))
    client.event("CONNECT_RESPONSE")
    client.ready(number)
    print("connected", flush=True)
    time.sleep(60)


def lossy(link, address):
    """A fifth of all MADs lost, each way; a connection takes what its timers say. Of more, all 16 copies of a request or
    their answers are lost once in a thousand runs."""
    for side in (link.a, link.b):
        side.daemon.impair(side.dev, "set", "drop=20%,seed=7")
    server, _ = serve(link.b.daemon, address)
    done = 0
    for _ in range(10):
        client, number = ask(link.a.daemon, address)
        qpn = next(QPNS)
        client.connect(number, qpn)
        request = server.event("CONNECT_REQUEST")
        server.accept(request.id, PASSIVE, qpn + 1)
        assert client.event().name == "CONNECT_RESPONSE"
        client.ready(number)
        assert server.event().name == "ESTABLISHED"
        client.disconnect(number)
        assert client.event().name == "DISCONNECTED"
        assert server.event().name == "DISCONNECTED"
        server.destroy(request.id)
        client.close()
        done += 1
    for side in (link.a, link.b):
        side.daemon.impair(side.dev, "clear")
    server.close()
    assert done == 10


class Storm:
    """Many connections of one channel to another, each disconnected once it is established, whatever is lost. If the
    machine is too busy to answer before the last retransmission, the peer is unreachable: then it connects again."""

    def __init__(self, link, address, count, at_once):
        self.link, self.address, self.count, self.at_once = link, address, count, at_once
        self.server, self.listener = serve(link.b.daemon, address)
        self.client = Channel(link.a.daemon.socket)
        self.number, self.passive, self.ends, self.unreachable = {}, set(), [], 0

    def begin(self, uid):
        number = self.number[uid] = self.client.create(uid)
        self.client.resolve_addr(number, sockaddr(self.address, PORT))

    def at_client(self, event):
        number = self.number.get(event.uid)
        if event.name == "ADDR_RESOLVED":
            self.client.resolve_route(number)
        elif event.name == "ROUTE_RESOLVED":
            self.client.connect(number, next(QPNS))
        elif event.name == "CONNECT_RESPONSE":
            self.client.ready(number)
            self.client.disconnect(number)
        elif event.name in ("DISCONNECTED", "UNREACHABLE", "REJECTED"):
            self.client.destroy(self.number.pop(event.uid))
            if event.name == "UNREACHABLE":
                self.unreachable += 1
                self.begin(event.uid)
            else:
                self.ends.append(f"{event.name} {event.status}")

    def at_server(self, event):
        if event.name == "CONNECT_REQUEST":
            self.server.accept(event.id, event.id, next(QPNS))
            self.passive.add(event.id)
        elif event.name in ("DISCONNECTED", "UNREACHABLE", "REJECTED"):
            self.server.destroy(event.uid)
            self.passive.remove(event.uid)

    def run(self):
        begun = 0
        while len(self.ends) < self.count or self.passive:
            while begun < self.count and len(self.number) < self.at_once:
                self.begin(begun)
                begun += 1
            ready, _, _ = select.select([self.client.fd, self.server.fd], [], [], 60)
            assert ready, f"nothing happens: {len(self.ends)} of {self.count}, {len(self.passive)} passive ids left"
            for channel, handle in ((self.client, self.at_client), (self.server, self.at_server)):
                while channel.readable():
                    handle(channel.event())
        self.server.destroy(self.listener)


def storm(link, address):
    """2,000 connections while a tenth of all MADs is lost; no id is left."""
    def ids():
        return {row["comm_id"] for side in (link.a, link.b) for row in side.daemon.show("cm")["cm"]}

    before, retries = ids(), mads(link, "retries")
    for side in (link.a, link.b):
        side.daemon.impair(side.dev, "set", "drop=10%,seed=11")
    made = Storm(link, address, 2000, 250)
    made.run()
    for side in (link.a, link.b):
        side.daemon.impair(side.dev, "clear")
    assert collections.Counter(made.ends) == {"DISCONNECTED 0": 2000}, made.ends
    retries = mads(link, "retries") - retries
    assert made.unreachable * RETRIES <= retries, f"{made.unreachable} gave up, but all have only {retries} retransmissions"
    lib.until("every id has ended", lambda: ids() <= before, every=0.5)
    made.client.close()
    made.server.close()


def connect_many(link, address, count):
    """A client channel of link.a with as many connections, and the server's channel of link.b."""
    server, _ = serve(link.b.daemon, address)
    client = Channel(link.a.daemon.socket)
    for uid in range(count):
        number = client.create(uid)
        client.resolve(number, sockaddr(address, PORT))
        qpn = next(QPNS)
        client.connect(number, qpn)
        server.accept(server.event("CONNECT_REQUEST").id, uid, qpn + 1)
        client.event("CONNECT_RESPONSE")
        client.ready(number)
        server.event("ESTABLISHED")
    return client, server


def all_disconnected(server, count):
    """The server learns of the end of each of its connections."""
    told = set()
    while len(told) < count:
        event = server.event()
        if event.name == "DISCONNECTED":
            assert event.status == 0, event.status
            told.add(event.uid)
    server.close()


MANY = 1500  # more than the worker's queue of frames holds


# Requirements: CM-06
def test_many_end_at_once(link, address):
    """Each peer of many connections learns that their channel was closed, and that their daemon has ended."""
    for end in (lambda client: client.close(), lambda client: link.a.daemon.stop()):
        client, server = connect_many(link, address, MANY)
        end(client)
        all_disconnected(server, MANY)


# Requirements: CM-06
def test_end_while_mads_are_lost(link, address):
    """A daemon that ends tells the peers of all its connections, although a third of all MADs is lost."""
    _, server = connect_many(link, address, 100)
    for side in (link.a, link.b):
        side.daemon.impair(side.dev, "set", "drop=30%,seed=3")
    link.a.daemon.stop()
    all_disconnected(server, 100)
    link.b.daemon.impair(link.b.dev, "clear")


def users(daemon, address):
    """Ids and channels of a user are limited; other users' ids are not shown in full."""
    channel = Channel(daemon.socket)
    made = 0
    try:
        while made < 100:
            channel.create(made)
            made += 1
    except Refused as refused:
        assert refused.errno == 12, refused
    assert made == 100  # root has all
    channel.bind(channel.create(9), sockaddr(address, 7777))
    channel.close()


def wildcards(daemon, address):
    """A wildcard listens on all addresses; 127.0.0.1 leads to a device."""
    server, _ = serve(daemon, "0.0.0.0")
    for to in (address, "127.0.0.1"):
        client, number = ask(daemon, to)
        established(server, client, number)
        client.close()
        server.event("DISCONNECTED")
    server.close()


def daemon_killed(link, address):
    """Channels of a killed daemon hang up; its peer gets no message, and reports UNREACHABLE or
    DISCONNECTED by its own timers when it says something."""
    server, _ = serve(link.b.daemon, address)
    client, number = ask(link.a.daemon, address)
    established(server, client, number)
    link.b.daemon.proc.popen.send_signal(signal.SIGKILL)
    lib.until("the channel hangs up", lambda: os.read(server.fd, 1) == b"")
    try:
        server.create(1)
        raise AssertionError("a command got a reply")
    except (Refused, ConnectionError):
        pass
    client.disconnect(number)
    # 16 DREQs, half a second apart
    event = client.event("DISCONNECTED")
    assert event.status == -110, event.status


def shown(link, address):
    """The ids and counters that urocectl shows."""
    server, _ = serve(link.b.daemon, address)
    client, number = ask(link.a.daemon, address)
    established(server, client, number)
    rows = link.a.daemon.show("cm")["cm"]
    row = next(r for r in rows if r["id"] == number and r["pid"] == os.getpid() and r["connection"] == "ESTABLISHED")
    assert row["remote"] == f"{address}:{PORT}" and row["state"] == "CONNECT", row
    assert row["remote_qpn"] == row["qpn"] + 1, row
    assert any(r["state"] == "LISTEN" for r in link.b.daemon.show("cm")["cm"])
    shown_ece(link, address)
    total = link.a.daemon.show("cm_stats")["cm_stats"][0]["total"]
    assert total["tx_REQ"] >= 1 and total["rx_REP"] >= 1, total
    client.close()
    server.close()


def shown_ece(link, address):
    """What the peer of a QP sent of ECE is shown with the QP."""
    verbs = control.Client(link.b.daemon.socket, link.b.dev)
    pd = verbs.make("ALLOC_PD")[1]
    cq = verbs.make("CREATE_CQ", control.cq())[1]
    _, _, body = verbs.make("CREATE_QP", control.qp(pd, cq, cq))
    qpn = struct.unpack_from("<I", body, 4)[0]

    def words():
        row = next(row for row in link.b.daemon.show("qp")["qp"] if row["qpn"] == qpn)
        return row["ece_vendor"], row["ece_options"]

    assert words() == (0, 0)
    server, _ = serve(link.b.daemon, address, port=PORT + 1)
    client = Channel(link.a.daemon.socket)
    number = client.create(ACTIVE, PS_TCP)
    client.resolve(number, sockaddr(address, PORT + 1))
    client.connect(number, next(QPNS), b"", (0xabcdef, 7))
    server.accept(server.event("CONNECT_REQUEST").id, PASSIVE, qpn)
    client.event("CONNECT_RESPONSE")
    assert words() == (0xabcdef, 7), words()
    client.close()
    server.close()
    verbs.close()


def all_of(link, a, b):
    """The tests of one link. a, b: addresses of its sides."""
    x, y = link.a.daemon, link.b.daemon
    # Requirements: CM-04, CM-06, CM-09, CM-12
    with lib.case(f"connect and disconnect, {link.kind}"):
        connect(x, y, b, a if x is y else "")
    with lib.case(f"the other way, {link.kind}"):
        connect(y, x, a, b if x is y else "")
    # Requirements: CM-04
    with lib.case(f"reject, {link.kind}"):
        reject(x, y, b)
    # Requirements: CM-07
    with lib.case(f"a service, {link.kind}"):
        service(x, y, b)
    # Requirements: CM-04, CM-07
    with lib.case(f"a service that refuses, {link.kind}"):
        refused_service(x, y, b)
    # Requirements: CM-06, CM-12
    with lib.case(f"a killed client, {link.kind}"):
        client_killed(x, y, b)


def mads(link, name):
    return sum(row["total"][name] for side in (link.a, link.b) for row in side.daemon.show("cm_stats")["cm_stats"])


def first_connect(address):
    """The first connection of two daemons does not wait for a retransmission during neighbour discovery. A daemon that
    gets no processor for half a second has retransmissions, too: then others may try, if each was a copy of what had
    arrived. Returns the link."""
    for _ in range(5):
        link = lib.link_veth()
        server, _ = serve(link.b.daemon, address)
        client, number = ask(link.a.daemon, address)
        established(server, client, number)
        again = mads(link, "retries")
        client.close()
        server.close()
        if not again:
            return link
        lib.until("each retransmission was a copy", lambda link=link, again=again: mads(link, "duplicates") >= again)
        link.stop()
    raise AssertionError("a REQ or REP was retransmitted for each of five links")


def main():
    lib.need_root()
    link = lib.link_ring()
    all_of(link, "10.9.0.101", "10.9.0.102")
    # Requirements: CM-10, CM-11
    with lib.case("wildcards and loopback"):
        wildcards(link.a.daemon, "10.9.0.101")
    # Requirements: CM-12
    with lib.case("users"):
        users(link.a.daemon, "10.9.0.101")
    with lib.case("ring: the daemon ends cleanly"):
        link.stop()
    link = None
    with lib.case("veth: the first connection is prompt"):
        link = first_connect("10.9.0.102")
    link = link or lib.link_veth()
    all_of(link, "10.9.0.101", "10.9.0.102")
    # Requirements: CM-14
    with lib.case("urocectl shows ids and counters"):
        shown(link, "10.9.0.102")
    # Requirements: CM-04, CM-05
    with lib.case("lost MADs"):
        lossy(link, "10.9.0.102")
    # Requirements: CM-04, CM-05, CM-06
    with lib.case("many connections while a tenth of all MADs is lost"):
        storm(link, "10.9.0.102")
    # Requirements: CM-15
    with lib.case("a killed daemon"):
        daemon_killed(link, "10.9.0.102")
    link.a.daemon.stop()
    link = lib.link_veth()
    with lib.case("1,500 connections of a channel or daemon that ends"):
        test_many_end_at_once(link, "10.9.0.102")
    link.b.daemon.stop()
    link = lib.link_veth()
    with lib.case("a daemon that ends while a third of all MADs is lost"):
        test_end_while_mads_are_lost(link, "10.9.0.102")
    link.b.daemon.stop()
    link = link_udp()
    all_of(link, "10.9.0.1", "10.9.0.2")
    with lib.case("udp: IPv6"):
        connect(link.a.daemon, link.b.daemon, "fd00::2")
    with lib.case("udp: the daemons end cleanly"):
        link.stop()
    link = link_one_host()
    all_of(link, "10.9.0.1", "10.9.0.2")
    with lib.case("one host: the daemons end cleanly"):
        link.stop()
    lib.finish()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--client"]:
        client_main(*sys.argv[2:])
    main()
