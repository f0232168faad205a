/* SPDX-License-Identifier: BSD-3-Clause */
/* The capabilities of a port's device, in DPDK's terms. */
#include <errno.h>
#include <string.h>
#include <rte_ethdev.h>
#include "port/port.h"
#include "show.h"

static const struct {
	uint64_t bits;
	const char *name;
} rss_types[] = {
	{RTE_ETH_RSS_IPV4, "ipv4"},
	{RTE_ETH_RSS_FRAG_IPV4, "ipv4-frag"},
	{RTE_ETH_RSS_NONFRAG_IPV4_TCP, "ipv4-tcp"},
	{RTE_ETH_RSS_NONFRAG_IPV4_UDP, "ipv4-udp"},
	{RTE_ETH_RSS_NONFRAG_IPV4_OTHER, "ipv4-other"},
	{RTE_ETH_RSS_IPV6, "ipv6"},
	{RTE_ETH_RSS_FRAG_IPV6, "ipv6-frag"},
	{RTE_ETH_RSS_NONFRAG_IPV6_TCP, "ipv6-tcp"},
	{RTE_ETH_RSS_NONFRAG_IPV6_UDP, "ipv6-udp"},
	{RTE_ETH_RSS_NONFRAG_IPV6_OTHER, "ipv6-other"},
	{RTE_ETH_RSS_L2_PAYLOAD, "l2-payload"},
	{RTE_ETH_RSS_VXLAN, "vxlan"},
	{RTE_ETH_RSS_C_VLAN, "c-vlan"},
	{RTE_ETH_RSS_S_VLAN, "s-vlan"},
};

static json_t *
offloads(uint64_t set, const char *(*name)(uint64_t))
{
	json_t *list = json_array();

	for (unsigned int i = 0; i < 64; i++) {
		if (set >> i & 1)
			json_array_append_new(list, json_string(name(UINT64_C(1) << i)));
	}
	return list;
}

static json_t *
rss_names(uint64_t set)
{
	json_t *list = json_array();

	for (size_t i = 0; i < sizeof(rss_types) / sizeof(rss_types[0]); i++) {
		if (set & rss_types[i].bits)
			json_array_append_new(list, json_string(rss_types[i].name));
	}
	return list;
}

json_t *
show_caps(const struct port_caps *c)
{
	json_t *o = json_object();
	const char *rule = c->flow_rule == 0 ? "yes" : "no";

	show_set(o, "rx_offloads", offloads(c->rx_offloads, rte_eth_dev_rx_offload_name));
	show_set(o, "tx_offloads", offloads(c->tx_offloads, rte_eth_dev_tx_offload_name));
	show_set(o, "rss", rss_names(c->rss));
	show_set(o, "rss_used", rss_names(c->rss_used));
	show_set_int(o, "reta_size", c->reta_size);
	if (c->flow_rule != 0 && c->flow_rule != -ENOSYS)
		rule = *c->flow_why ? c->flow_why : strerror(-c->flow_rule);
	show_set(o, "flow_rule", json_string(rule));
	show_set_int(o, "max_rx_queues", c->max_rxq);
	show_set_int(o, "max_tx_queues", c->max_txq);
	if (c->max_mtu != 0)
		show_set_int(o, "max_mtu", c->max_mtu);
	return o;
}
