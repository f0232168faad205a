#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Changes the transport at random places, one place at a time, in a copy of the tree, and tells which
changes the unit tests and the simulator notice.

random_mutants.py [--jobs N] [--skip K] [COUNT [SEED]]

COUNT mutants (default: MUTATE_COUNT or 36) are drawn from SEED (MUTATE_SEED or 1); the same seed on
the same tree draws the same ones. --skip K leaves out the first K: a run that was stopped goes on.
A change that does not compile, or leaves the machine code as it was, is replaced by the next one.
Prints a line a mutant and the score; exit status 0 unless the unchanged tree fails.
"""
import argparse
import concurrent.futures
import dataclasses
import hashlib
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time

import mutate

FOLDERS = ('requester', 'responder', 'qp', 'wire', 'mem', 'cq')
UNIT = ('engine', 'wire', 'mem', 'cq', 'net', 'worker')  # folders of test/unit that run this code

# What is replaced by what. Blanks around an operator tell it from a part of another.
SWAPS = [(f' {a} ', f' {b} ') for a, b in (
    ('&&', '||'), ('||', '&&'), ('<', '<='), ('<=', '<'), ('>', '>='), ('>=', '>'), ('==', '!='),
    ('!=', '=='), ('+', '-'), ('-', '+'), ('&', '|'), ('+=', '-='), ('-=', '+='), ('<<', '>>'),
    ('>>', '<<'))]
WORDS = {'true': 'false', 'false': 'true', 'MEM_LOCAL_READ': 'MEM_LOCAL_WRITE',
         'MEM_LOCAL_WRITE': 'MEM_LOCAL_READ', 'MEM_REMOTE_READ': 'MEM_REMOTE_WRITE',
         'MEM_REMOTE_WRITE': 'MEM_REMOTE_READ', 'psn_lt': 'psn_le', 'psn_le': 'psn_lt',
         'QP_RTS': 'QP_SQD', 'QP_SQD': 'QP_RTS', 'RTE_MIN': 'RTE_MAX', 'RTE_MAX': 'RTE_MIN',
         'REQ_BLOCKED': 'REQ_NEXT', 'next_psn': 'high_psn', 'WIRE_F_FIRST': 'WIRE_F_LAST',
         'WIRE_F_LAST': 'WIRE_F_FIRST', 'WIRE_F_SEND': 'WIRE_F_WRITE', 'head': 'tail', 'tail': 'head'}
# Statements on one line that may go: assignments and calls.
STATEMENT = re.compile(r'^\t+(?:[\w>.\[\]&*-]+ [-+|&]?= [^;{}]+|\w+\([^;{}]*\)|[\w>.-]+(?:\+\+|--));$', re.M)
NUMBER = re.compile(r'(?<![\w.])(\d{1,4})(u?)(?![\w.])')
NOT = re.compile(r'(?<![!=<>])!(?=[\w(])')
# Lines whose change shows in no behaviour: hints to the processor and the compiler, assertions.
NO_BEHAVIOUR = re.compile(r'prefetch|_Static_assert|__attribute__|RTE_BUILD_BUG|aligned')


@dataclasses.dataclass(frozen=True)
class Site:
    """One change: in file, text[start:end] becomes new."""
    file: str
    start: int
    end: int
    new: str


def code_only(text):
    """text with comments, strings and preprocessor lines blanked out, offsets unchanged."""
    def blank(m):
        return re.sub(r'[^\n]', ' ', m.group(0))
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|^#(?:[^\n]*\\\n)*[^\n]*',
                  blank, text, flags=re.S | re.M)


def bodies(code):
    """(start, end) of each function body: this tree's braces of functions stand in column 0."""
    for m in re.finditer(r'^([^\n]*)\n\{\n(.*?)^\}', code, re.S | re.M):
        if 'prefetch' not in m.group(1):
            yield m.start(2), m.end(2)


def sites_of(file, text):
    code = code_only(text)
    for start, end in bodies(code):
        for old, new in SWAPS:
            for m in re.finditer(re.escape(old), code[start:end]):
                yield Site(file, start + m.start(), start + m.end(), new)
        for m in re.finditer(r'(?<![\w])(' + '|'.join(WORDS) + r')\b', code[start:end]):
            yield Site(file, start + m.start(), start + m.end(), WORDS[m.group(1)])
        for m in NUMBER.finditer(code[start:end]):
            yield Site(file, start + m.start(), start + m.end(), str(int(m.group(1)) + 1) + m.group(2))
        for m in NOT.finditer(code[start:end]):
            yield Site(file, start + m.start(), start + m.end(), '')
        for m in STATEMENT.finditer(code[start:end]):
            yield Site(file, start + m.start(), start + m.end(), '\t;')


def line_of(text, at):
    return text.count('\n', 0, at) + 1


def all_sites(root):
    """Every site, in a fixed order, less those that change no behaviour."""
    for folder in FOLDERS:
        for path in sorted((root / 'lib' / folder).glob('*.[ch]')):
            text = path.read_text()
            lines = text.split('\n')
            for site in sites_of(str(path.relative_to(root)), text):
                if not NO_BEHAVIOUR.search(lines[line_of(text, site.start) - 1]):
                    yield site


