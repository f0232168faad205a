#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""urocectl impair: programs get every byte and every completion on a network that loses, duplicates, reorders and
corrupts frames; the counters of injector and daemon agree."""
import json

import lib
from hostlink import ADDRESSES, spaces

SPOILT = ("runt", "bad_ip", "fragment", "bad_udp_length", "bad_tver", "bad_opcode", "bad_pad",
          "bad_length", "bad_icrc", "ethertype", "ip_protocol", "ipv6_extension", "udp_port",
          "bad_vlan")
LOSSY = "drop={0},dup={0},reorder={0},corrupt={0},seed={1}"


def impair(daemon, *words, rc=0, own=()):
    """Runs urocectl impair WORDS; returns its JSON, or its message if it must fail."""
    said = daemon.ctl("impair", *words, rc=rc, own=own)
    return said if rc else said["impair"][0]


def of_device(daemon, what, dev):
    return next(d["total"] for d in daemon.show(what)[what] if d["device"] == dev)


def rcdata(link, *plan):
    pair = lib.verbs_pair(link.b, link.a, lib.RCDATA, ["-d", "{dev}", "--json", *plan],
                          server_args=["-d", "{dev}", "--json"])
    for proc in (pair.server, pair.client):
        assert json.loads(proc.output().splitlines()[-1])["ok"] is True, proc.output()


def check_books(side, before):
    """The injector's counters balance, and the daemon counts each frame delivered. Waits for frames in flight: a worker
    without a processor holds frames that no counter shows yet."""
    failed = []

    def right():
        try:
            return balance(side, before)
        except AssertionError as error:
            failed[:] = [error]
            return None
    try:
        return lib.until("the books balance", right)
    except TimeoutError:
        raise failed[0] if failed else AssertionError("frames still wait") from None


def balance(side, before):
    """The injector's counters, checked, or None while frames wait."""
    row = settled(side)
    if row is None:
        return None
    assert row["delivered"] == (row["received"] + row["dup"] - row["drop"] - row["overflow"] -
                                row["queue_drop"]), row
    stats, drops = (of_device(side.daemon, what, side.dev) for what in ("stats", "drops"))
    assert stats["rx_frames"] - before["rx_frames"] == row["delivered"], (stats, row)
    spoilt = sum(drops[name] for name in SPOILT)
    assert stats["rx_frames"] == (stats["rx_roce"] + stats["slow_path"] +
                                  sum(drops.values())), (stats, drops)
    slow = stats["slow_path"] - before["slow_path"]
    # A corrupted frame can be duplicated, too, or its corrupted header can send it to the slow path.
    assert row["corrupt"] - slow <= spoilt - before["spoilt"] <= row["corrupt"] + row["dup"], (
        drops, row)
    return row


def settled(side):
    """The injector's counters, once it holds no frame and no more frames arrive."""
    row = impair(side.daemon, side.dev, "show")
    again = impair(side.daemon, side.dev, "show")
    return row if row["held"] == 0 and row == again else None


def counted(side):
    drops = of_device(side.daemon, "drops", side.dev)
    return {**of_device(side.daemon, "stats", side.dev),
            "spoilt": sum(drops[name] for name in SPOILT)}


def lossy(make, rate, ops):
    link = make()
    sides = (link.a, link.b)
    before = [counted(side) for side in sides]
    for seed, side in enumerate(sides, 1):
        impair(side.daemon, side.dev, "set", LOSSY.format(rate, seed))
    # At 10% one retry in three makes no progress on an RC QP, and eight such retries in a row break it. With few
    # packets that is unlikely.
    few = ("--qps", "2", "--max-len", "4000") if rate == "10%" else ("--qps", "4")
    rcdata(link, *few, "--ops", str(ops), "--seed", "11")
    rows = [check_books(side, was) for side, was in zip(sides, before)]
    for fault in ("drop", "dup", "reorder", "corrupt"):
        assert sum(row[fault] for row in rows) > 0, (fault, rows)
    stats = [of_device(side.daemon, "stats", side.dev) for side in sides]
    assert sum(s["retransmitted_packets"] for s in stats) > 0, stats
    link.stop()


def link_sockets(port, extra=lib.ONE_WORKER):
    """Two daemons with a port of kernel sockets."""
    dev = f"name=uroce0,port={port},iface=eth0" + (",share=yes" if port == "packet" else "")
    sides = [lib.Side(lib.Daemon([], [dev], ns, extra), "uroce0", v4) for ns, (v4, _) in zip(spaces(9000), ADDRESSES)]
    return lib.Link(port, *sides, 4096)


def rules(link):
    side = link.a
    row = impair(side.daemon, side.dev, "set", "rule:opcode=RC_ACK,nth=3,count=2,action=drop",
                 "rule:opcode=RC_SEND_ONLY,count=1,action=dup")
    assert row["spec"].count("rule:") == 2 and len(row["rules"]) == 2, row
    rcdata(link, "--qps", "1", "--ops", "200", "--seed", "12")
    row = lib.until("no frame waits", lambda: settled(side))
    assert (row["drop"], row["dup"]) == (2, 1), row
    assert [rule["acted"] for rule in row["rules"]] == [2, 1], row
    assert row["rules"][0]["matched"] > 2, row


