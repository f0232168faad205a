#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks which folder may include which (doc/map.md lists the folders). Include roots are lib/ and include/."""
import pathlib
import re

import tree

# A library may include itself, uroce_abi, uroce and the libraries in the rows above its own.
LEVELS = (
    ('wire',),
    ('mem', 'cq', 'net', 'cm', 'counters', 'cc'),
    ('qp',),
    ('requester', 'responder'),
    ('engine',),
    ('sched', 'cli', 'dpdk'),
    ('map',),
    ('ipc',),
    ('port',),
    ('worker',),
    ('hostif',),
    ('control',),
)

# Folders outside of that order, and the folders or files they may include besides their own.
OTHERS = {
    'include/uroce': (),
    'include/uroce_abi': (),
    'lib/wire': (),  # not even uroce_abi: only the wire formats
    'lib/cm': ('lib/wire', 'lib/counters'),  # sans I/O, and separate from the data path
    # Every client process loads it: only the client side of ipc, and code for both sides (sched, doorbells).
    'drivers/verbs': ('include/uroce_abi', 'include/uroce', 'lib/qp/doorbell.h', 'lib/ipc/client.h',
                      'lib/map/page.h', 'lib/map/segmap.h', 'lib/map/vma.h', 'lib/sched'),
    'drivers/impair': ('lib/wire', 'lib/counters', 'lib/cli'),
    'app/uroce-bench': ('lib', 'include', 'drivers/impair', 'test/kit'),
    'app/urocectl': ('lib', 'include', 'app/uroced/fields.h'),
    'app': ('lib', 'include', 'drivers/impair'),
    'doc/schema': ('lib/counters', 'app/uroced/fields.h', 'app/urocectl/fields.h'),
    'test/kit': ('lib', 'include'),
    'test/sim': ('lib', 'include', 'test/kit'),  # pair/, mesh/, loss/ and fabric/ share the folder's own files
    'test/fuzz': ('lib', 'include', 'drivers', 'app', 'test/unit/control/fake.h', 'test/kit/unit_eal.h'),
    'test': ('lib', 'include', 'drivers', 'app', 'test/kit'),
}

# System headers by pattern, and the only places that may include them.
SYSTEM = (
    (r'rte_byteorder\.h', ('lib', 'drivers/impair', 'app', 'test')),
    (r'rte_(ethdev|eal|lcore|launch|dev|bus\w*|eth_\w+|pdump|pcapng|telemetry|cfgfile)\.h',
     ('lib/port', 'lib/worker', 'lib/hostif', 'lib/dpdk', 'lib/counters/telemetry.c', 'drivers/impair', 'app', 'test')),
    # lib/wire works on bytes, not mbufs; client processes have no DPDK.
    (r'rte_\w+\.h', ('lib/mem', 'lib/cq', 'lib/net', 'lib/counters', 'lib/qp', 'lib/requester',
                     'lib/responder', 'lib/engine', 'lib/port', 'lib/worker', 'lib/hostif', 'lib/control', 'lib/dpdk', 'drivers/impair',
                     'app',
                     'test')),
    (r'infiniband/\w+\.h', ('drivers/verbs', 'app/uroce-bench', 'test')),
)


def inside(path, place):
    return path == place or path.startswith(place + '/')


def allowed_of(name):
    """Folders that the file may include from, its own first."""
    folder = str(pathlib.PurePath(name).parent)
    for place, others in OTHERS.items():
        if inside(folder, place):
            return (folder if place in ('app', 'test') else place, *others)
    below = []
    for level in LEVELS:
        for lib in level:
            if inside(folder, 'lib/' + lib):
                return ('lib/' + lib, 'include/uroce_abi', 'include/uroce', *below)
        below += ['lib/' + lib for lib in level]
    return None


def resolve(name, included):
    """Path of the file that a quoted include names, relative to the root; or None."""
    roots = ['lib', 'include', 'test', '']
    if name.startswith('test/'):
        roots += ['test/wire-check', 'drivers/verbs', 'drivers/impair', 'app/uroced', 'app/uroce-bench']
    for base in (str(pathlib.PurePath(name).parent), *roots):
        path = tree.ROOT / base / included
        if path.is_file():
            return str(path.resolve().relative_to(tree.ROOT))
    return None


def check(name):
    allowed = allowed_of(name)
    if allowed is None:
        yield f'{name}: no rule for this folder: add it to {pathlib.Path(__file__).name}'
        return
    for nr, line in enumerate(tree.text(name).splitlines(), 1):
        include = re.match(r'\s*#\s*include\s+(["<])([^">]+)[">]', line)
        if not include:
            continue
        if include[1] == '"':
            target = resolve(name, include[2])
            if target is None:
                yield f'{name}:{nr}: "{include[2]}" is in no include root'
            elif not any(inside(target, place) for place in allowed):
                yield f'{name}:{nr}: may not include {target}'
            continue
        for pattern, places in SYSTEM:
            if re.fullmatch(pattern, include[2]):
                if not any(inside(name, place) for place in places):
                    yield f'{name}:{nr}: may not include <{include[2]}>'
                break


tree.finish('include rules', [p for name in tree.files('.c', '.h') for p in check(name)])
