#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Port packet: super-frames over packet sockets, with a separate MAC and with the interface's."""
import re
import signal
import subprocess

import lib
import perftool
from hostlink import ADDRESSES, THREE_WORKERS, beside_tcp, follow_kernel, gids, no_drops, no_handoff, pingpong, spaces

WIRE_CHECK = lib.BUILD / "test/wire-check"
OWN = "name=uroce0,port=packet,iface=eth0,addr=10.9.0.10{i}/24,addr=fd00::10{i}/64"
SHARE = "name=uroce0,port=packet,iface=eth0,share=yes"
UDP = "name=uroce0,port=udp,iface=eth0"
AF_PACKET = "name=uroce0,port=net_af_packet0,addr=10.9.0.10{i}/24,addr=fd00::10{i}/64"


def side(ns, i, spec, extra=lib.ANY_WORKERS, before=()):
    """Side i (1 or 2). spec: of its device, with {i}."""
    vdevs = [lib.af_packet("eth0")] if "af_packet" in spec else []
    return lib.Side(lib.Daemon(vdevs, [spec.format(i=i)], ns, extra, before=before), "uroce0", ADDRESSES[i - 1][0])


def join(spec_a, spec_b=None, mtu=9000, **more):
    """Two daemons in two namespaces over a veth."""
    specs = (spec_a, spec_b or spec_a)
    sides = [side(ns, i, spec, **more) for i, (ns, spec) in enumerate(zip(spaces(mtu), specs), 1)]
    return lib.Link("packet", *sides, 4096 if mtu > 4200 else 1024)


def port_counters(daemon, kind="packet"):
    return daemon.show("port")["port"][0][kind]


def unreachables(ns):
    """ICMP errors that the kernel of a namespace has sent."""
    out = lib.sh("nstat", "-asz", "IcmpOutDestUnreachs", "Icmp6OutDestUnreachs", ns=ns)
    return sum(float(number) for number in re.findall(r"DestUnreachs\s+(\d+)", out))


def gid_of(daemon, text):
    """Index of the GID that has this text."""
    return next(str(index) for index, gid in gids(daemon).items() if text in gid)


def rc_and_ud(link, v4, v6):
    """v4, v6: texts that the GIDs contain, with {i}."""
    for text in (v4, v6, "fe80"):
        index = gid_of(link.a.daemon, text.format(i=1))
        assert index == gid_of(link.b.daemon, text.format(i=2))
        for size, iters in ((1, 200), (65536, 50), (1 << 20, 5)):
            pingpong(link, "-g", index, "-m", str(link.mtu), "-s", str(size), "-n", str(iters))
    pingpong(link, "-g", "1", "-s", "1024", tool="ibv_ud_pingpong")
    pingpong(link, "-g", "1", "-e", "-n", "100")


def bandwidth(link):
    for tool in ("ib_write_bw", "ib_read_bw", "ib_send_bw"):
        perftool.run(link, tool, "-m", str(link.mtu), "-s", "65536", "-n", "300", sizes=(65536,))


def used_super_frames(link):
    """Both ways, super-frames carried most packets, and nothing was lost or malformed."""
    for s in (link.a, link.b):
        count, stats = port_counters(s.daemon), s.daemon.counters()
        assert count["tx_messages"] * 2 < stats["tx_frames"], (count, stats)
        assert count["rx_messages"] * 2 < stats["rx_frames"], (count, stats)
        assert not any(count[name] for name in ("tx_lost", "rx_truncated", "rx_too_long", "rx_too_many",
                                                "rx_malformed", "rx_no_buffer")), count
        no_drops(s.daemon, "bad_icrc", "bad_ip", "bad_udp_length", "bad_length", "runt")


def lane(spec, v4, v6):
    link = join(spec)
    with lib.case(f"{spec}: RC and UD, IPv4 and IPv6"):
        rc_and_ud(link, v4, v6)
    with lib.case(f"{spec}: bandwidth"):
        bandwidth(link)
    with lib.case(f"{spec}: super-frames both ways"):
        used_super_frames(link)
    return link


def own():
    link = lane(OWN, "10.9.0.10{i}", "fd00::10{i}")
    with lib.case("own MAC: not the interface's"):
        shown = link.a.daemon.show("port")["port"][0]
        assert (shown["driver"], shown["netdev"], shown["rx_wake"]) == ("packet", "eth0", "port"), shown
        assert shown["mac"] != lib.mac_of(link.a.daemon.ns, "eth0"), shown
    with lib.case("own MAC: the kernel pings the device"):
        for address in ("10.9.0.102", "fd00::102"):
            lib.sh("ping", "-c", "2", "-i", "0.2", "-w", "60", address, ns=link.a.daemon.ns)
    with lib.case("own MAC: the interface vanishes and returns"):
        vanish(link, OWN)
    link.stop()


