#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Checks frames of lib/wire's builder, every opcode x IPv4/IPv6 x VLAN, with two programs that share no code with it:
scapy's contrib.roce and tshark.   test_oracle.py WIRE_CHECK
"""
import json
import logging
import os
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib

logging.getLogger('scapy').setLevel(logging.ERROR)
from scapy.contrib.roce import BTH
from scapy.layers.l2 import Ether
from scapy.utils import rdpcap

WIRE_CHECK = sys.argv[1]

# These dissectors guess upper protocols from any payload and call ours malformed.
GUESSERS = ('rpcordma', 'infiniband.eoib', 'smb_direct', 'iser', 'nvme-rdma', 'lnet', 'smc', 'fcoib')

# tshark's name for each of our fields, by header.
HEADERS = {
    'RETH': {'va': 'infiniband.reth.va', 'rkey': 'infiniband.reth.r_key',
             'dmalen': 'infiniband.reth.dmalen'},
    'ATOMICETH': {'va': 'infiniband.reth.va', 'rkey': 'infiniband.reth.r_key',
                  'swap_add': 'infiniband.atomiceth.swapdt',
                  'compare': 'infiniband.atomiceth.cmpdt'},
    'AETH': {'syndrome': 'infiniband.aeth.syndrome', 'msn': 'infiniband.aeth.msn'},
    'ATOMICACKETH': {'orig': 'infiniband.atomicacketh.origremdt'},
    'DETH': {'qkey': 'infiniband.deth.q_key', 'src_qpn': 'infiniband.deth.srcqp'},
    'IMM': {'imm': 'infiniband.immdt'},
    'IETH': {'inv_rkey': 'infiniband.ieth'},
}


def headers_of(name):
    """Extended headers of an opcode, by its name."""
    op = name.split('_', 1)[1] if '_' in name else name
    found = ['DETH'] if name.startswith('UD_') else []
    if op in ('WRITE_FIRST', 'WRITE_ONLY', 'WRITE_ONLY_IMM', 'READ_REQ'):
        found.append('RETH')
    if op in ('CMP_SWAP', 'FETCH_ADD'):
        found.append('ATOMICETH')
    if op in ('ACK', 'ATOMIC_ACK', 'READ_RESP_FIRST', 'READ_RESP_LAST', 'READ_RESP_ONLY'):
        found.append('AETH')
    if op == 'ATOMIC_ACK':
        found.append('ATOMICACKETH')
    if op.endswith('_IMM'):
        found.append('IMM')
    if op.endswith('_INV'):
        found.append('IETH')
    return found


def words_of(name):
    """tshark's name for an opcode in its info column."""
    words = {'IMM': 'Immediate', 'INV': 'Invalidate', 'REQ': 'Request', 'RESP': 'Response',
             'ACK': 'Acknowledge', 'WRITE': 'RDMA Write', 'READ': 'RDMA Read', 'CMP': 'Compare'}
    service, *op = name.split('_')
    return ' '.join([service] + [words.get(w, w.capitalize()) for w in op])


def number(field, text):
    """A field's value; tshark prints fields of type bytes as hex digits without 0x, and those of one bit as words from Debian
    13 on."""
    return text == 'True' if text in ('True', 'False') else int(text, 16 if field in ('infiniband.immdt', 'infiniband.ieth') else 0)


def icrc_ipv6(frame):
    """ICRC of an IPv6 frame; scapy computes only that of IPv4."""
    ip = bytearray(frame[frame.index(b'\x86\xdd') + 2:-4])
    ip[0] |= 0x0f
    for off in (1, 2, 3, 7, 46, 47, 52):
        ip[off] = 0xff
    return struct.pack('<I', zlib.crc32(b'\xff' * 8 + ip))


