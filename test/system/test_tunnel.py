#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Port udp in a WireGuard tunnel, set up by the lines of doc/security.md: nothing of RoCE can be read on the network
between the machines, and a packet that comes from outside of the tunnel reaches no device, whatever it contains.

  test_tunnel.py                    with the kernel's WireGuard, or wireguard-go where it has none
  test_tunnel.py figures [ROUNDS]   measures speed with and without the tunnel, in turn; tests nothing
"""
import json
import os
import pathlib
import re
import shutil
import socket
import statistics
import subprocess
import sys

import floods
import lib
from test_flood import Transfer

DOCUMENT = lib.HERE.parent.parent / "doc/security.md"
HEADING = "## A tunnel"
OUTER, INNER = ("192.168.1.20", "192.168.1.21"), ("10.77.0.1", "10.77.0.2")
PLAIN_TEXT = re.compile(rb"rdma-ping-\d+: [A-Za-z]{8}")  # rping's messages
FORGED = 64
# Outer MTU: the MTU of wg0, and the path MTU that RoCE gets.
MTUS = {1500: (1420, 1024), 9000: (8920, 4096)}


def recipe():
    """The line that makes a key, those that set up the tunnel, and uroced's device specification."""
    block, = re.findall(r"^```sh\n(.*?)^```", DOCUMENT.read_text(encoding="utf-8").split(HEADING)[1].split("\n## ")[0], re.M | re.S)
    key, *lines, daemon = block.splitlines()
    assert key.startswith("umask") and daemon.startswith("uroced"), block
    return key, lines, re.search(r"--dev (\S+)", daemon)[1]


def wireguard():
    """Skips the test if this machine has none."""
    name = lib.unique("wg")
    if not shutil.which("wg"):
        lib.skip("wireguard-tools is not installed")
    if subprocess.run(["ip", "link", "add", name, "type", "wireguard"], capture_output=True, check=False).returncode == 0:
        lib.sh("ip", "link", "del", name)
        return "the kernel's WireGuard"
    if not shutil.which("wireguard-go"):
        lib.skip("neither this kernel has WireGuard, nor is wireguard-go installed")
    return "wireguard-go"


class Machine:
    """One of two. Its files are those of the recipe's working folder."""

    def __init__(self, ns, number):
        self.ns, self.number, self.folder, self.tunnel = ns, number, lib.tmpdir(), None
        # The worst case: the kernel takes packets of any source from any interface.
        for name in ("all", "eth0"):
            lib.sh("sysctl", "-qw", f"net.ipv4.conf.{name}.rp_filter=0", ns=ns)

    def key(self, line):
        return lib.sh("bash", "-c", f"cd {self.folder} && {line}").strip()

    def join(self, lines, peer, mtu):
        """Runs the recipe, which is for machine 0, with a separate folder for wireguard-go's socket."""
        text = "\n".join(lines).replace("PEER", peer).replace("mtu 1420", f"mtu {mtu}")
        if self.number:
            for one, two in (OUTER, INNER):
                text = re.sub(rf"\b({re.escape(one)}|{re.escape(two)})\b", lambda m, a=one, b=two: b if m[1] == a else a, text)
        script = f"set -e\ncd {self.folder}\nmkdir -p /run/wireguard\nmount -t tmpfs tmpfs /run/wireguard\n{text}\necho joined\nexec sleep infinity\n"
        self.tunnel = lib.Proc(["bash", "-c", script], self.ns)
        lib.until("the tunnel is set up", lambda: "joined" in self.tunnel.output() or self.tunnel.poll() is not None)
        assert self.tunnel.poll() is None, self.tunnel.output()

    def up(self, yes):
        lib.sh("ip", "-n", self.ns, "link", "set", "wg0", "up" if yes else "down")

    def no_ports(self):
        """Datagrams that the kernel had no socket for."""
        names, values = (line.split()[1:] for line in lib.sh("cat", "/proc/net/snmp", ns=self.ns).splitlines() if line.startswith("Udp:"))
        return int(dict(zip(names, values))["NoPorts"])

    def leave(self):
        subprocess.run(["ip", "-n", self.ns, "link", "del", "wg0"], check=False)
        self.tunnel.kill()


