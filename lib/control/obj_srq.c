/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared receive queues. Each belongs to one worker, which also gets its QPs (qp/srq.h). */
#include <errno.h>
#include <stdlib.h>
#include "control/obj.h"
#include "control/ring.h"
#include "qp/lines.h"

#define SRQ_ATTR_MAX_WR 1 /* enum ibv_srq_attr_mask */
#define SRQ_ATTR_LIMIT  2

static void
srq_release(struct object *o)
{
	ipc_arena_free(o->s->arena, &((struct obj_srq *)o)->ext);
}

const struct object_kind srq_kind = {
	.table = offsetof(struct session, srqs),
	.quota = QUOTA_SRQS,
	.release = srq_release,
};

static struct qp_ring
srq_ring(const struct ipc_extent *ext, uint32_t entries, uint32_t stride, uint32_t max_sge)
{
	return (struct qp_ring){
		.hdr = (struct uroce_ring_hdr *)ext->base,
		.slots = ext->base + UROCE_RING_HDR,
		.mask = entries - 1,
		.stride = stride,
		.max_sge = max_sge,
	};
}

static int
srq_build(struct obj_srq *o, struct session *s, struct obj_pd *pd,
	  const struct uroce_create_srq_req *q)
{
	uint32_t entries = pow2_at_least(q->max_wr), stride = uroce_rq_stride(q->max_sge);
	int rc = object_add(&srq_kind, &o->o, s, pd);

	if (rc < 0)
		return -rc;
	rc = session_ring_alloc(s, UROCE_RING_HDR + (size_t)entries * stride, &o->ext);
	if (rc < 0) {
		object_drop(&srq_kind, &o->o);
		return -rc;
	}
	o->srq.rq = srq_ring(&o->ext, entries, stride, q->max_sge);
	o->srq.pd = pd->id;
	o->srq.srqn = o->o.handle;
	o->srq.limit = q->limit;
	o->srq.user_handle = q->user_handle;
	o->srq.owner = o;
	o->srq.worker = (uint16_t)(s->d->next_worker++ % s->d->nworkers);
	return 0;
}

/* Fills in the reply to a request that made the ring. */
static void
srq_tell(struct obj_srq *o, struct ctrl_rep *rp)
{
	struct uroce_create_srq_rep *rep = rp->body;

	rep->handle = o->o.handle;
	rep->srqn = o->srq.srqn;
	rep->max_wr = o->srq.rq.mask + 1;
	rep->max_sge = o->srq.rq.max_sge;
	ring_locate(&o->ext, o->srq.rq.mask + 1, o->srq.rq.stride, &rep->ring);
}

int
srq_create(struct session *s, const struct ctrl_req *req, struct ctrl_rep *rp)
{
	struct uroce_create_srq_req q = *(const struct uroce_create_srq_req *)req->body;
	struct obj_pd *pd = idtab_get(&s->pds, q.pd);
	struct obj_srq *o;
	int rc;

	if (pd == NULL)
		return ENOENT;
	if (q.max_wr == 0 || q.max_wr > QP_MAX_WR || q.max_sge > QP_MAX_SGE || q.limit > q.max_wr)
		return ctrl_refuse(rp, EINVAL,
				   "max_wr %u (1 .. %u), max_sge %u (0 .. %u) or srq_limit %u "
				   "(0 .. max_wr) is out of range",
				   q.max_wr, QP_MAX_WR, q.max_sge, QP_MAX_SGE, q.limit);
	q.max_sge = q.max_sge != 0 ? q.max_sge : 1;
	o = qp_lines_zalloc(sizeof(*o)); /* a worker writes it */
	if (o == NULL)
		return ENOMEM;
	rc = srq_build(o, s, pd, &q);
	if (rc != 0) {
		free(o);
		return rc;
	}
	srq_tell(o, rp);
	return 0;
}

/* Sets a limit. It is reached at once if the queue is already below it (SRQ-01, EVT-10). */
static bool
limit_set(struct srq *srq, uint32_t limit)
{
	uint32_t posted = __atomic_load_n(&srq->rq.hdr->prod, __ATOMIC_ACQUIRE) - srq->head;
	bool reached = limit != 0 && posted < limit;

	srq->limit = reached ? 0 : limit;
	return reached;
}

struct limit_call {
	struct srq *srq;
	uint32_t limit;
	bool reached;
};

static void
limit_on_worker(struct worker *w, void *arg)
{
	struct limit_call *c = arg;

	c->reached = limit_set(c->srq, c->limit);
}

