#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Changes the transport at random places, one place at a time, in a copy of the tree, and tells which
changes the unit tests and the simulator notice.

random_mutants.py [--jobs N] [--files FILE..] [--skip K] [COUNT [SEED]]
random_mutants.py [--files FILE..] --only NUMBER.. [--seed SEED]
random_mutants.py --change FILE OLD NEW [--change ..]

COUNT mutants (default: MUTATE_COUNT or 36) are drawn from SEED (MUTATE_SEED or 1). The same seed on the
same tree draws the same ones and gives each place the same number. --skip K leaves out the first K places,
so that a stopped run can continue; --only tests the places with these numbers again. --files draws
from these files only. --change judges one change by hand: OLD stands in FILE once. --folder DIR keeps the
copy there, so that the next run does not have to build it and to run all tests of the unchanged tree.
--unit leaves out the simulator, which takes most of the time that a survivor costs: --only then judges the
survivors by all tests.

A change that does not compile, or leaves the machine code (-O2) as it was, is replaced by the next one. A
test must fail twice. Tests run one after another until one fails; those that noticed a mutant of the
same folder come first, then the folder's own, then the quickest. Of the places drawn together, those in
headers come last: each costs as much as ten others.
Prints a line a mutant and the score; exit status 0 unless the unchanged tree fails.
"""
import argparse
import collections
import concurrent.futures
import dataclasses
import hashlib
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

import mutate

FOLDERS = ('requester', 'responder', 'qp', 'cc', 'wire', 'mem', 'cq')
# Folders with tests that run this code, in the suites unit and sim.
TESTS = ('unit/engine', 'unit/wire', 'unit/cc', 'unit/net', 'unit/impair', 'unit/ipc', 'unit/worker', 'fuzz', 'sim')
OWN = {'wire': 'unit/wire', 'cc': 'unit/cc'}  # folder of lib -> folder of its tests; unit/engine for all others
HUNG = 'hangs'
DATA_BYTES = 4 << 30         # memory limit of a test: a mutant may allocate forever

# Replacements. Blanks around an operator keep parts of longer operators from matching.
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
# One-line statements that may be removed: assignments and calls.
STATEMENT = re.compile(r'^\t+(?:[\w>.\[\]&*-]+ [-+|&]?= [^;{}]+|\w+\([^;{}]*\)|[\w>.-]+(?:\+\+|--));$', re.M)
NUMBER = re.compile(r'(?<![\w.])(\d{1,4})(u?)(?![\w.])')
NOT = re.compile(r'(?<![!=<>])!(?=[\w(])')
# Lines without visible behaviour: hints to the processor and the compiler, assertions.
NO_BEHAVIOUR = re.compile(r'prefetch|_Static_assert|__attribute__|RTE_BUILD_BUG|aligned')


@dataclasses.dataclass(frozen=True)
class Site:
    """One change: in file, new replaces text[start:end]."""
    file: str
    start: int
    end: int
    new: str


def code_only(text):
    """text with comments, strings and preprocessor lines blanked; offsets stay the same."""
    def blank(m):
        return re.sub(r'[^\n]', ' ', m.group(0))
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|^#(?:[^\n]*\\\n)*[^\n]*',
                  blank, text, flags=re.S | re.M)


def bodies(code):
    """(start, end) of each function body; this tree puts the braces of functions in column 0."""
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
    """Every site in a fixed order, without those that change no behaviour."""
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
    folder: str    # in test/
    cmd: list
    targets: list  # targets to build first
    cpu: int = 60  # CPU time limit in seconds
    took: float = 0.0


def tests_of(build):
    """Tests of the suites unit and sim that run the transport."""
    done = subprocess.run(['meson', 'introspect', '--tests', build], capture_output=True, text=True, check=True)
    known = subprocess.run(['ninja', '-C', build, '-t', 'targets', 'all'], capture_output=True, text=True, check=True)
    known = {line.split(': ')[0] for line in known.stdout.splitlines()}
    for t in json.loads(done.stdout):
        inside = [c.removeprefix(f'{build}/') for c in t['cmd']]
        targets = [c for c in inside if c in known]
        folders = [str(pathlib.Path(c).parent).removeprefix('test/') for c in targets]
        folder = 'unit/wire' if targets == ['test/wire-check'] else folders[0] if folders else None
        if {s.split(':')[-1] for s in t['suite']} & {'unit', 'sim'} and folder in TESTS:
            # A target fills the folder of the fuzzer's seeds.
            seeds = ['test/fuzz/seeds.stamp'] if 'test/fuzz/seeds' in inside else []
            yield Test(t['name'], folder, t['cmd'], targets + seeds)


def run_one(test, build):
    """Returns None if the test passes, else the reason."""
    limits = ['prlimit', f'--cpu={test.cpu}', f'--data={DATA_BYTES}', '--core=0', '--']
    begun = time.monotonic()
    try:
        done = subprocess.run(limits + test.cmd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              cwd=build, timeout=20 * test.cpu, check=False)
        status = done.returncode
    except subprocess.TimeoutExpired:
        status = HUNG
    test.took = time.monotonic() - begun
    if status in (-signal.SIGXCPU, -signal.SIGKILL):
        status = HUNG
    return None if status in (0, 77) else f'{test.name} ({status})'


class Lab:
    """A copy of the tree, and facts about its unchanged state."""

    def __init__(self, folder, jobs, unit_only):
        self.copy = mutate.Copy(folder, jobs, '-O2')
        self.tree, self.jobs = self.copy.tree, jobs
        self.tests = [t for t in tests_of(self.copy.build) if not (unit_only and t.folder == 'sim')]
        self.plain = None
        self.objects = sorted(p for p in self.targets('targets', 'all') if re.match(r'lib/.*\.o$', p))
        self.order = {}                  # folder of lib: the tests in run order
        self.ninja = threading.Lock()

    def targets(self, *how):
        done = subprocess.run(['ninja', '-C', self.copy.build, '-t', *how], capture_output=True, text=True, check=True)
        return [line.split(': ')[0] for line in done.stdout.splitlines()]

    def build(self, targets):
        with self.ninja:
            done = subprocess.run(['ninja', '-C', self.copy.build, '-j', str(self.jobs), *targets],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        return done.returncode == 0

    def code(self):
        """A digest of the transport's objects."""
        digest = hashlib.sha256()
        for path in self.objects:
            digest.update((self.copy.build / path).read_bytes())
        return digest.hexdigest()

    def fails(self, test):
        """Why the test does not build, hangs or fails twice in the tree as it is; else None."""
        if not self.build(test.targets):
            return f'{test.name} (does not build)'
        why = run_one(test, self.copy.build)
        return why if why and HUNG in why else why and run_one(test, self.copy.build)

    def first_failure(self, tests):
        """Runs the tests in order, jobs at a time, until one fails: (the test, reason), or None."""
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            waiting = iter(tests)
            running = {pool.submit(self.fails, t): t for _, t in zip(range(self.jobs), waiting)}
            failed = None
            while running:
                done, _ = concurrent.futures.wait(running, return_when='FIRST_COMPLETED')
                for f in done:
                    test = running.pop(f)
                    if f.result() and not failed:
                        failed = test, f.result()
                    nxt = None if failed else next(waiting, None)
                    if nxt:
                        running[pool.submit(self.fails, nxt)] = nxt
            return failed

    def baseline(self):
        """Why the unchanged tree is unusable, or None."""
        if not self.build(self.objects) or not self.build(sorted({x for t in self.tests for x in t.targets})):
            return 'it does not build'
        self.plain = self.code()
        known = self.copy.build / 'random-mutants.json'
        record = json.loads(known.read_text()) if known.exists() else {}
        took = record['took'] if record.get('tree') == self.digest() else {}
        failed = self.first_failure([t for t in self.tests if t.name not in took])
        if not failed:
            took |= {t.name: t.took for t in self.tests if t.name not in took}
            known.write_text(json.dumps({'tree': self.digest(), 'took': took}))
        for t in self.tests:
            t.took = took.get(t.name, 0.0)
        for t in self.tests:
            t.cpu = min(60, max(5, int(10 * t.took) + 1))
        self.tests.sort(key=lambda t: t.took)
        return failed and failed[1]

    def digest(self):
        """A digest of all sources of the tests."""
        digest = hashlib.sha256()
        for folder in ('include', 'lib', 'test/unit', 'test/sim', 'test/fuzz'):
            for path in sorted((self.tree / folder).rglob('*.[ch]')):
                digest.update(path.read_bytes())
        return digest.hexdigest()

    def ordered(self, folder):
        own = OWN.get(folder, 'unit/engine')
        return self.order.setdefault(folder, sorted(self.tests, key=lambda t: t.folder != own))

    def judge(self, site):
        """(verdict, test that noticed): 'compiles not', 'same code', 'noticed' or 'SURVIVED'."""
        path = self.tree / site.file
        good = path.read_text()
        path.write_text(good[:site.start] + site.new + good[site.end:])
        try:
            if not self.build(self.objects):
                return 'compiles not', None
            if self.code() == self.plain:
                return 'same code', None
            order = self.ordered(site.file.split('/')[1])
            failed = self.first_failure(order)
            if failed is None:
                return 'SURVIVED', None
            order.remove(failed[0])
            order.insert(0, failed[0])
            return 'noticed', failed[1]
        finally:
            path.write_text(good)


