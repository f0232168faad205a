/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>
#include <rte_branch_prediction.h>
#include "worker/worker_parts.h"

#define FRAMES_MAX ENGINE_TX_CAP

static uint64_t
bytes_of(struct rte_mbuf *const *m, uint32_t n)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < n; i++)
		sum += m[i]->pkt_len;
	return sum;
}

static void
lose(struct worker *w, uint16_t dev, struct rte_mbuf **m, uint32_t n)
{
	w->counters[dev].ctr[COUNTER_TX_PORT_DOWN] += n;
	rte_pktmbuf_free_bulk(m, n);
}

/*
 * The functions send_* below take m[0 .. n), n > 0, of one device and kind, in order. They return
 * how many frames were consumed: sent or lost.
 */

static uint32_t
send_port(struct worker *w, uint16_t dev, struct rte_mbuf **m, uint32_t n)
{
	struct counter_block *counters = &w->counters[dev];
	struct worker_dev *d = &w->dev[dev];
	uint64_t bytes = bytes_of(m, n);
	bool roce = m[0]->hash.usr != TX_CONTROL; /* the port may free it */
	uint32_t sent = likely(w->steps == NULL) ? port_queue_tx(&d->queue, m, (uint16_t)n)
						 : steps_tx(w, &d->queue, m, (uint16_t)n);

	counters->ctr[COUNTER_TX_FRAMES] += sent;
	counters->ctr[COUNTER_TX_BYTES] += bytes;
	if (likely(roce))
		counters->ctr[COUNTER_TX_ROCE] += sent;
	if (sent != 0)
		d->refused_since_ns = 0;
	if (likely(sent == n))
		return n;
	counters->ctr[COUNTER_TX_BUSY]++;
	counters->ctr[COUNTER_TX_BYTES] -= bytes_of(m + sent, n - sent);
	if (sent != 0)
		return sent;
	if (d->refused_since_ns == 0) {
		d->refused_since_ns = w->now_ns;
		d->refused_stalls = 0;
	}
	if (w->now_ns - d->refused_since_ns < WORKER_PORT_DEAD_NS)
		return 0;
	lose(w, dev, m, n);
	return n;
}

static uint32_t
send_worker(struct worker *w, uint16_t dev, struct rte_mbuf **m, uint32_t n)
{
	unsigned to = w->dev[dev].tx_worker;
	unsigned sent = rte_ring_enqueue_burst(w->ws->worker[to]->out, (void **)m, n, NULL);

	if (sent != 0)
		w->poke |= 1u << to;
	return sent;
}

static uint32_t
send_loopback(struct worker *w, uint16_t dev, struct rte_mbuf **m, uint32_t n)
{
	uint32_t room = WORKER_LO_FRAMES - w->lo_n;

	if (n > room)
		n = room;
	memcpy(w->lo + w->lo_n, m, n * sizeof(*m));
	w->lo_n += n;
	w->counters[dev].ctr[COUNTER_LOOPBACK] += n;
	w->counters[dev].ctr[COUNTER_TX_FRAMES] += n;
	w->counters[dev].ctr[COUNTER_TX_ROCE] += n;
	w->counters[dev].ctr[COUNTER_TX_BYTES] += bytes_of(m, n);
	return n;
}

static uint32_t
send_frames(struct worker *w, uint16_t dev, bool loopback, struct rte_mbuf **m, uint32_t n)
{
	if (unlikely(!w->dev[dev].present)) {
		lose(w, dev, m, n);
		return n;
	}
	if (loopback)
		return send_loopback(w, dev, m, n);
	if (w->dev[dev].own_queue)
		return send_port(w, dev, m, n);
	return send_worker(w, dev, m, n);
}

/* Returns true if all of m[0 .. n), n > 0, have the same device and kind. */
static bool
alike(struct rte_mbuf *const *m, uint32_t n)
{
	uint16_t dev = m[0]->port;
	uint32_t kind = m[0]->hash.usr;

	for (uint32_t i = 1; i < n; i++) {
		if (m[i]->port != dev || m[i]->hash.usr != kind)
			return false;
	}
	return true;
}

/*
 * Sends tx[0 .. n), grouped by device and kind. Refused frames move to the front, in order. Returns
 * how many were consumed.
 */
