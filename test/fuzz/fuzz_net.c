/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A hostile network around a device, and clients that ask for paths (fuzz_rx.h's interface): frames
 * of ARP, neighbour discovery, ICMP, IGMP and MLD into lib/net. What must hold: answers are
 * Ethernet frames from our MAC and fit; only neighbours that a client asked for are known, with the
 * MAC of a station; an owner keeps its entries unless it has more than others.
 *
 * An input is a byte, which configures the device, and steps (step.h): operation (enum net_op), an
 * argument, a body.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "fuzz_rx.h"
#include "net/frame.h"
#include "step.h"

#define STEPS_MAX 64
#define TICKS_MAX 4096 /* requests that are due at a time */
#define OWNERS    8u
#define ASKED_MAX 1200u /* more than the table has, and not too slow */

enum net_op {
	NET_FRAME,  /* arg: enum frame_kind; body: which host, flags, changes of the frame */
	NET_ANSWER, /* a host answers our last frame, changed by the body */
	NET_ASK,    /* owner arg asks for neighbours; body: the first one, how many */
	NET_PATH,   /* body: changes of an address vector */
	NET_TIME,   /* 2^(arg % 36) ns go by */
	NET_REPORT, /* arg: record and version; body: changes of a group */
};

enum frame_kind { ARP, SOLICIT, ANNOUNCE, ECHO4, ECHO6, IGMP, MLD, FRAME_KINDS };

enum frame_flags {
	FRAME_WRONG_SUM = 1, /* checksums are not made right after the changes */
	FRAME_OUR_MAC = 2,   /* sent to our MAC, not to a group */
	FRAME_CUT = 4,       /* its last bytes are missing */
	FRAME_LONG = 8,      /* an echo request as long as the MTU */
};

enum config {
	CONFIG_VLAN = 1,
	CONFIG_GATEWAY = 2,
	CONFIG_KERNEL = 4, /* the kernel answers */
	CONFIG_HOST = 8,   /* the host's addresses and routes */
	CONFIG_HAIRPIN = 16,
	CONFIG_STACK = 32, /* with CONFIG_HOST: the host's stack sends */
};

static const uint8_t our_mac[6] = {2, 0, 0, 0, 0, 1};
static struct net_dev dev, host; /* host: sends what we receive */
static struct net_frame out;
static uint64_t now_ns;
static uint32_t tries, asked; /* of clients; those that made an entry */

static void
require(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "fuzz_net: %s\n", what);
	abort();
}

static void
check_out(void)
{
	require(out.len == 0 || (out.len >= 60 && out.len <= NET_FRAME_MAX), "length of a frame");
	require(out.len == 0 || memcmp(out.bytes + 6, our_mac, 6) == 0, "a frame's sender");
	require(out.len == 0 || memcmp(out.bytes, our_mac, 6) != 0, "a frame to ourselves");
}

static void
check_table(void)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < NET_MAX_NEIGH; i++) {
		const struct net_neigh *e = &dev.neigh[i];

		if (e->state == NET_NEIGH_FREE)
			continue;
		n++;
		require(e->owner < OWNERS, "an entry's owner");
		if (e->state == NET_NEIGH_KNOWN)
			require(net_mac_is_station(e->mac) && net_neigh_mac(&dev, e->ip) == e->mac,
				"a known neighbour");
	}
	require(n <= asked, "a neighbour that nobody asked for");
}

/* The GID of host i on our link. */
static void
gid_of(uint8_t gid[16], uint32_t i, bool v6)
{
	static const uint8_t v4[16] = {[10] = 0xff, 0xff, 10, 0, 0, 0};
	static const uint8_t prefix[16] = {0xfd};

	memcpy(gid, v6 ? prefix : v4, 16);
	gid[14] = (uint8_t)(i >> 8);
	gid[15] = (uint8_t)(i + 2);
}

static int
route(const void *ctx, const uint8_t dgid[16], uint8_t hop[16])
{
	memcpy(hop, dgid, 16);
	return dgid[15] & 1 ? 0 : -1;
}

