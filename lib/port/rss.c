/* SPDX-License-Identifier: BSD-3-Clause */
#include "port/port.h"

#include <string.h>
#include <rte_common.h>
#include <rte_ethdev.h>
#include <rte_thash.h>
#include "net/net.h"

#define ROCE_PORT 4791u
#define KEY_MIN   40u /* bytes that the hash of two IPv6 addresses and two ports uses */

static bool
ask_table(struct port_rss *rss, uint16_t port_id, uint16_t size)
{
	struct rte_eth_rss_reta_entry64 group[PORT_RSS_RETA / RTE_ETH_RETA_GROUP_SIZE] = {0};
	uint32_t i;

	if (size == 0 || size > PORT_RSS_RETA || !rte_is_power_of_2(size))
		return false;
	for (i = 0; i < RTE_DIM(group); i++)
		group[i].mask = UINT64_MAX;
	if (rte_eth_dev_rss_reta_query(port_id, group, size) != 0)
		return false;
	for (i = 0; i < size; i++)
		rss->reta[i] = group[i / RTE_ETH_RETA_GROUP_SIZE].reta[i % RTE_ETH_RETA_GROUP_SIZE];
	return true;
}

void
port_rss_ask(struct port_rss *rss, uint16_t port_id, const struct rte_eth_dev_info *info)
{
	struct rte_eth_rss_conf conf = {.rss_key = (uint8_t *)rss->key};

	memset(rss, 0, sizeof(*rss));
	conf.rss_key_len = info->hash_key_size != 0 ? info->hash_key_size : KEY_MIN;
	if (conf.rss_key_len < KEY_MIN || conf.rss_key_len > PORT_RSS_KEY ||
	    rte_eth_dev_rss_hash_conf_get(port_id, &conf) != 0)
		return;
	rss->v4 = (conf.rss_hf & RTE_ETH_RSS_NONFRAG_IPV4_UDP) != 0;
	rss->v6 = (conf.rss_hf & RTE_ETH_RSS_NONFRAG_IPV6_UDP) != 0;
	if (ask_table(rss, port_id, info->reta_size))
		rss->n = info->reta_size;
}

static uint32_t
word(const uint8_t *bytes)
{
	rte_be32_t be;

	memcpy(&be, bytes, sizeof(be));
	return rte_be_to_cpu_32(be);
}

int
port_rss_queue(const struct port_rss *rss, const uint8_t src[16], const uint8_t dst[16],
	       uint16_t sport)
{
	uint32_t tuple[9], n = 0, i;
	bool v4 = net_gid_is_v4(src);

	if (rss->n == 0 || !(v4 ? rss->v4 : rss->v6))
		return -1;
	for (i = v4 ? 12 : 0; i < 16; i += 4)
		tuple[n++] = word(src + i);
	for (i = v4 ? 12 : 0; i < 16; i += 4)
		tuple[n++] = word(dst + i);
	tuple[n++] = (uint32_t)sport << 16 | ROCE_PORT;
	return rss->reta[rte_softrss(tuple, n, (const uint8_t *)rss->key) & (rss->n - 1u)];
}
