#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""rdma_cm on the kernel's addresses: device, source address, next hop and MTU follow the kernel's routes; the scope
of a link-local address selects its device."""
import errno
import json
import struct

import cmclient
import lib
from test_cm_abi import ACTIVE, ask, established, serve

MTU_1024, MTU_4096 = 3, 5
QUERY_ADDR, QUERY_PATH = 0, 1
LISTENERS, CLIENTS = 10, 20


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


def link_local(ns, address, *interfaces):
    """Gives interfaces this one link-local address. Their numbers."""
    for name in interfaces:
        lib.sh("sysctl", "-qw", f"net.ipv6.conf.{name}.addr_gen_mode=1", f"net.ipv6.conf.{name}.disable_ipv6=0", ns=ns)
        lib.sh("ip", "-n", ns, "addr", "replace", f"{address}/64", "dev", name, "nodad")
    return {row["ifname"]: row["ifindex"] for row in json.loads(lib.sh("ip", "-n", ns, "-j", "link"))}


def refused(number, call, *args):
    """The call fails with this errno."""
    try:
        call(*args)
    except cmclient.Refused as error:
        assert error.errno == number, error
    else:
        raise AssertionError(f"not refused: {args}")


def scopes(channel, number):
    """The scopes of an id's addresses."""
    raw = channel.query(number, QUERY_ADDR)
    return tuple(struct.unpack_from("<I", raw, 16 + at + 24)[0] for at in (0, 128))


# Requirements: CM-11
def test_link_local(a, r, b, port):
    """The router's two interfaces have one address, and the peers behind them have another one."""
    numbers = link_local(r, "fe80::1", "eth0", "eth1")
    peers = {"eth0": b, "eth1": a}
    there = {name: link_local(ns, "fe80::2", "eth0")["eth0"] for name, ns in peers.items()}
    middle = lib.Daemon([], [f"name=uroce{i},port={port.format(f'eth{i}')}" for i in range(2)], r)
    daemons = {name: lib.Daemon([], [f"name=uroce0,port={port.format('eth0')}"], ns) for name, ns in peers.items()}
    channel = cmclient.Channel(middle.socket)
    for name, daemon in daemons.items():
        own, far = numbers[name], there[name]
        server = cmclient.Channel(daemon.socket)
        listener = server.create(1)
        server.bind(listener, cmclient.sockaddr("fe80::2", 7471, far))
        server.listen(listener)
        for source in (b"", cmclient.sockaddr("fe80::1", 0, own)):
            number = channel.create(ACTIVE)
            channel.resolve(number, cmclient.sockaddr("fe80::2", 7471, own), source)
            assert scopes(channel, number) == (own, own), scopes(channel, number)
            passive = established(server, channel, number)
            assert scopes(server, passive) == (far, far), scopes(server, passive)
            channel.destroy(number)
            server.event("DISCONNECTED")
        # the source's scope serves for the peer
        number = channel.create(ACTIVE)
        channel.resolve(number, cmclient.sockaddr("fe80::2", 7471), cmclient.sockaddr("fe80::1", 0, own))
        # one port, of each of the two links
        number = channel.create(LISTENERS + own)
        channel.bind(number, cmclient.sockaddr("fe80::1", 7472, own))
        channel.listen(number)
        client = cmclient.Channel(daemon.socket)
        number = client.create(CLIENTS)
        client.resolve(number, cmclient.sockaddr("fe80::1", 7472, far))
        client.connect(number, 0x77)
        assert channel.event("CONNECT_REQUEST").uid == LISTENERS + own
        client.close()
        server.close()
    plain, other = cmclient.sockaddr("fe80::2", 7471), cmclient.sockaddr("fe80::2", 7471, numbers["eth1"])
    refused(errno.EINVAL, channel.resolve_addr, channel.create(ACTIVE), plain)
    refused(errno.EINVAL, channel.bind, channel.create(ACTIVE), cmclient.sockaddr("fe80::1"))
    refused(errno.EINVAL, channel.resolve_addr, channel.create(ACTIVE), other,
            cmclient.sockaddr("fe80::1", 0, numbers["eth0"]))
    refused(errno.EADDRNOTAVAIL, channel.bind, channel.create(ACTIVE), cmclient.sockaddr("fe80::7", 0, numbers["eth0"]))
    channel.close()
    for daemon in (middle, *daemons.values()):
        daemon.stop()


def gid0(daemon):
    """The link-local addresses of a daemon's devices."""
    return [gid["gid"] for row in daemon.show("port")["port"] for gid in row["gids"] if gid["index"] == 0]


def test_link_local_hostif():
    """Devices with their own addresses: the scope is that of the device's kernel interface."""
    paths, peers = [lib.tmpdir() / "memif.sock" for _ in range(2)], []
    middle = lib.Daemon([f"net_memif{i},role=server,socket={path},socket-abstract=no" for i, path in enumerate(paths)],
                        [f"name=uroce{i},port=net_memif{i},addr=10.9.{i}.101/24,hostif=roce{i}" for i in range(2)],
                        lib.netns())
    for i, path in enumerate(paths):
        peers.append(lib.Daemon([f"net_memif0,role=client,socket={path},socket-abstract=no"],
                                [f"name=uroce0,port=net_memif0,addr=10.9.{i}.102/24"], lib.netns()))
    numbers = {row["ifname"]: row["ifindex"] for row in json.loads(lib.sh("ip", "-n", middle.ns, "-j", "link"))}
    channel = cmclient.Channel(middle.socket)
    for i, peer in enumerate(peers):
        number = channel.create(ACTIVE)
        channel.resolve(number, cmclient.sockaddr(gid0(peer)[0], 7471, numbers[f"roce{i}"]))
        assert local(middle, number).strip("[]") == gid0(middle)[i], (local(middle, number), gid0(middle))
    channel.close()
    for daemon in (middle, *peers):
        daemon.stop()


def main():
    lib.need_root()
    a, r, b = routed()
    for port in ("udp,iface=eth0", "packet,iface=eth0,share=yes"):
        with lib.case(f"port {port}: the route's gateway and MTU"):
            test_gateway_and_mtu(a, b, port)
    with lib.case("two devices: the route's device and source address"):
        test_device_and_source(r)
    for port in ("udp,iface={}", "packet,iface={},share=yes"):
        with lib.case(f"port {port.format('..')}: link-local addresses of two links"):
            test_link_local(a, r, b, port)
    with lib.case("hostif: link-local addresses of two links"):
        test_link_local_hostif()
    lib.finish()


main()
