#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Bad frames, bad control messages and bad rings are counted or end the connection; no other user notices."""
import os
import random
import socket
import struct
import time

from scapy.contrib.roce import AETH, BTH
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

import lib

COUNT = 25
SEND_ONLY, WRITE_ONLY, ACK, CNP = 0x04, 0x0a, 0x11, 0x81


def mac_of(side):
    """The MAC of a side's device."""
    return next(row["mac"] for row in side.daemon.show("device")["device"] if row["device"] == side.dev)


class Wire:
    """Sends frames from side a's address into side b's interface, to a QP with traffic."""

    def __init__(self, link):
        self.sock = lib.raw_socket(link.a.daemon.ns, "eth0")
        self.macs = [mac_of(side) for side in (link.a, link.b)]
        with lib.raw_socket(link.b.daemon.ns, "eth0") as there:
            self.genuine = self._listen(there)
        bth = next(f for f in self.genuine if f[42] == WRITE_ONLY)
        self.qpn = int.from_bytes(bth[47:50], "big")
        self.psn = int.from_bytes(bth[51:54], "big")
        self.reth = bth[54:70]

    def _listen(self, there):
        """RoCE frames a -> b of the running transfer, including at least one WRITE_ONLY."""
        there.settimeout(60)
        to_b = bytes.fromhex(self.macs[1].replace(":", ""))
        frames, end = [], time.monotonic() + 60
        while len(frames) < 200 or not any(f[42] == WRITE_ONLY for f in frames):
            assert time.monotonic() < end, "no WRITE ONLY frame seen"
            frame = there.recv(9000)
            if frame[:6] == to_b and frame[12:14] == b"\x08\x00" and frame[36:38] == b"\x12\xb7":
                frames.append(frame)
        return frames

    def base(self, **bth):
        """Headers up to the BTH of an acceptable frame; scapy adds the ICRC."""
        fields = {"opcode": SEND_ONLY, "migreq": 1, "dqpn": self.qpn, "psn": self.psn, **bth}
        return (Ether(src=self.macs[0], dst=self.macs[1]) /
                IP(src="10.9.0.101", dst="10.9.0.102", flags="DF") /
                UDP(sport=0xc001, dport=4791, chksum=0) / BTH(**fields))

    def write(self, payload=b"\xee" * 64, length=None, **bth):
        """A WRITE ONLY into the peer's real memory, with its real key."""
        addr, key, _ = struct.unpack("!QII", self.reth)
        reth = struct.pack("!QII", addr, key, len(payload) if length is None else length)
        return self.base(**{"opcode": WRITE_ONLY, **bth}) / Raw(reth + payload)

    def send(self, frame):
        self.sock.send(bytes(frame))


def short_bth(wire):
    """A datagram that ends inside the BTH."""
    return (Ether(src=wire.macs[0], dst=wire.macs[1]) /
            IP(src="10.9.0.101", dst="10.9.0.102") /
            UDP(sport=0xc001, dport=4791, chksum=0) / Raw(b"\x0a\x40\xff\xff\0\0"))


def patched(frame, offset, new):
    """The frame with bytes replaced after all checksums were computed."""
    raw = bytearray(bytes(frame))
    raw[offset:offset + len(new)] = new
    return bytes(raw)


def tagged(frame, tci):
    return frame[:12] + b"\x81\0" + struct.pack("!H", tci) + frame[12:]


def books(daemon):
    """OBS: each received frame is counted exactly once."""
    def right():
        for stats, drops in zip(daemon.show("stats")["stats"], daemon.show("drops")["drops"]):
            total = stats["total"]
            if total["rx_frames"] != (total["rx_roce"] + total["slow_path"] +
                                      sum(drops["total"].values())):
                return False
        return True
    lib.until("rx_frames is the sum of what became of them", right)


def udp_length(frame, delta):
    raw = bytes(frame)
    return patched(raw, 38, struct.pack("!H", int.from_bytes(raw[38:40], "big") + delta))


