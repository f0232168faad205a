/* SPDX-License-Identifier: BSD-3-Clause */
/* Address vectors to paths. */
#include <errno.h>
#include "net/frame.h"
#include "suite.h"

static struct net_dev dev;

struct answer {
	struct wire_path path;
	bool loopback;
	uint8_t hop[16];
};

static struct uroce_ah_attr
ah_to(const char *dgid, uint8_t sgid_index)
{
	struct uroce_ah_attr ah = {.sgid_index = sgid_index, .is_global = 1, .hop_limit = 33};

	gid_of(dgid, ah.dgid);
	return ah;
}

static int
path_of(struct uroce_ah_attr ah, struct answer *a)
{
	memset(a, 0xa5, sizeof(*a));
	return net_path(&dev, &ah, 0x11, 0x22, &a->path, &a->loopback, a->hop);
}

/* ip becomes known at mac, as an ARP reply or an advertisement would do it. */
static void
know(const char *ip, const uint8_t mac[6])
{
	const struct net_neigh *changed;
	struct net_frame out;
	uint8_t gid[16];

	assert_true(net_neigh_ask(&dev, gid_of(ip, gid), 0, 0, &out));
	assert_true(net_neigh_learn(&dev, gid, mac, true, 0, &changed));
}

REQUIREMENT("WIRE-02")
UNIT_TEST(path_carries_what_the_ah_says)
{
	struct uroce_ah_attr ah = ah_to("10.0.0.2", 1);
	struct answer a;
	uint8_t gid[16];

	make_dev(&dev);
	know("10.0.0.2", peer_mac);
	ah.traffic_class = 0x6a;
	assert_int_equal(path_of(ah, &a), 0);
	assert_false(a.loopback);
	assert_memory_equal(a.path.smac, our_mac, 6);
	assert_memory_equal(a.path.dmac, peer_mac, 6);
	assert_memory_equal(a.path.sgid, gid_of("10.0.0.1", gid), 16);
	assert_memory_equal(a.path.dgid, gid_of("10.0.0.2", gid), 16);
	assert_memory_equal(a.hop, gid, 16);
	assert_int_equal(a.path.tclass, 0x6a);
	assert_int_equal(a.path.hop_limit, 33);
	assert_int_equal(a.path.vlan_tci, 0);
}

REQUIREMENT("WIRE-02")
UNIT_TEST(source_port_depends_on_the_qp_pair_or_the_flow_label)
{
	struct uroce_ah_attr ah = ah_to("10.0.0.2", 1);
	struct answer a;

	make_dev(&dev);
	know("10.0.0.2", peer_mac);
	assert_int_equal(path_of(ah, &a), 0);
	assert_int_equal(a.path.udp_sport, wire_udp_sport(0, 0x11, 0x22));
	assert_true(a.path.udp_sport >= 0xc000);
	ah.flow_label = 0xfff12345;
	assert_int_equal(path_of(ah, &a), 0);
	assert_int_equal(a.path.flow_label, 0x12345);
	assert_int_equal(a.path.udp_sport, wire_udp_sport(0x12345, 0x11, 0x22));
}

REQUIREMENT("WIRE-02")
UNIT_TEST(service_level_becomes_the_vlan_priority)
{
	struct uroce_ah_attr ah = ah_to("10.0.0.2", 1);
	struct answer a;

	make_dev(&dev);
	know("10.0.0.2", peer_mac);
	ah.sl = 5;
	assert_int_equal(path_of(ah, &a), 0);
	assert_int_equal(a.path.vlan_tci, 0);
	dev.vlan_tci = 0x2064;
	assert_int_equal(path_of(ah, &a), 0);
	assert_int_equal(a.path.vlan_tci, 0xa064);
	ah.sl = 0;
	assert_int_equal(path_of(ah, &a), 0);
	assert_int_equal(a.path.vlan_tci, 0x2064);
}

REQUIREMENT("WIRE-11")
UNIT_TEST(ah_of_a_wc_reaches_the_sender)
{
	/* ibv_init_ah_from_wc turns addresses round and takes class and flow label; hop limit 0xff
	 */
	struct uroce_ah_attr ah = ah_to("fd00::2", 2);
	struct answer a;

	make_dev(&dev);
	know("fd00::2", peer_mac);
	ah.hop_limit = 0xff;
	ah.traffic_class = 0x10;
	ah.flow_label = 0x54321;
	assert_int_equal(path_of(ah, &a), 0);
	assert_memory_equal(a.path.dmac, peer_mac, 6);
	assert_int_equal(a.path.hop_limit, 0xff);
	assert_int_equal(a.path.flow_label, 0x54321);
}

