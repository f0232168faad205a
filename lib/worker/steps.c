/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/steps.h"
#include <stdlib.h>
#include "worker/steps_put.h"

struct steps *
steps_create(uint32_t qpn, uint32_t max)
{
	struct steps *s = calloc(1, sizeof(*s) + (size_t)max * sizeof(s->step[0]));

	if (s == NULL)
		return NULL;
	s->qpn = qpn;
	s->max = max;
	return s;
}

const struct stamp *
steps_get(const struct steps *s, uint32_t *n, uint64_t *lost)
{
	*n = s->n;
	*lost = s->lost;
	return s->step;
}

uint32_t
steps_qpn(const struct steps *s)
{
	return s->qpn;
}

static struct qp *
qp_of(const struct worker *w, const struct steps *s)
{
	struct qp *qp = qp_table_find(w->engine.qps, s->qpn);

	return qp != NULL && qp_worker(qp) == w->index ? qp : NULL;
}

void
steps_found(struct worker *w)
{
	for (struct steps *s = w->steps; s != NULL; s = s->next) {
		const struct qp *qp = qp_of(w, s);

		if (qp == NULL || s->found ||
		    __atomic_load_n(&qp->bind.sq.hdr->prod, __ATOMIC_RELAXED) == qp->conn.snd.head)
			continue;
		s->found = true;
		steps_put(s, steps_stamp(), STAMP_FOUND, s->sent);
	}
}

/* Number of WQEs of the QP that were taken; of a QP that is gone, 0. */
static uint32_t
taken(const struct worker *w, const struct steps *s)
{
	const struct qp *qp = qp_of(w, s);

	return qp != NULL ? qp->conn.snd.head : 0;
}

void
steps_run(struct worker *w)
{
	struct stamp begin = steps_stamp();
	uint32_t before[STEPS_QPS], i = 0;

	for (struct steps *s = w->steps; s != NULL; s = s->next)
		before[i++] = taken(w, s);
	w->more = engine_run(&w->engine, w->now_ns);
	i = 0;
	for (struct steps *s = w->steps; s != NULL; s = s->next) {
		uint32_t n = taken(w, s) - before[i++];

		if (n == 0)
			continue;
		if (!s->found) /* posted after steps_found has looked */
			steps_put(s, begin, STAMP_FOUND, s->sent);
		s->sent += n;
		s->found = false;
		s->unsent = true;
		steps_put(s, begin, STAMP_TAKEN, s->sent - 1);
	}
}

/* Returns true if one of the frames is of the QP. */
static bool
has_frame(const struct steps *s, struct rte_mbuf *const *m, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		if ((m[i]->hash.fdir.hi & QP_TX_QPN_MASK) == s->qpn)
			return true;
	}
	return false;
}

uint16_t
steps_tx(struct worker *w, const struct port_queue *q, struct rte_mbuf **m, uint16_t n)
{
	bool has[STEPS_QPS];
	struct stamp begin;
	uint32_t i = 0;
	uint16_t sent;

	for (struct steps *s = w->steps; s != NULL; s = s->next)
		has[i++] = s->unsent && has_frame(s, m, n);
	begin = steps_stamp();
	sent = port_queue_tx(q, m, n);
	i = 0;
	for (struct steps *s = w->steps; s != NULL && sent != 0; s = s->next) {
		if (!has[i++])
			continue;
		s->unsent = false;
		steps_put(s, begin, STAMP_SEND, s->sent - 1);
		steps_put(s, steps_stamp(), STAMP_SENT, s->sent - 1);
	}
	return sent;
}

void
steps_rx(struct worker *w)
{
	w->steps_rx = steps_stamp();
}

void
steps_cq(void *ctx, const struct qp *qp, bool written)
{
	struct worker *w = ctx;

	for (struct steps *s = w->steps; s != NULL; s = s->next) {
		if (qp->conn.qpn != s->qpn)
			continue;
		if (written) {
			steps_put(s, steps_stamp(), STAMP_COMPLETED, s->received++);
			continue;
		}
		steps_put(s, w->steps_rx, STAMP_RECEIVED, s->received);
		steps_put(s, steps_stamp(), STAMP_PLACED, s->received);
	}
}

static void
watch(struct worker *w, const struct steps *s, bool watched)
{
	struct qp *qp = qp_of(w, s);

	if (qp != NULL && qp->bind.recv_cq != NULL)
		qp->bind.recv_cq->watched = watched;
}

static void
start_on_worker(struct worker *w, void *arg)
{
	struct steps *s = arg;

	s->next = w->steps;
	w->steps = s;
	w->watches++;
	watch(w, s, true);
}

void
worker_steps_start(struct worker_set *ws, const struct qp *qp, struct steps *s)
{
	worker_call_qp(ws, qp, start_on_worker, s);
}

static void
stop_on_worker(struct worker *w, void *arg)
{
	for (struct steps **at = &w->steps; *at != NULL; at = &(*at)->next) {
		if (*at != arg)
			continue;
		*at = (*at)->next;
		w->watches--;
		watch(w, arg, false);
		return;
	}
}

void
worker_steps_stop(struct worker_set *ws, struct steps *s)
{
	worker_call_all(ws, stop_on_worker, s);
}
