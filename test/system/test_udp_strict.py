#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""strict=yes of port udp: refuses packets whose ICRC is correct only with an IPv4 identification that the socket does
not report. The packets come from a raw socket and are for a queue pair that does not exist, so those that pass the
ICRC check are counted as bad_qpn."""
import contextlib
import socket
import struct
import sys
import threading

import lib

sys.path.append(str(lib.HERE.parent / "trace"))
import frames  # noqa: E402

A, B = "10.9.0.1", "10.9.0.2"


def packet(number):
    """An ACK as an IPv4 packet with this identification; uroce sends 0."""
    bth = struct.pack(">BBHII", 0x11, 0x40, 0xFFFF, 0x123456, 7) + struct.pack(">I", 0x1F000001)
    udp = struct.pack(">HHHH", 4791, 4791, 8 + len(bth) + 4, 0)
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(udp) + len(bth) + 4, number, 0x4000, 64, 17, 0,
                     socket.inet_aton(A), socket.inet_aton(B))
    data = bytes(12) + b"\x08\x00" + ip + udp + bth + bytes(4)
    return ip + udp + bth + frames.icrc(data)


@contextlib.contextmanager
def raw_socket(ns):
    made = []

    def make():  # setns affects only the calling thread
        with open(f"/run/netns/{ns}", "rb") as file:
            assert lib.ctypes.CDLL(None, use_errno=True).setns(file.fileno(), 0) == 0
        made.append(socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW))

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    with made[0] as sock:
        yield sock


def drops(strict, spoil=False, number=0x4711):
    """The drop counters after a packet with identification 0 and one with this number."""
    spaces = [lib.netns(), lib.netns()]
    lib.veth(spaces[0], f"{A}/24", spaces[1], f"{B}/24", 1500)
    daemon = lib.Daemon([], [f"name=uroce0,port=udp,addr={B},strict={strict}"], spaces[1])
    with raw_socket(spaces[0]) as sock:
        for data in (packet(0), packet(number)):
            if spoil:
                data = data[:-6] + bytes([data[-6] ^ 1]) + data[-5:]
            sock.sendto(data, (B, 0))
    lib.until("both have arrived", lambda: sum(daemon.counters("drops").values()) == 2)
    found = {name: count for name, count in daemon.counters("drops").items() if count}
    daemon.stop()
    return found


def main():
    lib.need_root()
    for strict, spoil, expected in (("no", False, {"bad_qpn": 2}), ("yes", False, {"bad_qpn": 1, "inexact_icrc": 1}),
                                    ("no", True, {"bad_icrc": 2}), ("yes", True, {"bad_icrc": 2})):
        with lib.case(f"strict={strict}, {'damaged' if spoil else 'intact'}"):
            found = drops(strict, spoil)
            assert found == expected, found
    lib.finish()


main()
