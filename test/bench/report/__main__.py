# SPDX-License-Identifier: BSD-3-Clause
"""uroce-bench's modes `versus`, `loss`, `incast`, `report` and `nic`; uroce-bench starts this (app/uroce-bench/main.c)."""
import argparse
import json
import os
import sys
import time

if sys.version_info < (3, 11):
    sys.exit(f"uroce-bench: needs Python 3.11 or later, this is {sys.version.split()[0]}")

if "UROCE_BENCH_SOURCE" in os.environ:  # where it is installed, the kit is beside this file
    sys.path.append(f"{os.environ['UROCE_BENCH_SOURCE']}/test/kit_py")

import machine  # noqa: E402
import measure  # noqa: E402
import nic  # noqa: E402
import page  # noqa: E402
import pictures  # noqa: E402
import processes  # noqa: E402
import progress  # noqa: E402
import sweeps  # noqa: E402

# Groups that take a few seconds; those that need root are skipped for other users.
HEADLINE = ("engine64", "engine1m", "client-latency", "tcp-goodput")
HEADLINE_ROOT = ("tcp-goodput",)


def options(argv):
    mode = argv[0]
    known = {"versus": measure.VERSUS, "loss": measure.LOSS, "incast": ("incast",)}.get(mode, tuple(measure.GROUPS))
    parser = argparse.ArgumentParser(
        prog=f"uroce-bench {mode}", description={
            "versus": "The same transfer with uroce and with the usual alternatives.",
            "loss": "Goodput and latency while frames are lost, also next to kernel TCP.",
            "incast": "Many senders to one receiver behind a bottleneck.",
            "report": "Every goal with the measured figure, and the distance and share of the cores during "
                      "the measurement."}[mode])
    parser.add_argument("--quick", action="store_true", help="shorter and fewer runs; 3 to 4 minutes")
    parser.add_argument("--only", metavar="GROUP,..", help=f"measure only these groups, of: {' '.join(known)}")
    parser.add_argument("--headline", action="store_true", help="a few rows, in a few seconds")
    parser.add_argument("--repeats", type=int, metavar="N", help="measurements of each figure, 1 .. 64")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of the page")
    parser.add_argument("-q", "--quiet", action="store_true",
                        help="do not print progress (printed on terminals only)")
    if mode == "report":
        parser.add_argument("--html", metavar="FILE", help="also a page with pictures; measures by size, loss and QPs")
        parser.add_argument("--picture", metavar="FILE", help="with --html: also the picture of bandwidth, as SVG")
        parser.add_argument("--from", dest="recorded", metavar="FILE", help="with --html: the JSON of an earlier run; "
                            "measure nothing")
    parser.set_defaults(html=None, picture=None, recorded=None)
    given = parser.parse_args(argv[1:])
    if not given.html and (given.picture or given.recorded):
        parser.error("--picture and --from: only with --html")
    if given.repeats is not None and not 1 <= given.repeats <= 64:
        parser.error(f"--repeats {given.repeats}: must be 1 .. 64")
    given.groups = known
    if given.headline:
        given.quick = True
        given.groups = [g for g in HEADLINE if g in known and (os.geteuid() == 0 or g not in HEADLINE_ROOT)]
    if given.only is not None:
        given.groups = given.only.split(",")
        for group in given.groups:
            if group not in known:
                parser.error(f"--only '{group}': must be of {', '.join(known)}")
    return given


def write_page(given, data):
    """Writes the page, and the picture if requested. Returns the exit status: 1 if there is nothing to draw."""
    with open(given.html, "w", encoding="utf-8") as out:
        out.write("\n".join(pictures.document(data)) + "\n")
    if given.picture:
        if "bandwidth" not in data["sweeps"]:
            print(f"uroce-bench: --picture {given.picture}: the bandwidth was not measured; {given.html} has the reason",
                  file=sys.stderr)
            return 1
        _, _, _, x_label, y_label, log_y = pictures.PICTURES[0]
        with open(given.picture, "w", encoding="utf-8") as out:
            out.write(pictures.standalone(pictures.draw(data["sweeps"]["bandwidth"], x_label, y_label, log_y)))
    return 0


def from_record(given):
    """The page of an earlier run. Returns the exit status."""
    try:
        with open(given.recorded, encoding="utf-8") as record:
            data = json.load(record)
        return write_page(given, data)
    except (OSError, ValueError, KeyError) as why:
        print(f"uroce-bench: --from {given.recorded}: {type(why).__name__} {why}", file=sys.stderr)
        return 1


def main(argv):
    if argv[0] == "nic":
        return nic.main(argv[1:])
    given = options(argv)
    if given.html:
        try:
            import matplotlib  # pylint: disable=import-outside-toplevel,unused-import
        except ImportError:
            print(f"uroce-bench: --html needs matplotlib, which {sys.executable} lacks (package python3-matplotlib)",
                  file=sys.stderr)
            return 1
    if given.recorded:
        return from_record(given)
    repeats = given.repeats or (1 if given.headline else 3 if given.quick else 5)
    plan = measure.Plan(given.quick, repeats, progress=progress.Progress(given.quiet))
    processes.start()
    huge = machine.HugePages(512)
    processes.at_end(huge.back)
    head = machine.describe()
    start, load = time.monotonic(), machine.load()
    prober = measure.Prober()
    pairs = list(measure.rows(given.groups, plan, prober))
    head.update(load=[load, machine.load()], seconds=time.monotonic() - start,
                fastest_loop_ns=prober.fastest_ns if prober.fastest_ns < float("inf") else None)
    rows = [row for _, row in pairs]
    data = {"mode": argv[0], **head, "rows": rows}
    undrawn = 0
    if given.html:
        data["sweeps"] = sweeps.measure(given.quick, start + sweeps.QUICK_S)
        undrawn = write_page(given, data)
    if given.json:
        json.dump(data, sys.stdout, indent=1)
        print()
    else:
        print("\n".join(page.lines(pairs, head)))
    return measure.goals.exit_status(rows) or undrawn


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
