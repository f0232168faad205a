#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Congestion control of running daemons: the policy is chosen in a device's specification and at run time, marked
packets cause CNPs that slow the sender, `urocectl show qp` reports it, errors name the wrong value (CC-01 to CC-04)."""
import json

import lib


def stats(side):
    return next(d["total"] for d in side.daemon.show("stats")["stats"] if d["device"] == side.dev)


def rcdata(link, *plan):
    pair = lib.verbs_pair(link.b, link.a, lib.RCDATA,
                          ["-d", "{dev}", "--json", "--seed", "3", *(plan or ("--qps", "4", "--ops", "400"))],
                          server_args=["-d", "{dev}", "--json"])
    for proc in (pair.server, pair.client):
        assert json.loads(proc.output().splitlines()[-1])["ok"] is True, proc.output()


def marks_lead_to_cnps(link):
    link.a.daemon.ctl("cc", "set", "dcqcn:rate=10000:min=1000", "dev", link.a.dev)
    link.b.daemon.impair(link.b.dev, "set", "ce=10%,seed=1")
    before = stats(link.a), stats(link.b)
    rcdata(link)
    after = stats(link.a), stats(link.b)
    a, b = ({k: now[k] - was[k] for k in now} for now, was in zip(after, before))
    assert b["np_ecn_marked_roce_packets"] > 0, b
    assert 0 < b["np_cnp_sent"] <= b["np_ecn_marked_roce_packets"], b
    assert a["rp_cnp_handled"] > 0 and a["rp_cnp_ignored"] == 0, a
    assert a["rp_cnp_handled"] <= b["np_cnp_sent"], (a, b)
    # b's policy is fixed: it ignores CNPs, and got none because nothing marks packets to a.
    assert b["rp_cnp_handled"] == 0 and a["np_cnp_sent"] == 0, (a, b)
    link.b.daemon.impair(link.b.dev, "clear")


def every_policy_carries_data(link):
    for policy in ("dcqcn-paper", "swift", "timely", "dcqcn:limit=5000", "fixed"):
        for side in (link.a, link.b):
            side.daemon.ctl("cc", "set", policy, "dev", side.dev)
        rcdata(link)


def wrong_values_are_named(link):
    for words, what in (
            (("cubic", "dev", "uroce0"), "legal: fixed, dcqcn, dcqcn-paper, swift, timely"),
            (("swift:g=3", "dev", "uroce0"), "policy swift has no parameter 'g'; legal: rate, limit"),
            (("swift:target=0", "dev", "uroce0"), "target=1 .. 1000000 us")):
        message = link.a.daemon.ctl("cc", "set", *words, rc=1)
        assert what in message, message
    for words in (("set", "swift"), ("set", "dev", "uroce0"), ("get",), ()):
        assert "legal: " in link.a.daemon.ctl("cc", *words, rc=2)


def one_qp(link, prog):
    """What `show qp` prints of the policies of a program's QPs, the one with its own policy first."""
    mine, other = (int(n) for n in prog.output().split("\n")[0].split())
    qps = {q["qpn"]: q for q in link.a.daemon.show("qp")["qp"]}
    return mine, [json.dumps(qps[n]) for n in (mine, other)]


def policy_of_one_qp(link):
    prog = link.a.spawn([lib.BUILD / "test/system/policy", link.a.dev])
    lib.until("the program has set a policy", lambda: "\n" in prog.output() or prog.poll() is not None)
    assert prog.poll() is None, prog.output()
    mine, (own, other) = one_qp(link, prog)
    assert '"swift"' in own and '"swift"' not in other, (own, other)
    link.a.daemon.ctl("cc", "set", "timely", "qp", str(mine), "dev", link.a.dev)
    own, other = one_qp(link, prog)[1]
    assert '"timely"' in own and '"timely"' not in other, (own, other)
    link.a.daemon.ctl("cc", "set", "dcqcn", "dev", link.a.dev)
    assert all('"dcqcn"' in text for text in one_qp(link, prog)[1])
    message = link.a.daemon.ctl("cc", "set", "swift", "qp", "1234567", "dev", link.a.dev, rc=1)
    assert "no QP has the number 1234567" in message, message
    message = link.a.daemon.ctl("cc", "set", "cubic", "qp", str(mine), "dev", link.a.dev, rc=1)
    assert f"QP {mine}: " in message and "legal: fixed" in message, message
    for word in ("0", "x", "16777216"):
        assert "1 to 16777215" in link.a.daemon.ctl("cc", "set", "swift", "qp", word, "dev", "uroce0", rc=2)
    prog.kill()
    link.a.daemon.ctl("cc", "set", "fixed", "dev", link.a.dev)


