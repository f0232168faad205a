#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Runs a program of this folder over folders of inputs: run.py [--seconds N] PROGRAM DIR.. With --seconds it
is the fuzzer, which continues from there with a separate corpus; it prints where it stores its findings. --corpus keeps
that corpus, for the next run.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument('--seconds', type=int)
parser.add_argument('--corpus', type=pathlib.Path)
parser.add_argument('program', type=pathlib.Path)
parser.add_argument('inputs', type=pathlib.Path, nargs='+', metavar='DIR')
args = parser.parse_args()

inputs = sorted(str(p) for folder in args.inputs for p in folder.iterdir())
assert inputs, f'no inputs in {args.inputs}'
if args.seconds is None:
    sys.exit(subprocess.run([args.program, *inputs]).returncode)

with tempfile.TemporaryDirectory(prefix='uroce-fuzz-') as corpus:
    if args.corpus:
        args.corpus.mkdir(parents=True, exist_ok=True)
    found = args.program.resolve().parent / 'found-'
    run = subprocess.run([args.program, f'-max_total_time={args.seconds}', '-max_len=16384', '-timeout=25',
                          '-rss_limit_mb=2048', '-print_final_stats=1', f'-artifact_prefix={found}',
                          args.corpus or corpus, *args.inputs],
                         env={**os.environ, 'ASAN_OPTIONS': 'quarantine_size_mb=8',
                              'FUZZ_PROBE': f'{corpus}.probe'})
probe = pathlib.Path(f'{corpus}.probe')
if probe.exists():
    # The mutator ran the failing input, and the fuzzer does not save that.
    data = probe.read_bytes()
    probe.unlink()
    length = int.from_bytes(data[:4], sys.byteorder)
    if run.returncode and length:
        pathlib.Path(f'{found}probe').write_bytes(data[4:4 + length])
        print(f'the input is {found}probe, whatever the fuzzer says')
sys.exit(run.returncode)
