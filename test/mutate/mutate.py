#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Breaks rules of the transport on purpose (mutants.py), one at a time, in a copy of the tree, and runs
the test that must notice.

mutate.py [--check] [--jobs N] [RULE..]   RULE: only these, as NAK-07
--check builds nothing: every mutant's text stands in the tree exactly once, and its test exists.
Exit status: 0, or 1 where a mutant survived, or was noticed by another test than the one named.
"""
import argparse
import filecmp
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import mutants

ROOT = pathlib.Path(__file__).resolve().parents[2]
SECTIONS = {'QP': 2, 'REQ': 4, 'RSP': 5, 'NAK': 6, 'CQE': 7, 'EVT': 8, 'MEM': 10, 'CQ': 11, 'SRQ': 11}
PREFIX = {'engine': 'test_engine_', 'wire': 'test_wire_'}  # program names, by folder in test/unit
SECONDS = 120                                              # limit for a program's run time


def programs():
    """Maps each test to its program's ninja target."""
    found = {}
    for folder, prefix in PREFIX.items():
        for path in (ROOT / 'test/unit' / folder).glob('test_*.c'):
            target = f'test/unit/{folder}/{prefix}{path.stem.removeprefix("test_")}'
            found.update(dict.fromkeys(re.findall(r'^\w*TEST(?:_IN)?\((\w+)', path.read_text(), re.M), target))
    return found


def check(rows):
    """Errors in the rows themselves."""
    known = programs()
    for m in rows:
        count = (ROOT / m.file).read_text().count(m.old) if (ROOT / m.file).exists() else 0
        if count != 1:
            yield f'{m.rule}: stands {count} times in {m.file}: {m.old!r}'
        if m.old == m.new:
            yield f'{m.rule}: changes nothing in {m.file}: {m.old!r}'
        if m.test not in known:
            yield f'{m.rule}: no such test: {m.test}'
    missing = set(SECTIONS.values()) - {SECTIONS.get(m.rule.split('-')[0]) for m in rows}
    if missing:
        yield f'no mutant of sections {sorted(missing)} of conformance.md'


def run_test(program):
    """Names of the failed tests; None if all passed. After a crash or hang includes the last test begun."""
    try:
        done = subprocess.run([program], capture_output=True, text=True, errors='replace',
                              timeout=SECONDS, check=False)
        output, status = done.stdout + done.stderr, done.returncode
        ran = done.stderr
    except subprocess.TimeoutExpired as late:
        output = ran = b''.join(o or b'' for o in (late.stdout, late.stderr)).decode(errors='replace')
        status = 'hung'
    if status == 0:
        return None
    failed = re.findall(r'^\[  FAILED  \] (\w+)$', output, re.M)
    if status == 'hung' or status < 0:
        begun = re.findall(r'^\[ RUN      \] (\w+)$', output + ran, re.M)
        failed += begun[-1:]
    return list(dict.fromkeys(failed)) or [f'status {status}']


def renew(source, target):
    """Copies a file unless the target is identical, so that build results stay valid."""
    if not os.path.lexists(target) or not filecmp.cmp(source, target, shallow=False):
        shutil.copy(source, target)


class Copy:
    """A configured copy of the tree. Updates an existing copy in the folder."""

    def __init__(self, folder, jobs, level='-O1'):
        self.tree, self.build, self.jobs = folder / 'tree', folder / 'build', jobs
        # Build folders, whatever their names, contain build.ninja.
        shutil.copytree(ROOT, self.tree, symlinks=True, dirs_exist_ok=True, copy_function=renew,
                        ignore=lambda at, names: [n for n in names if n in ('.git', '__pycache__')
                                                  or (pathlib.Path(at) / n / 'build.ninja').exists()])
        if (self.build / 'build.ninja').exists():
            return
        subprocess.run(['meson', 'setup', self.build, self.tree, '--buildtype', 'plain',
                        f'-Dc_args={level}', '-Dwerror=false', '-Dtransport_lto=false'],
                       check=True, stdout=subprocess.DEVNULL)

    def ninja(self, targets):
        """Returns True if the targets build."""
        done = subprocess.run(['ninja', '-C', self.build, '-j', str(self.jobs), *targets],
                              capture_output=True, text=True, check=False)
        if done.returncode:
            print(done.stdout[-2000:], file=sys.stderr)
        return done.returncode == 0

    def judge(self, m, target):
        """Returns (noticed by the named test, description) for a mutant."""
        path = self.tree / m.file
        good = path.read_text()
        path.write_text(good.replace(m.old, m.new))
        try:
            if not self.ninja([target]):
                return False, 'does not build'
            failed = run_test(self.build / target)
        finally:
            path.write_text(good)
        if failed is None:
            return False, 'SURVIVED'
        others = [name for name in failed if name != m.test]
        if m.test not in failed:
            return False, f'not noticed by {m.test}, but by {", ".join(others)}'
        return True, f'{m.test}' + (f' and {len(others)} more' if others else '')


def run(rows, jobs):
    known = programs()
    targets = sorted({known[m.test] for m in rows})
    with tempfile.TemporaryDirectory(prefix='uroce-mutate-') as folder:
        copy = Copy(pathlib.Path(folder), jobs)
        if not copy.ninja(targets):
            return ['the tree does not build']
        problems = [f'{t} fails unchanged: {failed}' for t in targets
                    if (failed := run_test(copy.build / t))]
        if problems:
            return problems
        for m in rows:
            good, words = copy.judge(m, known[m.test])
            line = f'{m.rule:7} {m.file}: {" ".join(m.old.split())[:56]}'
            print(f'{line:94} {words}', flush=True)
            if not good:
                problems.append(f'{m.rule}: {m.file}: {words}')
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--check', action='store_true')
    parser.add_argument('--jobs', type=int, default=2)
    parser.add_argument('rules', nargs='*', metavar='RULE')
    args = parser.parse_args()
    rows = [m for m in mutants.MUTANTS if not args.rules or m.rule in args.rules]
    if not rows:
        parser.error(f'no mutant of {args.rules}')
    problems = list(check(mutants.MUTANTS))
    if not problems and not args.check:
        problems = run(rows, args.jobs)
    for problem in problems:
        print(problem)
    rules = len({m.rule for m in rows})
    print(f'{len(rows)} mutants of {rules} rules: '
          + (f'{len(problems)} problems' if problems else 'in place' if args.check else 'all noticed'))
    return 1 if problems else 0


if __name__ == '__main__':
    sys.exit(main())
