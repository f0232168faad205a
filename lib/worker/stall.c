/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A worker that did not run, because others used its core or the daemon was stopped, has neither
 * sent its frames nor received any. A retry that is exhausted meanwhile says nothing about the
 * network or the peer (REQ-04). Workers record when they ran; this costs nothing per packet.
 */
#include "worker/worker_parts.h"

#define STALLS_MOST 3 /* stalls tolerated for a port that accepts no frames */

/* Returns true if w resumed after mid_ns, or has not run since. */
static bool
stalled(const struct worker *w, uint64_t mid_ns, uint64_t now_ns)
{
	uint64_t ran_ns = __atomic_load_n(&w->ran_ns, __ATOMIC_RELAXED);

	return __atomic_load_n(&w->resumed_ns, __ATOMIC_RELAXED) > mid_ns ||
	       (ran_ns < mid_ns && now_ns - ran_ns >= WORKER_STALL_NS);
}

/* Returns true if frames for the port made at since_ns may still wait for it. */
static bool
unsent(const struct worker *w, const struct worker_dev *d, uint64_t since_ns)
{
	const struct worker *owner = w->ws->worker[d->tx_worker];

	if (d->own_queue)
		return d->refused_since_ns != 0 &&
		       w->now_ns - d->refused_since_ns < WORKER_PORT_DEAD_NS;
	return __atomic_load_n(&owner->out_clear_ns, __ATOMIC_RELAXED) <= since_ns;
}

bool
stall_held_up(void *ctx, const struct qp *qp, uint64_t since_ns)
{
	const struct worker *w = ctx;
	const struct worker_dev *d = &w->dev[qp->bind.port];
	/* Half of the time is enough to receive a response. */
	uint64_t mid_ns = since_ns + (w->now_ns - since_ns) / 2;
	unsigned i;

	if (stalled(w, mid_ns, w->now_ns))
		return true;
	if (qp->conn.loopback) {
		i = qp_table_owner(w->engine.qps, qp->conn.dest_qpn) & ~QP_TABLE_COMES;
		return stalled(w->ws->worker[i], mid_ns, w->now_ns);
	}
	if (unsent(w, d, since_ns))
		return true;
	for (i = 0; i < d->rx_workers; i++)
		if (stalled(w->ws->worker[i], mid_ns, w->now_ns))
			return true;
	return false;
}

void
stall_over(struct worker *w, uint64_t gap_ns)
{
	__atomic_store_n(&w->resumed_ns, w->now_ns, __ATOMIC_RELAXED);
	/* Nobody polled these ports meanwhile, but a dead one must not block others forever. */
	for (unsigned i = 0; i < ENGINE_MAX_DEVS; i++) {
		struct worker_dev *d = &w->dev[i];

		if (d->refused_since_ns == 0 || d->refused_stalls == STALLS_MOST)
			continue;
		d->refused_since_ns += gap_ns;
		d->refused_stalls++;
	}
}
