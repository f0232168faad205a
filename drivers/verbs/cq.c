/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion queues. The daemon writes entries and releases each by its phase word. Polling reads
 * shared memory. It enters the kernel only to give up a core that the daemon also needs.
 */
#include "provider.h"
#include "idle.h"

#include <errno.h>
#include <stdlib.h>
#include "fork.h"

/* The wc_flags that programs know; SOLICITED is specific to uroce. */
#define PROV_WC_FLAGS (UROCE_CQE_GRH | UROCE_CQE_WITH_IMM | UROCE_CQE_WITH_INV)

static void
cq_attach_ring(struct prov_cq *cq, void *ring, const struct uroce_ring_loc *loc)
{
	__atomic_store_n(&cq->hdr, (struct uroce_cq_hdr *)ring, __ATOMIC_RELAXED); /* cq_idle.c */
	cq->slots = (struct uroce_cqe *)((char *)ring + UROCE_CQ_HDR);
	cq->mask = loc->entries - 1;
	cq->shift = (uint32_t)__builtin_ctz(loc->entries);
	cq->cons = 0;
	cq->vcq.cq.cqe = (int)loc->entries;
}

/* Sends a request whose reply is a CQ's ring. 0 or a positive errno. */
static int
cq_request(struct prov_context *ctx, uint16_t op, const void *req, size_t req_len,
	   struct uroce_create_cq_rep *rep, void **ring)
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
		.hdr_bytes = UROCE_CQ_HDR,
		.rings = ring,
		.n = 1,
	};
	int rc = prov_call_rings(&ctx->vctx.context, &call, &rings);

	if (rc == 0 && (!*ring || rep->ring.stride != sizeof(struct uroce_cqe)))
		rc = prov_fail(EPROTO);
	return rc;
}

/* 0 or a positive errno. */
static int
cq_create(struct prov_context *ctx, struct prov_cq *cq, int cqe, struct ibv_comp_channel *channel,
	  int comp_vector)
{
	struct uroce_create_cq_req req = {.cqe = (uint32_t)cqe};
	struct uroce_create_cq_rep rep;
	uint32_t handle;
	void *ring;
	int rc;

	if (cqe < 1 || comp_vector < 0 || comp_vector >= ctx->vctx.context.num_comp_vectors)
		return EINVAL;
	if (channel) {
		if (!prov_event_channel_handle(ctx, channel->fd, &handle))
			return EINVAL;
		req.channel = handle + 1;
	}
	rc = prov_ref_add(&cq->ref, &cq->vcq.cq);
	if (rc)
		return rc;
	req.user_handle = cq->ref.id;
	rc = cq_request(ctx, UROCE_CTRL_CREATE_CQ, &req, sizeof(req), &rep, &ring);
	if (rc) {
		prov_ref_drop(&cq->ref);
		return rc;
	}
	cq->vcq.cq.handle = rep.handle;
	cq->channel_fd = channel ? channel->fd : -1;
	cq->awaited_ns = PROV_CQ_QUIET;
	cq_attach_ring(cq, ring, &rep.ring);
	prov_daemon_lost_add_cq(ctx, cq);
	return 0;
}

struct ibv_cq *
prov_create_cq(struct ibv_context *ibctx, int cqe, struct ibv_comp_channel *channel,
	       int comp_vector)
{
	struct prov_cq *cq = calloc(1, sizeof(*cq));
	int rc;

	if (!cq)
		return NULL;
	rc = cq_create(prov_context_of(ibctx), cq, cqe, channel, comp_vector);
	if (rc) {
		free(cq);
		errno = rc;
		return NULL;
	}
	return &cq->vcq.cq;
}

struct ibv_cq_ex *
prov_create_cq_ex(struct ibv_context *ibctx, struct ibv_cq_init_attr_ex *attr)
{
	/* No wall-clock timestamps: the daemon's clock is not the time of day. */
	const uint64_t known = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
	bool in_domain = attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD;
	struct ibv_cq *ibcq;

	/*
	 * SINGLE_THREADED merely permits omitting the lock. An overrun is never ignored, because
	 * it would overwrite completions.
	 */
	if ((attr->wc_flags & ~known) ||
	    (attr->comp_mask & ~(IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD)) ||
	    ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) &&
	     (attr->flags & ~IBV_CREATE_CQ_ATTR_SINGLE_THREADED))) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (in_domain && !attr->parent_domain) {
		errno = EINVAL;
		return NULL;
	}
	ibcq = prov_create_cq(ibctx, (int)attr->cqe, attr->channel, (int)attr->comp_vector);
	if (!ibcq)
		return NULL;
	if (in_domain) {
		prov_cq_of(ibcq)->domain = attr->parent_domain;
		prov_pd_hold(attr->parent_domain);
	}
	prov_cq_ex_init(prov_cq_of(ibcq), attr->wc_flags);
	return &prov_cq_of(ibcq)->vcq.cq_ex;
}

int
prov_resize_cq(struct ibv_cq *ibcq, int cqe)
{
	struct prov_cq *cq = prov_cq_of(ibcq);
	struct uroce_resize_cq_req req = {.handle = ibcq->handle, .cqe = (uint32_t)cqe};
	struct uroce_create_cq_rep rep;
	struct prov_cq_old *old;
	void *ring;
	int rc;

	if (cqe < 1)
		return prov_fail(EINVAL);
	fork_enter(); /* before the lock */
	/* Before the request: once the daemon uses the new ring, the resize cannot be undone. */
	old = prov_cq_old_alloc(cq);
	if (!old)
		return prov_fail(ENOMEM);
	/*
	 * Other threads wait until the reply: an arm that they store in the old ring after the
	 * daemon has read it would be lost.
	 */
	prov_lock(&cq->lock);
	rc = cq_request(prov_context_of(ibcq->context), UROCE_CTRL_RESIZE_CQ, &req, sizeof(req),
			&rep, &ring);
	if (rc == 0) {
		struct prov_cq_old *drained = cq->old;

		prov_cq_save(cq, old);
		cq->old = old;
		old = drained;
		cq_attach_ring(cq, ring, &rep.ring);
	}
	prov_unlock(&cq->lock);
	free(old);
	return rc;
}