@dataclasses.dataclass
class Test:
    name: str
    cmd: list
    seconds: int
    took: float = 0.0


def tests_of(build):
    """Programs of the unit suite that run the transport, and all of the simulator's."""
    done = subprocess.run(['meson', 'introspect', '--tests', build], capture_output=True, text=True, check=True)
    for t in json.loads(done.stdout):
        program = pathlib.Path(t['cmd'][0])
        suites = {s.split(':')[-1] for s in t['suite']}
        unit = 'unit' in suites and program.parent.name in UNIT and program.parent.parent.name == 'unit'
        if unit or 'sim' in suites and program.name == 'uroce-sim':
            yield Test(t['name'], t['cmd'], t['timeout'])


def run_one(test):
    """None if it passes, else why not."""
    begun = time.monotonic()
    try:
        done = subprocess.run(test.cmd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              timeout=test.seconds, check=False)
        status = done.returncode
    except subprocess.TimeoutExpired:
        status = 'hangs'
    test.took = time.monotonic() - begun
    return None if status in (0, 77) else f'{test.name} ({status})'


def first_failure(tests, jobs):
    """Runs them in order, jobs at a time, until one fails: its name, or None."""
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        waiting = iter(tests)
        running = {pool.submit(run_one, t) for _, t in zip(range(jobs), waiting)}
        failed = None
        while running:
            done, running = concurrent.futures.wait(running, return_when='FIRST_COMPLETED')
            for f in done:
                failed = failed or f.result()
                nxt = None if failed else next(waiting, None)
                if nxt:
                    running.add(pool.submit(run_one, nxt))
        return failed


class Lab:
    """A copy of the tree, and what was found out about it unchanged."""

    def __init__(self, folder, jobs):
        self.copy = mutate.Copy(folder, jobs)
        self.jobs = jobs
        self.tests = list(tests_of(self.copy.build))
        programs = {t.cmd[0] for t in self.tests}
        self.targets = sorted(str(pathlib.Path(p).relative_to(self.copy.build)) for p in programs)

    def build(self):
        done = subprocess.run(['ninja', '-C', self.copy.build, '-j', str(self.jobs), *self.targets],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        return done.returncode == 0

    def code(self):
        """A digest of the transport's objects."""
        digest = hashlib.sha256()
        for path in sorted((self.copy.build / 'lib').rglob('*.o')):
            digest.update(path.read_bytes())
        return digest.hexdigest()

    def baseline(self):
        """Why the unchanged tree is no good, or None. Afterwards the quickest tests come first."""
        if not self.build():
            return 'it does not build'
        failed = first_failure(self.tests, 1)
        self.tests.sort(key=lambda t: t.took)
        for t in self.tests:
            t.seconds = max(30, int(10 * t.took) + 1)
        self.plain = self.code()
        return failed

    def judge(self, site):
        """'void' for a change that is none, else (noticed by or None)."""
        path = self.copy.tree / site.file
        good = path.read_text()
        path.write_text(good[:site.start] + site.new + good[site.end:])
        try:
            if not self.build() or self.code() == self.plain:
                return 'void'
            return first_failure(self.tests, self.jobs)
        finally:
            path.write_text(good)


def describe(site, root):
    text = (root / site.file).read_text()
    n = line_of(text, site.start)
    old = text[site.start:site.end].strip()
    shown = f'{site.file}:{n}: {old[:48]!r} -> {site.new.strip()!r}'
    return f'{shown}   in: {text.splitlines()[n - 1].strip()[:70]}'


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--jobs', type=int, default=2)
    parser.add_argument('--skip', type=int, default=0)
    parser.add_argument('count', nargs='?', type=int, default=int(os.environ.get('MUTATE_COUNT', '36')))
    parser.add_argument('seed', nargs='?', type=int, default=int(os.environ.get('MUTATE_SEED', '1')))
    args = parser.parse_args()
    sites = list(all_sites(mutate.ROOT))
    random.Random(args.seed).shuffle(sites)
    print(f'{len(sites)} places in lib/{{{",".join(FOLDERS)}}}; seed {args.seed}', flush=True)
    drawn = noticed = 0
    survivors = []
    with tempfile.TemporaryDirectory(prefix='uroce-mutate-') as folder:
        lab = Lab(pathlib.Path(folder), args.jobs)
        wrong = lab.baseline()
        if wrong:
            print(f'the unchanged tree: {wrong}')
            return 1
        for site in sites[args.skip:]:
            if drawn == args.count:
                break
            verdict = lab.judge(site)
            if verdict == 'void':
                continue
            drawn += 1
            noticed += verdict is not None
            words = describe(site, mutate.ROOT)
            if verdict is None:
                survivors.append(words)
            print(f'{drawn:3} {"noticed by " + verdict if verdict else "SURVIVED"}: {words}', flush=True)
    print(f'{noticed} of {drawn} random mutants noticed (seed {args.seed})')
    for words in survivors:
        print(f'survived: {words}')
    return 0


if __name__ == '__main__':
    sys.exit(main())
