#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""wire-check over every capture in test/pcaps.   test_captures.py WIRE_CHECK PCAP_DIR"""
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import unittest

WIRE_CHECK, PCAP_DIR = sys.argv[1], pathlib.Path(sys.argv[2])

# The one file with a wrong ICRC, sent on purpose to see rxe's reaction.
BAD_ICRC = {'tap_host_view.pcap': 1}


def expected_frames():
    """Number of RoCE frames in each file, from INDEX.txt, which another program wrote."""
    lines = (PCAP_DIR / 'INDEX.txt').read_text().splitlines()
    found = (re.match(r'(\S+\.pcap) +(\d+) frames', line) for line in lines)
    return {m[1]: int(m[2]) for m in found if m}


def frames(path):
    """Frames of a capture in rxe-peer's format: classic, little endian, microseconds."""
    data, at = path.read_bytes(), 24
    while at < len(data):
        size = struct.unpack_from('<I', data, at + 8)[0]
        yield data[at + 16:at + 16 + size]
        at += 16 + size


def classic(captured, order, magic):
    """The same frames in another variant of the classic format."""
    out = struct.pack(order + 'IHHiIII', magic, 2, 4, 0, 0, 65535, 1)
    for nr, frame in enumerate(captured):
        out += struct.pack(order + 'IIII', 1, nr, len(frame), len(frame)) + frame
    return out


def pcapng(captured):
    """The same frames as a pcapng capture: section, interface, packets."""
    out = struct.pack('<IIIHHqI', 0x0a0d0d0a, 28, 0x1a2b3c4d, 1, 0, -1, 28)
    out += struct.pack('<IIHHII', 1, 20, 1, 0, 65535, 20)
    for nr, frame in enumerate(captured):
        body = frame + bytes(-len(frame) % 4)
        size = 32 + len(body)
        out += struct.pack('<IIIIIII', 6, size, 0, 0, nr, len(frame), len(frame)) + body
        out += struct.pack('<I', size)
    return out


class Captures(unittest.TestCase):
    def check(self, path):
        run = subprocess.run([WIRE_CHECK, path], capture_output=True, text=True, timeout=300)
        numbers = re.fullmatch(r'(.*): frames (\d+) parsed (\d+) rebuilt (\d+) icrc (\d+)\n', run.stdout)
        self.assertIsNotNone(numbers, run.stdout + run.stderr)
        return run.returncode, [int(n) for n in numbers.groups()[1:]]

    def check_bytes(self, data):
        with tempfile.NamedTemporaryFile(suffix='.pcap') as f:
            f.write(data)
            f.flush()
            return self.check(f.name)

    # Requirements: WIRE-03
    def test_every_capture_parses_rebuilds_and_verifies(self):
        expected = expected_frames()
        files = sorted(PCAP_DIR.glob('*.pcap'))
        self.assertEqual({f.name for f in files}, set(expected))
        for f in files:
            with self.subTest(f.name):
                n, bad = expected[f.name], BAD_ICRC.get(f.name, 0)
                rc, counts = self.check(f)
                self.assertEqual(counts, [n, n, n, n - bad])
                self.assertEqual(rc, 1 if bad else 0)

    # Requirements: WIRE-03
    def test_one_wrong_bit_is_found(self):
        """The tool rejects a capture with a changed last payload byte."""
        data = bytearray((PCAP_DIR / 'nak_recv_too_small.pcap').read_bytes())
        data[24 + 16 + 60] ^= 1
        self.assertEqual(self.check_bytes(data), (1, [2, 2, 2, 1]))

    def test_every_kind_of_capture_file(self):
        captured = list(frames(PCAP_DIR / 'rc_atomics.pcap'))
        self.assertEqual(len(captured), 8)
        kinds = {'little endian, us': classic(captured, '<', 0xa1b2c3d4),
                 'big endian, us': classic(captured, '>', 0xa1b2c3d4),
                 'little endian, ns': classic(captured, '<', 0xa1b23c4d),
                 'big endian, ns': classic(captured, '>', 0xa1b23c4d),
                 'pcapng': pcapng(captured)}
        for kind, data in kinds.items():
            with self.subTest(kind):
                self.assertEqual(self.check_bytes(data), (0, [8, 8, 8, 8]))

    def test_priority_tag_of_zero(self):
        tagged = [f[:12] + b'\x81\0\0\0' + f[12:] for f in frames(PCAP_DIR / 'rc_atomics.pcap')]
        self.assertEqual(self.check_bytes(classic(tagged, '<', 0xa1b2c3d4)), (0, [8, 8, 8, 8]))

    def test_cut_off_file_is_an_error(self):
        data = (PCAP_DIR / 'rc_atomics.pcap').read_bytes()[:-3]
        self.assertEqual(self.check_bytes(data)[0], 2)

    def test_unreadable_file_is_an_error(self):
        run = subprocess.run([WIRE_CHECK, '/dev/null'], capture_output=True, timeout=300)
        self.assertEqual(run.returncode, 2)


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1], verbosity=2)
