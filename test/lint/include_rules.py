#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Who may include whom (doc/map.md lists the folders). An include root is lib/ or include/."""
import pathlib
import re

import tree

# A library may include those of the rows above its own, itself, and uroce_abi.
LEVELS = (
    ('wire',),
    ('mem', 'cq', 'net', 'cm', 'counters', 'cc'),
    ('qp',),
    ('requester', 'responder'),
    ('engine',),
    ('sched', 'cli'),
    ('map',),
    ('ipc',),
    ('port',),
    ('worker',),
    ('control',),
)

# Folders outside of that order, and what they may include besides themselves: a folder, or a file.
OTHERS = {
    'include/uroce': (),
    'include/uroce_abi': (),
    'lib/wire': (),  # not even uroce_abi: it knows the wire and nothing else
    'lib/cm': ('lib/wire', 'lib/counters'),  # sans I/O, and nothing of the data path
    # Loaded into every client process: the client's side of ipc only, and what is both sides': sched, doorbells.
    'drivers/verbs': ('include/uroce_abi', 'include/uroce', 'lib/qp/doorbell.h', 'lib/ipc/client.h',
                      'lib/map/segmap.h', 'lib/map/vma.h', 'lib/sched'),
    'drivers/impair': ('lib/wire', 'lib/counters', 'lib/cli'),
    'app/uroce-bench': ('lib', 'include', 'drivers/impair', 'test/kit'),
    'app': ('lib', 'include', 'drivers/impair'),
    'test/kit': ('lib', 'include'),
    'test/sim': ('lib', 'include', 'test/kit'),  # pair/, mesh/ and loss/ share what is above them
    'test': ('lib', 'include', 'drivers', 'app', 'test/kit'),
}

# System headers by pattern, and the only places that may include them.
SYSTEM = (
    (r'rte_byteorder\.h', ('lib', 'drivers/impair', 'app', 'test')),
    (r'rte_(ethdev|eal|lcore|launch|dev|bus\w*|eth_\w+|pdump|pcapng|telemetry|cfgfile)\.h',
     ('lib/port', 'lib/worker', 'lib/counters/telemetry.c', 'drivers/impair', 'app', 'test')),
    # lib/wire takes bytes, not mbufs; a client process has no DPDK at all.
    (r'rte_\w+\.h', ('lib/mem', 'lib/cq', 'lib/net', 'lib/counters', 'lib/qp', 'lib/requester',
                     'lib/responder', 'lib/engine', 'lib/port', 'lib/worker', 'lib/control', 'drivers/impair', 'app',
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
                return ('lib/' + lib, 'include/uroce_abi', *below)
        below += ['lib/' + lib for lib in level]
    return None


def resolve(name, included):
    """The file that a quoted include means, relative to the root, or None."""
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
