#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Every Python and shell file, found by suffix or first line, has correct syntax; Python files use only names that the
modules of the tree have: 'from X import name' and 'import X .. X.name'.
"""
import ast
import pathlib
import re
import subprocess
import sys

import tree


def first_line(name):
    with open(tree.ROOT / name, 'rb') as f:
        return f.readline(120).decode('utf-8', 'replace')


def bound(nodes):
    """The names that statements of a module define, those that functions declare global included."""
    for node in nodes:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
            yield from (name for n in ast.walk(node) if isinstance(n, ast.Global) for name in n.names)
        elif isinstance(node, ast.alias):
            yield node.asname or node.name.split('.')[0]
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        else:
            yield from bound(ast.iter_child_nodes(node))


class Imports:
    """What the Python files of the tree import from each other."""

    def __init__(self, parsed):
        self.parsed = parsed
        self.names = {name: set(bound(module.body)) for name, module in parsed.items()}
        self.modules = {}
        for name in parsed:
            self.modules.setdefault(pathlib.PurePath(name).stem, []).append(name)

    def missing(self, user, line, module, name):
        """user: the importing file. One problem, unless a module that may be meant has the name."""
        files = self.modules.get(module, [])
        files = [f for f in files if pathlib.PurePath(f).parent == pathlib.PurePath(user).parent] or files
        if files and not name.startswith('__') and not any(name in self.names[f] for f in files):
            yield f'{user}:{line}: {", ".join(files)} has no {name}'

    def check(self, user):
        nodes = list(ast.walk(self.parsed[user]))
        modules = {a.asname or a.name: a.name for n in nodes if isinstance(n, ast.Import) for a in n.names}
        # A name that is also a variable or an argument somewhere is not judged.
        others = ({n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)} |
                  {n.arg for n in nodes if isinstance(n, ast.arg)})
        for n in nodes:
            if isinstance(n, ast.ImportFrom) and n.level == 0:
                for a in n.names:
                    yield from self.missing(user, n.lineno, n.module, a.name)
            elif isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name) and n.value.id in modules.keys() - others:
                yield from self.missing(user, n.lineno, modules[n.value.id], n.attr)


def check(name, parsed):
    shebang = first_line(name)
    if name.endswith('.py') or re.match(r'#!.*python3', shebang):
        try:
            parsed[name] = ast.parse(tree.text(name), name)
            # py_compile would leave its output in the tree.
            compile(parsed[name], name, 'exec')
        except SyntaxError as error:
            yield f'{name}: {error}'
    elif name.endswith('.sh') or re.match(r'#!.*\bsh\b|#!.*\b(ba|da)sh\b', shebang):
        shell = 'sh' if re.match(r'#!.*/(da)?sh\b', shebang) else 'bash'
        run = subprocess.run([shell, '-n', tree.ROOT / name], capture_output=True, text=True)
        if run.returncode:
            yield f'{name}: {run.stderr}'


def main():
    parsed = {}
    problems = [p for name in tree.files('') for p in check(name, parsed)]
    imports = Imports(parsed)
    tree.finish('scripts', problems + [p for name in parsed for p in imports.check(name)])


assert sys.version_info >= (3, 11), 'run by the Python of Debian 12'
main()
