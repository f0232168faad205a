/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/defer.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
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
	df->turn = false;
	TAILQ_INSERT_TAIL(&d->deferred, df, link);
	return false;
}

void
defer_turn(struct daemon *d, struct defer *df)
{
	df->waiting = df->turn = true;
	TAILQ_INSERT_TAIL(&d->turns, df, link);
	loop_set(&d->loop, &d->turn, EPOLLIN);
}

void
defer_cancel(struct daemon *d, struct defer *df)
{
	if (!df->waiting)
		return;
	df->waiting = false;
	if (!df->turn) {
		TAILQ_REMOVE(&d->deferred, df, link);
		return;
	}
	TAILQ_REMOVE(&d->turns, df, link);
	if (TAILQ_EMPTY(&d->turns))
		loop_set(&d->loop, &d->turn, 0);
}

/*
 * The descriptor is always readable, and watched while elements wait. epoll reports ready
 * descriptors in turn, so each round of the loop has one slice.
 */
static void
on_turn(struct watch *w, uint32_t events)
{
	struct daemon *d = WATCH_OF(w, struct daemon, turn);
	struct defer *df = TAILQ_FIRST(&d->turns);

	if (df == NULL)
		return;
	defer_cancel(d, df);
	df->then(df);
}

int
defer_open(struct daemon *d)
{
	int rc;

	d->turn.fd = eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC);
	if (d->turn.fd < 0)
		return -errno;
	rc = loop_add(&d->loop, &d->turn, 0);
	if (rc < 0)
		close(d->turn.fd);
	else
		d->turn.ready = on_turn;
	return rc;
}

void
defer_close(struct daemon *d)
{
	if (d->turn.ready == NULL)
		return;
	loop_del(&d->loop, &d->turn);
	close(d->turn.fd);
	d->turn.ready = NULL;
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
	while (!TAILQ_EMPTY(&d->deferred) || !TAILQ_EMPTY(&d->turns)) {
		defer_poll(d);
		if (TAILQ_EMPTY(&d->turns))
			sched_yield();
		else
			on_turn(&d->turn, EPOLLIN);
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
