# SPDX-License-Identifier: BSD-3-Clause
"""The goals, and the rows (figure, ratio, state, met) that samples give. Measures nothing."""
import dataclasses
import statistics


@dataclasses.dataclass(frozen=True)
class Goal:
    """
    name   of the row; title: heading of its section
    group  the measurement that gives its samples
    unit   of the figure
    sense  ">=" or "<=": which side of the goal is good
    bound  of figure / base
    base   divisor of the figures; None: measured with each figure
    of     name of a measured base
    """
    name: str
    title: str
    group: str
    unit: str
    sense: str
    bound: float
    base: float | None = None
    of: str = ""

    def text(self):
        """The goal in words."""
        if self.base is not None:
            return f"{self.sense} {self.base * self.bound:g} {self.unit}"
        if self.sense == ">=" and self.bound < 1:
            return f"{self.sense} {self.bound * 100:g} % of {self.of}"
        return f"{self.sense} {self.bound:g} x {self.of}"


@dataclasses.dataclass
class Sample:
    """
    One measurement: the figure, its base if that was measured, and additional data.
    state        distance of the cores: near, far, mixed
    core         share of the cores: whole, shared, mixed
    distance_ns  distances before and after
    loops_ns     loop times before, during and after, on the slowest core in use
    slowdown     the longest of them, relative to the fastest of the run
    starved      the port alone was slower than the transfer over it: other load was on the cores
    possible     bound for the figure on this machine, from work that cannot be avoided
    possible_by  description of that work
    """
    figure: float
    base: float | None = None
    note: str = ""
    state: str = ""
    core: str = ""
    distance_ns: tuple = ()
    loops_ns: tuple = ()
    slowdown: float = 1
    starved: bool = False
    possible: float | None = None
    possible_by: str = ""

    def ratio(self, goal, figure=None):
        """The figure, or another one, divided by the base."""
        base = self.base if goal.base is None else goal.base
        if not base:
            raise ValueError(f"{goal.name}: nothing to compare with")
        return (self.figure if figure is None else figure) / base


ENGINE64 = "engine, RC WRITE 64 B at MTU 4096, both sides on one core"
ENGINE1M = "engine, RC WRITE 1 MiB at MTU 4096"
WIRE = "wire, one worker each side"
SOCKETS = "wire over the kernel's sockets, RC WRITE, one worker each side, one veth"
CLIENT = "client and daemon on the two cores, local loopback"
CLIENT_SOCKETS = "client to client over the kernel's sockets, one veth, same two cores"
TCP_VETH = "versus kernel TCP over the same veth, same two cores"
TCP = "versus kernel TCP, uroce local, same two cores"
UCX = "UCX over rc on uroce versus UCX over tcp"
RXE = "versus rxe in the same guest, same veth"
QPS = "1 to 4096 QPs"
CONNECT = "rdma_cm within the host: one device, one client"
LOSS = "one QP, selective repeat on, frames lost either way"
LOSS_NET = "daemon to daemon over memif, urocectl impair as the network"
IDLE = "idle daemon with `adaptive`"

KERNEL_PORTS = ("udp", "packet")  # ports that are sockets of the kernel


def _kernel_port(kind):
    """The goals of one kind of socket port."""
    def socket_goals(name, group):
        return (Goal(f"{kind}, {name}, bare sockets", SOCKETS, group, "M packets/s", ">=", 0.6, of="bare sockets"),
                Goal(f"{kind}, {name}, af_packet", SOCKETS, group, "M packets/s", ">=", 10, of="af_packet"))
    return (
        Goal(f"{kind}, 1 MiB, path MTU 4096, bare sockets", SOCKETS, f"wire-{kind}4k", "M packets/s", ">=", 0.6,
             of="bare sockets"),
        Goal(f"{kind}, 1 MiB, path MTU 4096", SOCKETS, f"wire-{kind}4k", "Gb/s", ">=", 1, 25),
        *socket_goals("1 MiB, path MTU 1024, veth MTU 9000", f"wire-{kind}1k"),
        *socket_goals("1 MiB, path MTU 1024, veth MTU 1500", f"wire-{kind}1k1500"),
        Goal(f"{kind}, 64 B, af_packet", SOCKETS, f"wire-{kind}64", "M packets/s", ">=", 5, of="af_packet"),
        Goal(f"{kind}, 1 MiB, af_packet", CLIENT_SOCKETS, f"client-{kind}", "Gb/s", ">=", 1, of="af_packet"),
        Goal(f"{kind}: goodput, 1 MiB, MTU 9000", TCP_VETH, f"tcp-{kind}", "Gb/s", ">=", 1, of="TCP"),
        Goal(f"{kind}: goodput, 1 MiB, MTU 1500", TCP_VETH, f"tcp-{kind}1500", "Gb/s", ">=", 1, of="TCP"),
        Goal(f"{kind}: latency, 64 B", TCP_VETH, f"tcp-{kind}-latency", "us", "<=", 1, of="TCP"))