static void
configure(uint8_t how)
{
	static const struct net_addr addr[3] = {
		{{[10] = 0xff, 0xff, 10, 0, 0, 1}, 16, true, true},
		{{0xfd, [15] = 1}, 64, false, true},
		{{0xfe, 0x80, [15] = 1}, 64, false, true},
	};
	uint64_t added, gone;

	if (how & CONFIG_HOST) {
		net_host_init(&dev, our_mac, how & CONFIG_STACK ? 0xc000 : 0);
		net_host_addrs_set(&dev, addr, 2, &added, &gone);
		net_host_addrs_set(&dev, addr, how & CONFIG_VLAN ? 3 : 1, &added, &gone);
		dev.route = route;
	} else {
		net_dev_init(&dev, our_mac);
		require(net_addr_add(&dev, "10.0.0.1/16") == 1, "an address");
		require(net_addr_add(&dev, "fd00::1/64") == 2, "an address");
		dev.vlan_tci = how & CONFIG_VLAN ? 7 : 0;
		if (how & CONFIG_GATEWAY)
			require(net_gateway_set(&dev, "10.0.0.254") == 0 &&
					net_gateway_set(&dev, "fd00::fe") == 0,
				"a gateway");
	}
	dev.kernel_v4 = how & CONFIG_KERNEL;
	dev.kernel_v6 = how & CONFIG_KERNEL && how & CONFIG_HAIRPIN;
	dev.hairpin = how & CONFIG_HAIRPIN;
}

/* Makes host the host i, which may send frames of both families. */
static void
host_be(uint32_t i)
{
	const uint8_t mac[6] = {2, 0, 0, 1, 0, (uint8_t)i};

	net_dev_init(&host, mac);
	host.vlan_tci = dev.vlan_tci;
	for (int v6 = 0; v6 < 2; v6++) {
		host.gid[1 + v6] =
			(struct net_addr){.plen = v6 ? 64 : 16, .v4 = v6 == 0, .used = true};
		gid_of(host.gid[1 + v6].gid, i, v6);
	}
}

/* Makes the checksums of f right, as far as its lengths are. */
static void
sums_make(struct net_frame *f)
{
	uint32_t at = sizeof(struct wire_eth) + (dev.vlan_tci != 0 ? 4 : 0), l4;
	uint8_t *ip = f->bytes + at;
	uint16_t sum = 0;

	if (f->len < at + 28)
		return;
	if (ip[0] >> 4 == 4) {
		uint32_t head = (ip[0] & 15) * 4u, all = (uint32_t)ip[2] << 8 | ip[3];

		if (head < 20 || all < head + 8 || at + all > f->len)
			return;
		memcpy(ip + 10, &sum, 2);
		sum = net_sum_finish(net_sum(0, ip, head));
		memcpy(ip + 10, &sum, 2);
		memset(ip + head + 2, 0, 2);
		sum = net_sum_finish(net_sum(0, ip + head, all - head));
		memcpy(ip + head + 2, &sum, 2);
	} else if (ip[0] >> 4 == 6 && f->len >= at + 48) {
		uint32_t len = (uint32_t)ip[4] << 8 | ip[5];

		l4 = ip[6] == 0 ? 48 : 40; /* behind hop-by-hop options */
		len -= l4 - 40;
		if (len < 8 || len > NET_FRAME_MAX || at + l4 + len > f->len)
			return;
		memset(ip + l4 + 2, 0, 2);
		sum = net_sum_finish(net_sum(net_sum_icmp6(ip + 8, ip + 24, len), ip + l4, len));
		memcpy(ip + l4 + 2, &sum, 2);
	}
}

static void
put_icmp(struct net_frame *f, bool v6, uint8_t type, uint32_t len)
{
	const uint8_t *src = host.gid[1 + v6].gid, *dst = dev.gid[1 + v6].gid;
	struct net_icmp *icmp;

	net_put_eth(f, &host, our_mac, v6 ? WIRE_ETHERTYPE_IPV6 : WIRE_ETHERTYPE_IPV4);
	if (v6)
		net_put_ipv6(f, src, dst, NET_IPPROTO_ICMP6, 64, len);
	else
		net_put_ipv4(f, src, dst, NET_IPPROTO_ICMP, len);
	icmp = net_put(f, len);
	icmp->type = type;
	net_put_pad(f);
}

