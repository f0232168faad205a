#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Programs that poll memory instead of completions (polled.c) never see the last byte of a message before the others:
over each kind of port, looped back, in memory that the daemon maps and in memory that it copies."""
import lib
from hostlink import ADDRESSES, spaces

POLLED = lib.BUILD / "test/system/polled"


def link_kernel(spec):
    """Two daemons in two namespaces on a port of the kernel. spec: of the device, with {i}."""
    sides = []
    for i, (ns, (v4, _)) in enumerate(zip(spaces(9000), ADDRESSES), 1):
        daemon = lib.Daemon([], [f"name=uroce0,{spec.format(i=i)}"], ns)
        sides.append(lib.Side(daemon, "uroce0", v4))
    return lib.Link("kernel", *sides, 4096)


LINKS = {
    "two devices joined by rings": lib.link_ring,
    "looped back": lib.link_loop,
    "memif": lib.link_memif,
    "port udp": lambda: link_kernel("port=udp,iface=eth0"),
    "port packet": lambda: link_kernel("port=packet,iface=eth0,addr=10.9.0.10{i}/24"),
}


def main():
    lib.need_root()
    for name, make in LINKS.items():
        link = make()
        for what, own in (("mapped", ()), ("copied", ("--copied",))):
            with lib.case(f"{name}: {what} memory"):
                rounds = 100 if lib.SHORT else 150 if own else 500
                lib.verbs_pair(link.b, link.a, POLLED,
                               ["-d", "{dev}", "--mtu", str(link.mtu), "--rounds", str(rounds), *own], timeout=600)
        link.end(name)
    lib.finish()


main()
