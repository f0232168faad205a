#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Selective repeat between daemons: negotiated over QP1, every byte intact under loss, and the number of retransmitted
packets close to that of lost ones; not used if one side has it off."""
import json
import subprocess

import lib
import perftool


def link(a="auto", b="auto"):
    """Two daemons joined by memif, with sr= of each."""
    sides = []
    ns, path = lib.netns(), lib.tmpdir() / "memif.sock"
    for i, (role, sr) in enumerate((("server", a), ("client", b))):
        vdev = f"net_memif0,role={role},socket={path},socket-abstract=no,bsize=4608"
        dev = f"name=uroce0,port=net_memif0,addr=10.9.0.{101 + i}/24,mtu=4096,sr={sr}"
        sides.append(lib.Side(lib.Daemon([vdev], [dev], ns, lib.ONE_WORKER), "uroce0", "127.0.0.1"))
    return lib.Link("memif", *sides, 4096)


def totals(lnk):
    stats = [side.daemon.counters() for side in (lnk.a, lnk.b)]
    return {name: sum(s[name] for s in stats) for name in stats[0]}


def rcdata(lnk, *plan):
    pair = lib.verbs_pair(lnk.b, lnk.a, lib.RCDATA, ["-d", "{dev}", "--json", *plan],
                          server_args=["-d", "{dev}", "--json"])
    for proc in (pair.server, pair.client):
        assert json.loads(proc.output().splitlines()[-1])["ok"] is True, proc.output()


def lossy(lnk, ops="1500", only=()):
    """Runs rcdata with 1% loss each way; returns the totals and the number of frames lost."""
    rcdata(lnk, "--qps", "1", "--ops", "20", "--seed", "1")  # the daemons have negotiated
    for seed, side in enumerate((lnk.a, lnk.b), 1):
        side.daemon.impair(side.dev, "set", f"drop=1%,seed={seed}")
    rcdata(lnk, "--qps", "2", "--ops", ops, "--seed", "21", *only)
    lost = sum(side.daemon.impair(side.dev, "show")["drop"] for side in (lnk.a, lnk.b))
    return totals(lnk), lost


def writes():
    """WRITEs only: about as many packets are retransmitted as were lost."""
    lnk = link()
    perftool.run(lnk, "ib_write_bw", "-m", "4096", "-n", "50", "-s", "65536", sizes=[65536])
    before = totals(lnk)
    for seed, side in enumerate((lnk.a, lnk.b), 1):
        side.daemon.impair(side.dev, "set", f"drop=1%,seed={seed}")
    perftool.run(lnk, "ib_write_bw", "-m", "4096", "-n", "1000", "-s", "65536", sizes=[65536])
    after = totals(lnk)
    now = {name: after[name] - before[name] for name in after if after[name] != before[name]}
    drops = sum(side.daemon.impair(side.dev, "show")["drop"] for side in (lnk.a, lnk.b))
    # A daemon that does not run for a while loses frames, too: its peer's port is full for 100 ms. Early requests that
    # the responder cannot hold are lost to it. (sim_goodput_with_selective_repeat has neither.)
    lost = drops + now.get("tx_port_down", 0) + now["out_of_sequence_requests"] - now["held_requests"]
    print(f"# lost {lost}, of these injected {drops}; {now}")
    assert drops > 50 and now["selective_retransmissions"] > drops / 2, (drops, now)
    assert now["retransmitted_packets"] <= 1.1 * lost + now.get("sent_probes", 0) + 20, (lost, now)
    lnk.stop()


def agreed():
    lnk = link()
    for _ in range(5):  # the query or its reply may be lost, and its retransmission is too late for a short run
        stats, lost = lossy(lnk)
        if stats["sent_sacks"] > 0:
            break
    assert lost > 20, lost
    assert stats["sent_sacks"] > 0 and stats["rcvd_sacks"] > 0, stats
    assert stats["selective_retransmissions"] > 0 and stats["held_requests"] > 0, stats
    print(f"# lost {lost}, sent again {stats['retransmitted_packets']}, alone "
          f"{stats['selective_retransmissions']}, spurious {stats['spurious_retransmissions']}, "
          f"NAKs {stats['sent_seq_naks']}")
    lnk.stop()


def one_sided(a, b):
    lnk = link(a, b)
    stats, lost = lossy(lnk, "500")
    assert lost > 5, lost
    assert stats["sent_sacks"] == stats["held_requests"] == stats["selective_retransmissions"] == 0, stats
    assert stats["sent_seq_naks"] > 0, stats
    drops = [side.daemon.counters("drops")["sack"] for side in (lnk.a, lnk.b)]
    assert drops == [0, 0], drops
    lnk.stop()


def without_sacks():
    """The network loses every SACK (opcode 0xd1): requests are acknowledged nevertheless."""
    lnk = link()
    rcdata(lnk, "--qps", "1", "--ops", "20", "--seed", "1")  # the daemons have negotiated
    for side in (lnk.a, lnk.b):
        side.daemon.impair(side.dev, "set", "rule:opcode=0xd1,action=drop;drop=1%,seed=3")
    before = totals(lnk)  # a busy machine may lose frames, too
    for _ in range(5):  # as in agreed()
        rcdata(lnk, "--qps", "3", "--ops", "400", "--seed", "9")
        stats = totals(lnk)
        if stats["sent_sacks"] > before["sent_sacks"]:
            break
    assert stats["sent_sacks"] > before["sent_sacks"], stats
    assert stats["rcvd_sacks"] == before["rcvd_sacks"], stats
    lnk.stop()


def probe(side, word):
    return subprocess.run([lib.UROCECTL, "--socket", side.daemon.socket, "probe", "set", word, "dev", side.dev],
                          text=True, capture_output=True, timeout=60)


def no_probes():
    """While QPs use it, probes cannot be switched off; afterwards they can, and no QP uses it any more."""
    lnk = link()
    rcdata(lnk, "--qps", "1", "--ops", "20", "--seed", "1")  # the daemons have negotiated
    server = lnk.a.spawn([lib.RCDATA, "-d", lnk.a.dev, "--json"])
    client = lnk.b.spawn([lib.RCDATA, "-d", lnk.b.dev, "--qps", "1", "--ops", "10000000", lnk.a.host])
    lib.until("a QP uses it",
              lambda: client.poll() is not None or any(q["sr"] == "on" for q in lnk.b.daemon.show("qp")["qp"]))
    done = probe(lnk.b, "off")
    assert done.returncode == 1 and "selective repeat, which needs probes" in done.stdout + done.stderr, done
    for proc in (client, server):
        proc.kill()
    lib.until("the QPs are gone", lambda: not lnk.b.daemon.show("qp")["qp"])
    done = probe(lnk.b, "off")
    assert done.returncode == 0, done
    used = ("sent_sacks", "held_requests", "selective_retransmissions")
    before = lnk.b.daemon.counters()  # the peer knows only at its next query, 2 s later at most
    stats, lost = lossy(lnk, "500")
    assert lost > 5, lost
    after = lnk.b.daemon.counters()
    assert [after[name] for name in used] == [before[name] for name in used], (before, after)
    assert probe(lnk.b, "on").returncode == 0
    stats, lost = lossy(lnk)
    assert stats["sent_sacks"] > before["sent_sacks"], stats
    lnk.stop()


def long_path(sr, least, most):
    """A round trip of 0.5 ms or more: with peers that agree the window grows beyond 128 packets."""
    lnk = link(sr)
    rcdata(lnk, "--qps", "1", "--ops", "20", "--seed", "1")  # the daemons have negotiated
    for side in (lnk.a, lnk.b):
        side.daemon.impair(side.dev, "set", "delay=250us,hold=4096")
    server = lnk.a.spawn([lib.RCDATA, "-d", lnk.a.dev, "--json"])
    client = lnk.b.spawn([lib.RCDATA, "-d", lnk.b.dev, "--qps", "1", "--ops", "10000000", lnk.a.host])
    rows = lib.until("some messages have arrived", lambda: client.poll() is not None or [
        q for q in lnk.b.daemon.show("qp")["qp"] if q["sq_retired"] > 100])
    assert client.poll() is None, client.tail()
    window = lnk.b.daemon.ctl("show", "qp", str(rows[0]["qpn"]))["qp"][0]["window"]
    assert least <= window <= most, window
    for proc in (client, server):
        proc.kill()
    lnk.stop()


def main():
    lib.need_root()
    with lib.case("1% loss, both sides agree: data intact, only lost packets are retransmitted"):
        agreed()
    with lib.case("1% loss of WRITEs: about as many retransmissions as losses"):
        writes()
    with lib.case("all SACKs are lost: data intact"):
        without_sacks()
    for a, b in (("on", "off"), ("off", "auto"), ("auto", "off")):
        with lib.case(f"sr={a} and sr={b}: go-back-N"):
            one_sided(a, b)
    with lib.case("a long path gets a wide window"):
        long_path("auto", 129, 1024)
    with lib.case("a long path, sr=off: the window stays"):
        long_path("off", 1, 128)
    with lib.case("sr=auto: the operator switches probes off, which ends selective repeat"):
        no_probes()
    lib.finish()


main()