int
prov_destroy_cq(struct ibv_cq *ibcq)
{
	struct prov_cq *cq = prov_cq_of(ibcq);
	struct prov_context *ctx = prov_context_of(ibcq->context);
	int rc = prov_call_destroy(ibcq->context, UROCE_CTRL_DESTROY_CQ, ibcq->handle);

	if (rc == 0)
		rc = prov_daemon_lost_check_unused(ctx, ibcq, NULL);
	if (rc)
		return rc;
	prov_pd_drop(cq->domain);
	prov_daemon_lost_del_cq(ctx, cq);
	prov_ref_drop(&cq->ref);
	prov_event_purge(ctx, cq->channel_fd);
	free(cq->old);
	prov_ref_free(ctx, &cq->ref, cq, &ibcq->comp_events_completed,
		      &ibcq->async_events_completed, &ibcq->mutex, &ibcq->cond);
	return 0;
}

const struct uroce_cqe *
prov_cq_head(struct prov_cq *cq)
{
	if (prov_unlikely(prov_cq_has_old(cq)))
		return &cq->old->cqe[cq->old->next];
	for (;;) {
		struct uroce_cqe *cqe = &cq->slots[cq->cons & cq->mask];

		/* Partner: the daemon's release of the phase after it wrote the rest. */
		if (__atomic_load_n(&cqe->phase, __ATOMIC_ACQUIRE) != (cq->cons >> cq->shift) + 1)
			return NULL;
		if (cqe->opcode != UROCE_CQE_DEAD)
			return cqe;
		cq->cons++;
	}
}

void
prov_cq_take(struct prov_cq *cq)
{
	if (prov_unlikely(prov_cq_has_old(cq)))
		cq->old->next++;
	else
		cq->cons++;
}

void
prov_cq_publish(struct prov_cq *cq)
{
	if (prov_unlikely(cq->old && !prov_cq_has_old(cq))) {
		free(cq->old);
		cq->old = NULL;
	}
	__atomic_store_n(&cq->hdr->cons, cq->cons, __ATOMIC_RELEASE);
}

static void
wc_fill(struct ibv_wc *wc, const struct uroce_cqe *cqe)
{
	wc->wr_id = cqe->wr_id;
	wc->status = cqe->status;
	wc->opcode = cqe->opcode;
	wc->vendor_err = cqe->vendor_err;
	wc->byte_len = cqe->byte_len;
	wc->imm_data = cqe->imm;
	wc->qp_num = cqe->qp_num;
	wc->src_qp = cqe->src_qp;
	wc->wc_flags = cqe->flags & PROV_WC_FLAGS;
	wc->pkey_index = cqe->pkey_index;
	wc->slid = 0;
	wc->sl = cqe->sl;
	wc->dlid_path_bits = 0;
}

/* Polls up to num completions; *empty is the number of polls that found none. */
static int
cq_take(struct prov_cq *cq, int num, struct ibv_wc *wc, uint32_t *empty)
{
	const struct uroce_cqe *cqe;
	int n = 0;

	prov_lock(&cq->lock);
	while (n < num && (cqe = prov_cq_head(cq))) {
		wc_fill(&wc[n++], cqe);
		prov_cq_take(cq);
	}
	if (n) {
		prov_cq_traffic(cq);
		prov_cq_publish(cq);
	} else {
		*empty = ++cq->empty_polls;
	}
	prov_unlock(&cq->lock);
	return n;
}

int
prov_poll_cq(struct ibv_cq *ibcq, int num, struct ibv_wc *wc)
{
	struct prov_cq *cq = prov_cq_of(ibcq);
	uint32_t empty;
	int n;

	if (prov_unlikely(prov_context_lost(prov_context_of(ibcq->context)))) {
		n = prov_daemon_lost_poll(cq);
		if (n <= 0)
			return n;
	}
	n = cq_take(cq, num, wc, &empty);
	if (n == 0) {
		n = prov_cq_idle(cq, empty);
		if (n == 1) /* other threads had the core meanwhile */
			n = cq_take(cq, num, wc, &empty);
	}
	if (n > 0)
		prov_idle_found();
	return n;
}

int
prov_req_notify_cq(struct ibv_cq *ibcq, int solicited_only)
{
	struct prov_cq *cq = prov_cq_of(ibcq);
	uint32_t arm = solicited_only ? UROCE_CQ_ARM_SOLICITED : UROCE_CQ_ARM_ANY;

	if (prov_unlikely(prov_context_lost(prov_context_of(ibcq->context))))
		return prov_daemon_lost_notify(cq);
	prov_lock(&cq->lock);
	/* A pending arm for any completion is not weakened to one for solicited ones. */
	if (__atomic_load_n(&cq->hdr->arm, __ATOMIC_RELAXED) != UROCE_CQ_ARM_ANY)
		__atomic_store_n(&cq->hdr->arm, arm, __ATOMIC_RELEASE);
	prov_unlock(&cq->lock);
	/* Partner: the daemon's fence between releasing an entry and taking the arm. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return 0;
}
