#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The goodput of a good connection while a host of its network floods the device, as a share of its goodput without:

  flood_goodput.py [--rate FRAMES_PER_SECOND] [--seconds N] [--rounds N] [--port veth|workers|udp|packet] [KIND..]

The connection is between two hosts, over the port that is flooded. Windows with a flood and without alternate; each is
compared with the two beside it (ratio: the median), and the best with the best without. Frames are those of
test/system/floods.py; rate 0: as fast as the sender can, which takes a core. All share this machine's cores, which must
be idle otherwise: 'unknown_QPN' is what reception and the sender take. Needs root (network namespaces); nothing is timed
by a test (cm_storm.py measures what a kind costs QPs within the flooded device).
"""
import argparse
import os
import pathlib
import random
import statistics
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "system"))
import floods  # noqa: E402
import lib  # noqa: E402
import test_flood  # noqa: E402

FORGED = 1000  # different frames of a kind
BURST = 50  # frames of a system call, at most
BURST_S = 0.001
TIMEOUT = 14  # of an ACK: 67 ms, as programs use
KINDS = "unknown_QPN CNP SACK ARP ND ICMP REQ"


class Sender(threading.Thread):
    """Sends the frames at a rate until over is set; counts them, and its own processor time."""

    def __init__(self, sock, frames, rate):
        super().__init__(daemon=True)
        self.bursts = [floods.Flood(sock, frames[at:at + BURST]) for at in range(0, len(frames), BURST)]
        self.rate, self.sent, self.cpu, self.over = rate, 0, 0.0, threading.Event()

    def run(self):
        start, turn = time.monotonic(), 0
        while not self.over.is_set():
            while not self.over.is_set() and (not self.rate or self.sent < (time.monotonic() - start) * self.rate):
                self.sent += self.bursts[turn % len(self.bursts)].send(1)
                turn += 1
            time.sleep(BURST_S)
        self.cpu = time.thread_time()


def goodput(good, seconds):
    """Messages a second that both ends of the connection receive."""
    first, start = lib.until("messages arrive", good.messages), time.monotonic()
    time.sleep(seconds)
    last, end = lib.until("messages arrive", good.messages), time.monotonic()
    assert not good.ended(), "the good connection has ended"
    return sum((b - a) % (1 << 24) for a, b in zip(first, last)) / (end - start)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--rate", type=int, default=50000)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--port", choices=test_flood.PORTS, default="veth")
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of floods.py, with _ for spaces; default: {KINDS}")
    options = parser.parse_args()
    lib.need_root()
    make_link, addresses, neighbours = test_flood.PORTS[options.port]
    link = make_link()
    target = test_flood.Target(link, addresses)
    good = test_flood.Transfer(link, TIMEOUT)
    wire = test_flood.Wire(link)
    made = floods.kinds(random.Random(1), target.way, wire.qpn, wire.psn, target.model, FORGED, neighbours)
    made = {name.replace(" ", "_"): frames for name, frames in made.items()}
    kinds = options.kinds or [kind for kind in KINDS.split() if kind in made]
    wrong = set(kinds) - set(made)
    if wrong:
        sys.exit(f"flood_goodput.py: unknown kind {', '.join(wrong)}; legal: {' '.join(made)}")
    found = {kind: [] for kind in kinds}
    print(f"load at the start {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores, port {options.port}")
    alone = [goodput(good, options.seconds)]
    for _ in range(options.rounds):
        for kind, rows in found.items():
            sender, start = Sender(target.sock, made[kind], options.rate), time.monotonic()
            sender.start()
            during = goodput(good, options.seconds)
            sender.over.set()
            sender.join()
            took = time.monotonic() - start
            alone.append(goodput(good, options.seconds))
            beside = statistics.mean(alone[-2:])
            rows.append((during / beside, during, beside, sender.sent / took, sender.cpu / took))
    # A window in which other programs took the cores is slow: the best ones are what the flood leaves.
    print(f"{'flood':14}{'ratio':>8}{'best':>8}{'during':>9}{'without':>9}{'frames/s':>10}{'sender':>8}")
    for kind, rows in found.items():
        ratio, during, beside, sent, cpu = (statistics.median(row[i] for row in rows) for i in range(5))
        print(f"{kind:14}{ratio:8.2f}{max(row[1] for row in rows) / max(alone):8.2f}{during:9.0f}{beside:9.0f}{sent:10.0f}{cpu:8.0%}")
    print(f"load at the end {os.getloadavg()[0]:.1f}")
    assert good.end() == (0, 0), good.client.tail() + good.server.tail()
    target.end()
    link.stop()


if __name__ == "__main__":
    main()
