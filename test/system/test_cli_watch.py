#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""urocectl watch and top: rates of running traffic, as text, as JSON, and on a terminal."""
import json
import os
import pty
import re
import select
import signal
import termios
import time

import cli
import lib


class Screen:
    """urocectl on a terminal of 40 lines."""

    def __init__(self, daemon, *words):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ["TERM"] = "xterm"
            os.execv(lib.UROCECTL, ["urocectl", "--socket", str(daemon.socket), *words])
        self.seen = ""

    def read(self, until, seconds=60):
        """Reads until this text appears or the program ends."""
        end = time.monotonic() + seconds
        while until not in self.seen and time.monotonic() < end:
            if not select.select([self.fd], [], [], 0.2)[0]:
                continue
            try:
                data = os.read(self.fd, 65536)
            except OSError:  # it has ended
                break
            self.seen += data.decode()
        return until in self.seen

    def press(self, key):
        self.seen = ""
        os.write(self.fd, key.encode())

    def status(self):
        self.read("\0")
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def watched(daemon, name, *words):
    """The reports of `urocectl --json watch`, each validated against its schema."""
    lines = cli.text(daemon, "--json", "watch", *words).splitlines()
    return [cli.validate(name, json.loads(line)) for line in lines]


def moving(ask, moved):
    """The reports of ask(), asked for again until frames moved in each interval: on a busy machine the traffic has
    stood still for 0.3 s."""
    def look():
        reports = ask()
        return reports if all(moved(report) for report in reports) else None
    return lib.until("frames move in each interval", look)


def watch(daemon, pid):
    with lib.case("watch stats: totals and rates per second, a report for each count"):
        reports = moving(
            lambda: watched(daemon, "show-stats", "stats", "dev", "uroce0", "interval", "0.3", "count", "3"),
            lambda report: report["stats"][0]["rates"]["rx_frames"] > 0)
        assert len(reports) == 3
        before = 0
        for report in reports:
            row, = report["stats"]
            assert row["device"] == "uroce0"
            assert report["interval_ns"] >= 300_000_000 and row["total"]["rx_frames"] > before
            grown = row["total"]["rx_frames"] - before
            if before:  # the rate is the growth divided by the interval
                rate = grown / (report["interval_ns"] / 1e9)
                assert abs(row["rates"]["rx_frames"] - rate) <= 1, (row["rates"]["rx_frames"], rate)
            before = row["total"]["rx_frames"]
        text, = moving(lambda: [cli.text(daemon, "watch", "stats", "interval", "0.2", "-n", "2")],
                       lambda text: re.search(r"^  rx_frames +\d+ +[1-9]\d*$", text, re.M))
        assert text.count("per second") == 4 and text.count("\033") == 0  # two devices, not a terminal
    with lib.case("watch qp, cq, worker: rates of each"):
        moving(lambda: watched(daemon, "show-qp", "qp", "pid", str(pid), "interval", "0.3", "count", "1"),
               lambda r: r["qp"][0]["rates"]["tx_psns"] > 0 and r["qp"][0]["rates"]["sends"] > 0)
        moving(lambda: watched(daemon, "show-cq", "cq", "interval", "0.3", "count", "1"),
               lambda r: any(row["rates"]["completions"] > 0 for row in r["cq"]))
        report, = moving(lambda: watched(daemon, "show-worker", "worker", "interval", "0.3", "count", "1"),
                         lambda r: r["worker"][0]["rates"]["rx_bytes"] > 0)
        worker, = report["worker"]
        assert 0 < worker["rates"]["busy_percent"] <= 100, worker["rates"]
        heading = cli.text(daemon, "watch", "qp", "interval", "0.1", "count", "1").splitlines()[1]
        assert "tx(Gb/s)" in heading and "sends/s" in heading, heading
        heading = cli.text(daemon, "watch", "worker", "interval", "0.1", "count", "1").splitlines()[1]
        assert "busy(percent)" in heading and "rx(Gb/s)" in heading, heading
    with lib.case("watch: topics without rates are repeated; every topic can be watched"):
        for what in cli.topics():
            name = "trace" if what == "trace" else f"show-{what}"
            assert len(watched(daemon, name, what, "interval", "0.1", "count", "1")) == 1
        assert cli.text(daemon, "watch", "gid", "interval", "0.1", "count", "2").count("RoCEv2") == 2 * len(
            daemon.show("gid")["gid"])
    with lib.case("watch on a terminal redraws it"):
        screen = Screen(daemon, "watch", "stats", "interval", "0.1", "count", "2")
        assert screen.status() == 0 and screen.seen.count("\033[H\033[J") == 2, screen.seen


