/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>
#include "net/frame.h"
#include "net/net.h"

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
