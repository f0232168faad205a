# SPDX-License-Identifier: BSD-3-Clause
"""Floods: frames of each kind that a host on the same network can send, and a sender that takes no longer for a frame
than the kernel. For tests, and for test/bench/cm_storm.py."""
import collections
import ctypes
import socket
import struct
import zlib

IP, UDP, BTH, MAD = 14, 34, 42, 62  # offsets of an IPv4 frame; UD has a DETH of 8 bytes behind the BTH
CM = 24  # offset of a CM message behind the MAD's header
ROCE_PORT = 4791
SEND_ONLY, ACK, CNP, SACK = 0x04, 0x11, 0x81, 0xd1
REQ, REJ, REP, RTU, DREQ = 0x10, 0x12, 0x13, 0x14, 0x15  # attribute ids of the CM's MADs
NO_QP = 0xabcdef

# The frames' way: MACs and IPv4 addresses of the host that they seem to come from, and of the device that they go to.
Way = collections.namedtuple("Way", "smac dmac src dst")

_libc = ctypes.CDLL(None, use_errno=True)


class _Vec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_char_p), ("len", ctypes.c_size_t)]


class _Header(ctypes.Structure):
    _fields_ = [("name", ctypes.c_void_p), ("namelen", ctypes.c_uint), ("iov", ctypes.POINTER(_Vec)),
                ("iovlen", ctypes.c_size_t), ("control", ctypes.c_void_p), ("controllen", ctypes.c_size_t),
                ("flags", ctypes.c_int)]


class _Message(ctypes.Structure):
    _fields_ = [("header", _Header), ("sent", ctypes.c_uint)]


class Flood:
    """Sends these frames (at most 1024) again and again through a packet socket."""

    def __init__(self, sock, frames):
        self.sock, self.n = sock, len(frames)
        self.vecs = (_Vec * self.n)(*[_Vec(frame, len(frame)) for frame in frames])
        self.messages = (_Message * self.n)()
        for i, message in enumerate(self.messages):
            message.header.iov, message.header.iovlen = ctypes.pointer(self.vecs[i]), 1

    def send(self, count):
        """Sends at least count frames, without a pause."""
        sent = 0
        while sent < count:
            n = _libc.sendmmsg(self.sock.fileno(), self.messages, self.n, 0)
            if n < 0:
                raise OSError(ctypes.get_errno(), "sendmmsg")
            sent += n
        return sent


def _sum(data):
    data += bytes(len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return struct.pack("!H", ~total & 0xffff)


def ipv4(way, protocol, rest):
    head = bytearray(struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(rest), 0, 0x4000, 64, protocol, 0) + way.src + way.dst)
    head[10:12] = _sum(bytes(head))
    return way.dmac + way.smac + b"\x08\x00" + bytes(head) + rest


def icmp6(way, src, dst, rest):
    """A frame with an ICMPv6 message, whose checksum is put in."""
    pseudo = src + dst + struct.pack("!II", len(rest), 58)
    rest = rest[:2] + _sum(pseudo + rest) + rest[4:]
    return way.dmac + way.smac + struct.pack("!HIHBB", 0x86dd, 6 << 28, len(rest), 58, 255) + src + dst + rest


def icrc(frame):
    """ICRC of a frame of IPv4 whose last four bytes are to hold it."""
    masked = bytearray(frame[IP:-4])
    for at in (1, 8, 10, 11, UDP - IP + 6, UDP - IP + 7, BTH - IP + 4):
        masked[at] = 0xff
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + masked))


def roce(way, opcode, qpn, psn, rest=b""):
    """A RoCE frame with a right ICRC."""
    bth = struct.pack("!BBHII", opcode, 0x40, 0xffff, qpn, psn & 0xffffff) + rest
    udp = struct.pack("!HHHH", 0xc001, 4791, 8 + len(bth) + 4, 0)
    frame = bytearray(ipv4(way, 17, udp + bth + bytes(4)))
    frame[-4:] = icrc(frame)
    return bytes(frame)


def is_mad(frame, attribute):
    """Is it a MAD of the connection manager with this attribute?"""
    return (len(frame) > MAD + 256 and frame[12:14] == b"\x08\x00" and frame[UDP + 2:UDP + 4] == b"\x12\xb7" and
            frame[BTH + 5:BTH + 8] == b"\0\0\1" and frame[MAD + 16:MAD + 18] == attribute.to_bytes(2, "big"))


def await_mad(listen, attribute):
    """The next such MAD that a packet socket sees."""
    listen.settimeout(120)
    while not is_mad(frame := listen.recv(4096), attribute):
        pass
    assert frame[-4:] == icrc(frame), "the ICRC of the captured MAD is not the computed one"
    return frame


def ids(mad):
    """Communication ids of a MAD: its sender's, and its receiver's (not of a REQ)."""
    return mad[MAD + CM:MAD + CM + 4], mad[MAD + CM + 4:MAD + CM + 8]