def top(daemon, pid):
    with lib.case("top -b -n 2: two reports, the busiest QP first"):
        text = cli.text(daemon, "top", "-b", "-n", "2", "interval", "0.3")
        assert text.count("urocectl top - ") == 2 and "\033" not in text
        for part in ("workers 1, clients 2, QPs 2, by tx", "busy(percent)", "rcdata", str(pid)):
            assert part in text, (part, text)
    with lib.case("top --json matches its schema; clients have the traffic of their QPs"):
        for key in ("tx", "rx", "sends", "receives", "pid", "qpn"):
            report, = moving(lambda key=key: [cli.validate("top", json.loads(cli.text(
                daemon, "--json", "top", "-n", "1", "interval", "0.3", "sort", key)))],
                lambda r: any(q["rates"]["tx_psns"] > 0 for q in r["qp"]))
            rates = [q["rates"] for q in report["qp"]]
            assert sum(r["tx_psns"] for r in rates) == sum(c["rates"]["tx_psns"] for c in report["client"])
            member = {"tx": "tx_bytes", "rx": "rx_bytes"}.get(key, key)
            order = [q[key] if key in q else -q["rates"][member] for q in report["qp"]]
            assert order == sorted(order) and len(order) == 2, (key, order)
    with lib.case("top on a terminal: keys choose the order and end it"):
        screen = Screen(daemon, "top", "interval", "5")
        lib.until("it reads keys, not lines", lambda: not termios.tcgetattr(screen.fd)[3] & termios.ICANON)
        screen.press("p")  # a key ends the interval
        assert screen.read("by pid"), screen.seen
        screen.press("r")
        assert screen.read("by rx") and "\033[H\033[J" in screen.seen, screen.seen
        screen.press("q")
        assert screen.status() == 0
    with lib.case("top and watch end with status 1 when the daemon ends"):
        procs = [lib.spawn([lib.UROCECTL, "--socket", daemon.socket, *words, "interval", "0.1"])
                 for words in (("top", "-b"), ("watch", "stats"))]
        for proc in procs:
            lib.until("the first report", lambda proc=proc: "uroce" in proc.output())
    return procs


MESSAGE = 65536


def idle_qps(daemon):
    """The QPs of both sides by device, once all that was posted is done; the client is stopped."""
    def idle():
        rows = daemon.show("qp")["qp"]
        return not any(q["sq_waiting"] or q["sq_in_flight"] for q in rows) and {q["device"]: q for q in rows}
    return lib.until("nothing is in flight", idle)