UNIT_TEST(unknown_neighbour_must_be_resolved_first)
{
	static const uint8_t zero[6];
	struct answer a;
	uint8_t gid[16];

	make_dev(&dev);
	assert_int_equal(path_of(ah_to("10.0.0.7", 1), &a), -EINPROGRESS);
	assert_memory_equal(a.hop, gid_of("10.0.0.7", gid), 16);
	assert_memory_equal(a.path.dmac, zero, 6);
	assert_memory_equal(a.path.dgid, gid, 16);
	assert_true(a.path.udp_sport >= 0xc000);
}

UNIT_TEST(mixed_families_and_bad_indices_are_refused)
{
	struct uroce_ah_attr ah;
	struct answer a;

	make_dev(&dev);
	assert_int_equal(path_of(ah_to("10.0.0.2", 0), &a), -EINVAL);
	assert_int_equal(path_of(ah_to("fd00::2", 1), &a), -EINVAL);
	assert_int_equal(path_of(ah_to("10.0.0.2", 5), &a), -EINVAL);
	assert_int_equal(path_of(ah_to("10.0.0.2", 255), &a), -EINVAL);
	assert_int_equal(path_of(ah_to("0.0.0.0", 1), &a), -EINVAL);
	assert_int_equal(path_of(ah_to("255.255.255.255", 1), &a), -EINVAL);
	assert_int_equal(path_of(ah_to("::", 2), &a), -EINVAL);
	ah = ah_to("10.0.0.2", 1);
	ah.is_global = 0;
	assert_int_equal(path_of(ah, &a), -EINVAL);
}

static const char *
why(struct uroce_ah_attr ah)
{
	const char *text = net_path_why(&dev, &ah);

	return text != NULL ? text : "";
}

UNIT_TEST(refusals_say_what_to_change)
{
	struct uroce_ah_attr ah;

	make_dev(&dev);
	ah = ah_to("10.0.0.2", 1);
	ah.is_global = 0;
	assert_non_null(
		strstr(why(ah),
		       "RoCE needs a GRH: -g 1, or, if it was given, the peer sent no GID"));
	assert_non_null(strstr(why(ah_to("10.0.0.2", 5)), "index is empty"));
	assert_non_null(strstr(why(ah_to("10.0.0.2", 255)), "index is empty"));
	assert_non_null(strstr(why(ah_to("10.0.0.2", 0)), "one GID is IPv4, the other IPv6"));
	assert_non_null(strstr(why(ah_to("fd00::2", 1)), "one GID is IPv4, the other IPv6"));
	assert_non_null(strstr(why(ah_to("255.255.255.255", 1)), "not a valid destination"));
	assert_string_equal(why(ah_to("10.0.0.1", 1)), "");
	assert_string_equal(why(ah_to("10.0.0.2", 1)), "");
	memset(dev.gw4, 0, sizeof(dev.gw4));
	assert_non_null(strstr(why(ah_to("192.0.2.7", 1)), "gateway="));
}

UNIT_TEST(path_to_an_own_address_is_loopback)
{
	static const uint8_t none[16];
	struct answer a;

	make_dev(&dev);
	assert_int_equal(path_of(ah_to("10.0.0.1", 1), &a), 0);
	assert_true(a.loopback);
	assert_memory_equal(a.path.dmac, our_mac, 6);
	assert_memory_equal(a.hop, none, 16);
	assert_int_equal(path_of(ah_to("fd00::1", 0), &a), 0);
	assert_true(a.loopback);
	dev.hairpin = true; /* to the wire then, to ourselves */
	assert_int_equal(path_of(ah_to("10.0.0.1", 1), &a), 0);
	assert_false(a.loopback);
	assert_memory_equal(a.path.dmac, our_mac, 6);
}