def forge(model, attribute, local, remote=None, src=None, qpn=1, body=b""):
    """A copy of the REQ as another message: with these ids, from src, to qpn. body: what follows the ids."""
    frame = bytearray(model)
    frame[BTH + 5:BTH + 8] = qpn.to_bytes(3, "big")
    frame[MAD + 16:MAD + 18] = attribute.to_bytes(2, "big")
    frame[MAD + 12:MAD + 16] = local  # half of the transaction's id
    frame[UDP + 6:UDP + 8] = bytes(2)  # no checksum: that of a socket's datagram would be wrong now
    frame[MAD + CM:MAD + CM + 4] = local
    if remote:
        frame[MAD + CM + 4:MAD + CM + 8 + len(body)] = remote + body
    if src:
        frame[IP + 12:IP + 16] = src
        frame[IP + 10:IP + 12] = bytes(2)
        frame[IP + 10:IP + 12] = _sum(bytes(frame[IP:UDP]))
    frame[-4:] = icrc(frame)
    return bytes(frame)


def req(rng, model, qpn=1):
    """A copy of the REQ with other ids and another QPN of its sender."""
    frame = bytearray(model)
    frame[MAD + CM + 32:MAD + CM + 35] = rng.randrange(2, 1 << 24).to_bytes(3, "big")
    return forge(frame, REQ, rng.randbytes(4), qpn=qpn)


def other(rng, model):
    """A message of the CM about a connection that does not exist."""
    return forge(model, rng.choice((REJ, REP, RTU, DREQ)), rng.randbytes(4), rng.randbytes(4))


def stranger(rng, way):
    """From a host of the network that has no device."""
    return way._replace(smac=b"\x02" + rng.randbytes(5), src=way.src[:3] + bytes((rng.randrange(110, 255),)))


def arp(rng, way):
    """A request for the device's address, or an answer that nobody asked for."""
    return (way.dmac + way.smac + struct.pack("!HHHBBH", 0x0806, 1, 0x0800, 6, 4, rng.choice((1, 2))) + way.smac + way.src +
            way.dmac + way.dst)


def nd(rng, way):
    """A neighbour solicitation for the device's link-local address, or an advertisement."""
    ours = b"\xfe\x80" + bytes(6) + bytes((way.dmac[0] ^ 2,)) + way.dmac[1:3] + b"\xff\xfe" + way.dmac[3:]
    theirs = b"\xfe\x80" + bytes(6) + rng.randbytes(8)
    if rng.random() < 0.5:
        return icmp6(way, theirs, ours, struct.pack("!BBHI", 135, 0, 0, 0) + ours + b"\1\1" + way.smac)
    return icmp6(way, theirs, ours, struct.pack("!BBHI", 136, 0, 0, 3 << 29) + theirs + b"\2\1" + way.smac)


def echo(rng, way):
    rest = struct.pack("!BBHI", 8, 0, 0, rng.getrandbits(32)) + bytes(32)
    return ipv4(way, 1, rest[:2] + _sum(rest) + rest[4:])


def aeth(syndrome, msn=1):
    return struct.pack("!I", syndrome << 24 | msn)


def sack(rng):
    """AETH and payload of a selective acknowledgement: of this version or another, with any bits."""
    return aeth(0x1f) + bytes((rng.choice((0, 3, 3, 3, 9)), rng.randrange(4))) + rng.randbytes(6 + 8 * rng.randrange(1, 17))


SYNDROMES = (0x1f, 0x20, 0x60, 0x61, 0x62, 0x63)  # ACK, RNR NAK, NAKs
# For a queue pair of the device that is connected to the way's source. The PSN of all is far from the window.
CONNECTED = {
    "unknown QPN": lambda rng, way, qpn, far: roce(way, SEND_ONLY, qpn ^ rng.randrange(1, 1 << 12) << 12, far, bytes(16)),
    "other hosts": lambda rng, way, qpn, far: roce(stranger(rng, way), SEND_ONLY, qpn, far, bytes(16)),
    "CNP": lambda rng, way, qpn, far: roce(way, CNP, qpn, 0, bytes(16)),
    "SACK": lambda rng, way, qpn, far: roce(way, SACK, qpn, far, sack(rng)),
    "ACK": lambda rng, way, qpn, far: roce(way, ACK, qpn, far, aeth(rng.choice(SYNDROMES))),
    "wrong ICRC": lambda rng, way, qpn, far: roce(way, SEND_ONLY, qpn, far, rng.randbytes(64))[:-4] + rng.randbytes(4),
}
# For the control thread.
NEIGHBOURS = {"ARP": arp, "ND": nd, "ICMP": echo}
CM_MADS = {"REQ": req, "other MADs": other}


def kinds(rng, way, qpn, psn, model, count, neighbours=True):
    """By name: count frames. qpn, psn: of a queue pair of the device; model: a REQ for the device."""
    def several(make, *args):
        return [make(rng, *args) for _ in range(count)]
    made = {name: several(lambda rng, make=make: make(rng, way, qpn, psn + (1 << 22) + rng.randrange(1 << 21)))
            for name, make in CONNECTED.items()}
    if neighbours:
        made.update({name: several(lambda rng, make=make: make(rng, stranger(rng, way))) for name, make in NEIGHBOURS.items()})
    made.update({name: several(make, model) for name, make in CM_MADS.items()})
    return made


def packet_socket(iface):
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    sock.bind((iface, 0))
    return sock
