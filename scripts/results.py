#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The results of meson tests, from their JSON logs, for check.sh.

    results.py LOG...    lists what did not pass with its output, then the counts. Status 1 if a test failed

A test of the second tier that failed runs once more (long.py), which is in the log's neighbour again.json. If it passes
there it counts as passed, but is still listed, with the output of its first run."""
import json
import pathlib
import re
import sys

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


def report(logs):
    """Prints the results; returns the exit status."""
    second = {(path.parent, test["name"]): verdict(test)
              for path in {log.with_name("again.json") for log in logs if log.stem == "long"} if path.exists() for test in read(path)}
    count = {"passed": 0, "failed": 0, "skipped": 0}
    lucky = 0
    for path in logs:
        for test in read(path):
            key = verdict(test)
            says = test["result"]
            if path.stem == "long" and key == "failed" and second.get((path.parent, test["name"])) == "passed":
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


if __name__ == "__main__":
    sys.exit(report([pathlib.Path(path) for path in sys.argv[1:]]))
