/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>
#include "net/frame.h"

static const uint8_t unspecified[16];
static const uint8_t all_nodes[16] = {0xff, 0x02, [15] = 1};

/* Solicited-node group of ip, ff02::1:ffXX:XXXX (RFC 4291 2.7.1). */
static void
solicited_node(const uint8_t ip[16], uint8_t group[16])
{
	static const uint8_t prefix[13] = {0xff, 0x02, [11] = 1, 0xff};

	memcpy(group, prefix, 13);
	memcpy(group + 13, ip + 13, 3);
}

/* Builds one message with one link-layer address option, our MAC. */
static void
put_nd(const struct net_dev *d, struct net_frame *out, const uint8_t dmac[6], const uint8_t src[16],
       const uint8_t dst[16], uint8_t type, uint32_t flags, const uint8_t target[16])
{
	const uint32_t len = sizeof(struct net_nd) + sizeof(struct net_nd_lladdr);
	struct net_nd_lladdr *opt;
	struct net_nd *nd;

	net_put_eth(out, d, dmac, WIRE_ETHERTYPE_IPV6);
	net_put_ipv6(out, src, dst, NET_IPPROTO_ICMP6, NET_ND_HOP_LIMIT, len);
	nd = net_put(out, sizeof(*nd));
	nd->icmp.type = type;
	nd->flags = rte_cpu_to_be_32(flags);
	memcpy(nd->target, target, 16);
	opt = net_put(out, sizeof(*opt));
	opt->type = type == NET_ICMP6_NS ? NET_ND_OPT_SOURCE : NET_ND_OPT_TARGET;
	opt->len = 1;
	memcpy(opt->mac, d->mac, 6);
	nd->icmp.csum = net_sum_finish(net_sum(net_sum_icmp6(src, dst, len), nd, len));
	net_put_pad(out);
}

void
net_nd_solicit(const struct net_dev *d, const uint8_t ip[16], const uint8_t *dmac,
	       struct net_frame *out)
{
	const uint8_t *src = net_source_for(d, ip);
	uint8_t group[16], mac[6];

	if (src == NULL)
		return; /* RFC 4861 4.3: without an address a node solicits only its own */
	if (dmac != NULL) {
		put_nd(d, out, dmac, src, ip, NET_ICMP6_NS, 0, ip);
		return;
	}
	solicited_node(ip, group);
	net_mcast_mac(group, mac);
	put_nd(d, out, mac, src, group, NET_ICMP6_NS, 0, ip);
}

void
net_nd_announce(const struct net_dev *d, const uint8_t ip[16], struct net_frame *out)
{
	uint8_t mac[6];

	net_mcast_mac(all_nodes, mac);
	put_nd(d, out, mac, ip, all_nodes, NET_ICMP6_NA, NET_NA_OVERRIDE, ip);
}

/*
 * Finds the link-layer address option of type. *mac stays NULL if there is none. Returns false if
 * the options are malformed; the message must then be ignored (RFC 4861 4.6).
 */
static bool
find_lladdr(struct wire_cur c, uint8_t type, const uint8_t **mac)
{
	*mac = NULL;
	while (wire_cur_left(&c) > 0) {
		struct wire_cur peek = c;
		const uint8_t *head = wire_cur_take(&peek, 2);
		const uint8_t *opt;

		if (head == NULL || head[1] == 0)
			return false;
		opt = wire_cur_take(&c, head[1] * 8u);
		if (opt == NULL)
			return false;
		if (opt[0] == type && opt[1] == 1 && *mac == NULL)
			*mac = ((const struct net_nd_lladdr *)opt)->mac;
	}
	return true;
}

static bool
rx_solicitation(const struct net_rx_ctx *rx, const struct wire_ipv6 *ip, const struct net_nd *ns,
		struct wire_cur options)
{
	bool probe = memcmp(ip->src, unspecified, 16) == 0; /* duplicate address detection */
	const uint8_t *smac;
	uint8_t mac[6];

	if (!find_lladdr(options, NET_ND_OPT_SOURCE, &smac) || net_gid_is_mcast(ip->src) ||
	    net_gid_find(rx->d, ip->src) >= 0 || (probe && smac != NULL))
		return false;
	if (net_gid_find(rx->d, ns->target) >= 0) {
		if (probe) {
			net_mcast_mac(all_nodes, mac);
			put_nd(rx->d, rx->out, mac, ns->target, all_nodes, NET_ICMP6_NA,
			       NET_NA_OVERRIDE, ns->target);
		} else {
			put_nd(rx->d, rx->out, rx->smac, ns->target, ip->src, NET_ICMP6_NA,
			       NET_NA_SOLICITED | NET_NA_OVERRIDE, ns->target);
		}
	}
	if (probe || smac == NULL)
		return false;
	return net_neigh_learn(rx->d, ip->src, smac, true, rx->now_ns, rx->changed);
}

static bool
rx_advertisement(const struct net_rx_ctx *rx, const struct wire_ipv6 *ip, const struct net_nd *na,
		 struct wire_cur options)
{
	uint32_t flags = rte_be_to_cpu_32(na->flags);
	const uint8_t *mac;

	if (!find_lladdr(options, NET_ND_OPT_TARGET, &mac) || net_gid_find(rx->d, na->target) >= 0)
		return false;
	if (net_gid_is_mcast(ip->dst) && (flags & NET_NA_SOLICITED))
		return false;
	/* A response to a unicast request need not have a MAC option: use the frame's source. */
	if (mac == NULL && !(flags & NET_NA_SOLICITED))
		return false;
	return net_neigh_learn(rx->d, na->target, mac != NULL ? mac : rx->smac,
			       (flags & NET_NA_OVERRIDE) != 0, rx->now_ns, rx->changed);
}

bool
net_nd_rx(const struct net_rx_ctx *rx, const struct wire_ipv6 *ip, struct wire_cur c)
{
	const struct net_nd *nd = wire_cur_get(&c, struct net_nd);

	/* RFC 4861 7.1.1, 7.1.2 */
	if (nd == NULL || ip->hop_limit != NET_ND_HOP_LIMIT || nd->icmp.code != 0 ||
	    net_gid_is_mcast(nd->target))
		return false;
	if (nd->icmp.type == NET_ICMP6_NS)
		return rx_solicitation(rx, ip, nd, c);
	return rx_advertisement(rx, ip, nd, c);
}
