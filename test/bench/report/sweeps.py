# SPDX-License-Identifier: BSD-3-Clause
"""The data that `report --html` draws in addition to the goals: series of (x, y) by size, loss or QPs."""
import dataclasses
import json
import os
import time

import machine
import processes

SIZES = (64, 256, 1024, 4096, 16384, 65536, 262144, 1 << 20)
OPS = ("write", "send", "read")
LOSSES = (0.1, 0.5, 1, 2, 5)
QPS = (1, 4, 16, 64, 256, 1024)
QUICK_S = 235  # a quick run with its goals ends by then
RUN_S = 120    # at most, of one run


@dataclasses.dataclass
class Scope:
    """How much to measure. deadline: monotonic time at which the last run ends."""
    sizes: tuple
    runs: int
    deadline: float

    def left(self):
        """Seconds that a run may take. Raises machine.NoTime if there are none."""
        seconds = self.deadline - time.monotonic()
        if seconds <= 0:
            raise machine.NoTime(f"not in this --quick, which ends after {QUICK_S} s")
        return min(RUN_S, seconds)

    def bench(self, mode, *options, runs, run=None):
        """The rows of a mode of uroce-bench, or of machine.run_limits."""
        left = self.left()
        try:
            return (run or machine.run_bench)(mode, *options, "--no-probe", "--runs", runs, timeout=left)["rows"]
        except RuntimeError:
            self.left()  # the reason, if the time is used up
            raise

    def row(self, *options):
        return self.bench("client", *options, runs=self.runs)[0]


def _rates(scope):
    bandwidth, messages = {}, {}
    for op in OPS:
        for size in scope.sizes:
            row = scope.row("--op", op, "--size", size)
            bandwidth.setdefault(op, []).append([size, row["goodput"]["median"]])
            messages.setdefault(op, []).append([size, row["messages"]["median"]])
    return bandwidth, messages


def _limit(scope):
    """Gb/s that CRC and copy alone allow on one core for both sides, by message size."""
    least, most = min(scope.sizes), max(scope.sizes)
    found = []
    for row in scope.bench("memory", runs=3, run=machine.run_limits):
        size = int(row["name"].split(",")[1].split()[0])
        if least <= size <= most:
            found.append([size, row["both"]["median"]])
    if found[-1][0] < most:  # longer messages are packets of that size
        found.append([most, found[-1][1]])
    return found


def _latency(scope):
    series = {}
    for size in scope.sizes:
        row = scope.row("--measure", "latency", "--size", size)
        for percentile in ("p50", "p99", "p99.9"):
            series.setdefault(percentile, []).append([size, row[percentile]["median"]])
    return series


def _tcp(scope):
    """Gb/s of one stream of iperf3 over a veth pair of MTU 9000, by the size of a write."""
    ns = [processes.netns(), processes.netns()]
    processes.veth(ns[0], "10.9.0.1/24", ns[1], "10.9.0.2/24", 9000)
    server = processes.Proc(["iperf3", "-s"], ns[1])
    processes.until("iperf3 listens", lambda: server.listens(5201), 10)
    found = []
    for size in scope.sizes:
        said = processes.sh("iperf3", "-c", "10.9.0.2", "-t", "1", "-l", str(size), "-J", ns=ns[0], timeout=scope.left())
        found.append([size, json.loads(said)["end"]["sum_received"]["bits_per_second"] / 1e9])
    server.kill()
    return found


def measure(quick, deadline):
    """
    All series: {name: {label: [[x, y], ..]}}. A series that cannot be measured is left out, and its
    reason is in "missing". quick: three sizes, one run; no run ends after deadline, which is monotonic time.
    """
    scope = Scope(SIZES[::3], 1, deadline) if quick else Scope(SIZES, 5, float("inf"))
    out = {"missing": []}

    def take(name, call):
        try:
            out[name] = call(scope)
        except (machine.NoTime, machine.Missing, RuntimeError, OSError, processes.Failed, TimeoutError, KeyError) as why:
            out["missing"].append(f"{name}: {why}")

    take("rates", _rates)
    if "rates" in out:
        out["bandwidth"], out["messages"] = out.pop("rates")
        take("limit", _limit)
        if os.geteuid() == 0:
            take("tcp", _tcp)
        else:
            out["missing"].append("tcp: needs root")
        for name, label in (("limit", "checksum and copy, one core"), ("tcp", "kernel TCP")):
            if name in out:
                out["bandwidth"][label] = out.pop(name)
    take("latency", _latency)
    take("loss", lambda scope: {"write, 64 KiB": [
        [loss, 100 * scope.row("--loss", loss, "--size", 65536, "--depth", 64)["share"]["median"]]
        for loss in (LOSSES[::2] if quick else LOSSES)]})
    take("qps", lambda scope: {f"{size} B": [
        [qps, scope.row("--qps", qps, "--size", size)["messages"]["median"]]
        for qps in (QPS[::2] if quick else QPS)] for size in (64, 4096)})
    return out
