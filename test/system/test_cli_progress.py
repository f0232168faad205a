#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Slow commands report their progress: on a terminal only, and not with -q."""
import os
import pty
import select
import subprocess
import sys

import lib

HANGS_S = 60
BENCH = lib.BUILD / "app/uroce-bench/uroce-bench"
SETUP = lib.HERE.parents[1] / "scripts/setup.sh"
# Slow commands, made short; their progress reports; the option that turns these off.
ENGINE = [BENCH, "engine", "--runs", "2", "--count", "100", "--no-probe", "--no-huge"]
REPORT = [sys.executable, "-c", r'''
import sys
sys.path[:0] = sys.argv[1:3]
import goals, machine, measure, progress
machine.cores = lambda: machine.Cores(20.0, (0.5, 0.5))
measure.GROUPS["engine64"] = lambda plan: {"messages": goals.Sample(1.0)}
plan = measure.Plan(True, 2, progress=progress.Progress("-q" in sys.argv))
measure.rows(["engine64"], plan, measure.Prober())
''', lib.HERE.parents[1] / "test/bench/report", lib.HERE.parents[1] / "test/kit_py"]


def build(quiet, steps):
    """setup_run of demo.sh, with a command that reports as ninja does. Each step ends when its file exists in the folder
    steps."""
    return ["bash", "-ec", f". {SETUP}; setup_quiet={'yes' if quiet else ''}; "
            "log=$(mktemp); trap 'rm -f $log' EXIT; setup_run $log 'building x:' "
            "sh -c 'for i in 1 2; do echo \"[$i/3] a\"; until [ -e $0/$i ]; do sleep 0.05; done; done' "
            f"{steps}; ! setup_run $log y false"]


COMMANDS = [
    ("uroce-bench engine", lambda q, _: [*ENGINE, *["-q"] * q], ["uroce-bench: engine: row 1, run 1 of 2", "run 2 of 2"]),
    ("uroce-bench report", lambda q, _: [*REPORT, *["-q"] * q],
     ["uroce-bench: turn 1 of 2, group 1 of 1: measuring engine64; 0 s so far", "turn 2 of 2"]),
    ("demo.sh's build", build, ["building x: 1 of 3", "building x: 2 of 3"]),
]


def on_terminal(argv, parts=(), steps=None):
    """Its exit status and its standard error, which is a terminal of 80 columns. Creates file N in the folder steps once
    the Nth of parts is shown."""
    master, slave = pty.openpty()
    proc = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=slave)
    os.close(slave)
    text = b""
    shown = 0
    while True:
        if not select.select([master], [], [], HANGS_S)[0]:
            proc.kill()
            raise TimeoutError(f"nothing more after {text}")
        try:
            part = os.read(master, 65536)
        except OSError:
            break
        if not part:
            break
        text += part
        while shown < len(parts) and parts[shown].encode() in text:
            shown += 1
            (steps / str(shown)).touch()
    os.close(master)
    return proc.wait(60), text.decode()


# demo.sh's function moves, which does not sleep here. How often it returns 0 for a process that sleeps; then its status
# for a process that has run since the last call, although no earlier call saw it run.
MOVES = r"""
eval "$(sed -n '/^ticks=/p; /^moves()/,/^}/p' "$1")"
sleep() { :; }
command sleep 1000 & pid=$!
n=0; while moves $pid; do n=$((n + 1)); done; echo $n
kill $pid
while :; do :; done & pid=$!
moves $pid
until read -ra stat </proc/$pid/stat && [ $((stat[13] + stat[14])) != $ticks ]; do :; done
still=299; moves $pid; echo $? $still
kill $pid
"""


def demo_hangs():
    said = lib.sh("bash", "-c", MOVES, "bash", lib.HERE.parents[1] / "demo.sh").split()
    assert int(said[0]) in (299, 300) and said[1:] == ["0", "0"], said


def main():
    ended = lib.tmpdir()
    for name in ("1", "2"):
        (ended / name).touch()
    for name, argv, parts in COMMANDS:
        with lib.case(f"{name}: reports its progress on a terminal, and erases the line at the end"):
            steps = lib.tmpdir()
            status, text = on_terminal(list(map(str, argv(False, steps))), parts, steps)
            assert status == 0, (status, text)
            assert all(part in text for part in parts), text
            assert text.endswith("\r\033[K"), repr(text)
            assert all(len(line) < 80 + 20 for line in text.split("\r\033[K")), text
        with lib.case(f"{name}: with -q it reports nothing"):
            assert on_terminal(list(map(str, argv(True, ended)))) == (0, "")
        with lib.case(f"{name}: nothing goes to a file"):
            done = subprocess.run(list(map(str, argv(False, ended))), capture_output=True, text=True, timeout=120,
                                  check=True)
            assert done.stderr == "", done.stderr
    with lib.case("demo.sh gives up a step that uses no processor, and no other"):
        demo_hangs()
    with lib.case("demo.sh names a wrong argument"):
        done = subprocess.run([lib.HERE.parents[1] / "demo.sh", "--fast"], capture_output=True, text=True, timeout=60,
                              check=False)
        assert (done.returncode, done.stderr) == (2, "demo.sh: unknown argument '--fast'; legal: -q, --help\n"), done
    lib.finish()


main()
