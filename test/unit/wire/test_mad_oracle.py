#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Checks CM MADs of the kernel's captures and of lib/wire's builder with tshark, which shares no code with it.
test_mad_oracle.py MAD_CHECK PCAP_DIR
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

MAD_CHECK, PCAP_DIR = sys.argv[1], pathlib.Path(sys.argv[2])

# tshark's name for each of our fields. Debian 12's tshark reads flow label and rate of a REQ's paths from the wrong
# place, and does not dissect MRA, SIDR, LAP and APR: test_mad.c checks these against the specification's offsets.
PATH = {'local_lid': 'locallid', 'remote_lid': 'remotelid', 'traffic_class': 'tfcclass', 'hop_limit': 'hoplim',
        'sl': 'sl', 'subnet_local': 'subnetlocal', 'ack_timeout': 'localacktout'}
FIELDS = {
    'REQ': {'local_comm_id': 'req', 'service_id': 'req.serviceid', 'ca_guid': 'req.localcaguid',
            'qkey': 'req.localqkey', 'qpn': 'req.localqpn', 'responder_resources': 'req.responderres',
            'local_eecn': 'req.localeecn', 'initiator_depth': 'req.initdepth', 'remote_eecn': 'req.remoteeecn',
            'remote_response_timeout': 'req.remoteresptout', 'transport': 'req.transpsvctype',
            'flow_control': 'req.e2eflowctrl', 'psn': 'req.startpsn', 'local_response_timeout': 'req.localresptout',
            'retry_count': 'req.retrcount', 'pkey': 'req.pkey', 'mtu': 'req.pppmtu', 'rdc_exists': 'req.rdcexist',
            'rnr_retry': 'req.rnrretrcount', 'max_retries': 'req.maxcmretr', 'srq': 'req.srq',
            'transport_more': 'req.ext_transport',
            **{f'primary.{ours}': f'req.prim_{theirs}' for ours, theirs in PATH.items()},
            **{f'alternate.{ours}': f'req.alt_{theirs}' for ours, theirs in PATH.items()}},
    'REP': {'local_comm_id': 'rep', 'remote_comm_id': 'rep.remotecommid', 'qkey': 'rep.localqkey',
            'qpn': 'rep.localqpn', 'local_eecn': 'rep.localeecn', 'psn': 'rep.startpsn',
            'responder_resources': 'rep.respres', 'initiator_depth': 'rep.initdepth',
            'target_ack_delay': 'rep.tgtackdelay', 'failover': 'rep.failoveracc', 'flow_control': 'rep.e2eflowctrl',
            'rnr_retry': 'rep.rnrretrcount', 'srq': 'rep.srq', 'ca_guid': 'rep.localcaguid'},
    'RTU': {'local_comm_id': 'rtu.localcommid', 'remote_comm_id': 'rtu.remotecommid'},
    'REJ': {'local_comm_id': 'rej.localcommid', 'remote_comm_id': 'rej.remotecommid', 'about': 'rej.msgrej',
            'info_len': 'rej.rejinfolen', 'reason': 'rej.reason'},
    'DREQ': {'local_comm_id': 'dreq.localcommid', 'remote_comm_id': 'dreq.remotecommid',
             'remote_qpn': 'req.remoteqpneecn'},
    'DREP': {'local_comm_id': 'drsp.localcommid', 'remote_comm_id': 'drsp.remotecommid'},
}
GIDS = {'primary.local_gid': 'infiniband.cm.req.prim_localgid',
        'primary.remote_gid': 'infiniband.cm.req.prim_remotegid'}
COMMON = {'tid': 'infiniband.mad.transactionid', 'modifier': 'infiniband.mad.attributemodifier'}
ATTRS = {'REQ': 0x10, 'MRA': 0x11, 'REJ': 0x12, 'REP': 0x13, 'RTU': 0x14, 'DREQ': 0x15, 'DREP': 0x16,
         'SIDR_REQ': 0x17, 'SIDR_REP': 0x18, 'LAP': 0x19, 'APR': 0x1a}


def dissect(path, fields):
    """tshark's field values of the CM MADs in a capture, a row each."""
    command = ['tshark', '-r', path, '-T', 'fields', '-E', 'separator=|', '-E', 'occurrence=f',
               '-Y', 'infiniband.mad.mgmtclass == 7']
    for field in fields:
        command += ['-e', field]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    return [dict(zip(fields, line.split('|'))) for line in run.stdout.splitlines()]


def address(gid):
    """A GID as tshark prints it."""
    import ipaddress
    return str(ipaddress.IPv6Address(bytes.fromhex(gid)))


@unittest.skipIf(shutil.which('tshark') is None, 'tshark is not installed: scripts/setup.sh installs it')
class Oracle(unittest.TestCase):
    def compare(self, path, ours):
        names = {f'infiniband.cm.{theirs}' for fields in FIELDS.values() for theirs in fields.values()}
        names = sorted({*names, *COMMON.values(), *GIDS.values(), 'infiniband.mad.attributeid', '_ws.malformed'})
        rows = dissect(path, names)
        self.assertEqual(len(rows), len(ours))
        checked = 0
        for row, mad in zip(rows, ours):
            self.assertTrue(mad['rebuilt'], mad)
            self.assertEqual(row['_ws.malformed'], '', mad)
            self.assertEqual(int(row['infiniband.mad.attributeid'], 0), ATTRS[mad['message']])
            want = {theirs: mad[field] for field, theirs in COMMON.items()}
            want |= {f'infiniband.cm.{theirs}': mad[field]
                     for field, theirs in FIELDS.get(mad['message'], {}).items()}
            for field, value in want.items():
                self.assertEqual(int(row[field], 0), value, (field, mad))
                checked += 1
            for field, theirs in GIDS.items():
                if mad['message'] == 'REQ' and row[theirs]:
                    self.assertEqual(row[theirs], address(mad[field]))
        return checked

    # Requirements: CM-01
    def test_captures_of_the_kernels_cm_mean_what_tshark_reads(self):
        files = sorted(PCAP_DIR.glob('cm_*.pcap'))
        self.assertGreater(len(files), 5)
        seen = set()
        for path in files:
            with self.subTest(path.name):
                run = subprocess.run([MAD_CHECK, path], capture_output=True, text=True, timeout=300)
                self.assertEqual(run.returncode, 0, run.stderr)
                ours = [json.loads(line) for line in run.stdout.splitlines()]
                self.assertGreater(len(ours), 1)
                self.compare(path, ours)
                seen |= {mad['message'] for mad in ours}
        self.assertEqual(seen, set(ATTRS) - {'LAP', 'APR'})

    # Requirements: CM-01
    def test_random_messages_mean_what_tshark_reads(self):
        handle, path = tempfile.mkstemp(suffix='.pcap')
        os.close(handle)
        self.addCleanup(os.unlink, path)
        run = subprocess.run([MAD_CHECK, '--emit', path], capture_output=True, text=True, check=True, timeout=300)
        ours = [json.loads(line) for line in run.stdout.splitlines()]
        self.assertEqual({mad['message'] for mad in ours}, set(ATTRS))
        self.assertGreater(self.compare(path, ours), 1000)


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1], verbosity=2)
