# SPDX-License-Identifier: BSD-3-Clause
"""Shared by the lint scripts: the tree's files, C text without comments, a uniform ending."""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def files(*suffixes):
    """Tracked files of the tree (without git: all files) with one of the suffixes, sorted."""
    run = subprocess.run(['git', '-C', str(ROOT), 'ls-files'], capture_output=True, text=True)
    if run.returncode == 0:
        names = run.stdout.splitlines()
    else:
        names = [str(p.relative_to(ROOT)) for p in ROOT.rglob('*')
                 if p.is_file() and not p.relative_to(ROOT).parts[0].startswith(('build', '.'))]
    return sorted(n for n in names if n.endswith(suffixes) and (ROOT / n).is_file())


def text(name):
    return (ROOT / name).read_text(encoding='utf-8')


def code(name):
    """C source with comments blanked and string contents removed; keeps line numbers."""
    def blank(match):
        token = match[0]
        if token[0] == '/':
            return re.sub(r'[^\n]', ' ', token)
        return token[0] * 2
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, text(name),
                  flags=re.S)


def dpdk_flags():
    """The compiler's flags for files that include DPDK, as the build has them but for the processor's."""
    flags = subprocess.run(['pkg-config', '--cflags', 'libdpdk'], capture_output=True, text=True, check=True).stdout.split()
    return ['-isystem', str(ROOT / 'lib/dpdk'), *(re.sub('^-I', '-isystem', f) for f in flags if not f.startswith('-m'))]


def finish(what, problems):
    """Prints the problems and ends the program, with status 0 if there are none."""
    for problem in problems:
        print(problem)
    print(f'{what}: {len(problems)} problems' if problems else f'{what}: ok')
    sys.exit(1 if problems else 0)
