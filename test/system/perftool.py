# SPDX-License-Identifier: BSD-3-Clause
"""Runs perftest's programs between two sides and parses their output; huge pages."""
import contextlib
import pathlib
import re

import lib

HUGE = pathlib.Path("/proc/sys/vm/nr_hugepages")
HUGE_GROUP = pathlib.Path("/proc/sys/vm/hugetlb_shm_group")


def rows(text):
    """The result table: message size -> the other columns. On a busy machine perftest cannot determine the CPU
    frequency: it prints inf and a warning on standard error, which may follow a row."""
    found = {}
    for line in text.splitlines():
        line = line.partition("Correlation coefficient")[0]
        if re.fullmatch(r"\s*\d+(\s+([\d.]+|inf|-?nan))+\s*", line):
            size, *rest = line.split()
            found[int(size)] = [float(x) for x in rest]
    return found


# Eight ACK timeouts of 1.1 s. With perftest's 67 ms, a daemon that gets no core for half a second while a test
# suite runs would correctly lose the connection (test_stalled.py tests this). Probes repair losses much earlier.
PATIENT = ("-u", "18")


def run(link, tool, *args, sizes, timeout=90):
    """Server on link.b, client on link.a. The client's table must have every size, with a nonzero number of
    iterations. Returns the pair."""
    pair = lib.verbs_pair(link.b, link.a, tool, ["-d", "{dev}", "-x", "1", "-F", *PATIENT, *args],
                          timeout=timeout)
    table = rows(pair.client.output())
    for size in sizes:
        assert size in table, f"no result for {size} bytes:\n{pair.client.output()}"
        assert table[size][0] > 0, f"no iterations of {size} bytes:\n{pair.client.output()}"
    return pair


@contextlib.contextmanager
def huge_pages(count):
    """Huge pages for shmget, including for the user that runs the clients."""
    were = HUGE.read_text(), HUGE_GROUP.read_text()
    free = int(re.search(r"HugePages_Free:\s+(\d+)", pathlib.Path("/proc/meminfo").read_text())[1])
    try:
        if free < count:
            HUGE.write_text(str(int(were[0]) + count - free))
        if lib.UID:
            HUGE_GROUP.write_text(str(lib.UID))
        yield
    finally:
        HUGE.write_text(were[0])
        HUGE_GROUP.write_text(were[1])