int
srq_modify(struct session *s, const struct ctrl_req *req, struct ctrl_rep *rp)
{
	const struct uroce_modify_srq_req *q = req->body;
	struct obj_srq *o = idtab_get(&s->srqs, q->handle);
	struct limit_call c;

	if (o == NULL)
		return ENOENT;
	if (q->attr_mask & ~SRQ_ATTR_LIMIT)
		return ctrl_refuse(rp, EINVAL, "srq_attr_mask 0x%x has unknown bits", q->attr_mask);
	if (!(q->attr_mask & SRQ_ATTR_LIMIT))
		return 0;
	if (q->limit > o->srq.rq.mask + 1)
		return ctrl_refuse(rp, EINVAL, "srq_limit is %u, not in 0 .. %u", q->limit,
				   o->srq.rq.mask + 1);
	c = (struct limit_call){.srq = &o->srq, .limit = q->limit};
	worker_call(worker_get(s->d->workers, o->srq.worker), limit_on_worker, &c);
	if (c.reached)
		events_async_send(&s->async, o->srq.user_handle, QP_EVENT_SRQ_LIMIT_REACHED, 0);
	return 0;
}

struct resize_call {
	struct srq *srq;
	struct qp_ring to;
	uint32_t head, prod;
	uint32_t limit; /* of the SRQ; for the switch: the new one */
	bool sound, set_limit, reached;
};

static void
look_on_worker(struct worker *w, void *arg)
{
	struct resize_call *c = arg;

	c->sound = srq_look(c->srq, &c->head, &c->prod);
	c->limit = c->srq->limit;
}

static void
switch_on_worker(struct worker *w, void *arg)
{
	struct resize_call *c = arg;

	srq_switch(c->srq, &c->to, c->prod);
	if (c->set_limit)
		c->reached = limit_set(c->srq, c->limit);
}

/* Switches to a ring of another size and moves the posted WRs (SRQ-01, qp/srq.h). */
int
srq_resize(struct session *s, const struct ctrl_req *req, struct ctrl_rep *rp)
{
	const struct uroce_modify_srq_req *q = req->body;
	struct obj_srq *o = idtab_get(&s->srqs, q->handle);
	struct resize_call c = {0};
	struct ipc_extent ext;
	uint32_t entries, stride;
	struct worker *w;
	int rc;

	if (o == NULL)
		return ENOENT;
	if (!(q->attr_mask & SRQ_ATTR_MAX_WR) ||
	    (q->attr_mask & ~(SRQ_ATTR_MAX_WR | SRQ_ATTR_LIMIT)))
		return ctrl_refuse(rp, EINVAL, "srq_attr_mask 0x%x has unknown bits", q->attr_mask);
	if (q->max_wr == 0 || q->max_wr > QP_MAX_WR)
		return ctrl_refuse(rp, EINVAL, "max_wr is %u, not in 1 .. %u", q->max_wr,
				   QP_MAX_WR);
	w = worker_get(s->d->workers, o->srq.worker);
	c.srq = &o->srq;
	worker_call(w, look_on_worker, &c);
	c.set_limit = q->attr_mask & SRQ_ATTR_LIMIT;
	c.limit = c.set_limit ? q->limit : c.limit;
	if (!c.sound || c.prod - c.head > q->max_wr || c.limit > q->max_wr)
		return ctrl_refuse(rp, EINVAL,
				   "max_wr is %u, but %u receives are posted and srq_limit is %u",
				   q->max_wr, c.prod - c.head, c.limit);
	entries = pow2_at_least(q->max_wr);
	stride = o->srq.rq.stride;
	rc = session_ring_alloc(s, UROCE_RING_HDR + (size_t)entries * stride, &ext);
	if (rc < 0)
		return -rc;
	c.to = srq_ring(&ext, entries, stride, o->srq.rq.max_sge);
	srq_copy(&o->srq, &c.to, c.head, c.prod);
	worker_call(w, switch_on_worker, &c);
	ipc_arena_free(s->arena, &o->ext);
	o->ext = ext;
	if (c.reached)
		events_async_send(&s->async, o->srq.user_handle, QP_EVENT_SRQ_LIMIT_REACHED, 0);
	srq_tell(o, rp);
	return 0;
}

int
srq_query(struct session *s, const struct ctrl_req *req, struct ctrl_rep *rp)
{
	const struct uroce_handle *h = req->body;
	struct uroce_query_srq_rep *rep = rp->body;
	struct obj_srq *o = idtab_get(&s->srqs, h->handle);
	struct resize_call c = {0};

	if (o == NULL)
		return ENOENT;
	c.srq = &o->srq;
	worker_call(worker_get(s->d->workers, o->srq.worker), look_on_worker, &c);
	rep->max_wr = o->srq.rq.mask + 1;
	rep->max_sge = o->srq.rq.max_sge;
	rep->limit = c.limit;
	return 0;
}
