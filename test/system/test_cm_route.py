#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""rdma_cm on the kernel's addresses: device, source address, next hop and MTU follow the kernel's routes."""
import cmclient
import lib
from test_cm_abi import ACTIVE, ask, established, serve

MTU_1024, MTU_4096 = 3, 5
QUERY_PATH = 1


def routed():
    """Three namespaces, the second is the router of the others: their names."""
    a, r, b = (lib.netns() for _ in range(3))
    lib.sh("sysctl", "-qw", "net.ipv4.ip_forward=1", ns=r)
    lib.veth(a, "10.9.1.2/24", r, "10.9.1.1/24", 4200)
    lib.sh("ip", "-n", r, "link", "set", "eth0", "down")
    lib.sh("ip", "-n", r, "link", "set", "eth0", "name", "eth1")
    lib.sh("ip", "-n", r, "link", "set", "eth1", "up")
    lib.veth(b, "10.9.2.2/24", r, "10.9.2.1/24", 4200)
    lib.sh("ip", "-n", a, "route", "add", "10.9.2.0/24", "via", "10.9.1.1")
    lib.sh("ip", "-n", b, "route", "add", "10.9.1.0/24", "via", "10.9.2.1")
    return a, r, b


def path_mtu(channel, number):
    """The code in the path record of an id: behind the count of paths and the flags of the first."""
    return channel.query(number, QUERY_PATH)[16 + 54] & 63


def local(daemon, number):
    return next(row["local"] for row in daemon.show("cm")["cm"] if row["id"] == number).rsplit(":", 1)[0]


# Requirements: CM-11
def test_gateway_and_mtu(a, b, port):
    daemons = [lib.Daemon([], [f"name=uroce0,port={port}"], ns) for ns in (a, b)]
    server, _ = serve(daemons[1], "10.9.2.2")
    client, number = ask(daemons[0], "10.9.2.2")
    assert local(daemons[0], number) == "10.9.1.2"
    assert path_mtu(client, number) == MTU_4096
    established(server, client, number)
    lib.sh("ip", "-n", a, "route", "change", "10.9.2.0/24", "via", "10.9.1.1", "mtu", "1500")
    number = client.create(ACTIVE)
    client.resolve(number, cmclient.sockaddr("10.9.2.2", 7471))
    assert path_mtu(client, number) == MTU_1024
    lib.sh("ip", "-n", a, "route", "change", "10.9.2.0/24", "via", "10.9.1.1")
    try:
        client.resolve_addr(client.create(ACTIVE), cmclient.sockaddr("10.9.3.3", 7471))
        raise AssertionError("an address without a route was resolved")
    except cmclient.Refused as refused:
        assert refused.errno == 101, refused  # ENETUNREACH
    for channel in (client, server):
        channel.close()
    for daemon in daemons:
        daemon.stop()


# Requirements: CM-11
def test_device_and_source(r):
    daemon = lib.Daemon([], [f"name=uroce{i},port=udp,iface=eth{i}" for i in range(2)], r)
    channel = cmclient.Channel(daemon.socket)
    for to, source in (("10.9.1.2", "10.9.1.1"), ("10.9.2.2", "10.9.2.1")):
        number = channel.create(ACTIVE)
        channel.resolve(number, cmclient.sockaddr(to, 7471))
        assert local(daemon, number) == source, local(daemon, number)
    channel.close()
    daemon.stop()


def main():
    lib.need_root()
    a, r, b = routed()
    for port in ("udp,iface=eth0", "packet,iface=eth0,share=yes"):
        with lib.case(f"port {port}: the route's gateway and MTU"):
            test_gateway_and_mtu(a, b, port)
    with lib.case("two devices: the route's device and source address"):
        test_device_and_source(r)
    lib.finish()


main()
