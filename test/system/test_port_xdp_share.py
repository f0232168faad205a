#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""net_af_xdp with share=yes: RoCE goes to the device, all other frames to the kernel."""
import json
import re
import socket
import struct
import sys

import lib
import perftool
from hostlink import ADDRESSES, beside_tcp, follow_kernel, gids, no_drops, pingpong, spaces

MTU = 3000  # what veth takes with XDP
SHARE = "name=uroce0,port=net_af_xdp0,share=yes"
VDEV = "net_af_xdp0,iface=eth0"


def link_share(extra=lib.ONE_WORKER, other=None, huge=False):
    """Two daemons in two namespaces. other: (vdevs, device) of the second one. huge: use huge pages."""
    ends = (([VDEV], SHARE), other or ([VDEV], SHARE))
    sides = [lib.Side(lib.Daemon(vdevs, [dev], ns, extra, huge=huge), "uroce0", v4)
             for (vdevs, dev), ns, (v4, _) in zip(ends, spaces(MTU), ADDRESSES)]
    return lib.Link("af_xdp", *sides, 2048)


def interface(ns):
    return json.loads(lib.sh("ip", "-n", ns, "-j", "link", "show", "dev", "eth0"))[0]


def stays_kernels(link):
    """The interface keeps its MAC, is not promiscuous, and the kernel answers ARP, ND and echo requests once."""
    for side in (link.a, link.b):
        shown, ours = interface(side.daemon.ns), side.daemon.show("port")["port"][0]
        assert shown["address"] == ours["mac"], (shown, ours)
        assert "PROMISC" not in shown["flags"] and "xdp" in shown, shown
        assert {"10.9.0.", "fd00::", "fe80::"} <= {re.match(r"10\.9\.0\.|fd00::|fe80::", g)[0]
                                                   for g in gids(side.daemon).values()}
    before = link.b.daemon.counters()["slow_path"]  # queries of uroced a to QP 1
    for address in ("10.9.0.2", "fd00::2"):
        lib.sh("ip", "-n", link.a.daemon.ns, "neigh", "flush", "dev", "eth0")
        out = lib.sh("ping", "-n", "-c", "5", "-i", "0.2", "-w", "60", address, ns=link.a.daemon.ns)  # until 5 replies
        assert "5 received" in out and "duplicates" not in out, out
    stats = link.b.daemon.counters()
    assert stats["slow_path"] == before, f"the device got frames of the kernel: {stats}"


def unreachables(ns):
    out = lib.sh("nstat", "-asz", "IcmpOutDestUnreachs", "Icmp6OutDestUnreachs", ns=ns)
    return sum(float(number) for number in re.findall(r"DestUnreachs\s+(\d+)", out))


def not_answered(link):
    """Datagrams to RoCE's port reach the device; the kernel replies only to those for other ports."""
    before, drops = unreachables(link.b.daemon.ns), sum(link.b.daemon.counters("drops").values())
    send = ("import socket, sys\n"
            "for host, kind in ((sys.argv[1], socket.AF_INET), (sys.argv[2], socket.AF_INET6)):\n"
            "    s = socket.socket(kind, socket.SOCK_DGRAM)\n"
            "    for i in range(20): s.sendto(bytes(60), (host, int(sys.argv[3])))\n")
    lib.sh(sys.executable, "-c", send, *ADDRESSES[1], "4791", ns=link.a.daemon.ns)
    lib.until("the device has dropped them",
              lambda: sum(link.b.daemon.counters("drops").values()) >= drops + 40)
    assert unreachables(link.b.daemon.ns) == before, "the kernel has answered RoCE"
    lib.sh(sys.executable, "-c", send, *ADDRESSES[1], "4790", ns=link.a.daemon.ns)
    lib.until("the kernel answers another port", lambda: unreachables(link.b.daemon.ns) > before)


def vlan_passes(link):
    """A tagged frame goes to the kernel, even one to RoCE's port."""
    macs = [bytes.fromhex(side.daemon.show("port")["port"][0]["mac"].replace(":", "")) for side in (link.b, link.a)]
    ip = bytes.fromhex("4500002c0001000040110000") + socket.inet_aton("10.9.0.1") + socket.inet_aton("10.9.0.2")
    datagram = struct.pack("!4H", 4791, 4791, 24, 0) + b"within-a-vlan..."
    there, here = (lib.raw_socket(side.daemon.ns, "eth0") for side in (link.b, link.a))
    before = link.b.daemon.counters()["rx_frames"]
    there.settimeout(0.2)
    here.send(macs[0] + macs[1] + b"\x81\x00\x00\x07\x08\x00" + ip + datagram)

    def seen():
        try:
            return b"within-a-vlan" in there.recv(2048)
        except TimeoutError:
            return False

    lib.until("the kernel has it", seen)
    assert link.b.daemon.counters()["rx_frames"] == before, "the device has it"
    here.close()
    there.close()


def routed():
    """A destination behind a router: the kernel's route gives the next hop."""
    link = link_share()
    lib.sh("ip", "-n", link.b.daemon.ns, "addr", "add", "10.66.0.2/32", "dev", "eth0")
    lib.sh("ip", "-n", link.a.daemon.ns, "route", "add", "10.66.0.2/32", "via", "10.9.0.2")
    lib.until("the address is a GID", lambda: "10.66.0.2" in str(gids(link.b.daemon)))
    index = next(str(i) for i, gid in gids(link.b.daemon).items() if "10.66.0.2" in gid)
    lib.verbs_pair(link.b, link.a, "ibv_rc_pingpong", ["-d", "{dev}", "-c", "-g", "1", "-n", "50"],
                   server_args=["-d", "{dev}", "-c", "-g", index, "-n", "50"])
    link.stop()


