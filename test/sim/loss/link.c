/* SPDX-License-Identifier: BSD-3-Clause */
#include <rte_common.h>
#include <rte_mbuf.h>
#include "link.h"

/* Puts a frame in order of arrival. Some arrive later, as if each had been sent behind others. */
static void
link_put(struct link *l, struct rte_mbuf *m, uint64_t at_ns)
{
	uint32_t i = l->head++;

	if (l->late != 0 && sim_chance(&l->rng, 500000 / l->late))
		at_ns += (uint64_t)sim_between(&l->rng, 1, l->late) * LINK_FRAME_BYTES *
			 LINK_BYTE_PS / 1000;
	for (; i != l->tail && l->at_ns[(i - 1) % LINK_FRAMES] > at_ns; i--) {
		l->frame[i % LINK_FRAMES] = l->frame[(i - 1) % LINK_FRAMES];
		l->at_ns[i % LINK_FRAMES] = l->at_ns[(i - 1) % LINK_FRAMES];
	}
	l->frame[i % LINK_FRAMES] = m;
	l->at_ns[i % LINK_FRAMES] = at_ns;
}

uint32_t
link_send(struct link *l, uint64_t now_ns, struct rte_mbuf **m, uint32_t n)
{
	/*
	 * Frames differ in length, so the queue is full when it holds the time of that many longest
	 * frames.
	 */
	uint64_t full_ns = now_ns + (uint64_t)l->queue * LINK_FRAME_BYTES * LINK_BYTE_PS / 1000;
	uint32_t i;

	for (i = 0; i < n; i++) {
		if (l->head - l->tail == LINK_FRAMES || l->free_ns > full_ns)
			return i;
		l->free_ns = RTE_MAX(l->free_ns, now_ns) + m[i]->pkt_len * LINK_BYTE_PS / 1000;
		l->sent++;
		if (sim_chance(&l->rng, l->loss_ppm)) {
			l->lost++;
			rte_pktmbuf_free(m[i]);
			continue;
		}
		link_put(l, m[i], l->free_ns + l->delay_ns);
	}
	return n;
}

uint32_t
link_recv(struct link *l, uint64_t now_ns, struct rte_mbuf **m, uint32_t n)
{
	uint32_t got = 0;

	while (got < n && l->tail != l->head && l->at_ns[l->tail % LINK_FRAMES] <= now_ns)
		m[got++] = l->frame[l->tail++ % LINK_FRAMES];
	return got;
}

uint64_t
link_next(const struct link *l)
{
	return l->tail == l->head ? UINT64_MAX : l->at_ns[l->tail % LINK_FRAMES];
}

void
link_drain(struct link *l)
{
	while (l->tail != l->head)
		rte_pktmbuf_free(l->frame[l->tail++ % LINK_FRAMES]);
}
