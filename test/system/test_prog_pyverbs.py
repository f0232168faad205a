#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""pyverbs' own tests, from Debian's package. Those of pyverbs/core.txt must pass. The others pass or are skipped
for a reason listed here, which doc/compatibility.md repeats."""
import pathlib
import re

import lib
import perftool
import pyverbs_run

CORE = (lib.HERE / "pyverbs/core.txt").read_text().split()
WAITS = {"tests.test_qpex.QpExTestCase.test_qp_ex_rc_atomic_write"}  # ATOMIC WRITE
# Tests of other vendors' devices and of hardware that this machine lacks.
FOREIGN = re.compile(r"^tests\.test_(mlx5|efa|cuda)|Cuda")
# pattern of names: why they are skipped
REASONS = {
    r"test_rdmacm\.": "the device has no address of the host; suite cm runs them",
    r"xrc": "XRC is not supported",
    r"raw_qp|test_flow\.|test_rss_traffic": "RoCE devices without raw Ethernet queues",
    r"test_odp\.": "no on-demand paging",
    r"DMTest|DeviceMemory|SharedDM|_dm_": "no device memory",
    r"DmaBuf": "no DMA-BUF on this machine",
    r"test_tag_matching": "no tag matching",
    r"atomic_write": "ATOMIC WRITE is not supported yet",
}


def reason(name):
    return next((why for word, why in REASONS.items() if re.search(word, name)), None)


def main():
    lib.need_root()
    link = lib.link_loop(("--max-pds", "400"))
    folder = pyverbs_run.unpack()
    found = {}
    with perftool.huge_pages(64):
        with lib.case("pyverbs: python3 tests/run_tests.py --dev uroce0 --port 1 --gid 1 -v"):
            found = pyverbs_run.run(link.a, folder)
    for name in CORE:
        if name not in WAITS:
            with lib.case(f"pyverbs: {name}"):
                assert found.get(name) == "ok", found.get(name)
    with lib.case("pyverbs: the other generic tests pass, or are skipped for a known reason"):
        for name, what in found.items():
            if name not in CORE and what != "ok" and not FOREIGN.search(name):
                assert reason(name), f"{name}: {what}"
                print(f"# {name}: {reason(name)}")
    with lib.case("pyverbs: another process imports a context; unknown objects are refused"):
        proc = link.a.spawn(["/usr/bin/python3", lib.HERE / "pyverbs/imports.py", link.a.dev])
        rc = proc.wait(60)
        assert rc == 0 and "imports: good" in proc.output(), f"status {rc}:\n{proc.output()}"
    link.end()
    lib.finish()


main()
