#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A multicast router on the wire: its queries are answered with reports of its version."""
import ipaddress
import time

from scapy.contrib.igmp import IGMP
from scapy.contrib.igmpv3 import IGMPv3, IGMPv3mq
from scapy.layers.inet import IP, IPOption_Router_Alert
from scapy.layers.inet6 import ICMPv6MLQuery, IPv6, IPv6ExtHdrHopByHop, RouterAlert
from scapy.layers.l2 import Ether

import cmclient
import lib

GROUP, GROUP6 = "239.1.2.3", "ff1e::4:5"
MEMBER, JOINED = 2, 4  # records of IGMPv3 and MLDv2
IGMP_V2, IGMP_LEAVE, IGMP_V3 = 0x16, 0x17, 0x22
MLD_V1, MLD_DONE, MLD_V2 = 131, 132, 143


class Router:
    """The other end of the device's link: sends queries, sees reports."""

    def __init__(self, ns):
        self.sock = lib.raw_socket(ns, "eth0")
        self.mac = lib.mac_of(ns, "eth0")

    def send(self, frame):
        self.sock.send(bytes(frame))

    def ask_igmp_v2(self):
        """For all groups, within 100 ms."""
        self.send(Ether(src=self.mac, dst="01:00:5e:00:00:01") /
                  IP(src="10.9.0.1", dst="224.0.0.1", ttl=1, options=[IPOption_Router_Alert()]) /
                  IGMP(type=0x11, mrcode=1, gaddr="0.0.0.0"))

    def ask_igmp_v3(self):
        self.send(Ether(src=self.mac, dst="01:00:5e:00:00:01") /
                  IP(src="10.9.0.1", dst="224.0.0.1", ttl=1, options=[IPOption_Router_Alert()]) /
                  IGMPv3(type=0x11, mrcode=1) / IGMPv3mq(gaddr="0.0.0.0"))

    def ask_mld_v1(self):
        self.send(Ether(src=self.mac, dst="33:33:00:00:00:01") /
                  IPv6(src="fe80::1", dst="ff02::1", hlim=1) / IPv6ExtHdrHopByHop(options=[RouterAlert()]) /
                  ICMPv6MLQuery(mladdr="::", mrd=100))

    def report(self, group):
        """(destination, type, record) of the next report of this group; record 0: of an older version."""
        end = time.monotonic() + 60
        self.sock.settimeout(60)
        while time.monotonic() < end:
            frame = self.sock.recv(9000)
            found = (igmp if frame[12:14] == b"\x08\0" else mld)(frame)
            if found is not None and found[3] == group:
                return found[:3]
        raise AssertionError(f"no report of {group}")


def ip_of(packed):
    return str(ipaddress.ip_address(packed))


def igmp(frame):
    """(destination, type, record, group), or None."""
    if frame[23] != 2:
        return None
    msg = frame[14 + 4 * (frame[14] & 15):]
    if msg[0] == IGMP_V3:
        return ip_of(frame[30:34]), msg[0], msg[8], ip_of(msg[12:16])
    return ip_of(frame[30:34]), msg[0], 0, ip_of(msg[4:8])


def mld(frame):
    if frame[12:14] != b"\x86\xdd" or frame[20] != 0:
        return None
    msg = frame[62:]
    if msg[0] == MLD_V2:
        return ip_of(frame[38:54]), msg[0], msg[8], ip_of(msg[12:28])
    return ip_of(frame[38:54]), msg[0], 0, ip_of(msg[8:24])


def member(daemon, address, group):
    """A channel with an id that has joined the group, and its membership."""
    channel = cmclient.Channel(daemon.socket)
    number = channel.create(1, cmclient.PS_UDP, cmclient.QP_UD)
    channel.bind(number, cmclient.sockaddr(address))
    membership = channel.join(number, 2, cmclient.sockaddr(group))
    channel.event("MULTICAST_JOIN")
    return channel, membership


# Requirements: CM-13
def test_igmp(router, daemon):
    channel, membership = member(daemon, "10.9.0.102", GROUP)
    for _ in range(2):
        assert router.report(GROUP) == ("224.0.0.22", IGMP_V3, JOINED)
    router.ask_igmp_v3()
    assert router.report(GROUP) == ("224.0.0.22", IGMP_V3, MEMBER)
    router.ask_igmp_v2()
    assert router.report(GROUP) == (GROUP, IGMP_V2, 0)
    router.ask_igmp_v3()
    assert router.report(GROUP) == (GROUP, IGMP_V2, 0)
    channel.leave(membership)
    assert router.report(GROUP) == ("224.0.0.2", IGMP_LEAVE, 0)
    channel.close()


# Requirements: CM-13
def test_mld(router, daemon):
    channel, membership = member(daemon, "fd00::102", GROUP6)
    for _ in range(2):
        assert router.report(GROUP6) == ("ff02::16", MLD_V2, JOINED)
    router.ask_mld_v1()
    assert router.report(GROUP6) == (GROUP6, MLD_V1, 0)
    channel.leave(membership)
    assert router.report(GROUP6) == ("ff02::2", MLD_DONE, 0)
    channel.close()


def main():
    lib.need_root()
    here, there = lib.netns(), lib.netns()
    lib.veth(here, "10.9.0.1/24", there, "10.9.0.2/24", 4200)
    dev = "name=uroce0,port=net_af_packet0,addr=10.9.0.102/24,addr=fd00::102/64,mtu=4096"
    daemon = lib.Daemon([lib.af_packet("eth0")], [dev], there)
    router = Router(here)
    with lib.case("IGMP: reports are those that the router understands"):
        test_igmp(router, daemon)
    with lib.case("MLD: reports are those that the router understands"):
        test_mld(router, daemon)
    daemon.stop()
    lib.finish()


main()
