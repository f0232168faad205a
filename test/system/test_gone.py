#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Memory is deregistered while other clients' windows refer to it (gone.c), with queues on one worker and on
two."""
import lib


def gone(what, extra):
    link = lib.link_loop(extra)
    lib.tap(link.a.spawn([lib.BUILD / "test/system/gone", link.a.dev]), what)
    with lib.case(f"{what}: guessed keys are counted"):
        assert link.a.daemon.counters("stats")["wrong_keys"] >= 24
    link.end(what)


def main():
    lib.need_root()
    # few regions, so that slots of the key table are reused soon
    gone("one worker", (*lib.ONE_WORKER, "--max-mrs", "12"))
    gone("two workers", lib.TWO_WORKERS)
    lib.finish()


main()
