#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A client whose regions take as many mappings of the daemon as it can get: it is stopped at its
limit, others register memory, and memory that others lose under the daemon is still repaired."""
import errno
import os

import control
import lib

ALICE, BOB = 65534, 65533
PIECES = 32


def pieces():
    """A region of pieces that cannot be merged: all of them are the same page of a file."""
    return [(control.REGION + i * control.PAGE, control.PAGE, 1, 0, 0, 0, 0) for i in range(PIECES)]


class Maker:
    def __init__(self, daemon, uid):
        with control.as_uid(uid):
            self.c = control.Client(daemon.socket, "uroce0")
        assert self.c.make("ALLOC_PD")[0] == 0
        self.fd = control.memfd()

    def one(self):
        """(status, the daemon's word on it)"""
        body = control.region(0, length=PIECES * control.PAGE, pieces=pieces())
        status, body, _ = self.c.call("REG_MR", body, [self.fd])
        return status, body.decode() if status else ""

    def fill(self, most=5000):
        for n in range(most):
            status, why = self.one()
            if status:
                return n, status, why
        raise AssertionError(f"{most} regions, and no end")

    def close(self):
        self.c.close()
        os.close(self.fd)


def mappings(pid):
    with open(f"/proc/{pid}/maps", encoding="ascii", errors="replace") as maps:
        return sum(1 for _ in maps)


def main():
    lib.need_root()
    folder = lib.tmpdir()
    folder.chmod(0o711)
    daemon = lib.Daemon(["net_ring0"],
                        ["name=uroce0,port=net_ring0,addr=10.9.0.101/24,mtu=4096"], lib.netns(),
                        (*lib.ONE_WORKER, "--socket-mode", "0666"), socket=folder / "uroced.sock")
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
    with lib.case("another user has room"):
        bob = Maker(daemon, BOB)
        for _ in range(20):
            status, why = bob.one()
            assert status == 0, (status, why)
        bob.close()
    lib.tap(daemon.client([lib.BUILD / "test/system/gone", "uroce0"]), "meanwhile", 120)
    with lib.case("everything is given back"):
        alice.close()
        lib.until("no client is left", lambda: not daemon.show("client")["client"])
        assert mappings(daemon.proc.pid) < before + 200
        alice = Maker(daemon, ALICE)
        again, status, why = alice.fill()
        assert (again, status) == (n, errno.ENOMEM), (again, n, why)
        alice.close()
        daemon.stop()
    lib.finish()


main()