def refused(spec, text, vdev=VDEV, ns=None):
    ns = ns or spaces(MTU)[0]
    try:
        lib.Daemon([vdev], [spec], ns)
    except lib.processes.Failed as failed:
        assert text in str(failed), failed
    else:
        raise AssertionError(f"{spec}: started")


def killed(link):
    """The interface of a uroced that was killed serves the next one, with port=udp or share=yes."""
    ns = link.a.daemon.ns
    link.a.daemon.proc.kill()
    assert "xdp" in interface(ns), "the kernel detaches the program: this test is superfluous"
    for vdevs, dev in (([], "name=uroce0,port=udp,iface=eth0"), ([VDEV], SHARE)):
        daemon = lib.Daemon(vdevs, [dev], ns)
        pingpong(lib.Link("next", lib.Side(daemon, "uroce0", link.a.host), link.b, 1024), "-g", "1", "-m", "1024")
        daemon.stop()
    assert "xdp" not in interface(ns), interface(ns)


def main():
    lib.need_root()
    link = link_share()
    spaces_of = [side.daemon.ns for side in (link.a, link.b)]
    if "built without clang" in link.a.daemon.proc.output():
        lib.skip("built without clang")
    with lib.case("the kernel keeps the interface"):
        stays_kernels(link)
    for size, iters in ((1, 200), (4097, 100), (65536, 100), (1 << 20, 10)):
        with lib.case(f"ibv_rc_pingpong, {size} bytes"):
            pingpong(link, "-g", "1", "-m", "2048", "-s", str(size), "-n", str(iters))
    for index, kind in (("0", "link-local"), ("2", "global")):
        with lib.case(f"IPv6, {kind}"):
            pingpong(link, "-g", index, "-s", "65536", "-n", "50")
    with lib.case("ibv_ud_pingpong"):
        pingpong(link, "-g", "1", "-s", "1024", tool="ibv_ud_pingpong")
    for tool in ("ib_write_bw", "ib_read_bw"):
        with lib.case(tool):
            perftool.run(link, tool, "-m", "2048", "-s", "65536", "-n", "200", sizes=(65536,))
    with lib.case("a concurrent TCP stream"):
        beside_tcp(link)
    with lib.case("RoCE gets no port unreachable"):
        not_answered(link)
    for group, index in (("::ffff:239.1.2.3", 1), ("ff12::1234", 2)):
        with lib.case(f"multicast {group}"):
            lib.groups(link, group, index)
    with lib.case("a VLAN's frames go to the kernel"):
        vlan_passes(link)
    with lib.case("no frame was dropped as damaged or foreign"):
        for side in (link.a, link.b):
            no_drops(side.daemon, "bad_ip", "bad_udp_length", "not_ours", "udp_port", "ip_protocol",
                     "ethertype")
        no_drops(link.a.daemon, "bad_icrc")
        assert link.b.daemon.counters("drops")["bad_icrc"] <= 40, "more than the test's own datagrams"
    with lib.case("addresses and the link follow the kernel"):
        follow_kernel(link)
        pingpong(link, "-g", "1", "-s", "65536", "-n", "50")
    with lib.case("nothing is left, the daemons end cleanly"):
        link.nothing_left()
        link.stop()
        for ns in spaces_of:
            assert "xdp" not in interface(ns), interface(ns)
    with lib.case("behind a router"):
        routed()
    with lib.case("two workers, one queue"):
        link = link_share(lib.TWO_WORKERS)
        for _ in range(2):
            pingpong(link, "-g", "1", "-s", "65536", "-n", "50")
        link.stop()
    with lib.case("port udp at the other end"):
        link = link_share(other=([], "name=uroce0,port=udp,iface=eth0"))
        pingpong(link, "-g", "1", "-s", "65536", "-n", "100")
        link.stop()
    with lib.case("buffers in huge pages"), perftool.huge_pages(80):
        link = link_share(("--mem", "64", "--mbufs", "2048"), huge=True)
        for side in (link.a, link.b):
            assert "1 worker, adaptive; huge pages" in side.daemon.proc.output(), side.daemon.proc.output()
        pingpong(link, "-g", "1", "-s", "65536", "-n", "100")
        link.nothing_left()
        link.stop()
    with lib.case("after kill -9"):
        link = link_share()
        killed(link)
        link.b.daemon.stop()
    with lib.case("a second device on the interface is refused"):
        ns = spaces(MTU)[0]
        taken = lib.Daemon([], ["name=uroce0,port=udp,iface=eth0"], ns)
        refused(SHARE, "UDP port 4791 of eth0", ns=ns)
        taken.stop()
    with lib.case("refusals"):
        for more, text in (("addr=10.9.0.1/24", "the kernel has its own"), ("mac=02:00:00:00:00:09", "its own"),
                           ("vlan=7", "its own"), ("hostif=roce0", "this port has one")):
            refused(f"{SHARE},{more}", text)
        refused("name=uroce0,port=net_af_packet0,share=yes", "share=yes is for port=packet and net_af_xdp",
                lib.af_packet("eth0"))
        refused(SHARE, "remove xdp_prog=", f"{VDEV},xdp_prog=/dev/null")
        refused("name=uroce0,port=net_ring0,share=yes", "share=yes is for", "net_ring0")
    lib.finish()


main()
