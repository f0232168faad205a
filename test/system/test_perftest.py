#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""perftest over every kind of link: short runs with many options."""
import functools

import lib
import perftool

SHAPES = ((2, 1000), (4096, 1000), (65536, 1000), (1 << 20, 50))  # bytes, messages
SHORT_SHAPES = ((2, 200), (65536, 50))
BANDWIDTH = ("ib_send_bw", "ib_write_bw", "ib_read_bw")


# Programs in parallel: they mostly wait, because each measures the processor frequency for every size. Latency
# tests run alone: they never sleep.
LANES = 2


def perf(link, tool, *args, sizes, timeout=lib.processes.HANGS_S):
    perftool.run(link, tool, "-m", str(link.mtu), *args, sizes=sizes, timeout=timeout)


def row(link, name, tool, *args, sizes):
    """A test for lib.cases_beside."""
    return f"{link.kind}: {tool} {name}", functools.partial(perf, link, tool, *args, sizes=sizes)


def bandwidth(link):
    for tool in BANDWIDTH:
        for size, iters in SHORT_SHAPES if lib.SHORT else SHAPES:
            yield row(link, f"{size} bytes", tool, "-n", str(iters), "-s", str(size), sizes=[size])
        yield row(link, "4 QPs", tool, "-n", "300", "-s", "8192", "-q", "4", sizes=[8192])
        yield row(link, "both directions", tool, "-n", "300", "-s", "8192", "-b", sizes=[8192])
        if tool != "ib_write_bw":  # ib_write_bw has no event mode
            yield row(link, "events", tool, "-n", "300", "-s", "8192", "-e", sizes=[8192])


def all_sizes(link):
    sizes = [1 << n for n in range(1, 24)]
    for tool in BANDWIDTH:
        yield (f"{link.kind}: {tool} -a",
               functools.partial(perf, link, tool, "-n", "20", "-a", sizes=sizes, timeout=5 * lib.processes.HANGS_S))


def latency(link):
    for tool in ("ib_write_lat", "ib_send_lat", "ib_read_lat"):
        for size in (2, 4096):
            yield row(link, f"{size} bytes", tool, "-n", "100" if lib.SHORT else "200", "-s", str(size),
                      sizes=[size])


def main():
    lib.need_root()
    for kind, make in lib.LINKS.items():
        if lib.SHORT and kind != "veth":
            continue
        link = make()
        lib.cases_beside(LANES, bandwidth(link))
        if link.kind in ("veth", "ring") and not lib.SHORT:
            lib.cases_beside(len(BANDWIDTH), all_sizes(link))
        lib.cases_beside(1, latency(link))
        link.end(link.kind)
    lib.finish()


main()
