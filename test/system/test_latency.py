#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""uroce-bench latency --breakdown: every step of a message is there, and the steps add up to the round trip; as an
ordinary user, too. No time is compared with a limit."""
import json
import os
import shutil
import subprocess

# before lib, which reads the user that this sets
from test_port_udp import UNPRIVILEGED, link_udp, own_folder

import lib

STEPS = ["post", "doorbell", "turn", "build", "send", "wire", "place", "complete", "poll", "answer"]
TRIPS = 200
SHORT = ("--breakdown", "--json", "--no-probe", "--runs", 2, "--count", TRIPS)


def run(*argv, program=lib.BUILD / "app/uroce-bench/uroce-bench", before=(), fails=0):
    """Returns the JSON document of mode latency, or its message if it must fail."""
    done = subprocess.run([str(word) for word in (*before, program, "latency", *argv)], text=True, capture_output=True,
                          timeout=200, env={**os.environ, "XDG_RUNTIME_DIR": str(own_folder())})
    assert done.returncode == fails, f"{argv}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stderr if fails else json.loads(done.stdout)


def check(doc):
    """The document has each step in both directions, and they are the round trip."""
    row, down = doc["rows"][0], doc["breakdown"]
    assert "DIFFER" not in row["name"] and row["p50"]["least"] > 0, row
    assert down["incomplete"] == 0 and down["round_trips"] == 2 * TRIPS, down
    assert [(step["from"], step["step"]) for step in down["steps"]] == \
        [(half, step) for half in (0, 1) for step in STEPS][:-1], down["steps"]
    total = down["round_trip"]
    assert all(0 <= step["p50_us"] <= step["p99_us"] for step in down["steps"]), down
    assert abs(sum(step["mean_us"] for step in down["steps"]) / total["mean_us"] - 1) < 0.001, down
    # medians of parts add up to the median of the whole only about, the more so on a busy machine
    assert 0.3 < down["sum_of_medians_us"] / total["p50_us"] < 1.5, down
    for end in down["ends"]:
        assert end["worker_cpus"] and end["client_cpus"] and 0 <= end["beside"] <= 1, end
        assert all(0 <= end[wait]["share"] <= 1 for wait in ("yielded", "slept", "woke")), end


def ordinary():
    """The program's path, in a place that every user can read."""
    program = lib.public_copy() / "app/uroce-bench/uroce-bench"
    if not program.exists():
        program.parent.mkdir(mode=0o755)
        limits = program.parents[1] / "libexec/uroce/limits"  # its mode latency, as in an installation
        limits.parent.mkdir(mode=0o755, parents=True)
        for path, built in ((program, "app/uroce-bench/uroce-bench"), (limits, "test/bench/limits/limits")):
            shutil.copy(lib.BUILD / built, path)
            path.chmod(0o755)
    return program


def main():
    lib.need_root()
    with lib.case("ring: one daemon, as an ordinary user"):
        check(run(*SHORT, program=ordinary(), before=UNPRIVILEGED))
    with lib.case("udp: two running daemons of an ordinary user, twice"):
        link = link_udp()
        ends = ("--socket", link.a.daemon.socket, "--peer-socket", link.b.daemon.socket)
        for _ in range(2):
            check(run(*ends, *SHORT, program=ordinary(), before=UNPRIVILEGED))
        link.nothing_left()
        link.stop()
    for port in ("memif", "udp", "packet", "af_packet"):
        with lib.case(f"{port}: two new daemons"):
            check(run("--port", port, *SHORT))
    with lib.case("the table has the same steps; without --breakdown there are none"):
        said = subprocess.run([lib.BUILD / "app/uroce-bench/uroce-bench", "latency", "--breakdown", "--no-probe", "--runs",
                               "1", "--count", str(TRIPS)], text=True, capture_output=True, timeout=100, check=True).stdout
        for text in ("ibv_post_send", "the port's send call", "CQE written", "round trip", "sum of the medians",
                     "worker slept: in", "client slept"):
            assert text in said, said
        assert "breakdown" not in run("--json", "--no-probe", "--runs", 1, "--count", TRIPS)
    with lib.case("invalid options are refused by name"):
        for argv, word in ((("--size", 0), "--size 0"),
                           (("--port", "vhost"), "--port: must be memif, af_packet, udp or packet"),
                           (("--socket", "/x"), "--socket: needs --peer-socket"),
                           (("--socket", "/x", "--peer-socket", "/y", "--port", "udp"), "--port: only without --socket"),
                           (("--breakdown", "--count", 20001), "--count: must be at most 20000"),
                           (("--cpus", "0,0"), "--cpus: must be 3 CPUs"),
                           (("--cpus", "0,0,0,9999", "--port", "udp"), "--cpus: must be 4 CPUs")):
            said = run(*argv, fails=2)
            assert word in said, (argv, said)
        assert "no-such-socket" in run("--socket", "/tmp/no-such-socket", "--peer-socket", "/tmp/no-such-socket", fails=1)
    lib.finish()


main()
