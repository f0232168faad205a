#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""hostif=: the kernel's interface beside a device of a port that the kernel does not have. TCP, ping and RDMA
share the device's addresses."""
import collections
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import lib
import perftool

BASE_MTU = 4096


def memif(path, role):
    return f"net_memif0,role={role},socket={path},socket-abstract=no,bsize=8192"


def link_memif(extra=lib.ONE_WORKER, more="", a_hostif=",hostif=roce0", b_hostif=",hostif=roce0"):
    """Two daemons in two namespaces, joined by memif: these have no other interface than lo."""
    sides, path = [], lib.tmpdir() / "memif.sock"
    for i, (role, hostif) in enumerate((("server", a_hostif), ("client", b_hostif))):
        dev = (f"name=uroce0,port=net_memif0,addr=10.9.0.{101 + i}/24,addr=fd00:9::{101 + i}/64,mtu=4096"
               f"{more}{hostif}")
        sides.append(lib.Side(lib.Daemon([memif(path, role)], [dev], lib.netns(), extra), "uroce0",
                              f"10.9.0.{101 + i}"))
    return lib.Link("memif", *sides, BASE_MTU)


def interface(ns, name="roce0"):
    """The kernel's description of the interface, or None if it does not exist."""
    done = subprocess.run(["ip", "-n", ns, "-j", "addr", "show", "dev", name], text=True, capture_output=True)
    return json.loads(done.stdout)[0] if done.returncode == 0 else None


def addresses(ns):
    return {a["local"] for a in interface(ns)["addr_info"]}


def port(side):
    return side.daemon.show("port")["port"][0]


def ping(side, address, *args):
    lib.sh("ping", "-n", "-c", "3", "-i", "0.2", "-w", "60", *args, address, ns=side.daemon.ns)  # until 3 replies


class Stream:
    """A TCP stream from source to an address of sink, until end(). Every byte sent must arrive."""

    def __init__(self, source, sink, address):
        self.begin = time.monotonic()
        number = lib.tcp_port()
        self.server = lib.Proc([sys.executable, "-c",
                                "import socket, sys\n"
                                "s = socket.create_server((sys.argv[1], int(sys.argv[2])), family=socket.AF_INET6 if ':' in "
                                "sys.argv[1] else socket.AF_INET)\n"
                                "print('ready', flush=True)\n"
                                "c, n, b = s.accept()[0], 0, bytearray(1 << 20)\n"
                                "while k := c.recv_into(b): n += k\n"
                                "print('got', n, flush=True)\n", address, number], sink.daemon.ns)
        lib.until("the server listens", lambda: "ready" in self.server.output())
        self.client = lib.Proc([sys.executable, "-c",
                                "import signal, socket, sys\n"
                                "go = [True]\n"
                                "signal.signal(signal.SIGUSR1, lambda *_: go.clear())\n"
                                "s, n, b = socket.create_connection(sys.argv[1:3]), 0, bytes(1 << 17)\n"
                                "while go:\n"
                                "    s.sendall(b)\n"
                                "    if not n: print('sending', flush=True)\n"
                                "    n += len(b)\n"
                                "print('sent', n)\n", address, number], source.daemon.ns)
        lib.until("the stream runs", lambda: "sending" in self.client.output())

    def end(self):
        """Ends it; returns its Gb/s until every byte has arrived."""
        self.client.popen.send_signal(signal.SIGUSR1)
        sent = int(self.client.result(lib.processes.HANGS_S).split()[-1])
        lib.until("every byte has arrived", lambda: f"got {sent}" in self.server.output())
        self.server.wait(lib.processes.HANGS_S)
        return sent * 8 / (time.monotonic() - self.begin) / 1e9


