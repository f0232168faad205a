/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>
#include <rte_branch_prediction.h>
#include "worker/worker_parts.h"

/*
 * Back-pressure: frames that another worker does not take fast enough stay in this worker's queues,
 * where the port drops frames, or holds them back. FULL_HIGH leaves space for a burst of each of
 * eight queues or workers, which are not asked in between.
 */
#define FULL_HIGH    (WORKER_RING_FRAMES / 2)
#define FULL_LOW     (WORKER_RING_FRAMES / 4)
#define FULL_WAIT_NS 10000000ull /* then QPs of other workers go on; the frames are lost */

_Static_assert(MOVE_FRAMES == WORKER_RING_FRAMES, "the same limits hold for kept frames");

void
handoff_full(struct worker *w, uint32_t worker)
{
	struct worker_full *f = &w->full;
	uint32_t bit = 1u << worker;

	if ((f->full & bit) != 0)
		return;
	if (f->waits == 0)
		f->since_ns = w->now_ns;
	f->full |= bit;
	f->waits |= bit;
}

/* Frames of w that worker i has not taken; i: w itself for those of a QP that it asks for. */
static uint32_t
frames_left(const struct worker *w, uint32_t i)
{
	return i == w->index ? w->move.nframes : rte_ring_count(w->ws->worker[i]->in);
}

bool
handoff_look(struct worker *w)
{
	struct worker_full *f = &w->full;

	for (uint32_t left = f->full; left != 0; left &= left - 1) {
		uint32_t i = (uint32_t)__builtin_ctz(left);

		if (frames_left(w, i) <= FULL_LOW)
			f->full &= ~(1u << i);
	}
	f->waits &= f->full;
	if (w->now_ns - f->since_ns >= FULL_WAIT_NS)
		f->waits = 0;
	return f->waits != 0;
}

void
handoff_to(void *ctx, uint32_t worker, uint32_t qpn, struct rte_mbuf *m)
{
	struct worker *w = ctx;
	unsigned space;

	if (unlikely(move_keeps(w, worker, qpn, m)))
		return;
	if ((w->from_port || w->engine.rx_loopback) && m->hash.usr == ENGINE_RX_FRAME)
		move_stray(w, m, worker, qpn);
	if (likely(rte_ring_enqueue_bulk(w->ws->worker[worker]->in, (void **)&m, 1, &space) == 1)) {
		w->poke |= 1u << worker;
		if (unlikely(space < WORKER_RING_FRAMES - FULL_HIGH))
			handoff_full(w, worker);
		return;
	}
	if (m->hash.usr == ENGINE_RX_EXTRA)
		w->counters[m->port].ctr[COUNTER_MCAST_REFUSED]++;
	else
		w->counters[m->port].drop[DROP_HANDOFF_FULL]++;
	rte_pktmbuf_free(m);
}

typedef void engine_rx_fn(struct engine *e, uint64_t now_ns, uint16_t dev, struct rte_mbuf **m,
			  uint32_t n);

/* Receives frames whose device is set, in bursts of one device. */
static void
rx_by_device(struct worker *w, struct rte_mbuf **m, uint32_t n, engine_rx_fn *rx)
{
	uint32_t first, i;

	for (first = 0; first < n; first = i) {
		uint16_t dev = m[first]->port;

		for (i = first + 1; i < n && m[i]->port == dev; i++)
			;
		if (rx == engine_rx_loopback)
			worker_count_rx(&w->counters[dev], m + first, i - first);
		if (likely(w->dev[dev].present)) {
			rx(&w->engine, w->now_ns, dev, m + first, i - first);
			continue;
		}
		w->counters[dev].drop[DROP_PORT_DOWN] += i - first;
		rte_pktmbuf_free_bulk(m + first, i - first);
	}
}

/* Receives a copy for one more member of a group. */
static void
rx_extra(struct worker *w, struct rte_mbuf *m)
{
	uint16_t dev = m->port;

	if (likely(w->dev[dev].present)) {
		engine_rx_extra(&w->engine, w->now_ns, dev, m);
		return;
	}
	w->counters[dev].ctr[COUNTER_MCAST_REFUSED]++;
	rte_pktmbuf_free(m);
}

void
handoff_receive(struct worker *w, struct rte_mbuf **m, uint32_t n)
{
	rx_by_device(w, m, n, w->watches != 0 ? captured_rx : engine_rx);
}

unsigned
handoff_rx(struct worker *w)
{
	struct rte_mbuf *m[WORKER_RX_BURST];
	unsigned n = rte_ring_dequeue_burst(w->in, (void **)m, WORKER_RX_BURST, NULL);

	/* ACKs may come through another worker's queue: timers wait for these, too. */
	w->rx_full |= n == WORKER_RX_BURST;
	w->engine.rx_handed = true;
	for (unsigned i = 0; i < n;) {
		unsigned first = i;

		if (unlikely(move_is_message(m[i]))) {
			move_asked(w, m[i++]);
			continue;
		}
		while (i < n && !move_is_message(m[i]) && m[i]->hash.usr != ENGINE_RX_EXTRA)
			i++;
		handoff_receive(w, m + first, i - first);
		if (i < n && !move_is_message(m[i]))
			rx_extra(w, m[i++]);
	}
	w->engine.rx_handed = false;
	w->move.rest -= RTE_MIN(w->move.rest, n);
	w->move.first -= RTE_MIN(w->move.first, n);
	return n;
}

void
loopback_own(struct worker *w)
{
	for (uint32_t i = 0; i < w->lo_n; i++)
		engine_own(&w->engine, w->lo[i]);
}

unsigned
loopback_rx(struct worker *w)
{
	uint32_t n = w->lo_n;

	if (n == 0)
		return 0;
	w->lo_n = 0;
	rx_by_device(w, w->lo, n, engine_rx_loopback);
	return n;
}
