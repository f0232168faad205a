# SPDX-License-Identifier: BSD-3-Clause
"""pcap files and RoCEv2 frames, by nothing but struct and zlib: a second opinion on lib/wire."""
import dataclasses
import ipaddress
import struct
import zlib

PORT = 4791
MAGIC = {0xA1B2C3D4: 1000, 0xA1B23C4D: 1}  # the unit of the time stamps in ns
ROLES = {0: "SEND_FIRST", 1: "SEND_MIDDLE", 2: "SEND_LAST", 3: "SEND_LAST_IMM", 4: "SEND_ONLY",
         5: "SEND_ONLY_IMM", 6: "WRITE_FIRST", 7: "WRITE_MIDDLE", 8: "WRITE_LAST",
         9: "WRITE_LAST_IMM", 10: "WRITE_ONLY", 11: "WRITE_ONLY_IMM", 12: "READ_REQ",
         13: "RESP_FIRST", 14: "RESP_MIDDLE", 15: "RESP_LAST", 16: "RESP_ONLY", 17: "ACK",
         18: "ATOMIC_ACK", 19: "CMP_SWAP", 20: "FETCH_ADD", 22: "SEND_LAST_INV",
         23: "SEND_ONLY_INV"}
KNOWN = {*ROLES, *range(0x20, 0x2C), 0x64, 0x65, 0x81}  # RC, UC, UD, CNP
RETH = {6, 10, 11, 12}
AETH = {13, 15, 16, 17, 18}
ATOMIC = {19, 20}
FULL = {0, 1, 6, 7, 13, 14}  # FIRST, MIDDLE: no pad
BARE = {12, 17, 18, 19, 20}                            # headers only
RESPONSES = {13, 14, 15, 16, 17, 18}


def reader(path):
    """Yields (number, time in ns, bytes) of each frame of a pcap file."""
    with open(path, "rb") as file:
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
            yield number, sec * 10**9 + frac * unit, file.read(kept)


def writer(path, frames):
    """Writes (time in ns, bytes) as a pcap file."""
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1))
        for stamp, data in frames:
            file.write(struct.pack("<IIII", *divmod(stamp, 10**9), len(data), len(data)) + data)


def ip_offset(data):
    """Where the IP header starts, behind any VLAN tag."""
    return 18 if data[12:14] == b"\x81\x00" else 14


def udp_offset(data):
    """Where the UDP header starts; None if this is no UDP datagram."""
    at = ip_offset(data)
    kind = data[at - 2:at]
    if kind == b"\x08\x00" and len(data) >= at + 28 and data[at + 9] == 17:
        return at + (data[at] & 15) * 4
    if kind == b"\x86\xdd" and len(data) >= at + 48 and data[at + 6] == 17:
        return at + 40
    return None


def icrc(data):
    """The ICRC of a frame, as its last four bytes should be (WIRE-03)."""
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
    rest: bytes     # behind the BTH, without the ICRC
    payload: bytes = b""
    file: str = ""

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
        """(address, rkey, length)"""
        return struct.unpack_from(">QII", self.rest)

    @property
    def syndrome(self):
        return self.rest[0]


def header_len(opcode):
    """Bytes between BTH and payload of an RC packet."""
    size = 16 if opcode in RETH else 28 if opcode in ATOMIC else 4 if opcode in AETH else 0
    size += 8 if opcode == 18 else 0
    return size + (4 if opcode in (3, 5, 9, 11, 22, 23) else 0)


def decode(number, time, data):
    """The frame, or None where it is no RoCEv2: not UDP, or another port and no right ICRC."""
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
