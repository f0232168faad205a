#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The longest message, 2^31 bytes, between two devices on rings: it ends, and every byte arrives. Needs 5 GiB of memory."""
import lib


def main():
    lib.need_root()
    link = lib.link_ring()
    prog = link.a.spawn([lib.BUILD / "test/system/longest", link.a.dev, link.b.dev])
    lib.tap(prog, "longest message", 7200)
    print("\n".join(line for line in prog.output().splitlines() if line.startswith("#")))
    link.end("longest message")
    lib.finish()


main()