def probes(link):
    """What each side has sent as probes, and the ACK timeouts of side a."""
    return [stats(side)["sent_probes"] for side in (link.a, link.b)], stats(link.a)["ack_timeouts"]


def no_probes(link):
    """With probe=off nothing but NAKs and the ACK timeout cause retransmissions, and all data arrives."""
    for side in (link.a, link.b):
        side.daemon.impair(side.dev, "set", "drop=2%,seed=1")
        assert side.daemon.ctl("probe", "set", "off", "dev", side.dev)["set"] == [
            {"device": side.dev, "probe": "off"}]
    before = probes(link)
    rcdata(link)
    # The last one of two requests is lost, and nothing behind it shows that.
    link.a.daemon.impair(link.a.dev, "clear")
    link.b.daemon.impair(link.b.dev, "set", "rule:nth=2,count=1,action=drop")
    alone = probes(link)
    rcdata(link, "--qps", "1", "--ops", "1", "--oneway")
    after = probes(link)
    assert after[0] == before[0], (before, after)
    assert after[1] > alone[1], (alone, after)
    for side in (link.a, link.b):
        side.daemon.impair(side.dev, "set", "drop=2%,seed=1")
        side.daemon.ctl("set", "probe", "on", "dev", side.dev)
    rcdata(link)
    assert sum(probes(link)[0]) > sum(after[0]), (after, probes(link))
    for side in (link.a, link.b):
        side.daemon.impair(side.dev, "clear")


def probes_of_one_qp(link):
    prog = link.a.spawn([lib.BUILD / "test/system/policy", link.a.dev])
    lib.until("the program has made its QPs", lambda: "\n" in prog.output() or prog.poll() is not None)
    assert prog.poll() is None, prog.output()
    mine, other = (int(n) for n in prog.output().split("\n")[0].split())

    def shown():
        qps = {q["qpn"]: q["probe"] for q in link.a.daemon.show("qp")["qp"]}
        return qps[mine], qps[other]
    assert shown() == ("on", "on")
    assert link.a.daemon.ctl("set", "probe", "off", "dev", link.a.dev, "qp", str(mine))["set"] == [
        {"device": link.a.dev, "qpn": mine, "probe": "off"}]
    assert shown() == ("off", "on")
    assert next(d["probe"] for d in link.a.daemon.show("device")["device"] if d["device"] == link.a.dev) == "on"
    link.a.daemon.ctl("probe", "set", "off", "dev", link.a.dev)
    assert shown() == ("off", "off")
    link.a.daemon.ctl("probe", "set", "on", "dev", link.a.dev)
    assert shown() == ("on", "on")
    prog.kill()


def probe_key():
    """The key of a device: its QPs begin with it; sr=on excludes it."""
    dev = "name=uroce0,port=net_ring0,addr=10.9.0.101/24,probe=off"
    daemon = lib.Daemon(["net_ring0"], [dev], lib.netns())
    assert [d["probe"] for d in daemon.show("device")["device"]] == ["off"]
    daemon.stop()
    daemon = lib.Daemon(["net_ring0"], [dev.replace("probe=off", "sr=on")], lib.netns())
    message = daemon.ctl("probe", "set", "off", "dev", "uroce0", rc=1)
    assert "selective repeat needs probes" in message, message
    daemon.stop()


def main():
    lib.need_root()
    link = lib.link_memif()
    with lib.case("marked packets cause CNPs, and the sender slows down"):
        marks_lead_to_cnps(link)
    with lib.case("data arrives under every policy, changed at run time"):
        every_policy_carries_data(link)
    with lib.case("a program sets the policy of its QP, an operator that of any"):
        policy_of_one_qp(link)
    with lib.case("probe=off: only NAKs and the ACK timeout cause retransmissions"):
        no_probes(link)
    with lib.case("probes of one QP"):
        probes_of_one_qp(link)
    with lib.case("the device's key probe="):
        probe_key()
    with lib.case("errors name the wrong value"):
        wrong_values_are_named(link)
    link.end()
    lib.finish()


main()
