#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""uroce-bench client and connect, and test/bench/limits: they run, data arrives, they refuse invalid options and leave
nothing behind."""
import json
import os
import pathlib
import signal
import subprocess

import lib

BENCH = lib.BUILD / "app/uroce-bench/uroce-bench"
LIMITS = lib.BUILD / "test/bench/limits/limits"
LIMIT_MODES = ("hops", "sockets", "sleep", "sender", "memory")
SHORT = ("--json", "--no-probe", "--runs", "2", "--count", "50")


def bench(*argv, fails=0, mode="client"):
    """Runs a mode; returns its first row, or its message if it must fail."""
    said = bench_rows(*argv, fails=fails, mode=mode)
    return said if fails else said[0]


def bench_rows(*argv, fails=0, mode):
    done = subprocess.run([LIMITS if mode in LIMIT_MODES else BENCH, mode, *map(str, argv)], text=True, capture_output=True,
                          timeout=100)
    assert done.returncode == fails, f"{argv}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stderr if fails else json.loads(done.stdout)["rows"]


def left_of(pid):
    """Folders that a bench with this process id left behind."""
    return [*pathlib.Path("/tmp").glob(f"uroce-bench-{pid}-*"),
            *pathlib.Path("/var/run/dpdk").glob(f"bench-{pid}-*")]


def check_row(row, *keys):
    assert "DIFFER" not in row["name"], row
    for key in keys:
        assert row[key]["least"] > 0, (key, row)


def children(pid):
    done = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], text=True, capture_output=True)
    return [int(word) for word in done.stdout.split()]


def alive(pid):
    try:
        return not pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].startswith(" Z")
    except OSError:
        return False


def main():
    lib.need_root()
    for op in ("send", "write", "read", "atomic"):
        with lib.case(f"{op}: every byte arrives, one process or two"):
            for place in ((), ("--apart",)):
                for size in (1,) if op == "atomic" else (1, 64, 5000):
                    check_row(bench("--op", op, "--size", size, *place, *SHORT), "messages")
                check_row(bench("--op", op, "--measure", "latency", *place, *SHORT),
                          "p50", "p99", "p99.9")
    with lib.case("many connections, many clients, 8 MiB"):
        check_row(bench("--op", "send", "--qps", 70, "--depth", 3, *SHORT), "messages")
        check_row(bench("--op", "write", "--clients", 3, "--qps", 2, *SHORT), "messages")
        check_row(bench("--op", "read", "--size", 1 << 23, "--depth", 2, *SHORT), "messages")
    with lib.case("rdma_cm connections: of one client and of many"):
        check_row(bench("--clients", 1, *SHORT, mode="connect"), "connects", "cycles", "connect_p99",
                  "disconnect_p99")
        check_row(bench("--clients", 5, "--live", 20, *SHORT, mode="connect"), "connects", "cycles")
    with lib.case("hops, memory"):
        row = bench(*SHORT, mode="hops")
        check_row(row, "whole", "post", "published_to_found", "worker_step", "poll")
        if os.cpu_count() > 1:
            check_row(row, "bare_rings", "bare_publish")
        for total, pieces in (("whole", ("post", "published_to_found")),
                              ("published_to_found", ("hops", "worker_step", "poll"))):
            most = sum(row[key]["most"] for key in pieces)
            least = sum(row[key]["least"] for key in pieces)
            assert least - 0.1 <= row[total]["most"] and most + 0.1 >= row[total]["least"], (total, row)
        check_row(bench("--measure", "memory", "--qps", 500, "--depth", 16, "--json", "--no-probe"),
                  "connected", "all_queues_used")
    for idle in ("poll", "adaptive"):
        with lib.case(f"a message after a pause arrives, idle {idle}"):
            check_row(bench("--op", "send", "--measure", "wake", "--idle", idle, *SHORT), "median", "worst")
    with lib.case("processor time of an idle daemon"):
        check_row(bench("--measure", "idle", "--idle", "adaptive", *SHORT), "cpu")
        check_row(bench("--json", "--no-probe", "--runs", 1, mode="sleep"), "eventfd", "sleeper")
    with lib.case("memory, and a sender without a transport"):
        check_row(bench("--json", "--no-probe", "--runs", 1, mode="memory"), "crc", "copy", "packet", "both")
        check_row(bench("--json", "--no-probe", "--runs", 1, "--size", 5000, mode="sender"), "sender")
    with lib.case("latency of bare sockets, alone and handed over"):
        for port in ("udp", "packet"):
            check_row(bench("--port", port, "--json", "--no-probe", "--runs", 1, mode="sockets"),
                      "bare", "handed_over")
        assert "--port udp or packet" in bench("--port", "memif", fails=2, mode="sockets")
    cpus = len(os.sched_getaffinity(0))
    with lib.case("workers on one and on all cores: every byte arrives, on the right queue and handed over"):
        for op, size in (("write", 64), ("send", 4096), ("read", 10000), ("atomic", 8)):
            rows = bench_rows("--op", op, "--size", size, "--handed-over", 100, "--run-ms", 20, *SHORT, mode="scale")
            assert all("DIFFER" not in row["name"] and row["messages"]["least"] > 0 for row in rows), rows
            assert rows[0]["handed_over"]["most"] == 0 and "1 worker," in rows[0]["name"], rows
            if cpus > 1:
                assert rows[1]["handed_over"]["most"] == 0 and rows[2]["handed_over"]["most"] > 50, rows
        if cpus > 1:
            rows = bench_rows("--workers", 2, *SHORT, mode="scale")
            assert "2 workers" in rows[1]["name"] and "random queue" in rows[1]["name"], rows
    with lib.case("workers that there cannot be are refused"):
        for argv, word in ((("--workers", cpus + 1), f"--workers: {cpus + 1}: not 1 .. {min(cpus, 16)}"),
                           (("--workers", "1,,1"), "--workers: ,1: not a list like 1,2,4"),
                           (("--workers", ",".join("1" * 9)), "--workers: more than 8 numbers"),
                           (("--handed-over", 101), "from 0 to 100")):
            said = bench(*argv, fails=2, mode="scale")
            assert word in said, (argv, said)
        assert "only with mode scale" in bench("--workers", 1, fails=2, mode="engine")
    with lib.case("test/bench/scale.sh: a bundle runs, and reports what fails"):
        script, bundle, out = lib.HERE.parent / "bench/scale.sh", lib.tmpdir() / "bundle", lib.tmpdir() / "out"
        lib.sh(script, "--bundle", bundle, "--build", lib.BUILD)
        (bundle / "bin/uroce-run").unlink()  # so that the client's step fails
        said = lib.sh(bundle / "scale.sh", "--out", out, "--only", "engine-64,scale-all-handed-over,pair-write-64")
        steps = {step["name"]: step for step in json.loads((out / "results.json").read_text())["steps"]}
        assert steps["pair-write-64"]["exit"] and "uroce-run" in steps["pair-write-64"]["error"], steps
        assert "pair-write-64: FAILED" in said and "1 steps failed" in said, said
        for name in ("engine-64", "scale-all-handed-over"):
            check_row(steps[name]["result"]["rows"][-1], "messages")
            assert steps[name]["result"]["rows"][-1]["name"] in (out / "table.txt").read_text(), name
    with lib.case("two daemons that already run"):
        link = lib.link_memif()
        ends = ("--socket", link.a.daemon.socket, "--dev", "uroce0",
                "--peer-socket", link.b.daemon.socket, "--peer-dev", "uroce0")
        for op in ("send", "read"):
            check_row(bench("--op", op, "--size", 4096, *ends, *SHORT), "messages")
            check_row(bench("--op", op, "--measure", "latency", *ends, *SHORT), "p50")
        link.nothing_left()
        link.stop()
    with lib.case("invalid options are refused by name"):
        for argv, word in ((("--clients", 0), "--clients: '0' is not a number from 1 to 64"),
                           (("--clients", 65), "from 1 to 64"),
                           (("--batch", 65), "--batch: '65' is not a number from 1 to 64"),
                           (("--batch", 9, "--depth", 8), "--batch"),
                           (("--measure", "speed"), "--measure: unknown 'speed'; legal: rate"),
                           (("--idle", "never"), "--idle: unknown 'never'; legal: poll adaptive"),
                           (("--size", 0), "--size 0"),
                           (("--size", (1 << 23) + 1), "from 0 to 8388608"),
                           (("--qps", 4097), "from 1 to 4096"),
                           (("--dev", "d" * 64), "--dev"),
                           (("--peer-socket", "/x"), "--peer-socket: needs --socket"),
                           (("--socket", "/x", "--measure", "idle"), "--measure idle"),
                           (("--apart", "--measure", "wake"), "--apart"),
                           (("--policy", "swift"), "--policy: only with mode engine"),
                           (("--sweep",), "--sweep")):
            said = bench(*argv, fails=2)
            assert word in said, (argv, said)
        said = bench("--policy", "swift:target=0", fails=1, mode="engine")
        assert "'target=0' is not target=1 .. 1000000 us" in said, said
    with lib.case("no daemon there, no such device: an error, and no child is left"):
        assert "no-such-socket" in bench("--socket", "/tmp/no-such-socket", fails=1)
        assert "uroce9" in bench("--dev", "uroce9", fails=1)
    for sig in (signal.SIGTERM, signal.SIGKILL):
        with lib.case(f"{sig.name} ends daemon and clients, too"):
            proc = lib.spawn([BENCH, "client", "--no-probe", "--runs", "64"])
            kids = lib.until("daemon and client run",
                             lambda: len(found := children(proc.pid)) == 2 and found)
            os.kill(proc.pid, sig)
            proc.wait(60)
            lib.until("they end", lambda: not any(alive(pid) for pid in kids))
            if sig == signal.SIGTERM:
                assert not left_of(proc.pid), left_of(proc.pid)
            for path in left_of(proc.pid):  # SIGKILL leaves them behind
                for file in path.glob("*"):
                    file.unlink()
                path.rmdir()
    lib.finish()


main()