def describe(site, root):
    text = (root / site.file).read_text()
    n = line_of(text, site.start)
    old = text[site.start:site.end].strip()
    shown = f'{site.file}:{n}: {old[:48]!r} -> {site.new.strip()!r}'
    return f'{shown}   in: {text.splitlines()[n - 1].strip()[:70]}'


def by_hand(root, file, old, new):
    text = (root / file).read_text()
    if text.count(old) != 1:
        sys.exit(f'stands {text.count(old)} times in {file}: {old!r}')
    return Site(file, text.index(old), text.index(old) + len(old), new)


def places(args, root):
    """(number, site) of the places to judge."""
    if args.change:
        return list(enumerate(by_hand(root, *c) for c in args.change))
    sites = [s for s in all_sites(root) if not args.files or s.file in args.files]
    random.Random(args.seed).shuffle(sites)
    where = ' '.join(args.files) or f'lib/{{{",".join(FOLDERS)}}}'
    print(f'{len(sites)} places in {where}; seed {args.seed}', flush=True)
    numbered = list(enumerate(sites))
    return [numbered[k] for k in args.only] if args.only else numbered[args.skip:]


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--jobs', type=int, default=2)
    parser.add_argument('--skip', type=int, default=0, metavar='K')
    parser.add_argument('--only', type=int, nargs='+', default=[], metavar='NUMBER')
    parser.add_argument('--files', nargs='+', default=[], metavar='FILE')
    parser.add_argument('--change', nargs=3, action='append', default=[], metavar=('FILE', 'OLD', 'NEW'))
    parser.add_argument('--folder', metavar='DIR')
    parser.add_argument('--unit', action='store_true')
    parser.add_argument('--seed', type=int, default=None)
    parser.add_argument('count', nargs='?', type=int, default=int(os.environ.get('MUTATE_COUNT', '36')))
    parser.add_argument('last_seed', nargs='?', type=int, metavar='SEED',
                        default=int(os.environ.get('MUTATE_SEED', '1')))
    args = parser.parse_args()
    args.seed = args.last_seed if args.seed is None else args.seed
    args.count = len(args.only) or len(args.change) or args.count
    return args


