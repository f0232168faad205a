#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""ibv_rc_pingpong's client under valgrind: no errors, and no leaks through the provider."""
import re

import lib

MEMCHECK = ["valgrind", "--tool=memcheck", "--error-exitcode=99", "--leak-check=full",
            "--show-leak-kinds=definite,indirect,possible", "--errors-for-leak-kinds=none",
            "--num-callers=40"]


def blocks(text):
    """valgrind's reports, one string each."""
    return re.split(r"^==\d+== $", text, flags=re.M)


def pingpong(link, *args):
    port = lib.tcp_port()
    argv = ["ibv_rc_pingpong", "-g", "1", "-c", "-m", str(link.mtu), "-p", str(port), *args]
    pair = lib.run_pair(lambda: link.b.spawn([*argv, "-d", link.b.dev]),
                        lambda: link.a.spawn([*MEMCHECK, *argv, "-d", link.a.dev, link.b.host]),
                        port).good()
    text = pair.client.output()
    assert "ERROR SUMMARY: 0 errors" in text, text[-4000:]
    lost = [b for b in blocks(text) if " lost in loss record" in b]
    ours = [b for b in lost if "liburoce" in b]
    assert not ours, "".join(ours)[-4000:]


def main():
    lib.need_root()
    link = lib.link_veth()
    for args in (["-n", "200"], ["-e", "-n", "200"], ["-s", "100000", "-n", "50"],
                 ["-N", "-t", "-n", "200"]):
        with lib.case(f"valgrind: ibv_rc_pingpong -c {' '.join(args)}"):
            pingpong(link, *args)
    link.end()
    lib.finish()


main()