def bad_frames(wire):
    """(what, frame, acceptable drop reasons)."""
    good = bytes(wire.write())
    yield "a runt", short_bth(wire), {"runt", "bad_length", "bad_udp_length"}
    yield "a frame cut inside the RETH", wire.base(opcode=WRITE_ONLY) / Raw(b"\0" * 8), {
        "runt", "bad_length"}
    for opcode in (0x18, 0x1f, 0xa4, 0xff):
        yield f"opcode {opcode:#x}", wire.write(opcode=opcode), {"bad_opcode", "bad_service"}
    yield "pad larger than the payload", wire.write(payload=b"", padcount=3), {
        "bad_pad", "bad_length", "runt"}
    yield "an ACK with a payload", (wire.base(opcode=ACK) / AETH(syndrome=0x1f, msn=1) /
                                    Raw(b"\xee" * 8)), {"bad_length", "bad_pad"}
    yield "UDP length too long", udp_length(good, 4), {"bad_udp_length"}
    yield "UDP length below its header", udp_length(good, -100), {"bad_udp_length", "runt"}
    yield "IP length beyond the frame", patched(good, 16, b"\x23\x00"), {"bad_ip", "runt"}
    yield "IP header length 4", patched(good, 14, b"\x44"), {"bad_ip"}
    yield "bad IP checksum", patched(good, 24, b"\x12\x34"), {"bad_ip"}
    # No fragments: the kernel reassembles them before net_af_packet receives them.
    yield "bad ICRC", patched(good, len(good) - 1, bytes([good[-1] ^ 0x80])), {"bad_icrc"}
    yield "payload changed on the way", patched(good, 80, b"\x11"), {"bad_icrc"}
    yield "bad QPN", wire.write(dqpn=wire.qpn ^ 0x3f0f00), {"bad_qpn"}
    yield "QPN 0", wire.write(dqpn=0), {"bad_qpn"}
    yield "bad P_Key", wire.write(pkey=0x1234), {"bad_pkey"}
    yield "BTH version 1", wire.write(version=1), {"bad_tver"}
    yield "another's MAC", patched(good, 0, b"\x02\0\0\0\0\x99"), {"not_ours"}
    yield "the broadcast MAC", patched(good, 0, b"\xff" * 6), {"bad_multicast"}
    yield "a group's MAC", patched(good, 0, b"\x01\0\x5e\1\2\3"), {"bad_multicast"}
    for tci in (100, 0xe064, 4095):
        yield f"a tag, TCI {tci:#x}", tagged(good, tci), {"bad_vlan"}
    yield "a second tag", tagged(tagged(good, 0), 0), {"bad_vlan"}
    yield "another UDP port", patched(good, 36, b"\x12\xb6"), {"udp_port"}
    yield "another Ethernet type", patched(good, 12, b"\x88\xb5"), {"ethertype"}
    yield "another IP protocol", patched(good, 23, b"\xfd"), {"ip_protocol"}
    yield "IPv6 with hop by hop options", (good[:12] + b"\x86\xdd\x60\0\0\0\0\x20\0\x40" +
                                           bytes(64)), {"ipv6_extension"}
    yield "a CNP", wire.base(opcode=CNP, becn=1, padcount=0) / Raw(bytes(16)), {"cnp"}


def failed_completions(daemon):
    counters = daemon.counters("stats")
    return counters["req_cqe_error"] + counters["resp_cqe_error"]


def one_bad_frame(daemon, wire, frame, reasons):
    before = daemon.counters("drops")
    errors = failed_completions(daemon)
    for _ in range(COUNT):
        wire.send(frame)

    def counted():
        now = daemon.counters("drops")
        return sum(now[r] - before[r] for r in reasons if r in now) >= COUNT

    try:
        lib.until("counted", counted)
    except TimeoutError:
        now = daemon.counters("drops")
        grown = {k: now[k] - before[k] for k in now if now[k] != before[k]}
        raise AssertionError(f"{COUNT} sent, want one of {reasons}; counted: {grown}") from None
    assert failed_completions(daemon) == errors, "a completion error was caused"


def transfer(link):
    port = lib.tcp_port()
    server = link.b.spawn([lib.RCDATA, "-d", link.b.dev, "-p", str(port), "--timeout", "17"])
    lib.until("server listens", lambda: server.listens(port))
    client = link.a.spawn([lib.RCDATA, "-d", link.a.dev, "-p", str(port), "--timeout", "17",
                           "--qps", "1", "--depth", "4", "--max-len", "8000",
                           "--duration", "3600000", link.b.host])
    return server, client


def transfers(daemon, *procs):
    """Whether messages arrive at each of these programs, which then have all their objects."""
    return {proc.pid for proc in procs} <= {qp["pid"] for qp in daemon.show("qp")["qp"] if qp["msn"] > 5}