def machines(mtu):
    """Two machines with a tunnel. Without it, each reaches the other's addresses through eth0."""
    spaces = [lib.netns(), lib.netns()]
    lib.veth(spaces[0], f"{OUTER[0]}/24", spaces[1], f"{OUTER[1]}/24", mtu)
    for ns, via in zip(spaces, reversed(OUTER)):
        lib.sh("ip", "-n", ns, "route", "add", "default", "via", via)
    both = [Machine(ns, i) for i, ns in enumerate(spaces)]
    key, lines, spec = recipe()
    keys = [machine.key(key) for machine in both]
    for machine, peer in zip(both, reversed(keys)):
        machine.join(lines, peer, MTUS[mtu][0])
        lib.at_end(machine.leave)
    lib.ping(both[0].ns, INNER[1], 1)
    return both, spec


def link_of(both, spec, hosts=INNER, mtu=1500):
    """A daemon on each machine; {addr}: its address."""
    sides = [lib.Side(lib.Daemon([], [spec.format(addr=host)], m.ns), "uroce0", host) for m, host in zip(both, hosts)]
    return lib.Link(spec, *sides, MTUS[mtu][1])


class Outside:
    """All frames that cross the network between two machines, while in use."""

    def __init__(self, machine):
        self.path = lib.tmpdir() / "outside.pcap"
        self.dump = lib.Proc(["tcpdump", "-i", "eth0", "-U", "-n", "-s", "0", "-B", "65536", "-Z", "root", "-w", self.path], machine.ns)
        lib.until("tcpdump listens", lambda: "listening on" in self.dump.output())

    def end(self):
        """Bytes of the file, and UDP ports that occur in frames."""
        assert self.dump.term() == 0, self.dump.output()
        assert "0 packets dropped by kernel" in self.dump.output(), self.dump.output()
        data, at, ports = self.path.read_bytes(), 24, set()
        while at < len(data):
            size = int.from_bytes(data[at + 8:at + 12], sys.byteorder)
            frame = data[at + 16:at + 16 + size]
            if frame[12:14] == b"\x08\x00" and frame[23] == socket.IPPROTO_UDP:
                ports |= {int.from_bytes(frame[34:36], "big"), int.from_bytes(frame[36:38], "big")}
            at += 16 + size
        return data, ports


def pings(link):
    """rping, whose messages are texts."""
    port = lib.tcp_port()
    server = link.b.spawn(["rping", "-s", "-a", link.b.host, "-p", port, "-S", "1000", "-C", "20", "-V"])
    lib.until("rping listens", lambda: link.b.daemon.show("cm")["cm"])
    link.a.spawn(["rping", "-c", "-a", link.b.host, "-p", port, "-S", "1000", "-C", "20", "-V"]).result(lib.processes.HANGS_S)
    server.result(lib.processes.HANGS_S)


def checked(link):
    """Random data, each byte compared, both ways."""
    lib.verbs_pair(link.b, link.a, lib.RCDATA, ["-d", "{dev}", "--mixed", "--ops", "100", "--timeout", "18"],
                   server_args=["-d", "{dev}", "--timeout", "18"])


def forge(both):
    """Frames that a host of the outer network sends to machine 1, as if they came from machine 0 through the tunnel."""
    macs = [bytes.fromhex(lib.mac_of(machine.ns, "eth0").replace(":", "")) for machine in both]
    way = floods.Way(*macs, *map(socket.inet_aton, INNER))
    with lib.raw_socket(both[0].ns, "eth0") as sock:
        for i in range(FORGED):
            sock.send(floods.roce(way, floods.SEND_ONLY, floods.NO_QP + i, 0, bytes(64)))


def secret(both, spec, mtu):
    """What is sent in the tunnel cannot be seen outside. It can be where there is no tunnel: the same search finds it."""
    for what, where, hosts in (("in the tunnel", spec, INNER), ("beside it", spec.replace("wg0", "eth0"), OUTER)):
        link = link_of(both, where, hosts, mtu)
        with lib.case(f"MTU {mtu}, {what}: transfers, path MTU {link.mtu}"):
            shown = {row["path_mtu"] for side in (link.a, link.b) for row in side.daemon.show("device")["device"]}
            assert shown == {link.mtu}, shown
            outside = Outside(both[1])
            pings(link)
            checked(link)
        with lib.case(f"MTU {mtu}, {what}: RoCE is {'un' * (hosts == INNER)}readable outside"):
            data, ports = outside.end()
            print(f"# {len(data)} bytes, UDP ports {sorted(ports)}, {len(PLAIN_TEXT.findall(data))} messages of rping")
            assert (4791 in ports) == (hosts == OUTER) and (hosts == OUTER or ports == {51820}), ports
            assert bool(PLAIN_TEXT.search(data)) == (hosts == OUTER)
        link.end(f"MTU {mtu}, {what}")


