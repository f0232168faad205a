#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""CQE-15, EVT-14: uroced is killed by SIGKILL under traffic. Its clients complete every work request exactly once,
destroy all objects and reopen the device on a new daemon."""
import os
import random
import signal
import time

import lib

TIMES = 3 if lib.SHORT else 10
SURVIVOR = lib.BUILD / "test/system/survivor"
DEV = "name=uroce0,port=net_ring0,addr=10.9.0.101/24,mtu=4096"
SHAPES = {
    "one pair, a CQ each": [],
    "two pairs on one CQ": ["-q", "2", "-c"],
    "an SRQ": ["-q", "2", "-s"],
    "an SRQ, one CQ, by events": ["-q", "2", "-s", "-c", "-e"],
    "by events": ["-q", "2", "-e"],
}


def daemon(extra, socket=None, ns=None):
    return lib.Daemon(["net_ring0"], [DEV], ns, extra, socket)


def said(proc, word):
    def look():
        assert proc.poll() in (None, 0), f"{proc.argv} ended with {proc.poll()}:\n{proc.tail()}"
        return word in proc.output().splitlines()
    return look


def survive(first, options, extra, how):
    """Runs a program and ends its daemon with this signal; returns the replacement daemon."""
    prog = first.client([SURVIVOR, *options, "uroce0"])
    lib.until("traffic runs", said(prog, "running"))
    time.sleep(random.random() * 0.3)
    os.kill(first.proc.pid, how)
    lib.until("all WRs have completed and all objects are destroyed", said(prog, "drained"))
    first.proc.wait(60)
    second = daemon(extra, first.socket, first.ns)
    assert prog.wait(60) == 0 and said(prog, "again")(), prog.tail()
    return second


def shapes(extra, how, times):
    served = daemon(extra, ns=lib.netns())
    for name, options in SHAPES.items():
        for n in range(times):
            with lib.case(f"{name}, {len(extra) and 2 or 1} workers, {how.name} {n + 1}"):
                served = survive(served, options, extra, how)
            if served.proc.poll() is not None:  # the previous case failed half way
                served = daemon(extra, served.socket, served.ns)
    with lib.case("the last daemon has nothing left and ends cleanly"):
        lib.until("no object is left", lambda: not any(served.objects().values()))
        served.stop()


def main():
    lib.need_root()
    shapes(lib.TWO_WORKERS, signal.SIGKILL, TIMES)
    shapes(lib.ONE_WORKER, signal.SIGKILL, 1)
    shapes(lib.TWO_WORKERS, signal.SIGTERM, 1)
    lib.finish()


if __name__ == "__main__":
    main()
