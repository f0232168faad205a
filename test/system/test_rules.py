#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""LIFE-01, LIFE-04, IMM-04, WIRE-07, WIRE-10, QP-22 as an ordinary program sees them (rules.c), over links of two
devices in one daemon."""
import lib

RULES = lib.BUILD / "test/system/rules"


def rules(name, extra):
    link = lib.link_ring(extra)
    prog = link.a.spawn([RULES, link.a.dev, link.b.dev])
    rc = prog.wait(120)
    with lib.case(f"{name}: the program succeeded"):
        assert rc == 0, f"ended with {rc}:\n{prog.tail()}"
    for line in prog.output().splitlines():
        if " - test_" in line:
            with lib.case(f"{name}: {line.split(' - ')[1]}"):
                assert line.startswith("ok"), prog.tail()
    with lib.case(f"{name}: nothing is left"):
        lib.until("no object is left", lambda: not any(link.a.daemon.objects().values()))
        link.stop()


def main():
    lib.need_root()
    rules("one worker", lib.ONE_WORKER)
    rules("two workers", lib.TWO_WORKERS)
    lib.finish()


main()
