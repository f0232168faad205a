#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What floods of a hostile host cost established QPs (CM-16): messages per second between two QPs of a device while a
peer sends frames of each kind of test/system/floods.py.

  cm_storm.py [--rate FRAMES_PER_SECOND] [--rounds N] [--build DIR] [KIND..]

Each round measures without a flood; with REQs to a QPN without a QP, which the worker drops; and with each kind. The
second is what reception and the sender take of the machine's cores, which all share; another kind against the second
is what that kind costs. Needs root (network namespaces); nothing is timed by a test.
"""
import argparse
import json
import os
import pathlib
import random
import socket
import statistics
import signal
import struct
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "system"))
import floods  # noqa: E402

PORT = 7471
BURST_S = 0.001
FORGED = 1000  # different frames of a kind
BURST = 50  # frames of a system call, at most
BENCH_RUNS = 24  # windows of 50 ms
FLOOD_S = 8


def send(sock, frames, rate, seconds):
    """Sends bursts for so long; returns frames sent and the processor time that it took."""
    bursts = [floods.Flood(sock, frames[at:at + BURST]) for at in range(0, len(frames), BURST)]
    start, cpu, sent, turn = time.monotonic(), time.process_time(), 0, 0
    while (now := time.monotonic() - start) < seconds:
        while sent < now * rate:
            sent += bursts[turn % len(bursts)].send(1)
            turn += 1
        time.sleep(BURST_S)
    return sent, time.process_time() - cpu


def capture():
    """Prints the first REQ that arrives at eth0."""
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    sock.bind(("eth0", 0))
    print("listens", flush=True)
    print(floods.await_mad(sock, floods.REQ).hex(), flush=True)


def sender(model, qpn):
    """Executes the lines KIND RATE SECONDS, with copies of the REQ and frames for the QP qpn."""
    sock, rng = floods.packet_socket("eth0"), random.Random(1)
    head = model[floods.IP:floods.UDP]
    way = floods.Way(model[6:12], model[:6], head[12:16], head[16:20])
    frames = floods.kinds(rng, way, qpn, 0, model, FORGED)
    frames["dropped"] = [floods.req(rng, model, floods.NO_QP) for _ in range(FORGED)]
    print("ready", *(name.replace(" ", "_") for name in frames), flush=True)
    for line in sys.stdin:
        kind, rate, seconds = line.split()
        print(*send(sock, frames[kind.replace("_", " ")], int(rate), float(seconds)), flush=True)


def thread_times(pid):
    """Processor seconds of the threads of a process: those of the main thread and of the others."""
    took = {"main": 0.0, "others": 0.0}
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        fields = (task / "stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
        took["main" if task.name == str(pid) else "others"] += (int(fields[11]) + int(fields[12])) / os.sysconf(2)
    return took


class Victim:
    """Two daemons on a veth pair: a's address sends the flood, b has a listener, established QPs, and one whose peer is
    a."""

    def __init__(self, lib, cmclient, control, build):
        self.lib, self.bench = lib, build / "app/uroce-bench/uroce-bench"
        self.link = lib.link_veth()
        self.victim = self.link.b.daemon
        self.channel = cmclient.Channel(str(self.victim.socket))
        listener = self.channel.create(1)
        self.channel.bind(listener, cmclient.sockaddr("10.9.0.102", PORT))
        self.channel.listen(listener, 64)
        model = self.capture(cmclient)
        self.idle = control.Client(self.victim.socket, "uroce0")
        self.sender = self.helper(self.link.a, "sender", model, str(self.connected(control)))
        self.kinds = self.sender.stdout.readline().split()[1:]
        lib.until("b knows a's MAC", lambda: self.cm()["tx_MRA"] > self.cm()["tx_waited"] - self.cm()["tx_after_wait"])
        self.peer = self.link.a.daemon.proc.popen
        self.peer.send_signal(signal.SIGSTOP)  # it neither answers nor takes processor time

    def helper(self, side, *argv):
        """This program in the network namespace of side."""
        return subprocess.Popen(["ip", "netns", "exec", side.daemon.ns, sys.executable, __file__, *argv],
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def connected(self, control):
        """The QPN of an idle QP that is connected to an address of a."""
        for op, body in (("ALLOC_PD", b""), ("CREATE_CQ", control.cq())):
            assert self.idle.make(op, body)[0] == 0
        status, handle, body = self.idle.make("CREATE_QP", control.qp(0, 0, 0))
        assert status == 0
        for state in (control.INIT, control.RTR, control.RTS):
            assert self.idle.do("MODIFY_QP", control.modify(handle, state, control.ipv4_gid("10.9.0.101"))) == 0
        return struct.unpack_from("<I", body, 4)[0]

    @staticmethod
    def expect(helper, text):
        line = helper.stdout.readline().strip()
        assert line == text, line

    def capture(self, cmclient):
        """The frame of a REQ that a sends to the listener, in hexadecimal digits."""
        with self.helper(self.link.b, "capture") as helper:
            self.expect(helper, "listens")
            client = cmclient.Channel(str(self.link.a.daemon.socket))
            number = client.create(1)
            client.resolve(number, cmclient.sockaddr("10.9.0.102", PORT))
            client.connect(number, 0x100)
            return helper.stdout.readline().strip()

    def cm(self):
        return self.victim.show("cm_stats")["cm_stats"][0]["total"]

    def rate(self):
        """Millions of messages of 64 bytes per second between two QPs of b's device, in each window."""
        done = subprocess.run([self.bench, "client", "--socket", self.victim.socket, "--size", "64", "--runs",
                               str(BENCH_RUNS), "--no-probe", "--json"], text=True, capture_output=True, timeout=60,
                              check=True)
        return json.loads(done.stdout)["rows"][0]["messages"]["each"]

    def measure(self, kind, rate):
        """Messages, how busy the control thread was, frames per second, and how busy the sender was."""
        start, before = time.monotonic(), thread_times(self.victim.proc.pid)
        if kind != "none":
            print(kind, rate, FLOOD_S, file=self.sender.stdin, flush=True)
        messages = self.rate()
        took = time.monotonic() - start
        control = (thread_times(self.victim.proc.pid)["main"] - before["main"]) / took
        assert took < FLOOD_S, f"the flood ended before the measurement: {took:.1f} s"
        sent, cpu = self.sender.stdout.readline().split() if kind != "none" else ("0", "0")
        return messages, control, int(sent) / FLOOD_S, float(cpu) / FLOOD_S

    def end(self):
        self.peer.send_signal(signal.SIGCONT)
        self.sender.stdin.close()
        self.sender.wait(60)
        self.channel.close()
        self.idle.close()
        self.link.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--rate", type=int, default=10000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--build", default=os.environ.get("UROCE_BUILD", "build"))
    parser.add_argument("kinds", nargs="*", metavar="KIND", help="of floods.py, with _ for spaces; default: all")
    options = parser.parse_args()
    os.environ["UROCE_BUILD"] = options.build
    import cmclient  # pylint: disable=import-outside-toplevel
    import control  # pylint: disable=import-outside-toplevel
    import lib  # pylint: disable=import-outside-toplevel
    lib.need_root()
    test = Victim(lib, cmclient, control, pathlib.Path(options.build).resolve())
    wrong = set(options.kinds) - set(test.kinds)
    if wrong:
        sys.exit(f"cm_storm.py: unknown kind {', '.join(wrong)}; legal: {' '.join(test.kinds)}")
    found = {kind: [] for kind in ["none", "dropped", *(options.kinds or test.kinds)]}
    for _ in range(options.rounds):
        for kind, runs in found.items():
            runs.append(test.measure(kind, options.rate))
    # A window in which other programs took the cores is slow: the best tenth is what the flood leaves.
    print(f"{'flood':12}{'median':>9}{'of none':>9}{'best':>9}{'of none':>9}{'frames/s':>10}{'control':>9}"
          f"{'sender':>8}")
    base = None
    for kind, runs in found.items():
        windows = sorted(window for run in runs for window in run[0])
        rates = statistics.median(windows), windows[len(windows) * 9 // 10]
        base = base or rates
        sent, control, cpu = (statistics.median(run[i] for run in runs) for i in (2, 1, 3))
        print(f"{kind:12}{rates[0]:9.3f}{rates[0] / base[0]:9.2f}{rates[1]:9.3f}{rates[1] / base[1]:9.2f}"
              f"{sent:10.0f}{control:9.1%}{cpu:8.1%}")
    print({name: n for name, n in test.cm().items() if n})
    test.end()


if __name__ == "__main__":
    if sys.argv[1:2] == ["capture"]:
        capture()
    elif sys.argv[1:2] == ["sender"]:
        sender(bytes.fromhex(sys.argv[2]), int(sys.argv[3]))
    else:
        main()
