/* SPDX-License-Identifier: BSD-3-Clause */
/* Receive callbacks of ports that are no ethdev. */
#include <errno.h>
#include <rte_errno.h>
#include <rte_malloc.h>
#include "port/queue.h"

#define QUEUES_MAX 16 /* of a port */

struct hook {
	rte_rx_callback_fn func;
	void *arg;
};

/* The control thread writes them, workers read them. */
static const struct hook *hooks[PORT_IDS_MAX][QUEUES_MAX];

const void *
port_hook_add(uint16_t port, uint16_t queue, rte_rx_callback_fn func, void *arg)
{
	struct hook *h = NULL;

	rte_errno = EINVAL;
	if (port >= PORT_IDS_MAX || queue >= QUEUES_MAX || hooks[port][queue] != NULL)
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

uint16_t
port_hook_run(const struct port_queue *q, struct rte_mbuf **m, uint16_t got, uint16_t n)
{
	const struct hook *h = __atomic_load_n(&hooks[q->port][q->queue], __ATOMIC_ACQUIRE);

	return likely(h == NULL) ? got : h->func(q->port, q->queue, m, got, n, h->arg);
}
