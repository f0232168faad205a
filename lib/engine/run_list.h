/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The run list of an engine: QPs that are ready for a turn, and QPs that are parked until a time.
 *
 * Users take turns, and then the QPs of each user, so that a user with many busy QPs delays another
 * user's QP by one share, not by one turn of each of its QPs (deficit round robin, Shreedhar and
 * Varghese 1995). A share is RUN_SHARE units of cost: bytes sent, and RUN_STEP for each frame and
 * each turn. A user is a uid; uids whose hashes are equal share one place. While the QPs of one
 * user only are ready, they take turns in the order in which they became ready.
 *
 * A QP is parked while its congestion policy holds it back, or while memory that it sends from is
 * late (QP_DEADLINE_PACE). The former happens for every packet of a paced QP, so parking needs no
 * timer: it puts the QP into a slot of a timing wheel, and the next engine_run after its time finds
 * it there.
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
#define RUN_SHARE      65536
#define RUN_STEP       1024 /* about what a frame costs beside the copy of its bytes */

TAILQ_HEAD(run_queue, qp);

struct run_user {
	struct run_queue ready; /* in turn order; not empty: listed or paused */
	TAILQ_ENTRY(run_user) link;
	int32_t left; /* of its share, or what it has taken beyond it */
	bool listed;
	bool paused; /* never listed */
};
TAILQ_HEAD(run_users, run_user);

struct run_list {
	/* Users with ready QPs, in turn order. One without any stays until another one is due. */
	struct run_users users;
	uint32_t parked; /* QPs in slots */
	/*
	 * All parked QPs are in slots of ticks tick .. tick + RUN_SLOTS - 1. A QP never waits in a
	 * slot behind its time, but possibly in one that is looked at before.
	 */
	uint64_t tick;
	uint64_t used[RUN_SLOTS / 64]; /* bit i: slot[i] is initialised and not empty */
	struct run_queue slot[RUN_SLOTS];
	struct run_user user[QP_USERS]; /* by bind.run_user */
};

/* Initialises an empty list. */
void run_list_init(struct run_list *l);

/* Puts a user that is not listed behind the others, unless it is paused. */
void run_list_add_user(struct run_list *l, struct run_user *u);
/*
 * While a user (a place, bind.run_user) is paused, its QPs become ready and wait, but get no turn.
 */
void run_list_pause_user(struct run_list *l, uint8_t user);
void run_list_resume_user(struct run_list *l, uint8_t user);
/* run_list_first while several users are listed. */
struct qp *run_list_first_of_users(struct run_list *l);

/* Are several users listed? */
static inline bool
run_list_is_shared(const struct run_list *l)
{
	const struct run_user *u = TAILQ_FIRST(&l->users);

	return u != NULL && TAILQ_NEXT(u, link) != NULL;
}

/* Removes a parked qp from its slot. */
void run_list_unpark(struct run_list *l, struct qp *qp);

/* Makes qp ready for a turn, behind its user's others. Unparks it. Does nothing if it is ready. */
static inline void
run_list_ready(struct run_list *l, struct qp *qp)
{
	struct run_user *u = &l->user[qp->bind.run_user];

	if (qp->bind.on_run_list)
		return;
	if (unlikely(qp->bind.parked))
		run_list_unpark(l, qp);
	if (unlikely(!u->listed))
		run_list_add_user(l, u);
	qp->bind.on_run_list = true;
	TAILQ_INSERT_TAIL(&u->ready, qp, bind.run);
}

/* Returns the QP whose turn it is; NULL: none is ready. */
static inline struct qp *
run_list_first(struct run_list *l)
{
	const struct run_user *u = TAILQ_FIRST(&l->users);

	if (unlikely(u == NULL))
		return NULL;
	if (unlikely(TAILQ_NEXT(u, link) != NULL))
		return run_list_first_of_users(l);
	return TAILQ_FIRST(&u->ready);
}

/*
 * Returns the QP whose turn is likely to come after that of qp, which is the first. NULL: none
 * seems to be ready.
 */
static inline const struct qp *
run_list_after(const struct run_list *l, const struct qp *qp)
{
	const struct qp *next = TAILQ_NEXT(qp, bind.run);

	if (next == NULL && unlikely(run_list_is_shared(l)))
		next = TAILQ_FIRST(&TAILQ_NEXT(TAILQ_FIRST(&l->users), link)->ready);
	return next;
}

/* Charges the user of qp for a turn in which it sent so many frames and bytes. */
static inline void
run_list_charge(struct run_list *l, const struct qp *qp, uint32_t frames, uint32_t bytes)
{
	if (unlikely(run_list_is_shared(l)))
		l->user[qp->bind.run_user].left -= (int32_t)(bytes + RUN_STEP * (1 + frames));
}

/* Removes a ready qp from the ready queue. */
static inline void
run_list_take(struct run_list *l, struct qp *qp)
{
	TAILQ_REMOVE(&l->user[qp->bind.run_user].ready, qp, bind.run);
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
