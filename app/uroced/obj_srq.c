/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared receive queues. Each belongs to one worker, and its QPs are put there, too (qp/srq.h). */
#include <errno.h>
#include <stdlib.h>
#include "session.h"

#define SRQ_ATTR_MAX_WR 1 /* enum ibv_srq_attr_mask */
#define SRQ_ATTR_LIMIT  2

static void
srq_free(struct obj_srq *o)
{
	struct session *s = o->s;

	o->pd->refs--;
	idtab_del(&s->srqs, o->handle);
	ipc_arena_free(s->arena, &o->ext);
	free(o);
}

static int
srq_build(struct obj_srq *o, const struct uroce_create_srq_req *q)
{
	struct session *s = o->s;
	uint32_t entries = pow2_at_least(q->max_wr), stride = uroce_rq_stride(q->max_sge);
	int rc = ipc_arena_alloc(s->arena, UROCE_RING_HDR + (size_t)entries * stride, &o->ext);

	if (rc < 0)
		return -rc;
	if (idtab_add(&s->srqs, o, &o->handle) < 0) {
		ipc_arena_free(s->arena, &o->ext);
		return ENOMEM;
	}
	o->srq.rq = (struct qp_ring){
		.hdr = (struct uroce_ring_hdr *)o->ext.base,
		.slots = o->ext.base + UROCE_RING_HDR,
		.mask = entries - 1,
		.stride = stride,
		.max_sge = q->max_sge,
	};
	o->srq.pd = o->pd->id;
	o->srq.srqn = o->handle;
	o->srq.limit = q->limit;
	o->srq.user_handle = q->user_handle;
	o->srq.owner = o;
	o->srq.worker = (uint16_t)(s->d->next_worker++ & (s->d->nworkers - 1));
	return 0;
}

int
srq_create(struct session *s, const struct ctrl_req *req, struct ctrl_rep *rp)
{
	struct uroce_create_srq_req q = *(const struct uroce_create_srq_req *)req->body;
	struct uroce_create_srq_rep *rep = rp->body;
	struct obj_pd *pd = idtab_get(&s->pds, q.pd);
	struct obj_srq *o;
	int rc;

	if (pd == NULL)
		return ENOENT;
	if (q.max_wr == 0 || q.max_wr > QP_MAX_WR || q.max_sge > QP_MAX_SGE || q.limit > q.max_wr)
		return EINVAL;
	q.max_sge = q.max_sge != 0 ? q.max_sge : 1;
	o = calloc(1, sizeof(*o));
	if (o == NULL)
		return ENOMEM;
	o->s = s;
	o->pd = pd;
	rc = srq_build(o, &q);
	if (rc != 0) {
		free(o);
		return rc;
	}
	pd->refs++;
	rep->handle = o->handle;
	rep->srqn = o->srq.srqn;
	rep->max_wr = o->srq.rq.mask + 1;
	rep->max_sge = q.max_sge;
	ctrl_rep_ring(rp, s, &o->ext, o->srq.rq.mask + 1, o->srq.rq.stride, &rep->ring);
	return 0;
}

struct limit_call {
	struct srq *srq;
	uint32_t limit;
	bool reached;
};

/* A limit that the queue is below already is reached at once (SRQ-01, EVT-10). */
static void
limit_on_worker(struct worker *w, void *arg)
{
	struct limit_call *c = arg;
	uint32_t posted = __atomic_load_n(&c->srq->rq.hdr->prod, __ATOMIC_ACQUIRE) - c->srq->head;

	c->reached = c->limit != 0 && posted < c->limit;
	c->srq->limit = c->reached ? 0 : c->limit;
}

int
srq_modify(struct session *s, const struct ctrl_req *req, struct ctrl_rep *rp)
{
	const struct uroce_modify_srq_req *q = req->body;
	struct obj_srq *o = idtab_get(&s->srqs, q->handle);
	struct limit_call c;

	if (o == NULL)
		return ENOENT;
	if (q->attr_mask & ~(SRQ_ATTR_MAX_WR | SRQ_ATTR_LIMIT))
		return EINVAL;
	if (q->attr_mask & SRQ_ATTR_MAX_WR)
		return EOPNOTSUPP; /* the device does not claim IBV_DEVICE_SRQ_RESIZE */
	if (!(q->attr_mask & SRQ_ATTR_LIMIT))
		return 0;
	if (q->limit > o->srq.rq.mask + 1)
		return EINVAL;
	c = (struct limit_call){.srq = &o->srq, .limit = q->limit};
	worker_call(worker_get(s->d->workers, o->srq.worker), limit_on_worker, &c);
	if (c.reached)
		events_async_send(&s->async, o->srq.user_handle, QP_EVENT_SRQ_LIMIT_REACHED);
	return 0;
}

int
srq_query(struct session *s, const struct ctrl_req *req, struct ctrl_rep *rp)
{
	const struct uroce_handle *h = req->body;
	struct uroce_query_srq_rep *rep = rp->body;
	struct obj_srq *o = idtab_get(&s->srqs, h->handle);

	if (o == NULL)
		return ENOENT;
	rep->max_wr = o->srq.rq.mask + 1;
	rep->max_sge = o->srq.rq.max_sge;
	rep->limit = o->srq.limit;
	return 0;
}

int
srq_destroy(struct session *s, const struct ctrl_req *req, struct ctrl_rep *rp)
{
	const struct uroce_handle *h = req->body;
	struct obj_srq *o = idtab_get(&s->srqs, h->handle);

	if (o == NULL)
		return ENOENT;
	if (o->refs != 0)
		return EBUSY;
	srq_free(o);
	return 0;
}

void
srq_free_all(struct session *s)
{
	struct obj_srq *o;
	uint32_t pos = 0;

	while ((o = idtab_next(&s->srqs, &pos)) != NULL)
		srq_free(o);
}
