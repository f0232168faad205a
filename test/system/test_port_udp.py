#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Port udp: daemons and clients of an ordinary user without capabilities, on the kernel's addresses."""
import functools
import json
import os
import re
import shutil

NOBODY = 65534
os.environ["UROCE_TEST_UID"] = str(NOBODY)  # before the import of lib, which reads it

from scapy.layers.inet import UDP  # noqa: E402
from scapy.layers.inet6 import IPv6  # noqa: E402
from scapy.layers.l2 import Ether  # noqa: E402
from scapy.packet import Raw  # noqa: E402

import cli  # noqa: E402
import lib  # noqa: E402
import perftool  # noqa: E402
from hostlink import (ADDRESSES, THREE_WORKERS, beside_tcp, follow_kernel, gids, no_drops, no_handoff,  # noqa: E402
                      pingpong, spaces)

UNPRIVILEGED = ("setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups",
                "--inh-caps=-all", "--bounding-set=-all", "--no-new-privs")


@functools.cache
def uroced():
    """A copy of uroced that every user can run."""
    path = lib.public_copy() / "uroced"
    shutil.copy(lib.UROCED, path)
    path.chmod(0o755)
    return path


def own_folder():
    """A new folder owned by the ordinary user."""
    path = lib.tmpdir()
    os.chown(path, NOBODY, NOBODY)
    return path


def daemon_of(ns, dev, extra=lib.ONE_WORKER):
    return lib.Daemon([], [dev], ns, extra, own_folder() / "uroced.sock", program=uroced(), before=UNPRIVILEGED)


def link_udp(mtu=9000, spec="iface=eth0", extra=lib.ONE_WORKER):
    """Two unprivileged daemons in two namespaces. spec: of port udp, with {v4} and {v6}."""
    sides = []
    for ns, (v4, v6) in zip(spaces(mtu), ADDRESSES):
        dev = f"name=uroce0,port=udp,{spec.format(v4=v4, v6=v6)}"
        sides.append(lib.Side(daemon_of(ns, dev, extra), "uroce0", v4))
    return lib.Link("udp", *sides, 4096 if mtu > 4200 else 1024)


def check_no_privilege(daemon):
    """The process and its broker have no capabilities and run as another user."""
    with open(f"/proc/{daemon.proc.pid}/status", encoding="ascii") as file:
        status = file.read()
    assert re.search(r"^CapEff:\s*0+$", status, re.M), status
    assert re.search(r"^CapPrm:\s*0+$", status, re.M), status
    assert re.search(rf"^Uid:\s*{NOBODY}\s+{NOBODY}", status, re.M), status


def zero_checksum(link):
    """RoCE devices send IPv6 datagrams without a UDP checksum. The kernel passes them on."""
    frame = (Ether(src=lib.mac_of(link.a.daemon.ns, "eth0"), dst=lib.mac_of(link.b.daemon.ns, "eth0")) /
             IPv6(src=ADDRESSES[0][1], dst=ADDRESSES[1][1]) / UDP(sport=0xc001, dport=4791, chksum=0) / Raw(bytes(64)))
    before = link.b.daemon.counters()["rx_frames"]
    with lib.raw_socket(link.a.daemon.ns, "eth0") as sock:
        sock.send(bytes(frame))
    lib.until("it arrives", lambda: link.b.daemon.counters()["rx_frames"] > before)


def refusals():
    """Invalid arguments are refused at the start."""
    both = spaces(1500)
    taken = daemon_of(both[0], "name=uroce0,port=udp,addr=10.9.0.1")
    for spec, text in (("addr=10.9.0.1", "UDP port 4791 is in use"), ("addr=10.9.0.77", "no interface has"),
                       ("iface=nothere", "no interface nothere"),
                       ("addr=10.9.0.1,iface=eth0", "one of them, once"), ("addr=10.9.0.1,vlan=7", "the kernel has")):
        try:
            daemon_of(both[0], f"name=uroce0,port=udp,{spec}")
        except lib.processes.Failed as failed:
            assert text in str(failed), failed
        else:
            raise AssertionError(f"{spec}: started")
    taken.stop()


