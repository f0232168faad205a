/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Grace periods, by rte_rcu_qsbr. A worker reports a quiescent state once per iteration, after it
 * has received the frames that loop back (their payload may be in client memory) and before any
 * other use of a shared table. A sleeping worker is offline.
 */
#include <stdlib.h>
#include <rte_errno.h>
#include "worker/worker_parts.h"

struct rte_rcu_qsbr *
grace_create(unsigned nworkers)
{
	size_t bytes = RTE_ALIGN_CEIL(rte_rcu_qsbr_get_memsize(nworkers), RTE_CACHE_LINE_SIZE);
	struct rte_rcu_qsbr *qs = aligned_alloc(RTE_CACHE_LINE_SIZE, bytes);

	if (qs == NULL || rte_rcu_qsbr_init(qs, nworkers) != 0) {
		free(qs);
		return NULL;
	}
	for (unsigned i = 0; i < nworkers; i++)
		(void)rte_rcu_qsbr_thread_register(qs,
						   i); /* fails only for an index out of range */
	return qs;
}

void
grace_report(struct worker *w, uint64_t token)
{
	/*
	 * Reports the newest one, which may be later than token: then the next iteration reports
	 * again.
	 */
	rte_rcu_qsbr_quiescent(w->ws->qs, w->index);
	w->grace = token;
	w->notify = true;
}

void
grace_offline(struct worker *w)
{
	rte_rcu_qsbr_thread_offline(w->ws->qs, w->index);
}

void
grace_online(struct worker *w)
{
	rte_rcu_qsbr_thread_online(w->ws->qs, w->index);
}

uint64_t
worker_grace_start(struct worker_set *ws)
{
	uint64_t token = rte_rcu_qsbr_start(ws->qs);

	/* Partner: idle.c, between going offline and the last check for work. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return token;
}

bool
worker_grace_over(struct worker_set *ws, uint64_t token)
{
	return rte_rcu_qsbr_check(ws->qs, token, false) == 1;
}
