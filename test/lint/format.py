#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Every C file is formatted by clang-format 14, Debian 12's version; others differ in detail. It joins the lines of a
comment's list if one of them is too long: lists are indented, and text beside a list is not.
"""
import re
import shutil
import subprocess
import sys

import tree

SKIPPED = 77  # to meson
# A comment's line that is indented, is no end of a sentence, and has text below it that is not indented.
JOINED = re.compile(r'^\s*\*   +\S.*[^.;:\s]$(?=\n\s*\* \S)', re.M)


def main():
    if shutil.which('clang-format-14') is None:
        print('format: not checked, because this distribution has no clang-format-14')
        sys.exit(SKIPPED)
    names = tree.files('.c', '.h')
    # Print one problem per file: the fix is clang-format -i.
    run = subprocess.run(['clang-format-14', '--dry-run', '-Werror', '--ferror-limit=1', *names],
                         cwd=tree.ROOT, capture_output=True, text=True)
    bad = sorted({line.split(':')[0] for line in run.stderr.splitlines() if 'error: code should' in line})
    problems = [f'{name}: run clang-format-14 -i on it' for name in bad]
    if run.returncode and not bad:
        problems = [run.stderr]
    problems += [f'{name}: these lines of a list were joined: {line.strip()}' for name in names
                 for line in JOINED.findall(tree.text(name))]
    tree.finish(f'format of {len(names)} files', problems)


main()
