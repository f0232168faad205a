#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""One user, or one peer, takes all it can of what selective repeat shares: lists and copies of early requests, and the
table of peers. Others still get their part, or the daemon says which QP uses go-back-N. Frames are forged, so nothing
depends on time."""
import contextlib
import os
import socket
import struct

import control
import floods
import lib

ALICE, BOB = 65534, 65533
A, ALSO_A, B = "10.9.0.101", "10.9.0.103", "10.9.0.102"
EPSN = 100  # of control.modify
QPS = 600  # more than a worker has lists
# Early requests for each QP, more in all than a worker holds. A QP that is refused a place drops all that it holds, so
# the QPs with few requests come last and take the places that are left.
DEPTHS = [250] * 48 + [128, 64, 32, 16, 8, 4, 2, 1, 1]
PEERS = 300  # more than a device remembers
BURST = 512  # half of the port's slots


class User:
    """A client of a user with one PD and CQ."""

    def __init__(self, side, uid):
        with control.as_uid(uid):
            self.client = control.Client(side.daemon.socket, side.dev)
        self.daemon = side.daemon
        self.dest = uid  # QPs of several users may not have the same peer
        for op, body in (("ALLOC_PD", b""), ("CREATE_CQ", control.cq())):
            assert self.client.make(op, body)[0] == 0

    def connect(self, peer, count=1):
        """QPs that are ready to receive from QPs of this address. Returns their QPNs."""
        qpns = []
        for _ in range(count):
            status, handle, body = self.client.make("CREATE_QP", control.qp(0, 0, 0))
            assert status == 0, os.strerror(status)
            qpns.append(struct.unpack_from("<I", body, 4)[0])
            for state in (control.INIT, control.RTR):
                assert self.client.do("MODIFY_QP", control.modify(
                    handle, state, control.ipv4_gid(peer), self.dest)) == 0
        return qpns

    def agreed(self, qpn):
        lib.until("the peer agrees", lambda: self.qp(qpn)["sr"] == "on")

    def qp(self, qpn):
        return next(qp for qp in self.daemon.show("qp")["qp"] if qp["qpn"] == qpn)

    def close(self):
        self.client.close()


def link():
    """As lib.link_veth. Every user can reach the daemons, and side a has two addresses."""
    sides, spaces = [], [lib.netns(), lib.netns()]
    lib.veth(spaces[0], "10.9.0.1/24", spaces[1], "10.9.0.2/24", 1500)
    for i, ns in enumerate(spaces):
        folder = lib.tmpdir()
        folder.chmod(0o711)
        dev = "name=uroce0,port=net_af_packet0,mtu=1024," + (f"addr={A}/16,addr={ALSO_A}/16", f"addr={B}/16")[i]
        daemon = lib.Daemon([lib.af_packet("eth0")], [dev], ns, (*lib.ONE_WORKER, "--socket-mode", "0666"),
                            socket=folder / "uroced.sock")
        sides.append(lib.Side(daemon, "uroce0", f"10.9.0.{1 + i}"))
    return lib.Link("veth", *sides, 1024)


class Forger:
    """Sends early requests to QPs of side b, as if from an address of side a."""

    def __init__(self, link, peer):
        macs = [bytes.fromhex(lib.mac_of(side.daemon.ns, "eth0").replace(":", "")) for side in (link.a, link.b)]
        self.way = floods.Way(*macs, socket.inet_aton(peer), socket.inet_aton(B))
        self.sock = lib.raw_socket(link.a.daemon.ns, "eth0")
        self.daemon = link.b.daemon

    def frame(self, qpn, ahead):
        return floods.roce(self.way, floods.SEND_ONLY, qpn, EPSN + ahead, bytes(16))

    def flood(self, qpns, depths):
        """So many early requests to each of these QPs."""
        frames = [self.frame(qpn, ahead) for qpn, depth in zip(qpns, depths) for ahead in range(1, depth + 1)]
        for at in range(0, len(frames), BURST):
            burst = floods.Flood(self.sock, frames[at:at + BURST])
            before = self.daemon.counters()["rx_frames"]
            lib.until("they arrive", lambda n=burst.n, send=burst.send, b=before:
                      send(n) and self.daemon.counters()["rx_frames"] - b >= 2 * n)

    def is_held(self, user, qpn):
        """An early request to this QP is held: it is not dropped for want of memory."""
        lib.until("an early request is held", lambda: self.sock.send(self.frame(qpn, 1)) and user.qp(qpn)["sr_held"] == 1)

    def close(self):
        self.sock.close()


def held(daemon, uid):
    return sum(qp["sr_held"] for qp in daemon.show("qp")["qp"] if qp["uid"] == uid)


def early(lnk, what, depths):
    with contextlib.ExitStack() as ends:
        alice, bob = User(lnk.b, ALICE), User(lnk.b, BOB)
        ends.callback(alice.close)
        ends.callback(bob.close)
        forger, other = (ends.enter_context(contextlib.closing(Forger(lnk, peer))) for peer in (A, ALSO_A))
        qpns, (bobs,), (alices,) = alice.connect(A, len(depths)), bob.connect(A), alice.connect(ALSO_A)
        for user, qpn in ((alice, qpns[-1]), (alice, alices), (bob, bobs)):
            user.agreed(qpn)
        forger.flood(qpns, depths)
        print(f"# {held(lnk.b.daemon, ALICE)} early requests of {sum(depths)} are held")
        with lib.case(f"a user whose peer fills {what} leaves some to another user"):
            forger.is_held(bob, bobs)
        with lib.case(f"a peer that fills {what} leaves some to another peer of the same user"):
            other.is_held(alice, alices)
    lib.until("no QP is left", lambda: not lnk.b.daemon.show("qp")["qp"])


def peers(lnk):
    """Side a does not answer for a while. Meanwhile another user's QPs have more peers than the table."""
    alice, bob = User(lnk.b, ALICE), User(lnk.b, BOB)
    with lnk.a.daemon.stopped():
        (bobs,) = bob.connect(A)
        for i in range(PEERS):
            alice.connect(f"10.9.{1 + i // 100}.{1 + i % 100}")
    bob.agreed(bobs)
    alice.close()
    bob.close()


def main():
    lib.need_root()
    lnk = link()
    early(lnk, "all lists of early requests", [1] * QPS)
    early(lnk, "all memory of early requests", DEPTHS)
    with lib.case("a user with very many peers does not keep another user's QPs from selective repeat"):
        peers(lnk)
    lnk.end()
    lib.finish()


main()