static uint32_t
flush_mixed(struct worker *w, struct rte_mbuf **tx, uint32_t n)
{
	struct rte_mbuf *batch[FRAMES_MAX], *keep[FRAMES_MAX];
	uint32_t left = n, kept = 0;

	while (left != 0) {
		uint16_t dev = tx[0]->port;
		uint32_t kind = tx[0]->hash.usr, k = 0, others = 0, went;

		for (uint32_t i = 0; i < left; i++) {
			if (tx[i]->port == dev && tx[i]->hash.usr == kind)
				batch[k++] = tx[i];
			else
				tx[others++] = tx[i];
		}
		went = send_frames(w, dev, kind == QP_TX_LOOPBACK, batch, k);
		memcpy(keep + kept, batch + went, (k - went) * sizeof(*batch));
		kept += k - went;
		left = others;
	}
	memcpy(tx, keep, kept * sizeof(*keep));
	return n - kept;
}

/*
 * Sends tx[0 .. *n), *n > 0, and sets *n to the number of refused frames. Returns how many were
 * consumed.
 */
static uint32_t
flush(struct worker *w, struct rte_mbuf **tx, uint32_t *n)
{
	uint32_t went;

	if (likely(alike(tx, *n))) {
		went = send_frames(w, tx[0]->port, tx[0]->hash.usr == QP_TX_LOOPBACK, tx, *n);
		memmove(tx, tx + went, (*n - went) * sizeof(*tx));
	} else {
		went = flush_mixed(w, tx, *n);
	}
	*n -= went;
	return went;
}

/*
 * Captures the control thread's frames, also those that loop back. Other workers have captured
 * their own frames, which are all for a port.
 */
static void
capture_control(struct worker *w, struct rte_mbuf *const *m, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		if (m[i]->hash.usr != QP_TX_WIRE)
			captured_sent(w, &m[i], 1);
	}
}

/* Makes refused frames linear, because client memory may be unmapped after this iteration. */
static void
own_payloads(struct worker *w, struct rte_mbuf *const *m, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		/* a buffer has space for a whole frame (qp/env.h) */
		if (m[i]->nb_segs != 1)
			RTE_VERIFY(rte_pktmbuf_linearize(m[i]) == 0);
		else if (m[i]->hash.usr == QP_TX_LOOPBACK)
			engine_own(&w->engine, m[i]);
	}
}

unsigned
tx_flush(struct worker *w)
{
	struct qp_env *env = &w->engine.env;
	struct rte_mbuf **given = w->fwd + w->fwd_n;
	unsigned went = 0, room = FRAMES_MAX - w->fwd_n, n;

	n = rte_ring_dequeue_burst(w->out, (void **)given, room, NULL);
	w->fwd_n += n;
	if (unlikely(w->ncaps != 0))
		capture_control(w, given, n);
	if (w->fwd_n != 0)
		went += flush(w, w->fwd, &w->fwd_n);
	if (likely(n != room && w->fwd_n == 0))
		__atomic_store_n(&w->out_clear_ns, w->now_ns, __ATOMIC_RELAXED);
	if (env->tx_n != 0) {
		went += flush(w, env->tx, &env->tx_n);
		own_payloads(w, env->tx, env->tx_n);
	}
	return went;
}

void
tx_forget_dev(struct worker *w, uint16_t dev)
{
	struct qp_env *env = &w->engine.env;
	uint32_t n = 0;

	w->hold.n = 0;
	/* the device is not present any more: flushing drops them */
	if (w->fwd_n != 0)
		flush(w, w->fwd, &w->fwd_n);
	if (env->tx_n != 0)
		flush(w, env->tx, &env->tx_n);
	for (uint32_t i = 0; i < w->lo_n; i++) {
		if (w->lo[i]->port == dev)
			lose(w, dev, &w->lo[i], 1);
		else
			w->lo[n++] = w->lo[i];
	}
	w->lo_n = n;
}

static int
send_from_control(struct worker_set *ws, uint16_t dev, struct rte_mbuf *m, uint32_t kind)
{
	struct worker *w = ws->worker[0];

	m->port = dev;
	m->hash.usr = kind;
	m->hash.fdir.hi = 0; /* of no QP */
	if (rte_ring_enqueue(w->out, m) != 0) {
		ws->control_counters[dev].ctr[COUNTER_TX_CONTROL_LOST]++;
		rte_pktmbuf_free(m);
		return -ENOBUFS;
	}
	worker_wake(w);
	return 0;
}

uint32_t
worker_frames_waiting(const struct worker_set *ws)
{
	return rte_ring_count(ws->worker[0]->out);
}

int
worker_send_frame(struct worker_set *ws, uint16_t dev, struct rte_mbuf *m)
{
	return send_from_control(ws, dev, m, TX_CONTROL);
}

int
worker_send_loopback(struct worker_set *ws, uint16_t dev, struct rte_mbuf *m)
{
	return send_from_control(ws, dev, m, QP_TX_LOOPBACK);
}
