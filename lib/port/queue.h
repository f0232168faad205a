/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The interface between a worker and a port: bursts over one queue of any kind of port. An ethdev
 * port costs one predictable branch; all other kinds are called out of line.
 *
 * A burst passes frames in the order in which the engine made them. The port can therefore see a
 * run of equal neighbours (same path, equal length) and send it as one.
 *
 * Only for the worker that owns the queue.
 */
#ifndef PORT_QUEUE_H
#define PORT_QUEUE_H

#include <rte_branch_prediction.h>
#include "port/burst.h"
#include "port/port.h"

/* Returns the socket of queue `queue` of p; NULL if p is an ethdev or has no such queue. */
struct port_socket *port_socket_of(const struct port *p, uint16_t queue);

struct port_queue {
	enum port_kind kind;
	uint16_t port, queue;
	struct port_socket *socket; /* of a PORT_UDP or PORT_PACKET */
};

/* Returns queue number `queue` of p, below p->nrxq to receive and below p->ntxq to send. */
static inline struct port_queue
port_queue_of(const struct port *p, uint16_t queue)
{
	return (struct port_queue){.kind = p->kind,
				   .port = p->id,
				   .queue = (uint16_t)(queue * (1 + p->queue_gap)),
				   .socket = port_socket_of(p, queue)};
}

/*
 * Receive callbacks of PORT_UDP and PORT_PACKET: as rte_eth_add_rx_callback and
 * rte_eth_remove_rx_callback, at most one a queue. port: below PORT_IDS_MAX; queue: below the
 * port's nrxq. Control thread only. add returns NULL with rte_errno ENOMEM, or EINVAL: out of
 * range, or the queue has one already. Its caller frees the result with rte_free, after remove and
 * after the queue's worker has been quiescent.
 */
const void *port_hook_add(uint16_t port, uint16_t queue, rte_rx_callback_fn func, void *arg);
void port_hook_remove(uint16_t port, uint16_t queue, const void *hook);
/* Returns true if the queue has one. Any thread. */
bool port_hook_is_set(uint16_t port, uint16_t queue);

/* Bursts of the kinds other than PORT_ETHDEV, called by port_queue_rx and port_queue_tx. */
uint16_t port_queue_rx_other(const struct port_queue *q, struct rte_mbuf **m, uint16_t n);
uint16_t port_queue_tx_other(const struct port_queue *q, struct rte_mbuf **m, uint16_t n);

/* Receives up to n frames, which the caller then owns. m->port is not reliable (net_ring). */
static inline uint16_t
port_queue_rx(const struct port_queue *q, struct rte_mbuf **m, uint16_t n)
{
	if (likely(q->kind == PORT_ETHDEV))
		return port_rx_burst(q->port, q->queue, m, n);
	return port_queue_rx_other(q, m, n);
}

/* Sends m[0 .. n) in order. Returns how many the port accepted; the caller keeps the rest. */
static inline uint16_t
port_queue_tx(const struct port_queue *q, struct rte_mbuf **m, uint16_t n)
{
	if (likely(q->kind == PORT_ETHDEV))
		return port_tx_burst(q->port, q->queue, m, n);
	return port_queue_tx_other(q, m, n);
}

/*
 * Returns the bytes that the queue's socket holds, with the kernel's overhead, if it has lost
 * frames because it was full since the last call with *lost, which is 0 at first; else, and for an
 * ethdev, 0.
 */
uint32_t port_queue_overflow(const struct port_queue *q, uint64_t *lost);

/* Returns true if the queue has a callback that may hold frames back (drivers/impair). */
static inline bool
port_queue_hooked(const struct port_queue *q)
{
	return q->kind <= PORT_ETHDEV_GUARDED ? port_rx_hooked(q->port, q->queue)
					      : port_hook_is_set(q->port, q->queue);
}

#endif