class Oracle(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        handle, cls.path = tempfile.mkstemp(suffix='.pcap')
        os.close(handle)
        cls.addClassCleanup(os.unlink, cls.path)
        run = subprocess.run([WIRE_CHECK, '--emit', cls.path], capture_output=True, text=True,
                             check=True, timeout=300)
        cls.sent = [json.loads(line) for line in run.stdout.splitlines()]
        cls.frames = [bytes(p) for p in rdpcap(cls.path)]

    def tshark(self, fields):
        """Field values, one row per frame."""
        command = ['tshark', '-r', self.path, '-T', 'fields', '-E', 'separator=|', '-E', 'occurrence=f']
        for guesser in GUESSERS:
            command += ['--disable-protocol', guesser]
        for field in fields:
            command += ['-e', field]
        run = subprocess.run(command, capture_output=True, text=True, timeout=300)
        self.assertEqual(run.returncode, 0, run.stderr)
        rows = [line.split('|') for line in run.stdout.splitlines()]
        self.assertEqual(len(rows), len(self.sent))
        return rows

    def test_capture_is_complete(self):
        self.assertEqual(len(self.frames), len(self.sent))
        self.assertEqual(len({f['opcode'] for f in self.sent}), 38)
        self.assertEqual({(f['v6'], bool(f['vlan'])) for f in self.sent},
                         {(v, t) for v in (0, 1) for t in (False, True)})

    # Requirements: WIRE-03
    def test_icrc_as_scapy_computes_it(self):
        checked = 0
        for sent, frame in zip(self.sent, self.frames):
            if sent['v6']:
                continue
            packet = Ether(frame)
            self.assertEqual(packet[BTH].psn, sent['psn'])
            self.assertEqual(packet[BTH].dqpn, sent['qpn'])
            self.assertEqual(packet[BTH].opcode, sent['opcode'])
            packet[BTH].icrc = None
            self.assertEqual(bytes(packet), frame, sent)
            checked += 1
        self.assertGreater(checked, 400)

    # Requirements: WIRE-03
    def test_icrc_of_ipv6_as_scapy_computes_it(self):
        checked = 0
        for sent, frame in zip(self.sent, self.frames):
            if sent['v6']:
                self.assertEqual(icrc_ipv6(frame), frame[-4:], sent)
                checked += 1
        self.assertGreater(checked, 400)

    # Requirements: WIRE-01
    def test_tshark_reads_the_same_bth(self):
        rows = self.tshark(['infiniband.bth.opcode', 'infiniband.bth.destqp', 'infiniband.bth.psn',
                            'infiniband.bth.se', 'infiniband.bth.a', 'infiniband.bth.padcnt',
                            'infiniband.bth.m', 'infiniband.bth.tver', 'infiniband.bth.p_key'])
        for sent, row in zip(self.sent, rows):
            want = [sent['opcode'], sent['qpn'], sent['psn'], sent['se'], sent['ackreq'],
                    -sent['payload'] % 4, 1, 0, 0xffff]
            self.assertEqual([number('infiniband.bth', v) for v in row], want, sent)

    # Requirements: WIRE-01
    def test_tshark_names_the_same_opcode(self):
        for sent, (info,) in zip(self.sent, self.tshark(['_ws.col.Info'])):
            # Debian 12's tshark does not know congestion notification packets.
            want = words_of(sent['name']) if sent['name'] != 'CNP' else 'Unknown OpCode'
            self.assertEqual(info.split('QP=')[0].strip(), want, sent)

    # Requirements: WIRE-01
    def test_tshark_reads_the_same_extended_headers(self):
        names = sorted({f for fields in HEADERS.values() for f in fields.values()})
        for sent, row in zip(self.sent, self.tshark(names)):
            want = {field: sent[ours] for h in headers_of(sent['name'])
                    for ours, field in HEADERS[h].items()}
            got = {name: number(name, v) for name, v in zip(names, row) if v}
            self.assertEqual(got, want, sent)

    # Requirements: WIRE-02
    def test_tshark_finds_nothing_malformed(self):
        rows = self.tshark(['_ws.malformed', 'udp.dstport', 'ip.dsfield',
                            'ipv6.tclass', 'ipv6.flow', 'vlan.id', 'ip.flags.df'])
        for sent, (malformed, port, tos, tclass, flow, vlan, df) in zip(self.sent, rows):
            self.assertEqual(malformed, '', sent)
            self.assertEqual(port, '4791')
            self.assertEqual(int(vlan or '0'), sent['vlan'] & 0xfff)
            if sent['v6']:
                self.assertEqual((int(tclass, 0), int(flow, 0)), (0x69, 0xabcde))
            else:
                self.assertEqual((int(tos, 0), number('ip.flags.df', df)), (0x68, 1))


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1], verbosity=2)