def exact_stream(source, sink, address):
    """Random bytes over TCP arrive as they were sent: each cut segment has its place."""
    number, data = lib.tcp_port(), os.urandom(1 << 24)
    family = "socket.AF_INET6" if ":" in address else "socket.AF_INET"
    receiver = subprocess.Popen(
        ["ip", "netns", "exec", sink.daemon.ns, sys.executable, "-c",
         f"import hashlib, socket, sys\n"
         f"s = socket.create_server(({address!r}, {number}), family={family})\n"
         "print('ready', flush=True)\n"
         "c, _ = s.accept()\n"
         "h = hashlib.sha256()\n"
         "while d := c.recv(1 << 20): h.update(d)\n"
         "print(h.hexdigest())"], stdout=subprocess.PIPE, text=True)
    assert receiver.stdout.readline() == "ready\n"
    sent = subprocess.run(
        ["ip", "netns", "exec", source.daemon.ns, sys.executable, "-c",
         f"import hashlib, socket, sys\n"
         f"d = sys.stdin.buffer.read()\n"
         f"s = socket.create_connection(({address!r}, {number}))\n"
         "s.sendall(d)\n"
         "s.shutdown(socket.SHUT_WR)\n"
         "s.recv(1)\n"
         "print(hashlib.sha256(d).hexdigest())"], input=data, capture_output=True, timeout=lib.processes.HANGS_S)
    got = receiver.communicate(timeout=lib.processes.HANGS_S)[0]
    assert sent.stdout.decode() == got and len(got) == 65, (sent, got)


def pingpong(link, *args):
    lib.verbs_pair(link.b, link.a, "ibv_rc_pingpong", ["-d", "{dev}", "-c", *args])


def beside(link, rdma):
    """RDMA and a TCP stream between the same two addresses at the same time."""
    stream = Stream(link.a, link.b, link.b.host)
    rdma()
    assert stream.client.poll() is None, stream.client.tail()
    stream.end()


def check_interface(link):
    for side in (link.a, link.b):
        shown, ours = interface(side.daemon.ns), port(side)
        assert shown["address"] == ours["mac"], (shown, ours)
        assert shown["mtu"] == ours["link_mtu"], (shown, ours)
        assert ours["hostif"]["name"] == "roce0", ours
        assert {side.host, side.host.replace("10.9.0.", "fd00:9::")} < addresses(side.daemon.ns)
        gid0 = [g["gid"] for g in side.daemon.show("gid")["gid"] if g["index"] == 0][0]
        assert gid0 in addresses(side.daemon.ns), (gid0, addresses(side.daemon.ns))


def through_bottleneck(link):
    """The bottleneck of the receiving device also limits and drops the kernel's TCP traffic."""
    link.b.daemon.impair(link.b.dev, "set", "rate=20Mbit,queue=60kB")
    try:
        stream = Stream(link.a, link.b, link.b.host)
        lib.until("the queue has dropped frames", lambda: link.b.daemon.impair(link.b.dev, "show")["queue_drop"] > 20)
        gbps = stream.end()
        row = link.b.daemon.impair(link.b.dev, "show")
    finally:
        link.b.daemon.impair(link.b.dev, "clear")
    print(f"# {gbps:.4f} Gb/s through a bottleneck of 0.02")
    assert gbps < 0.021, gbps
    assert 0 < row["queue_peak"] <= 60000 and row["rate"] > 0, row


def answers_once(link):
    """One reply each to ARP requests, of five hosts that do not exist, and to echo requests, although kernel and daemon
    have the address. The last echo replies come after all that the kernel has to say to the ARP requests."""
    raw = lib.raw_socket(link.a.daemon.ns, "roce0")
    raw.settimeout(lib.processes.HANGS_S)
    mine = bytes.fromhex(port(link.a)["mac"].replace(":", ""))
    replies = collections.Counter()

    def count_one():
        frame = raw.recv(2048)
        if frame[12:14] == b"\x08\x06" and frame[20:22] == b"\x00\x02" and frame[:6] == mine:
            replies[socket.inet_ntoa(frame[38:42])] += 1

    asking = [f"10.9.0.{host}" for host in range(201, 206)]
    for host in asking:
        raw.send(b"\xff" * 6 + mine + b"\x08\x06\x00\x01\x08\x00\x06\x04\x00\x01" + mine +
                 socket.inet_aton(host) + bytes(6) + socket.inet_aton(link.b.host) + bytes(18))
        while not replies[host]:
            count_one()
    for address in (link.b.host, link.b.host.replace("10.9.0.", "fd00:9::")):
        out = lib.sh("ping", "-n", "-c", "5", "-i", "0.2", "-w", "60", address, ns=link.a.daemon.ns)  # until 5 replies
        assert "duplicates" not in out, out
    raw.settimeout(0)
    with contextlib.suppress(BlockingIOError):
        while True:
            count_one()
    raw.close()
    assert [replies[host] for host in asking] == [1] * len(asking), replies


