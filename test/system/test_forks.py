#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Programs that call verbs in their fork handlers (forks.c), and ibv_fork_init (forksafe.c), with and without
adoption."""
import lib


def main():
    lib.need_root()
    link = lib.link_loop()
    runs = [(program, {"UROCE_MR_MODE": mode}) for mode in ("auto", "copy") for program in ("forksafe", "forks")]
    # libibverbs then accepts huge pages
    runs.append(("forksafe", {"RDMAV_HUGEPAGES_SAFE": "1"}))
    for program, env in runs:
        lib.tap(link.a.spawn([lib.BUILD / "test/system" / program, link.a.dev], env=env),
                ", ".join([program, *map("=".join, env.items())]))
    link.end()
    lib.finish()


main()
