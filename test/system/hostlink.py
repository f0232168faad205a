# SPDX-License-Identifier: BSD-3-Clause
"""Ports on sockets of the kernel: two namespaces with kernel addresses, a TCP stream beside RDMA, changes of addresses
and links."""
import os
import re
import socket
import threading

import lib

THREE_WORKERS = ("--workers", "3")
ADDRESSES = (("10.9.0.1", "fd00::1"), ("10.9.0.2", "fd00::2"))


def spaces(mtu):
    """Two joined namespaces whose kernels have IPv4 and IPv6 addresses."""
    both = [lib.netns(), lib.netns()]
    lib.veth(both[0], "10.9.0.1/24", both[1], "10.9.0.2/24", mtu)
    for ns, (_, v6) in zip(both, ADDRESSES):
        lib.sh("sysctl", "-qw", "net.ipv6.conf.eth0.accept_dad=0", "net.ipv6.conf.all.disable_ipv6=0",
               "net.ipv6.conf.eth0.disable_ipv6=0", ns=ns)
        lib.sh("ip", "-n", ns, "addr", "add", f"{v6}/64", "dev", "eth0", "nodad")
    for ns in both:
        lib.until("the link-local address may be used",
                  lambda ns=ns: re.search(r"fe80::.*scope link\s*$", lib.sh("ip", "-n", ns, "addr"), re.M))
    return both


def pingpong(link, *args, tool="ibv_rc_pingpong"):
    lib.verbs_pair(link.b, link.a, tool, ["-d", "{dev}", "-c", *args])


def gids(daemon):
    return {g["index"]: g["gid"] for g in daemon.show("gid")["gid"]}


def tcp_stream(link, stop):
    """Sends over kernel TCP from a to b until stop is set; returns (bytes received, bytes sent)."""
    ends = []
    for side in (link.b, link.a):
        with open(f"/run/netns/{side.daemon.ns}", "rb") as ns:
            made = []

            def make():  # setns affects only the calling thread
                setns(ns.fileno())
                made.append(socket.socket())

            thread = threading.Thread(target=make)
            thread.start()
            thread.join()
            ends.extend(made)
    server, client = ends
    server.bind((link.b.host, 9999))
    server.listen()
    client.connect((link.b.host, 9999))
    conn, _ = server.accept()
    got = []

    def drain():
        total = 0
        while True:
            data = conn.recv(1 << 20)
            if not data:
                break
            total += len(data)
        got.append(total)

    drainer = threading.Thread(target=drain)
    drainer.start()
    sent = 0
    while not stop.is_set():
        sent += client.send(bytes(1 << 16))
    client.close()
    drainer.join(lib.processes.HANGS_S)
    return got[0] if got else 0, sent


def setns(fd):
    if lib.ctypes.CDLL(None, use_errno=True).setns(fd, 0):
        raise OSError(lib.ctypes.get_errno(), "setns")


def beside_tcp(link):
    """A TCP stream shares interface and addresses with RDMA; both arrive complete."""
    stop, result = threading.Event(), []
    stream = threading.Thread(target=lambda: result.append(tcp_stream(link, stop)))
    stream.start()
    try:
        pingpong(link, "-g", "1", "-s", "65536", "-n", "300")
    finally:
        stop.set()
        stream.join(60)
    got, sent = result[0]
    assert sent == got and got > 0, result


def no_drops(daemon, *reasons):
    drops = daemon.counters("drops")
    assert not any(drops.get(reason, 0) for reason in reasons), drops


def no_handoff(link, workers):
    """Each worker has received, and none got a packet of another's QPs. With sr=off: queries are to QP 1, of no worker."""
    if "UROCE_TEST_WORKERS" in os.environ:  # an amplifier moves QPs
        return
    for side in (link.a, link.b):
        shown = side.daemon.show("port")["port"][0]
        assert (shown["rx_queues"], shown["tx_queues"]) == (workers, workers), shown
        stats = side.daemon.show("stats")["stats"][0]
        assert stats["total"]["rx_handoff"] == 0, stats
        received = [worker["rx_frames"] for worker in stats["workers"]]
        assert len(received) == workers and all(received), stats


def follow_kernel(link):
    """Addresses and link state follow the kernel's."""
    daemon, ns = link.a.daemon, link.a.daemon.ns
    lib.sh("ip", "-n", ns, "addr", "add", "10.9.7.1/24", "dev", "eth0")
    lib.until("the new address is a GID", lambda: any("10.9.7.1" in g for g in gids(daemon).values()))
    lib.sh("ip", "-n", ns, "addr", "del", "10.9.7.1/24", "dev", "eth0")
    lib.until("it is gone", lambda: not any("10.9.7.1" in g for g in gids(daemon).values()))
    before = gids(daemon)
    lib.sh("ip", "-n", ns, "addr", "del", "10.9.0.1/24", "dev", "eth0")
    lib.until("the first address is gone", lambda: len(gids(daemon)) < len(before))
    lib.sh("ip", "-n", ns, "addr", "add", "10.9.0.1/24", "dev", "eth0")
    lib.until("it is back", lambda: len(gids(daemon)) == len(before))
    assert gids(daemon) == before, (gids(daemon), before)
    lib.sh("ip", "-n", ns, "link", "set", "eth0", "down")
    lib.until("the link is down", lambda: not daemon.link_up())
    lib.sh("ip", "-n", ns, "link", "set", "eth0", "up")
    lib.until("the link is up", daemon.link_up)
