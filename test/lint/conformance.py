#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""
doc/conformance.md, the matrix requirement -> tests, from doc/requirements.txt and from the names of the
tests: test_NAK_07_.. proves NAK-07, test_CQE_02_NAK_07_.. both.

conformance.py            fails where the document is not what the tree says
conformance.py --write    writes it
"""
import collections
import re
import sys

import tree

DOCUMENT = 'doc/conformance.md'
MUTANTS = 'doc/random-mutants.txt'  # written by hand after a run
MOST_NAMED = 8  # of one file, for one requirement

HEAD = '''\
# Conformance

Made by `test/lint/conformance.py --write` from `doc/requirements.txt` and the names of the tests in
`test/`; never edited by hand. `meson test --suite lint` fails where it is out of date.

{covered} of {total} requirements have a test that names them.
'''


def requirements():
    """(section, [(id, text)]) in the order of doc/requirements.txt."""
    sections = []
    for line in tree.text('doc/requirements.txt').splitlines():
        if line.startswith('## '):
            sections.append((line[3:], []))
        elif line and not line.startswith('#'):
            number, text = line.split(' ', 1)
            sections[-1][1].append((number, text))
    return sections


def ids_of(test):
    """Requirement ids at the start of a test's name."""
    found = []
    rest = test.removeprefix('test_')
    while match := re.match(r'([A-Z]+)_(\d\d)_', rest):
        found.append(f'{match[1]}-{match[2]}')
        rest = rest[match.end():]
    return found


def tests():
    """id -> file -> names of tests."""
    matrix = collections.defaultdict(lambda: collections.defaultdict(set))
    for name in tree.files('.c', '.py', '.sh'):
        # The lint scripts speak of test names without being tests of the transport.
        if not name.startswith('test/') or name.startswith('test/lint/'):
            continue
        for test in re.findall(r'\btest_[A-Z]+_\d\d_\w+', tree.text(name)):
            for number in ids_of(test):
                matrix[number][name].add(test)
    return matrix


def named(names):
    """The tests of one file; of a long table of them the first few."""
    names = sorted(names)
    more = len(names) - MOST_NAMED
    return ', '.join(names[:MOST_NAMED]) + (f' and {more} more' if more > 0 else '')


def cell(found):
    """The tests of one requirement."""
    if not found:
        return 'none yet'
    return '<br>'.join(f'[{name.removeprefix("test/")}](../{name}): {named(found[name])}'
                       for name in sorted(found))


def shortened(text):
    """A requirement's first sentence, or as much of it as a table bears."""
    first = re.split(r'(?<=\.)\s', text)[0]
    return first if len(first) <= 110 else first[:110].rsplit(' ', 1)[0] + ' ...'


def document(sections, matrix):
    total = sum(len(rows) for _, rows in sections)
    covered = sum(number in matrix for _, rows in sections for number, _ in rows)
    out = [HEAD.format(covered=covered, total=total)]
    for title, rows in sections:
        out += [f'## {title}', '', '| id | requirement | tests |', '| --- | --- | --- |']
        for number, text in rows:
            text = shortened(text).replace('|', '\\|')
            out.append(f'| {number} | {text} | {cell(matrix.get(number))} |')
        out.append('')
    out += ['## Random mutants', '', tree.text(MUTANTS)]
    return '\n'.join(out)


def main():
    sections, matrix = requirements(), tests()
    known = {number for _, rows in sections for number, _ in rows}
    problems = [f'{name}: {test} names {number}, which doc/requirements.txt has not'
                for number in sorted(set(matrix) - known)
                for name, names in matrix[number].items() for test in sorted(names)]
    made = document(sections, matrix)
    if '--write' in sys.argv:
        (tree.ROOT / DOCUMENT).write_text(made, encoding='utf-8')
    elif not (tree.ROOT / DOCUMENT).is_file() or tree.text(DOCUMENT) != made:
        problems.append(f'{DOCUMENT}: out of date: run test/lint/conformance.py --write')
    tree.finish('conformance', problems)


main()