/* A query for all groups, IGMP or MLD, of the newest version. */
static void
put_query(struct net_frame *f, bool v6)
{
	static const uint8_t all4[16] = {[10] = 0xff, 0xff, 224, 0, 0, 1};
	static const uint8_t all6[16] = {0xff, 2, [15] = 1};
	static const uint8_t alert[8] = {NET_IPPROTO_ICMP6, 0, 5, 2, 0, 0, 1, 0};
	uint8_t mac[6], *to;

	net_mcast_mac(v6 ? all6 : all4, mac);
	net_put_eth(f, &host, mac, v6 ? WIRE_ETHERTYPE_IPV6 : WIRE_ETHERTYPE_IPV4);
	if (v6) {
		net_put_ipv6(f, host.gid[0].gid, all6, 0, 1, sizeof(alert) + 28);
		memcpy(net_put(f, sizeof(alert)), alert, sizeof(alert));
		to = net_put(f, 28);
		to[0] = 130;
	} else {
		net_put_ipv4(f, host.gid[1].gid, all4, 2, 12);
		to = net_put(f, 12);
		to[0] = 0x11;
	}
	net_put_pad(f);
}

static void
receive(struct net_frame *f, uint8_t flags, const uint8_t *body, uint32_t len)
{
	const struct net_neigh *changed;
	struct net_query q;
	uint8_t *exact;
	bool known;

	step_overlay(f->bytes, f->len < 120 ? f->len : 120, body, len);
	if ((flags & FRAME_WRONG_SUM) == 0)
		sums_make(f);
	if (flags & FRAME_OUR_MAC && f->len >= 6)
		memcpy(f->bytes, our_mac, 6);
	if (flags & FRAME_CUT)
		f->len -= f->len < flags / 8 ? f->len : flags / 8;
	exact = malloc(f->len + 1); /* just as long as it is, for the sanitizer */
	require(exact != NULL, "no memory");
	memcpy(exact, f->bytes, f->len);
	known = net_rx(&dev, exact, f->len, now_ns, &out, &changed);
	check_out();
	require(!known || (changed != NULL && changed->state == NET_NEIGH_KNOWN),
		"a change without a neighbour");
	require(!dev.host || out.len == 0, "an answer beside the host's");
	if (net_group_query(&dev, exact, f->len, &q)) {
		struct net_frame report;

		require(q.version <= NET_GROUP_OLDEST && !dev.host, "a query");
		(void)net_query_is_general(q.gid);
		(void)net_group_report(&dev, q.gid, NET_GROUP_MEMBER, q.version, &report);
	}
	free(exact);
}

static void
frame(uint8_t kind, const uint8_t *body, uint32_t len)
{
	static struct net_frame f;
	uint8_t which = len > 0 ? body[0] : 0, flags = len > 1 ? body[1] : 0;
	uint32_t bytes = flags & FRAME_LONG ? 1480 : 64;
	const uint8_t *to = flags & FRAME_OUR_MAC ? our_mac : NULL;

	host_be(which % 8);
	f.len = 0;
	switch (kind % FRAME_KINDS) {
	case ARP:
		net_arp_request(&host, dev.gid[1].gid, to, &f);
		break;
	case SOLICIT:
		net_nd_solicit(&host, dev.gid[2].gid, to, &f);
		break;
	case ANNOUNCE:
		net_nd_announce(&host, host.gid[2].gid, &f);
		break;
	case ECHO4:
		put_icmp(&f, false, NET_ICMP_ECHO, bytes);
		break;
	case ECHO6:
		put_icmp(&f, true, NET_ICMP6_ECHO, bytes);
		break;
	case IGMP:
		put_query(&f, false);
		break;
	default:
		put_query(&f, true);
		break;
	}
	receive(&f, flags, body + (len < 2 ? len : 2), len < 2 ? 0 : len - 2);
}

/* The host with the address that our last frame asks for answers it. */
static void
answer(const uint8_t *body, uint32_t len)
{
	const struct net_neigh *changed;
	static struct net_frame f;
	uint8_t flags = len > 0 ? body[0] : 0;

	if (out.len == 0)
		return;
	host_be(out.bytes[out.bytes[13] == 6 ? 41 : 77] - 2u); /* of ARP, or its ICMPv6 target */
	(void)net_rx(&host, out.bytes, out.len, now_ns, &f, &changed);
	if (f.len != 0)
		receive(&f, flags, body + (len < 1 ? len : 1), len < 1 ? 0 : len - 1);
}

