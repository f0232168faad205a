#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Programs resize shared receive queues under traffic (SRQ-01)."""
import lib

PROGRAM = lib.BUILD / "test/system/srqresize"


# Requirements: SRQ-01
def test_resize_under_traffic(extra):
    devs = [f"name=uroce{i},port=net_ring_pair{end},addr=10.9.0.10{i + 1}/24,mtu=4096"
            for i, end in enumerate("ab")]
    daemon = lib.Daemon([], devs, lib.netns(), ("--pair", "pair", *extra))
    proc = daemon.client([PROGRAM, "uroce0", "uroce1", "3000" if lib.SHORT else "20000"])
    rc = proc.wait(90)
    assert rc == 0 and "\nok" in proc.output(), f"{rc}: {proc.output()}"
    assert daemon.objects() == {"qp": 0, "mr": 0, "cq": 0, "client": 0}, daemon.objects()
    daemon.stop()


lib.need_root()
with lib.case("a shared receive queue is resized under traffic"):
    test_resize_under_traffic(lib.ONE_WORKER)
with lib.case("the same with two workers"):
    test_resize_under_traffic(lib.TWO_WORKERS)
lib.finish()
