# SPDX-License-Identifier: BSD-3-Clause
"""Measures the groups of rows. Each group has a function that takes the run's Plan and returns
{name of the goal: Sample}, or raises an exception whose text the rows show."""
import contextlib
import dataclasses
import itertools
import statistics
import time

import congestion
import goals
import machine
import rxe
import versus
from goals import Sample
from progress import Progress


@dataclasses.dataclass
class Plan:
    """How much to measure. deadline: monotonic time after which no measurement starts."""
    quick: bool = False
    repeats: int = 5
    deadline: float = float("inf")
    progress: Progress = dataclasses.field(default_factory=lambda: Progress(quiet=True))

    def seconds(self, full):
        """Duration of one timed transfer; shorter in a quick run."""
        return 1 if self.quick else full


def _cell(doc, key, row=0):
    return doc["rows"][row][key]


def _spread(cell):
    return f"{cell['least']:.3g} .. {cell['most']:.3g} {cell['unit']} in one run"


def _runs(doc, make):
    """
    A sample for each run of a mode: make(cell), where cell(key) is a figure of that run. The state of the
    cores changes within a second, so each sample has what the mode measured of them around its run.
    """
    row = doc["rows"][0]
    samples = []
    for i in range(len(row["core_speed"]["each"])):
        sample = make(lambda key, i=i: row[key]["each"][i])
        speed = row["core_speed"]["each"][i]
        sample.loops_ns = (speed,) if speed > 0 else ()
        if "distance" in row:
            sample.distance_ns = (row["distance"]["each"][i],)
        samples.append(sample)
    return samples


def engine64(plan):
    doc = machine.run_bench("engine", "--size", 64, "--runs", 16 if plan.quick else 32)
    return {goal: _runs(doc, lambda cell, key=key: Sample(cell(key), note=_spread(_cell(doc, key))))
            for goal, key in (("messages", "messages"), ("protocol, requester", "requester_protocol"),
                              ("protocol, responder", "responder_protocol"))}


def engine1m(plan):
    size = 1 << 20
    doc = machine.run_bench("engine", "--size", size, "--runs", 8 if plan.quick else 16)
    spread = _spread(_cell(doc, "goodput"))
    try:
        sender = _cell(machine.run_limits("sender", "--size", size, "--runs", 3, "--no-probe"), "sender")["least"]
    except machine.Missing:
        sender = 0

    def sample(gbps, alone, what, note=""):
        """alone: ns for a message of the work that no implementation can avoid."""
        alone = size * 8 / alone
        return Sample(gbps, note=note, possible=alone, possible_by=f"{what}: {alone:.3g} Gb/s")

    bytes_alone = "CRC and the responder's copy alone, all in the near caches"
    bare = "no transport: CRC of BTH and the message, buffers, bytes of headers, the port"
    return {"both sides on one core":
            _runs(doc, lambda cell: sample(cell("goodput"), 2 * cell("crc") + cell("copy"), bytes_alone, spread)),
            "requester alone":
            _runs(doc, lambda cell: sample(size * 8 / cell("requester"), sender or cell("crc"), bare if sender else "CRC")),
            "responder alone":
            _runs(doc, lambda cell: sample(size * 8 / cell("responder"), cell("crc") + cell("copy"), bytes_alone))}


SENDER_LIMITED = ("af_packet", "af_xdp")  # the kernel does the work of both ends on the sender's core


def _wire(goal, port, size, mtu, beside):
    """Packets per second of RC WRITEs over a port, and of the limit model or testpmd on the same port."""
    def call(plan):
        doc = machine.run_limits(f"wire-{beside}", "--port", port, "--size", size, "--mtu", mtu,
                                 "--runs", 12 if plan.quick else 32, "--run-ms", 30)
        alone = "port" if beside == "limit" else beside
        by = "testpmd with an ICRC" + (" and a copy" if port == "af_xdp" else "")
        return {goal: _runs(doc, lambda cell: Sample(
            cell("packets"), cell(beside), f"{beside} {cell(beside):.3g} M/s; {cell('goodput'):.3g} Gb/s",
            starved=cell("packets") > cell(alone),
            possible=cell("possible") if port in SENDER_LIMITED else None, possible_by=by))}
    return call


