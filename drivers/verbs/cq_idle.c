/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What an empty poll does. A program that polls keeps its core. The poll gives the core up for a
 * moment (idle.h) only if a completion is expected in the CQ and the daemon shares cores with its
 * clients.
 *
 * Posted receives do not count: programs post them long before they expect a message, and an MPI
 * rank also polls shared memory, where each pause delays a message that does not use RDMA.
 * Traffic counts. After a post to a QP of this CQ, or a completion, a completion is expected for
 * PROV_AWAITED_NS, and for as long again if the daemon has sends that it has not retired by then.
 * If none is expected (quiet CQ), an empty poll costs one comparison.
 *
 * The environment variable UROCE_POLL, read when a device is opened, overrides this: "spin" never
 * gives up the core, "yield" yields at each round of empty polls and never sleeps, "adaptive" is
 * the default described above.
 */
#include "provider.h"
#include "idle.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Empty polls between checks of the control socket; those of a thread that pauses take far longer.
 */
#define PROV_ALIVE_CHECK_POLLS  (1u << 16)
#define PROV_ALIVE_CHECK_PAUSES (1u << 10)

/*
 * Longer than one round of a few programs that take turns on a core, so that a program that waits
 * for its turn is not taken for one that expects nothing. Also longer than a message takes across a
 * network.
 */
#define PROV_AWAITED_NS 100000000ull

int
prov_poll_mode(bool shared_cores, enum prov_poll_mode *mode)
{
	const char *s = getenv("UROCE_POLL");

	if (!s || strcmp(s, "adaptive") == 0) {
		/* The daemon has separate cores: it does not need this one. */
		*mode = shared_cores ? PROV_POLL_ADAPTIVE : PROV_POLL_SPIN;
	} else if (strcmp(s, "spin") == 0) {
		*mode = PROV_POLL_SPIN;
	} else if (strcmp(s, "yield") == 0) {
		*mode = PROV_POLL_YIELD;
	} else {
		fprintf(stderr,
			"uroce: UROCE_POLL=%s is unknown: use spin, yield or adaptive (default)\n",
			s);
		return EINVAL;
	}
	return 0;
}

/* Returns true if the daemon has unretired sends of this CQ. Expensive: checks all QPs. */
static bool
cq_outstanding(struct prov_cq *cq)
{
	struct prov_context *ctx = prov_context_of(cq->vcq.cq.context);
	const struct prov_qp *qp;

	pthread_mutex_lock(&ctx->obj_mutex);
	TAILQ_FOREACH (qp, &ctx->qps, link) {
		const struct uroce_ring_hdr *sq = qp->sq.hdr;

		if (qp->vqp.qp.send_cq == &cq->vcq.cq &&
		    __atomic_load_n(&sq->cons, __ATOMIC_RELAXED) !=
			    __atomic_load_n(&sq->prod, __ATOMIC_RELAXED))
			break;
	}
	pthread_mutex_unlock(&ctx->obj_mutex);
	return qp != NULL;
}

/* Returns true if a completion is expected in cq. If not, cq is quiet until there is traffic. */
static bool
cq_awaited(struct prov_cq *cq, uint64_t now_ns)
{
	uint64_t until = __atomic_load_n(&cq->awaited_ns, __ATOMIC_RELAXED);

	if (until == PROV_CQ_TRAFFIC || (until <= now_ns && cq_outstanding(cq))) {
		__atomic_store_n(&cq->awaited_ns, now_ns + PROV_AWAITED_NS, __ATOMIC_RELAXED);
		return true;
	}
	if (until > now_ns)
		return true;
	/* A post since the check of the queues has changed awaited_ns. */
	__atomic_compare_exchange_n(&cq->awaited_ns, &until, PROV_CQ_QUIET, false, __ATOMIC_RELAXED,
				    __ATOMIC_RELAXED);
	return false;
}

/*
 * Tells the worker on which CPU the calling thread yields for cq; -1: it does not. Locked, because
 * after a resize by another thread the old ring's memory may belong to another queue.
 */
static void
cq_set_yield_cpu(struct prov_cq *cq, int cpu)
{
	uint32_t value = (uint32_t)(cpu + 1);

	prov_lock(&cq->lock);
	/* written seldom, because the worker reads the line */
	if (__atomic_load_n(&cq->hdr->yield_cpu, __ATOMIC_RELAXED) != value)
		__atomic_store_n(&cq->hdr->yield_cpu, value, __ATOMIC_RELAXED);
	prov_unlock(&cq->lock);
}

