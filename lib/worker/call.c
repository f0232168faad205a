/* SPDX-License-Identifier: BSD-3-Clause */
#include <sched.h>
#include <unistd.h>
#include <rte_branch_prediction.h>
#include <rte_pause.h>
#include <rte_ring.h>
#include "worker/worker_parts.h"

#define CALL_SPINS                                                                                 \
	200          /* a worker on a separate core has finished by then, unless it is in a burst */
#define JOB_BURST 16 /* jobs per iteration, so that packets and timers get their turn */

void
worker_wake(struct worker *w)
{
	static const uint64_t one = 1;

	if (w->ws->idle == WORKER_IDLE_POLL)
		return;
	/* Partner: idle.c, between setting asleep and the last check for work. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (__atomic_load_n(&w->state->asleep, __ATOMIC_RELAXED) == 0)
		return;
	/* EAGAIN: the count is at its maximum, so it is readable */
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
	move_look(w);
	w->engine.env.now_ns = w->now_ns;
	mail->fn(w, mail->arg);
	__atomic_store_n(&mail->done, posted, __ATOMIC_RELEASE);
	return 1;
}

bool
job_waits(const struct worker *w)
{
	return w->jobs != NULL || __atomic_load_n(&w->posted_jobs, __ATOMIC_RELAXED) != NULL;
}

/* Returns the jobs posted since the last call, oldest first. */
static struct worker_job *
jobs_take(struct worker *w)
{
	struct worker_job *job = __atomic_exchange_n(&w->posted_jobs, NULL, __ATOMIC_ACQUIRE);
	struct worker_job *first = NULL;

	while (job != NULL) {
		struct worker_job *older = job->next;

		job->next = first;
		first = job;
		job = older;
	}
	return first;
}

static void
job_push(struct worker *w, struct worker_job *job)
{
	job->next = __atomic_load_n(&w->posted_jobs, __ATOMIC_RELAXED);
	while (!__atomic_compare_exchange_n(&w->posted_jobs, &job->next, job, true,
					    __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
}

/* Passes a job to the worker that has its QP now, if that is not w. */
static bool
job_follows(struct worker *w, struct worker_job *job)
{
	uint32_t owner = job->qp != NULL ? qp_worker(job->qp) : w->index;

	if (likely(owner == w->index))
		return false;
	job_push(w->ws->worker[owner], job);
	w->poke |= 1u << owner;
	return true;
}

unsigned
job_run(struct worker *w)
{
	unsigned n = 0;

	if (likely(!job_waits(w)))
		return 0;
	if (w->jobs == NULL)
		w->jobs = jobs_take(w);
	move_look(w);
	w->engine.env.now_ns = w->now_ns;
	for (; w->jobs != NULL && n < JOB_BURST; n++) {
		struct worker_job *job = w->jobs, *next = job->next;

		if (job_follows(w, job)) {
			w->jobs = next;
			continue;
		}
		if (!job->run(w, job->arg))
			return n + 1;
		w->jobs = next;
		/* The control thread may free the job from here on. */
		__atomic_store_n(&job->done, 1, __ATOMIC_RELEASE);
		w->notify = true;
	}
	return n;
}

void
worker_post(struct worker *w, struct worker_job *job)
{
	job->done = 0;
	job_push(w, job);
	worker_wake(w);
}

bool
worker_job_done(const struct worker_job *job)
{
	return __atomic_load_n(&job->done, __ATOMIC_ACQUIRE) != 0;
}

static void
pause_or_yield(unsigned i)
{
	if (i < CALL_SPINS)
		rte_pause();
	else
		sched_yield();
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
	for (unsigned i = 0; __atomic_load_n(&mail->done, __ATOMIC_ACQUIRE) != call; i++)
		pause_or_yield(i);
}

struct qp_call {
	const struct qp *qp;
	void (*fn)(struct worker *w, void *arg);
	void *arg;
	bool ran;
};

static void
call_owner(struct worker *w, void *arg)
{
	struct qp_call *c = arg;

	c->ran = qp_worker(c->qp) == w->index;
	if (c->ran)
		c->fn(w, c->arg);
}

void
worker_call_qp(struct worker_set *ws, const struct qp *qp, void (*fn)(struct worker *w, void *arg),
	       void *arg)
{
	struct qp_call c = {.qp = qp, .fn = fn, .arg = arg};

	do
		worker_call(ws->worker[qp_worker(qp)], call_owner, &c);
	while (!c.ran);
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

void
worker_quiesce(struct worker_set *ws)
{
	worker_call_all(ws, nothing, NULL);
}

void
worker_wait_readers(struct worker_set *ws)
{
	uint64_t token = worker_grace_start(ws);

	for (unsigned i = 0; !worker_grace_over(ws, token); i++)
		pause_or_yield(i);
}
