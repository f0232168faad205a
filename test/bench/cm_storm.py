#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What a storm of REQs costs established QPs (CM-16): messages per second between two QPs of a device while a peer
sends requests with forged ids to a listener of that device that does not accept.

  cm_storm.py [--rate REQS_PER_SECOND] [--rounds N] [--build DIR]

Each round measures three times: without a storm; with the same frames to a QPN without a QP, which the worker drops;
with REQs. The second is what reception and the sender take of the machine's cores, which all share; the third against
the second is what the connection manager costs. Needs root (network namespaces); nothing is timed by a test.
"""
import argparse
import json
import os
import pathlib
import random
import signal
import socket
import statistics
import struct
import subprocess
import sys
import time
import zlib

HERE = pathlib.Path(__file__).resolve().parent
PORT = 7471
IP, UDP, BTH, MAD = 14, 34, 42, 62  # offsets of an IPv4 frame; UD has a DETH of 8 bytes behind the BTH
REQ = 24  # offset behind the MAD's header
BURST_S = 0.001
FORGED = 20000  # different frames
NO_QP = 0xabcdef
BENCH_RUNS = 24  # windows of 50 ms
STORM_S = 3


def icrc(frame):
    """ICRC of a frame of IPv4 whose last four bytes are to hold it."""
    masked = bytearray(frame[IP:-4])
    for at in (1, 8, 10, 11, UDP - IP + 6, UDP - IP + 7, BTH - IP + 4):
        masked[at] = 0xff
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + masked))


def forge(template, qpn):
    """A copy of the REQ with another transaction, communication id and QPN, for a QPN of the receiver."""
    frame = bytearray(template)
    frame[BTH + 5:BTH + 8] = qpn.to_bytes(3, "big")
    frame[MAD + 8:MAD + 16] = random.randbytes(8)
    frame[MAD + REQ:MAD + REQ + 4] = random.randbytes(4)
    frame[MAD + REQ + 32:MAD + REQ + 35] = random.randrange(2, 1 << 24).to_bytes(3, "big")
    frame[-4:] = icrc(frame)
    return bytes(frame)


def is_req(frame):
    return (len(frame) > MAD + 256 and frame[12:14] == b"\x08\x00" and frame[UDP + 2:UDP + 4] == b"\x12\xb7" and
            frame[BTH + 5:BTH + 8] == b"\0\0\1" and frame[MAD + 16:MAD + 18] == b"\0\x10")


def storm(sock, frames, rate, seconds):
    """Sends bursts for so long; returns frames sent and the processor time that it took."""
    start, cpu, sent = time.monotonic(), time.process_time(), 0
    while (now := time.monotonic() - start) < seconds:
        while sent < now * rate:
            sock.send(frames[sent % FORGED])
            sent += 1
        time.sleep(BURST_S)
    return sent, time.process_time() - cpu


def capture():
    """Prints the first REQ that arrives at eth0."""
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    sock.bind(("eth0", 0))
    print("listens", flush=True)
    while not is_req(frame := sock.recv(4096)):
        pass
    print(frame.hex(), flush=True)


def sender(model):
    """Executes the lines KIND RATE SECONDS, with copies of the REQ."""
    assert model[-4:] == icrc(model), "the ICRC of the captured REQ is not the computed one"
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    sock.bind(("eth0", 0))
    frames = {"req": [forge(model, 1) for _ in range(FORGED)], "dropped": [forge(model, NO_QP) for _ in range(FORGED)]}
    print("ready", flush=True)
    for line in sys.stdin:
        kind, rate, seconds = line.split()
        print(*storm(sock, frames[kind], int(rate), float(seconds)), flush=True)


def thread_times(pid):
    """Processor seconds of the threads of a process: those of the main thread and of the others."""
    took = {"main": 0.0, "others": 0.0}
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        fields = (task / "stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
        took["main" if task.name == str(pid) else "others"] += (int(fields[11]) + int(fields[12])) / os.sysconf(2)
    return took


class Storm:
    """Two daemons on a veth pair: a's address sends the storm, b has listener and established QPs."""

    def __init__(self, lib, cmclient, build):
        self.lib, self.bench = lib, build / "app/uroce-bench/uroce-bench"
        self.link = lib.link_veth()
        self.victim = self.link.b.daemon
        self.channel = cmclient.Channel(str(self.victim.socket))
        listener = self.channel.create(1)
        self.channel.bind(listener, cmclient.sockaddr("10.9.0.102", PORT))
        self.channel.listen(listener, 64)
        model = self.capture(cmclient)
        self.sender = self.helper(self.link.a, "sender", model)
        self.expect(self.sender, "ready")
        lib.until("b knows a's MAC", lambda: self.cm()["tx_MRA"] > self.cm()["tx_waited"] - self.cm()["tx_after_wait"])
        self.peer = self.link.a.daemon.proc.popen
        self.peer.send_signal(signal.SIGSTOP)  # it neither answers nor takes processor time

    def helper(self, side, *argv):
        """This program in the network namespace of side."""
        return subprocess.Popen(["ip", "netns", "exec", side.daemon.ns, sys.executable, __file__, *argv],
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

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
            print(kind, rate, STORM_S, file=self.sender.stdin, flush=True)
        messages = self.rate()
        took = time.monotonic() - start
        control = (thread_times(self.victim.proc.pid)["main"] - before["main"]) / took
        assert took < STORM_S, f"the storm ended before the measurement: {took:.1f} s"
        sent, cpu = self.sender.stdout.readline().split() if kind != "none" else ("0", "0")
        return messages, control, int(sent) / STORM_S, float(cpu) / STORM_S

    def end(self):
        self.peer.send_signal(signal.SIGCONT)
        self.sender.stdin.close()
        self.sender.wait(60)
        self.channel.close()
        self.link.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--rate", type=int, default=10000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--build", default=os.environ.get("UROCE_BUILD", "build"))
    options = parser.parse_args()
    os.environ["UROCE_BUILD"] = options.build
    sys.path.insert(0, str(HERE.parent / "system"))
    import cmclient  # pylint: disable=import-outside-toplevel
    import lib  # pylint: disable=import-outside-toplevel
    lib.need_root()
    test = Storm(lib, cmclient, pathlib.Path(options.build).resolve())
    found = {"none": [], "dropped": [], "req": []}
    for _ in range(options.rounds):
        for kind, runs in found.items():
            runs.append(test.measure(kind, options.rate))
    # A window in which other programs took the cores is slow: the best tenth is what the storm leaves.
    print(f"{'storm':10}{'median':>9}{'of none':>9}{'best':>9}{'of none':>9}{'frames/s':>10}{'control':>9}"
          f"{'sender':>8}")
    base = None
    for kind, runs in found.items():
        windows = sorted(window for run in runs for window in run[0])
        rates = statistics.median(windows), windows[len(windows) * 9 // 10]
        base = base or rates
        sent, control, cpu = (statistics.median(run[i] for run in runs) for i in (2, 1, 3))
        print(f"{kind:10}{rates[0]:9.3f}{rates[0] / base[0]:9.2f}{rates[1]:9.3f}{rates[1] / base[1]:9.2f}"
              f"{sent:10.0f}{control:9.1%}{cpu:8.1%}")
    print({name: n for name, n in test.cm().items() if n})
    test.end()


if __name__ == "__main__":
    if sys.argv[1:2] == ["capture"]:
        capture()
    elif sys.argv[1:2] == ["sender"]:
        sender(bytes.fromhex(sys.argv[2]))
    else:
        main()
