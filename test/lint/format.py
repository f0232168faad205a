#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every C file is formatted by clang-format 14, Debian 12's version; others differ in detail."""
import shutil
import subprocess
import sys

import tree

SKIPPED = 77  # to meson


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
    tree.finish(f'format of {len(names)} files', problems)


main()
