/* SPDX-License-Identifier: BSD-3-Clause */
#include <sched.h>
#include <unistd.h>
#include <rte_branch_prediction.h>
#include <rte_pause.h>
#include <rte_ring.h>
#include "worker/worker_parts.h"

#define CALL_SPINS                                                                                 \
	200 /* a worker on a core of its own has answered by then, if it is not in a burst */

void
worker_wake(struct worker *w)
{
	static const uint64_t one = 1;

	if (w->ws->idle == WORKER_IDLE_POLL)
		return;
	/* Partner: idle.c, between saying asleep and looking once more. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (__atomic_load_n(&w->asleep, __ATOMIC_RELAXED) == 0)
		return;
	/* EAGAIN: it has been written to 2^64 - 1 times, and is readable */
	if (write(w->own_fd, &one, sizeof(one)) < 0)
		return;
}

void
wake_poked(struct worker *w)
{
	while (unlikely(w->poke != 0)) {
		unsigned i = (unsigned)__builtin_ctz(w->poke);

		w->poke &= w->poke - 1;
		worker_wake(w->ws->worker[i]);
	}
}

unsigned
call_run(struct worker *w)
{
	struct worker_mailbox *mail = &w->mail;
	uint32_t posted = __atomic_load_n(&mail->posted, __ATOMIC_ACQUIRE);

	if (likely(posted == mail->done))
		return 0;
	w->engine.env.now_ns = w->now_ns;
	mail->fn(w, mail->arg);
	__atomic_store_n(&mail->done, posted, __ATOMIC_RELEASE);
	return 1;
}

void
worker_call(struct worker *w, void (*fn)(struct worker *w, void *arg), void *arg)
{
	struct worker_mailbox *mail = &w->mail;
	uint32_t call = mail->posted + 1;

	mail->fn = fn;
	mail->arg = arg;
	__atomic_store_n(&mail->posted, call, __ATOMIC_RELEASE);
	worker_wake(w);
	for (unsigned i = 0; __atomic_load_n(&mail->done, __ATOMIC_ACQUIRE) != call; i++) {
		if (i < CALL_SPINS)
			rte_pause();
		else
			sched_yield();
	}
}

void
worker_call_all(struct worker_set *ws, void (*fn)(struct worker *w, void *arg), void *arg)
{
	for (unsigned i = 0; i < ws->n; i++)
		worker_call(ws->worker[i], fn, arg);
}

static void
nothing(struct worker *w, void *arg)
{
}

/*
 * A worker that sleeps, and has no frame from another one, holds on to nothing. Partner: idle.c,
 * after the sleep: either we see that it is awake, or it sees what the caller changed before.
 */
static bool
sleeps(const struct worker *w)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return __atomic_load_n(&w->asleep, __ATOMIC_RELAXED) != 0 && rte_ring_empty(w->in) &&
	       rte_ring_empty(w->out);
}

void
worker_quiesce(struct worker_set *ws)
{
	worker_call_all(ws, nothing, NULL);
}

void
worker_wait_readers(struct worker_set *ws)
{
	for (unsigned i = 0; i < ws->n; i++)
		if (!sleeps(ws->worker[i]))
			worker_call(ws->worker[i], nothing, NULL);
}