def main():
    args = options()
    counts = collections.Counter()
    survivors = []
    with tempfile.TemporaryDirectory(prefix='uroce-mutate-') as folder:
        lab = Lab(pathlib.Path(args.folder or folder).resolve(), args.jobs, args.unit)
        todo = places(args, lab.tree)
        wrong = lab.baseline()
        if wrong:
            print(f'the unchanged tree: {wrong}')
            return 1
        while todo and counts['noticed'] + counts['SURVIVED'] < args.count:
            some = args.count - counts['noticed'] - counts['SURVIVED']
            some, todo = todo[:some], todo[some:]
            for number, site in sorted(some, key=lambda one: one[1].file.endswith('.h')):
                verdict, who = lab.judge(site)
                counts[verdict] += 1
                words = f'#{number} {describe(site, lab.tree)}'
                if verdict == 'SURVIVED':
                    survivors.append(words)
                drawn = counts['noticed'] + counts['SURVIVED']
                print(f'{drawn:3} {verdict}{" by " + who if who else ""}: {words}', flush=True)
    print(f'{counts["noticed"]} of {counts["noticed"] + counts["SURVIVED"]} random mutants noticed '
          f'(seed {args.seed}); replaced: {counts["same code"]} that leave the code as it was, '
          f'{counts["compiles not"]} that do not compile')
    for words in survivors:
        print(f'survived: {words}')
    return 0


if __name__ == '__main__':
    sys.exit(main())
