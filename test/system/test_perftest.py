#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""perftest over every kind of link: short runs, many shapes."""
import concurrent.futures

import lib
import perftool

SHAPES = ((2, 1000), (4096, 1000), (65536, 1000), (1 << 20, 50))  # bytes, messages
SHORT_SHAPES = ((2, 200), (65536, 50))
BANDWIDTH = ("ib_send_bw", "ib_write_bw", "ib_read_bw")


def perf(link, tool, *args, sizes, timeout=90):
    perftool.run(link, tool, "-m", str(link.mtu), *args, sizes=sizes, timeout=timeout)


def bandwidth(link):
    for tool in BANDWIDTH:
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


def all_sizes(link):
    """The programs at the same time: each waits most of it, to find the processor's frequency again
    for each size."""
    with concurrent.futures.ThreadPoolExecutor(len(BANDWIDTH)) as pool:
        runs = {tool: pool.submit(perf, link, tool, "-n", "20", "-a",
                                  sizes=[1 << n for n in range(1, 24)], timeout=120)
                for tool in BANDWIDTH}
        for tool, run in runs.items():
            with lib.case(f"{link.kind}: {tool} -a, beside the others"):
                run.result()


def latency(link):
    for tool in ("ib_write_lat", "ib_send_lat", "ib_read_lat"):
        for size in (2, 4096):
            with lib.case(f"{link.kind}: {tool} {size} bytes"):
                perf(link, tool, "-n", "100" if lib.SHORT else "200", "-s", str(size), sizes=[size])


def main():
    lib.need_root()
    for kind, make in lib.LINKS.items():
        if lib.SHORT and kind != "veth":
            continue
        link = make()
        bandwidth(link)
        if link.kind in ("veth", "ring") and not lib.SHORT:
            all_sizes(link)
        latency(link)
        with lib.case(f"{link.kind}: nothing is left, the daemons end cleanly"):
            for daemon in link.daemons:
                lib.until("no object is left",
                          lambda daemon=daemon: not any(daemon.objects().values()))
            link.stop()
    lib.finish()


main()
