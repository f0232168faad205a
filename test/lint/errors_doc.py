#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""doc/errors.md has each reason of include/uroce/errors.h, with the same words, and no other."""
import re

import tree

HEADER, DOC = 'include/uroce/errors.h', 'doc/errors.md'


def main():
    reasons = re.findall(r'X\((0x[0-9a-f]+), \w+, "(\w+)", "([^"]*)", \\\n\t  "([^"]*)"\)', tree.text(HEADER))
    wanted = [f'| {value} | `{word}` | {sentence} | {remedy} |' for value, word, sentence, remedy in reasons]
    rows = [line for line in tree.text(DOC).splitlines() if line.startswith('| 0x')]
    problems = [f'{HEADER}: nothing found'] if not reasons else []
    problems += [f'{HEADER}: {values} is not unique' for values in ({v for v, *_ in reasons}, {w for _, w, *_ in reasons})
                 if len(values) != len(reasons)]
    problems += [f'{DOC}: lacks the row: {row}' for row in wanted if row not in rows]
    problems += [f'{DOC}: not in {HEADER}: {row}' for row in rows if row not in wanted]
    tree.finish('reasons of errors', problems)


main()