def kernel_groups(link):
    """The kernel joins a group on the interface: its reports leave, and its datagrams arrive."""
    for side in (link.a, link.b):
        lib.sh("ip", "-n", side.daemon.ns, "route", "add", "239.0.0.0/8", "dev", "roce0")
    code = ("import socket, struct\n"
            "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
            "s.bind(('', 7777))\n"
            "s.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton('239.1.2.3') + "
            f"socket.inet_aton('{link.b.host}'))\n"
            "print('joined', flush=True)\n"
            "print(s.recv(100).decode(), flush=True)\n")
    member = lib.Proc([sys.executable, "-c", code], link.b.daemon.ns)
    lib.until("the kernel has joined", lambda: "joined" in member.output())
    lib.groups(link, "::ffff:239.1.2.3", 1)
    lib.sh(sys.executable, "-c", "import socket\n"
           "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
           "s.sendto(b'by the kernel', ('239.1.2.3', 7777))\n", ns=link.a.daemon.ns)
    lib.until("its datagram arrived", lambda: "by the kernel" in member.output())
    member.wait(lib.processes.HANGS_S)


def change(side, what, address):
    return subprocess.run([lib.UROCECTL, "--socket", side.daemon.socket, "addr", what, address, "dev", side.dev],
                          text=True, capture_output=True, timeout=60)


def addresses_follow(link):
    """urocectl addr changes device and interface together."""
    ns = link.b.daemon.ns
    for address in ("10.9.8.1/24", "10.9.8.2/24", "fd00:8::1/64"):
        done = change(link.b, "add", address)
        assert done.returncode == 0, done
        assert address.split("/")[0] in addresses(ns), addresses(ns)
    lib.sh("ip", "-n", link.a.daemon.ns, "addr", "add", "10.9.8.9/24", "dev", "roce0")
    ping(link.a, "10.9.8.1")
    assert change(link.b, "del", "10.9.8.1").returncode == 0
    assert "10.9.8.1" not in addresses(ns) and "10.9.8.2" in addresses(ns), addresses(ns)
    ping(link.a, "10.9.8.2")
    # an address that the operator has already given to the interface
    lib.sh("ip", "-n", ns, "addr", "add", "10.9.7.7/24", "dev", "roce0")
    done = change(link.b, "add", "10.9.7.7/24")
    assert done.returncode != 0 and "the kernel refuses" in done.stdout + done.stderr, done
    assert "10.9.7.7" not in str(link.b.daemon.show("gid")), "added although it was refused"
    assert change(link.b, "del", "10.9.8.2").returncode == 0
    assert change(link.b, "del", "fd00:8::1").returncode == 0


def down_and_up(link):
    """The interface set down by hand stops TCP, not RDMA."""
    ns, result = link.b.daemon.ns, []
    rdma = threading.Thread(target=lambda: result.append(pingpong(link, "-g", "1", "-s", "65536", "-n", "10000")))
    start = link.b.daemon.counters()["rx_roce"]
    rdma.start()
    lib.until("RDMA runs", lambda: link.b.daemon.counters()["rx_roce"] > start + 100)
    lib.sh("ip", "-n", ns, "link", "set", "roce0", "down")
    down = link.b.daemon.counters()["rx_roce"]
    # it may end while urocectl starts
    lib.until("RDMA continues", lambda: result or link.b.daemon.counters()["rx_roce"] > down + 100)
    lib.sh("ip", "-n", ns, "link", "set", "roce0", "up")
    rdma.join()
    assert len(result) == 1, "RDMA failed"
    ping(link.a, link.b.host)


