# SPDX-License-Identifier: BSD-3-Clause
"""Reads pcap and pcapng files and RoCEv2 frames with struct and zlib only, independently of lib/wire."""
import dataclasses
import ipaddress
import struct
import zlib

PORT = 4791
MAGIC = {0xA1B2C3D4: 1000, 0xA1B23C4D: 1}  # unit of the time stamps in ns
ROLES = {0: "SEND_FIRST", 1: "SEND_MIDDLE", 2: "SEND_LAST", 3: "SEND_LAST_IMM", 4: "SEND_ONLY",
         5: "SEND_ONLY_IMM", 6: "WRITE_FIRST", 7: "WRITE_MIDDLE", 8: "WRITE_LAST",
         9: "WRITE_LAST_IMM", 10: "WRITE_ONLY", 11: "WRITE_ONLY_IMM", 12: "READ_REQ",
         13: "RESP_FIRST", 14: "RESP_MIDDLE", 15: "RESP_LAST", 16: "RESP_ONLY", 17: "ACK",
         18: "ATOMIC_ACK", 19: "CMP_SWAP", 20: "FETCH_ADD", 22: "SEND_LAST_INV",
         23: "SEND_ONLY_INV"}
KNOWN = {*ROLES, *range(0x20, 0x2C), 0x64, 0x65, 0x81, 0xD1}  # RC, UC, UD, CNP, SACK
RETH = {6, 10, 11, 12}
AETH = {13, 15, 16, 17, 18}
ATOMIC = {19, 20}
FULL = {0, 1, 6, 7, 13, 14}  # FIRST, MIDDLE: no pad
BARE = {12, 17, 18, 19, 20}                            # headers only
RESPONSES = {13, 14, 15, 16, 17, 18}


def reader(path):
    """Yields (number, time in ns, bytes) for each frame of a file."""
    for number, time, data, _ in records(path):
        yield number, time, data


def records(path):
    """Yields (number, time in ns, bytes, sent) for each frame of a file. sent is None if the file does not record
    the direction."""
    with open(path, "rb") as file:
        if file.read(4) == b"\x0a\x0d\x0d\x0a":
            file.seek(0)
            yield from ng_records(path, file)
            return
        file.seek(0)
        head = file.read(24)
        order = "<" if len(head) == 24 and struct.unpack("<I", head[:4])[0] in MAGIC else ">"
        unit = MAGIC.get(struct.unpack(order + "I", head[:4])[0] if len(head) == 24 else 0)
        if unit is None:
            raise ValueError(f"{path}: not a pcap file")
        number = 0
        while len(head := file.read(16)) == 16:
            sec, frac, kept, length = struct.unpack(order + "IIII", head)
            number += 1
            if kept < length:
                raise ValueError(f"{path}: frame {number} was cut by the capture")
            yield number, sec * 10**9 + frac * unit, file.read(kept), None


def ng_records(path, file):
    """Reads a file of `urocectl capture`: one little-endian section, one interface, nanoseconds."""
    number = 0
    while len(head := file.read(8)) == 8:
        kind, size = struct.unpack("<II", head)
        block = file.read(size - 8)
        if kind == 0x0A0D0D0A and block[:4] != b"\x4d\x3c\x2b\x1a" or len(block) < size - 8:
            raise ValueError(f"{path}: not a capture of urocectl, or not a whole one")
        if kind == 1 and block[8:13] != b"\x09\x00\x01\x00\x09":
            raise ValueError(f"{path}: time is not in nanoseconds")
        if kind == 5 and int.from_bytes(block[16:24], "little"):
            raise ValueError(f"{path}: {int.from_bytes(block[16:24], 'little')} frames were lost")
        if kind == 6:
            _, high, low, kept, length = struct.unpack_from("<IIIII", block)
            number += 1
            if kept < length:
                raise ValueError(f"{path}: frame {number} was cut by the capture")
            at, sent, lost = 20 + (kept + 3) // 4 * 4, None, False
            while sent is None and at + 8 <= size - 12:
                code, length, flags = struct.unpack_from("<HHI", block, at)
                sent = flags & 3 == 2 if code == 2 else None
                lost |= code == 1 and lost_by_injector(block[at + 4:at + 4 + length].decode())
                at += 4 + (length + 3) // 4 * 4
            if not lost:
                yield number, high << 32 | low, block[20:20 + kept], sent


