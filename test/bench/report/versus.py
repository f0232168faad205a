# SPDX-License-Identifier: BSD-3-Clause
"""The same transfer with uroce and with the usual alternatives, directly one after the other."""
import contextlib
import json
import os
import re

import machine
import processes
from goals import Sample

JUMBO = 9000
MIB = 1 << 20


def start(argv, ns=None, env=None):
    """A process whose standard output is separate from standard error, so that it can be parsed."""
    return processes.Proc(argv, ns, env, apart=True)


def pair(server, client, port, timeout=60):
    """Runs a server and, when it listens on port, a client; both arguments are functions that start a
    process. Returns the client's output if both succeed."""
    return processes.run_pair(server, client, port, timeout).good().client.output()


class Veth:
    """Two namespaces joined by a veth pair; both ends are eth0, with 10.9.0.1 and 10.9.0.2."""

    def __init__(self, mtu):
        self.ns = (processes.netns(), processes.netns())
        processes.veth(self.ns[0], "10.9.0.1/24", self.ns[1], "10.9.0.2/24", mtu)
        self.server_host = "10.9.0.2"

    def remove(self):
        for ns in self.ns:
            processes.remove_netns(ns)


class KernelLink(Veth):
    """
    Both ends of such a link with a daemon whose port is a socket of the kernel on eth0, or af_packet.
    placed  each side has one CPU, for its worker and its program, as two machines would; otherwise the
            scheduler decides
    """

    def __init__(self, kind, mtu, placed=False):
        super().__init__(mtu)
        cpus = sorted(os.sched_getaffinity(0))
        self.cpus = (cpus[0], cpus[-1]) if placed and len(cpus) > 1 else None
        self.daemons = [self._daemon(i, kind, mtu) for i in (0, 1)]

    def _daemon(self, i, kind, mtu):
        vdevs, dev = [], f"name=uroce0,port={kind},iface=eth0"
        if kind == "packet":
            dev += ",share=yes"
        if kind == "af_packet":
            vdevs = ["net_af_packet0,iface=eth0,blocksz=16384,framesz=8192,framecnt=1024,qpairs=1,qdisc_bypass=1"]
            path = 4096 if mtu > 4200 else 1024
            dev = f"name=uroce0,port=net_af_packet0,addr=10.9.0.{101 + i}/24,mtu={path}"
        extra = ("--lcores", self.cpus[i]) if self.cpus else ()
        return processes.Daemon(machine.program("uroced"), vdevs, [dev], self.ns[i], extra)

    def start(self, side, argv, env=None):
        """A verbs program on this side."""
        daemon = self.daemons[side]
        before = ("taskset", "-c", str(self.cpus[side])) if self.cpus else ()
        return start([machine.program("uroce-run"), "--socket", daemon.socket, *before, *argv], daemon.ns, env)

    def close(self):
        for daemon in self.daemons:
            with contextlib.suppress(TimeoutError):
                daemon.proc.term()
            daemon.proc.kill()
        self.remove()


class Local:
    """
    uroce's link within a host: one daemon with one device that connects to itself.
    placed  the worker runs on the last CPU and both programs on the first, as doc/tuning.md recommends
            for two programs that wait for each other; otherwise the scheduler decides
    """

    def __init__(self, placed=False):
        dev = "name=uroce0,port=net_ring0,addr=10.9.0.101/24,mtu=4096"
        cpus = sorted(os.sched_getaffinity(0))
        placed = placed and len(cpus) > 1
        self.daemon = processes.Daemon(machine.program("uroced"), ["net_ring0"], [dev], processes.netns(),
                                       ("--lcores", cpus[-1]) if placed else ())
        self.before = ("taskset", "-c", str(cpus[0])) if placed else ()
        self.server_host = "127.0.0.1"

    def start(self, argv, env=None):
        """A verbs program on this link."""
        run = [machine.program("uroce-run"), "--socket", self.daemon.socket, *self.before, *argv]
        return start(run, self.daemon.ns, env)

    def close(self):
        with contextlib.suppress(TimeoutError):
            self.daemon.proc.term()
        self.daemon.proc.kill()


def perftest_line(output):
    """The fields of perftest's one line of results."""
    for line in reversed(output.splitlines()):
        if re.match(r"\s*\d+\s+\d+\s+[\d.]", line):
            return [float(x) for x in line.split()]
    raise ValueError(f"no line of results: {output[-200:]!r}")


