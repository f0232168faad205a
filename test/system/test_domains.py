#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Thread domains, threads that share queues, and garbled handles (domains.c), with queues on one worker and on
two."""
import lib


def domains(what, extra):
    link = lib.link_loop(extra)
    lib.tap(link.a.spawn([lib.BUILD / "test/system/domains", link.a.dev]), what)
    link.end(what)


def main():
    lib.need_root()
    domains("one worker", lib.ONE_WORKER)
    domains("two workers", lib.TWO_WORKERS)
    lib.finish()


main()
