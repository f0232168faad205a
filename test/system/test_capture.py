#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks uroce's frames with tshark, scapy's ICRC and wire-check."""
import collections
import json
import pathlib
import re
import signal
import subprocess

from scapy.contrib.roce import BTH
from scapy.layers.inet import IP
from scapy.utils import PcapReader

import cli
import lib

SCAPY_FRAMES = 1000 if lib.SHORT else 3000  # scapy dissects some hundred frames a second
WIRE_CHECK = lib.BUILD / "test/wire-check"
# These dissectors guess upper protocols from any payload and call random bytes malformed.
GUESSERS = ("rpcordma", "infiniband.eoib", "smb_direct", "iser", "nvme-rdma", "lnet", "smc", "fcoib")


def record(side, path):
    """tcpdump of the frames that arrive at a side. (af_packet bypasses the qdisc, so the sending end of the veth
    does not show its frames.)"""
    dump = lib.spawn(["tcpdump", "-i", "eth0", "-Q", "in", "-U", "-n", "-s", "9000", "-B", "65536",
                      "-Z", "root", "-w", path, "udp port 4791"], ns=side.daemon.ns)
    lib.until("tcpdump listens", lambda: "listening on" in dump.output())
    return dump


def capture(gid):
    """Captures both directions of rcdata and ibv_rc_pingpong; returns the path."""
    link = lib.link_veth()
    folder = lib.tmpdir()
    parts = [folder / "a.pcap", folder / "b.pcap"]
    dumps = [record(side, path) for side, path in zip((link.a, link.b), parts)]
    lib.verbs_pair(link.b, link.a, lib.RCDATA,
                   ["-d", "{dev}", "-g", gid, "--qps", "3", "--ops", "200", "--max-len", "30000"],
                   server_args=["-d", "{dev}", "-g", gid])
    lib.verbs_pair(link.b, link.a, "ibv_rc_pingpong",
                   ["-d", "{dev}", "-g", gid, "-c", "-n", "50", "-s", "5001"])
    for side, path in zip((link.a, link.b), parts):
        got = side.daemon.counters()["rx_roce"]
        lib.until("tcpdump has written what arrived", lambda path=path, got=got: lib.frames_in(path) >= got, every=0.5)
    link.stop()
    for dump in dumps:
        dump.popen.send_signal(signal.SIGINT)
        dump.wait(60)
        lost = int(re.search(r"(\d+) packets? dropped by kernel", dump.output()).group(1))
        assert lost == 0, dump.output()
    lib.sh("mergecap", "-F", "pcap", "-w", folder / "both.pcap", *parts)
    return folder / "both.pcap"


def full_disk():
    """A capture that fills its disk ends by itself: a log line, status 1 of show and stop, whole frames in the file. The
    next one starts."""
    link = lib.link_ring()
    daemon = link.a.daemon
    folder = lib.tmpdir() / "small"
    folder.mkdir()
    lib.sh("mount", "-t", "tmpfs", "-o", "size=2500k", "none", folder)
    try:
        path = folder / "frames.pcapng"
        cli.text(daemon, "capture", "uroce0", "start", path)
        lib.verbs_pair(link.b, link.a, "ibv_rc_pingpong", ["-d", "{dev}", "-g", "1", "-s", "4000", "-n", "2000"])
        lib.until("it has ended", lambda: "uroce0: capture ended: No space left on device" in daemon.proc.output())
        done = cli.run(daemon, "--json", "capture", "uroce0", "show")
        shown = cli.validate("capture", json.loads(done.stdout))["capture"][0]
        assert done.returncode == cli.FAILURE and "No space left on device" in done.stderr, done
        assert not shown["running"] and shown["error"] == "No space left on device", shown
        frames = len(tshark(path, "frame"))
        assert 100 < frames == shown["frames"], (frames, shown)
        assert f"the file has {frames} whole frames" in daemon.proc.output(), daemon.proc.output()
        done = cli.run(daemon, "capture", "uroce0", "stop")
        assert done.returncode == cli.FAILURE and "No space left on device" in done.stderr, done
        path.unlink()
        cli.text(daemon, "capture", "uroce0", "start", path)
        assert cli.run(daemon, "capture", "uroce0", "stop").returncode == cli.OK
    finally:
        lib.sh("umount", folder)
    link.stop()