def cut_on_the_wire():
    """Each packet cut from a super-frame has a correct ICRC. The peer is an af_packet port, which sees the IP
    identification."""
    both = spaces(4200)
    # one segment is the interface's limit, so the kernel cuts super-frames before it
    lib.sh("ip", "-n", both[0], "link", "set", "eth0", "gso_max_segs", "1")
    a = daemon_of(both[0], "name=uroce0,port=udp,addr=10.9.0.1")
    b = lib.Daemon([lib.af_packet("eth0")], ["name=uroce0,port=net_af_packet0,addr=10.9.0.102/24,mtu=4096"], both[1])
    link = lib.Link("udp to af_packet", lib.Side(a, "uroce0", "10.9.0.1"), lib.Side(b, "uroce0", "10.9.0.2"), 4096)
    pingpong(link, "-g", "1", "-m", "4096", "-s", "65536", "-n", "100")
    for daemon in (a, b):
        no_drops(daemon, "bad_icrc", "bad_ip", "bad_length")
    link.stop()


def main():
    lib.need_root()
    link = link_udp()
    with lib.case("uid 65534, no capabilities"):
        check_no_privilege(link.a.daemon)
        shown = link.a.daemon.show("port")["port"][0]
        assert (shown["driver"], shown["netdev"], shown["rx_wake"]) == ("udp", "eth0", "port"), shown
    with lib.case("rdma link: the interface and its index"):
        index, = (row["ifindex"] for row in json.loads(lib.sh("ip", "-j", "link", "show", "eth0", ns=link.a.daemon.ns)))
        row, = cli.shown(link.a.daemon, "rdma-link", "rdma", "link", "show", "uroce0/1")
        assert (row["netdev"], row["netdev_index"]) == ("eth0", index), (row, index)
        text = cli.text(link.a.daemon, "rdma", "link", "show", "uroce0/1")
        assert text == "link uroce0/1 state ACTIVE physical_state LINK_UP netdev eth0 \n", text
    for size, iters in ((1, 300), (4097, 300), (65536, 100), (1 << 20, 10)):
        with lib.case(f"ibv_rc_pingpong, {size} bytes"):
            pingpong(link, "-g", "1", "-m", "4096", "-s", str(size), "-n", str(iters))
    for index, kind in ((0, "link-local"), (2, "global")):
        with lib.case(f"IPv6, {kind}"):
            assert index in gids(link.a.daemon), gids(link.a.daemon)
            pingpong(link, "-g", str(index), "-s", "65536", "-n", "50")
    with lib.case("ibv_ud_pingpong"):
        pingpong(link, "-g", "1", "-s", "1024", tool="ibv_ud_pingpong")
    for group, index in (("::ffff:239.1.2.3", 1), ("ff12::1234", 2)):
        with lib.case(f"multicast {group}"):
            lib.groups(link, group, index)
    with lib.case("ibv_uc_pingpong"):
        pingpong(link, "-g", "1", "-n", "100", tool="ibv_uc_pingpong")
    with lib.case("events (-e): the socket wakes the worker"):
        pingpong(link, "-g", "1", "-e", "-n", "200")
    for tool in ("ib_write_bw", "ib_read_bw", "ib_send_bw"):
        with lib.case(tool):
            perftool.run(link, tool, "-m", "4096", "-s", "65536", "-n", "200", sizes=(65536,))
    with lib.case("a concurrent TCP stream"):
        beside_tcp(link)
    with lib.case("no frame was dropped as damaged"):
        for side in (link.a, link.b):
            no_drops(side.daemon, "bad_icrc", "bad_ip", "bad_udp_length", "runt", "not_ours")
    with lib.case("IPv6 without a UDP checksum"):
        zero_checksum(link)
    with lib.case("addresses and the link follow the kernel"):
        follow_kernel(link)
    link.end()
    with lib.case("one address, MTU 1500, two workers"):
        link = link_udp(1500, "addr={v4},sr=off", lib.TWO_WORKERS)
        for _ in range(2):
            pingpong(link, "-g", "1", "-s", "65536", "-n", "50")
        no_handoff(link, 2)
        pingpong(link, "-g", "0", "-n", "50")  # without a link-local address a copy of GID 1
        link.stop()
    with lib.case("three workers: each has a socket, which gets the packets of its QPs"):
        link = link_udp(9000, "iface=eth0,sr=off", THREE_WORKERS)
        for index in ("1", "2") * 3:
            pingpong(link, "-g", index, "-m", "4096", "-s", "65536", "-n", "50")
        no_handoff(link, 3)
        lib.groups(link, "::ffff:239.1.2.3", 1)
        link.nothing_left()
        link.stop()
    with lib.case("one IPv6 address"):
        link = link_udp(1500, "addr={v6}")
        for index in ("0", "2"):
            pingpong(link, "-g", index, "-s", "65536", "-n", "50")
        link.stop()
    with lib.case("super-frames that are cut on the way"):
        cut_on_the_wire()
    with lib.case("refusals"):
        refusals()
    lib.finish()


if __name__ == "__main__":
    main()
