#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""
doc/conformance.md lists each requirement of doc/requirements.txt with the tests that prove it. An annotation above
a test names its requirements (test/kit/requirement.h): REQUIREMENT("CQE-02", "NAK-07") above a C function; a
comment "Requirements: CQE-02, NAK-07" above a table row, a Python test or a meson.build test.

conformance.py            fails if the document does not match the tree
conformance.py --write    writes the document
"""
import collections
import re
import sys

import tree

DOCUMENT = 'doc/conformance.md'
NOT_TESTS = ('test/lint/', 'test/mutate/')  # they name tests but contain no test of the transport
MOST_NAMED = 8  # maximum number of tests listed per file and requirement
FUNCTION = re.compile(r'(?:(?:static )?void\s+|[A-Z_]*TEST(?:_IN)?\()(?P<name>\w+)(?:\(|[^{;]*\)\n\{)')
MACRO = re.compile(r'^\w+\((\w+),', re.M)
COMMENT = re.compile(r'^[ \t]*(?:#|/\*) Requirements: ([A-Z0-9, -]+?)(?: \*/)?\n(.*)', re.M)
# A Python function or case, a meson test, a table row.
NAMED = re.compile(r"""(?:\bdef |\bcase\(f?"|^test\('|^\s*\{")([\w -]+)""")
OLD_NAME = re.compile(r'\btest_[A-Z]+_\d\d_\w+')
MOST_TEXT = 110  # maximum characters of a requirement's text in the table

HEAD = '''\
# Conformance

Which tests prove which requirement. {covered} of {total} requirements have at least one test.

In each section the table gives the requirements, shortened, and the files that test them; the complete text is
in [requirements.txt](requirements.txt). The list below the table names the tests by the words of their function's
name. A test that proves several requirements stands under each of them. An annotation above the test names the
requirements (`test/kit/requirement.h`).

`meson test -C build --suite unit --suite sim --suite system` runs the tests. [notes/mutation.md](notes/mutation.md)
says how many deliberate faults they notice.

`test/lint/conformance.py --write` generates this document from `doc/requirements.txt` and the annotations in
`test/`. Do not edit it. `meson test --suite lint` fails when it is out of date.
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


def annotated(name, text):
    """(requirement ids, name of a test or None) of each annotation in a file."""
    for match in COMMENT.finditer(text):
        test = NAMED.search(match[2])
        yield re.findall(r'[A-Z]+-\d\d', match[1]), test and test[1]
    # Finds uses of the macro, so blanks comments that mention it.
    text = re.sub(r'/\*.*?\*/', lambda comment: re.sub(r'[^\n]', ' ', comment[0]), text, flags=re.S)
    for match in re.finditer(r'^REQUIREMENT\(([^)]*)\)\s*', text, re.M):
        rest = text[match.end():]
        function = FUNCTION.match(rest)
        for test in [function['name']] if function else MACRO.findall(rest.split('\n\n')[0]) or [None]:
            yield re.findall(r'[A-Z]+-\d\d', match[1]), test


def words(test):
    """The words of a test's name."""
    return test.removeprefix('test_').replace('_', ' ').strip()


def tests():
    """Returns id -> file -> test names as words, and the errors in annotations."""
    matrix = collections.defaultdict(lambda: collections.defaultdict(set))
    problems = []
    for name in tree.files('.c', '.py', '.sh', 'meson.build'):
        if not name.startswith('test/') or name.startswith(NOT_TESTS):
            continue
        text = tree.text(name)
        for ids, test in annotated(name, text):
            if not ids or test is None:
                problems.append(f'{name}: an annotation of {", ".join(ids) or "nothing"} stands above no test')
            for number in ids if test else ():
                matrix[number][name].add(words(test))
        for test in OLD_NAME.findall(text):
            problems.append(f'{name}: {test}: name requirements in an annotation (test/kit/requirement.h)')
    return matrix, problems


def link(name):
    """A link to a test file, labelled with folder and name."""
    return f'[{"/".join(name.split("/")[-2:])}](../{name})'


def cell(found):
    """Links to the files that test one requirement, labelled with their stems."""
    short = {name: name.split('/')[-1].split('.')[0].removeprefix('test_') for name in found}
    return ', '.join(f'[{short[name]}](../{name})' for name in sorted(found)) or 'none yet'


def named(number, found):
    """Lists the tests of one requirement, one line for each file."""
    lines = [f'* **{number}**']
    for name in sorted(found):
        listed = sorted(found[name])
        more = len(listed) - MOST_NAMED
        lines.append(f'  * {link(name)}: ' + '; '.join(listed[:MOST_NAMED]) +
                     (f'; and {more} more' if more > 0 else ''))
    return lines


def shortened(text):
    """A requirement's first clauses that fit the table, or its first words if no clause fits."""
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
    sections = requirements()
    matrix, problems = tests()
    known = {number for _, rows in sections for number, _ in rows}
    problems += [f"{name}: '{test}' names {number}, which is not in doc/requirements.txt"
                 for number in sorted(set(matrix) - known)
                 for name, names in matrix[number].items() for test in sorted(names)]
    made = document(sections, matrix)
    if '--write' in sys.argv:
        (tree.ROOT / DOCUMENT).write_text(made, encoding='utf-8')
    elif not (tree.ROOT / DOCUMENT).is_file() or tree.text(DOCUMENT) != made:
        problems.append(f'{DOCUMENT}: out of date: run test/lint/conformance.py --write')
    tree.finish('conformance', problems)


main()
