/* SPDX-License-Identifier: BSD-3-Clause */
/* Address handles: the daemon resolves and keeps them; a UD WQE carries the daemon's handle. */
#include "provider.h"
#include "fork.h"
#include "idle.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

void
prov_ah_attr_out(struct uroce_ah_attr *to, const struct ibv_ah_attr *from)
{
	memset(to, 0, sizeof(*to));
	memcpy(to->dgid, from->grh.dgid.raw, sizeof(to->dgid));
	to->flow_label = from->grh.flow_label;
	to->sgid_index = from->grh.sgid_index;
	to->hop_limit = from->grh.hop_limit;
	to->traffic_class = from->grh.traffic_class;
	to->sl = from->sl;
	to->is_global = from->is_global;
	to->port_num = from->port_num;
	to->static_rate = from->static_rate;
	to->src_path_bits = from->src_path_bits;
	to->dlid = from->dlid;
}

void
prov_ah_attr_in(struct ibv_ah_attr *to, const struct uroce_ah_attr *from)
{
	memset(to, 0, sizeof(*to));
	memcpy(to->grh.dgid.raw, from->dgid, sizeof(from->dgid));
	to->grh.flow_label = from->flow_label;
	to->grh.sgid_index = from->sgid_index;
	to->grh.hop_limit = from->hop_limit;
	to->grh.traffic_class = from->traffic_class;
	to->sl = from->sl;
	to->is_global = from->is_global;
	to->port_num = from->port_num;
	to->static_rate = from->static_rate;
	to->src_path_bits = from->src_path_bits;
	to->dlid = from->dlid;
}

struct ibv_ah *
prov_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct uroce_create_ah_req req = {.pd = pd->handle};
	struct uroce_handle rep;
	struct ibv_ah *ah = calloc(1, sizeof(*ah));

	if (!ah)
		return NULL;
	prov_ah_attr_out(&req.attr, attr);
	if (prov_call(pd->context, UROCE_CTRL_CREATE_AH, &req, sizeof(req), &rep, sizeof(rep))) {
		free(ah);
		return NULL;
	}
	ah->handle = rep.handle;
	return ah;
}

int
prov_destroy_ah(struct ibv_ah *ah)
{
	int rc;

	prov_ud_wait_sent(prov_context_of(ah->context), NULL);
	rc = prov_call_destroy(ah->context, UROCE_CTRL_DESTROY_AH, ah->handle);
	if (rc == 0)
		free(ah);
	return rc;
}

/*
 * Datagrams that are posted but not yet sent when the program destroys their QP or address handle.
 * An adapter sends a datagram within microseconds, and programs rely on it: mckey posts unsignaled
 * sends and destroys all objects at once. A sleeping worker takes longer than the program. The
 * destruction therefore waits for the worker, but only briefly, because the worker may itself wait
 * for the MAC of a neighbour that does not answer.
 */

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
