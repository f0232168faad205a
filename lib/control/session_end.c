/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ends a context without the control thread waiting for a worker, and without other clients waiting
 * for the control thread: a step that visits objects does so in slices, one per turn of the loop.
 * Each step begins when no worker uses the objects that the previous step removed:
 *
 *   1  packets no longer find its QPs, and none of them moves to another worker any more (move.c)
 *   2  each worker drops its QPs and its doorbell ring, in parts. WRs posted to UC and UD QPs are
 *      sent, so its regions still exist.
 *   3  its windows and regions are hidden
 *   4  windows that are bound to its regions, other contexts' too, are hidden
 *   5  those are unbound; everything is freed. Without such windows this follows step 3.
 */
#include "control/obj.h"
#include "control/ring.h"
#include "control/session.h"

#define SLICE_STEPS 1024 /* 16 objects (OBJECT_STEPS): a region takes some 20 us to unmap */

/* Runs the next slice and charges it to the session's user. */
static void
on_turn(struct defer *df)
{
	struct session *s = WATCH_OF(df, struct session, end.defer);
	struct quota_user *user = s->user;
	struct daemon *d = s->d;

	user->refs++; /* so that it outlives the session */
	throttle_begin(d, user);
	s->end.slice(df);
	throttle_slice(d, user);
	quota_user_put(user);
}

static void
take_turn(struct session *s, void (*slice)(struct defer *df))
{
	s->end.slice = slice;
	s->end.defer.then = on_turn;
	defer_turn(s->d, &s->end.defer);
}

static void
wait_for_workers(struct session *s, uint32_t njobs, void (*then)(struct defer *df))
{
	struct defer *df = &s->end.defer;

	df->then = then;
	df->job = s->end.job;
	df->njobs = njobs;
	if (defer_begin(s->d, df))
		then(df);
}

typedef bool object_visit(const struct object_kind *k, struct session *s, uint32_t *pos,
			  int *steps);

/*
 * Visits the next objects of n kinds, in this order, as many as a slice may have. Returns true at
 * the end.
 */
static bool
slice(struct session *s, const struct object_kind *const *kinds, unsigned n, object_visit *visit)
{
	struct session_end *e = &s->end;
	int steps = SLICE_STEPS;

	for (; e->kind < n; e->kind++, e->pos = 0) {
		if (!visit(kinds[e->kind], s, &e->pos, &steps))
			return false;
	}
	e->kind = 0;
	return true;
}

void
session_users_changed(struct daemon *d)
{
	/* At the end of the daemon the control thread waits for workers, also for a lone user. */
	worker_blame_several(d->workers, d->loop.stop || d->quota.holders[QUOTA_CONTEXTS] > 1);
}

/* Frees what remains when all objects are freed. */
static void
context_free(struct session *s)
{
	uint32_t segs = ipc_arena_segments(s->arena);

	mr_kept_free(s);
	ah_table_close(s);
	session_doorbells_free(s);
	events_async_close(&s->async);
	quota_give(s->user, QUOTA_QUEUE_MEM, ipc_arena_bytes(s->arena));
	quota_give(s->user, QUOTA_FDS, segs + CONTEXT_FDS + s->d->nworkers);
	quota_give(s->user, QUOTA_MAPS, segs + CONTEXT_MAPS);
	ipc_arena_destroy(s->arena);
	quota_give(s->user, QUOTA_CONTEXTS, 1);
	session_users_changed(s->d);
	idtab_free(&s->pds);
	idtab_free(&s->mrs);
	idtab_free(&s->mws);
	idtab_free(&s->srqs);
	idtab_free(&s->channels);
	idtab_free(&s->cqs);
	idtab_free(&s->qps);
	s->end.ended(s);
}

static void
free_objects(struct defer *df)
{
	/* Users first: queues, then the CQs and SRQs that they use, then memory. */
	static const struct object_kind *const kinds[] = {
		&qp_kind, &srq_kind, &ah_kind,      &cq_kind,
		&mw_kind, &mr_kind,  &channel_kind, &pd_kind,
	};
	struct session *s = WATCH_OF(df, struct session, end.defer);

	if (slice(s, kinds, sizeof(kinds) / sizeof(kinds[0]), object_free_some))
		context_free(s);
	else
		take_turn(s, free_objects);
}

static void
unbind_windows(struct defer *df)
{
	struct session *s = WATCH_OF(df, struct session, end.defer);
	int steps = SLICE_STEPS;

	if (mw_unbind_some(s, &s->end.windows, &steps))
		free_objects(df);
	else
		take_turn(s, unbind_windows);
}

static void
hide_windows(struct defer *df)
{
	struct session *s = WATCH_OF(df, struct session, end.defer);
	int steps = SLICE_STEPS;

	if (!mw_hide_some(s, &s->end.windows, &steps))
		take_turn(s, hide_windows);
	else if (mw_walk_again(s->d, &s->end.windows))
		wait_for_workers(s, 0, unbind_windows);
	else
		free_objects(df);
}

static void
on_regions_hidden(struct defer *df)
{
	struct session *s = WATCH_OF(df, struct session, end.defer);

	mw_walk_begin(s->d, &s->end.windows);
	hide_windows(df);
}

static void
hide_memory(struct defer *df)
{
	static const struct object_kind *const kinds[] = {&mw_kind, &mr_kind};
	struct session *s = WATCH_OF(df, struct session, end.defer);

	if (slice(s, kinds, sizeof(kinds) / sizeof(kinds[0]), object_hide_some))
		wait_for_workers(s, 0, on_regions_hidden);
	else
		take_turn(s, hide_memory);
}

static bool
leave_on_worker(struct worker *w, void *arg)
{
	struct session *s = arg;

	if (!qp_forget_some(w, s))
		return false;
	worker_leave_doorbell(w, session_doorbell(s, worker_index(w)));
	return true;
}

static void
leave_workers(struct defer *df)
{
	struct session *s = WATCH_OF(df, struct session, end.defer);
	uint32_t n = s->d->nworkers;

	for (uint32_t i = 0; i < n; i++) {
		s->end.job[i].run = leave_on_worker;
		s->end.job[i].arg = s;
		worker_post(worker_get(s->d->workers, i), &s->end.job[i]);
	}
	wait_for_workers(s, n, hide_memory);
}

static void
hide_queues(struct defer *df)
{
	static const struct object_kind *const kinds[] = {&qp_kind};
	struct session *s = WATCH_OF(df, struct session, end.defer);

	if (slice(s, kinds, sizeof(kinds) / sizeof(kinds[0]), object_hide_some))
		wait_for_workers(s, 0, leave_workers);
	else
		take_turn(s, hide_queues);
}

void
session_end(struct session *s, void (*ended)(struct session *s))
{
	s->end.ended = ended;
	hide_queues(&s->end.defer);
}