def interrupted(both, link):
    """The tunnel is down for a time, in a transfer. UDP ports that were seen outside."""
    good, outside = Transfer(link), Outside(both[1])
    both[0].up(False)
    lib.until("the link is down", lambda: not link.a.daemon.link_up())
    lib.until("packets are lost", lambda n=link.a.daemon.counters(): link.a.daemon.counters()["ack_timeouts"] > n["ack_timeouts"])
    both[0].up(True)
    lib.until("the link is up", link.a.daemon.link_up)
    good.goes_on()
    assert good.end() == (0, 0), good.client.tail() + good.server.tail()
    return outside.end()[1]


def shut(both, spec):
    """Packets from outside reach a device by its address (addr=), but none that is bound to the tunnel (iface=)."""
    link = link_of(both, spec)
    with lib.case("iface=: forged packets from outside do not reach the daemon"):
        before, unheard = link.b.daemon.counters()["rx_frames"], both[1].no_ports()
        forge(both)
        lib.until("the kernel has refused them", lambda: both[1].no_ports() == unheard + FORGED)
        assert link.b.daemon.counters()["rx_frames"] == before
    with lib.case("iface=: the tunnel goes down and comes up: nothing leaves beside it, and the transfer goes on"):
        assert interrupted(both, link) == {51820}
    link.end("iface=")
    link = link_of(both, "name=uroce0,port=udp,addr={addr}")
    with lib.case("addr=: forged packets from outside do reach it, which is why the recipe has iface="):
        before = link.b.daemon.counters("drops")["bad_qpn"]
        forge(both)
        lib.until("they are dropped", lambda: link.b.daemon.counters("drops")["bad_qpn"] == before + FORGED)
    with lib.case("addr=: the tunnel goes down: packets leave beside it, by the default route"):
        assert 4791 in interrupted(both, link)
    link.end("addr=")


# --- figures -------------------------------------------------------------------------------------

def iperf(both, host):
    """Gb/s of TCP."""
    server = lib.Proc(["iperf3", "-s", "-1"], both[1].ns)
    lib.until("iperf3 listens", lambda: server.listens(5201))
    shown = lib.Proc(["iperf3", "-c", host, "-t", "3", "-J"], both[0].ns).result(lib.processes.HANGS_S)
    server.wait(lib.processes.HANGS_S)
    return json.loads(shown)["end"]["sum_received"]["bits_per_second"] / 1e9


def measured(link, tool, size, column, *args):
    import perftool  # pylint: disable=import-outside-toplevel
    pair = perftool.run(link, tool, "-s", size, "-m", link.mtu, *args, sizes=[size])
    return perftool.rows(pair.client.output())[size][column]


def figures(rounds):
    both, spec = machines(9000)
    links = {"without": link_of(both, spec.replace("wg0", "eth0"), OUTER, 9000)}
    links["with"] = link_of(both, spec, INNER, 9000)
    found = {}
    print(f"{wireguard()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, MTU 9000, medians of {rounds} rounds")
    for _ in range(rounds):
        for name, link in links.items():
            for what, value in (("ib_write_bw, 64 KiB, Gb/s", measured(link, "ib_write_bw", 65536, 2, "-D", "3", "--report_gbits")),
                                ("ib_send_lat, 64 B, us (typical)", measured(link, "ib_send_lat", 64, 3, "-n", "2000")),
                                ("TCP (iperf3), Gb/s", iperf(both, link.b.host))):
                found.setdefault(what, {}).setdefault(name, []).append(value)
    for what, each in found.items():
        print(f"{what:34}" + "".join(f"{name:>9} {statistics.median(v):8.2f} ({min(v):.2f} .. {max(v):.2f})" for name, v in each.items()))
    print(f"load at the end {os.getloadavg()[0]:.1f}")
    for link in links.values():
        link.stop()


def main():
    lib.need_root()
    print(f"# {wireguard()}")
    if sys.argv[1:2] == ["figures"]:
        figures(int(sys.argv[2]) if len(sys.argv) > 2 else 5)
        return
    for mtu in MTUS:
        both, spec = machines(mtu)
        secret(both, spec, mtu)
        if mtu == 1500:
            shut(both, spec)
    lib.finish()


if __name__ == "__main__":
    main()