static uint32_t
entries_of(uint32_t owner)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < NET_MAX_NEIGH; i++)
		n += dev.neigh[i].state != NET_NEIGH_FREE && dev.neigh[i].owner == owner;
	return n;
}

static void
ask(uint32_t owner, const uint8_t *body, uint32_t len)
{
	uint32_t first = len > 0 ? body[0] : 0, n = len > 1 ? 1u << body[1] % 12 : 1;
	bool v6 = len > 2 && body[2] & 1;
	uint8_t gid[16];

	for (uint32_t i = 0; i < n && tries++ < ASKED_MAX; i++) {
		uint32_t had[OWNERS];

		gid_of(gid, first + i, v6);
		if (n == 1)
			for (uint32_t o = 0; o < OWNERS; o++)
				had[o] = entries_of(o);
		asked += net_neigh_ask(&dev, gid, owner, now_ns, &out);
		check_out();
		for (uint32_t o = 0; n == 1 && o < OWNERS; o++)
			require(o == owner || entries_of(o) == had[o] || had[o] >= had[owner],
				"an owner lost an entry to one that has more");
	}
}

static void
path(const uint8_t *body, uint32_t len)
{
	struct uroce_ah_attr ah = {.is_global = 1, .sgid_index = 1, .port_num = 1};
	struct wire_path p;
	uint8_t hop[16];
	bool loopback;
	int rc;

	gid_of(ah.dgid, len > 0 ? body[0] % 8 : 0, len > 0 && body[0] & 8);
	ah.sgid_index = len > 0 && body[0] & 8 ? 2 : 1;
	step_overlay((uint8_t *)&ah, sizeof(ah), body + (len > 0), len > 0 ? len - 1 : 0);
	rc = net_path(&dev, &ah, 1, 2, &p, &loopback, hop);
	require((net_path_why(&dev, &ah) == NULL) == (rc == 0 || rc == -EINPROGRESS),
		"a path that is refused without a reason");
	if (rc == -EINPROGRESS)
		asked += net_neigh_ask(&dev, hop, 0, now_ns, &out);
	else if (rc == 0)
		require((p.dmac[0] & 1) != 0 || net_mac_is_station(p.dmac), "a path to no station");
	check_out();
}

static void
pass(uint64_t ns)
{
	uint64_t next;
	uint32_t n = 0;

	now_ns += ns;
	while (net_tick(&dev, now_ns, &out, &next)) {
		check_out();
		require(++n < TICKS_MAX, "requests without an end");
	}
	require(next > now_ns, "a request that is due and not made");
}

static void
report(uint32_t how, const uint8_t *body, uint32_t len)
{
	uint8_t gid[16] = {[10] = 0xff, 0xff, 239, 1, 2, 3};
	static const uint8_t group6[16] = {0xff, 0x0e, [15] = 7};

	if (how & 1)
		memcpy(gid, group6, 16);
	step_overlay(gid, sizeof(gid), body, len);
	(void)net_group_report(&dev, gid, NET_GROUP_MEMBER + how / 2 % 3, how / 8 % 3, &out);
	check_out();
	(void)net_announce(&dev, how, &out);
	check_out();
}

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	return 0;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct step s;

	if (size == 0)
		return 0;
	now_ns = 1000000000;
	asked = tries = 0;
	out.len = 0;
	configure(*data++);
	size--;
	for (uint32_t n = 0; n < STEPS_MAX && step_take(&data, &size, &s); n++) {
		switch (s.op) {
		case NET_FRAME:
			frame(s.arg, s.body, s.len);
			break;
		case NET_ASK:
			ask(s.arg % OWNERS, s.body, s.len);
			break;
		case NET_PATH:
			path(s.body, s.len);
			break;
		case NET_TIME:
			pass(1ull << s.arg % 36);
			break;
		case NET_REPORT:
			report(s.arg, s.body, s.len);
			break;
		default:
			answer(s.body, s.len);
			break;
		}
		check_table();
	}
	return 0;
}
