/* SPDX-License-Identifier: BSD-3-Clause */
#include "port/caps.h"

#include <stdio.h>
#include <string.h>
#include <rte_byteorder.h>
#include <rte_ethdev.h>
#include <rte_flow.h>

#define ROCE_PORT 4791

/* Asks for a rule that sends RoCEv2 over IPv4 to queue 0. */
static void
ask_rule(struct port_caps *caps, uint16_t port_id)
{
	const struct rte_flow_attr attr = {.ingress = 1};
	const struct rte_flow_item_udp udp = {.hdr.dst_port = rte_cpu_to_be_16(ROCE_PORT)};
	const struct rte_flow_item_udp mask = {.hdr.dst_port = UINT16_MAX};
	const struct rte_flow_item pattern[] = {
		{.type = RTE_FLOW_ITEM_TYPE_ETH},
		{.type = RTE_FLOW_ITEM_TYPE_IPV4},
		{.type = RTE_FLOW_ITEM_TYPE_UDP, .spec = &udp, .mask = &mask},
		{.type = RTE_FLOW_ITEM_TYPE_END},
	};
	const struct rte_flow_action_queue queue = {.index = 0};
	const struct rte_flow_action action[] = {
		{.type = RTE_FLOW_ACTION_TYPE_QUEUE, .conf = &queue},
		{.type = RTE_FLOW_ACTION_TYPE_END},
	};
	struct rte_flow_error error = {.message = NULL};

	caps->flow_rule = rte_flow_validate(port_id, &attr, pattern, action, &error);
	if (caps->flow_rule != 0 && error.message != NULL)
		snprintf(caps->flow_why, sizeof(caps->flow_why), "%s", error.message);
}

void
port_caps_ask(struct port_caps *caps, uint16_t port_id, const struct rte_eth_dev_info *info)
{
	struct rte_eth_rss_conf rss = {.rss_key = NULL};

	memset(caps, 0, sizeof(*caps));
	caps->known = true;
	caps->rx_offloads = info->rx_offload_capa;
	caps->tx_offloads = info->tx_offload_capa;
	caps->rss = info->flow_type_rss_offloads;
	if (rte_eth_dev_rss_hash_conf_get(port_id, &rss) == 0)
		caps->rss_used = rss.rss_hf;
	caps->reta_size = info->reta_size;
	caps->max_rxq = info->max_rx_queues;
	caps->max_txq = info->max_tx_queues;
	caps->max_mtu = info->max_mtu == UINT16_MAX ? 0 : info->max_mtu;
	ask_rule(caps, port_id);
}
