#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Memory of an ordinary user's program with threads is adopted: the daemon stops them meanwhile (paused.c). With a
daemon of the same user, and with one of root. It stops none if the program may open /dev/userfaultfd."""
import os
import pathlib
import stat
import subprocess

import test_port_udp  # sets the uid of programs, before lib reads it
import lib


def may_everybody():
    """Does the machine give every user a userfaultfd? Then nothing needs to be stopped."""
    return pathlib.Path("/proc/sys/vm/unprivileged_userfaultfd").read_text(encoding="ascii").strip() == "1"


DEVICE = pathlib.Path("/dev/userfaultfd")


def granted():
    """Command prefix of a program whose group may open DEVICE, as doc/memory.md tells an operator to let it."""
    node = lib.tmpdir() / "userfaultfd"
    os.mknod(node, stat.S_IFCHR | 0o600, DEVICE.stat().st_rdev)
    os.chown(node, 0, int(lib.UID))
    node.chmod(0o660)
    return ["unshare", "--mount", "sh", "-c", f'mount --bind "$0" {DEVICE} && exec "$@"', node]


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
        if DEVICE.exists():
            lib.tap(link.a.daemon.client([paused, link.a.dev, "granted"], before=granted()), f"{what}, {DEVICE}")
        else:
            lib.skip_case(f"{what}, {DEVICE}", "the kernel has no such device")
        link.end(what)
    lib.finish()


main()
