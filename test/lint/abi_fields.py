#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Checks the structures of include/uroce_abi, which daemon and clients share. Product code uses every field by name,
unless the name begins with spare. Every structure has an assertion on its size and, with CC, no hidden padding.
Every body of a control message has spare bytes, and lib/ipc/ops.c lists exactly these, so that the receiver checks
them.
abi_fields.py [CC]

A field counts as used if any code reads or writes a member of that name, so a common name may hide an unused field.
"""
import re
import subprocess
import sys

import tree

ABI = 'include/uroce_abi/'
OPS = 'lib/ipc/ops.c'
PRODUCT = ('include/', 'lib/', 'drivers/', 'app/')
TOKEN = re.compile(r'\w+|[{}\[\];,*]')


class Struct:
    """Members in order: (name, Struct for one defined in place, name of a struct uroce_.., or None)."""

    def __init__(self, line):
        self.line, self.members = line, []


def parse_members(tokens, line):
    """Consumes the tokens of a structure through its closing brace."""
    struct, declaration = Struct(line), []
    while tokens:
        token = tokens.pop(0)
        if token == '}':
            return struct
        if token == '{':
            declaration.append(parse_members(tokens, line))
        elif token == ';':
            struct.members += members_of(declaration)
            declaration = []
        else:
            declaration.append(token)
    raise SystemExit('abi_fields: a structure that does not end')


def members_of(declaration):
    """The members of one declaration: 'uint32_t a, b[4]' or 'union {..}'."""
    inner = next((t for t in declaration if isinstance(t, Struct)), None)
    if inner:
        names = declaration[declaration.index(inner) + 1:]
    elif declaration[:1] == ['struct']:
        inner, names = declaration[1], declaration[2:]
    else:
        names = declaration[1:]
    text = re.sub(r'\[[^]]*\]', '', ' '.join(names))
    found = [name.strip(' *') for name in text.split(',') if name.strip(' *')]
    return [(name, inner) for name in found] if found or not inner else [(None, inner)]


def structs_of(name):
    """The named structures of a header: {name: Struct}."""
    code, found = tree.code(name), {}
    for match in re.finditer(r'^struct uroce_(\w+) \{', code, re.M):
        line = code.count('\n', 0, match.start()) + 1
        found[match[1]] = parse_members(TOKEN.findall(code, match.end()), line)
    return found


def leaves(struct, known, path=''):
    """(path, name) of every field of a structure and of its nested structures."""
    for name, inner in struct.members:
        here = path + name if name else path.rstrip('.')
        if isinstance(inner, str):
            inner = known.get(inner.removeprefix('uroce_'))
        if inner:
            yield from leaves(inner, known, here + '.' if here else '')
        else:
            yield here, name


def own_fields(struct):
    """Names of the fields declared inside a structure, including those of its nested structures."""
    for name, inner in struct.members:
        if name:
            yield name
        if isinstance(inner, Struct):
            yield from own_fields(inner)


def used_names():
    """Every name that product code uses as a member: x.name, x->name, .name = in an initialiser."""
    names = set()
    for name in tree.files('.c', '.h'):
        if name.startswith(PRODUCT):
            code = '\n'.join(line for line in tree.code(name).splitlines() if not re.match(r'\s*#\s*include', line))
            names |= set(re.findall(r'(?:\.|->)\s*([A-Za-z_]\w*)', code))
    return names


def check_ops(known):
    """OPS lists exactly the spare fields of messages."""
    code = tree.code(OPS)
    listed = {}
    for match in re.finditer(r'^SPARE\((\w+),([^;]*)\);', code, re.M):
        listed[match[1]] = {path for of, path in re.findall(r'\bAT\((\w+),\s*([\w.]+)\)', match[2]) if of == match[1]}
    for body in sorted(set(re.findall(r'\bBODY\((\w+)\)', code)) - {'type'}):
        if body not in known:
            yield f'{OPS}: no struct uroce_{body}'
            continue
        spare = {path for path, name in leaves(known[body], known) if name.startswith('spare')}
        if not spare:
            yield f'{OPS}: uroce_{body} has no spare bytes'
        for path in sorted(spare ^ listed.get(body, set())):
            yield f'{OPS}: SPARE({body}, ..): {path} ' + ('is missing' if path in spare else 'is not a spare field')


def check_padding(cc, names):
    source = ''.join(f'#include "{name.removeprefix("include/")}"\n' for name in names)
    run = subprocess.run([cc, '-x', 'c', '-Iinclude', '-Wpadded', '-fsyntax-only', '-'], input=source, cwd=tree.ROOT,
                         capture_output=True, text=True)
    for line in run.stderr.splitlines():
        if match := re.match(r'(\S+?):(\d+):\d+: (?:warning|error): (.*)', line):
            yield f'{match[1]}:{match[2]}: {match[3]}'


def main(args):
    headers = [name for name in tree.files('.h') if name.startswith(ABI)]
    used, known, problems = used_names(), {}, []
    for name in headers:
        structs, code = structs_of(name), tree.code(name)
        known |= structs
        for struct, parsed in structs.items():
            where = f'{name}:{parsed.line}: uroce_{struct}'
            problems += [f'{where}: nothing uses {field}; call it spare' for field in own_fields(parsed)
                         if not field.startswith('spare') and field not in used]
            if not re.search(rf'sizeof\(struct uroce_{struct}\) ==', code):
                problems.append(f'{where}: its size is not asserted')
    problems += check_ops(known)
    for cc in args:
        problems += check_padding(cc, headers)
    tree.finish('abi fields', problems)


main(sys.argv[1:])
