/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who has a turn, and answers ahead of turns. Private to the engine.
 *
 * Turns go round, and with thousands of QPs that have work a responder's is far behind the request
 * that it answers: all of its lines have left the caches by then, and each requester has a chunk of
 * WQEs under way that waits for its ACK. So QPs that were asked something say their ACKs and NAKs
 * before anybody has a turn; those take at most half of the room to send, and no READs, so that
 * nobody's turn fails to come.
 */
#ifndef ENGINE_TURN_H
#define ENGINE_TURN_H

#include <rte_mempool.h>
#include "engine/engine.h"
#include "qp/deadline.h"

/* qp has been given a request. It may be among those already; one too many is left to its turn. */
static inline void
turn_asked(struct engine *e, struct qp *qp)
{
	if (e->asked_n < ENGINE_ASKED && (e->asked_n == 0 || e->asked[e->asked_n - 1] != qp))
		e->asked[e->asked_n++] = qp;
}

/* What is sent from now on is qp's. */
static inline void
turn_begin(struct engine *e, struct qp *qp)
{
	e->env.counters = qp->bind.counters;
	e->env.pool = e->dev[qp->bind.port].pool;
	e->env.pool_cache = e->dev[qp->bind.port].pool_cache;
	e->env.zero_copy_bytes =
		qp->conn.loopback ? e->loop_zero_copy_bytes : e->dev[qp->bind.port].zero_copy_bytes;
}

/* Ask for a timer for the earliest deadline of qp, unless qp has one that goes off in time. */
void turn_set_timer(struct engine *e, struct qp *qp);

/*
 * The deadlines of qp may have changed: does it need another timer? Out of line unless
 * QP_DEADLINE_PROBE is the only one and the timer is set already.
 */
static inline void
turn_check_timer(struct engine *e, struct qp *qp)
{
	uint64_t at_ns = qp->conn.snd.probe_ns;

	if (unlikely(qp->conn.snd.deadlines != 0) ||
	    (at_ns != 0 && (qp->bind.timer_at_ns == 0 || at_ns < qp->bind.timer_at_ns)))
		turn_set_timer(e, qp);
}

/* ACKs and NAKs of those who were asked since the last time. */
void turn_answers(struct engine *e);

#endif
