#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The results of meson tests, from their JSON logs, for check.sh.

    results.py again LOG...     prints "DIR NAME" for each failed test that is to run once more, in build directory DIR
    results.py report LOG...    lists what did not pass with its output, then the counts. Status 1 if a test failed

Tests with real processes or threads may fail because the machine is busy, so they run once more. Simulators and lint
have the same result each time. If more than MOST tests failed, that is no accident, and none runs again. The log of the
second runs is DIR/meson-logs/again.json. A test that passes there counts as passed, but is still listed, with the output
of its first run."""
import json
import pathlib
import re
import sys

MOST = 3
SAME_EACH_TIME = {"lint", "sim", "bench", "fuzz"}  # suites
SHOWN = 40  # lines of a failed test's output
FAILURE = re.compile(r"not ok |\[  ERROR   \]|\[  FAILED  \]|.*(Sanitizer: |Assertion .* failed)")


def read(path):
    """The tests of a log: dictionaries with name ("project:suites / test"), result, stdout, stderr."""
    try:
        return [json.loads(line) for line in path.read_text().splitlines()]
    except OSError:
        return [{"name": str(path), "result": "ERROR", "stderr": "meson itself failed"}]


def verdict(test):
    return {"OK": "passed", "EXPECTEDFAIL": "passed", "SKIP": "skipped"}.get(test["result"], "failed")


def excerpt(lines):
    """The end of the output, or if a failure was reported before that, the first report and the lines before it."""
    first = next((i for i, line in enumerate(lines) if FAILURE.match(line)), len(lines))
    if first >= len(lines) - SHOWN:
        return lines[-SHOWN:]
    return lines[max(first - SHOWN // 2, 0):first + 5] + ["..."] + lines[-SHOWN // 3:]


def again(logs):
    """(build directory, name) of the tests to run once more."""
    failed = [(path, test) for path in logs for test in read(path) if verdict(test) == "failed"]
    runs = []
    for path, test in failed:
        suites, slash, name = test["name"].partition(" / ")
        if not slash or SAME_EACH_TIME & set(suites.partition(":")[2].split("+")):
            return []
        runs.append((path.parent.parent, name))
    return runs if len(runs) <= MOST else []


def report(logs):
    """Prints the results; returns the exit status."""
    second = {(path.parent, test["name"]): verdict(test)
              for path in {log.with_name("again.json") for log in logs} if path.exists() for test in read(path)}
    count = {"passed": 0, "failed": 0, "skipped": 0}
    lucky = 0
    for path in logs:
        for test in read(path):
            key = verdict(test)
            says = test["result"]
            if key == "failed" and second.get((path.parent, test["name"])) == "passed":
                lucky += 1
                says = "PASSED ONLY WHEN IT RAN AGAIN, ALONE"
                count["passed"] += 1
            else:
                count[key] += 1
            if key != "passed":
                print(f"{says}: {test['name']} ({path})")
            if key == "failed":
                lines = (test.get("stdout", "") + test.get("stderr", "")).splitlines()
                print("\n".join("    " + line for line in excerpt(lines)))
    if lucky:
        print(f"{lucky} of those that passed did so only at a second run")
    print(", ".join(f"{n} {word}" for word, n in count.items()))
    return 1 if count["failed"] or not count["passed"] else 0


def main():
    what, *paths = sys.argv[1:]
    logs = [pathlib.Path(path) for path in paths]
    if what == "report":
        sys.exit(report(logs))
    for where, name in again(logs):
        print(where, name)


if __name__ == "__main__":
    main()
