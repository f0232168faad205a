#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Sizes of C code: a file of the product has at most 500 lines, one of test/ at most 600; a function has at
most 80, braces included. Tables of data are not functions, and a file of nothing else may be longer.
"""
import re

import tree

MOST_FUNCTION = 80
MOST_FILE = 500
MOST_TEST = 600

# Longer than the limit, each with the reason why splitting it is worse, and the length that it must not exceed.
ALLOWED = {
    'drivers/verbs/page_swap.c':
        (560, 'one protocol with the kernel (write-protect, copy, swap, resume), whose steps share private state'),
}


def functions(text):
    """(line, name, lines) of each function: its body stands between braces in the first column."""
    for match in re.finditer(r'^([^\n]*\))\n\{\n.*?^\}', text, re.S | re.M):
        # The name is on the line above the brace, or where a long list of parameters begins.
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
    most, _ = ALLOWED.get(name, (MOST_TEST if name.startswith('test/') else MOST_FILE, None))
    if lines > most:
        yield f'{name}: {lines} lines, more than {most}: it holds two things, split it'
    elif name in ALLOWED and lines <= MOST_FILE:
        yield f'{name}: has {lines} lines and needs no entry in ALLOWED of test/lint/sizes.py'


def main():
    names = tree.files('.c', '.h')
    problems = [f'test/lint/sizes.py: {name} of ALLOWED does not exist' for name in ALLOWED if name not in names]
    tree.finish('sizes', problems + [problem for name in names for problem in problems_of(name)])


main()