def lost_by_injector(comment):
    """Did the fault injector drop the frame, so that the device never received it?"""
    return any(part.startswith("impaired: ") and "dropped" in part for part in comment.split("; "))


def writer(path, frames):
    """Writes (time in ns, bytes) as a pcap file."""
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1))
        for stamp, data in frames:
            file.write(struct.pack("<IIII", *divmod(stamp, 10**9), len(data), len(data)) + data)


def ng_writer(path, found, lost=0):
    """Writes (time in ns, bytes, sent, comment or nothing) in the format of `urocectl capture`."""
    def block(kind, body):
        return struct.pack("<II", kind, len(body) + 12) + body + struct.pack("<I", len(body) + 12)

    with open(path, "wb") as file:
        file.write(block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)))
        file.write(block(1, struct.pack("<HHIHHII", 1, 0, 65535, 9, 1, 9, 0)))
        for stamp, data, sent, *comment in found:
            text = "".join(comment).encode()
            option = struct.pack("<HH", 1, len(text)) + text + bytes(-len(text) % 4) if text else b""
            head = struct.pack("<IIIII", 0, stamp >> 32, stamp & 0xFFFFFFFF, len(data), len(data))
            file.write(block(6, head + data + bytes(-len(data) % 4) + option
                             + struct.pack("<HHII", 2, 4, 2 if sent else 1, 0)))
        file.write(block(5, struct.pack("<IIIHHQI", 0, 0, 0, 5, 8, lost, 0)))


def ip_offset(data):
    """Offset of the IP header, after any VLAN tag."""
    return 18 if data[12:14] == b"\x81\x00" else 14


def udp_offset(data):
    """Offset of the UDP header; None if the frame is no UDP datagram."""
    at = ip_offset(data)
    kind = data[at - 2:at]
    if kind == b"\x08\x00" and len(data) >= at + 28 and data[at + 9] == 17:
        return at + (data[at] & 15) * 4
    if kind == b"\x86\xdd" and len(data) >= at + 48 and data[at + 6] == 17:
        return at + 40
    return None


def icrc(data):
    """The correct ICRC of a frame, as its last four bytes (WIRE-03)."""
    at, udp = ip_offset(data), udp_offset(data)
    end = udp + struct.unpack_from(">H", data, udp + 4)[0] - 4
    cover = bytearray(b"\xff" * 8 + data[at:end])
    if data[at] >> 4 == 4:
        masked = (1, 8, 10, 11)
    else:
        cover[8] |= 0x0F
        masked = (1, 2, 3, 7)
    for i in (*masked, udp - at + 6, udp - at + 7, udp - at + 12):
        cover[8 + i] = 0xFF
    return struct.pack("<I", zlib.crc32(bytes(cover)))


def spoilt(data):
    """
    Name of the drop counter for which a receiver drops a frame; "slow_path" for ARP and ICMP; None for a good
    frame. Damage to fields covered by the ICRC alone counts as a bad ICRC.
    """
    at = ip_offset(data)
    kind, ip = data[at - 2:at], data[at:]
    if kind == b"\x08\x00":
        bad = spoilt_ipv4(ip)
        room, udp = int.from_bytes(ip[2:4], "big") - 20, ip[20:28]
    elif kind == b"\x86\xdd":
        bad = spoilt_ipv6(ip)
        room, udp = int.from_bytes(ip[4:6], "big"), ip[40:48]
    elif kind in (b"\x81\x00", b"\x88\xa8"):
        return "bad_vlan"
    else:
        return "slow_path" if kind == b"\x08\x06" else "ethertype"
    if bad:
        return bad
    if int.from_bytes(udp[2:4], "big") != PORT:
        return "udp_port"
    if kind == b"\x08\x00" and ip_sum(ip[:20]) != 0xFFFF:
        return "bad_ip"
    if int.from_bytes(udp[4:6], "big") != room:
        return "bad_udp_length"
    bth = data[udp_offset(data) + 8:]
    if room < 24 or room < 24 + any_header_len(bth[0]):
        return "runt"
    if bth[1] & 15:
        return "bad_tver"
    end = udp_offset(data) + room
    return None if icrc(data) == data[end - 4:end] else "bad_icrc"


