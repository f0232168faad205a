#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Memory of an ordinary user's program with threads is adopted: the daemon stops them meanwhile (paused.c). With a
daemon of the same user, and with one of root."""
import pathlib
import subprocess

import test_port_udp  # sets the uid of programs, before lib reads it
import lib


def may_everybody():
    """Does the machine give every user a userfaultfd? Then nothing needs to be stopped."""
    return pathlib.Path("/proc/sys/vm/unprivileged_userfaultfd").read_text(encoding="ascii").strip() == "1"


def main():
    lib.need_root()
    if may_everybody():
        lib.skip("vm.unprivileged_userfaultfd is 1: no thread has to be stopped")
    paused = lib.public_program("paused")
    ns = lib.netns()
    subprocess.run(["ip", "-n", ns, "addr", "add", "10.9.0.1/24", "dev", "lo"], check=True)
    subprocess.run(["ip", "-n", ns, "link", "set", "lo", "up"], check=True)
    daemon = test_port_udp.daemon_of(ns, "name=uroce0,port=udp,addr=10.9.0.1")
    own = lib.Side(daemon, "uroce0", "10.9.0.1")
    for what, link in (("the user's own daemon", lib.Link("udp", own, own, 4096)), ("root's daemon", lib.link_loop())):
        lib.tap(link.a.spawn([paused, link.a.dev]), what)
        link.end(what)
    lib.finish()


main()
