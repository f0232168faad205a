#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Clients that arm their CQs continuously (armer.c) must not block the control thread for others."""
import control
import lib

CALLS = 200
ARMERS = 2


def main():
    lib.need_root()
    link = lib.link_loop()
    daemon = link.daemons[0]
    armers = [daemon.client([lib.BUILD / "test/system/armer", "uroce0"]) for _ in range(ARMERS)]
    with lib.case("the hostile clients are running"):
        for armer in armers:
            lib.until("armed", lambda armer=armer: "armed" in armer.output())
    with lib.case("another client still gets its replies"):
        c = control.Client(daemon.socket, "uroce0")

        def calls():
            for _ in range(CALLS):
                status, pd, _ = c.make("ALLOC_PD")
                assert status == 0
                assert c.do("DEALLOC_PD", control.one(pd)) == 0
            return True
        lib.until("the calls", calls)
        c.close()
        assert daemon.show("client")["client"]
    with lib.case("all objects are freed when they are killed"):
        for armer in armers:
            armer.kill()
        link.nothing_left()
        daemon.stop()
    lib.finish()


main()
