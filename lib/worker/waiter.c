/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Clients on the worker's CPU that a yield does not reach. sched_yield hands the core only to
 * threads of the same scheduling group, and a daemon that was started by systemd or in another
 * session is in another one (cgroups, autogroups). Two such threads that spin take turns of
 * milliseconds. Sleeping hands the core over at once, whatever the groups:
 *
 * A client whose yields were in vain sleeps on a word that the worker reads after each completion
 * (uroce_abi/ring.h, waiter). While it sleeps the worker polls, as on a separate core.
 *
 * A worker that has posted a completion wakes the client, and sleeps as soon as it has nothing to
 * do, until the client's doorbell, a frame or a timer wakes it. A client that posts nothing and
 * goes back to sleep writes the worker's eventfd, so that the worker polls for the next frame.
 *
 * Each handover costs a wake-up on the same CPU, about a microsecond more than a yield.
 */
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "cq/cq.h"
#include "worker/steps_put.h"
#include "worker/worker_parts.h"

#define WAKE_MOST 16          /* threads of one context; the others' sleeps are short */
#define BESIDE_NS 10000000ull /* after the last such client was woken */

/* Between two wake-ups of clients that waited for too long: a client may pretend to wait. */
#define RELEASE_NS 5000ull

void
waiter_found(void *ctx, struct cq *cq)
{
	struct worker *w = ctx;

	/*
	 * Once for all completions of a burst. A client that is woken may preempt the worker, poll
	 * them all and sleep again on the same word before the worker looks at the next entry.
	 */
	for (unsigned i = 0; i < w->nwaiters; i++) {
		if (w->waiters[i] == cq->waiter)
			return;
	}
	/* if there is no space, the next completion finds the word again */
	if (w->nwaiters < WORKER_WAITERS)
		w->waiters[w->nwaiters++] = cq->waiter;
}

static void
wake(struct worker *w, uint32_t *word, uint32_t cpu)
{
	uint32_t value = __atomic_exchange_n(word, 0, __ATOMIC_ACQ_REL);

	if (value == 0) /* another worker was first */
		return;
	if (uroce_waiter_is_on(value, cpu)) {
		w->handed = word;
		w->beside_until_ns = w->now_ns + BESIDE_NS;
	}
	syscall(SYS_futex, word, FUTEX_WAKE, WAKE_MOST, NULL, NULL, 0);
	steps_other(w, STAMP_WOKE, 0);
}

void
waiters_wake(struct worker *w)
{
	uint32_t cpu = (uint32_t)sched_getcpu();

	qp_env_serve(&w->engine.env, 0);
	for (unsigned i = 0; i < w->nwaiters; i++)
		wake(w, w->waiters[i], cpu);
	w->nwaiters = 0;
}

void
waiter_seen(struct worker *w, struct worker_doorbell *db)
{
	uint32_t value = __atomic_load_n(db->waiter, __ATOMIC_RELAXED);
	uint32_t cpu;

	if (value != db->waited) {
		db->waited = value;
		db->waited_ns = w->now_ns;
	}
	if (likely(w->now_ns - db->waited_ns < UROCE_WAITER_NS))
		return;
	cpu = (uint32_t)sched_getcpu();
	if (!uroce_waiter_is_on(value, cpu) || w->now_ns - w->released_ns < RELEASE_NS)
		return;
	w->released_ns = w->now_ns;
	wake(w, db->waiter, cpu);
}

/* The worker is about to sleep. */
void
waiters_release(struct worker *w)
{
	uint32_t cpu = (uint32_t)sched_getcpu();

	for (unsigned i = 0; i < w->ndoorbells; i++) {
		uint32_t *word = w->doorbells[i].waiter;

		if (blame_serve(w, w->doorbells[i].user) &&
		    uroce_waiter_is_on(__atomic_load_n(word, __ATOMIC_RELAXED), cpu))
			wake(w, word, cpu);
	}
}

bool
waiter_has_core(const struct worker *w)
{
	/* a word that is set again: it sleeps, or is about to */
	return w->handed != NULL && __atomic_load_n(w->handed, __ATOMIC_RELAXED) == 0;
}
