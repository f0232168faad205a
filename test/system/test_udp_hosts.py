#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Port udp on unusual hosts: labels of addresses, an interface that is renamed, an address that moves to another
interface, a daemon without descriptors, system calls that fail, forged ICMP errors, memory that the daemon may not
read."""
import errno
import platform
import shutil
import socket

# before lib, which reads the user that this sets
from test_port_udp import NOBODY, UNPRIVILEGED, daemon_of, link_udp, own_folder, uroced

import lib
from hostlink import ADDRESSES, gids, pingpong, spaces

from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.inet6 import ICMPv6PacketTooBig, IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Raw

ETH = "10.9.0.1"


def host():
    """A namespace with eth0, which has an address."""
    ns = lib.netns()
    lib.veth(ns, f"{ETH}/24", lib.netns(), "10.9.0.2/24", 1500)
    return ns


def has(daemon, address):
    return any(address in gid for gid in gids(daemon).values())


def labels():
    """An address with a label (eth0:1) belongs to its interface."""
    ns = host()
    lib.sh("ip", "-n", ns, "addr", "add", "10.9.7.1/24", "dev", "eth0", "label", "eth0:1")
    daemon = daemon_of(ns, "name=uroce0,port=udp,iface=eth0")
    assert has(daemon, ETH) and has(daemon, "10.9.7.1"), gids(daemon)
    daemon.stop()
    daemon = daemon_of(ns, "name=uroce0,port=udp,addr=10.9.7.1")
    assert daemon.show("port")["port"][0]["netdev"] == "eth0"
    assert has(daemon, "10.9.7.1") and daemon.link_up(), gids(daemon)
    daemon.stop()


def only_label():
    """Without options: an interface whose only address has a label gets a device."""
    ns = host()
    lib.sh("ip", "-n", ns, "addr", "flush", "dev", "eth0")
    lib.sh("ip", "-n", ns, "addr", "add", "10.9.7.1/24", "dev", "eth0", "label", "eth0:1")
    daemon = lib.Daemon([], [], ns, (), own_folder() / "uroced.sock", program=uroced(), before=UNPRIVILEGED)
    found = [(d["device"], d["port"]) for d in daemon.show("port")["port"]]
    assert found == [("uroce0", "udp:eth0"), ("uroce_lo", "udp:lo")], found
    daemon.stop()


def rename():
    """The device keeps its interface when that gets another name."""
    ns = host()
    daemon = daemon_of(ns, "name=uroce0,port=udp,iface=eth0")
    before = gids(daemon)
    lib.sh("ip", "-n", ns, "link", "set", "eth0", "down")
    lib.until("the link is down", lambda: not daemon.link_up())
    lib.sh("ip", "-n", ns, "link", "set", "eth0", "name", "wan0")
    lib.sh("ip", "-n", ns, "link", "set", "wan0", "up")
    lib.until("the link is up", daemon.link_up)
    assert gids(daemon) == before, (before, gids(daemon))
    assert daemon.show("port")["port"][0]["netdev"] == "wan0"
    daemon.stop()


def move():
    """The device on an address follows it to another interface."""
    ns = host()
    daemon = daemon_of(ns, f"name=uroce0,port=udp,addr={ETH}")
    lib.sh("ip", "-n", ns, "addr", "del", f"{ETH}/24", "dev", "eth0")
    lib.until("the link is down", lambda: not daemon.link_up())
    assert not has(daemon, ETH), gids(daemon)
    lib.sh("ip", "-n", ns, "addr", "add", f"{ETH}/32", "dev", "lo")
    lib.until("the link is up", daemon.link_up)
    lib.until("the address is a GID again", lambda: has(daemon, ETH))
    assert daemon.show("port")["port"][0]["netdev"] == "lo"
    daemon.stop()


def no_descriptor(spec):
    """A daemon that cannot query the kernel keeps addresses and link, and reads changes later."""
    ns = host()
    daemon = daemon_of(ns, f"name=uroce0,port=udp,{spec}")
    pid = daemon.proc.pid
    limit = ("setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "prlimit", "--pid", pid)
    lib.sh(*limit, "--nofile=3:")
    lib.sh("ip", "-n", ns, "addr", "add", "10.9.7.1/24", "dev", "eth0")
    lib.sh("ip", "-n", ns, "addr", "add", "127.0.0.9/32", "dev", "lo")
    lib.time.sleep(1.5)
    said = daemon.proc.output()
    lib.sh(*limit, "--nofile=1024:")
    assert has(daemon, ETH) and daemon.link_up(), said
    assert "link down" not in said and "addresses of eth0 changed" not in said, said
    if "iface" in spec:
        lib.until("the new address is a GID", lambda: has(daemon, "10.9.7.1"))
    daemon.stop()


# Starts a program with a seccomp filter. The arguments in front of the program: the system call's number, the error,
# and value and number of an argument that must match, or nothing.
FILTERED = """
import ctypes, os, struct, sys
end = sys.argv.index("--")
code = [(0x20, 0, 0, 0)]
call, error, *tests = (int(a) for a in sys.argv[1:end])
tests = [(call, -1)] + list(zip(tests[::2], tests[1::2]))
for i, (value, number) in enumerate(tests):
    code[-1:] = [(0x20, 0, 0, 16 + 8 * number if number >= 0 else 0), (0x15, 0, 2 * (len(tests) - i) - 1, value), None]
