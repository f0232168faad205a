#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Finds calls that the fast path must not make: no heap, lock, clock, random number, output or system call in its
folders (doc/architecture.md, 'The engine does no I/O').
"""
import re

import tree

HOT = ('lib/wire/', 'lib/mem/', 'lib/cq/', 'lib/cc/', 'lib/qp/', 'lib/requester/', 'lib/responder/', 'lib/net/',
       'lib/engine/', 'lib/cm/')

BANNED = {
    'output': r'v?f?printf|v?dprintf|f?puts|putchar|perror|v?syslog|RTE_LOG|rte_v?log',
    'heap': r'malloc|calloc|realloc|reallocarray|free|strn?dup|v?asprintf|aligned_alloc|posix_memalign'
            r'|rte_(malloc|zmalloc|calloc|realloc|free)\w*|alloca',
    'lock': r'pthread_\w+|mtx_\w+|cnd_\w+|sem_\w+|rte_(spinlock|rwlock|ticketlock|mcslock|seqlock)_\w+',
    'clock': r'clock_\w+|time|gettimeofday|times|__?rdtscp?|rte_(get_(tsc|timer)_\w+|rdtsc\w*|delay_\w+)',
    'random': r's?rand|s?random|rand_r|[dlm]rand48|getrandom|rte_s?rand\w*',
    'syscall': r'syscall|open(at)?|close|p?read(v|v2)?|p?write(v|v2)?|m(un)?map|mprotect|madvise|ioctl'
               r'|socket|bind|listen|accept4?|connect|p?poll|select|epoll_\w+|eventfd\w*|send(to|msg)'
               r'|recv(from|msg)|memfd_create|process_vm_\w+|fork|exec[lv]p?e?|kill|signal|sigaction'
               r'|n?anosleep|u?sleep|sched_\w+|getenv|f(open|close|read|write|tell|seek)',
    'exit': r'_?exit|abort|rte_(exit|panic)',
    'lcore': r'rte_lcore_\w+|rte_socket_id|rte_eal_\w+',
    # GCC drops calls of functions that only prefetch, such as rte_prefetch0.
    'prefetch': r'__builtin_prefetch',
}

# Files of these folders that are off the fast path, or exceptions: the calls they may make, and why.
COLD = {
    'lib/cq/cq.h': ('prefetch', 'in a function that stores, and without DPDK'),
    'lib/mem/mr_table.c': ('heap', 'the key table, made when a device starts and freed when it ends'),
    'lib/qp/lines.h': ('heap', 'memory of whole cache lines, for those below'),
    'lib/qp/qp.c': ('heap', 'makes and frees QPs, which is all that it does'),
    'lib/qp/segs.c': ('heap', 'makes and frees segments of frames, with the worker'),
    'lib/qp/selective.c': ('heap', 'makes and frees pools of held requests, with the worker'),
    'lib/qp/sqe.c': ('heap', 'makes and frees pools of WQE copies, with the worker or the QP'),
    'lib/qp/table.c': ('heap', 'the table that finds QPs, made at start'),
}


def check(name):
    kinds, _ = COLD.get(name, ('', ''))
    used = set()
    for nr, line in enumerate(tree.code(name).splitlines(), 1):
        for kind, pattern in BANNED.items():
            # A member or a pointer of that name (ops->read(..)) is not a call of the banned function.
            call = re.search(rf'(?<![\w.>])({pattern})\s*\(', line)
            if not call:
                continue
            used.add(kind)
            if kind not in kinds.split():
                yield f'{name}:{nr}: {call[1]}() in a hot folder ({kind})'
    for kind in set(kinds.split()) - used:
        yield f'{name}: COLD allows it "{kind}", which it does not use: take that away'


def main():
    names = [n for n in tree.files('.c', '.h') if n.startswith(HOT)]
    problems = [p for name in names for p in check(name)]
    problems += [f'{name}: in COLD, but not in the tree' for name in COLD if name not in names]
    tree.finish('banned tokens', problems)


main()
