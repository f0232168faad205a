/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a NIC spreads received frames over its queues: Toeplitz hash, key and redirection table, as
 * far as its driver tells. What is found here is a guess that nothing depends on but speed.
 */
#ifndef PORT_RSS_H
#define PORT_RSS_H

#include <stdbool.h>
#include <stdint.h>

#define PORT_RSS_KEY  64  /* bytes, at most */
#define PORT_RSS_RETA 512 /* entries, at most */

struct rte_eth_dev_info;

struct port_rss {
	uint32_t key[PORT_RSS_KEY / 4]; /* as the driver has it: bytes */
	uint16_t n;                     /* entries of reta; 0: not known, the rest means nothing */
	bool v4, v6;                    /* frames of these have their UDP ports hashed */
	uint16_t reta[PORT_RSS_RETA];   /* queues */
};

/*
 * Asks the driver of an ethdev that is configured and started. info is what the driver says of it.
 * rss->n is 0 if the driver does not tell, or has no table of a power of two entries.
 */
void port_rss_ask(struct port_rss *rss, uint16_t port_id, const struct rte_eth_dev_info *info);
/*
 * Returns the queue to which RoCEv2 packets come from src to dst, GIDs of one family, and from this
 * UDP source port; -1: not known, or the ports are not hashed.
 */
int port_rss_queue(const struct port_rss *rss, const uint8_t src[16], const uint8_t dst[16],
		   uint16_t sport);

#endif