def _sockets(kind, name, size, mtu, link_mtu):
    """
    Packets per second of RC WRITEs over a port that is a socket of the kernel, compared with bare sockets
    with the same segments and, directly after it, with af_packet; with a path MTU of 4096 the goodput.
    """
    def call(plan):
        shape = ("--size", size, "--mtu", mtu, "--link-mtu", link_mtu, "--depth", 16 if size > mtu else 128,
                 "--runs", 6 if plan.quick else 16, "--run-ms", 30)
        doc = machine.run_limits("wire-limit", "--port", kind, *shape)
        samples = {}
        if size > mtu:
            samples[f"{kind}, {name}, bare sockets"] = _runs(doc, lambda cell: Sample(
                cell("packets"), cell("limit"), f"bare sockets {cell('limit'):.3g} M/s; {cell('goodput'):.3g} Gb/s",
                starved=cell("packets") > cell("limit")))
        if mtu == 4096 and size > mtu:
            samples[f"{kind}, {name}"] = _runs(doc, lambda cell: Sample(cell("goodput")))
            return samples
        old = machine.run_bench("wire", "--port", "af_packet", *shape)
        base = _cell(old, "packets")["median"]
        samples[f"{kind}, {name}, af_packet"] = _runs(doc, lambda cell: Sample(
            cell("packets"), base, f"af_packet {base:.3g} M/s; {cell('goodput'):.3g} Gb/s"))
        return samples
    return call


def client_latency(plan):
    """Half the round-trip time of SENDs between two QPs of one client."""
    doc = machine.run_bench("client", "--measure", "latency", "--op", "send", "--size", 64, "--runs", 5)
    return {"latency, 64 B SEND, median": _runs(doc, lambda cell: Sample(
        cell("p50"), note=f"p99 {cell('p99'):.3g} us, p99.9 {cell('p99.9'):.3g} us"))}


def client_hops(plan):
    """Time to the worker and back for a WR that sends no packet, from publishing it to finding its
    completion, without the time that worker and poll spend on it."""
    doc = machine.run_limits("hops", "--runs", 7)
    return {"two ring hops": _runs(doc, lambda ns: Sample(
        ns("hops") / 1000, ns("line_round_trip") / 1000,
        f"unbinding a window: {ns('published_to_found'):.0f} ns from published to found, less the worker's "
        f"{ns('worker_step'):.0f} and a poll's {ns('poll'):.0f} ns; the post before it takes "
        f"{ns('post'):.0f} ns, in which the fence waits for the index's line; bare rings: "
        f"{ns('bare_rings'):.0f} ns, and {ns('bare_publish'):.0f} ns to publish; a cache line there and "
        f"back: {ns('line_round_trip'):.0f} ns"))}


def client1m(plan):
    size = 1 << 20
    engine = _cell(machine.run_bench("engine", "--size", size, "--runs", 3, "--no-probe"), "goodput")
    doc = machine.run_bench("client", "--size", size, "--depth", 16, "--runs", 5)
    return {"one QP, 1 MiB WRITE": _runs(doc, lambda cell: Sample(
        cell("goodput"), engine["median"], f"engine {engine['median']:.1f} Gb/s"))}


QPS_ROUNDS = 3
QPS_MESSAGES = 1 << 20  # twice what 4096 queues of 128 hold


def _qps(goal, size, plan):
    """
    The lowest rate over different numbers of QPs, compared with the highest. The numbers take turns,
    because the state of the cores changes from second to second, and each run records it. Rates are
    medians of the runs with whole cores if every number has at least three of them.
    """
    runs = {n: [] for n in ((1, 64, 4096) if plan.quick else (1, 4, 16, 64, 256, 1024, 4096))}
    for _ in range(QPS_ROUNDS):
        for n, done in runs.items():
            doc = machine.run_bench("client", "--size", size, "--qps", n, "--depth", 128, "--batch", 16,
                                    "--count", QPS_MESSAGES, "--runs", 5)
            done += zip(_cell(doc, "core_speed")["each"], _cell(doc, "messages")["each"])
    fastest = min(loop for done in runs.values() for loop, _ in done)
    whole = {n: [run for run in done if run[0] <= fastest * machine.SLOW] for n, done in runs.items()}
    if all(len(done) >= 3 for done in whole.values()):
        runs = whole
    loops, rates = ({n: statistics.median(run[i] for run in done) for n, done in runs.items()} for i in (0, 1))
    told = ", ".join(f"{n}: {rate:.3g}" for n, rate in rates.items())
    return {goal: Sample(min(rates.values()), max(rates.values()), f"M/s by QPs: {told}",
                         loops_ns=tuple(loops.values()))}


