/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A doorbell costs client and worker several cache misses in sequence. The worker therefore polls
 * the send queues of the few QPs that rang last, as long as they soon have work again: their
 * clients find the queue not armed, and do not ring.
 *
 * A QP becomes hot with a doorbell, if there is space, and stays hot until it has had no work for
 * HOT_NS; then it gets a turn, which arms it. On an oversubscribed core (sched/waiting.h) no QP
 * becomes hot: polling would keep the worker from the sleep that the client can end.
 */
#include <rte_branch_prediction.h>
#include <rte_prefetch.h>
#include "worker/worker_parts.h"

#define HOT_NS 20000ull

void
hot_queue_rang(struct worker *w, struct qp *qp)
{
	if (w->nhot == WORKER_HOT_QPS || qp == NULL || qp->bind.polled ||
	    crowd_is(&w->crowd, w->now_ns) || waiter_is_beside(w))
		return;
	for (unsigned i = 0; i < w->nhot; i++) {
		if (w->hot[i].qp == qp) /* a reset has cleared polled */
			return;
	}
	qp->bind.polled = true;
	w->hot[w->nhot].qp = qp;
	w->hot[w->nhot++].used_ns = w->now_ns;
}

/* Returns true if its turn would take a WQE from the SQ. Only a hint; the engine checks again. */
static bool
has_work(const struct qp_env *env, const struct qp *qp)
{
	const struct qp_snd *snd = &qp->conn.snd;
	const uint8_t *next =
		qp->bind.sq.slots + (size_t)(snd->head & qp->bind.sq.mask) * qp->bind.sq.stride;

	/* the WQE arrives together with the index that publishes it */
	rte_prefetch0(next);
	return __atomic_load_n(&qp->bind.sq.hdr->prod, __ATOMIC_RELAXED) != snd->head &&
	       snd->cur == snd->head && qp_sq_room(env, qp);
}

unsigned
hot_queue_poll(struct worker *w)
{
	unsigned n = 0;

	for (unsigned i = 0; i < w->nhot;) {
		struct qp *qp = w->hot[i].qp;

		if (blame_serve(w, qp->bind.run_user) && !qp->bind.on_run_list &&
		    qp->conn.state == QP_RTS && has_work(&w->engine.env, qp)) {
			engine_wake(&w->engine, qp);
			w->hot[i++].used_ns = w->now_ns;
			n++;
		} else if (likely(w->now_ns - w->hot[i].used_ns < HOT_NS)) {
			i++;
		} else {
			qp->bind.polled = false;
			engine_wake(&w->engine, qp);
			w->hot[i] = w->hot[--w->nhot];
		}
	}
	return n;
}

void
hot_queue_forget(struct worker *w, const struct qp *qp)
{
	for (unsigned i = 0; i < w->nhot; i++) {
		if (w->hot[i].qp == qp)
			w->hot[i--] = w->hot[--w->nhot];
	}
}
