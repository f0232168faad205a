#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""QPs move from one worker to another while they carry traffic: on demand, and after their packets."""
import os
import random
import subprocess
import threading

import lib

WORKERS = 3
EXTRA = ("--workers", str(WORKERS))
MOVES = 60


def set_worker(side, qpn, worker):
    """None: the QP is there. Otherwise the reason of urocectl."""
    done = subprocess.run([lib.UROCECTL, "--socket", side.daemon.socket, "set", "worker", str(worker), "dev", side.dev,
                           "qp", str(qpn)], text=True, capture_output=True, timeout=60)
    assert done.returncode in (0, 1), (done.returncode, done.stderr)
    return None if done.returncode == 0 else done.stderr.strip()


def qps(side):
    return [qp for qp in side.daemon.show("qp")["qp"] if qp["device"] == side.dev]


def move_all(link, rng, refused):
    """Moves each QP to a worker drawn at random. The number of those that are there."""
    moved = 0
    for side in {link.a, link.b}:
        for qp in qps(side):
            why = set_worker(side, qp["qpn"], rng.randrange(WORKERS))
            moved += why is None
            if why is not None:
                refused.add(why.split(": ")[-1] if "stays" in why else "ended")
    return moved


def on_demand(link):
    """Every byte arrives once and in its place, however often QPs move."""
    rng, moved, refused, failed = random.Random(5), 0, set(), []

    def transfer():
        try:
            lib.verbs_pair(link.b, link.a, lib.RCDATA, ["-d", "{dev}", "--qps", "4", "--ops", "1000", "--max-len", "20000"],
                           server_args=["-d", "{dev}"])
        except Exception as error:  # for the thread that waits
            failed.append(error)

    while moved < MOVES:
        traffic = threading.Thread(target=transfer)
        traffic.start()
        while traffic.is_alive():
            moved += move_all(link, rng, refused)
        if failed:
            raise failed[0]
    link.nothing_left()
    print(f"# {moved} moves; refused: {sorted(refused)}")


def write_bw(link, count=4):
    """A WRITE test without end, when data flows on count QPs."""
    port = str(lib.tcp_port())
    words = ["ib_write_bw", "-F", "-x", "1", "-s", "4096", "-q", str(count), "-D", "3600", "-p", port, "-d"]
    server = link.b.spawn([*words, link.b.dev])
    lib.until("the server listens", lambda: server.listens(int(port)))
    client = link.a.spawn([*words, link.a.dev, link.b.host])
    lib.until("data flows", lambda: client.poll() is not None or len(
        [qp for qp in qps(link.a) if qp["sq_retired"] > 100]) == count)
    assert client.poll() is None, client.tail()
    return server, client


def follow(link):
    """Rings join the queues of one worker, and looped back frames have no queue: each pair of QPs ends up on one worker,
    because one of them follows the other."""
    procs = write_bw(link)
    try:
        followed(link)
    finally:
        for proc in procs:
            proc.kill()
    link.nothing_left()


def followed(link):
    def together():
        here, there = qps(link.a), {qp["qpn"]: qp for qp in qps(link.b)}
        return all(qp["worker"] == there[qp["dest_qpn"]]["worker"] for qp in here) and [*here, *there.values()]

    rows = lib.until("each pair is on one worker", together)
    assert any(qp["worker_moves"] for qp in rows), rows
    assert not any(qp["worker_fixed"] or qp["worker_pinned"] for qp in rows), rows
    one = rows[0]
    elsewhere = (one["worker"] + 1) % WORKERS
    lib.until("it moves", lambda: set_worker(link.a, one["qpn"], elsewhere) is None)
    now = {qp["qpn"]: qp for qp in qps(link.a)}[one["qpn"]]
    assert now["worker"] == elsewhere and now["worker_pinned"], now
    # Its peer follows it; it does not follow its peer, because it is pinned.
    rows = lib.until("each pair is on one worker again", together)
    assert {qp["qpn"]: qp for qp in rows}[one["qpn"]]["worker"] == elsewhere, rows
    assert set_worker(link.a, one["qpn"], "auto") is None
    assert not {qp["qpn"]: qp for qp in qps(link.a)}[one["qpn"]]["worker_pinned"]


def urocectl(side, *words):
    done = subprocess.run([lib.UROCECTL, "--socket", side.daemon.socket, *words], text=True, capture_output=True, timeout=60)
    return done.returncode, done.stderr.strip()


