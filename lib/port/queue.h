/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The seam between a worker and a port: bursts over one queue, whatever kind of port is behind it.
 * An ethdev port costs one predictable branch; every other kind is called out of line.
 *
 * A burst hands over frames in the order in which the engine made them. So a run of equal
 * neighbours (same path, equal length) is visible to the port, which may send it as one.
 *
 * For the worker that owns the queue, and for nobody else.
 */
#ifndef PORT_QUEUE_H
#define PORT_QUEUE_H

#include <rte_branch_prediction.h>
#include "port/burst.h"
#include "port/port.h"

struct port_queue {
	enum port_kind kind;
	uint16_t port, queue;
	struct port_udp *udp; /* of a PORT_UDP */
};

/* Queue number `queue` of p, below p->nrxq to receive and below p->ntxq to send. */
static inline struct port_queue
port_queue_of(const struct port *p, uint16_t queue)
{
	return (struct port_queue){.kind = p->kind, .port = p->id, .queue = queue, .udp = p->udp};
}

/* Bursts of the kinds that are not PORT_ETHDEV: port_queue_rx and port_queue_tx call them. */
uint16_t port_queue_rx_other(const struct port_queue *q, struct rte_mbuf **m, uint16_t n);
uint16_t port_queue_tx_other(const struct port_queue *q, struct rte_mbuf **m, uint16_t n);

/*
 * Up to n frames that arrived; the caller owns them. m->port is not to be relied upon (net_ring).
 */
static inline uint16_t
port_queue_rx(const struct port_queue *q, struct rte_mbuf **m, uint16_t n)
{
	if (likely(q->kind == PORT_ETHDEV))
		return port_rx_burst(q->port, q->queue, m, n);
	return port_queue_rx_other(q, m, n);
}

/* Send m[0 .. n) in order. Returns how many the port took; the rest stay the caller's. */
static inline uint16_t
port_queue_tx(const struct port_queue *q, struct rte_mbuf **m, uint16_t n)
{
	if (likely(q->kind == PORT_ETHDEV))
		return port_tx_burst(q->port, q->queue, m, n);
	return port_queue_tx_other(q, m, n);
}

/* Does somebody who may hold frames back (drivers/impair) sit on the queue? */
static inline bool
port_queue_hooked(const struct port_queue *q)
{
	return q->kind <= PORT_ETHDEV_GUARDED && port_rx_hooked(q->port, q->queue);
}

#endif
