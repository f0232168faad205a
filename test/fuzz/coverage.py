#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""
The lines of each library that the fuzzers run: coverage.py BUILD NAME=DIR.. compiles the fuzzers of the build folder
again, for clang's coverage, and runs each over the inputs in its folders. Prints a table in Markdown, and with --missed
LIBRARY the functions that no input has reached. --out keeps the objects: the next run does not compile them.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import tempfile

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument('--missed', metavar='LIBRARY', default='')
parser.add_argument('--out', type=pathlib.Path)
parser.add_argument('build', type=pathlib.Path)
parser.add_argument('inputs', nargs='+', metavar='NAME=DIR')
args = parser.parse_args()
build = args.build.resolve()
out = args.out.resolve() if args.out else pathlib.Path(tempfile.mkdtemp(prefix='uroce-coverage-'))
out.mkdir(parents=True, exist_ok=True)
PROFILE = ['-fprofile-instr-generate', '-fcoverage-mapping']


def tool(name):
    return shutil.which(name) or shutil.which(name + '-14')


def sanitizer(word):
    return word.startswith(('-fsanitize', '-fno-sanitize'))


def compiled(command):
    words = [word for word in command if not sanitizer(word) and not word.endswith('ccache')]
    at = words.index('-o') + 1
    words[at] = str(out / pathlib.Path(words[at]).name)
    if not os.path.exists(words[at]):
        subprocess.run([*words, *PROFILE], cwd=build, check=True)


names = collections.defaultdict(list)
for item in args.inputs:
    name, _, folder = item.partition('=')
    names[name].append(pathlib.Path(folder).resolve())
lines = subprocess.run(['ninja', '-C', build, '-t', 'commands', *(f'test/fuzz/fuzz_{n}' for n in names)],
                       check=True, capture_output=True, text=True).stdout.splitlines()
commands = [shlex.split(line) for line in lines if 'clang' in line and '-fsanitize=' in line]
with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    list(pool.map(compiled, (c for c in commands if '-c' in c)))
replay = out / 'replay.o'
root = pathlib.Path(__file__).resolve().parents[2]
subprocess.run([tool('clang'), '-c', root / 'test/fuzz/replay.c', '-o', replay], check=True)
library = out / 'libfuzz.a'
library.unlink(missing_ok=True)
rule = next(shlex.split(line) for line in lines if 'test/fuzz/libfuzz.a' in line and ' ar ' in line)
objects = [str(out / pathlib.Path(w).name) for w in rule if w.endswith('.o')]
subprocess.run(['ar', 'rcs', library, *objects], check=True)
profiles, programs = [], []
for command in (c for c in commands if '-c' not in c):
    target = pathlib.Path(command[command.index('-o') + 1])
    name = target.name.removeprefix('fuzz_')
    words = [str(out / pathlib.Path(w).name) if w.endswith(('.o', '.a')) and '/' in w else w
             for w in command if not sanitizer(w)]
    words[words.index('-o') + 1] = str(out / target.name)
    subprocess.run([*words, replay, *PROFILE], cwd=build, check=True)
    files = sorted(str(p) for folder in names[name] for p in folder.iterdir() if p.is_file())
    profile = out / f'{name}.profraw'
    for first in range(0, len(files), 2000):
        part = out / f'{name}-{first}.profraw'
        subprocess.run([out / target.name, *files[first:first + 2000]], check=True, capture_output=True,
                       env={**os.environ, 'LLVM_PROFILE_FILE': str(part)})
        profiles.append(part)
    programs += ['-object', str(out / target.name)]
subprocess.run([tool('llvm-profdata'), 'merge', '-o', out / 'all.profdata', *profiles], check=True)
found = json.loads(subprocess.run([tool('llvm-cov'), 'export', *programs, '-instr-profile', out / 'all.profdata'],
                                  check=True, capture_output=True, text=True).stdout)['data'][0]
folders = collections.defaultdict(lambda: [0, 0])
for file in found['files']:
    path = pathlib.Path(file['filename'])
    if path.is_relative_to(root) and path.parts[len(root.parts)] != 'test':
        lines = file['summary']['lines']
        folder = folders[str(path.relative_to(root).parent)]
        folder[0] += lines['count']
        folder[1] += lines['covered']
        if args.missed and args.missed in str(path):
            print(f'{path.relative_to(root)}: {lines["covered"]} of {lines["count"]}')
if args.missed:
    for function in found['functions']:
        if function['count'] == 0 and any(args.missed in name for name in function['filenames']):
            print('  never called:', function['name'], function['filenames'][0])
print('| library | lines | run |\n| --- | --- | --- |')
for folder, (count, covered) in sorted(folders.items()):
    print(f'| `{folder}` | {count} | {100 * covered // count} % |')
if not args.out:
    shutil.rmtree(out)