def balanced(link):
    """Three busy QPs on one worker: each worker gets one. Then nothing moves, because that is even."""
    procs = write_bw(link, WORKERS)
    for qp in qps(link.a):
        lib.until("it moves", lambda qpn=qp["qpn"]: set_worker(link.a, qpn, 0) is None)
        assert set_worker(link.a, qp["qpn"], "auto") is None
    assert [qp["worker"] for qp in qps(link.a)] == [0] * WORKERS, "the only queue is worker 0's"
    assert urocectl(link.a, "set", "balance", "on") == (0, "")
    lib.until("the QPs are spread", lambda: {qp["worker"] for qp in qps(link.a)} == set(range(WORKERS)))
    then = link.a.daemon.show("daemon")["daemon"][0]
    assert then["balance"] == "on" and then["balance_moves"] == WORKERS - 1, then
    lib.until("it has looked again", lambda: link.a.daemon.show("daemon")["daemon"][0]["balance_rounds"] >= then["balance_rounds"] + 5)
    assert link.a.daemon.show("daemon")["daemon"][0]["balance_moves"] == WORKERS - 1
    assert sorted(qp["worker_pinned"] for qp in qps(link.a)) == [False] + [True] * (WORKERS - 1), qps(link.a)
    assert urocectl(link.a, "set", "balance", "off") == (0, "")
    assert not any(qp["worker_pinned"] for qp in qps(link.a)), qps(link.a)
    assert link.a.daemon.show("daemon")["daemon"][0]["balance"] == "off"
    for wrong in ("maybe", ""):
        assert f"balance '{wrong}' is unknown; legal: on, off" in urocectl(link.a, "set", "balance", wrong)[1]
    for proc in procs:
        proc.kill()
    link.nothing_left()


def alone():
    daemon = lib.Daemon([], ["name=uroce0,port=net_ring_pa,addr=10.9.0.1/24"], lib.netns(), ("--pair", "p", "--workers", "1"))
    assert "balance needs several workers: start uroced with --workers" in urocectl(lib.Side(daemon, "uroce0", ""), "set", "balance", "on")[1]
    daemon.stop()


def unreliable(link):
    """UC QPs that are connected to each other lose nothing while they move: after a lost message the program would never
    end."""
    words = ["-g", "1", "-s", "65536", "-m", "1024", "-d", "{dev}", "-n"]
    rng, moved, failed = random.Random(11), 0, []

    def pingpong():
        try:
            lib.verbs_pair(link.b, link.a, "ibv_uc_pingpong", [*words, "2000"])
        except Exception as error:  # for the thread that waits
            failed.append(error)

    while moved < MOVES:
        traffic = threading.Thread(target=pingpong)
        traffic.start()
        while traffic.is_alive():
            moved += move_all(link, rng, set())
        if failed:
            raise failed[0]
    link.nothing_left()
    print(f"# {moved} moves")


def killed(link):
    """Clients that die while their QPs move leave nothing behind."""
    rng = random.Random(7)
    for i in range(5):
        procs = write_bw(link)
        killer = threading.Thread(target=lambda: [proc.kill() for proc in procs[::1 - 2 * (i % 2)]])
        killer.start()
        move_all(link, rng, set())
        killer.join()
        link.nothing_left()


def refused(link):
    port = str(lib.tcp_port())
    server = link.b.spawn(["ibv_ud_pingpong", "-d", link.b.dev, "-g", "1", "-p", port])
    lib.until("the server has a QP", lambda: qps(link.b))
    qpn = qps(link.b)[0]["qpn"]
    here = qps(link.b)[0]["worker"]
    assert qps(link.b)[0]["worker_fixed"]
    other = (here + 1) % WORKERS
    said = set_worker(link.b, qpn, other)
    assert f"QP {qpn} stays on worker {here}: a UD QP" in said, said
    assert set_worker(link.b, qpn, here) is None
    for wrong in ("3", "-1", "x", ""):
        said = set_worker(link.b, qpn, wrong)
        assert f"worker '{wrong}' is not auto or a number from 0 to {WORKERS - 1}" in said, said
    assert "no QP has the number 5" in set_worker(link.b, 5, 0)
    for words in (["set", "worker", "1", "dev", link.b.dev], ["set", "worker", "dev", link.b.dev, "qp", "5"]):
        done = subprocess.run([lib.UROCECTL, "--socket", link.b.daemon.socket, *words], text=True, capture_output=True,
                              timeout=60)
        assert done.returncode == 2 and "legal: set worker N|auto dev DEVICE qp QPN" in done.stderr, done
    server.kill()
    link.nothing_left()


def main():
    lib.need_root()
    if "UROCE_TEST_WORKERS" in os.environ:
        lib.skip("an amplifier moves QPs, too (test/kit/amplify)")
    link = lib.link_ring(EXTRA)
    with lib.case("data stays right while QPs move on demand"):
        on_demand(link)
    with lib.case("a QP follows its packets, and stays where it is pinned"):
        follow(link)
    with lib.case("clients die while their QPs move"):
        killed(link)
    with lib.case("what cannot move is named"):
        refused(link)
    link.stop()
    veth = lib.link_veth(extra=EXTRA)
    with lib.case("balance: busy QPs of one worker are spread, and stay then"):
        balanced(veth)
    with lib.case("balance with one worker"):
        alone()
    veth.stop()
    loop = lib.link_loop(EXTRA)
    with lib.case("data stays right while QPs of a looped back connection move"):
        on_demand(loop)
    with lib.case("one QP of a looped back connection follows the other, and stays where it is pinned"):
        follow(loop)
    with lib.case("UC QPs of a looped back connection lose nothing while they move"):
        unreliable(loop)
    loop.stop()
    lib.finish()


main()
