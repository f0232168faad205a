#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Checks the provider, which every client process loads. It exports exactly the symbols of its version map (none if
the map has none: its constructor registers it with libibverbs) and needs no libraries but these. Neither it nor the
other files, which are copied into containers of other distributions, need a libc later than GLIBC.
symbols.py PROVIDER.so [FILE..]
"""
import re
import subprocess
import sys

import tree

GLIBC = (2, 31)  # Debian 11; what the build's libc has since then is in drivers/verbs/old_glibc.c
NEEDED = r'libibverbs\.so\.1|libc\.so\.6|ld-linux[-\w]*\.so\.\d|lib(asan|ubsan|tsan)\.so\.\d+'


def tool(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def mapped():
    """Names in the global sections of the provider's version map."""
    names = set()
    for name in tree.files('.map'):
        if name.startswith('drivers/verbs/'):
            for section in re.findall(r'global:(.*?)(?:local:|\})', tree.code(name), re.S):
                names |= set(re.findall(r'[\w]+', section))
    return names


def too_new(path):
    """Versioned symbols of libc that GLIBC lacks. One version is a word: GLIBC_ABI_DT_RELR."""
    for name, version in re.findall(r'\s[Uwv] ([\w]+)@+GLIBC_(\S+)', tool('nm', '-D', '--undefined-only', path)):
        if not re.fullmatch(r'[\d.]+', version) or tuple(map(int, version.split('.'))) > GLIBC:
            yield f'{path}: {name} needs GLIBC_{version}, later than {GLIBC[0]}.{GLIBC[1]} (drivers/verbs/old_glibc.h)'
    for version in re.findall(r'Name: GLIBC_(ABI\S+)', tool('readelf', '-V', '-W', path)):
        yield f'{path}: needs GLIBC_{version}'


def main(provider, *others):
    # "name type value size"; the name may be name@@version. Versions themselves have type A.
    rows = [line.split() for line in tool('nm', '-D', '-P', '--defined-only', provider).splitlines()]
    exported = {row[0].split('@')[0] for row in rows if row[1] != 'A'}
    needed = re.findall(r'\(NEEDED\).*\[(.+)\]', tool('readelf', '-d', '-W', provider))
    problems = [f'{name}: exported, but not in the version map' for name in exported - mapped()]
    problems += [f'{name}: in the version map, but not exported' for name in mapped() - exported]
    problems += [f'{lib}: needed by the provider' for lib in needed if not re.fullmatch(NEEDED, lib)]
    if 'libibverbs.so.1' not in needed:
        problems.append(f'{provider}: does not need libibverbs: is this the provider?')
    sanitized = any(lib.startswith(('libasan', 'libubsan', 'libtsan')) for lib in needed)
    for path in () if sanitized else (provider, *others):
        problems += too_new(path)
    tree.finish('symbols', sorted(problems))


main(*sys.argv[1:])