def qps64(plan):
    return _qps("64 B, least of the counts", 64, plan)


def qps4k(plan):
    return _qps("4 KiB, least of the counts", 4096, plan)


def qp_memory(plan):
    doc = machine.run_bench("client", "--measure", "memory", "--qps", 1024, "--depth", 128, "--no-probe")
    return {"memory of a QP, depth 128": Sample(_cell(doc, "all_queues_used")["median"] / 1024,
                                                note="daemon and client, every queue used")}


def connect(plan):
    """Makes and ends connections of one client; measures from rdma_connect to ESTABLISHED."""
    row = machine.run_bench("connect", "--count", 1000, "--runs", 3 if plan.quick else 9)["rows"][0]
    note = (f"with addresses, route and QP {row['connects']['median']:.0f} /s; "
            f"median {row['connect_p50']['median']:.0f} "
            f"us, of disconnect {row['disconnect_p50']['median']:.0f} us")
    return {"connects a second, one client": [Sample(rate, note=note) for rate in row["connect_rate"]["each"]],
            "p99 of connect": [Sample(us) for us in row["connect_p99"]["each"]]}


LIVE = 10000


def connect_live(plan):
    """The same with 10,000 other connections alive, compared with the first thousand of the daemon."""
    del plan
    doc = machine.run_bench("connect", "--count", 1000, "--runs", 1, "--live", LIVE)
    rates = [doc["rows"][row]["connect_rate"]["median"] for row in (0, 2)]
    note = (f"first thousand {rates[0]:.0f} /s; p99 {doc['rows'][2]['connect_p99']['median']:.0f} us; "
            f"{doc['rows'][1]['memory']['median']:.3g} KiB of the daemon for two ids with QPs")
    return {"with 10,000 live": Sample(rates[1], rates[0], note)}


def connect_memory(plan):
    """Memory of the daemon for an id: 10,000 connections, each of two ids, without QPs."""
    del plan
    doc = machine.run_bench("connect", "--runs", 1, "--live", LIVE, "--no-qps", "--no-huge", "--no-probe")
    return {"memory of an id": Sample(_cell(doc, "memory")["median"] / 2, note="daemon, connections without QPs")}


def _bare(key, words):
    """What a bare thread that sleeps shows, in words; "" for an installed uroce-bench."""
    try:
        return words.format(_cell(machine.run_limits("sleep", "--runs", 1, "--no-probe"), key)["median"])
    except machine.Missing:
        return ""


def idle(plan):
    doc = machine.run_bench("client", "--measure", "idle", "--idle", "adaptive", "--runs", 1, "--no-probe")
    return {"processor time": Sample(_cell(doc, "cpu")["median"],
                                     note=_bare("sleeper", "a bare thread that sleeps, 2 ms each, takes {:.3g} %"))}


def wake(plan):
    doc = machine.run_bench("client", "--measure", "wake", "--idle", "adaptive", "--runs", 1,
                            "--no-probe")
    worst = _cell(doc, "worst")["median"]
    return {"first message after idle": Sample(_cell(doc, "median")["median"], note=f"worst of ten {worst:.3g} us" + _bare(
        "eventfd", "; a bare eventfd after such silence {:.3g} us"))}


