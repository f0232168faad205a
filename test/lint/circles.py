#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Finds cycles among the .c files of a library: no file may call another that calls it back, directly or through
others. A call is a reference from one object file to a function or variable that another one of the same library
defines. A function pointer passed as an argument is not a call.
circles.py [--graph] LIBRARY.a ..
"""
import collections
import re
import subprocess
import sys

import tree

USES, MAKES = 'U', 'BDRTVWCi'


def read(archive):
    """The archive's members: {member: (symbols it defines, symbols it refers to)}."""
    listing = subprocess.run(['nm', '-P', '-A', archive], capture_output=True, text=True, check=True).stdout
    members = collections.defaultdict(lambda: (set(), set()))
    for line in listing.splitlines():
        # "LIBRARY.a[path/member.c.o]: name type value size"
        row = re.match(r'.*\[(?:.*/)?(.+?)(?:\.c)?\.o\]: (\S+) (\w)', line)
        if row and row[3] in MAKES:
            members[row[1]][0].add(row[2])
        elif row and row[3] in USES:
            members[row[1]][1].add(row[2])
    return members


def calls(members):
    """{member: {called member: symbols}}."""
    home = {symbol: name for name, (makes, _) in members.items() for symbol in makes}
    graph = {name: collections.defaultdict(set) for name in members}
    for name, (_, uses) in members.items():
        for symbol in uses:
            if home.get(symbol, name) != name:
                graph[name][home[symbol]].add(symbol)
    return graph


def reach(graph, start):
    """Every member that start calls, directly or indirectly."""
    seen, todo = set(), list(graph[start])
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo += graph[name]
    return seen


def circles(graph):
    """Sets of members that all reach each other."""
    below = {name: reach(graph, name) for name in graph}
    found = {frozenset(m for m in below[name] if name in below[m]) for name in graph if name in below[name]}
    return sorted(sorted(circle) for circle in found)


def describe(graph, circle):
    yield f'circle of {len(circle)} files: ' + ', '.join(circle)
    for name in circle:
        for callee in sorted(set(graph[name]) & set(circle)):
            yield f'    {name} -> {callee}: ' + ', '.join(sorted(graph[name][callee]))


def show(graph):
    for name in sorted(graph):
        print(f'{name}: ' + ', '.join(sorted(graph[name])))


def main(args):
    problems = []
    for archive in [a for a in args if a != '--graph']:
        graph = calls(read(archive))
        if '--graph' in args:
            show(graph)
        if not graph:
            problems.append(f'{archive}: no object file in it')
        for circle in circles(graph):
            problems += describe(graph, circle)
    tree.finish('call circles', problems)


main(sys.argv[1:])
