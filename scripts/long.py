#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs the tests that check.sh leaves out of its first tier, one at a time, for check.sh --long and --ci.

    long.py [--resume] [--minutes N] [--touched] [--list]

    --resume     leaves out what passed before with the same files
    --minutes N  starts only what ends within N minutes by EXPECTED or the last run here
    --touched    first another Debian and the tests of what the last day's commits changed, then a part that rotates by date
    --list       prints the order, the seconds each is expected to take, and their sum; runs nothing

A test that fails runs once more; it counts as failed if it fails again. The results are in meson-logs/long.json of each
build directory. The last line before the counts names the tests for which no time was left.
"""
import argparse
import datetime
import fnmatch
import hashlib
import json
import math
import pathlib
import subprocess
import sys
import time

import results

ROOT = pathlib.Path(__file__).resolve().parents[1]
EXPECTED = ROOT / "scripts/durations.json"  # seconds on a busy machine of two cores, by build directory and test
LEARNED = ROOT / "build/meson-logs/durations.json"  # the same here
OF_LIMIT = 0.25  # of the time limit in meson.build, for a test that is in neither
SLOWER = 1.5  # a step may take this times the expected time
HANGS = 20  # a step that takes this times the expected time, and at least a minute, hangs

# The suites to run in each build directory, in this order.
STEPS = {
    "build": ["system", "cli", "docs", "cm", "programs", "container", "interop", "stock", "nic", "seeds", "release",
              "package"],
    "build-sanitized": ["system", "cm", "seeds"],
    "build-tsan": ["races"],
}
# Suites and tests that are not in --ci. nic: the emulator itself stops at times, with its guest. release_arm64_pages: no
# whole run has passed yet (doc/compatibility.md).
UNSTEADY = {"nic", "release_arm64_pages"}
# Unit tests with threads, for the thread sanitizer.
RACES = {"worker-1-adaptive", "worker-2-adaptive", "control-objects", "control-defer"}

# The first of --ci.
ALWAYS = {"release_trixie"}

# Tests or suites that a changed path concerns, besides a test that is named like the path's file.
TOUCHES = {
    "app/uroce-run/*": ["stock", "container", "install", "first_steps", "prog_ibverbs"],
    "app/urocectl/*": ["cli", "trace", "capture", "docs"],
    "app/uroced/*": ["control", "devices", "telemetry", "defaults", "docs"],
    "app/uroce-bench/*": ["bench", "report_html"],
    "test/bench/report/*": ["report_html"],
    "drivers/impair/*": ["impair", "prog_lossy"],
    "drivers/verbs/cm_*": ["cm", "cm_abi", "cm_query"],
    "drivers/verbs/mr*": ["regions", "forks", "mappings", "prog_ucx", "prog_mpi"],
    "drivers/verbs/*": ["programs", "stock", "limits", "errors", "races"],
    "lib/cm/*": ["cm", "cm_abi", "cm_route", "interop"],
    "lib/control/cm_*": ["cm", "cm_abi", "cm_query", "cm_route", "interop"],
    "lib/control/*": ["control", "hostile", "quotas", "errors", "races"],
    "lib/map/*": ["regions", "forks", "mappings", "stuck", "arming", "prog_mpi"],
    "lib/port/*": ["port_packet", "port_udp", "port_xdp_share", "memif", "udp_hosts"],
    "lib/worker/*": ["soak", "kill9", "runtime", "races", "storm"],
    "lib/engine/*": ["seeds", "interop", "soak", "selective"],
    "lib/qp/*": ["seeds", "interop", "soak", "selective"],
    "lib/requester/*": ["seeds", "interop", "soak"],
    "lib/responder/*": ["seeds", "interop", "soak"],
    "debian/*": ["package", "release"],
    "meson.build": ["release"],
    "lib/dpdk/*": ["release"],
    "scripts/cross/*": ["release_arm64", "release_arm64_pages", "release_install_arm64"],
    "scripts/release.sh": ["release_install", "release_install_arm64"],
    "scripts/enter.sh": ["release_install_arm64"],
    "scripts/userns.py": ["release_arm64", "release_arm64_pages"],
    "config/Containerfile": ["release_install"],
    "config/kubernetes/*": ["kubernetes", "package"],
    "lib/mem/*": ["release_arm64"],
    "lib/net/*": ["flood"],
    "lib/control/broker*": ["crashes", "hostile_fds"],
    "lib/map/page.h": ["release_arm64_pages"],
    "config/uroced.socket": ["package", "journal"],
    "config/uroce-metrics.service.in": ["package", "telemetry"],
    "*.md": ["docs"],
    "test/kit_py/*": ["system"],
}


def say(text):
    print(f"check.sh: {text}", flush=True)


def git(*args):
    done = subprocess.run(["git", "-C", ROOT, *args], text=True, capture_output=True, check=False)
    return done.stdout


def state():
    """A name for the files as they are: what passed with them need not run again."""
    text = git("rev-parse", "HEAD") + git("diff", "HEAD") + git("ls-files", "--others", "--exclude-standard")
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class Step:
    def __init__(self, folder, test):
        self.folder, self.name = folder, test["name"]
        self.suites = {suite.rpartition(":")[2] for suite in test["suite"]}
        self.limit = test["timeout"]
        self.seconds = self.limit * OF_LIMIT

    def key(self):
        return f"{self.folder} {self.name}"

    def multiplier(self):
        """For meson, so that no time limit ends a step that is only slow."""
        return max(3, math.ceil(max(60, HANGS * self.seconds) / self.limit))


def steps():
    """All, in order, without those of the first tier in the same build."""
    found = []
    for folder, suites in STEPS.items():
        if not (ROOT / folder / "build.ninja").exists():
            continue
        text = subprocess.run(["meson", "introspect", "--tests", ROOT / folder], check=True, text=True,
                              stdout=subprocess.PIPE).stdout
        tests = [Step(folder, test) for test in json.loads(text)]
        for suite in suites:
            found += [t for t in tests if suite in t.suites and "first" not in t.suites and t not in found]
        if folder == "build-tsan":
            found += [t for t in tests if t.name in RACES]
        elif folder == "build":  # the first tier runs these in build-sanitized
            found += [t for t in tests if "first" in t.suites and t not in found]
    return found


def seconds_known():
    """Seconds by key: of the last runs here, else of EXPECTED."""
    return {f"{folder} {name}": seconds for path in (EXPECTED, LEARNED) if path.exists()
            for folder, names in json.loads(path.read_text()).items() for name, seconds in names.items()}


def learn(step, seconds):
    table = json.loads(LEARNED.read_text()) if LEARNED.exists() else {}
    table.setdefault(step.folder, {})[step.name] = round(seconds)
    LEARNED.write_text(json.dumps(table, indent=1, sort_keys=True) + "\n")


def passed_before(now):
    """Keys of what passed with the files as they are."""
    return {f"{folder} {test['name'].rpartition(' / ')[2]}" for folder in STEPS
            for test in records(folder, "long") if test.get("state") == now and results.verdict(test) != "failed"}


def records(folder, log):
    path = ROOT / folder / f"meson-logs/{log}.json"
    return results.read(path) if path.exists() else []


def keep(folder, log, record):
    """Adds record to a log, instead of an older one of the same test."""
    others = [r for r in records(folder, log) if r["name"] != record["name"]]
    path = ROOT / folder / f"meson-logs/{log}.json"
    path.write_text("".join(json.dumps(r) + "\n" for r in [*others, record]))


def changed():
    """Paths that the commits of the day before the last one changed, and those not committed."""
    last = git("log", "-1", "--format=%ct").strip()
    if not last:
        return set()
    names = git("log", f"--since={int(last) - 86400}", "--name-only", "--format=") + git("diff", "--name-only", "HEAD")
    return {name for name in names.splitlines() if name}


def touched(found, paths):
    """The steps that paths concern."""
    words = {word for path in paths for pattern, names in TOUCHES.items() if fnmatch.fnmatch(path, pattern)
             for word in names}
    words |= {pathlib.Path(path).stem.removeprefix("test_") for path in paths}
    return [step for step in found if step.name in words or step.suites & words]


def by_need(found):
    """ALWAYS, those that the last changes touch, then the others from one that depends on the date."""
    found = [step for step in found if not (step.suites | {step.name}) & UNSTEADY]
    first = [step for step in found if step.name in ALWAYS]
    first += [step for step in touched(found, changed()) if step not in first]
    rest = [step for step in found if step not in first]
    start = datetime.date.today().toordinal() * 37 % len(rest) if rest else 0
    return first + rest[start:] + rest[:start]


def run(step):
    """Runs it; returns meson's record. hangs.py ends it if nothing of it runs for a minute."""
    path = ROOT / step.folder / "meson-logs/step.json"
    path.unlink(missing_ok=True)
    subprocess.run([sys.executable, pathlib.Path(__file__).with_name("hangs.py"), "meson", "test", "-C", ROOT / step.folder,
                    "--no-rebuild", "--logbase", "step", "--timeout-multiplier", str(step.multiplier()), step.name],
                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return results.read(path)[0]


def minutes(seconds):
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"


def main(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--touched", action="store_true")
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args(argv)

    found = steps()
    known = seconds_known()
    for step in found:
        step.seconds = known.get(step.key(), step.seconds)
    if args.touched:
        found = by_need(found)
    now = state()
    if args.resume:
        done = passed_before(now)
        say(f"{len(done)} passed before with these files")
        found = [step for step in found if step.key() not in done]
    if args.list:
        for step in found:
            print(f"{step.seconds:6.0f} s  {step.folder:15}  {step.name}")
        print(f"{len(found)} tests, {minutes(sum(step.seconds for step in found))}")
        return 0
    for folder in STEPS if not args.resume else []:
        for log in ("long", "again"):
            (ROOT / folder / f"meson-logs/{log}.json").unlink(missing_ok=True)

    end = time.monotonic() + args.minutes * 60 if args.minutes is not None else float("inf")
    left = []
    for i, step in enumerate(found):
        if time.monotonic() + step.seconds * SLOWER > end:
            left.append(step)
            continue
        say(f"{i + 1} of {len(found)}, about {minutes(sum(s.seconds for s in found[i:]))} left:"
            f" {step.name} in {step.folder}")
        record = {**run(step), "state": now}
        keep(step.folder, "long", record)
        if results.verdict(record) == "failed":
            say(f"{step.name} failed; once more")
            keep(step.folder, "again", run(step))
        else:
            learn(step, record["duration"])
    if left:
        say(f"no time left for {len(left)}: " + ", ".join(step.name for step in left))
    return 0


if __name__ == "__main__":
    sys.exit(main())