UNIT_TEST(off_link_destination_goes_to_the_gateway)
{
	static const uint8_t gw_mac[6] = {2, 0, 0, 0, 0, 0xfe};
	struct answer a;
	uint8_t gid[16];

	make_dev(&dev);
	assert_int_equal(path_of(ah_to("192.0.2.1", 1), &a), -ENETUNREACH);
	assert_int_equal(path_of(ah_to("2001:db8::1", 2), &a), -ENETUNREACH);
	assert_int_equal(net_gateway_set(&dev, "10.0.0.254"), 0);
	assert_int_equal(path_of(ah_to("192.0.2.1", 1), &a), -EINPROGRESS);
	assert_memory_equal(a.hop, gid_of("10.0.0.254", gid), 16);
	know("10.0.0.254", gw_mac);
	assert_int_equal(path_of(ah_to("192.0.2.1", 1), &a), 0);
	assert_memory_equal(a.path.dmac, gw_mac, 6);
	assert_memory_equal(a.path.dgid, gid_of("192.0.2.1", gid), 16);
	/* the prefix ends at a bit, not at a byte */
	assert_int_equal(net_addr_add(&dev, "172.16.4.1/22"), 3);
	assert_int_equal(path_of(ah_to("172.16.7.9", 3), &a), -EINPROGRESS);
	assert_memory_equal(a.hop, gid_of("172.16.7.9", gid), 16);
	assert_int_equal(path_of(ah_to("172.16.8.1", 3), &a), 0);
	assert_memory_equal(a.hop, gid_of("10.0.0.254", gid), 16);
}

static int routes; /* calls of route_of_the_stack */

/* Routes of the host's stack: all of 192.0.2.0/24 by 10.0.0.254, and nothing else. */
static int
route_of_the_stack(const void *ctx, const uint8_t dgid[16], uint8_t hop[16])
{
	assert_ptr_equal(ctx, &dev);
	routes++;
	if (dgid[12] != 192)
		return -ENETUNREACH;
	gid_of("10.0.0.254", hop);
	return 0;
}

UNIT_TEST(device_beside_the_stack_has_its_routes_and_own_neighbours)
{
	struct net_addr addr = {.plen = 24, .v4 = true, .used = true};
	uint64_t added, gone;
	struct answer a;
	uint8_t gid[16];

	gid_of("10.0.0.1", addr.gid);
	net_host_init(&dev, our_mac, 0);
	net_host_addrs_set(&dev, &addr, 1, &added, &gone);
	dev.route = route_of_the_stack;
	dev.route_ctx = &dev;
	assert_int_equal(path_of(ah_to("192.0.2.1", 1), &a), -EINPROGRESS);
	assert_memory_equal(a.hop, gid_of("10.0.0.254", gid), 16);
	assert_int_equal(routes, 1);
	know("10.0.0.254", peer_mac);
	assert_int_equal(path_of(ah_to("192.0.2.1", 1), &a), 0);
	assert_memory_equal(a.path.dmac, peer_mac, 6);
	assert_true(a.path.udp_sport >= WIRE_UDP_SPORT_MIN);
	/* a prefix is enough when the stack has no route, because its interface is down */
	assert_int_equal(path_of(ah_to("10.0.0.2", 1), &a), -EINPROGRESS);
	assert_memory_equal(a.hop, gid_of("10.0.0.2", gid), 16);
	assert_int_equal(path_of(ah_to("203.0.113.1", 1), &a), -ENETUNREACH);
	assert_int_equal(path_of(ah_to("10.0.0.1", 1), &a), 0);
	assert_true(a.loopback);
	/* a socket of the stack needs neither */
	net_host_init(&dev, our_mac, 4791);
	net_host_addrs_set(&dev, &addr, 1, &added, &gone);
	assert_int_equal(path_of(ah_to("203.0.113.1", 1), &a), 0);
	assert_int_equal(a.path.udp_sport, 4791);
}

REQUIREMENT("WIRE-10")
UNIT_TEST(multicast_mac_needs_no_neighbour)
{
	struct answer a;

	make_dev(&dev);
	assert_int_equal(path_of(ah_to("239.129.2.3", 1), &a), 0);
	assert_memory_equal(a.path.dmac, "\x01\x00\x5e\x01\x02\x03", 6);
	assert_int_equal(path_of(ah_to("ff0e::1234:5678", 2), &a), 0);
	assert_memory_equal(a.path.dmac, "\x33\x33\x12\x34\x56\x78", 6);
	assert_false(a.loopback);
}