GROUPS = {
    "engine64": engine64,
    "engine1m": engine1m,
    "wire-memif": _wire("memif, MTU 4096, 1 MiB", "memif", 1 << 20, 4096, "limit"),
    "wire-memif64": _wire("memif, 64 B", "memif", 64, 4096, "testpmd"),
    "wire-af_packet64": _wire("af_packet, 64 B", "af_packet", 64, 4096, "testpmd"),
    "wire-af_packet4k": _wire("af_packet, 4 KiB", "af_packet", 4096, 4096, "testpmd"),
    "wire-xdp64": _wire("af_xdp, 64 B", "af_xdp", 64, 2048, "testpmd"),
    "wire-xdp2k": _wire("af_xdp, 2 KiB", "af_xdp", 2048, 2048, "testpmd"),
    **{name: call for kind in goals.KERNEL_PORTS for name, call in (
        (f"wire-{kind}4k", _sockets(kind, "1 MiB, path MTU 4096", 1 << 20, 4096, 9000)),
        (f"wire-{kind}1k", _sockets(kind, "1 MiB, path MTU 1024, veth MTU 9000", 1 << 20, 1024, 9000)),
        (f"wire-{kind}1k1500", _sockets(kind, "1 MiB, path MTU 1024, veth MTU 1500", 1 << 20, 1024, 1500)),
        (f"wire-{kind}64", _sockets(kind, "64 B", 64, 4096, 9000)),
        (f"client-{kind}", versus.client_veth(kind)),
        (f"tcp-{kind}", versus.tcp_veth(kind, 9000)),
        (f"tcp-{kind}1500", versus.tcp_veth(kind, 1500)),
        (f"tcp-{kind}-latency", versus.tcp_veth_latency(kind)))},
    "client-latency": client_latency,
    "client-hops": client_hops,
    "client1m": client1m,
    "tcp-goodput": versus.tcp_goodput,
    "tcp-loopback": versus.tcp_loopback,
    "tcp-latency": versus.tcp_latency,
    "ucx-bw": versus.ucx_bw,
    "ucx-lat": versus.ucx_lat,
    "rxe": rxe.measure,
    "qps64": qps64,
    "qps4k": qps4k,
    "qp-memory": qp_memory,
    "connect": connect,
    "connect-live": connect_live,
    "connect-memory": connect_memory,
    **congestion.GROUPS,
    "idle": idle,
    "wake": wake,
}
ONCE = ("rxe", *congestion.ONCE)  # slow groups: measured once in a run, and last
NEEDS = {
    **congestion.NEEDS,
    **{name: needs for kind in goals.KERNEL_PORTS for name, needs in (
        *((f"wire-{kind}{what}", ("ip",)) for what in ("4k", "1k", "1k1500", "64")),
        (f"client-{kind}", ("ip",)),
        (f"tcp-{kind}", ("ip", "iperf3", "ib_write_bw")),
        (f"tcp-{kind}1500", ("ip", "iperf3", "ib_write_bw")),
        (f"tcp-{kind}-latency", ("ip", "ucx_perftest", "ib_send_lat")))},
    "tcp-loopback": ("ip", "iperf3", "ib_write_bw"),
    "tcp-goodput": ("ip", "iperf3", "ib_write_bw"),
    "tcp-latency": ("ip", "ucx_perftest", "ib_send_lat"),
    "ucx-bw": ("ip", "ucx_perftest"),
    "ucx-lat": ("ip", "ucx_perftest"),
    "rxe": ("meson", "ninja", "mmdebstrap", "qemu-system-x86_64"),
    "wire-memif64": ("dpdk-testpmd",),
    "wire-af_packet64": ("ip", "dpdk-testpmd"),
    "wire-af_packet4k": ("ip", "dpdk-testpmd"),
    "wire-xdp64": ("ip", "dpdk-testpmd"),
    "wire-xdp2k": ("ip", "dpdk-testpmd"),
}
LOSS = ("loss", "loss-ops", "loss-latency", "loss-tcp")
QUICK_S = 150  # a quick run starts no group that would end later ..
LAST_S = 175   # .. except those of ONCE
FIRST_S = {"qps64": 15, "qps4k": 20}  # seconds that slow groups (other than rxe) take the first time
VERSUS = (*(f"tcp-{kind}{what}" for kind in goals.KERNEL_PORTS for what in ("", "1500", "-latency")), "tcp-loopback",
          "tcp-goodput", "tcp-latency", "ucx-bw", "ucx-lat", "rxe")


