# SPDX-License-Identifier: BSD-3-Clause
"""Runs rdma_cm programs between two sides: a server, then its client once it can be reached."""
import json
import pathlib

import lib

# Line-buffered output: some programs print a line when they are ready.
LINES = ("stdbuf", "-oL")


class Ends:
    """The two ends of a link: side, RDMA addresses, and whether the host's sockets have the same addresses."""

    def __init__(self, link, server, client, host):
        self.link, self.host = link, host
        self.server, self.client = server, client  # (IPv4, IPv6)

    def words(self, port):
        """What a command line may name."""
        (s, s6), (c, c6) = self.server, self.client
        return {"s": s, "s6": s6, "c": c, "c6": c6, "p": port, "dev": self.link.b.dev}


TABLES = ("iptables", "ip6tables")
DROP = ("INPUT", "-p", "udp", "--dport", "4791", "-m", "statistic", "--mode", "random", "--probability", "0.01", "-j",
        "DROP")


def impair(link, lost):
    """Starts or stops the loss of 1 % of the frames to both sides. If the daemon receives through the kernel's
    sockets, the kernel drops them."""
    for side in (link.a, link.b):
        if link.kind == "udp":
            for table in TABLES:
                lib.sh(table, "-A" if lost else "-D", *DROP, ns=side.daemon.ns)
        else:
            side.daemon.impair(side.dev, *(("set", "drop=1%,seed=7") if lost else ("clear",)))


def frames_lost(link):
    """Number of frames lost so far."""
    lost = 0
    for side in (link.a, link.b):
        if link.kind == "udp":
            for table in TABLES:
                rule = lib.sh(table, "-L", "INPUT", "-v", "-x", "-n", ns=side.daemon.ns).splitlines()[-1]
                lost += int(rule.split()[0])
        else:
            lost += side.daemon.impair(side.dev, "show")["drop"]
    return lost


def listens(daemon):
    """Does a program have a listener? The daemon lists it; the kernel's table of sockets does not."""
    return any(row["state"] == "LISTEN" for row in daemon.show("cm")["cm"])


def spawn(side, argv, env):
    return side.spawn([*LINES, *argv], env)


def wait_ready(ends, server, ready=None, port=0):
    """ready: None: the daemon shows its listener; "tcp": it listens on this TCP port; any other text: it prints it."""
    if ready == "tcp":
        lib.until("the server listens", lambda: server.listens(port) or server.poll() is not None)
    elif ready:
        lib.until(f"the server says {ready!r}", lambda: ready in server.output() or server.poll() is not None)
    else:
        lib.until("the server listens", lambda: listens(ends.link.b.daemon) or server.poll() is not None)


ATTEMPTS = 5


def counted(ends, again):
    """How often both daemons have counted the reason."""
    return sum(side.daemon.counters(again.topic)[again.counter] for side in (ends.link.a, ends.link.b))


def changed(ends, before):
    """What both daemons have counted since."""
    now = [side.daemon.counters() for side in (ends.link.a, ends.link.b)]
    return "\n".join(f"--- {name}: {({what: n - was[what] for what, n in stats.items() if n != was[what]})}"
                     for name, stats, was in zip(("client", "server"), now, before))


def pair(ends, case, lossy):
    """Runs a case; repeats it if a program failed in a way that the case allows, and its reason was counted."""
    allowed = [again for again in case.again if lossy or not again.lossy]
    for attempt in range(ATTEMPTS):
        before = [counted(ends, again) for again in allowed]
        stats = [side.daemon.counters() for side in (ends.link.a, ends.link.b)]
        try:
            once(ends, case, lib.tcp_port())
            return
        except ProgramFailed as failed:
            if attempt + 1 == ATTEMPTS or not any(again.line in failed.output and counted(ends, again) > was
                                                  for again, was in zip(allowed, before)):
                raise ProgramFailed(f"{failed}\n{changed(ends, stats)}", failed.output) from None
            print(f"# again: {str(failed).splitlines()[0]}")


def state(ends):
    """What both daemons show of the programs' objects, for the report of a hang."""
    return "\n".join(f"--- {name}: {what}: {json.dumps(side.daemon.show(what)[what])}"
                     for name, side in (("client", ends.link.a), ("server", ends.link.b))
                     for what in ("qp", "cq", "cm"))


class ProgramFailed(AssertionError):
    """A program hung or ended with a bad status; output: all that it wrote."""

    def __init__(self, text, output):
        super().__init__(text)
        self.output = output


def once(ends, case, port):
    """Runs a case once; both programs must end with status 0, unless the server runs until it is killed."""
    words = ends.words(port)

    def argv(template):
        return [word.format(**words) for word in template]

    lib.until("the last test's listener is gone", lambda: not listens(ends.link.b.daemon))
    server = spawn(ends.link.b, argv(case.server), case.env)
    try:
        wait_ready(ends, server, case.ready, port)
        before = ends.link.a.daemon.counters()["tx_frames"]
        for _ in range(case.clients):
            client = spawn(ends.link.a, argv(case.client), case.env)
            try:
                rc = client.wait(case.timeout)
            except TimeoutError as late:
                raise ProgramFailed(f"{late}\n{lib.stacks(client.pid)}\n--- server:\n{server.tail(1500)}\n"
                                    f"{state(ends)}", client.output()) from None
            finally:
                client.kill()
            if rc not in case.rcs:
                raise ProgramFailed(f"client {rc}:\n{client.tail(1500)}\n--- server:\n{server.tail(1500)}\n"
                                    f"{lib.logs(ends.link.a, ends.link.b)}", client.output())
            if case.says:
                assert case.says.format(**words) in client.output(), client.tail(1500)
        sent = ends.link.a.daemon.counters()["tx_frames"] - before
        assert sent > 2, "nothing was sent over RDMA"
        if case.ends:
            try:
                rc = server.wait(60)
            except TimeoutError as late:
                raise ProgramFailed(f"{late}\n{lib.stacks(server.pid)}\n--- client:\n{client.tail(1500)}\n"
                                    f"{state(ends)}", client.output()) from None  # (fio's client fails with status 0)
            if rc:
                raise ProgramFailed(f"server {rc}:\n{server.tail(1500)}\n--- client:\n{client.tail(1500)}",
                                    server.output())
        else:
            assert server.poll() is None, f"the server ended: {server.tail(1500)}"
    finally:
        server.kill()


def same_bytes(one, other):
    assert pathlib.Path(one).read_bytes() == pathlib.Path(other).read_bytes(), f"{one} and {other} differ"
