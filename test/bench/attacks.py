#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What a client of another user does to a neighbour (attacks.c): its 64-byte WRITEs, one at a time, and its calls to the
control thread, before, beside an honest busy client, during each attack, and after it; then the time that the daemon
takes to end on SIGTERM while the attack goes on.

  attacks.py [--seconds N] [--nice N] [--json FILE] [ATTACK..]

Each attack has a separate daemon with one worker. The goal: during an attack the WRITEs take at most twice (median)
and four times (99th percentile) as long as beside the honest client, calls 5 ms (99th percentile) and 50 ms, and the end
a second. Prints a table, and with --json all numbers. All share this machine's cores; --nice -15 keeps most of them from
other jobs (autogroups). Needs root; no test times it.
"""
import argparse
import collections
import contextlib
import json
import multiprocessing
import os
import pathlib
import signal
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "system"))
import cmclient  # noqa: E402
import lib  # noqa: E402
import test_hostile_memory as hostile  # noqa: E402

NEIGHBOUR, HONEST = "65533", "65532"  # users; the attacker is hostile.MALLORY
DATA, CALLS, END = (2, 4), (5000, 50000), 1.0  # goals: times beside the honest client; us; s
LOOKUPS = 24000
Row = collections.namedtuple("Row", "text start")


def program(mode, *args):
    """An attack of attacks.c."""
    return lambda link: hostile.attack(link, lib.public_program("attacks", "test/bench"), "uroce0", mode, *args)


def punch(link):
    return hostile.attack(link, lib.public_program("punch"), "uroce0")


def show(link):
    return program("shown", lib.public_copy() / "app/urocectl/urocectl", "--socket", link.a.daemon.socket, "show",
                   "mr")(link)


class Lookups:
    """A process of the attacker: many ids look an absent neighbour up, and their channel is closed; again and again."""

    def __init__(self, link):
        fork = multiprocessing.get_context("fork")
        begun = fork.Event()
        self.proc = fork.Process(target=self.run, args=(link.a.daemon.socket, begun), daemon=True)
        self.proc.start()
        lib.until("attack", lambda: begun.is_set() or not self.proc.is_alive())
        assert self.proc.is_alive(), "the attack has ended"

    @staticmethod
    def run(path, begun):
        os.setresgid(*[int(hostile.MALLORY)] * 3)
        os.setresuid(*[int(hostile.MALLORY)] * 3)
        with contextlib.suppress(OSError, TypeError):  # until the daemon ends
            while True:
                channel = cmclient.Channel(path)
                for uid in range(LOOKUPS):
                    channel.resolve_addr(channel.create(uid), cmclient.sockaddr("10.9.0.77", 7471), timeout_ms=600000)
                begun.set()
                channel.close()
                time.sleep(0.1)

    def kill(self):
        self.proc.kill()
        self.proc.join()

    def poll(self):
        return self.proc.exitcode


ATTACKS = {
    "punch-region": Row("punches holes in a region, mapped 20,000 times", punch),
    "regions": Row("registers 20,000 regions and ends, in a loop", program("regions")),
    "pages": Row("registers and deregisters pages of a memfd of 4 GiB", program("pages")),
    "last": Row("leaves a memfd of 4 GiB to the daemon, in a loop", program("last")),
    "windows": Row("contexts with windows end, 20,000 others exist", program("windows")),
    "writers": Row("256 queue pairs of 1 MiB WRITEs", program("writers")),
    "contexts": Row("768 idle contexts", program("contexts")),
    "overflow": Row("doorbells and the overflow flag, 2,000 queue pairs", program("overflow")),
    "flush": Row("flushes a queue of 16,384 requests, in a loop", program("flush")),
    "shown": Row("`urocectl show mr` of 22,000 regions, in a loop", show),
    "locked": Row("copied memory that is late, 64 queue pairs", program("locked")),
    "members": Row("attaches the 4096th multicast member, in a loop", program("members")),
    "lookups": Row("cancels 24,000 rdma_cm look-ups, in a loop", Lookups),
}


def neighbour(link, seconds):
    proc = hostile.spawn_as(NEIGHBOUR, link, lib.public_program("attacks", "test/bench"), "uroce0", "neighbour", str(seconds))
    assert proc.wait(seconds + lib.processes.HANGS_S) == 0, proc.tail()
    return json.loads(proc.output().splitlines()[-1])


def begin(link, name):
    """Begins an attack, for the second time: the daemon refuses a user while it pauses."""
    def attempt():
        try:
            return ATTACKS[name].start(link)
        except (AssertionError, OSError):
            return None
    return lib.until("attack", attempt, every=0.2)


def measure(name, seconds, nice):
    """All numbers of a row. nice: of the scheduling groups of the daemon and of all clients."""
    link = hostile.start()
    for pid in (os.getpid(), link.a.daemon.proc.pid):
        pathlib.Path(f"/proc/{pid}/autogroup").write_text(str(nice), encoding="ascii")
    found = {"name": name, "load": os.getloadavg()[0], "before": neighbour(link, seconds)}
    honest = hostile.attack(link, lib.public_program("attacks", "test/bench"), "uroce0", "busy", uid=HONEST)
    found["honest"] = neighbour(link, seconds)
    assert honest.poll() is None, honest.tail()
    honest.kill()
    attack = ATTACKS[name].start(link)
    found["during"] = neighbour(link, seconds)
    assert attack.poll() is None, "the attack has ended"
    attack.kill()
    found["after"] = neighbour(link, seconds)
    attack = begin(link, name)
    start = time.monotonic()
    link.a.daemon.proc.popen.send_signal(signal.SIGTERM)
    rc = link.a.daemon.proc.wait(lib.processes.HANGS_S)
    found["end"] = time.monotonic() - start
    attack.kill()
    assert rc == 0, link.a.daemon.proc.tail()
    found["load"] = max(found["load"], os.getloadavg()[0])
    return found


def us(value):
    return f"{value:.1f}" if value < 10 else f"{value:.0f}"


def misses(row):
    """The goals that it misses, in words."""
    during, beside = row["during"], row["honest"]
    which = [what for what, number, times in (("p50", 1, DATA[0]), ("p99", 2, DATA[1]))
             if during["data"][number] > times * beside["data"][number]]
    which += [what for what, number, most in (("calls p99", 2, CALLS[0]), ("calls max", 3, CALLS[1]))
              if during["control"][number] > most]
    return ", ".join(which + (["end"] if row["end"] > END else []))


def show_row(row):
    """A row of the table: median; p99 of WRITEs in us, p99; longest of calls in ms."""
    cells = [f"{us(row[phase]['data'][1])}; {us(row[phase]['data'][2])}" for phase in ("before", "honest", "during", "after")]
    cells += [f"{row[phase]['control'][2] / 1e3:.1f}; {row[phase]['control'][3] / 1e3:.0f}"
              for phase in ("before", "honest", "during", "after")]
    return f"| {ATTACKS[row['name']].text} | {' | '.join(cells)} | {row['end']:.2f} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--nice", type=int, default=0)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("attacks", nargs="*", metavar="ATTACK", help=f"default: {' '.join(ATTACKS)}")
    options = parser.parse_args()
    wrong = set(options.attacks) - set(ATTACKS)
    if wrong:
        sys.exit(f"attacks.py: unknown attack {', '.join(wrong)}; legal: {' '.join(ATTACKS)}")
    lib.need_root()
    rows = []
    print("| the attacker | WRITEs us: before | honest | during | after | calls ms: before | honest | during | after | end s |")
    print("| --- |" + " --- |" * 9, flush=True)
    for name in options.attacks or ATTACKS:
        row = measure(name, options.seconds, options.nice)
        rows.append(row)
        print(show_row(row), f"load {row['load']:.1f}; misses: {misses(row) or 'none'}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
