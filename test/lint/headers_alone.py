#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Every header compiles alone as C; headers of include/ also as C++, because C++ programs include them.
headers_alone.py CC CXX
"""
import concurrent.futures
import subprocess
import sys

import tree

DPDK = tree.dpdk_flags()
WARN = ['-Wall', '-Wextra', '-Werror', '-Wno-unused-parameter', '-Wno-address-of-packed-member',
        '-Wno-missing-field-initializers']
# -fms-extensions: structs that extend another (test/sim/sim.h).
C = ['-x', 'c', '-std=gnu11', '-fms-extensions', '-D_GNU_SOURCE', '-DALLOW_EXPERIMENTAL_API', '-march=native']


def compile_alone(command, name):
    # Compile a one-line file, so that the header comes first.
    run = subprocess.run([*command, '-fsyntax-only', '-'], input=f'#include "{name}"\n',
                         capture_output=True, text=True, cwd=tree.ROOT, timeout=600)
    return f'{name}: does not compile alone\n{run.stderr}' if run.returncode else None


def main(cc, cxx):
    jobs = []
    for name in tree.files('.h'):
        roots = ['-I.', '-Ilib', '-Iinclude', '-Itest', '-Itest/wire-check', '-Idrivers/verbs']
        # The client side is built without DPDK, so its headers must not need it.
        dpdk = [] if name.startswith(('drivers/verbs/', 'include/')) else DPDK
        jobs.append(([cc, *C, *WARN, *roots, *dpdk], name))
        if name.startswith('include/'):
            jobs.append(([cxx, '-x', 'c++', '-std=c++17', *WARN, '-Iinclude'], name))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        results = pool.map(lambda job: compile_alone(*job), jobs)
    tree.finish(f'{len(jobs)} headers alone', [r for r in results if r])


main(*sys.argv[1:3])