code[-1:] = [(6, 0, 0, 0x50000 | error), (6, 0, 0, 0x7FFF0000)]
data = b"".join(struct.pack("<HBBI", *c) for c in code)
program = ctypes.create_string_buffer(data)
filters = ctypes.create_string_buffer(struct.pack("<HxxxxxxQ", len(code), ctypes.addressof(program)))
if ctypes.CDLL(None, use_errno=True).prctl(22, 2, filters, 0, 0):
    sys.exit(f"seccomp: {os.strerror(ctypes.get_errno())}")
os.execv(sys.argv[end + 1], sys.argv[end + 1:])
"""
SOCKET, SETSOCKOPT, RECVMMSG, SENDMMSG = {"x86_64": (41, 54, 299, 307), "aarch64": (198, 208, 243, 269)}[platform.machine()]
UDP_LEVEL, UDP_SEGMENT, UDP_GRO = 17, 103, 104


def filtered(*rules):
    """Command prefix: an ordinary user, for whom these system calls fail."""
    before = UNPRIVILEGED
    for rule in rules:
        before += ("/usr/bin/python3", "-c", FILTERED, *rule, "--")
    return before


def filtered_daemon(ns, *rules):
    return lib.Daemon([], ["name=uroce0,port=udp,iface=eth0"], ns, lib.ONE_WORKER, own_folder() / "uroced.sock",
                      program=uroced(), before=filtered(*rules))


def old_kernel():
    """Without UDP_SEGMENT and UDP_GRO each message is a datagram, and the daemon says so once."""
    lacks = [(SETSOCKOPT, errno.ENOPROTOOPT, UDP_LEVEL, 1, option, 2) for option in (UDP_SEGMENT, UDP_GRO)]
    sides = [lib.Side(filtered_daemon(ns, *lacks), "uroce0", v4) for ns, (v4, _) in zip(spaces(9000), ADDRESSES)]
    link = lib.Link("old", *sides, 4096)
    pingpong(link, "-g", "1", "-m", "1024", "-s", "65536", "-n", "20")
    for side in sides:
        said = side.daemon.proc.output()
        for option in ("UDP_SEGMENT", "UDP_GRO"):
            assert said.count(f"this kernel has no {option}") == 1, said
        count, frames = side.daemon.show("port")["port"][0]["udp"], side.daemon.counters()
        assert count["tx_messages"] == frames["tx_frames"] > 1200, (count, frames)
        assert count["rx_messages"] == frames["rx_frames"] > 1200, (count, frames)
    link.stop()


def no_ipv6():
    """A kernel without IPv6."""
    rule = (SOCKET, errno.EAFNOSUPPORT, socket.AF_INET6, 0)
    sides = [lib.Side(filtered_daemon(ns, rule), "uroce0", v4) for ns, (v4, _) in zip(spaces(1500), ADDRESSES)]
    link = lib.Link("no IPv6", *sides, 1024)
    pingpong(link, "-g", "1", "-s", "65536", "-n", "20")
    lib.groups(link, "::ffff:239.1.2.3", 1)
    link.stop()


def ipv6_only():
    """Hosts without an IPv4 address: the first global address is GID 2, and -g 1 names the indexes that there are."""
    both = spaces(1500)
    for ns in both:
        lib.sh("ip", "-n", ns, "-4", "addr", "flush", "dev", "eth0")
        lib.sh("ip", "-n", ns, "-4", "addr", "flush", "dev", "lo")
    sides = [lib.Side(lib.Daemon([], [], ns, lib.ONE_WORKER, own_folder() / "uroced.sock", program=uroced(), before=UNPRIVILEGED),
                      "uroce0", v6) for ns, (_, v6) in zip(both, ADDRESSES)]
    link = lib.Link("IPv6 only", *sides, 1024)
    for index in ("0", "2"):
        pingpong(link, "-g", index, "-s", "65536", "-n", "20")
    tool = link.a.spawn(["ibv_rc_pingpong", "-g", "1", link.b.host])
    assert tool.wait(60) != 0 and "GID index 1 of uroce0 is empty; indexes: 0, 2" in tool.output(), tool.output()
    server = link.b.spawn(["rping", "-s", "-a", link.b.host, "-C", "5"])
    lib.until("rping listens", lambda: link.b.daemon.show("cm")["cm"])
    link.a.spawn(["rping", "-c", "-a", link.b.host, "-C", "5"]).result(lib.processes.HANGS_S)
    server.result(lib.processes.HANGS_S)
    link.nothing_left()
    link.stop()


def refused_calls():
    """Calls that a sandbox refuses are logged once."""
    for call, text in ((RECVMMSG, "cannot receive: Operation not permitted"),
                       (SENDMMSG, "cannot send: Operation not permitted")):
        both = spaces(1500)
        daemon = filtered_daemon(both[0], (call, errno.EPERM))
        side = lib.Side(daemon, "uroce0", ADDRESSES[0][0])
        client = side.spawn(["ibv_rc_pingpong", "-g", "1"])
        server = lib.Side(daemon_of(both[1], "name=uroce0,port=udp,iface=eth0"), "uroce0", ADDRESSES[1][0])
        peer = server.spawn(["ibv_rc_pingpong", "-g", "1", ADDRESSES[0][0]])
        lib.until("it is logged", lambda d=daemon, t=text: t in d.proc.output())
        assert peer.wait(60) != 0, peer.output()
        client.kill()
        assert daemon.proc.output().count(text) == 1, daemon.proc.output()
        for end in (daemon, server.daemon):
            end.stop()


def forged_icmp():
    """An ICMP error that lowers the kernel's path MTU does not stop QPs, whose path MTU cannot change."""
    link = link_udp(9000)
    near, far = link.a.daemon.ns, link.b.daemon.ns
    (v4, v6), (far_v4, far_v6) = ADDRESSES
    ports = UDP(sport=4791, dport=4791) / Raw(bytes(64))
    errors = (IP(src=far_v4, dst=v4) / ICMP(type=3, code=4, nexthopmtu=576) / IP(src=v4, dst=far_v4) / ports,
              IPv6(src=far_v6, dst=v6) / ICMPv6PacketTooBig(mtu=1280) / IPv6(src=v6, dst=far_v6) / ports)
    for index in ("1", "2"):  # neighbours know each other, and the kernel has routes
        pingpong(link, "-g", index, "-n", "5")
    with lib.raw_socket(far, "eth0") as sock:
        for error in errors:
            sock.send(bytes(Ether(src=lib.mac_of(far, "eth0"), dst=lib.mac_of(near, "eth0")) / error))
    for address, mtu in ((far_v4, "mtu 576"), (far_v6, "mtu 1280")):
        lib.until("the kernel believes it", lambda a=address, m=mtu: m in lib.sh("ip", "-n", near, "route", "get", a))
    for index in ("1", "2"):
        pingpong(link, "-g", index, "-m", "4096", "-s", "65536", "-n", "20")
    link.stop()


