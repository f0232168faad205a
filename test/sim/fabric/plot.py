#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Draws the rates of two flows that share a bottleneck, for each congestion policy, from uroce-fabric --share.
usage: plot.py UROCE_FABRIC FOLDER; `ninja -C build congestion-plots` runs it for doc/congestion/. The same program
gives the same files. Colours are readable on light and dark pages; the background is transparent.
"""
import csv
import pathlib
import subprocess
import sys

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402

GBPS = 25
MS = 20
POLICIES = {"fixed": "fixed", "dcqcn": "dcqcn-paper", "swift": "swift:target=20", "timely": "timely"}
TEXT, FIRST, SECOND = "#808080", "#3b8ed0", "#e0812f"


def measure(program, policy):
    """Rows of numbers: ms, two rates, queue."""
    done = subprocess.run([program, "--share", "--policy", policy, "--gbps", str(GBPS), "--ms", str(MS)],
                          text=True, stdout=subprocess.PIPE, check=True)
    rows = list(csv.reader(done.stdout.splitlines()))[1:]
    return list(zip(*((float(cell) for cell in row) for row in rows)))


def draw(policy, columns, path):
    ms, first, second, queue = columns
    figure, (rates, waiting) = plt.subplots(2, 1, sharex=True, figsize=(7, 3.6), height_ratios=(2, 1))
    rates.plot(ms, first, color=FIRST, linewidth=1.2, label="flow 1")
    rates.plot(ms, second, color=SECOND, linewidth=1.2, label="flow 2")
    rates.set_ylabel("Gb/s")
    rates.set_ylim(0, GBPS * 1.08)
    rates.set_title(policy, fontsize=10, color=TEXT)
    rates.legend(loc="upper right", fontsize=8, frameon=False, labelcolor=TEXT)
    waiting.plot(ms, queue, color=TEXT, linewidth=1)
    waiting.set_ylabel("queue, KB")
    waiting.set_ylim(bottom=0)
    waiting.set_xlabel("ms")
    for axes in (rates, waiting):
        axes.tick_params(colors=TEXT, labelsize=8)
        axes.xaxis.label.set_color(TEXT)
        axes.yaxis.label.set_color(TEXT)
        axes.grid(color=TEXT, alpha=0.25, linewidth=0.5)
        for spine in axes.spines.values():
            spine.set_color(TEXT)
    figure.tight_layout()
    figure.savefig(path, transparent=True, metadata={"Date": None, "Creator": None})
    plt.close(figure)


def main():
    if len(sys.argv) != 3:
        sys.exit(f"usage: {sys.argv[0]} UROCE_FABRIC FOLDER")
    folder = pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    plt.rcParams.update({"svg.hashsalt": "uroce", "svg.fonttype": "none", "font.family": "sans-serif"})
    for name, policy in POLICIES.items():
        draw(policy, measure(sys.argv[1], policy), folder / f"{name}.svg")
        print(folder / f"{name}.svg")


if __name__ == "__main__":
    main()
