#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""perftest over every kind of link: short runs, many shapes."""
import lib
import perftool

SHAPES = ((2, 1000), (4096, 1000), (65536, 1000), (1 << 20, 50))  # bytes, messages
SHORT_SHAPES = ((2, 200), (65536, 50))


def perf(link, tool, *args, sizes, timeout=90):
    perftool.run(link, tool, "-m", str(link.mtu), *args, sizes=sizes, timeout=timeout)


def bandwidth(link):
    for tool in ("ib_send_bw", "ib_write_bw", "ib_read_bw"):
        for size, iters in SHORT_SHAPES if lib.SHORT else SHAPES:
            with lib.case(f"{link.kind}: {tool} {size} bytes"):
                perf(link, tool, "-n", str(iters), "-s", str(size), sizes=[size])
        with lib.case(f"{link.kind}: {tool} 4 QPs"):
            perf(link, tool, "-n", "300", "-s", "8192", "-q", "4", sizes=[8192])
        with lib.case(f"{link.kind}: {tool} both directions"):
            perf(link, tool, "-n", "300", "-s", "8192", "-b", sizes=[8192])
        if tool != "ib_write_bw":  # it has no event mode
            with lib.case(f"{link.kind}: {tool} events"):
                perf(link, tool, "-n", "300", "-s", "8192", "-e", sizes=[8192])
        if link.kind in ("veth", "ring") and not lib.SHORT:
            with lib.case(f"{link.kind}: {tool} -a"):
                perf(link, tool, "-n", "20", "-a", sizes=[1 << n for n in range(1, 24)],
                     timeout=120)


def latency(link):
    for tool in ("ib_write_lat", "ib_send_lat", "ib_read_lat"):
        for size in (2, 4096):
            with lib.case(f"{link.kind}: {tool} {size} bytes"):
                perf(link, tool, "-n", "100" if lib.SHORT else "500", "-s", str(size), sizes=[size])


def main():
    lib.need_root()
    for kind, make in lib.LINKS.items():
        if lib.SHORT and kind != "veth":
            continue
        link = make()
        bandwidth(link)
        latency(link)
        with lib.case(f"{link.kind}: nothing is left, the daemons end cleanly"):
            for daemon in link.daemons:
                lib.until("no object is left",
                          lambda daemon=daemon: not any(daemon.objects().values()))
            link.stop()
    lib.finish()


main()
