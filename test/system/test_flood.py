#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A host of the same network floods a device and forges packets, beside a good connection: that goes on, requests of
clients are answered, the drops have names, and tables and memory are bounded. Measures no speed (test/bench/cm_storm.py
does).

  test_flood.py [veth|workers|udp|packet]..    ports of DPDK with one worker, with two; ports on sockets of the kernel
"""
import collections
import os
import pathlib
import random
import socket
import sys
import time

import cmclient
import control
import floods
import hostlink
import lib
from test_badinput import Wire, books, mac_of

KINDS_OF = 512  # frames of a kind that differ
BURST = 4096  # frames sent at once: four times the slots of the port and of the ring to the control thread
BURSTS = 2
PASSES = int(os.environ.get("UROCE_FLOOD_PASSES", 3))  # the first two touch memory that the daemon has from its start
SEED = int(os.environ.get("UROCE_FLOOD_SEED", 1))
PORT, BACKLOG = 7471, 16
RSS_KIB = 8192  # of 120,000 frames or more; memory of its start that the daemon first touches is 2 to 5 MiB
# Why frames of a kind are dropped; MADs when there are too many. The others are for the control thread.
DROPS = {"unknown QPN": "bad_qpn", "other hosts": "bad_gid", "CNP": "cnp", "SACK": "sack", "ACK": "stale_response",
         "wrong ICRC": "bad_icrc", "REQ": "mad_limit", "other MADs": "mad_limit"}
MADS = 1000  # of those, the control thread gets at most so many, and one more in each millisecond


def way(near, far, addresses):
    return floods.Way(*(bytes.fromhex(mac_of(side).replace(":", "")) for side in (near, far)),
                      *(socket.inet_aton(a) for a in addresses))


class Transfer:
    """Two rcdata, which send until end(). timeout: of an ACK, 4.096 us times 2^timeout."""

    def __init__(self, link, timeout=18):
        port = lib.tcp_port()
        own = ["--timeout", str(timeout), "--stall", "200", "-p", str(port)]
        self.link = link
        self.server = link.b.spawn([lib.RCDATA, "-d", link.b.dev, *own])
        lib.until("server listens", lambda: self.server.listens(port))
        self.client = link.a.spawn([lib.RCDATA, "-d", link.a.dev, *own, "--qps", "1", "--depth", "4", "--max-len", "3000",
                                    "--duration", "3600000", link.b.host])
        self.goes_on()

    def messages(self):
        """Numbers of messages that its QPs have received; None if they are gone or have not begun."""
        found = [qp["msn"] for side, proc in ((self.link.a, self.client), (self.link.b, self.server))
                 for qp in side.daemon.show("qp")["qp"] if qp["pid"] == proc.pid]
        return found if len(found) == 2 and all(found) else None

    def ended(self):
        return self.client.poll() is not None or self.server.poll() is not None

    def goes_on(self):
        """Waits until both ends have received more messages."""
        first = lib.until("messages arrive", self.messages)

        def more():
            assert not self.ended(), self.client.tail() + self.server.tail()
            now = self.messages()
            return now and all(a != b for a, b in zip(first, now))
        lib.until("more messages arrive", more)

    def end(self):
        """Exit statuses after both have stopped sending."""
        for proc in (self.client, self.server):
            if proc.poll() is None:
                lib.enough(proc)
        return self.client.wait(lib.processes.HANGS_S), self.server.wait(lib.processes.HANGS_S)


class Target:
    """Side b of a link, with a listener; the REQ that it gets from side a is the model of forged MADs."""

    def __init__(self, link, addresses):
        self.link, self.daemon, self.addresses = link, link.b.daemon, addresses
        self.way = way(link.a, link.b, addresses)
        self.client = control.Client(self.daemon.socket, link.b.dev)
        self.channel = cmclient.Channel(str(self.daemon.socket))
        listener = self.channel.create(1)
        self.channel.bind(listener, cmclient.sockaddr(addresses[1], PORT))
        self.channel.listen(listener, BACKLOG)
        self.sock = lib.raw_socket(link.a.daemon.ns, "eth0")
        self.peer = cmclient.Channel(str(link.a.daemon.socket))
        with lib.raw_socket(link.b.daemon.ns, "eth0") as there, lib.raw_socket(link.a.daemon.ns, "eth0") as here:
            number = self.peer.create(1)
            self.peer.resolve(number, cmclient.sockaddr(addresses[1], PORT))
            self.peer.connect(number, 0x100)
            self.model = floods.await_mad(there, floods.REQ)
            request = self.channel.event("CONNECT_REQUEST")
            self.channel.accept(request.id, 2, 0x200)
            self.rep = floods.await_mad(here, floods.REP)
            self.peer.event("CONNECT_RESPONSE")
            self.peer.ready(number)
            self.channel.event("ESTABLISHED")
        self.connection = number

    def answers(self):
        """Requests of a client and of urocectl get their reply."""
        status, handle, _ = self.client.make("ALLOC_PD")
        assert status == 0 and self.client.do("DEALLOC_PD", control.one(handle)) == 0
        return self.daemon.show("neigh")["neigh"]

    def counted(self):
        return collections.Counter(self.daemon.counters("stats")) + collections.Counter(self.daemon.counters("drops"))

    def size(self):
        """Resident KiB, descriptors, neighbours, ids of the connection manager."""
        proc = pathlib.Path(f"/proc/{self.daemon.proc.pid}")
        rss = next(int(line.split()[1]) for line in (proc / "status").read_text().splitlines() if line.startswith("VmRSS"))
        return rss, len(list((proc / "fd").iterdir())), len(self.answers()), len(self.daemon.show("cm")["cm"])

    def mads(self, kind):
        """MADs of a kind of floods.CM_MADS that the control thread got."""
        total = self.daemon.show("cm_stats")["cm_stats"][0]["total"]
        return sum(n for name, n in total.items() if name.startswith("rx_") and (name == "rx_REQ") == (kind == "REQ"))

    def flood(self, good, name, frames):
        """Bursts, without a pause, until enough of the frames were counted."""
        flood, before, start, mads = floods.Flood(self.sock, frames), self.counted(), time.monotonic(), self.mads(name)
        for _ in range(BURSTS):
            flood.send(BURST)
            good.goes_on()
            self.answers()

        def grown():
            now = self.counted()
            found = {what: now[what] - before[what] for what in now if now[what] != before[what]}
            enough = found.get(DROPS.get(name, "slow_path"), 0) >= BURSTS * KINDS_OF
            return found if enough or flood.send(KINDS_OF) and time.monotonic() > end else None
        end = time.monotonic() + lib.processes.HANGS_S / 2
        found = lib.until("frames are counted", grown)
        assert found.get(DROPS.get(name, "slow_path"), 0) >= BURSTS * KINDS_OF, found
        if name in floods.CM_MADS:
            got = self.mads(name) - mads
            most = MADS + 1000 * (time.monotonic() - start) + 2 * BACKLOG  # those that are accepted
            assert got <= most, (got, most)

    def end(self):
        self.client.close()
        self.channel.close()
        self.peer.close()


def flooded(target, good, neighbours):
    """All kinds, with other frames in each pass: the last takes no memory."""
    wire, sizes = Wire(target.link), []
    for again in range(PASSES):
        rng = random.Random(PASSES * SEED + again)
        made = floods.kinds(rng, target.way, wire.qpn, wire.psn, target.model, KINDS_OF, neighbours)
        for name, frames in made.items():
            with lib.case(f"{target.link.kind}: a flood of {name}{f', pass {again + 1}' * bool(again)}"):
                target.flood(good, name, frames)
        sizes.append(target.size())
    with lib.case(f"{target.link.kind}: tables and memory are bounded"):
        print(f"# resident KiB, descriptors, neighbours, ids: {sizes}")
        least = min(size[1] for size in sizes)  # the last urocectl may not be closed yet
        lib.until("the daemon has no more descriptors than before", lambda: target.size()[1] <= least)
        assert lib.SANITIZED or sizes[-1][0] - sizes[-2][0] < RSS_KIB, sizes
        assert sizes[-1][2] == neighbours and sizes[-1][3] <= 2 + BACKLOG, sizes
        books(target.daemon)


def connection_of_cm(target):
    """Messages about it that are forged do not end it, unless addresses, ids and QPN are right."""
    local, remote = floods.ids(target.rep)[::-1]
    rng = random.Random(SEED)
    body = (0x200).to_bytes(3, "big") + bytes(1)
    wrong = {
        "another host": floods.forge(target.model, floods.DREQ, local, remote, floods.stranger(rng, target.way).src,
                                     body=body),
        "another id": floods.forge(target.model, floods.DREQ, local, rng.randbytes(4), body=body),
        "another id of its sender": floods.forge(target.model, floods.DREQ, rng.randbytes(4), remote, body=body),
        "another QPN": floods.forge(target.model, floods.DREQ, local, remote, body=(0x201).to_bytes(3, "big") + bytes(1)),
    }
    for what, frame in wrong.items():
        with lib.case(f"{target.link.kind}: a forged DREQ of {what} is ignored"):
            before = target.daemon.show("cm_stats")["cm_stats"][0]["total"]["rx_DREQ"]
            # Again, while its sender may not send more.
            lib.until("it has arrived",
                      lambda b=before, f=frame: target.sock.send(f) and
                      target.daemon.show("cm_stats")["cm_stats"][0]["total"]["rx_DREQ"] > b)
            established(target)
    with lib.case(f"{target.link.kind}: after all that the connection ends as usual"):
        established(target)
        target.peer.disconnect(target.connection)
        names = [target.channel.event().name]
        while names[-1] == "CONNECT_REQUEST":  # of the flood
            names.append(target.channel.event().name)
        assert names[-1] == "DISCONNECTED", names
        target.peer.event("DISCONNECTED")


def established(target):
    rows = target.daemon.show("cm")["cm"]
    assert [row["connection"] for row in rows if row.get("qpn") == 0x200] == ["ESTABLISHED"], rows


def spoofed(target, good):
    """Acknowledgements with the right addresses, QPN and PSN cannot be told from genuine ones. They harm their
    connection only."""
    back = way(target.link.b, target.link.a, target.addresses[::-1])
    sock = lib.raw_socket(target.link.b.daemon.ns, "eth0")
    at_rest = [daemon.objects() for daemon in target.link.daemons]
    for syndrome in floods.SYNDROMES:
        with lib.case(f"{target.link.kind}: forged responses of syndrome {syndrome:#x} within the window"):
            victim = Transfer(target.link)
            qpn = next(qp["qpn"] for qp in target.link.a.daemon.show("qp")["qp"] if qp["pid"] == victim.client.pid)
            with lib.raw_socket(target.link.a.daemon.ns, "eth0") as here:
                here.settimeout(0.2)
                forged = 0
                while forged < 300 and not victim.ended():
                    try:
                        frame = here.recv(9000)
                    except TimeoutError:
                        continue
                    head = frame[floods.BTH:floods.BTH + 12]
                    if frame[12:14] == b"\x08\x00" and head[:1] == b"\x11" and int.from_bytes(head[5:8], "big") == qpn:
                        psn = int.from_bytes(head[9:12], "big")
                        for ahead in range(1, 5):
                            sock.send(floods.roce(back, floods.ACK, qpn, psn + ahead, floods.aeth(syndrome)))
                        forged += 4
            statuses = victim.end()
            print(f"# {forged} forged; statuses {statuses}")
            assert forged and set(statuses) <= {0, 1, 3, 4}, (statuses, victim.client.tail(), victim.server.tail())
            for daemon, before in zip(target.link.daemons, at_rest):
                lib.until("its objects are gone", lambda d=daemon, b=before: d.objects() == b)
            good.goes_on()
            target.answers()
    sock.close()


def flapping(target, good):
    """Others claim the peer's address, again and again: the connection is back when they are silent."""
    rng = random.Random(SEED)
    claims = [floods.arp(rng, target.way._replace(smac=b"\x02" + rng.randbytes(5))) for _ in range(KINDS_OF)]
    flood = floods.Flood(target.sock, claims)
    with lib.case(f"{target.link.kind}: the neighbour flaps"):
        for _ in range(2 * BURSTS):
            flood.send(BURST)
            good.goes_on()
        macs = {row["mac"] for row in lib.until("known", target.answers)}
        lib.until("its MAC is known again", lambda: {row["mac"] for row in target.answers()} == {
            mac_of(target.link.a)})
        print(f"# at first {macs}")