def delayed(link):
    for side in (link.a, link.b):
        impair(side.daemon, side.dev, "set", "delay=1ms,jitter=200us")
    rcdata(link, "--qps", "2", "--ops", "100", "--seed", "13")
    for side in (link.a, link.b):
        row = lib.until("no frame waits", lambda side=side: settled(side))
        assert row["delay"] > 0 and row["overflow"] == 0, row


def bottleneck(link):
    """Programs get every byte through a link that drops frames when its short queue is full."""
    for side in (link.a, link.b):
        impair(side.daemon, side.dev, "set", "rate=400Mbit,queue=30kB,delay=100us,jitter=50us,ordered=yes")
    rcdata(link, "--qps", "4", "--ops", "200", "--seed", "15")
    rows = [lib.until("no frame waits", lambda side=side: settled(side)) for side in (link.a, link.b)]
    for row in rows:
        assert row["delivered"] == (row["received"] + row["dup"] - row["drop"] - row["overflow"] -
                                    row["queue_drop"]), row
        assert row["overflow"] == 0 and row["queue_bytes"] == 0, row
        assert 0 < row["queue_peak"] <= 30000, row
        assert row["rate"] > 0, row
    assert sum(row["queue_drop"] for row in rows) > 0, rows


def refused(link):
    daemon, dev = link.a.daemon, link.a.dev
    assert "drop: '2' is not a share from 0% to 100%" in impair(daemon, dev, "set", "drop=2", rc=1)
    assert "rule 1: no action=" in impair(daemon, dev, "set", "rule:qpn=1", rc=1)
    assert "queue: needs rate=" in impair(daemon, dev, "set", "queue=10kB", rc=1)
    assert "kmax, which is 1000 B" in impair(daemon, dev, "set", "rate=1Gbit,kmin=2kB,kmax=1kB", rc=1)
    assert "no device 'uroce9'; devices:" in impair(daemon, "uroce9", "show", rc=1)
    assert "legal: set SPEC, show, clear" in impair(daemon, dev, "break", rc=2)
    assert "needs SPEC" in impair(daemon, dev, "set", rc=2)
    assert "longer than" in impair(daemon, dev, "set", "x" * 512, rc=2)
    daemon.socket.parent.chmod(0o755)
    daemon.socket.chmod(0o666)
    nobody = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
    for words in (("set", "drop=1%"), ("clear",)):
        assert "only root" in impair(daemon, dev, *words, rc=1, own=nobody)
    assert impair(daemon, dev, "show", own=nobody)["device"] == dev


def to_itself():
    """Packets of a device to itself pass no port. A device that has no others says so."""
    daemon = lib.Daemon([], ["name=uroce_lo,port=udp,iface=lo"], lib.netns(), lib.ONE_WORKER)
    assert "use two devices" in impair(daemon, "uroce_lo", "set", "drop=1%", rc=1)
    assert impair(daemon, "uroce_lo", "clear")["spec"] is None
    daemon.stop()


def cleared(link):
    side = link.a
    impair(side.daemon, side.dev, "set", "drop=100%")
    assert impair(side.daemon, side.dev, "clear")["spec"] is None
    assert impair(side.daemon, side.dev, "clear")["spec"] is None
    assert impair(side.daemon, side.dev, "show")["spec"] is None
    impair(link.b.daemon, link.b.dev, "clear")
    rcdata(link, "--qps", "2", "--ops", "100", "--seed", "14")


def main():
    lib.need_root()
    for rate, ops in (("0.1%", 3000), ("1%", 1000), ("10%", 30)):
        with lib.case(f"ring: {rate} of each fault"):
            lossy(lib.link_ring, rate, ops)
    with lib.case("memif, two daemons: 1% of each fault"):
        lossy(lib.link_memif, "1%", 500)
    with lib.case("two workers: 1% of each fault"):
        lossy(lambda: lib.link_ring(extra=lib.TWO_WORKERS), "1%", 500)
    for port in ("udp", "packet"):
        with lib.case(f"port {port}: 1% of each fault"):
            lossy(lambda port=port: link_sockets(port), "1%", 500)
        link = link_sockets(port)
        for name, check in (("rules act when and as often as specified", rules), ("a millisecond each way", delayed),
                            ("after clear frames pass unchanged", cleared)):
            with lib.case(f"port {port}: {name}"):
                check(link)
        link.stop()
    with lib.case("port udp, two workers: 1% of each fault"):
        lossy(lambda: link_sockets("udp", lib.TWO_WORKERS), "1%", 500)
    link = lib.link_ring()
    for name, check in (("rules act when and as often as specified", rules),
                        ("a millisecond each way", delayed),
                        ("a bottleneck with a short queue", bottleneck),
                        ("wrong values and other users are refused", refused),
                        ("after clear frames pass unchanged", cleared)):
        with lib.case(name):
            check(link)
    with lib.case("a device whose packets go only to itself"):
        to_itself()
    with lib.case("the daemon ends cleanly while a device is impaired"):
        impair(link.b.daemon, link.b.dev, "set", "delay=5s")
        link.stop()
    lib.finish()


main()
