#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Counts the engine's instructions per message with callgrind: a regression test independent of timing.

  instructions.py FOLDER [--write]

Builds uroce-bench in FOLDER (kept for the next run) with -Dtarget=x86-64-v3, so the count does not depend on the
machine and valgrind supports every instruction. Only instructions of our own objects count, because libc and ISA-L
choose their code by the CPU. Compares with instructions.json: fails if a side got worse by more than the tolerance;
asks for --write if one got better by more.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

RECORD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "instructions.json")
TOLERANCE = 0.03
MESSAGES = 4000
SIDES = {"requester": "engine_req_", "responder": "engine_rsp_"}  # the bench's steps of a side: .._tx and .._rx
CALLERS = 30  # in a function's name, which therefore has its step's
WORKLOADS = {
    "write 64 B": ["--op", "write", "--size", "64"],
    "send 64 B": ["--op", "send", "--size", "64"],
    "read 64 B": ["--op", "read", "--size", "64"],
    "atomic": ["--op", "atomic"],
    "write 64 KiB": ["--op", "write", "--size", "65536", "--depth", "16"],
}
# Policies that have nothing to limit: valgrind's round trips are far below these targets (us).
for policy in ("dcqcn", "swift:target=10000", "timely:target=10000:high=20000"):
    for name in ("write 64 B", "read 64 B", "write 64 KiB"):
        WORKLOADS[f"{name}, {policy.split(':')[0]}"] = [*WORKLOADS[name], "--policy", policy]


def own_instructions(profile, binary):
    """Instructions of binary's functions by side; code inlined into them has no object name."""
    text = subprocess.run(
        ["callgrind_annotate", "--threshold=100", "--auto=no", profile],
        check=True, capture_output=True, text=True).stdout
    total = dict.fromkeys(SIDES, 0)
    for line in text.splitlines():
        found = re.match(r"\s*([\d,]+) \([ \d.]+%\)\s+(\S.*)", line)
        if found and found[2] != "PROGRAM TOTALS" and ("[" not in found[2] or found[2].endswith(os.path.basename(binary) + "]")):
            sides = [side for side, step in SIDES.items() if "'" + step in found[2] or ":" + step in found[2]]
            if len(sides) != 1:
                sys.exit(f"instructions.py: not within one step: {found[2]}")
            total[sides[0]] += int(found[1].replace(",", ""))
    return total


def count(binary, args):
    """Instructions per message by side, both from one run, because valgrind and EAL take longest to start."""
    messages = MESSAGES if "65536" not in args else MESSAGES // 40
    with tempfile.TemporaryDirectory(prefix="uroce-callgrind-") as folder:
        profile = os.path.join(folder, "out")
        run = subprocess.run(
            ["valgrind", "--tool=callgrind", f"--callgrind-out-file={profile}", f"--separate-callers={CALLERS}",
             *[f"--toggle-collect={step}{way}" for step in SIDES.values() for way in ("tx", "rx")],
             binary, "engine", "--no-probe", "--no-huge", "--runs", "1", "--count", str(messages), *args],
            capture_output=True, text=True)
        if run.returncode != 0:
            sys.exit(f"instructions.py: uroce-bench failed:\n{run.stdout}{run.stderr}")
        return {side: round(n / messages, 1) for side, n in own_instructions(profile, binary).items()}


def build(folder):
    """Builds uroce-bench for the fixed processor; returns its path."""
    source = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    bench = "app/uroce-bench/uroce-bench"
    if not os.path.exists(os.path.join(folder, "build.ninja")):
        subprocess.run(["meson", "setup", "-Dtarget=x86-64-v3", folder, source], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["ninja", "-C", folder, bench], check=True, stdout=subprocess.DEVNULL)
    return os.path.join(folder, bench)


def main():
    binary, write = build(sys.argv[1]), "--write" in sys.argv
    now = {name: count(binary, args) for name, args in WORKLOADS.items()}
    if write:
        with open(RECORD, "w") as f:
            json.dump(now, f, indent=1)
            f.write("\n")
        return 0
    with open(RECORD) as f:
        record = json.load(f)
    bad = 0
    for name, sides in now.items():
        for side, n in sides.items():
            was = record[name][side]
            word = ("ok" if abs(n - was) <= was * TOLERANCE
                    else "WORSE" if n > was else "better: --write")
            bad += word == "WORSE"
            print(f"{name:14} {side:10} {n:9.1f} a message, recorded {was:9.1f}  {word}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
