/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/defer.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <rte_pause.h>
#include "control/daemon.h"

#define SPINS 200 /* a worker on a separate core has reported by then, unless it is in a burst */

static bool
is_over(struct daemon *d, const struct defer *df)
{
	for (uint32_t i = 0; i < df->njobs; i++) {
		if (!worker_job_done(&df->job[i]))
			return false;
	}
	return worker_grace_over(d->workers, df->token);
}

bool
defer_begin(struct daemon *d, struct defer *df)
{
	df->token = worker_grace_start(d->workers);
	for (unsigned i = 0; i < SPINS; i++) {
		if (is_over(d, df))
			return true;
		rte_pause();
	}
	df->waiting = true;
	TAILQ_INSERT_TAIL(&d->deferred, df, link);
	return false;
}

void
defer_cancel(struct daemon *d, struct defer *df)
{
	if (!df->waiting)
		return;
	df->waiting = false;
	TAILQ_REMOVE(&d->deferred, df, link);
}

/* Returns the first element that need not wait any more; NULL: none. */
static struct defer *
first_over(struct daemon *d)
{
	struct defer *df;

	TAILQ_FOREACH (df, &d->deferred, link) {
		if (is_over(d, df))
			return df;
	}
	return NULL;
}

void
defer_poll(struct daemon *d)
{
	struct defer *df;

	/* then may remove any other element: search from the start each time */
	while ((df = first_over(d)) != NULL) {
		defer_cancel(d, df);
		df->then(df);
	}
}

void
defer_drain(struct daemon *d)
{
	while (!TAILQ_EMPTY(&d->deferred)) {
		defer_poll(d);
		sched_yield();
	}
}

struct blocks {
	struct defer df;
	uint32_t n;
	void *p[];
};

static void
blocks_free(struct defer *df)
{
	struct blocks *b = WATCH_OF(df, struct blocks, df);

	for (uint32_t i = 0; i < b->n; i++)
		free(b->p[i]);
	free(b);
}

void
defer_free(struct daemon *d, void *const *p, uint32_t n)
{
	struct blocks *b = malloc(sizeof(*b) + n * sizeof(*p));

	if (b == NULL) {
		worker_wait_readers(d->workers);
		for (uint32_t i = 0; i < n; i++)
			free(p[i]);
		return;
	}
	b->df = (struct defer){.then = blocks_free};
	b->n = n;
	memcpy(b->p, p, n * sizeof(*p));
	if (defer_begin(d, &b->df))
		blocks_free(&b->df);
}
