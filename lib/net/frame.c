/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>
#include <rte_ip.h>
#include "net/frame.h"
#include "net/net.h"
#include "wire/csum.h"

#define ETH_MIN_LEN 60

const uint8_t net_mac_broadcast[6] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

void *
net_put(struct net_frame *f, uint32_t n)
{
	void *p = f->bytes + f->len;

	memset(p, 0, n);
	f->len += n;
	return p;
}

void
net_put_pad(struct net_frame *f)
{
	if (f->len < ETH_MIN_LEN)
		net_put(f, ETH_MIN_LEN - f->len);
}

void
net_put_eth(struct net_frame *f, const struct net_dev *d, const uint8_t dmac[6], uint16_t type)
{
	struct wire_eth *eth;
	struct wire_vlan *vlan;

	f->len = 0;
	eth = net_put(f, sizeof(*eth));
	memcpy(eth->dmac, dmac, 6);
	memcpy(eth->smac, d->mac, 6);
	eth->type = rte_cpu_to_be_16(type);
	if (d->vlan_tci == 0)
		return;
	eth->type = rte_cpu_to_be_16(WIRE_ETHERTYPE_VLAN);
	vlan = net_put(f, sizeof(*vlan));
	vlan->tci = rte_cpu_to_be_16(d->vlan_tci);
	vlan->type = rte_cpu_to_be_16(type);
}

void
net_put_ipv4(struct net_frame *f, const uint8_t src[16], const uint8_t dst[16], uint8_t proto,
	     uint32_t payload_len)
{
	struct wire_ipv4 *ip = net_put(f, sizeof(*ip));

	ip->ver_ihl = 0x45;
	ip->total_len = rte_cpu_to_be_16((uint16_t)(WIRE_IPV4_LEN + payload_len));
	ip->frag_off = rte_cpu_to_be_16(WIRE_IPV4_DF);
	ip->ttl = NET_HOP_LIMIT;
	ip->proto = proto;
	memcpy(ip->src, src + 12, 4);
	memcpy(ip->dst, dst + 12, 4);
	ip->csum = (rte_be16_t)~wire_ipv4_sum(ip);
}

void
net_put_ipv6(struct net_frame *f, const uint8_t src[16], const uint8_t dst[16], uint8_t next,
	     uint8_t hop_limit, uint32_t payload_len)
{
	struct wire_ipv6 *ip = net_put(f, sizeof(*ip));

	ip->ver_tc_flow = rte_cpu_to_be_32(6u << 28);
	ip->payload_len = rte_cpu_to_be_16((uint16_t)payload_len);
	ip->next = next;
	ip->hop_limit = hop_limit;
	memcpy(ip->src, src, 16);
	memcpy(ip->dst, dst, 16);
}

uint32_t
net_sum(uint32_t sum, const void *bytes, uint32_t len)
{
	return sum + rte_raw_cksum(bytes, len);
}

uint16_t
net_sum_finish(uint32_t sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t) ~((sum & 0xffff) + (sum >> 16));
}

uint32_t
net_sum_icmp6(const uint8_t src[16], const uint8_t dst[16], uint32_t len)
{
	const uint32_t tail[2] = {rte_cpu_to_be_32(len), rte_cpu_to_be_32(NET_IPPROTO_ICMP6)};

	return net_sum(net_sum(net_sum(0, src, 16), dst, 16), tail, sizeof(tail));
}

/* ---- received frames ---- */

#define VLAN_ID_MASK 0xfffu

/* Accepts untagged (or priority-tagged) frames if the device has no VLAN, else its own tag. */
static bool
take_vlan(const struct net_dev *d, struct wire_cur *c, uint16_t *type)
{
	uint16_t vid = 0;

	if (*type == WIRE_ETHERTYPE_VLAN) {
		const struct wire_vlan *tag = wire_cur_get(c, struct wire_vlan);

		if (tag == NULL)
			return false;
		vid = rte_be_to_cpu_16(tag->tci) & VLAN_ID_MASK;
		*type = rte_be_to_cpu_16(tag->type);
	}
	return vid == (d->vlan_tci & VLAN_ID_MASK);
}

static bool
dispatch(const struct net_rx_ctx *rx, struct wire_cur c, uint16_t type)
{
	switch (type) {
	case NET_ETHERTYPE_ARP:
		return net_arp_rx(rx, c);
	case WIRE_ETHERTYPE_IPV4:
		return net_ipv4_rx(rx, c);
	case WIRE_ETHERTYPE_IPV6:
		return net_ipv6_rx(rx, c);
	default:
		return false;
	}
}

const struct wire_eth *
net_rx_open(const struct net_dev *d, const uint8_t *frame, uint32_t len, struct wire_cur *c,
	    uint16_t *type)
{
	const struct wire_eth *eth;

	*c = wire_cur_over(frame, len);
	eth = wire_cur_get(c, struct wire_eth);
	if (eth == NULL || !net_mac_is_ours(eth->dmac, d->mac) || !net_mac_is_station(eth->smac) ||
	    memcmp(eth->smac, d->mac, 6) == 0)
		return NULL;
	*type = rte_be_to_cpu_16(eth->type);
	return take_vlan(d, c, type) ? eth : NULL;
}

bool
net_rx(struct net_dev *d, const uint8_t *frame, uint32_t len, uint64_t now_ns,
       struct net_frame *out, const struct net_neigh **changed)
{
	struct net_rx_ctx rx = {.d = d, .now_ns = now_ns, .out = out, .changed = changed};
	const struct wire_eth *eth;
	struct wire_cur c;
	uint16_t type;
	bool known;

	out->len = 0;
	*changed = NULL;
	eth = net_rx_open(d, frame, len, &c, &type);
	if (eth == NULL)
		return false;
	rx.smac = eth->smac;
	rx.unicast = (eth->dmac[0] & 1) == 0;
	known = dispatch(&rx, c, type);
	/* the host's stack answers */
	if (d->host || (type == WIRE_ETHERTYPE_IPV6 ? d->kernel_v6 : d->kernel_v4))
		out->len = 0;
	return known;
}
