#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every C file is as clang-format 14 writes it: the version of Debian 12, others differ in detail."""
import subprocess

import tree


def main():
    names = tree.files('.c', '.h')
    # One problem a line of output is enough to see where: the fix is clang-format -i.
    run = subprocess.run(['clang-format-14', '--dry-run', '-Werror', '--ferror-limit=1', *names],
                         cwd=tree.ROOT, capture_output=True, text=True)
    bad = sorted({line.split(':')[0] for line in run.stderr.splitlines() if 'error: code should' in line})
    problems = [f'{name}: run clang-format-14 -i on it' for name in bad]
    if run.returncode and not bad:
        problems = [run.stderr]
    tree.finish(f'format of {len(names)} files', problems)


main()