def moved_bytes(link, daemon):
    """The bytes of a QP, against those that a program's messages have."""
    port = str(lib.tcp_port())
    words = ["ib_write_bw", "-F", "-x", "1", "-s", str(MESSAGE), "-D", "3600", "-p", port, "-d"]
    server = link.b.spawn([*words, "uroce1"])
    lib.until("the server listens", lambda: server.listens(int(port)))
    client = link.a.spawn([*words, "uroce0", "127.0.0.1"])
    lib.until("messages are done", lambda: client.poll() is not None or any(
        q["sq_retired"] > 100 for q in daemon.show("qp")["qp"]))
    with lib.case("show qp: tx_bytes and rx_bytes are the program's messages and headers"):
        os.kill(client.pid, signal.SIGSTOP)
        try:
            qps = idle_qps(daemon)
        finally:
            os.kill(client.pid, signal.SIGCONT)
        sent, received = qps["uroce0"], qps["uroce1"]
        payload = sent["sq_retired"] * MESSAGE
        assert payload < sent["tx_bytes"] < 1.1 * payload, (payload, sent)
        assert payload < received["rx_bytes"] < 1.1 * payload, (payload, received)
        assert 0 < received["tx_bytes"] < payload / 10 > sent["rx_bytes"] > 0, (payload, qps)  # ACKs
    with lib.case("top: bytes a second of QPs and of their clients"):
        first, second = moving(
            lambda: [cli.validate("top", json.loads(line)) for line in
                     cli.text(daemon, "--json", "top", "-n", "2", "interval", "0.4").splitlines()],
            lambda report: all(q["rates"][key] > 0 for q in report["qp"] for key in ("tx_bytes", "rx_bytes")))
        before = {q["qpn"]: q for q in first["qp"]}
        for qp in second["qp"]:
            for key in ("tx_bytes", "rx_bytes"):
                rate = (qp[key] - before[qp["qpn"]][key]) * 1e9 / second["interval_ns"]
                assert abs(qp["rates"][key] - rate) <= 1, (key, rate, qp["rates"])
        assert {(c["client"], c["rates"]["tx_bytes"], c["rates"]["rx_bytes"]) for c in second["client"]} == {
            (q["client"], q["rates"]["tx_bytes"], q["rates"]["rx_bytes"]) for q in second["qp"]}, second
        assert [q["device"] for q in second["qp"]] == ["uroce0", "uroce1"], "by tx: the side that sends data"
        text = cli.text(daemon, "top", "-b", "-n", "1", "interval", "0.2")
        assert text.count("tx(Gb/s)") == 3 and text.count("rx(Gb/s)") == 3, text  # worker, client, qp
    with lib.case("top for people: Gb/s, thousands separated; for programs: numbers"):
        def columns():
            """The first row of workers by heading, in a report with four digits in each rate."""
            lines = cli.text(daemon, "top", "-b", "-n", "1", "interval", "0.4").splitlines()
            head = next(i for i, line in enumerate(lines) if line.startswith("worker"))
            cells = dict(zip(lines[head].split(), lines[head + 1].split()))
            return "," in cells["rx_frames/s"] and "," in cells["tx_frames/s"] and cells
        cells = lib.until("a thousand frames a second", columns)
        for name in ("rx_frames/s", "tx_frames/s"):
            assert re.fullmatch(r"\d{1,3}(,\d{3})+", cells[name]), cells
        for name in ("rx(Gb/s)", "tx(Gb/s)"):
            assert re.fullmatch(r"\d+\.\d{3}", cells[name]), cells
    for proc in (client, server):
        proc.kill()
    link.nothing_left()


def main():
    lib.need_root()
    link = lib.link_ring()
    daemon = link.a.daemon
    moved_bytes(link, daemon)
    port = lib.tcp_port()
    server = link.b.spawn([lib.RCDATA, "-d", "uroce1", "-g", "1", "-p", port])
    lib.until("the server listens", lambda: server.listens(port))
    client = link.a.spawn([lib.RCDATA, "-d", "uroce0", "-g", "1", "-p", port, "--qps", "1", "--ops", "100000000", "127.0.0.1"])
    before = daemon.counters()["rx_roce"]
    lib.until("traffic flows", lambda: daemon.counters()["rx_roce"] > before + 1000 or client.poll() is not None)
    pid = next(c["pid"] for c in daemon.show("client")["client"] if c["device"] == "uroce0")
    watch(daemon, pid)
    procs = top(daemon, pid)
    lib.enough(server, client)
    with lib.case("the traffic succeeded"):
        assert (client.wait(60), server.wait(60)) == (0, 0), client.tail() + server.tail()
    link.nothing_left()
    link.stop()
    with lib.case("watch and top end with the daemon"):
        for proc in procs:
            assert proc.wait(60) == cli.FAILURE and "the daemon at" in proc.tail(), proc.tail()
    lib.finish()


main()
