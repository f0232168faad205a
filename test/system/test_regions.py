#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Addresses of bytes in regions and windows, and which of them allow atomics (regions.c), with memory that the
daemon maps and with memory that it copies."""
import lib


def main():
    lib.need_root()
    link = lib.link_loop(lib.ONE_WORKER)
    for what, env in (("mapped", {}), ("copied", {"UROCE_MR_MODE": "copy"})):
        lib.tap(link.a.spawn([lib.BUILD / "test/system/regions", link.a.dev], env), what)
    link.end()
    lib.finish()


main()
