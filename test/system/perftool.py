# SPDX-License-Identifier: BSD-3-Clause
"""Runs perftest's programs between two sides and parses their output; huge pages."""
import contextlib
import fcntl
import pathlib
import re

import lib

HUGE = pathlib.Path("/proc/sys/vm/nr_hugepages")
HUGE_LOCK = pathlib.Path("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages")
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


def run(link, tool, *args, sizes, timeout=lib.processes.HANGS_S):
    """Server on link.b, client on link.a. The client's table must have every size, with a nonzero number of
    iterations. Returns the pair."""
    pair = lib.verbs_pair(link.b, link.a, tool, ["-d", "{dev}", "-x", "1", "-F", *PATIENT, *args],
                          timeout=timeout)
    table = rows(pair.client.output())
    for size in sizes:
        assert size in table, f"no result for {size} bytes:\n{pair.client.output()}"
        assert table[size][0] > 0, f"no iterations of {size} bytes:\n{pair.client.output()}"
    return pair


def more_huge_pages(count):
    """Adds huge pages, or removes -count of them. Returns how many. Other tests do the same at the same time, under the
    same lock: test/unit/mem_adopt holds it as long as it uses its pages."""
    with HUGE_LOCK.open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        were = int(HUGE.read_text())
        HUGE.write_text(str(were + count))
        return int(HUGE.read_text()) - were


@contextlib.contextmanager
def huge_pages(count):
    """Huge pages for shmget, including for the user that runs the clients."""
    group = HUGE_GROUP.read_text()
    added = more_huge_pages(count)
    try:
        if lib.UID:
            HUGE_GROUP.write_text(str(lib.UID))
        yield
    finally:
        more_huge_pages(-added)
        HUGE_GROUP.write_text(group)
