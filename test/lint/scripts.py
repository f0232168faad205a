#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every Python and shell file, found by suffix or first line, has correct syntax."""
import re
import subprocess
import sys

import tree


def first_line(name):
    with open(tree.ROOT / name, 'rb') as f:
        return f.readline(120).decode('utf-8', 'replace')


def check(name):
    shebang = first_line(name)
    if name.endswith('.py') or re.match(r'#!.*python3', shebang):
        try:
            # py_compile would leave its output in the tree.
            compile(tree.text(name), name, 'exec')
        except SyntaxError as error:
            yield f'{name}: {error}'
    elif name.endswith('.sh') or re.match(r'#!.*\bsh\b|#!.*\b(ba|da)sh\b', shebang):
        shell = 'sh' if re.match(r'#!.*/(da)?sh\b', shebang) else 'bash'
        run = subprocess.run([shell, '-n', tree.ROOT / name], capture_output=True, text=True)
        if run.returncode:
            yield f'{name}: {run.stderr}'


assert sys.version_info >= (3, 11), 'run by the Python of Debian 12'
tree.finish('scripts', [p for name in tree.files('') for p in check(name)])