def frames():
    link = lib.link_veth()
    server, client = transfer(link)
    wire = Wire(link)
    for what, frame, reasons in bad_frames(wire):
        with lib.case(f"dropped and counted: {what}"):
            one_bad_frame(link.b.daemon, wire, frame, reasons)
    with lib.case("2000 frames of the transfer with bytes flipped"):
        rng = random.Random(7)
        for _ in range(2000):
            raw = bytearray(rng.choice(wire.genuine))
            for _ in range(rng.randint(1, 6)):
                raw[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
            wire.send(bytes(raw[:rng.choice((len(raw), rng.randint(15, len(raw))))]))
    with lib.case("the concurrent transfer is complete"):
        lib.enough(client, server)
        assert client.wait(90) == 0 and server.wait(60) == 0, client.tail() + server.tail()
    with lib.case("every frame was counted once"):
        for side in (link.a, link.b):
            books(side.daemon)
    with lib.case("the daemons end cleanly"):
        link.stop()


def vlans():
    """Two devices in VLAN 100 reach each other and drop everything else."""
    spaces = [lib.netns(), lib.netns()]
    lib.veth(spaces[0], "10.9.0.1/24", spaces[1], "10.9.0.2/24", 1500)
    sides = []
    for i, ns in enumerate(spaces):
        dev = f"name=uroce0,port=net_af_packet0,addr=10.9.0.{101 + i}/24,mtu=1024,vlan=100"
        sides.append(lib.Side(lib.Daemon([lib.af_packet("eth0")], [dev], ns), "uroce0",
                              f"10.9.0.{1 + i}"))
    link = lib.Link("veth", *sides, 1024)
    with lib.case("two devices of VLAN 100 transfer"):
        lib.verbs_pair(link.b, link.a, "ibv_rc_pingpong", ["-d", "{dev}", "-g", "1", "-n", "100"])
    sock = lib.raw_socket(link.a.daemon.ns, "eth0")
    macs = [bytes.fromhex(lib.mac_of(side.daemon.ns, "eth0").replace(":", "")) for side in sides]
    arp = (b"\xff" * 6 + macs[0] + struct.pack("!HHHBBH", 0x0806, 1, 0x0800, 6, 4, 1) + macs[0] +
           bytes((10, 9, 0, 101)) + bytes(6) + bytes((10, 9, 0, 102)))
    roce = bytes(Ether(src=macs[0], dst=macs[1]) /
                 IP(src="10.9.0.101", dst="10.9.0.102", flags="DF") /
                 UDP(sport=0xc001, dport=4791, chksum=0) / BTH(opcode=SEND_ONLY, dqpn=1, psn=1))
    for what, frame in (("ARP", arp), ("RoCE", roce)):
        for tag, spoilt in (("no tag", frame), ("VID 0", tagged(frame, 0)),
                            ("VID 200", tagged(frame, 200)), ("VID 4095", tagged(frame, 4095)),
                            ("two tags", tagged(tagged(frame, 100), 100))):
            with lib.case(f"a device of VLAN 100: {what} with {tag}"):
                before = link.b.daemon.counters("drops")["bad_vlan"]
                sock.send(spoilt)
                lib.until("counted", lambda before=before:
                          link.b.daemon.counters("drops")["bad_vlan"] > before)
    with lib.case("every frame was counted once, with a VLAN"):
        for side in sides:
            books(side.daemon)
        link.stop()


def control_garbage(path, rng):
    """Sends garbage on one connection; the daemon must close it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
        sock.settimeout(60)
        sock.connect(str(path))
        head = struct.pack("<IHHIIII", 0x434f5255, 1, rng.randrange(64), 7, 0, 0, 0)
        start = rng.choice((b"", b"\xff" * 24, head[:rng.randint(1, 23)], head + b"x",
                            head[:4] + b"\xff\xff" + head[6:]))
        try:
            for _ in range(4):
                sock.send(start + rng.randbytes(rng.choice((1, 8, 200, 16000, 30000))))
            while sock.recv(65536):  # replies are fine, but the connection must end
                pass
        except (ConnectionResetError, BrokenPipeError):
            pass


def clients():
    link = lib.link_ring()
    daemon = link.a.daemon
    server, client = transfer(link)
    lib.until("the transfer runs", lambda: transfers(daemon, server, client))
    at_rest = daemon.objects()
    with lib.case("garbage on the control socket loses that connection only"):
        rng = random.Random(11)
        for _ in range(60):
            control_garbage(daemon.socket, rng)
        lib.until("their contexts are gone", lambda: daemon.objects() == at_rest)
    with lib.case("a silent client affects no other"):
        idle = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        idle.connect(str(daemon.socket))
        lib.verbs_pair(link.b, link.a, "ibv_rc_pingpong", ["-d", "{dev}", "-c", "-g", "1"])
        idle.close()
    for seed in range(3 if lib.SHORT else 6):
        with lib.case(f"a client scribbles over all its shared rings, seed {seed}"):
            junk = link.a.spawn([lib.BUILD / "test/system/ringjunk", link.a.dev, str(seed)])
            rc = junk.wait(60)
            assert rc != 1, f"ringjunk was not set up:\n{junk.tail()}"
            daemon.alive()
            lib.until("its objects are gone", lambda: daemon.objects() == at_rest)
    with lib.case("the concurrent transfer is complete"):
        lib.enough(client, server)
        assert client.wait(60) == 0 and server.wait(60) == 0, client.tail() + server.tail()
    with lib.case("the daemon ends cleanly"):
        link.stop()


def main():
    lib.need_root()
    os.environ.setdefault("HOME", "/root")
    frames()
    vlans()
    clients()
    lib.finish()


if __name__ == "__main__":
    main()
