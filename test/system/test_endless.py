#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A client creates endless work that sends no packets (spinner.c). Its neighbours on the same worker transfer data,
the control thread replies, and the daemon ends on SIGTERM."""
import lib


def endless(link, how):
    daemon = link.a.daemon
    hostile = link.a.spawn([lib.BUILD / "test/system/spinner", link.a.dev, how])
    with lib.case(f"{how}: the worker has begun"):
        def spinning():
            assert hostile.poll() is None, hostile.output()
            return "spinning" in hostile.output()
        lib.until("it spins", spinning)
    with lib.case(f"{how}: the control thread reaches the worker"):
        daemon.show("qp")
        daemon.alive()
    with lib.case(f"{how}: a neighbour is created, transfers and is destroyed"):
        lib.verbs_pair(link.b, link.a, "ibv_rc_pingpong",
                       ["-d", "{dev}", "-c", "-g", "1", "-n", "2000"], timeout=5 * lib.processes.HANGS_S)
    with lib.case(f"{how}: it had its share throughout, and leaves no object"):
        hostile.term()
        assert "consumed" in hostile.output(), hostile.output()
        print("#", hostile.output().split("\n")[-2])
        lib.until("its objects are gone", lambda: not daemon.objects()["qp"])


def main():
    lib.need_root()
    link = lib.link_loop()
    for how in ("local", "flush", "bells"):
        endless(link, how)
    for how in ("order-local", "order-flush"):
        with lib.case(f"{how}: a message overtakes a full queue of it"):
            hostile = link.a.spawn([lib.BUILD / "test/system/spinner", link.a.dev, how])
            assert hostile.wait(5 * lib.processes.HANGS_S) == 0, hostile.output()
            print("#", hostile.output().split("\n")[0])
    with lib.case("the daemon ends cleanly"):
        link.nothing_left()
        link.stop()
    lib.finish()


main()