def link_state():
    """The carrier follows the device's link: a memif client without a server has none."""
    link = link_memif()
    ns = link.b.daemon.ns
    assert interface(ns)["operstate"] != "DOWN", interface(ns)
    link.a.daemon.stop()
    lib.until("the link is down", lambda: not link.b.daemon.link_up())
    lib.until("the interface has no carrier", lambda: "NO-CARRIER" in interface(ns)["flags"])
    link.b.daemon.stop()
    assert interface(ns) is None, "the interface outlived its daemon"


def refused(ns, spec, text, vdev="net_ring0", port_name="net_ring0", before=()):
    try:
        lib.Daemon([vdev], [f"name=uroce0,port={port_name},addr=10.9.0.101/24,{spec}"], ns, before=before)
    except lib.processes.Failed as failed:
        assert text in str(failed), failed
    else:
        raise AssertionError(f"{spec}: started")


def refusals():
    ns = lib.netns()
    lib.sh("ip", "-n", ns, "tuntap", "add", "dev", "taken", "mode", "tap")
    refused(ns, "hostif=taken", "hostif=taken: an interface of that name already exists")
    refused(ns, "hostif=lo", "an interface of that name already exists")
    for name in ("", "sixteenletters12", "a/b", "a:b", "..", "a%d"):
        refused(ns, f"hostif={name}", "a name for a new interface")
    refused(ns, "hostif=roce0", "needs CAP_NET_ADMIN", before=("capsh", "--drop=cap_net_admin", "--", "-c",
                                                                'exec "$0" "$@"'))
    a, b = lib.netns(), lib.netns()
    lib.veth(a, "10.9.0.1/24", b, "10.9.0.2/24", 1500)
    refused(a, "hostif=roce0", "for ports without a kernel interface", lib.af_packet("eth0"), "net_af_packet0")
    lib.Daemon(["net_ring0"], ["name=uroce0,port=net_ring0,addr=10.9.0.101/24,hostif=roce0"], ns).stop()
    assert interface(ns) is None, "the interface is left"


def killed():
    ns = lib.netns()
    daemon = lib.Daemon(["net_ring0"], ["name=uroce0,port=net_ring0,addr=10.9.0.101/24,hostif=roce0"], ns)
    assert interface(ns) is not None
    daemon.proc.kill()
    lib.until("the interface vanishes with the process", lambda: interface(ns) is None)


def pair():
    """One daemon, two devices of --pair; the kernel has one of them."""
    devs = ["name=uroce0,port=net_ring_pa,addr=10.9.0.101/24,hostif=roce0",
            "name=uroce1,port=net_ring_pb,addr=10.9.0.102/24"]
    daemon = lib.Daemon([], devs, lib.netns(), ("--pair", "p", *lib.ONE_WORKER))
    link = lib.Link("ring", lib.Side(daemon, "uroce0", "127.0.0.1"), lib.Side(daemon, "uroce1", "127.0.0.1"), 4096)
    ping(link.a, "10.9.0.102")  # the daemon answers for uroce1
    ping(link.a, "10.9.0.102", "-s", "4000")
    pingpong(link, "-g", "1", "-s", "65536", "-n", "100")
    daemon.stop()


def vlan():
    """A device of a VLAN: its interface is inside it."""
    link = link_memif(more=",vlan=7")
    ping(link.a, link.b.host)
    ping(link.a, "fd00:9::102")
    exact_stream(link.a, link.b, link.b.host)
    pingpong(link, "-g", "1", "-s", "65536", "-n", "50")
    link.stop()


