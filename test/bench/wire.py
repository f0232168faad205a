#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""uroce-bench's mode wire moves every byte over each kind of port and leaves nothing behind; workers do not write each
other's cache lines. The test ignores the figures. UROCE_BENCH names the program, UROCE_LIMITS test/bench/limits."""
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

def rows(program, *args, ns=None):
    """The rows of a run."""
    enter = ["ip", "netns", "exec", ns] if ns else []
    done = subprocess.run([*enter, program, *args, "--no-probe", "--json"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{args}: status {done.returncode}: {done.stdout}{done.stderr}"
    assert not traces(), traces()
    return json.loads(done.stdout)["rows"]


def beside_testpmd(row):
    """A row has the rate of a testpmd, and the ratio of the packets to it."""
    ratio = row["packets"]["median"] / row["testpmd"]["median"]
    assert ratio > 0 and abs(row["versus_testpmd"]["median"] / ratio - 1) < 1e-4 and "DIFFER" not in row["name"], row


def joined_ports():
    """A namespace, and options for two of DPDK's ports in it that a veth pair joins."""
    ns = lib.netns()
    lib.sh("ip", "link", "add", "nica", "mtu", "5000", "type", "veth", "peer", "name", "nicb", "mtu", "5000", ns=ns)
    args = []
    for i, name in enumerate(("nica", "nicb")):
        lib.sh("ip", "link", "set", name, "up", ns=ns)
        args += ["--vdev", f"net_af_packet{i},iface={name},blocksz=16384,framesz=8192,framecnt=256,qpairs=1"]
    return ns, args


LONG = ["--runs", "1", "--run-ms", "300"]
with lib.case("through testpmd"):
    for port in ("memif", "af_packet"):
        for size in ("64", "100001"):
            row, = rows(BENCH, "wire", "--port", port, "--through", "testpmd", "--size", size, *LONG)
            beside_testpmd(row)
            assert "through testpmd" in row["name"], row

ports_ns, ports = joined_ports()
with lib.case("two ports that the user names, as two NICs: WRITE, beside testpmd, through it"):
    row, = rows(BENCH, "wire", *ports, "--size", "100001", *LONG, ns=ports_ns)
    assert row["packets"]["median"] > 0 and "net_af_packet0 to net_af_packet1" in row["name"], row
    row, = rows(LIMITS, "wire-testpmd", *ports, "--size", "65536", *LONG, ns=ports_ns)
    beside_testpmd(row)
    row, = rows(BENCH, "wire", *ports, "--through", "testpmd", "--size", "65536", *LONG, ns=ports_ns)
    beside_testpmd(row)

with lib.case("the file of a machine with NICs: every step on these ports; a NIC that is not there is named"):
    out = lib.tmpdir() / "nic.json"
    args = ["ip", "netns", "exec", ports_ns, BENCH, "nic", "--runs", "1", "--run-ms", "500", "--workers", "1", "--mem", "256",
            "--out", out]
    done = subprocess.run([*args, *ports, "--only", "machine,port,workers,wire,testpmd,through"], capture_output=True, text=True,
                          timeout=600)
    steps = {step["step"]: step for step in json.loads(out.read_text())["steps"]}
    assert done.returncode == 0 and all(step["done"] for step in steps.values()), done.stdout + done.stderr
    assert {p["driver"] for p in steps["port"]["result"]["port"]} == {"net_af_packet"}, steps["port"]
    assert len(steps["wire"]["result"]) == 5 and steps["testpmd"]["result"]["frames"], steps
    for row in steps["testpmd"]["result"]["wire"] + steps["through"]["result"]:
        beside_testpmd(row)
    done = subprocess.run([*args, "--allow", "0000:ff:1f.7", "--allow", "0000:ff:1f.6", "--only", "machine,wire"],
                          capture_output=True, text=True, timeout=600)
    steps = {step["step"]: step for step in json.loads(out.read_text())["steps"]}
    assert done.returncode == 1 and steps["machine"]["done"] and not steps["wire"]["done"], done.stdout
    assert "no PCI device 0000:ff:1f.7" in steps["wire"]["why"] and "no PCI device 0000:ff:1f.7" in done.stdout, done.stdout
    assert not traces(), traces()

with lib.case("frames without a peer"):
    both = rows(LIMITS, "port", *ports, "--mtu", "1024", *LONG, ns=ports_ns)
    one = rows(LIMITS, "port", *ports[:2], "--mtu", "1024", *LONG, ns=ports_ns)
    assert [row["name"].replace(" to net_af_packet1", "") for row in both] == [row["name"] for row in one], (both, one)
    assert all(row["oneway"]["median"] > 0 for row in both + one), (both, one)

with lib.case("beside testpmd"):
    for port, mtu in (("memif", "4096"), ("af_packet", "4096"), ("af_xdp", "2048")):
        done = subprocess.run([LIMITS, "wire-testpmd", "--port", port, "--mtu", mtu, "--runs", "1",
                               "--run-ms", "100", "--no-probe", "--json"], capture_output=True, text=True, timeout=150)
        assert done.returncode == 0, f"{port}: status {done.returncode}: {done.stdout}{done.stderr}"
        for row in json.loads(done.stdout)["rows"]:
            beside_testpmd(row)
        assert not traces(), traces()

with lib.case("two workers write no line that both need, with their packets on the right queue"):
    for op in ("write", "send", "read"):
        row, = rows(BENCH, "scale", "--lines", "--op", op)
        assert row["shared"]["median"] == 0 and row["lines_of_0"]["median"] > 100, row

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
                       (["wire", "--port", "udp", "--through", "testpmd"], "testpmd has no ports udp"),
                       (["wire", "--port", "memif", "--through", "tcpdump"], "testpmd"),
                       (["wire", "--port", "memif", "--allow", "0000:01:00.0"], "only one of them"),
                       (["wire", "--allow", "0000:01:00.0"], "two ports"),
                       (["wire", *["--vdev", "net_null0"] * 3], "more than two"),
                       (["wire", "--allow", "eth0", "--allow", "eth1"], "not a PCI address"),
                       (["wire", "--port", "memif", "--cpus", "0"], "sender,receiver"),
                       (["wire", "--port", "memif", "--cpus", "0,4000"], "CPU 4000"),
                       (["limits", "--port", "memif"], "unknown mode limits"),
                       (["wire", "--port", "memif", "--run-ms", "1"], "from 5 to 10000")):
        done = subprocess.run([BENCH, *args], capture_output=True, text=True, timeout=150)
        assert done.returncode == 2 and word in done.stderr, (args, done)

with lib.case("a NIC that is not there, or that DPDK does not open, is named"):
    for args, word in ((["--allow", "0000:ff:1f.7", "--allow", "0000:ff:1f.6"], "no PCI device 0000:ff:1f"),
                       (["--vdev", "net_af_packet0,iface=absent", "--vdev", "net_af_packet1,iface=absent"], "net_af_packet1")):
        done = subprocess.run([BENCH, "wire", *args, "--runs", "1"], capture_output=True, text=True, timeout=150)
        assert done.returncode == 1 and word in done.stderr, (args, done)
    assert not traces(), traces()

with lib.case("a port with several receive queues, of which only one would be polled, is refused"):
    several = [arg.replace("qpairs=1", "qpairs=2") for arg in ports]
    done = subprocess.run(["ip", "netns", "exec", ports_ns, BENCH, "wire", *several, "--runs", "1"], capture_output=True,
                          text=True, timeout=150)
    assert done.returncode == 1 and "has 2 receive queues" in done.stderr and "remove qpairs=" in done.stderr, done
    assert not traces(), traces()
lib.finish()