def port(link, addresses, neighbours):
    target = Target(link, addresses)
    good = Transfer(link)
    flooded(target, good, neighbours)
    if neighbours:
        flapping(target, good)
    spoofed(target, good)
    connection_of_cm(target)
    with lib.case(f"{link.kind}: the good connection is complete, every frame was counted once"):
        assert good.end() == (0, 0), good.client.tail() + good.server.tail()
        books(target.daemon)
    target.end()
    link.end(link.kind)


def link_kernel(spec):
    """Two daemons with ports on sockets of the kernel."""
    sides = []
    for i, ns in enumerate(hostlink.spaces(4200), 1):
        daemon = lib.Daemon([], [f"name=uroce0,mtu=4096,{spec.format(i=i)}"], ns)
        sides.append(lib.Side(daemon, "uroce0", f"10.9.0.{i}"))
    return lib.Link(spec.split(",")[0], *sides, 4096)


DPDK, KERNEL = ("10.9.0.101", "10.9.0.102"), ("10.9.0.1", "10.9.0.2")
# The link, the devices' addresses, and whether the device answers and asks neighbours itself.
PORTS = {
    "veth": (lib.link_veth, DPDK, True),
    "workers": (lambda: lib.link_veth(extra=lib.TWO_WORKERS), DPDK, True),
    "udp": (lambda: link_kernel("port=udp,iface=eth0"), KERNEL, False),
    "packet": (lambda: link_kernel("port=packet,iface=eth0,addr=10.9.0.10{i}/24"), DPDK, True),
}


def main():
    lib.need_root()
    for name in sys.argv[1:] or PORTS:
        link, addresses, neighbours = PORTS[name]
        port(link(), addresses, neighbours)
    lib.finish()


if __name__ == "__main__":
    main()
