#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""pyverbs' traffic tests with 1 % of all frames lost: no failure and no hang. They use one device only, so it has a
port that sends all frames back (loopback=wire).

    UROCE_TEST_LOOPS=200 UROCE_BUILD=build python3 test/system/test_prog_lossy.py

RC tests only: UC and UD do not recover from loss, so their tests would wait forever. Tests that wait for a fatal
NAK are excluded: if it is lost, the responder is in ERR and silent, and the requester correctly reports that its
retries are exhausted."""
import os

import lib
import pyverbs_run

LOOPS = int(os.environ.get("UROCE_TEST_LOOPS", "2"))
TRAFFIC = (
    "test_atomic.AtomicTest.test_atomic_cmp_and_swap",
    "test_atomic.AtomicTest.test_atomic_fetch_and_add",
    "test_cq_events_rc",
    "test_rc_traffic_cq_ex",
    "test_mem_align_rc_traffic",
    "test_mem_align_srq_excq_rc_traffic",
    "test_without_allocators_rc_traffic",
    "test_qp_ex_rc_atomic_cmp_swp",
    "test_qp_ex_rc_atomic_fetch_add",
    "test_qp_ex_rc_rdma_read",
    "test_qp_ex_rc_rdma_write",
    "test_qp_ex_rc_send",
    "test_ro_rc_traffic",
    "test_imported_rc_ex_rdma_write",
    "*test_mw_type1",
    "*test_mw_type2",
)


def link_hairpin():
    dev = "name=uroce0,port=net_ring0,addr=10.9.0.101/24,mtu=4096,loopback=wire"
    side = lib.Side(lib.Daemon(["net_ring0"], [dev], lib.netns()), "uroce0", "127.0.0.1")
    return lib.Link("hairpin", side, side, 4096)


def main():
    lib.need_root()
    link = link_hairpin()
    folder = pyverbs_run.unpack()
    with lib.case(f"{LOOPS} loops of {len(TRAFFIC)} or more tests while 1 % of frames is lost"):
        for loop in range(LOOPS):
            link.a.daemon.impair("uroce0", "set", f"drop=1%,seed={loop + 1}")
            found = pyverbs_run.run(link.a, folder, TRAFFIC)
            passed = [name for name, what in found.items() if what == "ok"]
            assert len(passed) >= len(TRAFFIC), f"loop {loop}: {found}"
        lost = link.a.daemon.impair("uroce0", "show")
        stats = link.a.daemon.counters()
        print(f"# {lost['drop']} of {lost['received']} frames lost, "
              f"{stats['retransmitted_packets']} sent again")
        assert lost["drop"] > 0 and stats["retransmitted_packets"] > 0, lost
    link.end()
    lib.finish()


main()