def share():
    link = lane(SHARE, "10.9.0.{i}", "fd00::{i}")
    before = [unreachables(s.daemon.ns) for s in (link.a, link.b)]
    with lib.case("share=yes: a concurrent TCP stream"):
        beside_tcp(link)
    with lib.case("share=yes: the kernel does not reply to RoCE"):
        assert [unreachables(s.daemon.ns) for s in (link.a, link.b)] == before == [0, 0], before
    with lib.case("share=yes: neighbours get one reply"):
        answers_once(link)
    with lib.case("share=yes: addresses and the link follow the kernel"):
        follow_kernel(link)
    with lib.case("share=yes: a route through a gateway"):
        routed()
    with lib.case("share=yes: the interface vanishes and returns"):
        vanish(link, SHARE)
    with lib.case("share=yes: nothing is left, the daemons end cleanly"):
        link.nothing_left()
        link.stop()


def answers_once(link):
    """One ARP request gets one reply."""
    dump = lib.spawn(["tcpdump", "-i", "eth0", "-n", "-l", "arp"], ns=link.a.daemon.ns)
    lib.until("tcpdump listens", lambda: "listening on" in dump.output())
    lib.sh("ip", "-n", link.a.daemon.ns, "neigh", "flush", "all")
    lib.ping(link.a.daemon.ns, "10.9.0.2", 2)
    # tcpdump has printed all before the request for an address that nobody has
    subprocess.run(["ip", "netns", "exec", link.a.daemon.ns, "ping", "-c", "1", "-W", "1", "10.9.0.77"], capture_output=True)

    def as_many():
        asked = len(re.findall(r"who-has 10\.9\.0\.2 tell 10\.9\.0\.1", dump.output()))
        answered = len(re.findall(r"Reply 10\.9\.0\.2 is-at", dump.output()))
        return "who-has 10.9.0.77" in dump.output() and asked == answered > 0
    try:
        lib.until("as many replies as requests", as_many)
    except TimeoutError as late:
        raise AssertionError(f"{late}:\n{dump.output()}") from None
    dump.popen.send_signal(signal.SIGINT)
    dump.wait(60)


def vanish(link, spec):
    """Deletes a's interface and makes one of the same name and MAC."""
    daemon, ns = link.a.daemon, link.a.daemon.ns
    mac = lib.mac_of(ns, "eth0")
    lib.sh("ip", "-n", ns, "link", "del", "eth0")
    for s in (link.a, link.b):
        lib.until("the link is down", lambda s=s: not s.daemon.link_up())
    lib.veth(ns, "10.9.0.1/24", link.b.daemon.ns, "10.9.0.2/24", 9000)
    lib.sh("ip", "-n", ns, "link", "set", "eth0", "address", mac)
    if "share" in spec:  # b's interface has a new MAC
        lib.until("the link is up", daemon.link_up)
        assert not link.b.daemon.link_up()
        mac = link.b.daemon.show("port")["port"][0]["mac"]
        lib.sh("ip", "-n", link.b.daemon.ns, "link", "set", "eth0", "address", mac)
    for s in (link.a, link.b):
        lib.until("the link is up", s.daemon.link_up)
    lib.until("the addresses are there", lambda: any("10.9.0.1" in gid for gid in gids(daemon).values()))
    pingpong(link, "-g", "1", "-m", str(link.mtu), "-s", "65536", "-n", "50")


def routed():
    """Two links of one router, which is the kernel of a third namespace."""
    a, r, b = (lib.netns() for _ in range(3))
    lib.sh("sysctl", "-qw", "net.ipv4.ip_forward=1", ns=r)
    lib.veth(a, "10.9.1.2/24", r, "10.9.1.1/24", 4200)
    lib.sh("ip", "-n", r, "link", "set", "eth0", "name", "eth1")
    lib.veth(b, "10.9.2.2/24", r, "10.9.2.1/24", 4200)
    lib.sh("ip", "-n", r, "link", "set", "eth1", "up")
    lib.sh("ip", "-n", a, "route", "add", "default", "via", "10.9.1.1")
    lib.sh("ip", "-n", b, "route", "add", "10.9.1.0/24", "via", "10.9.2.1")
    sides = [lib.Side(lib.Daemon([], [SHARE], ns), "uroce0", host) for ns, host in ((a, "10.9.1.2"), (b, "10.9.2.2"))]
    link = lib.Link("routed", *sides, 4096)
    perftool.run(link, "ib_write_bw", "-m", "1024", "-s", "65536", "-n", "100", sizes=(65536,))
    used = port_counters(link.a.daemon)
    assert used["tx_messages"] < link.a.daemon.counters()["tx_frames"], used
    link.stop()


def cut_by_kernel(ns):
    """The kernel cuts all super-frames that eth0 sends. A small gso_max_size spares those of two ACKs."""
    lib.sh("ethtool", "-K", "eth0", "tx-udp-segmentation", "off", ns=ns)