/*
 * Returns true if the daemon has marked the CQ as dead. Another thread may resize the CQ meanwhile,
 * and the old ring's memory may belong to another queue: only the lock tells for sure.
 */
static bool
cq_is_dead(struct prov_cq *cq)
{
	const struct uroce_cq_hdr *hdr = __atomic_load_n(&cq->hdr, __ATOMIC_RELAXED);
	bool dead;

	if (!prov_unlikely(__atomic_load_n(&hdr->error, __ATOMIC_RELAXED)))
		return false;
	prov_lock(&cq->lock);
	dead = __atomic_load_n(&cq->hdr->error, __ATOMIC_RELAXED);
	prov_unlock(&cq->lock);
	return dead;
}

/*
 * Wakes the worker on this CPU, if it sleeps, so that it polls while the calling thread sleeps: a
 * frame that arrives at an idle CPU would have to wake it. Once for each progress, because without
 * traffic both may sleep.
 */
static void
wake_worker_here(struct prov_context *ctx, int cpu)
{
	if (prov_idle.slept || prov_idle.waking)
		return;
	for (uint32_t i = 0; i < ctx->nworkers; i++) {
		struct prov_worker *w = &ctx->worker[i];

		if (__atomic_load_n(&w->state->cpu, __ATOMIC_RELAXED) == (uint32_t)cpu + 1 &&
		    __atomic_load_n(&w->state->asleep, __ATOMIC_RELAXED) != 0)
			prov_worker_wake(w);
	}
}

/*
 * Sleeps until a worker posts a completion to a CQ of ctx, for a bounded time. The first call only
 * announces the sleep: the second one comes after all CQs were polled once more.
 */
static void
cq_sleep(struct prov_cq *cq, struct prov_context *ctx, int cpu)
{
	uint32_t *word = &ctx->worker[0].db->waiter;
	uint32_t value = prov_idle.value;

	if (prov_idle.announced != word) {
		value = uroce_waiter((uint32_t)cpu, (value >> 16) + 1);
		prov_idle.value = value;
		prov_idle.announced = word;
		/* Partner: the worker's fence between releasing an entry and looking at waiter. */
		__atomic_store_n(word, value, __ATOMIC_SEQ_CST);
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		return;
	}
	prov_idle.announced = NULL;
	wake_worker_here(ctx, cpu);
	if (!prov_idle_sleep(word, value, cq_outstanding(cq)))
		prov_context_alive(ctx); /* a living worker on this CPU wakes this thread earlier */
	/* a worker that finds nobody asleep would make a system call for nothing */
	__atomic_compare_exchange_n(word, &value, 0, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

int
prov_cq_idle(struct prov_cq *cq, uint32_t polls)
{
	struct prov_context *ctx = prov_context_of(cq->vcq.cq.context);
	bool pauses = ctx->poll == PROV_POLL_YIELD ||
		      (ctx->poll == PROV_POLL_ADAPTIVE &&
		       __atomic_load_n(&cq->awaited_ns, __ATOMIC_RELAXED) != PROV_CQ_QUIET);
	uint64_t now_ns;
	int cpu;

	if (cq_is_dead(cq))
		return -prov_fail(EIO);
	if (prov_unlikely(polls % (pauses ? PROV_ALIVE_CHECK_PAUSES : PROV_ALIVE_CHECK_POLLS) == 0))
		prov_context_alive(ctx);
	if (!pauses || !prov_idle_round(cq))
		return 0;
	now_ns = prov_idle_now_ns();
	cpu = sched_getcpu();
	if (ctx->poll == PROV_POLL_ADAPTIVE) {
		if (!cq_awaited(cq, now_ns))
			return 0;
		if (prov_idle_sleeps(now_ns)) {
			/* a worker on this CPU need not wait for an answer after a short sleep only
			 */
			cq_set_yield_cpu(cq, prov_idle.yields.skip != 0 ? cpu : -1);
			cq_sleep(cq, ctx, cpu);
			return 1;
		}
	}
	cq_set_yield_cpu(cq, cpu);
	prov_idle_yield(now_ns);
	return 1;
}
