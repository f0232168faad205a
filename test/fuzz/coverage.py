#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""
The lines of each library that the fuzzers run: coverage.py BUILD NAME=DIR.. compiles the fuzzers of the build folder
again, for clang's coverage, and runs each over the inputs in its folders. Prints a table in Markdown, and with --missed
LIBRARY the lines that no input has reached, by function. --out keeps the objects: the next run does not compile them.

not_foreign.txt lists functions that foreign bytes cannot reach. The table's last columns count the lines without these.
A function of the list that ran all the same is named: it does not belong there.
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


def sanitizer(word):  # race.c needs the loads
    return word.startswith(('-fsanitize=', '-fno-sanitize'))


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
# of fuzzers without race.c, whose definitions count
loads = out / 'loads.o'
text = ''.join(f'__attribute__((weak)) void __sanitizer_cov_load{n}(const void *p) {{ }}\n' for n in (1, 2, 4, 8, 16))
subprocess.run([tool('clang'), '-x', 'c', '-c', '-', '-o', loads], input=text, text=True, check=True)
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
    subprocess.run([words[0], loads, *words[1:], replay, *PROFILE], cwd=build, check=True)
    files = sorted(str(p) for folder in names[name] for p in folder.iterdir() if p.is_file())
    profile = out / f'{name}.profraw'
    for first in range(0, len(files), 2000):
        part = out / f'{name}-{first}.profraw'
        subprocess.run([out / target.name, *files[first:first + 2000]], check=True, capture_output=True,
                       env={**os.environ, 'LLVM_PROFILE_FILE': str(part)})
        profiles.append(part)
    programs += ['-object', str(out / target.name)]
subprocess.run([tool('llvm-profdata'), 'merge', '-o', out / 'all.profdata', *profiles], check=True)


def export(*options):
    return subprocess.run([tool('llvm-cov'), 'export', *programs, '-instr-profile', out / 'all.profdata', *options],
                          check=True, capture_output=True, text=True).stdout


def read_lines():
    """{file: {line: times run}} of the tree without its tests"""
    counts, file = {}, {}
    for word in export('-format=lcov').splitlines():
        key, _, value = word.partition(':')
        if key == 'SF':
            path = pathlib.Path(value)
            inside = path.is_relative_to(root) and path.relative_to(root).parts[0] != 'test'
            file = counts.setdefault(str(path.relative_to(root)), {}) if inside else {}
        elif key == 'DA':
            line, times = value.split(',')[:2]
            file[int(line)] = max(file.get(int(line), 0), int(times))
    return counts


def read_functions():
    """{file: {function: its lines}}"""
    found = collections.defaultdict(dict)
    for function in json.loads(export())['data'][0]['functions']:
        path = pathlib.Path(function['filenames'][0])
        if path.is_relative_to(root):
            name = function['name'].rpartition(':')[2]
            regions = [r for r in function['regions'] if r[5] == 0]
            found[str(path.relative_to(root))][name] = range(min(r[0] for r in regions), max(r[2] for r in regions) + 1)
    return found


def ranges(lines):
    """1-3 5 of [1, 2, 3, 5]"""
    runs = []
    for line in lines:
        if runs and line == runs[-1][1] + 1:
            runs[-1][1] = line
        else:
            runs.append([line, line])
    return ' '.join(f'{a}-{b}' if a != b else f'{a}' for a, b in runs)


counts, functions = read_lines(), read_functions()
outside = collections.defaultdict(set)  # lines that foreign bytes cannot reach
for entry in (root / 'test/fuzz/not_foreign.txt').read_text().splitlines():
    file, _, listed = entry.partition(':')
    if entry.startswith('#') or not listed or file not in counts:
        continue
    for name in functions[file] if listed.split() == ['*'] else listed.split():
        lines = functions[file].get(name)
        if lines is None:
            print(f'{file}: no function {name} (not_foreign.txt)')
        elif counts[file].get(lines[0]) and listed.split() != ['*']:
            print(f'{file}: {name} has run (not_foreign.txt)')
        outside[file].update(lines or [])
folders = collections.defaultdict(collections.Counter)
for file, lines in sorted(counts.items()):
    inside = {line: times for line, times in lines.items() if line not in outside[file]}
    folders[os.path.dirname(file)].update({'lines': len(lines), 'run': sum(map(bool, lines.values())), 'inside': len(inside),
                                           'inside run': sum(map(bool, inside.values()))})
    missed = [line for line, times in inside.items() if not times]
    if args.missed and args.missed in file and missed:
        print(f'{file}: {len(missed)} of {len(inside)} lines are not run')
        for name, within in sorted(functions[file].items(), key=lambda item: item[1][0]):
            part = [line for line in missed if line in within]
            if part:
                print(f'  {name} {"(never)" if not lines.get(within[0]) else ""}{ranges(part)}')
print('| library | lines | run | from foreign bytes | run |\n| --- | --- | --- | --- | --- |')
for folder, n in sorted(folders.items()):
    of_inside = f'{100 * n["inside run"] // n["inside"]} %' if n['inside'] else ''
    print(f'| `{folder}` | {n["lines"]} | {100 * n["run"] // n["lines"]} % | {n["inside"]} | {of_inside} |')
if not args.out:
    shutil.rmtree(out)
