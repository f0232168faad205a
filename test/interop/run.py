#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""uroce against Linux Soft-RoCE: the guest's rxe and uroced on the two ends of a TAP device.

    run.py                 everything, RoCE MTU 1024 and 4096
    run.py --sockets-only  only the ports packet and udp
    run.py --cm-only       only rdma_cm, on net_af_packet and udp
    run.py --guest-only    two rxe devices in the guest: tests guest, framework and rcdata alone

The programs exchange their parameters by TCP between the kernels' addresses on the TAP (10.77.0.1 here, 10.77.0.2
in the guest). uroced uses 10.77.0.101 with the TAP's MAC. This kernel drops packets to .101, because the address is
not its own and forwarding is off. The ports packet with share=yes and udp use the kernel's address. The host's kernel cuts
their super-frames in front of the TAP, whose other end takes none.
"""
import shutil
import sys

import cm
import errors
import guest as guestlib
from guest import lib

HOST_ADDR = "10.77.0.1"
UROCE_ADDR = "10.77.0.101"
MALFORMED = ("runt", "bad_ip", "bad_udp_length", "bad_tver", "bad_opcode", "bad_pad", "bad_length",
             "bad_icrc")


class GuestSide:
    """The guest as one side of a link, with one of its rxe devices."""

    def __init__(self, guest, dev, host):
        self.guest, self.dev, self.host = guest, dev, host

    def spawn(self, argv):
        return self.guest.spawn("exec " + " ".join(argv))


# Ports on sockets of the kernel: (name, device).
SOCKETS = (("packet", f"port=packet,iface=tap0,addr={UROCE_ADDR}/24"),
           ("packet, share=yes", "port=packet,iface=tap0,share=yes"), ("udp", "port=udp,iface=tap0"))


def tools(mtu):
    """Short runs: (name, tool, arguments). GID 1 is IPv4 on both ends. The emulated guest may need longer for a
    window of packets than the usual ACK timeout of 67 ms: -u 18 is 1 s."""
    perf = ["-d", "{dev}", "-x", "1", "-F", "-m", str(mtu), "-u", "18"]
    yield "ibv_rc_pingpong", "ibv_rc_pingpong", [
        "-d", "{dev}", "-g", "1", "-c", "-n", "100", "-s", "4096", "-m", str(mtu)]
    yield "ibv_rc_pingpong 64 KiB", "ibv_rc_pingpong", [
        "-d", "{dev}", "-g", "1", "-c", "-n", "10", "-s", "65536", "-m", str(mtu)]
    yield "ibv_rc_pingpong -e", "ibv_rc_pingpong", [
        "-d", "{dev}", "-g", "1", "-c", "-e", "-n", "50", "-s", "5000", "-m", str(mtu)]
    for tool in ("ib_send_bw", "ib_write_bw", "ib_read_bw"):
        # The READ depth is the lower limit of the two devices; perftest does not negotiate it.
        reads = ["-o", "16"] if tool == "ib_read_bw" else []
        yield tool, tool, [*perf, *reads, "-n", "200", "-s", "65536", "-t", "16"]
        yield f"{tool} 2 B", tool, [*perf, *reads, "-n", "500", "-s", "2"]
    yield "ib_write_lat", "ib_write_lat", [*perf, "-n", "200", "-s", "64"]


def rcdata(server, client, mtu, ops):
    """Random operations in both directions, with every byte checked."""
    def path(side):
        return "./rcdata" if isinstance(side, GuestSide) else str(lib.RCDATA)

    port = lib.tcp_port()
    args = ["-g", "1", "-p", str(port), "--timeout", "18"]
    plan = ["--qps", "3", "--ops", str(ops), "--depth", "8", "--max-len", "40000",
            "--mtu", str(mtu)]
    lib.run_pair(lambda: server.spawn([path(server), "-d", server.dev, *args]),
                 lambda: client.spawn([path(client), "-d", client.dev, *args, *plan, server.host]),
                 port, 90).good()


def both_ways(a, b, mtu, label, ops, moved, only=None):
    """Runs all cases, or those of these names, with b as server, then with a. Every count in moved() must grow in
    each."""
    for server, client, way in ((b, a, f"{label[0]} -> {label[1]}"),
                                (a, b, f"{label[1]} -> {label[0]}")):
        for name, tool, args in tools(mtu):
            if only and name not in only:
                continue
            with lib.case(f"{way}: {name}, MTU {mtu}"):
                before = moved()
                lib.verbs_pair(server, client, tool, args, timeout=90)
                after = moved()
                assert all(x < y for x, y in zip(before, after)), f"{before} -> {after}"
        with lib.case(f"{way}: rcdata, MTU {mtu}"):
            rcdata(server, client, mtu, ops)


def guest_only():
    guest = guestlib.Guest("two 4200")
    sides = [GuestSide(guest, f"rxe{i}", f"10.78.0.{1 + i}") for i in (0, 1)]

    def moved():
        return [int(guest.run(f"cat /sys/class/infiniband/rxe0/ports/1/hw_counters/{name}")[1])
                for name in ("sent_pkts", "rcvd_pkts")]

    both_ways(*sides, 1024, ("rxe0", "rxe1"), 60, moved)
    with lib.case("the guest ends by itself"):
        guest.stop()


def stats_ok(daemon, but=()):
    """The peer sent no malformed frame."""
    drops = daemon.counters("drops")
    bad = {k: drops[k] for k in MALFORMED if drops[k] and k not in but}
    assert not bad, f"dropped as malformed: {bad}"


def moved_by(daemon):
    """A function that returns counts of a daemon, which grow when frames come and go."""
    def moved():
        stats = daemon.counters("stats")
        return [stats["rx_roce"], stats["tx_frames"]]
    return moved


def sockets(rxe, ns):
    """The ports packet and udp, whose runs of packets leave as super-frames."""
    for name, spec in SOCKETS:
        daemon = lib.Daemon([], [f"name=uroce0,{spec}"], ns)
        ours = lib.Side(daemon, "uroce0", HOST_ADDR)
        both_ways(ours, rxe, 4096, (name, "rxe"), 100, moved_by(daemon),
                  ("ibv_rc_pingpong 64 KiB", "ib_send_bw", "ib_write_bw", "ib_read_bw"))
        with lib.case(f"{name}: super-frames were cut, no frame was malformed"):
            stats_ok(daemon)
            used = daemon.show("port")["port"][0][spec.split(",")[0][5:]]
            assert used["tx_messages"] * 2 < daemon.counters()["tx_frames"], used
        with lib.case(f"{name}: uroced ends cleanly"):
            daemon.stop()


def whole_frames(rxe, ns):
    """A port that takes and gives single frames; errors."""
    for mtu in (4096, 1024):
        dev = f"name=uroce0,port=net_af_packet0,addr={UROCE_ADDR}/24,mtu={mtu}"
        daemon = lib.Daemon([lib.af_packet("tap0")], [dev], ns)
        ours = lib.Side(daemon, "uroce0", HOST_ADDR)
        with lib.case(f"ping uroced from the guest, MTU {mtu}"):
            rc, out = rxe.guest.run(f"ping -c 3 -i 0.2 -W 2 {UROCE_ADDR}", 30)
            assert rc == 0, out
        both_ways(ours, rxe, mtu, ("uroce", "rxe"), 100, moved_by(daemon))
        with lib.case(f"no frame was malformed to uroced, MTU {mtu}"):
            stats_ok(daemon)
        if mtu == 4096:
            errors.run(ours, rxe)
            with lib.case("no frame was malformed in the matrix of errors"):
                stats_ok(daemon, ["bad_length"])  # datagrams longer than their receive
        with lib.case(f"uroced ends cleanly, MTU {mtu}"):
            daemon.stop()


def connections(rxe, ns):
    """rdma_cm on a device with its own address, and on the kernel's."""
    lib.sh("sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=0", "net.ipv6.conf.tap0.disable_ipv6=0", ns=ns)
    lib.sh("ip", "-n", ns, "addr", "add", f"{cm.HOST6}/64", "dev", "tap0", "nodad")
    rc, out = rxe.guest.run(f"ip addr add {cm.PEER6}/64 dev eth0 nodad")
    assert rc == 0, out
    for label, vdevs, dev, addr in (
            ("uroce", [lib.af_packet("tap0")],
             f"port=net_af_packet0,addr={UROCE_ADDR}/24,addr={cm.UROCE6}/64,mtu=4096", UROCE_ADDR),
            ("udp", [], "port=udp,iface=tap0", HOST_ADDR)):
        daemon = lib.Daemon(vdevs, [f"name=uroce0,{dev}"], ns)
        cm.run(lib.Side(daemon, "uroce0", HOST_ADDR), addr, rxe, guestlib.ADDR, label)
        with lib.case(f"rdma_cm, {label}: no frame was malformed, uroced ends cleanly"):
            stats_ok(daemon)
            daemon.stop()


def interop(options):
    ns = lib.netns()
    lib.sh("ip", "-n", ns, "tuntap", "add", "tap0", "mode", "tap")
    lib.sh("ip", "-n", ns, "addr", "add", f"{HOST_ADDR}/24", "dev", "tap0")
    lib.sh("ip", "-n", ns, "link", "set", "tap0", "mtu", "4200", "up")
    guest = guestlib.Guest("tap", ns, "tap0", mtu=4200)
    rxe = GuestSide(guest, "rxe0", guestlib.ADDR)
    if "--sockets-only" not in options:
        connections(rxe, ns)
    if not options:
        whole_frames(rxe, ns)
    if "--cm-only" not in options:
        sockets(rxe, ns)
    with lib.case("the guest's kernel has nothing to complain about"):
        guest.stop()
        assert "BUG" not in guest.proc.output() and "Oops" not in guest.proc.output()


def main():
    lib.need_root()
    for program in ("qemu-system-x86_64", "mmdebstrap"):
        if not shutil.which(program):
            lib.skip(f"{program} is not installed")
    if "--guest-only" in sys.argv[1:]:
        guest_only()
    else:
        interop(sys.argv[1:])
    lib.finish()


main()
