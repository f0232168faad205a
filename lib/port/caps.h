/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The capabilities of a port's device, whether uroce uses them or not: queried when the port
 * starts. doc/hardware.md describes which of them are used.
 */
#ifndef PORT_CAPS_H
#define PORT_CAPS_H

#include <stdbool.h>
#include <stdint.h>

struct rte_eth_dev_info;

struct port_caps {
	bool known;           /* false for ports that are kernel sockets: the rest is zero */
	uint64_t rx_offloads; /* RTE_ETH_RX_OFFLOAD_.. */
	uint64_t tx_offloads; /* RTE_ETH_TX_OFFLOAD_.. */
	uint64_t rss;         /* RTE_ETH_RSS_..: hash types that the device supports */
	uint64_t rss_used;    /* hash types that the daemon configured; 0: no RSS */
	uint32_t reta_size;   /* entries of the RSS redirection table */
	uint16_t max_rxq, max_txq;
	uint32_t max_mtu; /* bytes; 0: not reported by the driver */
	/*
	 * Result of validating a rule that steers UDP port 4791 to queue 0: 0; -ENOSYS if the
	 * driver has no rules; another -errno with its reason in flow_why.
	 */
	int flow_rule;
	char flow_why[64];
};

/*
 * Fills caps from info, which the driver gave for the ethdev port_id. The device is configured;
 * the rule is only validated, not created. Control thread.
 */
void port_caps_ask(struct port_caps *caps, uint16_t port_id, const struct rte_eth_dev_info *info);

#endif