GOALS = (
    Goal("messages", ENGINE64, "engine64", "M/s", ">=", 1, 8),
    Goal("protocol, requester", ENGINE64, "engine64", "ns", "<=", 1, 60),
    Goal("protocol, responder", ENGINE64, "engine64", "ns", "<=", 1, 60),
    Goal("both sides on one core", ENGINE1M, "engine1m", "Gb/s", ">=", 1, 75),
    Goal("requester alone", ENGINE1M, "engine1m", "Gb/s", ">=", 1, 100),
    Goal("responder alone", ENGINE1M, "engine1m", "Gb/s", ">=", 1, 100),
    Goal("memif, MTU 4096, 1 MiB", WIRE, "wire-memif", "M packets/s", ">=", 0.8, of="limit model"),
    Goal("memif, 64 B", WIRE, "wire-memif64", "M packets/s", ">=", 0.5, of="testpmd"),
    Goal("af_packet, 64 B", WIRE, "wire-af_packet64", "M packets/s", ">=", 0.9, of="testpmd"),
    Goal("af_packet, 4 KiB", WIRE, "wire-af_packet4k", "M packets/s", ">=", 0.9, of="testpmd"),
    Goal("af_xdp, 64 B", WIRE, "wire-xdp64", "M packets/s", ">=", 0.9, of="testpmd"),
    Goal("af_xdp, 2 KiB", WIRE, "wire-xdp2k", "M packets/s", ">=", 0.9, of="testpmd"),
    *(goal for kind in KERNEL_PORTS for goal in _kernel_port(kind)),
    Goal("latency, 64 B SEND, median", CLIENT, "client-latency", "us", "<=", 1, 1.5),
    Goal("two ring hops", CLIENT, "client-hops", "us", "<=", 2, of="cache line trip"),
    Goal("one QP, 1 MiB WRITE", CLIENT, "client1m", "Gb/s", ">=", 0.8, of="engine"),
    Goal("local: goodput, 1 MiB", TCP, "tcp-goodput", "Gb/s", ">=", 4, of="TCP over a veth"),
    Goal("local: goodput, 1 MiB, loopback", TCP, "tcp-loopback", "Gb/s", ">=", 1, of="loopback TCP"),
    Goal("local: latency, 64 B", TCP, "tcp-latency", "us", "<=", 0.5, of="TCP over a veth"),
    Goal("UCX: tag_bw, 1 MiB", UCX, "ucx-bw", "Gb/s", ">=", 3, of="tcp"),
    Goal("UCX: tag_lat, 64 B", UCX, "ucx-lat", "us", "<=", 0.5, of="tcp"),
    Goal("rxe: messages, 64 B", RXE, "rxe", "k/s", ">=", 10, of="rxe"),
    Goal("rxe: bandwidth, 64 KiB", RXE, "rxe", "MB/s", ">=", 5, of="rxe"),
    Goal("64 B, least of the counts", QPS, "qps64", "M/s", ">=", 0.8, of="best"),
    Goal("4 KiB, least of the counts", QPS, "qps4k", "M/s", ">=", 0.8, of="best"),
    Goal("memory of a QP, depth 128", QPS, "qp-memory", "KiB", "<=", 1, 16),
    Goal("connects a second, one client", CONNECT, "connect", "/s", ">=", 1, 5000),
    Goal("p99 of connect", CONNECT, "connect", "us", "<=", 1, 1000),
    Goal("with 10,000 live", CONNECT, "connect-live", "/s", ">=", 0.8, of="first thousand"),
    Goal("memory of an id", CONNECT, "connect-memory", "KiB", "<=", 1, 4),
    *(Goal(f"{op} {size}, {percent:g} % lost", LOSS, "loss" if (op, size) == ("WRITE", "64 KiB") else "loss-ops",
           "Gb/s", ">=", share, of="lossless")
      for op in ("WRITE", "READ", "SEND") for size in ("64 KiB", "1 MiB")
      for percent, share in ((0.1, 0.98), (1, 0.95), (5, 0.85))),
    Goal("4 KiB WRITE, p99, 1 % lost", LOSS_NET, "loss-latency", "us", "<=", 5, of="lossless"),
    Goal("1 MiB WRITE, 1 % lost, TCP cubic", LOSS_NET, "loss-tcp", "Gb/s", ">=", 2, of="TCP"),
    Goal("1 MiB WRITE, 1 % lost, TCP bbr", LOSS_NET, "loss-tcp", "Gb/s", ">=", 2, of="TCP"),
    Goal("8 QPs, 64 KiB WRITE, through 2 Gb/s", LOSS_NET, "incast", "Gb/s", ">=", 0.9, 2),
    Goal("processor time", IDLE, "idle", "% of a core", "<=", 1, 2),
    Goal("first message after idle", IDLE, "wake", "us", "<=", 1, 100),
)


