#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Limits the size of C code: 1,200 lines for a file, 80 for a function including braces. Data tables are not functions.
"""
import re

import tree

MOST_FUNCTION = 80
MOST_FILE = 1200


def functions(text):
    """(line, name, lines) of each function, whose braces are in the first column."""
    for match in re.finditer(r'^([^\n]*\))\n\{\n.*?^\}', text, re.S | re.M):
        # The name is on the line above the brace, or higher if the parameter list is long.
        head = text[:match.start(1)].splitlines()[-6:] + [match[1]]
        name = next((word[1] for line in reversed(head) if (word := re.match(r'(\w+)\(', line))), match[1].strip())
        body = match[0][match[0].index('\n{\n') + 1:]
        yield text.count('\n', 0, match.start()) + 1, name, body.count('\n') + 1


def problems_of(name):
    text = tree.code(name)
    for line, function, lines in functions(text):
        if lines > MOST_FUNCTION:
            yield f'{name}:{line}: {function} has {lines} lines, more than {MOST_FUNCTION}: cut out steps with names'
    if not name.endswith('.c'):
        return
    lines = text.count('\n')
    if lines > MOST_FILE:
        yield f'{name}: {lines} lines, more than {MOST_FILE}: it holds two things, split it'


def main():
    names = tree.files('.c', '.h')
    tree.finish('sizes', [problem for name in names for problem in problems_of(name)])


main()
