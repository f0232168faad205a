/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The run list of an engine: QPs that are ready for a turn, and QPs that are parked until a time.
 * A QP is parked while its congestion policy holds it back (QP_DEADLINE_PACE). This happens for
 * every packet of a paced QP, so parking needs no timer: it puts the QP into a slot of a timing
 * wheel, and the next engine_run after its time finds it there.
 *
 * A slot is 2^RUN_SLOT_SHIFT ns long, but a QP never becomes ready before its time. The wheel spans
 * RUN_SLOTS slots, about 1 ms. A QP that is parked for longer waits in the last slot and is parked
 * again from there. The order of QPs whose times fall into one slot is the order in which they were
 * parked, if they are RUN_WAKES at most.
 *
 * A QP is on the ready queue (bind.on_run_list), in a slot (bind.parked), or neither; never both.
 * Private to the engine. Owner worker only.
 */
#ifndef ENGINE_RUN_LIST_H
#define ENGINE_RUN_LIST_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <rte_branch_prediction.h>
#include "qp/qp.h"

#define RUN_SLOT_SHIFT 10   /* a slot is 1.024 us */
#define RUN_SLOTS      1024 /* a power of two, 64 at least */
#define RUN_WAKES      256u /* QPs taken from slots by one run_list_wake_due */

TAILQ_HEAD(run_queue, qp);

struct run_list {
	struct run_queue ready; /* in turn order */
	uint32_t parked;        /* QPs in slots */
	/*
	 * All parked QPs are in slots of ticks tick .. tick + RUN_SLOTS - 1. A QP never waits in a
	 * slot behind its time, but possibly in one that is looked at before.
	 */
	uint64_t tick;
	uint64_t used[RUN_SLOTS / 64]; /* bit i: slot[i] is initialised and not empty */
	struct run_queue slot[RUN_SLOTS];
};

/* Initialises an empty list. */
void run_list_init(struct run_list *l);

/* Removes a parked qp from its slot. */
void run_list_unpark(struct run_list *l, struct qp *qp);

/* Makes qp ready for a turn, behind all others. Unparks it. Does nothing if it is ready. */
static inline void
run_list_ready(struct run_list *l, struct qp *qp)
{
	if (qp->bind.on_run_list)
		return;
	if (unlikely(qp->bind.parked))
		run_list_unpark(l, qp);
	qp->bind.on_run_list = true;
	TAILQ_INSERT_TAIL(&l->ready, qp, bind.run);
}

/* Removes a ready qp from the ready queue. */
static inline void
run_list_take(struct run_list *l, struct qp *qp)
{
	TAILQ_REMOVE(&l->ready, qp, bind.run);
	qp->bind.on_run_list = false;
}

/* Parks qp, which is neither ready nor parked, until its QP_DEADLINE_PACE. */
void run_list_park(struct run_list *l, struct qp *qp, uint64_t now_ns);

/*
 * Makes parked QPs ready whose QP_DEADLINE_PACE is not later than now_ns, or not set any more. A
 * client may have any number of QPs with the same time, so one call takes RUN_WAKES at most; the
 * next call goes on.
 */
void run_list_wake_due(struct run_list *l, uint64_t now_ns);

/* Returns the time in ns at which to call run_list_wake_due next; UINT64_MAX: no QP is parked. */
uint64_t run_list_next_ns(const struct run_list *l);

/* Removes qp from the list, ready or parked. */
void run_list_forget(struct run_list *l, struct qp *qp);

#endif
