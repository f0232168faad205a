#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A program that calls verbs in its fork handlers (forks.c), with and without adoption."""
import lib


def main():
    lib.need_root()
    link = lib.link_loop()
    for mode in "auto", "copy":
        lib.tap(link.a.spawn([lib.BUILD / "test/system/forks", link.a.dev],
                             env={"UROCE_MR_MODE": mode}), f"UROCE_MR_MODE={mode}", 150)
    link.end()
    lib.finish()


main()
