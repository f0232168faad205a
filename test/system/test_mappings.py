#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A client registers regions that use as many of the daemon's mappings as possible. It is stopped at its limit,
others can register memory, and the daemon still repairs memory that others lose."""
import errno
import mmap
import os
import threading

import control
import lib

ALICE, BOB = 65534, 65533
PIECES = 32
# About 2000 rounds exhaust a daemon that stops counting a region before it is unmapped, but take minutes:
# long_mappings.py (`ninja programs-long`) runs 2000.
ROUNDS = int(os.environ.get("UROCE_MAPPINGS_ROUNDS", 100))


def pieces():
    """A region of pieces that cannot be merged, because all map the same page of a file."""
    return [(control.REGION + i * control.PAGE, control.PAGE, 1, 0, 0, 0, 0) for i in range(PIECES)]


class Maker:
    def __init__(self, daemon, uid):
        with control.as_uid(uid):
            self.c = control.Client(daemon.socket, "uroce0")
        assert self.c.make("ALLOC_PD")[0] == 0
        self.fd = control.memfd()

    def one(self):
        """(status, the daemon's message)"""
        body = control.region(0, length=PIECES * control.PAGE, pieces=pieces())
        status, body, _ = self.c.call("REG_MR", body, [self.fd])
        return status, body.decode() if status else ""

    def fill(self, most=5000):
        for n in range(most):
            status, why = self.one()
            if status:
                return n, status, why
        raise AssertionError(f"{most} regions, and none was refused")

    def close(self):
        self.c.close()
        os.close(self.fd)


class Busy(threading.Thread):
    """A client that registers large regions continuously, so that the daemon always has page tables to fill in."""
    BYTES = 256 << 20
    HELD = 4

    def __init__(self, daemon, uid):
        super().__init__(daemon=True)
        with control.as_uid(uid):
            self.c = control.Client(daemon.socket, "uroce0")
        assert self.c.make("ALLOC_PD")[0] == 0
        self.fd = control.memfd(self.BYTES)
        with mmap.mmap(self.fd, self.BYTES) as pages:
            for at in range(0, self.BYTES, control.PAGE):
                pages[at] = 1
        self.stop = False
        self.done = 0
        self.start()

    def run(self):
        held = []
        while not self.stop:
            status, mr, _ = self.c.make("REG_MR", control.region(0, length=self.BYTES), [self.fd])
            if status == 0:
                held.append(mr)
                self.done += 1
            if held and (status or len(held) == self.HELD):
                self.c.do("DEREG_MR", control.one(held.pop(0)))

    def end(self):
        self.stop = True
        self.join()
        self.c.close()
        os.close(self.fd)


def churn(daemon, uid, rounds):
    """Registers and deregisters a region of many pieces, which the daemon unmaps in the background. Returns the
    daemon's maximum number of mappings and its refusals."""
    piece = 160 << 10
    body = control.region(0, length=PIECES * piece, pieces=[
        (control.REGION + i * piece, piece, 1, 0, 2 * i * piece, 0, 0) for i in range(PIECES)])
    with control.as_uid(uid):
        c = control.Client(daemon.socket, "uroce0")
    assert c.make("ALLOC_PD")[0] == 0
    fd = control.memfd(2 * PIECES * piece)
    most, refused = 0, []
    for i in range(rounds):
        status, mr, rest = c.make("REG_MR", body, [fd])
        if status:
            refused.append((status, rest))
        else:
            assert c.do("DEREG_MR", control.one(mr)) == 0
        if i % 20 == 0:
            most = max(most, mappings(daemon.proc.pid))
    os.close(fd)
    c.close()
    return most, refused


def mappings(pid):
    with open(f"/proc/{pid}/maps", encoding="ascii", errors="replace") as maps:
        return sum(1 for _ in maps)


def main():
    lib.need_root()
    daemon = lib.Daemon(["net_ring0"],
                        ["name=uroce0,port=net_ring0,addr=10.9.0.101/24,mtu=4096"], lib.netns(),
                        (*lib.ONE_WORKER, "--socket-mode", "0666"), socket=lib.public_socket())
    with open("/proc/sys/vm/max_map_count", encoding="ascii") as limit:
        most = int(limit.read())
    before = mappings(daemon.proc.pid)
    alice = Maker(daemon, ALICE)
    with lib.case("a user that takes mappings is stopped well below vm.max_map_count"):
        n, status, why = alice.fill()
        assert status == errno.ENOMEM, (n, status, why)
        assert "mappings of client memory" in why and "option max-maps-per-uid)" in why, why
        held = mappings(daemon.proc.pid) - before
        assert n * PIECES <= held + PIECES and held < most // 2, (n, held, most)
    with lib.case("another user can still register"):
        bob = Maker(daemon, BOB)
        for _ in range(20):
            status, why = bob.one()
            assert status == 0, (status, why)
        bob.close()
    lib.tap(daemon.client([lib.BUILD / "test/system/gone", "uroce0"]), "meanwhile", 120)
    with lib.case("all mappings are released"):
        alice.close()
        lib.until("no client is left", lambda: not daemon.show("client")["client"])
        # the daemon unmaps in the background
        lib.until("all of it is unmapped", lambda: mappings(daemon.proc.pid) < before + 200)
        alice = Maker(daemon, ALICE)
        again, status, why = alice.fill()
        assert (again, status) == (n, errno.ENOMEM), (again, n, why)
        alice.close()
    with lib.case("regions that are deregistered count until they are unmapped"):
        lib.until("no client is left", lambda: not daemon.show("client")["client"])
        busy = [Busy(daemon, BOB) for _ in range(2)]
        lib.until("they are busy", lambda: all(b.done > 50 for b in busy))
        held, refused = churn(daemon, ALICE, ROUNDS)
        # A user may hold three eighths.
        assert held < before + 200 + most // 8 * 3, (held, before, most)
        assert all(status == errno.EAGAIN and b"option max-maps-per-uid)" in why
                   for status, why in refused), refused[0]
        for b in busy:
            b.end()
    with lib.case("and are released then"):
        lib.until("all of it is unmapped", lambda: mappings(daemon.proc.pid) < before + 200)
        alice = Maker(daemon, ALICE)
        again, status, why = alice.fill()
        assert (again, status) == (n, errno.ENOMEM), (again, n, why)
        alice.close()
        daemon.stop()
    lib.finish()


main()
