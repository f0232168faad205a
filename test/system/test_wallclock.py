#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The time of day is stepped by hours, forward and back, beside a transfer: it goes on, the counters in the daemon's
sysfs files go on, and the daemon answers and ends. wallclock.c steps it for the daemons only."""
import os
import pathlib
import struct
from unittest import mock

import lib
from test_flood import Transfer

HOUR = 3600
COUNTER = "port_xmit_packets"


class Clock:
    """The wrong time of day of the daemons that are started in this context."""

    def __init__(self):
        self.path = lib.tmpdir() / "seconds"
        self.set(0)

    def set(self, seconds):
        with open(self.path, "r+b" if self.path.exists() else "wb") as file:  # the daemons have it mapped
            file.write(struct.pack("<q", seconds))

    def env(self):
        return mock.patch.dict(os.environ, LD_PRELOAD=str(lib.BUILD / "test/system/libwallclock.so"),
                               WALLCLOCK_FILE=str(self.path))


def counter(side):
    (path,) = pathlib.Path(f"{side.daemon.socket}.sysfs/{side.dev}").rglob(COUNTER)
    return int(path.read_text())


def counts_on(side):
    """The file is written at least twice: the first time may have been due before the step."""
    for _ in range(2):
        before = counter(side)
        lib.until("the counter file goes on", lambda b=before: counter(side) > b)


def main():
    lib.need_root()
    if lib.SANITIZED:
        lib.skip("a sanitizer's run-time must be the first library")
    clock = Clock()
    with clock.env():
        link = lib.link_veth()
    good = Transfer(link)
    for what, seconds in (("forward", 5 * HOUR), ("back", -5 * HOUR), ("forward a second time", 9 * HOUR), ("right again", 0)):
        with lib.case(f"the clock is stepped {what}: transfer, counters and control go on"):
            clock.set(seconds)
            good.goes_on()
            counts_on(link.a)
            assert link.b.daemon.show("daemon")["daemon"]
    clock.set(5 * HOUR)
    with lib.case("the transfer is complete"):
        assert good.end() == (0, 0), good.client.tail() + good.server.tail()
    link.end()
    lib.finish()


main()
