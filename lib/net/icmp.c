/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>
#include "net/frame.h"
#include "wire/csum.h"

/* A tagged Ethernet header and an IPv6 header, the longer of the two IP headers. */
#define ECHO_HDR_MAX (WIRE_ETH_LEN + WIRE_VLAN_LEN + WIRE_IPV6_LEN)

/* Returns true if an echo request from src to dst (GIDs) is unicast, to us and not from us. */
static bool
answers_echo(const struct net_rx_ctx *rx, const uint8_t src[16], const uint8_t dst[16],
	     uint32_t len)
{
	static const uint8_t zero[16];
	bool v4 = net_gid_is_v4(src);

	if (!rx->unicast || net_gid_find(rx->d, dst) < 0 || net_gid_find(rx->d, src) >= 0)
		return false;
	if (net_gid_is_mcast(src) || memcmp(src + (v4 ? 12 : 0), zero, v4 ? 4 : 16) == 0)
		return false;
	if (v4 && memcmp(src + 12, net_mac_broadcast, 4) == 0)
		return false;
	return len <= NET_FRAME_MAX - ECHO_HDR_MAX;
}

/* Copies the request's bytes as type after the headers in out; seed: sum of the pseudo header. */
static void
put_echo(struct net_frame *out, const uint8_t *msg, uint32_t len, uint8_t type, uint32_t seed)
{
	struct net_icmp *icmp = net_put(out, len);

	memcpy(icmp, msg, len);
	icmp->type = type;
	icmp->csum = 0;
	icmp->csum = net_sum_finish(net_sum(seed, icmp, len));
	net_put_pad(out);
}

const struct wire_ipv4 *
net_ipv4_open(struct wire_cur *c)
{
	const uint8_t *start = c->pos;
	const struct wire_ipv4 *ip = wire_cur_get(c, struct wire_ipv4);
	uint32_t hlen, total;

	if (ip == NULL || ip->ver_ihl >> 4 != 4)
		return NULL;
	hlen = (ip->ver_ihl & 15u) * 4;
	total = rte_be_to_cpu_16(ip->total_len);
	if (hlen < WIRE_IPV4_LEN || total < hlen ||
	    wire_cur_take(c, hlen - WIRE_IPV4_LEN) == NULL || !wire_cur_limit(c, total - hlen) ||
	    net_sum_finish(net_sum(0, start, hlen)) != 0)
		return NULL;
	return (ip->frag_off & rte_cpu_to_be_16(WIRE_IPV4_FRAG)) ? NULL : ip;
}

bool
net_ipv4_rx(const struct net_rx_ctx *rx, struct wire_cur c)
{
	const struct wire_ipv4 *ip = net_ipv4_open(&c);
	uint8_t src[16], dst[16];
	const uint8_t *msg;
	uint32_t len;

	if (ip == NULL || ip->proto != NET_IPPROTO_ICMP)
		return false;
	net_gid_from_v4(src, ip->src);
	net_gid_from_v4(dst, ip->dst);
	len = wire_cur_left(&c);
	msg = wire_cur_take(&c, len);
	/* 8: ICMP header, identifier and sequence number */
	if (len < 8 || msg[0] != NET_ICMP_ECHO || msg[1] != 0 ||
	    net_sum_finish(net_sum(0, msg, len)) != 0 || !answers_echo(rx, src, dst, len))
		return false;
	net_put_eth(rx->out, rx->d, rx->smac, WIRE_ETHERTYPE_IPV4);
	net_put_ipv4(rx->out, dst, src, NET_IPPROTO_ICMP, len);
	put_echo(rx->out, msg, len, NET_ICMP_ECHO_REPLY, 0);
	return false;
}

static void
rx_echo6(const struct net_rx_ctx *rx, const struct wire_ipv6 *ip, const uint8_t *msg, uint32_t len)
{
	if (len < 8 || msg[1] != 0 || !answers_echo(rx, ip->src, ip->dst, len))
		return;
	net_put_eth(rx->out, rx->d, rx->smac, WIRE_ETHERTYPE_IPV6);
	net_put_ipv6(rx->out, ip->dst, ip->src, NET_IPPROTO_ICMP6, NET_HOP_LIMIT, len);
	put_echo(rx->out, msg, len, NET_ICMP6_ECHO_REPLY, net_sum_icmp6(ip->dst, ip->src, len));
}

bool
net_ipv6_rx(const struct net_rx_ctx *rx, struct wire_cur c)
{
	const struct wire_ipv6 *ip = wire_cur_get(&c, struct wire_ipv6);
	struct wire_cur body;
	const uint8_t *msg;
	uint32_t len;

	if (ip == NULL || rte_be_to_cpu_32(ip->ver_tc_flow) >> 28 != 6 ||
	    ip->next != NET_IPPROTO_ICMP6 || !wire_cur_limit(&c, rte_be_to_cpu_16(ip->payload_len)))
		return false;
	/* An IPv4-mapped address is not valid on the wire and must not match our IPv4 address. */
	if (net_gid_is_v4(ip->src) || net_gid_is_v4(ip->dst))
		return false;
	body = c;
	len = wire_cur_left(&c);
	msg = wire_cur_take(&c, len);
	if (len < sizeof(struct net_icmp) ||
	    net_sum_finish(net_sum(net_sum_icmp6(ip->src, ip->dst, len), msg, len)) != 0)
		return false;
	switch (msg[0]) {
	case NET_ICMP6_ECHO:
		rx_echo6(rx, ip, msg, len);
		return false;
	case NET_ICMP6_NS:
	case NET_ICMP6_NA:
		return net_nd_rx(rx, ip, body);
	default:
		return false;
	}
}
