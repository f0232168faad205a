#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""uroce-bench's mode wire moves every byte over each kind of port and leaves nothing behind. The test ignores the
figures. UROCE_BENCH names the program, UROCE_LIMITS test/bench/limits."""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "system"))
import lib  # noqa: E402

BENCH, LIMITS = os.environ["UROCE_BENCH"], os.environ["UROCE_LIMITS"]
# more messages than af_xdp has buffers, so that buffers are reused
COUNT = ["--runs", "2", "--count", "12000", "--no-probe", "--json"]
SMALL = ["--runs", "1", "--count", "300", "--no-probe", "--json"]
WAYS = {
    "memif, write": ["--port", "memif", *COUNT],
    "memif, send, 4 QPs": ["--port", "memif", "--op", "send", "--size", "1000", "--qps", "4", *COUNT],
    "memif, read of many packets": ["--port", "memif", "--op", "read", "--size", "100001", *SMALL],
    "memif, atomic": ["--port", "memif", "--op", "atomic", *SMALL],
    "memif, send of many packets": ["--port", "memif", "--op", "send", "--size", "100001", *SMALL],
    "vhost, write of many packets": ["--port", "vhost", "--size", "100001", *SMALL],
    "af_packet, write": ["--port", "af_packet", *COUNT],
    "af_packet, write of many packets": ["--port", "af_packet", "--size", "100001", *SMALL],
    "af_xdp, write": ["--port", "af_xdp", "--mtu", "1024", *COUNT],
    "af_xdp, write of many packets": ["--port", "af_xdp", "--mtu", "2048", "--size", "100001", *SMALL],
}


def traces():
    """What a run could leave: mounts, vhost sockets, interfaces, abstract sockets."""
    with open("/proc/mounts", encoding="utf-8") as mounts:
        mounted = [line for line in mounts if line.split()[1] == "/run" and "mode=700" in line]
    run = [str(p) for p in pathlib.Path("/run").glob("vhost*")]
    links = [line for line in lib.sh("ip", "-o", "link").splitlines() if re.search(r" ub\d+[ab][@:]", line)]
    with open("/proc/net/unix", encoding="utf-8") as unix:
        sockets = [line for line in unix if "@uroce-bench-" in line]
    return mounted + run + links + sockets


def children_of(pid):
    """Child processes of pid."""
    path = pathlib.Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in path.read_text(encoding="utf-8").split()]


def alive(pid):
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state not in "ZX"


lib.need_root()
for name, args in WAYS.items():
    with lib.case(name):
        done = subprocess.run([BENCH, "wire", *args], capture_output=True, text=True, timeout=150)
        assert done.returncode == 0, f"status {done.returncode}: {done.stdout}{done.stderr}"
        row = json.loads(done.stdout)["rows"][0]
        assert "DIFFER" not in row["name"] and row["messages"]["median"] > 0, row
        assert not traces(), traces()

with lib.case("beside testpmd"):
    for port, mtu in (("memif", "4096"), ("af_packet", "4096"), ("af_xdp", "2048")):
        done = subprocess.run([LIMITS, "wire-testpmd", "--port", port, "--mtu", mtu, "--runs", "1",
                               "--run-ms", "100", "--no-probe", "--json"], capture_output=True, text=True, timeout=150)
        assert done.returncode == 0, f"{port}: status {done.returncode}: {done.stdout}{done.stderr}"
        for row in json.loads(done.stdout)["rows"]:
            ratio = row["packets"]["median"] / row["testpmd"]["median"]
            assert ratio > 0 and abs(row["versus_testpmd"]["median"] / ratio - 1) < 1e-4, row
        assert not traces(), traces()

with lib.case("frames alone"):
    done = subprocess.run([LIMITS, "port", "--port", "memif", "--runs", "1", "--run-ms", "20", "--no-probe", "--json"],
                          capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, f"status {done.returncode}: {done.stdout}{done.stderr}"
    assert all(row["oneway"]["median"] > 0 for row in json.loads(done.stdout)["rows"]), done.stdout
    assert not traces(), traces()

with lib.case("killed in the middle"):
    proc = lib.spawn([BENCH, "wire", "--port", "af_packet", "--runs", "60", "--run-ms", "10000", "--no-probe"])
    nodes = lib.until("two nodes", lambda: (c := children_of(proc.pid)) and len(c) == 2 and c)
    time.sleep(0.5)
    os.kill(proc.pid, signal.SIGKILL)
    proc.wait(60)
    lib.until("its nodes are gone", lambda: not any(alive(pid) for pid in nodes))
    assert not traces(), traces()

with lib.case("what cannot be is said"):
    for args, word in ((["wire"], "--port"),
                       (["wire", "--port", "tin"], "memif vhost"),
                       (["wire", "--port", "af_xdp", "--mtu", "4096"], "2048"),
                       (["limits", "--port", "memif"], "unknown mode limits"),
                       (["wire", "--port", "memif", "--run-ms", "1"], "from 5 to 10000")):
        done = subprocess.run([BENCH, *args], capture_output=True, text=True, timeout=150)
        assert done.returncode == 2 and word in done.stderr, (args, done)
lib.finish()
