# SPDX-License-Identifier: BSD-3-Clause
"""The data that `report --html` draws in addition to the goals: series of (x, y) by size, loss or QPs."""
import json
import os

import machine
import processes

SIZES = (64, 256, 1024, 4096, 16384, 65536, 262144, 1 << 20)
OPS = ("write", "send", "read")
LOSSES = (0.1, 0.5, 1, 2, 5)
QPS = (1, 4, 16, 64, 256, 1024)


def _row(mode, *options, runs):
    return machine.run_bench(mode, *options, "--no-probe", "--runs", str(runs))["rows"][0]


def _rates(sizes, runs):
    bandwidth, messages = {}, {}
    for op in OPS:
        for size in sizes:
            row = _row("client", "--op", op, "--size", str(size), runs=runs)
            bandwidth.setdefault(op, []).append([size, row["goodput"]["median"]])
            messages.setdefault(op, []).append([size, row["messages"]["median"]])
    return bandwidth, messages


def _limit(sizes):
    """Gb/s that CRC and copy alone allow on one core for both sides, by message size."""
    rows = machine.run_bench("limit", "--no-probe", "--runs", "3")["rows"]
    found = []
    for row in rows:
        size = int(row["name"].split(",")[1].split()[0])
        if min(sizes) <= size <= max(sizes):
            found.append([size, row["both"]["median"]])
    if found[-1][0] < max(sizes):  # longer messages are packets of that size
        found.append([max(sizes), found[-1][1]])
    return found


def _latency(sizes, runs):
    series = {}
    for size in sizes:
        row = _row("client", "--measure", "latency", "--size", str(size), runs=runs)
        for percentile in ("p50", "p99", "p99.9"):
            series.setdefault(percentile, []).append([size, row[percentile]["median"]])
    return series


def _tcp(sizes):
    """Gb/s of one stream of iperf3 over a veth pair of MTU 9000, by the size of a write."""
    ns = [processes.netns(), processes.netns()]
    processes.veth(ns[0], "10.9.0.1/24", ns[1], "10.9.0.2/24", 9000)
    server = processes.Proc(["iperf3", "-s"], ns[1])
    processes.until("iperf3 listens", lambda: server.listens(5201), 10)
    found = []
    for size in sizes:
        said = processes.sh("iperf3", "-c", "10.9.0.2", "-t", "1", "-l", str(size), "-J", ns=ns[0])
        found.append([size, json.loads(said)["end"]["sum_received"]["bits_per_second"] / 1e9])
    server.kill()
    return found


def measure(quick):
    """
    All series: {name: {label: [[x, y], ..]}}. A series that cannot be measured is left out, and its
    reason is in "missing". quick: three sizes, one run.
    """
    sizes, runs = (SIZES[::3], 1) if quick else (SIZES, 5)
    out = {"missing": []}

    def take(name, call, *args):
        try:
            out[name] = call(*args)
        except (RuntimeError, OSError, processes.Failed, TimeoutError, KeyError) as why:
            out["missing"].append(f"{name}: {why}")

    take("rates", _rates, sizes, runs)
    if "rates" in out:
        out["bandwidth"], out["messages"] = out.pop("rates")
        take("limit", _limit, sizes)
        if os.geteuid() == 0:
            take("tcp", _tcp, sizes)
        else:
            out["missing"].append("tcp: needs root")
        for name, label in (("limit", "checksum and copy, one core"), ("tcp", "kernel TCP")):
            if name in out:
                out["bandwidth"][label] = out.pop(name)
    take("latency", _latency, sizes, runs)
    take("loss", lambda: {"write, 64 KiB": [
        [loss, 100 * _row("client", "--loss", str(loss), "--size", "65536", "--depth", "64",
                          runs=runs)["share"]["median"]] for loss in (LOSSES[::2] if quick else LOSSES)]})
    take("qps", lambda: {f"{size} B": [
        [qps, _row("client", "--qps", str(qps), "--size", str(size),
                   runs=runs)["messages"]["median"]] for qps in (QPS[::2] if quick else QPS)] for size in (64, 4096)})
    return out
