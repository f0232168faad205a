/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queue pairs: create and destroy. The daemon creates the QP and its rings; this side
 * keeps its own copy of their geometry and writes WQEs into them (post.c, wr.c).
 */
#include "provider.h"

#include <errno.h>
#include <stdlib.h>

/* The attributes of a new QP, whichever verb creates it. */
struct qp_wanted {
	void *qp_context;
	struct ibv_pd *pd;
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_srq *srq;
	struct ibv_qp_cap *cap; /* in: requested, out: granted */
	enum ibv_qp_type type;
	bool sig_all;
};

void
prov_ring_init(struct prov_ring *r, void *hdr, const struct uroce_ring_loc *loc, uint32_t limit,
	       uint32_t max_sge)
{
	r->hdr = hdr;
	r->slots = (uint8_t *)hdr + UROCE_RING_HDR;
	r->mask = loc->entries - 1;
	r->stride = loc->stride;
	r->limit = limit < loc->entries ? limit : loc->entries;
	r->max_sge = max_sge;
	r->prod = 0;
	r->cons = 0;
}

/* Takes the reply's mapped rings. Refuses rings that cannot hold WQEs of the granted sizes. */
static int
qp_attach(struct prov_context *ctx, struct prov_qp *qp, const struct uroce_create_qp_rep *rep,
	  void *const ring[2])
{
	if (!ring[0] || rep->worker >= ctx->nworkers ||
	    rep->sq.stride < uroce_sq_stride(rep->cap.max_send_sge, rep->cap.max_inline) ||
	    (ring[1] && rep->rq.stride < uroce_rq_stride(rep->cap.max_recv_sge)))
		return EPROTO;
	prov_ring_init(&qp->sq, ring[0], &rep->sq, rep->cap.max_send_wr, rep->cap.max_send_sge);
	if (ring[1])
		prov_ring_init(&qp->rq, ring[1], &rep->rq, rep->cap.max_recv_wr,
			       rep->cap.max_recv_sge);
	return 0;
}

void
prov_qp_cap_in(struct ibv_qp_cap *to, const struct uroce_qp_cap *from)
{
	to->max_send_wr = from->max_send_wr;
	to->max_recv_wr = from->max_recv_wr;
	to->max_send_sge = from->max_send_sge;
	to->max_recv_sge = from->max_recv_sge;
	to->max_inline_data = from->max_inline;
}

static int
qp_request(struct prov_context *ctx, struct prov_qp *qp, const struct qp_wanted *w)
{
	struct uroce_create_qp_req req = {
		.user_handle = qp->ref.id,
		.qp_type = w->type,
		.pd = w->pd->handle,
		.send_cq = w->send_cq->handle,
		.recv_cq = w->recv_cq->handle,
		.srq = w->srq ? w->srq->handle + 1 : 0,
		.sq_sig_all = w->sig_all,
		.cap = {w->cap->max_send_wr, w->cap->max_recv_wr, w->cap->max_send_sge,
			w->cap->max_recv_sge, w->cap->max_inline_data},
	};
	struct uroce_create_qp_rep rep;
	struct ipc_call call = {
		.op = UROCE_CTRL_CREATE_QP,
		.req = &req,
		.req_len = sizeof(req),
		.rep = &rep,
		.rep_len = sizeof(rep),
	};
	const struct uroce_ring_loc *locs[] = {&rep.sq, &rep.rq};
	void *ring[2];
	const struct prov_rings rings = {
		.locs = locs,
		.hdr_bytes = UROCE_RING_HDR,
		.rings = ring,
		.n = 2,
	};
	int rc;

	rc = prov_call_rings(&ctx->vctx.context, &call, &rings);
	if (rc)
		return rc;
	rc = qp_attach(ctx, qp, &rep, ring);
	if (rc) {
		prov_call_destroy(&ctx->vctx.context, UROCE_CTRL_DESTROY_QP, rep.handle);
		return rc;
	}
	qp->qpn = rep.qpn;
	qp->max_inline = rep.cap.max_inline;
	qp->sig_all = w->sig_all;
	qp->first_worker = rep.worker;
	qp->worker = (ctx->ipc.features & UROCE_ABI_MOVES) != 0 ? &qp->sq.hdr->worker
								: &qp->first_worker;
	qp->state = IBV_QPS_RESET;
	qp->vqp.qp.handle = rep.handle;
	qp->vqp.qp.qp_num = rep.qpn;
	prov_qp_cap_in(w->cap, &rep.cap);
	return 0;
}

/* Initialises the public part, which some versions of libibverbs leave to the provider. */
static void
qp_init_public(struct ibv_qp *ibqp, const struct qp_wanted *w)
{
	ibqp->context = w->pd->context;
	ibqp->qp_context = w->qp_context;
	ibqp->pd = w->pd;
	ibqp->send_cq = w->send_cq;
	ibqp->recv_cq = w->recv_cq;
	ibqp->srq = w->srq;
	ibqp->qp_type = w->type;
	ibqp->state = IBV_QPS_RESET;
	pthread_mutex_init(&ibqp->mutex, NULL);
	pthread_cond_init(&ibqp->cond, NULL);
}

