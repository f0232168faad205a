#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Debian's UCX over rc_verbs and ud_verbs: ucx_info's list, and ucx_perftest between two daemons. (ucx_perftest
does not check the received data; test_prog_mpi does.)"""
import os
import re

import lib

TESTS = ("tag_lat", "tag_bw", "tag_sync_lat", "ucp_put_lat", "ucp_put_bw", "ucp_get",
         "stream_lat", "stream_bw", "ucp_am_lat", "ucp_am_bw")
ATOMICS = ("ucp_add", "ucp_fadd", "ucp_swap", "ucp_cswap")
SIZES = (8, 4096, 65536, 1 << 20) if lib.FULL else (8, 65536)


def transports(link):
    proc = link.a.spawn(["ucx_info", "-d"])
    rc = proc.wait(60)
    assert rc == 0, f"status {rc}: {proc.output()}"
    found = re.findall(r"Transport: (\S+)\s+#\s+Device: (\S+)", proc.output())
    for transport in ("rc_verbs", "ud_verbs"):
        assert (transport, "uroce0:1") in found, f"no {transport} on uroce0: {found}"


def perftest(link, tls, test, count, *args, env=None):
    """Server on link.b, client on link.a. The client must have sent at least count frames on this device, because
    UCX has other paths to a peer."""
    before = link.a.daemon.counters()["tx_roce"]
    port = lib.tcp_port()
    argv = [*lib.processes.ucx_perftest(), "-p", str(port)]
    env = {"UCX_TLS": tls, "UCX_NET_DEVICES": "uroce0:1", **(env or {})}
    pair = lib.run_pair(
        lambda: link.b.spawn(argv, env),
        lambda: link.a.spawn([*argv, "-t", test, "-w", "20", "-n", str(count), *args, link.b.host], env),
        port).good()
    final = re.search(r"^Final:\s+(\d+)", pair.client.output(), re.M)
    assert final and int(final[1]) == count, pair.client.output()
    sent = link.a.daemon.counters()["tx_roce"] - before
    assert sent >= count, f"{sent} frames for {count} messages"


def main():
    lib.need_root()
    link = lib.link_veth()
    with lib.case("ucx_info: -d lists rc_verbs and ud_verbs on uroce0:1"):
        transports(link)
    for tls in ("rc", "ud"):
        for test in TESTS:
            for size in SIZES:
                count = 200 if size < 65536 else 50
                with lib.case(f"ucx_perftest: UCX_TLS={tls} -t {test} -s {size}"):
                    perftest(link, tls, test, count, "-s", str(size))
        for test in ATOMICS:
            with lib.case(f"ucx_perftest: UCX_TLS={tls} -t {test} -s 8"):
                perftest(link, tls, test, 200, "-s", "8")
    cpu = min(os.sched_getaffinity(0))
    for tls in ("rc", "ud"):
        with lib.case(f"ucx_perftest: UCX_TLS={tls} -t tag_lat -c {cpu} (pinned to a CPU)"):
            perftest(link, tls, "tag_lat", 200, "-s", "4096", "-c", str(cpu))
        with lib.case(f"ucx_perftest: UCX_TLS={tls} -t tag_bw -T 2 -M multi (threads)"):
            perftest(link, tls, "tag_bw", 200, "-s", "4096", "-T", "2", "-M", "multi")
    link.end()
    lib.finish()


main()
