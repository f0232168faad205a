/* SPDX-License-Identifier: BSD-3-Clause */
#include <rte_common.h>
#include "engine/run_list.h"
#include "qp/deadline.h"

#define SLOT_MASK (RUN_SLOTS - 1u)

static bool
slot_is_used(const struct run_list *l, uint32_t slot)
{
	return (l->used[slot / 64] >> (slot % 64) & 1) != 0;
}

void
run_list_init(struct run_list *l)
{
	TAILQ_INIT(&l->users);
	for (uint32_t i = 0; i < QP_USERS; i++) {
		TAILQ_INIT(&l->user[i].ready);
		l->user[i].listed = l->user[i].paused = false;
	}
	l->parked = 0;
	l->tick = 0;
	for (uint32_t i = 0; i < RUN_SLOTS / 64; i++)
		l->used[i] = 0;
}

void
run_list_add_user(struct run_list *l, struct run_user *u)
{
	if (u->paused)
		return;
	u->left = RUN_SHARE;
	u->listed = true;
	TAILQ_INSERT_TAIL(&l->users, u, link);
}

void
run_list_pause_user(struct run_list *l, uint8_t user)
{
	struct run_user *u = &l->user[user];

	if (u->listed)
		TAILQ_REMOVE(&l->users, u, link);
	u->listed = false;
	u->paused = true;
}

void
run_list_resume_user(struct run_list *l, uint8_t user)
{
	struct run_user *u = &l->user[user];

	u->paused = false;
	if (!u->listed && !TAILQ_EMPTY(&u->ready))
		run_list_add_user(l, u);
}

struct qp *
run_list_first_of_users(struct run_list *l)
{
	struct run_user *u;

	/* Ends: each pass removes a user or gives it a share, and a turn takes a few at most. */
	for (u = TAILQ_FIRST(&l->users); TAILQ_NEXT(u, link) != NULL; u = TAILQ_FIRST(&l->users)) {
		if (u->left > 0 && !TAILQ_EMPTY(&u->ready))
			break;
		TAILQ_REMOVE(&l->users, u, link);
		if (TAILQ_EMPTY(&u->ready)) {
			u->listed = false;
		} else {
			u->left += RUN_SHARE;
			TAILQ_INSERT_TAIL(&l->users, u, link);
		}
	}
	return TAILQ_FIRST(&u->ready);
}

/* Puts qp into the slot of its time, or into the last one. */
static void
slot_put(struct run_list *l, struct qp *qp)
{
	uint64_t tick = qp_deadline_get(&qp->conn, QP_DEADLINE_PACE) >> RUN_SLOT_SHIFT;
	uint32_t slot;

	tick = RTE_MIN(RTE_MAX(tick, l->tick), l->tick + RUN_SLOTS - 1);
	slot = tick & SLOT_MASK;
	if (!slot_is_used(l, slot))
		TAILQ_INIT(&l->slot[slot]);
	l->used[slot / 64] |= 1ull << (slot % 64);
	qp->bind.run_slot = (uint16_t)slot;
	TAILQ_INSERT_TAIL(&l->slot[slot], qp, bind.run);
}

void
run_list_park(struct run_list *l, struct qp *qp, uint64_t now_ns)
{
	if (l->parked == 0)
		l->tick = now_ns >> RUN_SLOT_SHIFT;
	l->parked++;
	qp->bind.parked = true;
	slot_put(l, qp);
}

void
run_list_unpark(struct run_list *l, struct qp *qp)
{
	uint32_t slot = qp->bind.run_slot;

	TAILQ_REMOVE(&l->slot[slot], qp, bind.run);
	if (TAILQ_EMPTY(&l->slot[slot]))
		l->used[slot / 64] &= ~(1ull << (slot % 64));
	qp->bind.parked = false;
	l->parked--;
}

/*
 * Takes up to *left QPs from a used slot, and counts *left down: they become ready, or move to the
 * slot of their time. Returns true if none is left in it, except those that have just moved there.
 */
static bool
slot_empty(struct run_list *l, uint32_t slot, uint64_t now_ns, uint32_t *left)
{
	struct run_queue all = TAILQ_HEAD_INITIALIZER(all);
	struct qp *qp;

	TAILQ_CONCAT(&all, &l->slot[slot], bind.run);
	l->used[slot / 64] &= ~(1ull << (slot % 64));
	while (*left != 0 && (qp = TAILQ_FIRST(&all)) != NULL) {
		--*left;
		TAILQ_REMOVE(&all, qp, bind.run);
		if (qp_deadline_get(&qp->conn, QP_DEADLINE_PACE) > now_ns) {
			slot_put(l, qp);
			continue;
		}
		qp->bind.parked = false;
		l->parked--;
		run_list_ready(l, qp);
	}
	if (TAILQ_EMPTY(&all))
		return true;
	if (slot_is_used(l, slot))
		TAILQ_CONCAT(&all, &l->slot[slot], bind.run);
	TAILQ_INIT(&l->slot[slot]);
	TAILQ_CONCAT(&l->slot[slot], &all, bind.run);
	l->used[slot / 64] |= 1ull << (slot % 64);
	return false;
}

void
run_list_wake_due(struct run_list *l, uint64_t now_ns)
{
	uint64_t tick = l->tick, to = now_ns >> RUN_SLOT_SHIFT;
	uint32_t left = RUN_WAKES;

	to = RTE_MAX(to, tick);
	l->tick = to;
	/* Older slots than the wheel has belong to the previous round. */
	for (to = RTE_MIN(to, tick + RUN_SLOTS - 1); tick <= to; tick++) {
		uint32_t slot = tick & SLOT_MASK;

		if (slot % 64 == 0 && l->used[slot / 64] == 0) {
			tick += 63; /* none of these 64 is used */
		} else if (slot_is_used(l, slot) && !slot_empty(l, slot, now_ns, &left)) {
			/* The next call continues here. It may find QPs parked for later. */
			l->tick = tick;
			return;
		}
	}
}

uint64_t
run_list_next_ns(const struct run_list *l)
{
	uint64_t tick = l->tick, at_ns;
	const struct qp *qp;
	uint32_t left = RUN_WAKES;

	if (l->parked == 0)
		return UINT64_MAX;
	while (!slot_is_used(l, tick & SLOT_MASK))
		tick++;
	/* QPs parked for longer than the wheel spans must be moved by then. */
	at_ns = (tick + 1) << RUN_SLOT_SHIFT;
	TAILQ_FOREACH (qp, &l->slot[tick & SLOT_MASK], bind.run) {
		uint64_t pace_ns = qp_deadline_get(&qp->conn, QP_DEADLINE_PACE);

		if (left-- == 0) /* not all of them: the start of the slot */
			return RTE_MIN(at_ns, tick << RUN_SLOT_SHIFT);
		/* A QP that was reset has none, and leaves with its slot. */
		if (pace_ns != 0)
			at_ns = RTE_MIN(at_ns, pace_ns);
	}
	return at_ns;
}

void
run_list_forget(struct run_list *l, struct qp *qp)
{
	if (qp->bind.on_run_list)
		run_list_take(l, qp);
	else if (qp->bind.parked)
		run_list_unpark(l, qp);
}
