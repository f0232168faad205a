/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frames that are not the transport's, to and from the thread that serves the kernel's interface
 * beside a device. A worker makes a system call for it only if that thread sleeps.
 */
#include <unistd.h>
#include "worker/worker_parts.h"

void
worker_set_host(struct worker_set *ws, uint16_t dev, struct worker_host *h)
{
	ws->host[dev] = h;
}

/* Wakes the consumer if it waits. Called after frames were put. */
static void
wake(struct worker_host *h)
{
	static const uint64_t one = 1;

	/* Partner: worker_host_sleeps, between setting asleep and the last look at the ring. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (__atomic_load_n(&h->asleep, __ATOMIC_RELAXED) == 0 ||
	    __atomic_exchange_n(&h->asleep, 0, __ATOMIC_RELAXED) == 0)
		return;
	if (write(h->wake_fd, &one, sizeof(one)) < 0)
		return; /* full, hence readable */
}

bool
host_frame(void *ctx, uint16_t dev, struct rte_mbuf *m)
{
	struct worker *w = ctx;

	if (rte_ring_enqueue(w->ws->host[dev]->ring, m) != 0) {
		rte_pktmbuf_free(m);
		return false;
	}
	w->host_poke |= 1u << dev;
	return true;
}

void
host_wake(struct worker *w)
{
	while (w->host_poke != 0) {
		unsigned dev = (unsigned)__builtin_ctz(w->host_poke);

		w->host_poke &= w->host_poke - 1;
		if (w->ws->host[dev] != NULL)
			wake(w->ws->host[dev]);
	}
}

bool
worker_host_put(struct worker_host *h, struct rte_mbuf *m)
{
	if (rte_ring_enqueue(h->ring, m) != 0)
		return false;
	wake(h);
	return true;
}

bool
worker_host_sleeps(struct worker_host *h)
{
	__atomic_store_n(&h->asleep, 1, __ATOMIC_RELAXED);
	/* Partner: wake. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (rte_ring_empty(h->ring))
		return true;
	__atomic_store_n(&h->asleep, 0, __ATOMIC_RELAXED);
	return false;
}

void
worker_host_awake(struct worker_host *h)
{
	uint64_t count;

	__atomic_store_n(&h->asleep, 0, __ATOMIC_RELAXED);
	if (read(h->wake_fd, &count, sizeof(count)) < 0)
		return; /* it was not woken */
}

uint32_t
worker_send_host(struct worker_set *ws, uint16_t dev, struct rte_mbuf **m, uint32_t n)
{
	struct worker *w = ws->worker[0];
	uint32_t room = rte_ring_free_count(w->out);

	room = room > WORKER_RING_FRAMES / 2 ? room - WORKER_RING_FRAMES / 2 : 0;
	n = n < room ? n : room;
	for (uint32_t i = 0; i < n; i++) {
		m[i]->port = dev;
		m[i]->hash.usr = TX_CONTROL;
	}
	n = rte_ring_enqueue_burst(w->out, (void **)m, n, NULL);
	if (n != 0)
		worker_wake(w);
	return n;
}
