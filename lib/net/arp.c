/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>
#include "net/frame.h"

#define HTYPE_ETHERNET 1

/* Builds an ARP packet from our MAC and spa (4 bytes). tha NULL: unknown, sent as zero. */
static void
put_arp(const struct net_dev *d, struct net_frame *out, const uint8_t dmac[6], uint16_t op,
	const uint8_t *spa, const uint8_t *tha, const uint8_t *tpa)
{
	struct net_arp *arp;

	net_put_eth(out, d, dmac, NET_ETHERTYPE_ARP);
	arp = net_put(out, sizeof(*arp));
	arp->htype = rte_cpu_to_be_16(HTYPE_ETHERNET);
	arp->ptype = rte_cpu_to_be_16(WIRE_ETHERTYPE_IPV4);
	arp->hlen = 6;
	arp->plen = 4;
	arp->op = rte_cpu_to_be_16(op);
	memcpy(arp->sha, d->mac, 6);
	memcpy(arp->spa, spa, 4);
	if (tha != NULL)
		memcpy(arp->tha, tha, 6);
	memcpy(arp->tpa, tpa, 4);
	net_put_pad(out);
}

void
net_arp_request(const struct net_dev *d, const uint8_t ip[16], const uint8_t *dmac,
		struct net_frame *out)
{
	static const uint8_t nobody[4];
	const uint8_t *src = net_source_for(d, ip);

	put_arp(d, out, dmac != NULL ? dmac : net_mac_broadcast, NET_ARP_REQUEST,
		src != NULL ? src + 12 : nobody, NULL, ip + 12);
}

void
net_arp_announce(const struct net_dev *d, const uint8_t ip[16], struct net_frame *out)
{
	put_arp(d, out, net_mac_broadcast, NET_ARP_REQUEST, ip + 12, NULL, ip + 12);
}

bool
net_arp_rx(const struct net_rx_ctx *rx, struct wire_cur c)
{
	const struct net_arp *arp = wire_cur_get(&c, struct net_arp);
	uint8_t sender[16], target[16];
	uint16_t op;

	if (arp == NULL || arp->htype != rte_cpu_to_be_16(HTYPE_ETHERNET) ||
	    arp->ptype != rte_cpu_to_be_16(WIRE_ETHERTYPE_IPV4) || arp->hlen != 6 || arp->plen != 4)
		return false;
	op = rte_be_to_cpu_16(arp->op);
	if ((op != NET_ARP_REQUEST && op != NET_ARP_REPLY) || !net_mac_is_station(arp->sha) ||
	    memcmp(arp->sha, rx->d->mac, sizeof(arp->sha)) == 0)
		return false;
	net_gid_from_v4(sender, arp->spa);
	net_gid_from_v4(target, arp->tpa);
	if (net_gid_find(rx->d, sender) >= 0)
		return false; /* another station claims our address */
	if (op == NET_ARP_REQUEST && net_gid_find(rx->d, target) >= 0)
		put_arp(rx->d, rx->out, arp->sha, NET_ARP_REPLY, arp->tpa, arp->sha, arp->spa);
	return net_neigh_learn(rx->d, sender, arp->sha, true, rx->now_ns, rx->changed);
}
