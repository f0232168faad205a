#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs `meson test ..` and ends tests that hang, long before their time limits.

    hangs.py COMMAND...     ends with the command's status

A test hangs if all of its threads sleep and have had less than a clock tick of processor time in a minute. The time
that it takes is no sign: on a busy machine a test takes long, but can run. The stacks of what hangs are added to the
test's output, then all of it is killed. A test that computes forever, or polls, is left to its time limit."""
import collections
import contextlib
import os
import pathlib
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "test/kit_py"))
import processes  # noqa: E402

EVERY_S = float(os.environ.get("UROCE_HANGS_EVERY_S", "5"))
LOOKS = 12  # without a change; counted, because the machine itself may have stood still


def stat_fields(path):
    """The fields of a stat file of /proc behind the name: state, parent ..; empty if the process has ended."""
    try:
        return path.read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def families(parent):
    """{pid: that process and all below it} of each child of parent."""
    children = collections.defaultdict(list)
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        if fields := stat_fields(path / "stat"):
            children[int(fields[1])].append(int(path.name))
    found = {}
    for child in children[parent]:
        found[child] = [child]
        for pid in found[child]:  # grows
            found[child] += children[pid]
    return found


def activity(pids):
    """Every thread with its processor time; None if a thread can run, or is in an uninterruptible call."""
    seen = []
    for pid in pids:
        for task in sorted(pathlib.Path(f"/proc/{pid}/task").glob("*")):
            fields = stat_fields(task / "stat")
            if fields[:1] in (["R"], ["D"]):
                return None
            seen.append((task.name, fields[11:13]))
    return seen


def end(pids):
    """Adds the stacks to the test's output, which is a pipe to meson, and kills all of it."""
    text = [f"--- it hangs: nothing has run for {LOOKS * EVERY_S:.0f} s"]
    for pid in pids:
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            name = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            text += [f"--- process {pid}: {name}", processes.waits(pid)]
            text.append(processes.stacks(pid))
    try:
        with open(f"/proc/{pids[0]}/fd/2", "w", encoding="utf-8") as out:
            out.write("\n".join(text) + "\n")
    except OSError:
        print("\n".join(text), flush=True)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def look(parent, known):
    """One look at all tests; known: {pid: (its activity, number of looks that saw the same)}."""
    now = {}
    for pid, pids in families(parent).items():
        seen = activity(pids)
        before, times = known.get(pid, (None, 0))
        now[pid] = (seen, times + 1 if seen is not None and seen == before else 0)
        if now[pid][1] >= LOOKS:
            end(pids)
    return now


def main():
    known = {}
    with subprocess.Popen(sys.argv[1:]) as command:
        while True:
            try:
                return command.wait(EVERY_S)
            except subprocess.TimeoutExpired:
                known = look(command.pid, known)


if __name__ == "__main__":
    sys.exit(main())
