#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A device's reported limits are true (limits.c): with small limits, more of which can be reached together, and
with UROCE_TEST_FULL=1 the daemon's defaults, which takes minutes. A program's own limits (cramped.c)."""
import lib

SMALL = ("--max-qps", "32", "--max-cqs", "40", "--max-mrs", "100", "--max-pds", "9")


# Mappings, of which each region takes one, are fewer than entries of the key table.
FEW_MAPS = ("--max-qps", "32", "--max-cqs", "40", "--max-mrs", "1000", "--max-pds", "9", "--max-maps", "300")


def limits(extra):
    link = lib.link_loop(extra)
    prog = link.a.spawn([lib.BUILD / "test/system/limits", link.a.dev])
    what = " ".join(extra) or "defaults"
    lib.tap(prog, what)
    link.end(what)


def cramped():
    link = lib.link_loop()
    env = {"UROCE_SANITIZED": "1"} if lib.SANITIZED else None
    lib.tap(link.a.spawn([lib.BUILD / "test/system/cramped", link.a.dev], env), "cramped")
    link.end("cramped")


def main():
    lib.need_root()
    limits(SMALL)
    limits(FEW_MAPS)
    cramped()
    if lib.FULL:  # tens of thousands of regions, one by one
        limits(lib.ONE_WORKER)
    lib.finish()


main()