def main():
    lib.need_root()
    link = link_memif()
    with lib.case("the interface has MAC, MTU and addresses of the device"):
        check_interface(link)
    with lib.case("ping, IPv4 and IPv6, also in fragments"):
        for address in ("10.9.0.102", "fd00:9::102"):
            ping(link.a, address)
            ping(link.a, address, "-s", "20000")
            ping(link.b, address.replace("102", "101"), "-s", "3000")
    with lib.case("kernel and daemon reply once"):
        answers_once(link)
    for address in ("10.9.0.102", "fd00:9::102"):
        with lib.case(f"TCP to {address} carries each byte, in super-frames"):
            cut, merged = port(link.a)["hostif"]["super_frames"], port(link.b)["hostif"]["merged"]
            exact_stream(link.a, link.b, address)
            assert port(link.a)["hostif"]["super_frames"] > cut, port(link.a)
            assert port(link.b)["hostif"]["merged"] > merged, port(link.b)
            assert port(link.b)["hostif"]["to_kernel_lost"] == 0, port(link.b)
    with lib.case("TCP the other way"):
        exact_stream(link.b, link.a, link.a.host)
    with lib.case("TCP through a bottleneck of urocectl impair"):
        through_bottleneck(link)
    with lib.case("ibv_rc_pingpong and ib_write_bw on the same addresses"):
        pingpong(link, "-g", "1", "-s", "65536", "-n", "200")
        pingpong(link, "-g", "2", "-s", "65536", "-n", "50")
        perftool.run(link, "ib_write_bw", "-m", "4096", "-s", "65536", "-n", "200", sizes=(65536,))
    with lib.case("ibv_rc_pingpong beside a TCP stream"):
        beside(link, lambda: pingpong(link, "-g", "1", "-m", "4096", "-s", "65536", "-n", "200"))
    with lib.case("ib_write_bw beside a TCP stream"):
        beside(link, lambda: perftool.run(link, "ib_write_bw", "-m", "4096", "-s", "65536", "-n", "200",
                                          sizes=(65536,)))
    with lib.case("UDP 4791 to the device is not answered by the kernel"):
        dropped = sum(link.b.daemon.counters("drops").values())
        before = subprocess.run(["ip", "netns", "exec", link.b.daemon.ns, "nstat", "-az", "IcmpOutDestUnreachs"],
                                text=True, capture_output=True).stdout
        lib.sh(sys.executable, "-c", "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
               f"for i in range(20): s.sendto(bytes(60), ('{link.b.host}', 4791))", ns=link.a.daemon.ns)
        lib.until("the daemon has dropped them", lambda: sum(link.b.daemon.counters("drops").values()) >= dropped + 20)
        after = lib.sh("nstat", "-az", "IcmpOutDestUnreachs", ns=link.b.daemon.ns)
        numbers = [re.search(r"IcmpOutDestUnreachs\s+(\d+)", text)[1] for text in (before, after)]
        assert numbers[0] == numbers[1], numbers
    for group, index in (("::ffff:239.1.2.3", 1), ("ff12::1234", 2)):
        with lib.case(f"multicast {group}"):
            lib.groups(link, group, index)
    with lib.case("the kernel is a member of the same group"):
        kernel_groups(link)
    with lib.case("urocectl addr changes both"):
        addresses_follow(link)
    with lib.case("the interface goes down and up"):
        down_and_up(link)
    with lib.case("every frame is accounted for"):
        for side in (link.a, link.b):
            stats, drops = side.daemon.counters(), side.daemon.counters("drops")
            assert stats["rx_frames"] == stats["rx_roce"] + stats["slow_path"] + sum(drops.values()), (stats, drops)
            assert not any(drops.get(why, 0) for why in ("ip_protocol", "udp_port", "fragment")), drops
    with lib.case("nothing is left"):
        link.nothing_left()
        spaces = [side.daemon.ns for side in (link.a, link.b)]
        link.stop()
        assert not any(interface(ns) for ns in spaces), "an interface is left"
    with lib.case("two workers"):
        link = link_memif(lib.TWO_WORKERS)
        exact_stream(link.a, link.b, link.b.host)
        beside(link, lambda: pingpong(link, "-g", "1", "-s", "65536", "-n", "100"))
        link.stop()
    with lib.case("one side without hostif=: the daemon replies there"):
        link = link_memif(b_hostif="")
        ping(link.a, link.b.host)
        link.stop()
    for name, run in (("carrier", link_state), ("VLAN", vlan), ("--pair", pair), ("refusals", refusals),
                      ("kill -9", killed)):
        with lib.case(name):
            run()
    lib.finish()


main()
