/* SPDX-License-Identifier: BSD-3-Clause */
/* Handles frames from a device's neighbours and publishes learned MACs. */
#include "control/neigh.h"

#include <rte_mbuf.h>
#include "control/cm.h"
#include "control/obj.h"

static void
hop_resolved(struct device *dev, const struct net_neigh *n)
{
	qp_hop_resolved(dev, n->ip, n->mac);
	ah_hop_resolved(dev, n->ip, n->mac);
	ucma_hop_resolved(dev, n->ip);
	sr_peer_tick(dev);
}

void
neigh_rx_bytes(struct device *dev, const uint8_t *frame, uint32_t len)
{
	const struct net_neigh *changed;
	struct net_frame out = {0};
	struct net_query query;

	if (net_group_query(&dev->net, frame, len, &query)) {
		ucma_group_queried(dev, &query);
		return;
	}
	if (net_rx(&dev->net, frame, len, daemon_now_ns(), &out, &changed))
		hop_resolved(dev, changed);
	neigh_send(dev, &out);
	if (changed != NULL)
		neigh_tick(dev); /* it is checked sooner than the timer's next turn */
}

void
neigh_rx(struct device *dev, struct rte_mbuf *m)
{
	uint8_t bytes[NET_FRAME_MAX];
	uint32_t len = rte_pktmbuf_pkt_len(m);
	const uint8_t *frame;

	if (len > sizeof(bytes))
		return;
	frame = rte_pktmbuf_read(m, 0, len, bytes);
	if (frame != NULL)
		neigh_rx_bytes(dev, frame, len);
}
