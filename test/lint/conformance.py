#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""
doc/conformance.md: each requirement of doc/requirements.txt with the tests that prove it. The name of a test
says what it proves: test_NAK_07_.. proves NAK-07, test_CQE_02_NAK_07_.. proves both.

conformance.py            fails if the document differs from what the tree says
conformance.py --write    writes the document
"""
import collections
import re
import sys

import tree

DOCUMENT = 'doc/conformance.md'
NOT_TESTS = ('test/lint/', 'test/mutate/')  # scripts that name tests and contain none of the transport's
MOST_NAMED = 8  # tests of one file that are listed for one requirement
MOST_TEXT = 110  # characters of a requirement's text in the table

HEAD = '''\
# Conformance

Which tests prove which requirement. {covered} of {total} requirements have at least one test.

In each section the table gives the requirements, shortened, and the files that test them; the complete text is
in [requirements.txt](requirements.txt). The list below the table names the tests. A test's function name is
`test_`, the requirement's id and the words of the list, joined by underscores: 'every pair of states' under
QP-01 is `test_QP_01_every_pair_of_states`. A test that proves several requirements has several ids in its name
and stands under each of them.

`meson test -C build --suite unit --suite sim --suite system` runs the tests. [notes/mutation.md](notes/mutation.md)
says how many deliberate faults they notice.

`test/lint/conformance.py --write` generates this document from `doc/requirements.txt` and the names of the tests
in `test/`. Do not edit it. `meson test --suite lint` fails when it is out of date.
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


def split(test):
    """(requirement ids at the start of a test's name, the words behind them)."""
    found = []
    rest = test.removeprefix('test_')
    while match := re.match(r'([A-Z]+)_(\d\d)_', rest):
        found.append(f'{match[1]}-{match[2]}')
        rest = rest[match.end():]
    return found, rest.replace('_', ' ').strip()


def tests():
    """id -> file -> names of tests."""
    matrix = collections.defaultdict(lambda: collections.defaultdict(set))
    for name in tree.files('.c', '.py', '.sh'):
        if not name.startswith('test/') or name.startswith(NOT_TESTS):
            continue
        for test in re.findall(r'\btest_[A-Z]+_\d\d_\w+', tree.text(name)):
            for number in split(test)[0]:
                matrix[number][name].add(test)
    return matrix


def link(name):
    """A link to a test file that shows its folder and name."""
    return f'[{"/".join(name.split("/")[-2:])}](../{name})'


def cell(found):
    """Links to the files that test one requirement, as short as the names allow."""
    short = {name: name.split('/')[-1].split('.')[0].removeprefix('test_') for name in found}
    return ', '.join(f'[{short[name]}](../{name})' for name in sorted(found)) or 'none yet'


def named(number, found):
    """The lines that list the tests of one requirement, one line for each file."""
    lines = [f'* **{number}**']
    for name in sorted(found):
        words = sorted({split(test)[1] for test in found[name]})
        more = len(words) - MOST_NAMED
        lines.append(f'  * {link(name)}: ' + '; '.join(words[:MOST_NAMED]) +
                     (f'; and {more} more' if more > 0 else ''))
    return lines


def shortened(text):
    """A requirement's first clauses: as many as the table has room for, or as many words if it has none."""
    first = re.split(r'(?<=\.)\s', text)[0]
    if len(first) <= MOST_TEXT:
        return first
    clauses = [match.start() for match in re.finditer('; ', first[:MOST_TEXT])]
    return first[:clauses[-1]] + '; ...' if clauses else first[:MOST_TEXT].rsplit(' ', 1)[0] + ' ...'


def document(sections, matrix):
    total = sum(len(rows) for _, rows in sections)
    covered = sum(number in matrix for _, rows in sections for number, _ in rows)
    out = [HEAD.format(covered=covered, total=total)]
    for title, rows in sections:
        out += [f'## {title}', '', '| id | requirement | tested in |', '| --- | --- | --- |']
        for number, text in rows:
            text = shortened(text).replace('|', '\\|')
            out.append(f'| {number} | {text} | {cell(matrix.get(number, {}))} |')
        listed = [line for number, _ in rows if number in matrix
                  for line in named(number, matrix[number])]
        if listed:
            out += ['', 'Tests:', '', *listed]
        out.append('')
    return '\n'.join(out)


def main():
    sections, matrix = requirements(), tests()
    known = {number for _, rows in sections for number, _ in rows}
    problems = [f'{name}: {test} names {number}, which is not in doc/requirements.txt'
                for number in sorted(set(matrix) - known)
                for name, names in matrix[number].items() for test in sorted(names)]
    made = document(sections, matrix)
    if '--write' in sys.argv:
        (tree.ROOT / DOCUMENT).write_text(made, encoding='utf-8')
    elif not (tree.ROOT / DOCUMENT).is_file() or tree.text(DOCUMENT) != made:
        problems.append(f'{DOCUMENT}: out of date: run test/lint/conformance.py --write')
    tree.finish('conformance', problems)


main()
