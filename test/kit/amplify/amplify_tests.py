#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs tests many times under each amplifier (amplify) and prints a table: passes of runs by test and amplifier. Ends
with status 1 if a run failed.

    amplify_tests.py BUILD [--plan]      also: ninja -C BUILD amplify

Builds nothing: run it on a whole build. --plan only prints what would run. In the environment:
AMPLIFY_RUNS   how often each test runs under each amplifier; default 20
AMPLIFY_BY     amplifiers, separated by spaces; default: all of BY below. 'load 0' is written load-0, and so on.
AMPLIFY_TESTS  arguments of meson test that choose tests; default: the suites of the first tier
AMPLIFY_JOBS   how many tests run at once; default 2. Tests of real daemons run one at a time in any case.

The output of tests that failed is in BUILD/meson-logs/HOW-N-amplify.txt, with the seed.
"""
import collections
import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
BY = ("threads", "processes", "clock", "uptime-60", "uptime-34560000", "load-0", "load-10", "load-30", "moves")
FIRST_TIER = "--suite unit --suite first --suite fuzz --suite sim --suite lint --suite bench"
SLOWER = 40  # than meson's limits, which only end hangs
PASSED, SKIPPED = ("OK", "EXPECTEDFAIL"), "SKIP"


def command(build, how, number, tests, jobs):
    """The command line of one run of all tests. meson gives each test a session, so each has its own load; --repeat
    would end at the first failure."""
    return ["meson", "test", "-C", build, "--no-rebuild", "--logbase", f"{how}-{number}",
            "--num-processes", str(jobs), "--timeout-multiplier", str(SLOWER), "--wrapper",
            " ".join([str(HERE / "amplify"), *how.split("-"), "--"]), *tests]


def count(log, counts):
    """Adds the results in meson's log to counts, [passed, runs] by test. A run that was skipped counts as neither.
    Returns the names of the tests that failed."""
    failed = []
    for line in log.read_text(encoding="utf-8").splitlines() if log.exists() else ():
        run = json.loads(line)
        name = run["name"].rpartition(" / ")[2]
        if run["result"] != SKIPPED:
            counts[name][0] += run["result"] in PASSED
            counts[name][1] += 1
            failed += [name] if run["result"] not in PASSED else []
    return failed


def table(by_how):
    """The lines of the table. Tests that passed each time are one line at its end."""
    names = sorted({name for counts in by_how.values() for name in counts})
    bad = [name for name in names if any(passed < runs for passed, runs in (c[name] for c in by_how.values()))]
    width = max(map(len, [*bad, "the others"]))
    columns = [max(len(how), 9) for how in by_how]

    def row(name, cells):
        return " ".join([name.ljust(width), *(cell.rjust(wide) for cell, wide in zip(cells, columns))])

    yield row("test", by_how)
    for name in bad:
        yield row(name, ["{}/{}".format(*counts[name]) for counts in by_how.values()])
    good = [[counts[name] for name in names if name not in bad] for counts in by_how.values()]
    yield row("the others", [f"{sum(c[0] for c in cells)}/{sum(c[1] for c in cells)}" for cells in good])
    yield f"{len(names)} tests, {len(bad)} of them failed at least once"


def main():
    build, plan = sys.argv[1], "--plan" in sys.argv
    runs, jobs = (int(os.environ.get(name, default)) for name, default in (("AMPLIFY_RUNS", 20), ("AMPLIFY_JOBS", 2)))
    tests = os.environ.get("AMPLIFY_TESTS", FIRST_TIER).split()
    os.environ["UROCE_AMPLIFY_CLOCK_SO"] = str(pathlib.Path(build, "test/kit/amplify/libamplify-clock.so").resolve())
    by_how = collections.defaultdict(lambda: collections.defaultdict(lambda: [0, 0]))
    for how in os.environ.get("AMPLIFY_BY", " ".join(BY)).split():
        print(f"amplify: {runs} x {' '.join(command(build, how, 'N', tests, jobs))}", flush=True)
        for number in range(0 if plan else runs):
            log = pathlib.Path(build, "meson-logs", f"{how}-{number}-amplify.json")  # meson adds the wrapper's name
            log.unlink(missing_ok=True)
            subprocess.run(command(build, how, number, tests, jobs), check=False, stdout=subprocess.DEVNULL)
            for name in count(log, by_how[how]):
                print(f"amplify: {name} failed: {log.with_suffix('.txt')}", flush=True)
    if plan:
        return 0
    if not all(any(runs for passed, runs in counts.values()) for counts in by_how.values()):
        print("amplify: an amplifier ran no test; output: meson-logs/*-amplify.txt")
        return 1
    print(*table(by_how), sep="\n")
    return any(passed < runs for counts in by_how.values() for passed, runs in counts.values())


sys.exit(main())
