/* SPDX-License-Identifier: BSD-3-Clause */
/* Bursts of ports that are no plain ethdev, and the receive callbacks of ports on sockets. */
#include <errno.h>
#include <rte_errno.h>
#include <rte_malloc.h>
#include <uroce_abi/hello.h>
#include "port/ethdev.h"
#include "port/queue.h"
#include "port/socket.h"

struct hook {
	rte_rx_callback_fn func;
	void *arg;
};

/* A port has at most a queue a worker. The control thread writes them, workers read them. */
static const struct hook *hooks[PORT_IDS_MAX][UROCE_MAX_WORKERS];

const void *
port_hook_add(uint16_t port, uint16_t queue, rte_rx_callback_fn func, void *arg)
{
	struct hook *h = NULL;

	rte_errno = EINVAL;
	if (port >= PORT_IDS_MAX || queue >= UROCE_MAX_WORKERS || hooks[port][queue] != NULL)
		return NULL;
	rte_errno = ENOMEM;
	h = rte_malloc(NULL, sizeof(*h), 0);
	if (h == NULL)
		return NULL;
	*h = (struct hook){func, arg};
	__atomic_store_n(&hooks[port][queue], h, __ATOMIC_RELEASE);
	return h;
}

void
port_hook_remove(uint16_t port, uint16_t queue, const void *hook)
{
	if (hooks[port][queue] == hook)
		__atomic_store_n(&hooks[port][queue], NULL, __ATOMIC_RELEASE);
}

bool
port_hook_is_set(uint16_t port, uint16_t queue)
{
	return __atomic_load_n(&hooks[port][queue], __ATOMIC_RELAXED) != NULL;
}

/*
 * Passes a burst of got frames in m, which has room for n, through the queue's callback, if it has
 * one. Returns how many frames are then in m.
 */
static uint16_t
hook_run(const struct port_queue *q, struct rte_mbuf **m, uint16_t got, uint16_t n)
{
	const struct hook *h = __atomic_load_n(&hooks[q->port][q->queue], __ATOMIC_ACQUIRE);

	return likely(h == NULL) ? got : h->func(q->port, q->queue, m, got, n, h->arg);
}

uint32_t
port_queue_overflow(const struct port_queue *q, uint64_t *lost)
{
	const struct port_socket *s = q->socket;

	if (s == NULL || s->stats.rx_socket_full == *lost)
		return 0;
	*lost = s->stats.rx_socket_full; /* less than before: the socket was opened again */
	return *lost != 0 ? s->rx_buffer : 0;
}

uint16_t
port_queue_rx_other(const struct port_queue *q, struct rte_mbuf **m, uint16_t n)
{
	if (q->socket != NULL)
		return hook_run(q, m, port_socket_rx(q->socket, m, n), n);
	return port_rx_burst_guarded(q->port, q->queue, m, n);
}

uint16_t
port_queue_tx_other(const struct port_queue *q, struct rte_mbuf **m, uint16_t n)
{
	if (q->socket != NULL)
		return port_socket_tx(q->socket, m, n);
	return port_tx_burst_guarded(q->port, q->queue, m, n);
}
