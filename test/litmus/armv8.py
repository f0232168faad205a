# SPDX-License-Identifier: BSD-3-Clause
"""Which results a few threads of loads, stores and fences can have on arm64: every execution, judged by the memory model
of the Arm Architecture Reference Manual, "External visibility requirement", in the form of its axioms. For programs of
a dozen accesses without loops.

A thread is a list of accesses. All locations are 0 at first. Values of stores are constants; a loop or a branch is
written as the path to examine, and the values that lead to it are part of the question."""
import dataclasses
import itertools


@dataclasses.dataclass(frozen=True)
class Access:
    kind: str  # R load, W store, F fence, U an exchange or a compare and exchange that succeeds
    where: str = ""  # location; of a fence: "full" (dmb ish) or "ld" (dmb ishld)
    value: int = 0  # stored
    name: str = ""  # the result of a load
    acq: bool = False
    rel: bool = False
    ctrl: bool = False  # the accesses behind a load depend on its value


def load(where, name, acq=False, ctrl=False):
    return Access("R", where, name=name, acq=acq, ctrl=ctrl)


def store(where, value, rel=False):
    return Access("W", where, value, rel=rel)


def fence(kind):
    return Access("F", kind)


def swap(where, value, name, acq=False, rel=False):
    return Access("U", where, value, name, acq, rel)


class Event:
    def __init__(self, thread, access, kind):
        self.thread, self.access, self.kind = thread, access, kind
        self.where, self.value = access.where, access.value
        self.acq = access.acq and kind == "R"
        self.rel = access.rel and kind == "W"


def events_of(threads):
    """Each thread's events, in order, and the pairs of an exchange."""
    rows, pairs = [], []
    for number, thread in enumerate(threads):
        row = []
        for access in thread:
            if access.kind == "U":
                row += [Event(number, access, "R"), Event(number, access, "W")]
                pairs.append((row[-2], row[-1]))
            else:
                row.append(Event(number, access, access.kind))
        rows.append(row)
    return rows, pairs


def local_order(rows, pairs):
    """What a thread's own program orders: fences, acquire, release, control."""
    order = set(pairs)
    for row in rows:
        for (i, first), (j, then) in itertools.combinations(enumerate(row), 2):
            if "F" in (first.kind, then.kind):
                continue
            between = row[i + 1:j]
            full = any(e.kind == "F" and e.where == "full" for e in between)
            loads = any(e.kind == "F" and e.where == "ld" for e in between)
            depends = first.kind == "R" and first.access.ctrl and then.kind == "W"
            if full or (loads and first.kind == "R") or first.acq or then.rel or depends:
                order.add((first, then))
    return order


def cyclic(edges):
    after = {}
    for first, then in edges:
        after.setdefault(first, []).append(then)
    done, path = set(), set()

    def visit(event):
        if event in done:
            return False
        if event in path:
            return True
        path.add(event)
        found = any(visit(then) for then in after.get(event, ()))
        path.discard(event)
        done.add(event)
        return found

    return any(visit(event) for event in list(after))


def executions(threads):
    """The results of all executions that the model allows: a dictionary of each load's value."""
    rows, pairs = events_of(threads)
    flat = [event for row in rows for event in row]
    reads = [event for event in flat if event.kind == "R"]
    places = sorted({event.where for event in flat if event.kind != "F"})
    writes = {place: [e for e in flat if e.kind == "W" and e.where == place] for place in places}
    program = local_order(rows, pairs)
    in_row = {pair for row in rows for pair in itertools.combinations(row, 2)
              if pair[0].kind != "F" and pair[0].where == pair[1].where}
    for sources in itertools.product(*([None, *writes[read.where]] for read in reads)):
        source = dict(zip(reads, sources))
        for orders in itertools.product(*(itertools.permutations(writes[place]) for place in places)):
            order = dict(zip(places, orders))
            if allowed(source, order, pairs, program, in_row):
                yield {read.access.name: source[read].value if source[read] else 0 for read in reads}


def allowed(source, order, pairs, program, in_row):
    coherence = {pair for row in order.values() for pair in itertools.combinations(row, 2)}
    comes = {(write, read) for read, write in source.items() if write is not None}  # reads from
    before = set()  # a load, and the stores that overwrite what it has read
    for read, write in source.items():
        row = order[read.where]
        before |= {(read, later) for later in row[row.index(write) + 1 if write is not None else 0:]}
    if cyclic(in_row | coherence | comes | {pair for pair in before if pair[0] is not pair[1]}):
        return False  # not even one location is as it must be
    for read, write in pairs:  # nothing between the halves of an exchange
        row = order[read.where]
        if row.index(write) != (row.index(source[read]) + 1 if source[read] is not None else 0):
            return False
    seen = {pair for pair in coherence | comes | before if pair[0].thread != pair[1].thread}
    halves = {write for _, write in pairs}
    inner = {pair for pair in comes if pair[0] in halves and pair[1].acq}
    return not cyclic(program | seen | inner)


def possible(threads, wanted):
    """Whether an execution's result satisfies wanted(result)."""
    return any(wanted(result) for result in executions(threads))