def spoilt_ipv4(ip):
    if ip[0] >> 4 != 4:
        return "bad_ip"
    if ip[9] != 17:
        return "slow_path" if ip[9] in (1, 2) else "ip_protocol"
    if ip[0] != 0x45:
        return "bad_ip"
    if int.from_bytes(ip[6:8], "big") & 0x3FFF:
        return "fragment"
    total = int.from_bytes(ip[2:4], "big")
    return "bad_ip" if total < 20 or total > len(ip) else None


EXTENSIONS = (0, 43, 50, 51, 60, 135, 139, 140)


def spoilt_ipv6(ip):
    if ip[0] >> 4 != 6:
        return "bad_ip"
    if ip[6] == 0 and ip[40:42] == b"\x3a\0":  # MLD
        return "slow_path"
    if ip[6] != 17:
        return {44: "fragment", 58: "slow_path"}.get(
            ip[6], "ipv6_extension" if ip[6] in EXTENSIONS else "ip_protocol")
    return "bad_ip" if int.from_bytes(ip[4:6], "big") > len(ip) - 40 else None


def ip_sum(header):
    total = sum(struct.unpack(">10H", header))
    return (total & 0xFFFF) + (total >> 16)


@dataclasses.dataclass
class Frame:
    """A RoCEv2 frame; lengths in bytes, time in ns, psn as on the wire (24 bits)."""
    number: int
    time: int
    src: str
    dst: str
    sport: int
    dport: int
    dont_fragment: bool
    icrc_good: bool
    opcode: int
    bth: bytes
    qpn: int
    psn: int
    ackreq: bool
    pad: int
    body: int       # payload and pad
    rest: bytes     # after the BTH, without the ICRC
    payload: bytes = b""
    file: str = ""
    sent: bool | None = None  # True if the capturing end sent it; None if unknown

    @property
    def role(self):
        return ROLES.get(self.opcode, f"opcode {self.opcode:#x}")

    @property
    def rc(self):
        return self.opcode in ROLES

    @property
    def request(self):
        return self.rc and self.opcode not in RESPONSES

    @property
    def reth(self):
        """Returns (address, rkey, length)."""
        return struct.unpack_from(">QII", self.rest)

    @property
    def syndrome(self):
        return self.rest[0]


def header_len(opcode):
    """Bytes between BTH and payload of an RC packet."""
    size = 16 if opcode in RETH else 28 if opcode in ATOMIC else 4 if opcode in AETH else 0
    size += 8 if opcode == 18 else 0
    return size + (4 if opcode in (3, 5, 9, 11, 22, 23) else 0)


def any_header_len(opcode):
    """Bytes between BTH and payload for any opcode; 0 for an undefined opcode."""
    if opcode in ROLES:
        return header_len(opcode)
    if opcode == 0x81:
        return 16
    base = opcode & 31
    if opcode in range(0x20, 0x2C):
        return header_len(base)
    return {0x64: 8, 0x65: 12, 0xD1: 4}.get(opcode, 0)


def decode(number, time, data):
    """Decodes a frame. None if it is not RoCEv2: not UDP, or another port and a wrong ICRC."""
    udp = udp_offset(data)
    if udp is None:
        return None
    sport, dport, length = struct.unpack_from(">HHH", data, udp)
    if length < 8 + 12 + 4 or udp + length > len(data):
        return None
    at = ip_offset(data)
    good = icrc(data) == data[udp + length - 4:udp + length]
    if dport != PORT and not good:
        return None
    v4 = data[at] >> 4 == 4
    src, dst = (data[at + 12:at + 16], data[at + 16:at + 20]) if v4 else (
        data[at + 8:at + 24], data[at + 24:at + 40])
    bth = data[udp + 8:udp + 20]
    rest = data[udp + 20:udp + length - 4]
    pad, body = bth[1] >> 4 & 3, len(rest) - header_len(bth[0])
    frame = Frame(number, time, str(ipaddress.ip_address(src)), str(ipaddress.ip_address(dst)),
                  sport, dport, not v4 or bool(data[at + 6] & 0x40), good, bth[0], bth,
                  int.from_bytes(bth[5:8], "big"), int.from_bytes(bth[9:12], "big"),
                  bool(bth[8] & 0x80), pad, body, rest)
    if frame.rc and body >= pad:
        unpadded = bth[0] in FULL
        frame.payload = rest[header_len(bth[0]):len(rest) - (0 if unpadded else pad)]
    return frame
