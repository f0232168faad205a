#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""test/trace/check.py on traffic of our daemons: the rules hold, and without loss the capture matches the counters
of both daemons."""
import json
import re
import signal
import subprocess

import lib

CHECK = lib.HERE.parent / "trace/check.py"
OPS = "60" if lib.SHORT else "300"
ADDRESSES = ("10.9.0.101", "10.9.0.102")


def record(side, path):
    """tcpdump of frames that arrive at a side; in nanoseconds, so that a merge keeps the order."""
    dump = lib.spawn(["tcpdump", "-i", "eth0", "-Q", "in", "-U", "-n", "--immediate-mode",
                      "--time-stamp-precision=nano", "-s", "9000", "-B", "65536", "-Z", "root",
                      "-w", path, "udp port 4791"], ns=side.daemon.ns)
    lib.until("tcpdump listens", lambda: "listening on" in dump.output())
    return dump


def stop(dumps, paths, arrived):
    """Ends them after they have written all frames that arrived: a signal does not flush the rest."""
    for dump, path, frames in zip(dumps, paths, arrived):
        lib.until("tcpdump has written what arrived", lambda path=path, frames=frames: lib.frames_in(path) >= frames)
        dump.popen.send_signal(signal.SIGINT)
        dump.wait(60)
        lost = int(re.search(r"(\d+) packets? dropped by kernel", dump.output()).group(1))
        assert lost == 0, dump.output()


def arrived(side, before, after):
    """Number of RoCE frames between two `show stats` that reached a side, including those that its injector dropped."""
    shown = json.loads(lib.sh(lib.UROCECTL, "--socket", side.daemon.socket, "--json", "impair", side.dev, "show"))
    return (after["stats"][0]["total"]["rx_roce"] - before["stats"][0]["total"]["rx_roce"] +
            shown["impair"][0].get("drop", 0))


def traffic(link):
    lib.verbs_pair(link.b, link.a, lib.RCDATA,
                   ["-d", "{dev}", "-g", "1", "--qps", "3", "--ops", OPS, "--max-len", "30000"],
                   server_args=["-d", "{dev}", "-g", "1"], timeout=120)


def settled(daemon):
    """`show stats`, or None while the counters change. A worker without a processor holds frames that no counter shows
    yet."""
    def look():
        return {**daemon.show("stats"), **daemon.show("drops")}

    stats = look()
    if stats != look():
        return None
    for kind in zip(stats["stats"], stats["drops"]):
        total, drops = (d["total"] for d in kind)
        if total["rx_frames"] != total["rx_roce"] + total["slow_path"] + sum(drops.values()):
            return None
    return stats


def save(folder, name, stats):
    path = folder / name
    path.write_text(json.dumps(stats))
    return path


def check(*args):
    done = subprocess.run(["/usr/bin/python3", CHECK, *args], text=True, capture_output=True,
                          timeout=120)
    print("\n".join(f"# {line}" for line in done.stdout.splitlines()[-25:]))
    assert done.returncode == 0, done.stderr
    frames = int(re.search(r"^(\d+) frames", done.stdout, re.M).group(1))
    assert frames >= 300, f"only {frames} frames"


def run(spec=None):
    """Captured traffic between two daemons: (folder, merged capture, stats before and after)."""
    # The checker knows the rules of go-back-N only, and one order: two workers capture side by side.
    link = lib.link_veth(extra=lib.ONE_WORKER, more=",sr=off")
    folder = lib.tmpdir()
    sides = (link.a, link.b)
    if spec:
        for side in sides:
            lib.sh(lib.UROCECTL, "--socket", side.daemon.socket, "impair", side.dev, "set", spec)
    before = [lib.until("counters rest", lambda side=side: settled(side.daemon)) for side in sides]
    parts = [folder / "a.pcap", folder / "b.pcap"]
    dumps = [record(side, path) for side, path in zip(sides, parts)]
    traffic(link)
    after = [lib.until("counters rest", lambda side=side: settled(side.daemon)) for side in sides]
    stop(dumps, parts, [arrived(side, start, end) for side, start, end in zip(sides, before, after)])
    link.stop()
    lib.sh("mergecap", "-F", "nsecpcap", "-w", folder / "both.pcap", *parts)
    return folder, folder / "both.pcap", before, after


def loss_free():
    folder, path, before, after = run()
    for i, address in enumerate(ADDRESSES):
        check("--device", "uroce0", "--address", address, "--stats",
              save(folder, f"before{i}", before[i]), save(folder, f"after{i}", after[i]), path)


def main():
    lib.need_root()
    with lib.case("nothing lost: every rule holds, the counters match the capture"):
        loss_free()
    with lib.case("1 % lost behind the capture: every rule holds"):
        check("--lossy-after-capture", run("drop=1%,seed=5")[1])
    lib.finish()


main()
