/* SPDX-License-Identifier: BSD-3-Clause */
#include "port/guard.h"
#include "port/queue.h"

uint16_t
port_queue_rx_other(const struct port_queue *q, struct rte_mbuf **m, uint16_t n)
{
	return port_rx_burst_guarded(q->port, q->queue, m, n);
}

uint16_t
port_queue_tx_other(const struct port_queue *q, struct rte_mbuf **m, uint16_t n)
{
	return port_tx_burst_guarded(q->port, q->queue, m, n);
}
