/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Datagrams that are posted but not yet sent when the program destroys their QP or address handle.
 * An adapter sends a datagram within microseconds, and programs rely on it: mckey posts unsignaled
 * sends and destroys all objects at once. A sleeping worker takes longer than the program. The
 * destruction therefore waits for the worker, but only briefly, because the worker may itself wait
 * for the MAC of a neighbour that does not answer.
 */
#include "provider.h"
#include "fork.h"
#include "idle.h"

#include <sched.h>

#define UD_WAIT_NS 100000000 /* longest wake-up of a worker on a busy machine */

/* Returns true if the worker has sent everything up to index upto. */
static bool
ud_sent(const struct prov_qp *qp, uint32_t upto)
{
	uint32_t cons = __atomic_load_n(&qp->sq.hdr->cons, __ATOMIC_ACQUIRE);

	return (int32_t)(cons - upto) >= 0;
}

static void
ud_wait_qp(struct prov_context *ctx, struct prov_qp *qp)
{
	uint64_t start_ns = prov_idle_now_ns();
	uint32_t upto;

	prov_lock(&qp->sq.lock);
	upto = qp->state == IBV_QPS_RTS ? qp->sq.prod : qp->sq.hdr->cons;
	prov_unlock(&qp->sq.lock);
	/* An earlier wait for these was in vain: the worker does not just need a core. */
	if (upto == qp->ud_unsent)
		return;
	while (!ud_sent(qp, upto)) {
		if (prov_context_lost(ctx))
			return;
		if (prov_idle_now_ns() - start_ns > UD_WAIT_NS) {
			qp->ud_unsent = upto;
			return;
		}
		sched_yield();
	}
}

void
prov_ud_wait_sent(struct prov_context *ctx, const struct prov_qp *only)
{
	struct prov_qp *qp;

	fork_enter(); /* a destruction begins here */
	if (ctx->forked || (only && only->vqp.qp.qp_type != IBV_QPT_UD))
		return;
	pthread_mutex_lock(&ctx->obj_mutex);
	LIST_FOREACH (qp, &ctx->ud_qps, ud_link) {
		if (!only || only == qp)
			ud_wait_qp(ctx, qp);
	}
	pthread_mutex_unlock(&ctx->obj_mutex);
}
