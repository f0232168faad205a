# SPDX-License-Identifier: BSD-3-Clause
"""Loss and congestion on live daemons: the daemon's own fault injector (urocectl impair) is the network."""
import contextlib
import json
import time

import machine
import processes
import versus
from goals import Sample

MIB = 1 << 20
SIZES = {"64 KiB": 65536, "1 MiB": MIB}
OPS = ("write", "read", "send")
PERCENTS = (0.1, 1, 5)
TCP_GBIT = 2
TCP_NET = f"rate={TCP_GBIT}Gbit,queue=500kB,delay=100us,jitter=20us,ordered=yes"
INCAST_NET = "rate=2Gbit,queue=500kB,kmin=50kB,kmax=200kB,pmax=20%,delay=20us"
SENDERS = 8


def name(op, size, percent):
    """Samples of a goal."""
    return f"{op.upper()} {size}, {percent:g} % lost"


def _loss(plan, op, size, percent):
    doc = machine.run_bench("client", "--op", op, "--size", SIZES[size], "--depth", 64 if size == "64 KiB" else 16,
                            "--loss", percent, "--runs", 3, "--dev-options", "sr=on")
    cells = doc["rows"][0]
    return [Sample(good, alone, f"lossless {alone:.3g} Gb/s; {resent:.0f} packets retransmitted, {probes:.0f} probes, "
                   f"{timeouts:.0f} ACK timeouts, {exhausted:.0f} QPs without retries left")
            for good, alone, resent, probes, timeouts, exhausted in zip(*(cells[key]["each"] for key in (
                "goodput", "lossless", "resent", "probes", "timeouts", "exhausted")))]


def loss(plan):
    """Goodput with a share of all frames lost, compared with alternate runs without loss."""
    return {name("write", "64 KiB", percent): _loss(plan, "write", "64 KiB", percent) for percent in PERCENTS}


def loss_ops(plan):
    """The same with the other operations and sizes, as many as there is time for."""
    return {name(op, size, percent): _loss(plan, op, size, percent)
            for op in OPS for size in SIZES for percent in PERCENTS
            if (op, size) != ("write", "64 KiB") and time.monotonic() < plan.deadline}


class Memif:
    """Two daemons joined by memif, each with a host interface, so that TCP of the kernel has the same network."""

    def __init__(self, options="sr=on"):
        path = processes.tmpdir() / "memif.sock"
        self.daemons = []
        for i, role in enumerate(("server", "client")):
            vdev = f"net_memif0,role={role},socket={path},socket-abstract=no,bsize=8192"
            dev = f"name=uroce0,port=net_memif0,addr=10.9.0.{101 + i}/24,mtu=4096,hostif=roce0,{options}"
            self.daemons.append(processes.Daemon(machine.program("uroced"), [vdev], [dev], processes.netns()))

    def impair(self, *words, sides=(0, 1)):
        """Runs urocectl impair on the daemons; returns the output for each."""
        return [json.loads(processes.sh(machine.program("urocectl"), "--socket", self.daemons[i].socket, "--json",
                                        "impair", "uroce0", *words))["impair"][0] for i in sides]

    def client(self, *args):
        """A run of mode client from the first daemon to the second one; its row."""
        return machine.run_bench("client", "--socket", self.daemons[0].socket, "--peer-socket",
                                 self.daemons[1].socket, "--apart", "--no-probe", *args)["rows"][0]

    def tcp(self, seconds, control):
        """Gb/s of one TCP stream in the same direction with this congestion control."""
        port = processes.tcp_port()
        out = versus.pair(
            lambda: versus.start(["iperf3", "-s", "-1", "-p", port], self.daemons[1].ns),
            lambda: versus.start(["iperf3", "-c", "10.9.0.102", "-p", port, "-J", "-l", MIB, "-t", seconds, "-C",
                                  control], self.daemons[0].ns), port)
        return json.loads(out)["end"]["sum_received"]["bits_per_second"] / 1e9

    def close(self):
        for daemon in self.daemons:
            with contextlib.suppress(TimeoutError):
                daemon.proc.term()
            daemon.proc.kill()
            processes.remove_netns(daemon.ns)


def loss_latency(plan):
    """p99 of a 4 KiB WRITE, alone on its link, with one percent of all frames lost and without."""
    with contextlib.closing(Memif()) as link:
        args = ("--measure", "latency", "--op", "write", "--size", 4096, "--runs", 3)
        alone = link.client(*args)["p99"]["median"]
        link.impair("set", "drop=1%")
        lossy = link.client(*args)["p99"]["median"]
    return {"4 KiB WRITE, p99, 1 % lost": Sample(lossy, alone, f"lossless {alone:.1f} us")}


def loss_tcp(plan):
    """One flow through the same bottleneck that loses one percent: uroce, and TCP of the kernel over hostif."""
    samples = {}
    with contextlib.closing(Memif()) as link:
        link.impair("set", TCP_NET + ",drop=1%")
        own = link.client("--size", MIB, "--depth", 16, "--runs", 3)["goodput"]["median"]
        for control in ("cubic", "bbr"):
            tcp = link.tcp(plan.seconds(4), control)
            samples[f"1 MiB WRITE, 1 % lost, TCP {control}"] = Sample(
                own, tcp, f"TCP {tcp:.3g} Gb/s by iperf3 over hostif; both through {TCP_NET},drop=1%",
                possible=TCP_GBIT, possible_by="the rate of the bottleneck")
    return samples


def incast(plan):
    """Clients that send at once, each over a connection, to one receiver behind a bottleneck."""
    with contextlib.closing(Memif("sr=on,cc=dcqcn-paper:rate=2000")) as link:
        link.impair("set", INCAST_NET, sides=(1,))
        good = link.client("--size", 65536, "--depth", 4, "--qps", SENDERS, "--runs", 3)["goodput"]["median"]
        seen = link.impair("show", sides=(1,))[0]
        stats = json.loads(processes.sh(machine.program("urocectl"), "--socket", link.daemons[0].socket, "--json",
                                        "show", "stats"))["stats"][0]["total"]
    return {f"{SENDERS} QPs, 64 KiB WRITE, through 2 Gb/s": Sample(
        good, note=f"{seen['queue_drop']} frames dropped and {seen['queue_mark']} marked by the queue, at most "
        f"{seen['queue_peak'] / 1000:.0f} kB; {stats['retransmitted_packets']} packets retransmitted, "
        f"{stats['retry_exceeded']} QPs without retries left")}


GROUPS = {"loss": loss, "loss-ops": loss_ops, "loss-latency": loss_latency, "loss-tcp": loss_tcp, "incast": incast}
ONCE = ("loss-ops", "loss-latency", "loss-tcp", "incast")
NEEDS = {"loss-latency": ("ip",), "loss-tcp": ("ip", "iperf3"), "incast": ("ip",)}