def tshark(path, display_filter):
    quiet = [word for name in GUESSERS for word in ("--disable-protocol", name)]
    done = subprocess.run(["tshark", "-r", path, *quiet, "-Y", display_filter, "-T", "fields",
                           "-e", "frame.number"], text=True, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def scapy_icrcs(path):
    """(frames checked, numbers of frames whose ICRC differs from scapy's). IPv4 only."""
    seen, wrong = 0, []
    with PcapReader(str(path)) as reader:
        for number, frame in enumerate(reader, 1):
            if BTH not in frame or IP not in frame:
                continue
            again = frame.copy()
            again[BTH].icrc = None
            seen += 1
            if bytes(again) != bytes(frame):
                wrong.append(number)
            if seen >= SCAPY_FRAMES:
                break
    return seen, wrong


def ctl(daemon, *words, rc=0, own=()):
    """Runs urocectl capture WORDS; returns its JSON, or its message if it must fail."""
    said = daemon.ctl("capture", *words, rc=rc, own=own)
    return said if rc else said["capture"][0]


def rest(*shows):
    """The results of these functions, once none changes: frames may come after the end of a transfer."""
    def look():
        before = [show() for show in shows]
        return before if before == [show() for show in shows] else None
    return lib.until("counters rest", look)


def inside():
    """urocectl capture writes a correct file that other tools read, and refuses invalid requests."""
    link = lib.link_ring()
    daemon, dev = link.a.daemon, link.a.dev
    path = lib.tmpdir() / "dev.pcapng"
    path.write_text("what was there before")
    assert "no capture is running" in ctl(daemon, dev, "stop", rc=1)
    assert ctl(daemon, dev, "start", path)["running"] is True
    assert "a capture is running" in ctl(daemon, dev, "start", path.with_name("2"), rc=1)
    lib.verbs_pair(link.b, link.a, lib.RCDATA,
                   ["-d", "{dev}", "--qps", "2", "--ops", "100", "--max-len", "9000"],
                   server_args=["-d", "{dev}"])
    last = ctl(daemon, dev, "stop")
    assert last["running"] is False and last["lost"] == 0 and last["error"] is None, last
    assert ctl(daemon, dev, "show")["running"] is False
    assert len(tshark(path, "frame")) == last["frames"] > 500, last
    sent = len(tshark(path, "frame.packet_flags_direction == 2"))
    assert 0 < sent < last["frames"], sent
    assert not tshark(path, "_ws.malformed or _ws.short")

    assert "no device 'uroce9'; devices:" in ctl(daemon, "uroce9", "start", path, rc=1)
    assert "not a regular file" in ctl(daemon, dev, "start", "/dev/null", rc=1)
    assert "Not a directory" in ctl(daemon, dev, "start", path / "x", rc=1)
    assert "needs FILE" in ctl(daemon, dev, "start", rc=2)
    assert "legal: start FILE [qpn=N], show, stop" in ctl(daemon, dev, "break", rc=2)
    daemon.socket.parent.chmod(0o755)
    daemon.socket.chmod(0o666)
    nobody = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
    for words in (("start", "/tmp/" + lib.unique("ur")), ("stop",), ("show",)):
        said = ctl(daemon, dev, *words, rc=1, own=nobody)
        assert "only root" in said, said
        for made in words[1:]:
            pathlib.Path(made).unlink(missing_ok=True)
    ctl(daemon, dev, "start", path)
    link.stop()  # with a capture running


def comments(path, display_filter="frame"):
    """(direction, destination QP, opcode, comment) of each frame, by tshark."""
    done = subprocess.run(["tshark", "-r", path, "-Y", display_filter, "-T", "fields", "-E", "separator=/t", "-e",
                           "frame.packet_flags_direction", "-e", "infiniband.bth.destqp", "-e", "infiniband.bth.opcode",
                           "-e", "frame.comment"], text=True, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    return [[str(int(direction, 0)), *rest] for direction, *rest in rows]


def explained():
    """Comments say the QP, retransmissions, and why frames were dropped; a filter takes one QP's frames."""
    link = lib.link_ring()
    daemon, dev = link.a.daemon, link.a.dev
    path = lib.tmpdir() / "why.pcapng"
    daemon.impair(dev, "set", "corrupt=2%,drop=2%,dup=2%")
    daemon.impair(link.b.dev, "set", "rule:nth=50,count=8,action=drop")  # of what dev sends, so that it sends it again
    before, drops = daemon.show("stats")["stats"][0]["total"], daemon.show("drops")["drops"][0]["total"]
    ctl(daemon, dev, "start", path)
    lib.verbs_pair(link.b, link.a, lib.RCDATA, ["-d", "{dev}", "--qps", "2", "--ops", "300", "--max-len", "9000"],
                   server_args=["-d", "{dev}"])
    rest(lambda: daemon.show("stats"), lambda: daemon.show("drops"))
    ctl(daemon, dev, "stop")
    after, dropped = daemon.show("stats")["stats"][0]["total"], daemon.show("drops")["drops"][0]["total"]
    rows = comments(path)  # all: a flipped bit may hide from tshark that a frame is RoCE
    said = collections.Counter(part for row in rows for part in row[3].split("; "))
    for reason, n in dropped.items():
        assert said[f"dropped: {reason}"] == n - drops[reason], (reason, n, drops[reason], said)
    assert said["dropped: bad_icrc"] > 0, said
    again = after["retransmitted_packets"] - before["retransmitted_packets"]
    assert said["sent again"] == again > 0, (again, said)
    assert said["duplicate request"] == after["duplicate_requests"] - before["duplicate_requests"] > 0, said
    for direction, qpn, _, text in comments(path, "infiniband"):
        if "dropped" in text or int(qpn, 16) == 1:
            continue  # the flipped bit may be in its QPN; queries to QP 1, which is no client's
        assert re.match(r"QP \d+ \(0x[0-9a-f]+\)", text), text
        if direction == "1":
            assert text.split(";")[0] == f"QP {int(qpn, 16)} (0x{int(qpn, 16):x})", (qpn, text)
    for port in (dev, link.b.dev):
        daemon.impair(port, "clear")
    one_qp(link)
    link.stop()


def impaired():
    """The file has the frames that the injector dropped, and says of each what the injector did, by which rule."""
    link = lib.link_ring(lib.ONE_WORKER)  # each queue counts for its rules
    daemon, devs = link.a.daemon, (link.a.dev, link.b.dev)
    spec = ("drop=2%,dup=2%,corrupt=1%,reorder=1%,seed=3;rate=2Gbit,queue=40kB,kmin=8kB,kmax=9kB,delay=20us,delay_prob=5% "
            "rule:nth=7,count=5,action=drop rule:nth=30,count=4,action=ce")
    paths = [lib.tmpdir() / f"{dev}.pcapng" for dev in devs]
    for dev, path in zip(devs, paths):
        ctl(daemon, dev, "start", path)
        daemon.impair(dev, "set", spec)  # while a capture runs
    lib.verbs_pair(link.b, link.a, lib.RCDATA, ["-d", "{dev}", "--qps", "2", "--ops", "100", "--max-len", "30000"],
                   server_args=["-d", "{dev}"])  # 3 MB; the capture's ring holds 20 times that, if all is sent again
    lib.until("the injector has delivered all", lambda: all(
        not daemon.impair(dev, "show")["held"] for dev in devs))
    rest(lambda: daemon.show("stats"), *(lambda dev=dev: daemon.impair(dev, "show") for dev in devs))
    shown = {dev: daemon.impair(dev, "show") for dev in devs}
    for dev, path in zip(devs, paths):
        last = ctl(daemon, dev, "stop")
        assert last["lost"] == 0 and last["error"] is None, last
        did = collections.Counter()
        for direction, _, _, text in comments(path):
            for part in text.split("; "):
                if part.startswith("impaired: "):
                    assert direction == "1", text
                    faults = part[len("impaired: "):].split(", ")
                    copy = next((f for f in faults if f.startswith("the copy of")), None)
                    did.update([copy] if copy else faults)  # a copy has the faults of its original, too
        show, rules = shown[dev], shown[dev]["rules"]
        assert did["dropped (rule 1)"] == rules[0]["acted"] == 5, (did, show)
        # A frame that another fault dropped was not marked.
        assert did["marked CE (rule 2)"] == show["ce"] > 0 and rules[1]["acted"] == 4, (did, show)
        assert did["dropped"] + did["dropped (rule 1)"] == show["drop"], (did, show)
        assert did["corrupted"] == show["corrupt"], (did, show)
        assert show["held"] == 0, show
        for word, counter in (("delayed", "delay"), ("reordered", "reorder"), ("duplicated", "dup"),
                              ("the copy of a duplicated frame", "dup"), ("waited for the link", "rate"),
                              ("marked CE by the queue of the link", "queue_mark")):
            assert did[word] == show[counter], (word, did, show)
        assert min(show[counter] for counter in ("delay", "reorder", "dup", "rate", "queue_drop")) > 0, show
        assert did["dropped by the full queue of the link"] == show["queue_drop"], (did, show)
        daemon.impair(dev, "clear")
    link.stop()


def one_qp(link):
    daemon, dev = link.a.daemon, link.a.dev
    path = lib.tmpdir() / "one.pcapng"
    port = lib.tcp_port()
    server = link.a.spawn([lib.RCDATA, "-d", dev, "-p", str(port)])
    lib.until("the server listens", lambda: server.listens(port))
    client = link.b.spawn([lib.RCDATA, "-d", link.b.dev, "-p", str(port), "--qps", "3", "--ops", "100000000", "127.0.0.1"])
    lib.until("six queue pairs", lambda: len(daemon.show("qp")["qp"]) == 6)
    qp = next(qp for qp in daemon.show("qp")["qp"] if qp["device"] == dev)
    assert ctl(daemon, dev, "start", path, f"qpn={qp['qpn']}")["running"]
    lib.until("frames", lambda: ctl(daemon, dev, "show")["frames"] > 200)
    ctl(daemon, dev, "stop")
    for proc in (client, server):
        proc.kill()
    rows = comments(path)
    assert {row[0] for row in rows} == {"1", "2"} and {row[3].split(";")[0] for row in rows} == {f"QP {qp['qpn']} (0x{qp['qpn']:x})"}, (qp["qpn"], collections.Counter(row[3] for row in rows))
    assert {row[1] for row in rows if row[0] == "1"} == {f"0x{qp['qpn']:06x}"}, rows[:5]
    assert len({row[1] for row in rows if row[0] == "2"}) == 1, "all to one peer"
    for wrong in ("qpn=0", "qpn=x", "qpn=16777216", "gid=1"):
        assert "qpn=N" in ctl(daemon, dev, "start", path, wrong, rc=2) or "N is 1 to" in ctl(
            daemon, dev, "start", path, wrong, rc=2)


def looped_back():
    """Captures frames that never leave the daemon: they get an ICRC only in the capture."""
    link = lib.link_loop()
    path = lib.tmpdir() / "loop.pcapng"
    ctl(link.a.daemon, link.a.dev, "start", path)
    lib.verbs_pair(link.b, link.a, lib.RCDATA,
                   ["-d", "{dev}", "--qps", "2", "--ops", "100", "--max-len", "9000"],
                   server_args=["-d", "{dev}"])
    assert ctl(link.a.daemon, link.a.dev, "stop")["lost"] == 0
    link.stop()
    lib.sh("editcap", "-F", "pcap", path, path.with_suffix(".pcap"))
    return path.with_suffix(".pcap")


def looped_mads():
    """The connection manager's MADs to a peer that the same device serves are in the capture, once each."""
    link = lib.link_loop()
    daemon, dev = link.a.daemon, link.a.dev
    path = lib.tmpdir() / "mads.pcapng"
    ctl(daemon, dev, "start", path)
    server = link.b.spawn(["rping", "-s", "-a", "10.9.0.101", "-C", "3"])
    lib.until("rping listens", lambda: daemon.show("cm")["cm"] or server.poll() is not None)
    link.a.spawn(["rping", "-c", "-a", "10.9.0.101", "-C", "3"]).result(60)
    server.result(60)
    rest(lambda: daemon.show("stats"))
    assert ctl(daemon, dev, "stop")["lost"] == 0
    sent = daemon.show("cm_stats")["cm_stats"][0]["total"]["tx_REQ"]  # again, if the server was late
    link.stop()
    for message, attribute in (("ConnectRequest", "0x0010"), ("ConnectReply", "0x0013"), ("ReadyToUse", "0x0014"),
                               ("DisconnectRequest", "0x0015"), ("DisconnectReply", "0x0016")):
        found = tshark(path, f"infiniband.mad.mgmtclass == 0x07 and infiniband.mad.attributeid == {attribute}")
        assert found, f"no {message}"
    requests = tshark(path, "infiniband.mad.mgmtclass == 0x07 and infiniband.mad.attributeid == 0x0010")
    assert len(requests) == sent > 0, f"{sent} sent, captured: {requests}"
    assert not tshark(path, "_ws.malformed or _ws.short")
    lib.sh("editcap", "-F", "pcap", path, path.with_suffix(".pcap"))
    return path.with_suffix(".pcap")


def judge(path, what, least):
    with lib.case(f"{what}: tshark sees RoCE and nothing malformed"):
        total = len(tshark(path, "infiniband"))
        assert total >= least, f"only {total} frames are RoCE to tshark"
        malformed = tshark(path, "_ws.malformed or _ws.short")
        assert not malformed, f"malformed frames: {malformed[:20]}"
    with lib.case(f"{what}: wire-check parses, rebuilds and verifies every frame"):
        done = subprocess.run([WIRE_CHECK, path], text=True, capture_output=True, timeout=120)
        print(f"# {done.stdout.strip()}")
        assert done.returncode == 0, done.stdout + done.stderr
        assert re.search(r"frames (\d+) parsed \1 rebuilt \1 icrc \1", done.stdout), done.stdout


def main():
    lib.need_root()
    with lib.case("capture over IPv4"):
        path = capture("1")
        judge(path, "IPv4", 1000)
        with lib.case("IPv4: scapy computes every ICRC the same"):
            seen, wrong = scapy_icrcs(path)
            assert seen >= 1000, f"only {seen} frames are RoCE to scapy"
            assert not wrong, f"wrong ICRC in frames {wrong[:20]}"
    with lib.case("capture over IPv6"):
        judge(capture("0"), "IPv6", 1000)
    with lib.case("a capture that fills its disk"):
        full_disk()
    with lib.case("urocectl capture"):
        inside()
    with lib.case("comments explain frames; qpn=N takes one QP's"):
        explained()
    with lib.case("comments name what the fault injector did"):
        impaired()
    with lib.case("capture of loopback"):
        judge(looped_back(), "loopback", 500)
    with lib.case("capture of the MADs of a loopback connection"):
        judge(looped_mads(), "MADs", 10)
    lib.finish()


main()
