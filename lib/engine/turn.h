/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Turns of QPs, and ACKs ahead of turns. Private to the engine.
 *
 * Turns are round robin. With thousands of QPs that have work, a responder's turn comes long after
 * the request: its cache lines are evicted by then, and each requester has a chunk of WQEs in
 * flight that waits for its ACK. QPs with a pending ACK or NAK therefore send it before any turn.
 * These take at most half of the send space, and no READs, so that every QP still gets its turn.
 */
#ifndef ENGINE_TURN_H
#define ENGINE_TURN_H

#include <rte_mempool.h>
#include "engine/engine.h"
#include "qp/deadline.h"

/* Notes a request to qp. qp may be listed already; if the list is full, it waits for its turn. */
static inline void
turn_ack_pending(struct engine *e, struct qp *qp)
{
	if (e->ack_pending_n < ENGINE_ACKS_PENDING &&
	    (e->ack_pending_n == 0 || e->ack_pending[e->ack_pending_n - 1] != qp))
		e->ack_pending[e->ack_pending_n++] = qp;
}

/* Makes qp the QP that sends from now on. */
static inline void
turn_begin(struct engine *e, struct qp *qp)
{
	qp_env_serve(&e->env, qp->bind.run_user);
	e->env.counters = qp->bind.counters;
	e->env.pool = e->dev[qp->bind.port].pool;
	e->env.pool_cache = e->dev[qp->bind.port].pool_cache;
	e->env.zero_copy_bytes =
		qp->conn.loopback ? e->loop_zero_copy_bytes : e->dev[qp->bind.port].zero_copy_bytes;
	if (unlikely(e->copies))
		e->env.zero_copy_bytes = UINT32_MAX;
}

/* Counts the frames that qp has built since env->tx_bytes was before. */
static inline void
turn_count(const struct engine *e, struct qp *qp, uint32_t before)
{
	qp->conn.tx_bytes += e->env.tx_bytes - before;
}

/* Sets a timer for the earliest deadline of qp, unless it has one that expires in time. */
void turn_set_timer(struct engine *e, struct qp *qp);

/*
 * Sets a timer if the deadlines of qp have changed and require one. Out of line unless
 * QP_DEADLINE_PROBE is the only deadline and the timer is set already.
 */
static inline void
turn_check_timer(struct engine *e, struct qp *qp)
{
	uint64_t at_ns = qp->conn.snd.probe_ns;

	if (unlikely(qp->conn.snd.deadlines != 0) ||
	    (at_ns != 0 && (qp->bind.timer_at_ns == 0 || at_ns < qp->bind.timer_at_ns)))
		turn_set_timer(e, qp);
}

/* notify.c: qp got a packet with CE, which it accepts. Lets the next run send a CNP if one is due.
 */
void notify_mark(struct engine *e, struct qp *qp);
/* Sends the CNPs that are due; those without space are not sent. */
void notify_run(struct engine *e);
/* Forgets qp. */
void notify_forget(struct engine *e, const struct qp *qp);

/* Sends the ACKs and NAKs of QPs that got requests since the last call. */
void turn_answers(struct engine *e);

#endif
