#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Finds page sizes written as constants: a kernel of arm64 may have pages of 16 or 64 KiB. Code asks page_bytes() of
lib/map/page.h, or sysconf. A file with 4096 of another meaning is in OTHER, with that meaning.
"""
import re

import tree

FOLDERS = ('include/', 'lib/', 'drivers/', 'app/')
OWNER = 'lib/map/page.h'
CONSTANT = r'\b(?:4096|4095|0x1000|0xfff)(?:u|ul|ull)?\b|\bPAGE_(?:SIZE|SHIFT|MASK)\b|\b1u?(?:l|ll)? ?<< ?12\b'

OTHER = {
    'app/uroce-bench/check/check.c': 'bytes beside the messages; values',
    'app/uroce-bench/check/main.c': 'path MTU; messages in flight',
    'app/uroce-bench/client_process.c': 'a PSN',
    'app/uroce-bench/engine.c': 'message size; slots; path MTU',
    'app/uroce-bench/options.c': 'path MTU; QPs; messages in flight',
    'app/uroce-run/fetch.c': 'characters of a command line',
    'app/uroce-run/install.c': 'characters of a line',
    'app/urocectl/doctor.c': 'path MTU',
    'app/urocectl/doctor_host.c': 'characters of a command line',
    'app/urocectl/metrics.c': 'characters of a request',
    'app/uroced/options.c': 'CPU number',
    'app/uroced/show.c': 'characters of an option',
    'drivers/impair/impair_core.h': 'frames',
    'lib/cm/port.c': 'buckets',
    'lib/cm/rdma.h': 'a flag',
    'lib/control/cm.h': 'buckets',
    'lib/control/device_attr.c': 'a flag',
    'lib/control/devspec.c': 'path MTU',
    'lib/control/peer_probe.c': 'bytes of a message',
    'lib/map/copier.c': 'bytes whose copy takes PAGE_NS, whatever the page',
    'lib/map/mrmap.c': 'descriptors',
    'lib/net/frame.c': 'VLAN id',
    'lib/port/host.c': 'bytes of a message',
    'lib/port/mtu.c': 'path MTU',
    'lib/port/packet.c': 'VLAN id',
    'lib/qp/selective.c': 'path MTU',
    'lib/qp/selective.h': 'early requests',
    'lib/qp/sqe.h': 'chunks',
    'lib/qp/state.h': 'a flag',
    'lib/wire/mad.h': 'nanoseconds',
    'lib/wire/opcode.h': 'a flag',
    'lib/wire/parse.h': 'VLAN id',
    'lib/wire/timer.c': 'units of 10 us; nanoseconds',
}


def check(name):
    for nr, line in enumerate(tree.code(name).splitlines(), 1):
        found = re.search(CONSTANT, line)
        if found:
            yield f'{name}:{nr}: {found[0]}: if it is a page, ask page_bytes() (lib/map/page.h); else add the file to OTHER'


def main():
    names = [name for name in tree.files('.c', '.h') if name.startswith(FOLDERS) and name != OWNER]
    found = {name: list(check(name)) for name in names}
    problems = [line for name, lines in found.items() if name not in OTHER for line in lines]
    problems += [f'{name}: in OTHER, but has no such constant: take it away' for name in OTHER if not found.get(name)]
    tree.finish('page sizes', problems)


main()
