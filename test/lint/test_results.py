#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""scripts/results.py: what counts as passed, and what is told of it; scripts/long.py: order, time, resuming;
scripts/hangs.py; the scripts that people call: --help and wrong arguments."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))
import long  # noqa: E402


def log(path, **results):
    """Writes a log of meson; suite__test=result."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as out:
        for key, result in results.items():
            suite, test = key.split("__")
            out.write(json.dumps({"name": f"uroce:{suite.replace('_', '+')} / {test}", "result": result,
                                  "stdout": f"not ok 1 - {test} fails\n"}) + "\n")
    return path


def report(*logs):
    done = subprocess.run([sys.executable, SCRIPTS / "results.py", *logs], text=True, capture_output=True, check=False)
    assert not done.stderr, done.stderr
    return done.returncode, done.stdout.splitlines()


def results_are_counted(folder):
    one, two = folder / "build", folder / "build-sanitized"
    a = log(one / "meson-logs/first.json", unit__a="OK", system_hostile__b="FAIL", docs__c="SKIP")
    b = log(two / "meson-logs/long.json", system_hostile__b="OK", cm__d="TIMEOUT")
    status, said = report(a, b)
    assert status == 1 and said[-1] == "2 passed, 2 failed, 1 skipped", said
    assert f"FAIL: uroce:system+hostile / b ({a})" in said and "    not ok 1 - b fails" in said, said

    # A second run counts in the second tier, and only there.
    log(two / "meson-logs/again.json", cm__d="OK")
    log(one / "meson-logs/again.json", system_hostile__b="OK")
    status, said = report(a, b)
    assert status == 1 and said[-2:] == ["1 of those that passed did so only at a second run",
                                         "3 passed, 1 failed, 1 skipped"], said
    assert f"PASSED ONLY WHEN IT RAN AGAIN, ALONE: uroce:cm / d ({b})" in said, said
    assert "    not ok 1 - d fails" in said, said
    assert report(b)[0] == 0
    log(two / "meson-logs/again.json", cm__d="FAIL")
    assert report(b)[0] == 1

    status, said = report(one / "none.json")
    assert status == 1 and said[-1] == "0 passed, 1 failed, 0 skipped", said


class FakeTests:
    """Instead of meson: three tests, of which "chance" fails once and "wrong" always; one second each."""

    def __init__(self, tests):
        self.ran, self.now = [], 0
        long.ROOT = tests
        long.EXPECTED, long.LEARNED = tests / "none.json", tests / "durations.json"
        long.state = lambda: "same files"
        long.steps = lambda: [long.Step("build", {"name": name, "suite": ["uroce:" + suite], "timeout": 120})
                              for name, suite in (("chance", "system"), ("good", "cm"), ("wrong", "docs"))]
        long.run = self.run
        long.changed = set
        long.time.monotonic = lambda: self.now
        long.say = lambda text: None
        (tests / "build/meson-logs").mkdir(parents=True)

    def run(self, step):
        self.now += 1
        self.ran.append(step.name)
        good = step.name == "good" or (step.name == "chance" and self.ran.count("chance") > 1)
        return {"name": f"uroce:{step.name} / {step.name}", "result": "OK" if good else "FAIL", "duration": 1.0}

    def main(self, *args):
        self.ran = []
        long.main(args)
        return self.ran


def second_tier(folder):
    fake = FakeTests(folder / "tree")
    logs = folder / "tree/build/meson-logs"
    assert fake.main() == ["chance", "chance", "good", "wrong", "wrong"]
    assert report(logs / "long.json")[1][-1] == "2 passed, 1 failed, 0 skipped"
    # What passed runs no more with the same files, and no test is counted twice.
    assert fake.main("--resume") == ["chance", "chance", "wrong", "wrong"]
    assert report(logs / "long.json")[1][-1] == "2 passed, 1 failed, 0 skipped"
    long.state = lambda: "other files"
    assert fake.main("--resume") == ["chance", "chance", "good", "wrong", "wrong"]
    # Only what fits: "good" took a second, others are not known.
    assert fake.main("--minutes", "0.5") == ["good"]
    # Tests that always run come first, then those of the changes, whatever the date.
    long.changed = lambda: {"lib/cm/path.c", "README.md"}
    assert set(fake.main("--touched")[:2]) <= {"good", "wrong"} and fake.ran[-1] == "chance", fake.ran
    long.ALWAYS = {"chance"}
    assert fake.main("--touched")[0] == "chance", fake.ran


def slow_steps_are_not_ended():
    """Meson's limit of a step is 20 times what it takes, and at least a minute; a short one has three times its own."""
    for timeout, seconds, limit in ((2400, 1562, 33600), (200, 54, 1200), (10, 1, 60), (300, 2, 900)):
        step = long.Step("build", {"name": "slow", "suite": [], "timeout": timeout})
        step.seconds = seconds
        assert step.limit * step.multiplier() == limit >= max(60, 20 * seconds), (timeout, seconds)


def scripts_explain_themselves():
    """--help names every option and runs nothing; so does an unknown one, with status 2."""
    for name in ("check.sh", "demo.sh", "scripts/release.sh"):
        path = SCRIPTS.parent / name
        cases = re.findall(r"^\s*(-[-a-z |]+)\)", path.read_text(), re.MULTILINE)
        known = set(re.findall(r"--[a-z]+", " ".join(cases)))
        assert "--help" in known, name

        def call(option, path=path):
            return subprocess.run([path, option], text=True, capture_output=True, check=False, stdin=subprocess.DEVNULL,
                                  env={**os.environ, "LC_ALL": "C"})  # bash warns of a locale that is missing
        done = call("--help")
        assert (done.returncode, done.stderr) == (0, ""), (name, done)
        assert re.search(rf"^  (\./)?{path.name}", done.stdout, re.MULTILINE), done.stdout
        for option in known - {"--help"}:
            assert option in done.stdout, f"{name} --help lacks {option}"
        done = call("--nonsense")
        assert (done.returncode, done.stdout) == (2, ""), (name, done)
        assert f"{path.name}: unknown" in done.stderr and "'--nonsense'; legal: " in done.stderr, done.stderr
        assert "--help" in done.stderr, done.stderr


def hangs_end():
    """hangs.py: in place of meson, a program that starts a test, and tells its status and standard error."""
    meson = ("import subprocess, sys\n"
             "done = subprocess.run([sys.executable, '-c', sys.argv[1]], stderr=subprocess.PIPE, text=True)\n"
             "print(done.returncode, done.stderr)\n"
             "sys.exit(7)\n")

    def run(test):
        done = subprocess.run([sys.executable, SCRIPTS / "hangs.py", sys.executable, "-c", meson, test], text=True,
                              capture_output=True, check=False, env={**os.environ, "UROCE_HANGS_EVERY_S": "0.1"})
        assert done.returncode == 7 and not done.stderr, done
        return done.stdout

    said = run("import threading; threading.Thread(target=threading.Event().wait).start(); threading.Event().wait()")
    assert said.startswith("-9 ") and "it hangs" in said, said
    assert len(re.findall(r"^thread \d+ \w+.*: .*futex", said, re.MULTILINE)) == 2, said
    said = run("import time\nend = time.monotonic() + 3\nwhile time.monotonic() < end: pass")
    assert said.strip() == "0", said


hangs_end()
slow_steps_are_not_ended()
scripts_explain_themselves()
with tempfile.TemporaryDirectory() as place:
    results_are_counted(pathlib.Path(place))
    second_tier(pathlib.Path(place))
