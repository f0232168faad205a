/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared receive queues. */
#include "provider.h"

#include <errno.h>
#include <stdlib.h>
#include "fork.h"

/* Sends a request whose reply is an SRQ's ring. 0 or a positive errno. */
static int
srq_ring_request(struct ibv_context *ctx, uint16_t op, const void *req, size_t req_len,
		 struct uroce_create_srq_rep *rep, void **ring)
{
	struct ipc_call call = {
		.op = op,
		.req = req,
		.req_len = req_len,
		.rep = rep,
		.rep_len = sizeof(*rep),
	};
	const struct uroce_ring_loc *loc = &rep->ring;
	const struct prov_rings rings = {
		.locs = &loc,
		.hdr_bytes = UROCE_RING_HDR,
		.rings = ring,
		.n = 1,
	};
	int rc = prov_call_rings(ctx, &call, &rings);

	return rc == 0 && !*ring ? prov_fail(EPROTO) : rc;
}

/* Requests an SRQ from the daemon; attr gets the granted sizes. 0 or a positive errno. */
static int
srq_request(struct prov_srq *srq, struct ibv_pd *pd, struct ibv_srq_attr *attr)
{
	struct uroce_create_srq_req req = {
		.user_handle = srq->ref.id,
		.pd = pd->handle,
		.max_wr = attr->max_wr,
		.max_sge = attr->max_sge,
		/* no limit: verbs ignore srq_limit here, and programs leave it uninitialised */
	};
	struct uroce_create_srq_rep rep;
	void *ring;
	int rc;

	rc = srq_ring_request(pd->context, UROCE_CTRL_CREATE_SRQ, &req, sizeof(req), &rep, &ring);
	if (rc)
		return rc;
	prov_ring_init(&srq->ring, ring, &rep.ring, rep.max_wr, rep.max_sge);
	srq->vsrq.srq.handle = rep.handle;
	srq->vsrq.srq_num = rep.srqn;
	attr->max_wr = rep.max_wr;
	attr->max_sge = rep.max_sge;
	return 0;
}

struct ibv_srq *
prov_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct prov_srq *srq = calloc(1, sizeof(*srq));
	int rc;

	if (!srq)
		return NULL;
	rc = prov_ref_add(&srq->ref, &srq->vsrq.srq);
	if (rc == 0) {
		rc = srq_request(srq, pd, &attr->attr);
		if (rc)
			prov_ref_drop(&srq->ref);
	}
	if (rc) {
		free(srq);
		errno = rc;
		return NULL;
	}
	prov_pd_hold(pd);
	srq->vsrq.srq_type = IBV_SRQT_BASIC;
	return &srq->vsrq.srq;
}

struct ibv_srq *
prov_create_srq_ex(struct ibv_context *ibctx, struct ibv_srq_init_attr_ex *attr)
{
	const uint32_t known = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
	struct ibv_srq_init_attr basic = {.srq_context = attr->srq_context, .attr = attr->attr};
	struct ibv_srq *srq;

	(void)ibctx;
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !attr->pd) {
		errno = EINVAL;
		return NULL;
	}
	if ((attr->comp_mask & ~known) ||
	    ((attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) && attr->srq_type != IBV_SRQT_BASIC)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	srq = prov_create_srq(attr->pd, &basic);
	if (!srq)
		return NULL;
	attr->attr = basic.attr;
	/* ibv_create_srq_ex calls this directly; for ibv_create_srq, libibverbs does the same. */
	srq->context = attr->pd->context;
	srq->srq_context = attr->srq_context;
	srq->pd = attr->pd;
	pthread_mutex_init(&srq->mutex, NULL);
	pthread_cond_init(&srq->cond, NULL);
	return srq;
}

/*
 * The new ring continues at the indices of the old one and has the WRs that were posted there.
 * Posts wait until the reply: a WR posted after the daemon read the old ring would be lost.
 */
static int
srq_resize(struct prov_srq *srq, const struct uroce_modify_srq_req *req)
{
	struct prov_ring *r = &srq->ring;
	struct uroce_create_srq_rep rep;
	uint32_t prod;
	void *ring;
	int rc;

	fork_enter(); /* before the lock */
	prov_lock(&r->lock);
	rc = srq_ring_request(srq->vsrq.srq.context, UROCE_CTRL_RESIZE_SRQ, req, sizeof(*req), &rep,
			      &ring);
	if (rc == 0 && rep.ring.stride != r->stride)
		rc = prov_fail(EPROTO);
	if (rc == 0) {
		prod = r->prod;
		prov_ring_init(r, ring, &rep.ring, rep.max_wr, r->max_sge);
		r->prod = prod;
		r->cons = __atomic_load_n(&r->hdr->cons, __ATOMIC_ACQUIRE);
	}
	prov_unlock(&r->lock);
	return rc;
}

int
prov_modify_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr, int mask)
{
	struct uroce_modify_srq_req req = {
		.handle = ibsrq->handle,
		.attr_mask = (uint32_t)mask,
		.max_wr = attr->max_wr,
		.limit = attr->srq_limit,
	};

	if (mask & IBV_SRQ_MAX_WR)
		return srq_resize(prov_srq_of(ibsrq), &req);
	return prov_call(ibsrq->context, UROCE_CTRL_MODIFY_SRQ, &req, sizeof(req), NULL, 0);
}

int
prov_query_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr)
{
	struct uroce_handle req = {.handle = ibsrq->handle};
	struct uroce_query_srq_rep rep;
	int rc;

	rc = prov_call(ibsrq->context, UROCE_CTRL_QUERY_SRQ, &req, sizeof(req), &rep, sizeof(rep));
	if (rc)
		return rc;
	attr->max_wr = rep.max_wr;
	attr->max_sge = rep.max_sge;
	attr->srq_limit = rep.limit;
	return 0;
}

int
prov_destroy_srq(struct ibv_srq *ibsrq)
{
	struct prov_srq *srq = prov_srq_of(ibsrq);
	struct prov_context *ctx = prov_context_of(ibsrq->context);
	int rc = prov_call_destroy(ibsrq->context, UROCE_CTRL_DESTROY_SRQ, ibsrq->handle);

	if (rc == 0)
		rc = prov_daemon_lost_check_unused(ctx, NULL, ibsrq);
	if (rc)
		return rc;
	prov_pd_drop(ibsrq->pd);
	prov_ref_drop(&srq->ref);
	prov_event_purge(ctx, -1);
	prov_ref_free(ctx, &srq->ref, srq, NULL, &ibsrq->events_completed, &ibsrq->mutex,
		      &ibsrq->cond);
	return 0;
}

int
prov_get_srq_num(struct ibv_srq *ibsrq, uint32_t *num)
{
	*num = prov_srq_of(ibsrq)->vsrq.srq_num;
	return 0;
}
