# SPDX-License-Identifier: BSD-3-Clause
"""Running perftest's programs between two sides, and reading what they print; huge pages."""
import contextlib
import pathlib
import re

import lib

HUGE = pathlib.Path("/proc/sys/vm/nr_hugepages")
HUGE_GROUP = pathlib.Path("/proc/sys/vm/hugetlb_shm_group")


def rows(text):
    """The result table: message size -> list of the numbers behind it. On a busy machine perftest
    cannot tell the CPU's frequency: it prints inf, and says so on its other output, of which the
    words can stand behind a row's."""
    found = {}
    for line in text.splitlines():
        line = line.partition("Correlation coefficient")[0]
        if re.fullmatch(r"\s*\d+(\s+([\d.]+|inf|-?nan))+\s*", line):
            size, *rest = line.split()
            found[int(size)] = [float(x) for x in rest]
    return found


# ACK timeouts of 1.1 s, eight of them. With perftest's own, 67 ms, a daemon that gets no core for half
# a second, among those that a test suite runs at once, costs both ends their connection, and rightly:
# test_stalled.py is about that. What is lost is sent again long before, by probes.
PATIENT = ("-u", "18")


def run(link, tool, *args, sizes, timeout=90):
    """Server on link.b, client on link.a. Every size must be in the client's table, with
    iterations done. Returns the pair."""
    pair = lib.verbs_pair(link.b, link.a, tool, ["-d", "{dev}", "-x", "1", "-F", *PATIENT, *args],
                          timeout=timeout)
    table = rows(pair.client.output())
    for size in sizes:
        assert size in table, f"no result for {size} bytes:\n{pair.client.output()}"
        assert table[size][0] > 0, f"no iterations of {size} bytes:\n{pair.client.output()}"
    return pair


@contextlib.contextmanager
def huge_pages(count):
    """Huge pages for shmget, for the user who shall run clients, too."""
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
