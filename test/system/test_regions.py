#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Addresses of bytes in regions and windows, and which of them allow atomics (regions.c), with memory that the
daemon maps and with memory that it copies, because the program wants it or the daemon (copy-memory)."""
import lib


def main():
    lib.need_root()
    link = lib.link_loop(lib.ONE_WORKER)
    for what, env in (("mapped", {}), ("copied", {"UROCE_MR_MODE": "copy"})):
        lib.tap(link.a.spawn([lib.BUILD / "test/system/regions", link.a.dev], env), what)
    link.end()
    link = lib.link_loop((*lib.ONE_WORKER, "--copy-memory"))
    lib.tap(link.a.spawn([lib.BUILD / "test/system/regions", link.a.dev]), "copied by the daemon")
    with lib.case("memory that must not be copied is refused"):
        proc = link.a.spawn([lib.BUILD / "test/system/regions", link.a.dev], {"UROCE_MR_MODE": "adopt"})
        assert proc.wait(lib.processes.HANGS_S) != 0 and "not supported" in proc.output(), proc.tail()
    link.end()
    lib.finish()


main()
