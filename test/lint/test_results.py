#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""scripts/results.py: what runs again, what counts as passed, and what is told of it."""
import json
import pathlib
import subprocess
import sys
import tempfile

TOOL = pathlib.Path(__file__).resolve().parents[2] / "scripts/results.py"


def log(path, **results):
    """Writes a log of meson; suite__test=result."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as out:
        for key, result in results.items():
            suite, test = key.split("__")
            out.write(json.dumps({"name": f"uroce:{suite.replace('_', '+')} / {test}", "result": result,
                                  "stdout": f"not ok 1 - {test} fails\n"}) + "\n")
    return path


def tool(what, *logs):
    done = subprocess.run([sys.executable, TOOL, what, *logs], text=True, capture_output=True, check=False)
    assert not done.stderr, done.stderr
    return done.returncode, done.stdout.splitlines()


with tempfile.TemporaryDirectory() as folder:
    one, two = pathlib.Path(folder) / "build", pathlib.Path(folder) / "build-sanitized"
    a = log(one / "meson-logs/testlog.json", unit__a="OK", system_hostile__b="FAIL", docs__c="SKIP")
    b = log(two / "meson-logs/testlog.json", system_hostile__b="OK", cm__d="TIMEOUT")
    assert tool("again", a, b) == (0, [f"{one} b", f"{two} d"])
    status, said = tool("report", a, b)
    assert status == 1 and said[-1] == "2 passed, 2 failed, 1 skipped", said
    assert f"FAIL: uroce:system+hostile / b ({a})" in said and "    not ok 1 - b fails" in said, said

    log(one / "meson-logs/again.json", system_hostile__b="OK")
    log(two / "meson-logs/again.json", cm__d="FAIL")
    status, said = tool("report", a, b)
    assert status == 1 and said[-2:] == ["1 of those that passed did so only at a second run",
                                         "3 passed, 1 failed, 1 skipped"], said
    assert f"PASSED ONLY WHEN IT RAN AGAIN, ALONE: uroce:system+hostile / b ({a})" in said, said
    assert "    not ok 1 - b fails" in said, said
    log(two / "meson-logs/again.json", cm__d="OK")
    assert tool("report", a, b)[0] == 0

    # A test with the same result each time is not run again. If many tests failed, none is.
    assert tool("again", a, log(one / "meson-logs/beside.json", sim__e="FAIL")) == (0, [])
    assert tool("again", a, b, log(one / "meson-logs/lane.json", cm__f="FAIL", cm__g="ERROR")) == (0, [])
    assert tool("again", a, one / "none.json") == (0, [])
    status, said = tool("report", one / "none.json")
    assert status == 1 and said[-1] == "0 passed, 1 failed, 0 skipped", said
