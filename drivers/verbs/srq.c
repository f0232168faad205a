/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared receive queues. */
#include "uv.h"

#include <errno.h>
#include <stdlib.h>

/* Asks the daemon for an SRQ; granted sizes go back into attr. 0 or a positive errno. */
static int
srq_request(struct uv_srq *srq, struct ibv_pd *pd, struct ibv_srq_attr *attr)
{
	static const size_t hdr_bytes = UROCE_RING_HDR;
	struct uroce_create_srq_req req = {
		.user_handle = srq->ref.id,
		.pd = pd->handle,
		.max_wr = attr->max_wr,
		.max_sge = attr->max_sge,
		.limit = attr->srq_limit,
	};
	struct uroce_create_srq_rep rep;
	const struct uroce_ring_loc *loc = &rep.ring;
	int fds[1];
	struct ipc_call call = {
		.op = UROCE_CTRL_CREATE_SRQ,
		.req = &req,
		.req_len = sizeof(req),
		.rep = &rep,
		.rep_len = sizeof(rep),
		.rep_fds = fds,
		.rep_fds_max = 1,
	};
	void *ring;
	int rc;

	rc = uv_call_fds(pd->context, &call);
	if (rc)
		return rc;
	rc = uv_map_rings(uv_context_of(pd->context), &loc, &hdr_bytes, &ring, 1, fds,
			  call.rep_nfds);
	if (rc || !ring)
		return rc ? rc : EPROTO;
	uv_ring_init(&srq->ring, ring, &rep.ring, rep.max_wr, rep.max_sge);
	srq->vsrq.srq.handle = rep.handle;
	srq->vsrq.srq_num = rep.srqn;
	attr->max_wr = rep.max_wr;
	attr->max_sge = rep.max_sge;
	return 0;
}

struct ibv_srq *
uv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct uv_srq *srq = calloc(1, sizeof(*srq));
	int rc;

	if (!srq)
		return NULL;
	rc = uv_ref_add(&srq->ref, &srq->vsrq.srq);
	if (rc == 0) {
		rc = srq_request(srq, pd, &attr->attr);
		if (rc)
			uv_ref_drop(&srq->ref);
	}
	if (rc) {
		free(srq);
		errno = rc;
		return NULL;
	}
	srq->vsrq.srq_type = IBV_SRQT_BASIC;
	return &srq->vsrq.srq;
}

struct ibv_srq *
uv_create_srq_ex(struct ibv_context *ibctx, struct ibv_srq_init_attr_ex *attr)
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
	srq = uv_create_srq(attr->pd, &basic);
	if (!srq)
		return NULL;
	attr->attr = basic.attr;
	/* This entry point goes past libibverbs, which does the same for ibv_create_srq. */
	srq->context = attr->pd->context;
	srq->srq_context = attr->srq_context;
	srq->pd = attr->pd;
	pthread_mutex_init(&srq->mutex, NULL);
	pthread_cond_init(&srq->cond, NULL);
	return srq;
}

int
uv_modify_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr, int mask)
{
	struct uroce_modify_srq_req req = {
		.handle = ibsrq->handle,
		.attr_mask = (uint32_t)mask,
		.max_wr = attr->max_wr,
		.limit = attr->srq_limit,
	};

	return uv_call(ibsrq->context, UROCE_CTRL_MODIFY_SRQ, &req, sizeof(req), NULL, 0);
}

int
uv_query_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr)
{
	struct uroce_handle req = {.handle = ibsrq->handle};
	struct uroce_query_srq_rep rep;
	int rc;

	rc = uv_call(ibsrq->context, UROCE_CTRL_QUERY_SRQ, &req, sizeof(req), &rep, sizeof(rep));
	if (rc)
		return rc;
	attr->max_wr = rep.max_wr;
	attr->max_sge = rep.max_sge;
	attr->srq_limit = rep.limit;
	return 0;
}

int
uv_destroy_srq(struct ibv_srq *ibsrq)
{
	struct uv_srq *srq = uv_srq_of(ibsrq);
	struct uv_context *ctx = uv_context_of(ibsrq->context);
	int rc = uv_call_destroy(ibsrq->context, UROCE_CTRL_DESTROY_SRQ, ibsrq->handle);

	if (rc == 0)
		rc = uv_lost_check_unused(ctx, NULL, ibsrq);
	if (rc)
		return rc;
	uv_ref_drop(&srq->ref);
	uv_event_purge(ctx, -1);
	uv_ref_free(ctx, &srq->ref, srq, NULL, &ibsrq->events_completed, &ibsrq->mutex,
		    &ibsrq->cond);
	return 0;
}

int
uv_get_srq_num(struct ibv_srq *ibsrq, uint32_t *num)
{
	*num = uv_srq_of(ibsrq)->vsrq.srq_num;
	return 0;
}