def no_file_size():
    """RLIMIT_FSIZE counts shared memory, too: calls fail, and SIGXFSZ does not end the daemon."""
    limit = ("prlimit", "--fsize=16384", "--")
    daemon = lib.Daemon([], ["name=uroce0,port=udp,iface=lo"], lib.netns(), lib.ONE_WORKER,
                        own_folder() / "uroced.sock", program=uroced(), before=(*UNPRIVILEGED, *limit))
    client = daemon.client(["ibv_rc_pingpong", "-d", "uroce0"])
    assert client.wait(60) != 0 and "Couldn't create" in client.output(), client.output()
    assert daemon.show("device")["device"][0]["device"] == "uroce0"
    daemon.stop()


def unusable_memory():
    """The log says why memory cannot be registered."""
    program = lib.public_copy() / "unusable"
    shutil.copy(lib.BUILD / "test/system/unusable", program)
    program.chmod(0o755)
    daemon = daemon_of(lib.netns(), "name=uroce0,port=udp,iface=lo")
    daemon.client([program, "uroce0"]).result(60)
    said = daemon.proc.output()
    assert "cannot register 64 bytes at 0x" in said and "not mapped with the rights" in said, said
    assert "cannot register 4096 bytes at 0x" in said and "cannot be dumped" in said, said
    daemon.stop()


