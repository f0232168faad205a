/* SPDX-License-Identifier: BSD-3-Clause */
#include "port/guard.h"
#include "port/packet.h"
#include "port/queue.h"
#include "port/udp.h"

uint16_t
port_queue_rx_other(const struct port_queue *q, struct rte_mbuf **m, uint16_t n)
{
	if (q->kind == PORT_UDP)
		return port_udp_rx(q->udp, m, n);
	if (q->kind == PORT_PACKET)
		return port_packet_rx(q->packet, m, n);
	return port_rx_burst_guarded(q->port, q->queue, m, n);
}

uint16_t
port_queue_tx_other(const struct port_queue *q, struct rte_mbuf **m, uint16_t n)
{
	if (q->kind == PORT_UDP)
		return port_udp_tx(q->udp, m, n);
	if (q->kind == PORT_PACKET)
		return port_packet_tx(q->packet, m, n);
	return port_tx_burst_guarded(q->port, q->queue, m, n);
}