FEW = 3  # this many samples of the better kind are enough to leave out all others
ONE_CORE = ("engine64", "engine1m")  # groups that use only the first core


def name_of(goal):
    """A row's name in JSON: unique."""
    return f"{goal.title}: {goal.name}"


def _chosen(goal, samples):
    """
    The samples that count: those with near cores and, of these, those with whole cores, if each kind has
    at least FEW samples or a quarter of them. If the group uses one core, the distance is considered
    last. Returns these samples, those left out for the distance, and those left out for a shared core.
    """
    chosen, left = list(samples), {}
    wanted = (("state", "near"), ("core", "whole"))
    for key, best in reversed(wanted) if goal.group in ONE_CORE else wanted:
        good = [s for s in chosen if getattr(s, key) == best]
        if len(good) < min(FEW, (len(chosen) + 3) // 4):
            good = []
        left[key] = [s for s in chosen if good and getattr(s, key) != best]
        chosen = good or chosen
    return chosen, left["state"], left["core"]


def _told(goal, samples):
    """Medians of samples that were left out."""
    return {"figure": statistics.median(s.figure for s in samples),
            "ratio": statistics.median(s.ratio(goal) for s in samples)}


def _possible(goal, samples):
    """
    The best that this machine permitted at any moment of the run, in any state of the cores. A goal that
    is `beyond` it was therefore out of reach during the whole run.
    """
    ratios = {s.ratio(goal, s.possible): s for s in samples if s.possible is not None}
    if not ratios:
        return {}
    best = (max if goal.sense == ">=" else min)(ratios)
    return {"possible": best, "possible_by": ratios[best].possible_by, "beyond": not _meets(goal, best)}


def _meets(goal, ratio):
    return ratio >= goal.bound if goal.sense == ">=" else ratio <= goal.bound


def make_row(goal, samples=(), error=None, skipped=None):
    """
    The row of a goal, from its samples, from an error, or from the reason for skipping it. The figure is
    the median of the samples that _chosen selects from those whose base was not starved (a starved base
    meets no goal). The ratio is the median of their ratios, each with its own base. The note is that of
    the sample nearest to the ratio. If the machine's limit is known, the row has it, and `beyond` if the
    goal exceeds it.
    """
    row = {"name": name_of(goal), "group": goal.group, "goal": goal.text(), "figure": None,
           "unit": goal.unit, "ratio": None, "state": None, "met": False}
    if skipped is not None and not samples:
        row["skipped"] = skipped
        return row
    if error is not None or not samples:
        row["error"] = str(error) if error is not None else "not measured"
        return row
    fair = [s for s in samples if not s.starved]
    try:
        chosen, far, shared = _chosen(goal, fair or samples)
        ratios = [s.ratio(goal) for s in chosen]
        left = {key: _told(goal, out) for key, out in (("far", far), ("shared", shared)) if out}
    except ValueError as why:
        row["error"] = str(why)
        return row
    figures = [s.figure for s in chosen]
    ratio = statistics.median(ratios)
    row.update(figure=statistics.median(figures), ratio=ratio, least=min(figures), most=max(figures),
               samples=len(chosen), state=states(chosen),
               met=bool(fair) and _meets(goal, ratio), **_possible(goal, samples))
    if not fair:
        row["state"] += ", starved base"
    if goal.base is None:
        row["base"] = statistics.median(s.base for s in chosen)
    distances = [ns for s in chosen for ns in s.distance_ns]
    if distances:
        row["core_distance_ns"] = [min(distances), max(distances)]
    note = min(zip(chosen, ratios), key=lambda pair: abs(pair[1] - ratio))[0].note
    if note:
        row["note"] = note
    if any(s.core for s in chosen):
        slowdowns = [s.slowdown for s in chosen]
        row["core_slowdown"] = [min(slowdowns), max(slowdowns)]
    row.update(left)
    return row


def _common(words):
    """The common value, or "mixed"."""
    seen = set(words)
    return seen.pop() if len(seen) == 1 else "mixed"


def states(samples):
    """The common state of several samples: distance, and share of the cores unless it is whole."""
    core = _common(s.core for s in samples)
    return _common(s.state for s in samples) + (f", {core} core" if core not in ("", "whole") else "")


def exit_status(rows):
    """1 if a row has no figure. A missed goal is a result, not a failure."""
    return 1 if any("error" in row for row in rows) else 0
