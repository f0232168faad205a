#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Checks the symbols that objects of the engine, the libraries below it and the connection manager refer to: only
their own and a short list. This also finds I/O, clock, heap and lcore uses in macros, inline functions and
builtins, which banned_tokens.py cannot see. engine_purity.py CC
"""
import concurrent.futures
import pathlib
import re
import subprocess
import sys
import tempfile

import tree

ROOMS = ('lib/wire/', 'lib/mem/', 'lib/cq/', 'lib/counters/counters.c', 'lib/cc/', 'lib/qp/', 'lib/requester/', 'lib/responder/',
         'lib/engine/', 'lib/cm/')
FLAGS = ['-O2', '-std=gnu11', '-D_GNU_SOURCE', '-DALLOW_EXPERIMENTAL_API', '-march=native', '-Ilib', '-Iinclude',
         *tree.dpdk_flags()]

# Allowed for all files. Of DPDK only mempools: their inline functions look up the lcore's cache.
ALLOWED = re.compile(r'mem(cpy|move|set|cmp)|crc32_gzip_refl|__tls_get_addr|_GLOBAL_OFFSET_TABLE_|__stack_chk_fail'
                     r'|rte_mempool_ops_table|per_lcore__lcore_id|__rte_panic|__rte_pktmbuf_linearize'
                     r'|rte_pktmbuf_free_bulk')

# Further symbols by file, and why.
COLD = {
    'lib/cc/param.c': ('memchr|snprintf|strcspn|strlen', 'parameters as text, for a device'),
    'lib/qp/refusal.c': ('vsnprintf', 'why a modify was refused, for the control thread'),
    'lib/mem/mr_table.c': ('calloc|free', 'the key table, made when a device starts'),
    'lib/qp/qp.c': ('aligned_alloc|free|rte_zmalloc|rte_free', 'makes and frees QPs'),
    'lib/qp/segs.c': ('aligned_alloc|free|rte_mempool_(avail_count|free)|rte_pktmbuf_pool_create|per_lcore__rte_errno',
                      'makes and frees segments of frames'),
    'lib/qp/selective.c': ('calloc|malloc|aligned_alloc|free', 'makes pools of held requests'),
    'lib/qp/sqe.c': ('aligned_alloc|free', 'makes pools of WQE copies'),
    'lib/qp/table.c': ('calloc|free', 'the table that finds QPs'),
}

# Clocks, system calls and random numbers of x86 and of Arm.
INSTRUCTIONS = re.compile(r'\t(rdtscp?|syscall|sysenter|rdrand|rdseed|int +\$0x80'
                          r'|svc|mrs\s+\w+, (?:cnt[vp]ct(?:ss)?_el0|pmccntr_el0|rndrr?s?))\b')


def build(cc, name, folder):
    obj = pathlib.Path(folder) / (name.replace('/', '_') + '.o')
    subprocess.run([cc, *FLAGS, '-c', name, '-o', obj], cwd=tree.ROOT, check=True, timeout=600)
    names = subprocess.run(['nm', obj], capture_output=True, text=True, check=True).stdout.splitlines()
    code = subprocess.run(['objdump', '-d', '--no-show-raw-insn', obj], capture_output=True, text=True,
                          check=True).stdout
    undefined = {line.split()[1] for line in names if line.split()[0] == 'U'}
    defined = {line.split()[2] for line in names if line.split()[0] != 'U' and len(line.split()) == 3}
    return name, undefined, defined, sorted(set(INSTRUCTIONS.findall(code)))


def main(cc):
    names = [n for n in tree.files('.c') if n.startswith(ROOMS)]
    problems = [f'{name}: in COLD, but not in the tree' for name in COLD if name not in names]
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        objects = list(pool.map(lambda name: build(cc, name, folder), names))
    own = set().union(*(defined for _, _, defined, _ in objects))
    for name, undefined, _, instructions in objects:
        cold = COLD.get(name, ('(?!)', ''))[0]
        foreign = {s for s in undefined - own if not ALLOWED.fullmatch(s)}
        problems += [f'{name}: refers to {s}' for s in sorted(foreign) if not re.fullmatch(cold, s)]
        problems += [f'{name}: has the instruction {i}' for i in instructions]
        if name in COLD and not any(re.fullmatch(cold, s) for s in foreign):
            problems.append(f'{name}: COLD allows it "{cold}", which it does not use: take that away')
    tree.finish(f'{len(objects)} objects of the engine', problems)


main(sys.argv[1])
