#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Kills a client with SIGKILL in mid-transfer, ten times. The daemon keeps serving, the client's objects are freed,
its peer gets a clean RETRY_EXC, and another transfer is not affected."""
import os
import random
import signal
import time

import lib

TIMES = 3 if lib.SHORT else 10
RETRY_EXC = "status 12"  # IBV_WC_RETRY_EXC_ERR
EXIT_WC_ERROR = 3


# ACK timeouts. The bystander's retries survive a daemon that gets no CPU for a second on a busy machine. Those of a
# victim's peer must run out: eight of 0.13 s, and those in which its daemon got no CPU do not count.
PATIENT, BRIEF = "17", "15"


def run_long(side, port, *plan, host=None, timeout=BRIEF):
    args = [lib.RCDATA, "-d", side.dev, "-p", str(port), "--timeout", timeout, "--stall", "100"]
    return side.spawn([*args, *plan, host] if host else args)


def moving(daemon, proc):
    """Whether messages arrive on all three QPs of a process, which must not have ended."""
    assert proc.poll() is None, f"status {proc.poll()}: {proc.tail()}\n{daemon.proc.tail(1000)}"
    return sum(q["pid"] == proc.pid and q["msn"] > 5 for q in daemon.show("qp")["qp"]) == 3


def kill_once(link, victim_is_client, bystander):
    """Starts a transfer and kills one end while it runs; returns the surviving end."""
    port = lib.tcp_port()
    server = run_long(link.b, port)
    lib.until("server listens", lambda: server.listens(port))
    client = run_long(link.a, port, "--qps", "3", "--duration", "3600000", host=link.b.host)
    victim, peer = (client, server) if victim_is_client else (server, client)
    home = (link.a if victim_is_client else link.b).daemon
    for proc, side in ((client, link.a), (server, link.b)):
        lib.until("the transfer runs", lambda proc=proc, side=side: moving(side.daemon, proc))
    time.sleep(random.random() * 0.7)
    assert victim.poll() is None and peer.poll() is None, victim.tail() + peer.tail()
    os.killpg(victim.pid, signal.SIGKILL)
    lib.until("the victim's objects are gone",
              lambda: home.objects() == bystander(home))
    rc = peer.wait(150)
    assert rc == EXIT_WC_ERROR and RETRY_EXC in peer.output(), f"peer: {rc}\n{peer.tail()}"


def kills(link):
    """One transfer runs throughout, while clients beside it are killed."""
    port = lib.tcp_port()
    server = run_long(link.b, port, timeout=PATIENT)
    lib.until("server listens", lambda: server.listens(port))
    client = run_long(link.a, port, "--qps", "1", "--depth", "4", "--duration", "3600000",
                      host=link.b.host, timeout=PATIENT)
    lib.until("it transfers", lambda: link.a.daemon.counters()["rx_roce"] > 100)
    at_rest = {daemon: daemon.objects() for daemon in link.daemons}
    for n in range(TIMES):
        with lib.case(f"{link.kind}: kill {n + 1}"):
            kill_once(link, n % 2 == 0, at_rest.get)
    with lib.case(f"{link.kind}: the concurrent transfer is complete"):
        lib.enough(client, server)
        assert client.wait(90) == 0 and server.wait(60) == 0, client.tail() + server.tail()
    with lib.case(f"{link.kind}: the daemons still serve clients, nothing is left, and they end cleanly"):
        lib.verbs_pair(link.b, link.a, "ibv_rc_pingpong", ["-d", "{dev}", "-c", "-g", "1"])
        link.nothing_left()
        link.stop()


def main():
    lib.need_root()
    kills(lib.link_veth())
    kills(lib.link_ring())
    lib.finish()


main()
