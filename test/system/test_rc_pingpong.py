#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""ibv_rc_pingpong over every kind of link. -c: the program itself checks the data."""
import lib

SIZES = (1, 2, 63, 64, 1023, 1024, 1025, 4095, 4096, 4097, 65536, 1 << 20, 8 << 20)
SHORT_SIZES = (1, 4097, 1 << 20)


def pingpong(link, *args):
    lib.verbs_pair(link.b, link.a, "ibv_rc_pingpong",
                   ["-d", "{dev}", "-c", "-m", str(link.mtu), *args])


def sizes(link):
    for size in SHORT_SIZES if lib.SHORT else SIZES:
        iters = 200 if size <= 4097 else 20 if size <= 1 << 20 else 5
        with lib.case(f"{link.kind} MTU {link.mtu}: {size} bytes"):
            pingpong(link, "-g", "1", "-s", str(size), "-n", str(iters))


def ways(link):
    with lib.case(f"{link.kind}: events (-e)"):
        pingpong(link, "-g", "1", "-e", "-n", "300")
    with lib.case(f"{link.kind}: events (-e), 1 MiB"):
        pingpong(link, "-g", "1", "-e", "-n", "10", "-s", str(1 << 20))
    with lib.case(f"{link.kind}: GID 0 (IPv6 link-local)"):
        pingpong(link, "-g", "0", "-n", "200")
    with lib.case(f"{link.kind}: -r 1"):
        pingpong(link, "-g", "1", "-r", "1", "-n", "200")
    with lib.case(f"{link.kind}: -r 2000 -n 5000"):
        pingpong(link, "-g", "1", "-r", "2000", "-n", "5000" if not lib.SHORT else "1000")
    for mtu in (256, 512, 1024, 2048, 4096):
        if mtu <= link.mtu:
            with lib.case(f"{link.kind}: path MTU {mtu}"):
                pingpong(link, "-g", "1", "-m", str(mtu), "-s", "10000", "-n", "100")


def any_number_of_workers():
    """QPs are assigned to workers in turn, so with six QPs each worker exchanges data with itself and with the next."""
    link = lib.link_loop(("--workers", "3"))
    for i in range(3):
        with lib.case(f"three workers: QPs {2 * i} and {2 * i + 1}"):
            pingpong(link, "-g", "1", "-s", "4097", "-n", "100")
    with lib.case("three workers: nothing is left, the daemon ends cleanly"):
        link.nothing_left()
        link.stop()


def main():
    lib.need_root()
    any_number_of_workers()
    for kind, make in lib.LINKS.items():
        link = make()
        sizes(link)
        ways(link)
        link.end(link.kind)
        if kind == "veth":
            link = lib.link_veth(1024)
            sizes(link)
            link.stop()
    lib.finish()


main()