class Prober:
    """Probes the cores between samples. One probe serves as the end of a sample and the start of the next."""

    def __init__(self):
        self.last = None
        self.fastest_ns = float("inf")  # of the loop during the whole run, on a core that nobody else used

    def look(self):
        seen = machine.cores()
        self.fastest_ns = min([self.fastest_ns, *(ns for ns in seen.loops_ns if ns > 0)])
        return seen

    @contextlib.contextmanager
    def around(self, samples):
        """
        Adds the samples that the block puts into its dictionary: for each goal a sample, or a list with one
        for each run. Samples without data about the cores get those of the probes around the block.
        """
        before = self.last if self.last is not None else self.look()
        self.last = None  # the block may fail after a long time
        new = {}
        yield new
        self.last = after = self.look()
        for name, given in new.items():
            mine = given if isinstance(given, list) else [given]
            for sample in mine:
                sample.distance_ns = sample.distance_ns or (before.distance_ns, after.distance_ns)
                sample.state = machine.state(*sample.distance_ns)
                sample.loops_ns = sample.loops_ns or (max(before.loops_ns), max(after.loops_ns))
                self.fastest_ns = min([self.fastest_ns, *sample.loops_ns])
            samples.setdefault(name, []).extend(mine)

    def judge(self, sample):
        """Compares with the fastest loop seen so far."""
        sample.core = machine.share(sample.loops_ns, self.fastest_ns)
        sample.slowdown = max(sample.loops_ns, default=self.fastest_ns) / self.fastest_ns


class Group:
    """One group with its samples so far."""

    def __init__(self, name):
        self.name = name
        self.samples = {}  # by goal
        self.error = self.skipped = None
        # duration of the last measurement
        self.seconds = rxe.first_s() if name == "rxe" else FIRST_S.get(name, 0)

    def measure(self, plan, prober):
        """Takes one more sample for each goal. After a failure the earlier samples remain."""
        start = time.monotonic()
        try:
            machine.need(*NEEDS.get(self.name, ()))
            with prober.around(self.samples) as new:
                new.update(GROUPS[self.name](plan))
            if time.monotonic() >= plan.deadline:
                self.skipped = f"not in this --quick: its time was used up; --only {self.name} measures it"
        except machine.NoTime as why:
            self.skipped = f"not in this --quick: {why}; --only {self.name} measures it"
        except (machine.Missing, RuntimeError, OSError, KeyError, ValueError) as why:
            self.error = f"{type(why).__name__}: {why}" if isinstance(why, (KeyError, ValueError)) else why
        self.seconds = time.monotonic() - start

    def wants_more(self, prober):
        """Does some goal have no sample with whole cores?"""
        for sample in itertools.chain.from_iterable(self.samples.values()):
            prober.judge(sample)
        return any(all(s.core != "whole" for s in mine) for mine in self.samples.values())

    def row(self, goal):
        mine = self.samples.get(goal.name, ())
        return goals.make_row(goal, mine, None if mine else self.error, self.skipped)


def _turn(turn, groups, plan, prober, start):
    """Measures each group once more; a quick run stops when its time is used up."""
    for group in groups:
        if group.error or turn and group.name in ONCE:
            continue
        most = LAST_S if group.name in ONCE else QUICK_S
        left = most - (time.monotonic() - start)
        if plan.quick and group.seconds > left:
            if turn == 0:
                group.skipped = (f"not in this --quick: {left:.0f} s of {most} were left; "
                                 f"--only {group.name} measures it")
            continue
        known = sum(g.seconds for g in groups[groups.index(group):])
        plan.progress.show(f"turn {turn + 1} of {plan.repeats}{' and some more' * (turn >= plan.repeats)}, "
                           f"group {groups.index(group) + 1} of {len(groups)}: measuring {group.name}; "
                           f"{time.monotonic() - start:.0f} s so far" +
                           (f", this turn takes about {known:.0f} s more" if turn > 0 else ""))
        group.measure(plan, prober)


def rows(names, plan, prober):
    """
    (goal, row) for every goal of these groups, in the order of the goals. The groups take turns, so that
    a quick run, which ends after QUICK_S, has samples of as many groups as possible. Then groups without
    a sample on whole cores get as many turns again.
    """
    groups = [Group(name) for name in names]
    groups.sort(key=lambda g: g.name in ONCE)
    start = time.monotonic()
    if plan.quick:
        plan.deadline = start + LAST_S
    for turn in range(plan.repeats):
        _turn(turn, groups, plan, prober, start)
    for turn in range(plan.repeats, 2 * plan.repeats):
        _turn(turn, [g for g in groups if g.wants_more(prober)], plan, prober, start)
    plan.progress.end()
    for group in groups:
        group.wants_more(prober)  # compare all samples with the fastest loop of the run
    known = {group.name: group for group in groups}
    return [(goal, known[goal.group].row(goal)) for goal in goals.GOALS if goal.group in known]