def peers():
    """peer= takes packets of a network only; IPv6 is not in it. Requests of rdma_cm are packets, too."""
    link = link_udp(1500, "iface=eth0,peer=10.8.0.0/16,peer=10.9.0.0/24")
    pingpong(link, "-g", "1", "-n", "50")
    assert not any(side.daemon.counters("drops")["refused_peer"] for side in (link.a, link.b))
    server = link.b.spawn(["ibv_rc_pingpong", "-d", "uroce0", "-g", "2", "-n", "5"])
    lib.until("the server listens", lambda: ":18515" in lib.sh("ss", "-ltn", ns=link.b.daemon.ns))
    client = link.a.spawn(["ibv_rc_pingpong", "-d", "uroce0", "-g", "2", "-n", "5", link.b.host])
    assert client.wait(lib.processes.HANGS_S) != 0, client.output()
    server.kill()
    assert link.b.daemon.counters("drops")["refused_peer"] > 0
    listener = link.b.spawn(["rping", "-s", "-a", ADDRESSES[1][1], "-C", "1"])
    before = link.b.daemon.counters("drops")["refused_peer"]
    lib.until("rping listens", lambda: link.b.daemon.show("cm")["cm"])
    program = link.a.spawn(["rping", "-c", "-a", ADDRESSES[1][1], "-C", "1"])
    lib.until("a REQ was dropped", lambda: link.b.daemon.counters("drops")["refused_peer"] > before)
    program.kill()
    listener.kill()
    link.nothing_left()
    link.stop()


def main():
    lib.need_root()
    with lib.case("an address with a label"):
        labels()
    with lib.case("an interface whose only address has a label"):
        only_label()
    with lib.case("the interface is renamed"):
        rename()
    with lib.case("the address moves to another interface"):
        move()
    for spec in ("iface=eth0", f"addr={ETH}"):
        with lib.case(f"no descriptor is left, {spec}"):
            no_descriptor(spec)
    with lib.case("a kernel without UDP_SEGMENT and UDP_GRO"):
        old_kernel()
    with lib.case("a kernel without IPv6"):
        no_ipv6()
    with lib.case("hosts without an IPv4 address"):
        ipv6_only()
    with lib.case("system calls that are refused"):
        refused_calls()
    with lib.case("no file may grow beyond 16 KiB (RLIMIT_FSIZE)"):
        no_file_size()
    with lib.case("packets of other hosts than peer= names"):
        peers()
    with lib.case("forged ICMP errors"):
        forged_icmp()
    with lib.case("memory that cannot be used: the reason is logged"):
        unusable_memory()
    lib.finish()


if __name__ == "__main__":
    main()
