#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Takes fixes back, one at a time, in a worktree of HEAD, and tells which unit tests fail then. If none does, runs the
simulator until a test of it fails.

COMMIT: its changes of lib, app, drivers and include are reverted. PATCH: a file with a change made by hand, for
a commit that can no longer be reverted; it is applied as it is. --test NAME: these tests instead; also system tests.
--keep DIR keeps the worktree and its build in DIR for the next run. A test must fail twice.
Exit status: 0, or 1 if a fix was not judged, or no test failed.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PRODUCT = ('lib', 'app', 'drivers', 'include')


def git(tree, *args, text=None):
    return subprocess.run(['git', '-C', tree, *args], input=text, capture_output=True, text=True, check=False)


def take_back(tree, fix):
    if pathlib.Path(fix).is_file():
        return git(tree, 'apply', pathlib.Path(fix).resolve()).returncode == 0
    change = git(tree, 'show', '--format=', fix, '--', *PRODUCT).stdout
    return git(tree, 'apply', '-R', '--3way', text=change).returncode == 0


def failures(build, *which):
    """Builds what the tests need and runs them: the names of those that fail, or None if it does not build."""
    log = build / 'meson-logs/testlog.json'
    log.unlink(missing_ok=True)
    subprocess.run(['meson', 'test', '-C', build, *which], capture_output=True, check=False)
    if not log.exists():
        return None
    done = map(json.loads, log.read_text().splitlines())
    return [t['name'].split(' / ')[-1].split(':')[-1] for t in done if t['result'] in ('FAIL', 'TIMEOUT', 'ERROR')]


def judge(tree, fix, tests):
    git(tree, 'checkout', '--force', '--detach', git(ROOT, 'rev-parse', 'HEAD').stdout.strip())
    if not take_back(tree, fix):
        return False, 'cannot be reverted: make a patch by hand'
    for which in [tests] if tests else (['--suite', 'unit'], ['--maxfail', '1', '--suite', 'sim']):
        failed = failures(tree / 'build', *which)
        if failed is None:
            return False, 'does not build'
        if failed and (failed := failures(tree / 'build', *failed)):
            return True, ', '.join(failed)
    return False, 'not found'


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--keep', metavar='DIR')
    parser.add_argument('--test', action='append', default=[], metavar='NAME')
    parser.add_argument('fixes', nargs='+', metavar='COMMIT|PATCH')
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix='uroce-revert-') as folder:
        tree = pathlib.Path(args.keep or folder).resolve() / 'tree'
        if not tree.exists():
            git(ROOT, 'worktree', 'add', '--detach', tree)
            subprocess.run(['meson', 'setup', tree / 'build', tree], check=True, stdout=subprocess.DEVNULL)
        missed = 0
        for fix in args.fixes:
            found, words = judge(tree, fix, args.test)
            print(f'{fix}: {words}', flush=True)
            missed += not found
        if not args.keep:
            git(ROOT, 'worktree', 'remove', '--force', tree)
    return missed != 0


if __name__ == '__main__':
    sys.exit(main())