def ucx_line(output):
    """ucx_perftest's line of results: count, latency (50 %, average, overall), MB/s (average,
    overall), messages/s (average, overall)."""
    for line in output.splitlines():
        if line.startswith("Final:"):
            return [float(x) for x in line.split()[1:]]
    raise ValueError(f"no line of results: {output[-200:]!r}")


def perftest(link, tool, *args, timeout=60):
    """Runs a perftest server and client over uroce's link. Returns the line of results."""
    port = processes.tcp_port()
    argv = [tool, "-d", "uroce0", "-x", "1", "-F", "-p", port, *args]
    return perftest_line(pair(lambda: link.start(argv),
                              lambda: link.start([*argv, link.server_host]), port, timeout))


def perftest_across(link, tool, *args, timeout=60):
    """The same from side 0 to side 1 of a KernelLink."""
    port = processes.tcp_port()
    argv = [tool, "-d", "uroce0", "-x", "1", "-F", "-p", port, *args]
    return perftest_line(pair(lambda: link.start(1, argv),
                              lambda: link.start(0, [*argv, link.server_host]), port, timeout))


def ucx(start_server, start_client, host, test, size, count):
    port = processes.tcp_port()
    argv = [*processes.ucx_perftest(), "-p", port]
    out = pair(lambda: start_server(argv),
               lambda: start_client([*argv, "-t", test, "-s", size, "-n", count, "-w", count // 10 + 1, host]), port)
    return ucx_line(out)


def ucx_tcp(test, size, count):
    """UCX over TCP, on a veth pair with jumbo frames."""
    link = Veth(JUMBO)
    env = {"UCX_TLS": "tcp", "UCX_NET_DEVICES": "eth0"}
    try:
        return ucx(lambda argv: start(argv, link.ns[1], env),
                   lambda argv: start(argv, link.ns[0], env), link.server_host, test, size, count)
    finally:
        link.remove()


def ucx_rc(test, size, count, placed=False):
    """UCX over uroce's RC, within the host."""
    env = {"UCX_TLS": "rc", "UCX_NET_DEVICES": "uroce0:1"}
    with contextlib.closing(Local(placed)) as link:
        return ucx(lambda argv: link.start(argv, env), lambda argv: link.start(argv, env),
                   link.server_host, test, size, count)


def iperf3(seconds, client_ns, server_ns, host):
    """Gb/s of one TCP stream with 1 MiB writes."""
    port = processes.tcp_port()
    out = pair(lambda: start(["iperf3", "-s", "-1", "-p", port], server_ns),
               lambda: start(["iperf3", "-c", host, "-p", port, "-J", "-l", MIB, "-t", seconds], client_ns), port)
    return json.loads(out)["end"]["sum_received"]["bits_per_second"] / 1e9


def local_bw(seconds):
    """Gb/s of ib_write_bw over uroce within the host."""
    with contextlib.closing(Local(placed=True)) as link:
        return perftest(link, "ib_write_bw", "-s", MIB, "-D", seconds, "-t", 16)[3] * MIB * 8 / 1e9


def tcp_goodput(plan):
    """1 MiB messages: iperf3 over TCP on a veth pair; ib_write_bw over uroce within the host."""
    link = Veth(JUMBO)
    try:
        tcp = iperf3(plan.seconds(3), *link.ns, link.server_host)
    finally:
        link.remove()
    return {"local: goodput, 1 MiB": Sample(local_bw(plan.seconds(3)), tcp,
                                            f"TCP {tcp:.1f} Gb/s by iperf3; uroce by ib_write_bw")}


def tcp_loopback(plan):
    """The same with TCP over lo."""
    ns = processes.netns()
    try:
        tcp = iperf3(plan.seconds(3), ns, ns, "127.0.0.1")
    finally:
        processes.remove_netns(ns)
    return {"local: goodput, 1 MiB, loopback": Sample(local_bw(plan.seconds(3)), tcp,
                                                      f"TCP {tcp:.1f} Gb/s by iperf3; uroce by ib_write_bw")}


def tcp_veth(kind, mtu):
    """Group: 1 MiB messages from client to client of two daemons, and iperf3, over one veth pair."""
    def call(plan):
        with contextlib.closing(KernelLink(kind, mtu)) as link:
            tcp = iperf3(plan.seconds(3), *link.ns, link.server_host)
            line = perftest_across(link, "ib_write_bw", "-s", MIB, "-D", plan.seconds(3), "-t", 16)
        return {f"{kind}: goodput, 1 MiB, MTU {mtu}": Sample(
            line[3] * MIB * 8 / 1e9, tcp, f"TCP {tcp:.1f} Gb/s by iperf3; uroce by ib_write_bw")}
    return call


def tcp_veth_latency(kind):
    """
    Group: 64 B between two processes, half the round-trip time, median, over one veth pair. TCP's two
    processes have a core each; uroce's four cannot be faster than bare sockets of four such processes.
    """
    def call(plan):
        env = {"UCX_TLS": "tcp", "UCX_NET_DEVICES": "eth0"}
        possible, words = None, ""
        with contextlib.suppress(machine.Missing):
            bare = machine.run_limits("sockets", "--port", kind, "--link-mtu", JUMBO, "--runs", 3)
            possible = bare["rows"][0]["handed_over"]["least"]
            words = ("bare sockets, of processes that share each core with the programs and yield to them: "
                     f"{possible:.3g} us")
        with contextlib.closing(KernelLink(kind, JUMBO, placed=True)) as link:
            tcp = ucx(lambda argv: start(argv, link.ns[1], env), lambda argv: start(argv, link.ns[0], env),
                      link.server_host, "tag_lat", 64, 20000)[1]
            line = perftest_across(link, "ib_send_lat", "-s", 64, "-n", 20000)
        return {f"{kind}: latency, 64 B": Sample(
            line[4], tcp, f"TCP {tcp:.2f} us by UCX; uroce by ib_send_lat, on each side the program and the worker on "
            "one CPU", possible=possible, possible_by=words)}
    return call


def client_veth(kind):
    """Group: 1 MiB messages between clients of two daemons, over the port and over af_packet."""
    def measure(port, plan):
        with contextlib.closing(KernelLink(port, JUMBO)) as link:
            sockets = [daemon.socket for daemon in link.daemons]
            doc = machine.run_bench("client", "--socket", sockets[0], "--peer-socket", sockets[1], "--apart",
                                    "--size", MIB, "--depth", 16, "--runs", 3 if plan.quick else 9)
        return doc["rows"][0]["goodput"]["median"]

    def call(plan):
        old, new = measure("af_packet", plan), measure(kind, plan)
        return {f"{kind}, 1 MiB, af_packet": Sample(new, old, f"af_packet {old:.3g} Gb/s")}
    return call


def tcp_latency(plan):
    """64 B between two processes: half the round-trip time, median."""
    tcp = ucx_tcp("tag_lat", 64, 20000)[1]
    with contextlib.closing(Local(placed=True)) as link:
        line = perftest(link, "ib_send_lat", "-s", 64, "-n", 20000)
    return {"local: latency, 64 B": Sample(line[4], tcp,
                                         f"TCP {tcp:.2f} us by UCX; uroce by ib_send_lat, both programs "
                                         "on one CPU, the worker on the other")}


def ucx_bw(plan):
    """tag_bw of 1 MiB messages."""
    count = 1000 if plan.quick else 4000
    tcp, rc = (call("tag_bw", MIB, count)[5] * MIB * 8 / 1e9 for call in (ucx_tcp, ucx_rc))
    return {"UCX: tag_bw, 1 MiB": Sample(rc, tcp, f"tcp {tcp:.1f} Gb/s; UCX_TLS=tcp "
                                         "UCX_NET_DEVICES=eth0, UCX_TLS=rc UCX_NET_DEVICES=uroce0:1")}


def ucx_lat(plan):
    """tag_lat of 64 B messages: half the round-trip time, median."""
    tcp, rc = ucx_tcp("tag_lat", 64, 20000)[1], ucx_rc("tag_lat", 64, 20000, placed=True)[1]
    return {"UCX: tag_lat, 64 B": Sample(rc, tcp, f"tcp {tcp:.2f} us; UCX_TLS=tcp UCX_NET_DEVICES=eth0, "
                                         "UCX_TLS=rc UCX_NET_DEVICES=uroce0:1 with both programs on one "
                                         "CPU, the worker on the other")}
