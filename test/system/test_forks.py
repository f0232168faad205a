#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Programs that call verbs in their fork handlers (forks.c), and ibv_fork_init (forksafe.c), with and without
adoption."""
import lib


def main():
    lib.need_root()
    link = lib.link_loop()
    for mode in "auto", "copy":
        for program in "forksafe", "forks":
            lib.tap(link.a.spawn([lib.BUILD / "test/system" / program, link.a.dev],
                                 env={"UROCE_MR_MODE": mode}), f"{program}, UROCE_MR_MODE={mode}")
    link.end()
    lib.finish()


main()