/* Creates a QP. Returns NULL with errno on failure. */
static struct prov_qp *
qp_create(const struct qp_wanted *w)
{
	struct prov_qp *qp;
	int rc;

	if (!w->send_cq || !w->recv_cq) {
		errno = EINVAL;
		return NULL;
	}
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return NULL;
	qp_init_public(&qp->vqp.qp, w);
	rc = prov_ref_add(&qp->ref, &qp->vqp.qp);
	if (rc == 0) {
		rc = qp_request(prov_context_of(w->pd->context), qp, w);
		if (rc)
			prov_ref_drop(&qp->ref);
	}
	if (rc) {
		free(qp);
		errno = rc;
		return NULL;
	}
	prov_pd_hold(w->pd);
	prov_daemon_lost_add_qp(prov_context_of(w->pd->context), qp);
	return qp;
}

struct ibv_qp *
prov_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct qp_wanted w = {
		.qp_context = attr->qp_context,
		.pd = pd,
		.send_cq = attr->send_cq,
		.recv_cq = attr->recv_cq,
		.srq = attr->srq,
		.cap = &attr->cap,
		.type = attr->qp_type,
		.sig_all = attr->sq_sig_all != 0,
	};
	struct prov_qp *qp = qp_create(&w);

	return qp ? &qp->vqp.qp : NULL;
}

struct ibv_qp *
prov_create_qp_ex(struct ibv_context *ibctx, struct ibv_qp_init_attr_ex *attr)
{
	const uint32_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS |
			       IBV_QP_INIT_ATTR_CREATE_FLAGS;
	bool wr_api = attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	struct qp_wanted w = {
		.qp_context = attr->qp_context,
		.pd = attr->pd,
		.send_cq = attr->send_cq,
		.recv_cq = attr->recv_cq,
		.srq = attr->srq,
		.cap = &attr->cap,
		.type = attr->qp_type,
		.sig_all = attr->sq_sig_all != 0,
	};
	struct prov_qp *qp;

	(void)ibctx;
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->pd) {
		errno = EINVAL;
		return NULL;
	}
	if ((attr->comp_mask & ~known) ||
	    ((attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) && attr->create_flags) ||
	    (wr_api && (attr->send_ops_flags & ~prov_wr_ops(attr->qp_type)))) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	qp = qp_create(&w);
	if (!qp)
		return NULL;
	if (wr_api)
		prov_wr_init(qp);
	return &qp->vqp.qp;
}

int
prov_destroy_qp(struct ibv_qp *ibqp)
{
	struct prov_qp *qp = prov_qp_of(ibqp);
	struct prov_context *ctx = prov_context_of(ibqp->context);
	int rc;

	prov_ud_wait_sent(ctx, qp);
	rc = prov_call_destroy(ibqp->context, UROCE_CTRL_DESTROY_QP, ibqp->handle);
	if (rc)
		return rc;
	prov_pd_drop(ibqp->pd);
	prov_daemon_lost_del_qp(ctx, qp);
	prov_qp_purge_cqs(qp);
	prov_ref_drop(&qp->ref);
	prov_event_purge(ctx, -1);
	prov_ref_free(ctx, &qp->ref, qp, NULL, &ibqp->events_completed, &ibqp->mutex, &ibqp->cond);
	return 0;
}

static int
qp_mcast(struct ibv_qp *ibqp, uint16_t op, const union ibv_gid *gid, uint16_t lid)
{
	struct uroce_mcast_req req = {.qp = ibqp->handle, .lid = lid};

	for (unsigned int i = 0; i < sizeof(req.gid); i++)
		req.gid[i] = gid->raw[i];
	return prov_call(ibqp->context, op, &req, sizeof(req), NULL, 0);
}

int
prov_attach_mcast(struct ibv_qp *ibqp, const union ibv_gid *gid, uint16_t lid)
{
	return qp_mcast(ibqp, UROCE_CTRL_ATTACH_MCAST, gid, lid);
}

int
prov_detach_mcast(struct ibv_qp *ibqp, const union ibv_gid *gid, uint16_t lid)
{
	return qp_mcast(ibqp, UROCE_CTRL_DETACH_MCAST, gid, lid);
}

/*
 * Not in order, for no operation: packets are stored in PSN order and the last bytes of each one
 * last (mem/store.h), so that programs may poll those; but other bytes of a packet in any order.
 * With flags the result is a set of capabilities, which is empty.
 */
int
prov_query_qp_data_in_order(struct ibv_qp *ibqp, enum ibv_wr_opcode op, uint32_t flags)
{
	(void)ibqp;
	(void)op;
	(void)flags;
	return 0;
}
