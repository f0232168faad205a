/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ends a context without the control thread waiting for a worker. Each step begins when no worker
 * uses the objects that the previous step removed:
 *
 *   1  packets no longer find its QPs; each worker drops them and its doorbell ring, in parts.
 *      WRs posted to UC and UD QPs are sent, so its regions still exist.
 *   2  its windows and regions are hidden
 *   3  windows that are bound to its regions, other contexts' too, are hidden
 *   4  those are unbound; everything is freed. Without such windows this follows step 2.
 */
#include "control/obj.h"
#include "control/session.h"

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

static void
doorbells_free(struct session *s)
{
	while (s->ndoorbells > 0) {
		s->ndoorbells--;
		worker_close_doorbell(worker_get(s->d->workers, s->ndoorbells),
				      session_doorbell(s, s->ndoorbells));
	}
	ipc_segment_destroy(&s->doorbells);
}

static void
context_free(struct session *s)
{
	/* Users first: queues, then the CQs and SRQs that they use, then memory. */
	static const struct object_kind *const kinds[] = {
		&qp_kind, &srq_kind, &ah_kind,      &cq_kind,
		&mw_kind, &mr_kind,  &channel_kind, &pd_kind,
	};

	for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		object_free_all(kinds[i], s);
	mr_kept_free(s);
	ah_table_close(s);
	doorbells_free(s);
	events_async_close(&s->async);
	ipc_arena_destroy(s->arena);
	quota_give(s->user, QUOTA_QUEUE_MEM, s->arena_bytes);
	quota_give(s->user, QUOTA_FDS, s->arena_segs + CONTEXT_FDS + s->d->nworkers);
	quota_give(s->user, QUOTA_MAPS, s->arena_segs + CONTEXT_MAPS);
	quota_give(s->user, QUOTA_CONTEXTS, 1);
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
on_windows_hidden(struct defer *df)
{
	struct session *s = WATCH_OF(df, struct session, end.defer);

	mw_release_end(s->d, s->end.release);
	context_free(s);
}

static void
on_regions_hidden(struct defer *df)
{
	struct session *s = WATCH_OF(df, struct session, end.defer);

	s->end.release = mw_release_begin(s->d);
	if (s->end.release != 0)
		wait_for_workers(s, 0, on_windows_hidden);
	else
		context_free(s);
}

static void
on_queues_left(struct defer *df)
{
	struct session *s = WATCH_OF(df, struct session, end.defer);

	object_hide_all(&mw_kind, s);
	object_hide_all(&mr_kind, s);
	wait_for_workers(s, 0, on_regions_hidden);
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

void
session_end(struct session *s, void (*ended)(struct session *s))
{
	uint32_t n = s->d->nworkers;

	s->end.ended = ended;
	object_hide_all(&qp_kind, s);
	for (uint32_t i = 0; i < n; i++) {
		s->end.job[i].run = leave_on_worker;
		s->end.job[i].arg = s;
		worker_post(worker_get(s->d->workers, i), &s->end.job[i]);
	}
	wait_for_workers(s, n, on_queues_left);
}