def mixed(spec_a, spec_b, v6=True):
    """Different ports over one veth. af_packet takes no super-frames: the other side's kernel cuts them."""
    ends = spaces(4200)
    if "af_packet" in spec_b:
        cut_by_kernel(ends[0])
    a, b = (side(ns, i, spec) for i, (ns, spec) in enumerate(zip(ends, (spec_a, spec_b)), 1))
    link = lib.Link("mixed", a, b, 4096)
    for index in ("1", "2") if v6 else ("1",):
        pingpong(link, "-g", index, "-m", "1024", "-s", "65536", "-n", "100")
    perftool.run(link, "ib_write_bw", "-m", "1024", "-s", "65536", "-n", "200", sizes=(65536,))
    for s in (link.a, link.b):
        no_drops(s.daemon, "bad_icrc", "bad_ip", "bad_udp_length", "bad_length")
    link.stop()


def cut_on_the_wire():
    """The frames that a kernel cuts from super-frames are correct, including their ICRC."""
    ends = spaces(4200)
    cut_by_kernel(ends[0])
    a, b = (side(ns, i, SHARE) for i, ns in enumerate(ends, 1))
    link = lib.Link("cut", a, b, 4096)
    path = lib.tmpdir() / "cut.pcap"
    dump = lib.spawn(["tcpdump", "-i", "eth0", "-Q", "in", "-U", "-n", "-s", "9000", "-B", "65536", "-Z", "root",
                      "-w", path, "udp port 4791"], ns=ends[1])
    lib.until("tcpdump listens", lambda: "listening on" in dump.output())
    pingpong(link, "-g", "1", "-m", "1024", "-s", "65536", "-n", "50")
    got = b.daemon.counters()["rx_roce"]
    lib.until("tcpdump has written what arrived", lambda: lib.frames_in(path) >= got, every=0.5)
    dump.popen.send_signal(signal.SIGINT)
    dump.wait(60)
    done = subprocess.run([WIRE_CHECK, path], text=True, capture_output=True, timeout=120)
    assert int(re.search(r"frames (\d+) ", done.stdout)[1]) > 3000, done
    assert re.search(r"frames (\d+) parsed \1 .*icrc \1", done.stdout), done
    sent = port_counters(a.daemon)
    assert sent["tx_messages"] * 2 < a.daemon.counters()["tx_frames"], sent
    link.stop()


def vlan():
    link = join(OWN + ",vlan=7")
    pingpong(link, "-g", "1", "-m", "4096", "-s", "65536", "-n", "100")
    pingpong(link, "-g", "2", "-m", "4096", "-s", "65536", "-n", "100")
    used_super_frames(link)
    link.stop()


def workers(spec, mtu):
    """Each worker has a socket, which gets the packets of its QPs; also on an interface made anew."""
    link = join(f"{spec},sr=off", mtu=mtu, extra=THREE_WORKERS)
    for text in ("10.9.0.", "fd00:") * 3:
        pingpong(link, "-g", gid_of(link.a.daemon, text), "-s", "65536", "-n", "50")
    no_handoff(link, 3)
    for _ in range(3):
        vanish(link, spec)
    no_handoff(link, 3)
    link.nothing_left()
    link.stop()


def one_socket():
    """The kernel makes no group of sockets: one for all workers."""
    link = join(OWN, extra=THREE_WORKERS, before=("env", "ASAN_OPTIONS=verify_asan_link_order=0", f"LD_PRELOAD={lib.BUILD / 'test/system/libnogroup.so'}"))
    for _ in range(3):
        pingpong(link, "-g", "1", "-s", "65536", "-n", "50")
    for side_ in (link.a, link.b):
        assert "one socket for all workers" in side_.daemon.proc.output(), side_.daemon.proc.tail()
        assert side_.daemon.show("port")["port"][0]["rx_queues"] == 1
    vanish(link, OWN)
    link.stop()


def refusals():
    """Invalid arguments are refused at the start."""
    ns = spaces(1500)[0]
    taken = lib.Daemon([], [SHARE], ns)
    for spec, text in (("share=yes,iface=eth0", "UDP port 4791 of eth0 is taken"), ("iface=nothere", "no interface nothere"),
                       ("addr=10.9.0.7/24", "needs an interface"), ("iface=lo", "not an Ethernet interface"),
                       ("iface=eth0,share=yes,vlan=7", "the kernel has its own"),
                       ("iface=eth0,addr=10.9.0.7", "prefix length")):
        try:
            lib.Daemon([], [f"name=uroce0,port=packet,{spec}"], ns)
        except lib.processes.Failed as failed:
            assert text in str(failed), failed
        else:
            raise AssertionError(f"{spec}: started")
    taken.stop()


def main():
    lib.need_root()
    own()
    share()
    with lib.case("VLAN"):
        vlan()
    for spec, mtu in ((SHARE, 1500), (OWN, 9000)):
        with lib.case(f"{spec}, MTU {mtu}, three workers"):
            workers(spec, mtu)
    with lib.case("three workers with one socket"):
        one_socket()
    with lib.case("frames cut on the way have correct ICRCs"):
        cut_on_the_wire()
    for one, other in ((SHARE, UDP), (OWN, AF_PACKET), (SHARE, OWN)):
        with lib.case(f"mixed: {one} and {other}"):
            mixed(one, other, v6=other != OWN)
    with lib.case("refusals"):
        refusals()
    lib.finish()


main()
