/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queue pairs: making and destroying them. The control thread has the memory and the tables, the
 * owning worker its part by worker_call. What happens in between is in obj_qp_modify.c.
 */
#include <errno.h>
#include <stdlib.h>
#include "control/device.h"
#include "control/obj.h"
#include "control/ring.h"

struct adopt_call {
	struct obj_qp *q;
	int rc;
};

static void
adopt_on_worker(struct worker *w, void *arg)
{
	struct adopt_call *c = arg;

	c->rc = worker_adopt_qp(w, c->q->qp);
	if (c->rc == 0)
		LIST_INSERT_HEAD(&c->q->s->worker_qps[worker_index(w)], c->q, worker_link);
}

static void
forget_on_worker(struct worker *w, void *arg)
{
	struct obj_qp *q = arg;

	struct obj_qp **scan = &q->s->worker_scan[worker_index(w)];

	worker_forget_qp(w, q->qp);
	if (*scan == q)
		*scan = LIST_NEXT(q, worker_link);
	LIST_REMOVE(q, worker_link);
}

static void
share_on_worker(struct worker *w, void *arg)
{
	struct cq *cq = arg;

	cq->multi = true;
}

/*
 * QPs of worker w will complete to cq. When those of another did alone so far, that one must take
 * to atomic posting first, between two of its bursts.
 */
static void
cq_serve(struct obj_cq *cq, uint32_t w)
{
	if (cq->worker < 0)
		cq->worker = (int32_t)w;
	else if (cq->worker != (int32_t)w && !cq->cq.multi)
		worker_call(worker_get(cq->s->d->workers, (unsigned)cq->worker), share_on_worker,
			    &cq->cq);
}

static int
ring_alloc(struct session *s, uint32_t entries, uint32_t stride, struct ipc_extent *ext,
	   struct qp_ring *ring)
{
	int rc = session_ring_alloc(s, UROCE_RING_HDR + (size_t)entries * stride, ext);

	if (rc < 0)
		return -rc;
	ring->hdr = (struct uroce_ring_hdr *)ext->base;
	ring->slots = ext->base + UROCE_RING_HDR;
	ring->mask = entries - 1;
	ring->stride = stride;
	return 0;
}

static int
rings_alloc(struct obj_qp *q, struct qp_create *c)
{
	int rc =
		ring_alloc(q->s, c->cap.max_send_wr,
			   uroce_sq_stride(c->cap.max_send_sge, c->cap.max_inline), &q->sq, &c->sq);

	if (rc == 0 && q->srq == NULL)
		rc = ring_alloc(q->s, c->cap.max_recv_wr, uroce_rq_stride(c->cap.max_recv_sge),
				&q->rq, &c->rq);
	c->sq.max_sge = c->cap.max_send_sge;
	c->sq.max_inline = c->cap.max_inline;
	c->rq.max_sge = c->cap.max_recv_sge;
	return rc;
}

/* A QPN of the next worker in turn that has one. */
static int
qpn_next(struct daemon *d, const struct obj_srq *srq, uint32_t *qpn)
{
	/* The QPs of an SRQ live where it does. */
	if (srq != NULL)
		return qpn_take(&d->qpns, srq->srq.worker, qpn) == 0 ? 0 : ENOMEM;
	for (uint32_t i = 0; i < d->nworkers; i++) {
		if (qpn_take(&d->qpns, d->next_worker++ % d->nworkers, qpn) == 0)
			return 0;
	}
	return ENOMEM;
}

/* The QP itself, its rings and its place on a worker; not yet visible to anybody. */
static int
qp_build(struct obj_qp *q, struct qp_create *c)
{
	struct daemon *d = q->s->d;
	struct adopt_call adopt = {.q = q};
	int rc = rings_alloc(q, c);

	if (rc != 0)
		return rc;
	rc = qpn_next(d, q->srq, &c->qpn);
	if (rc != 0)
		return rc;
	c->worker = (uint16_t)qp_table_owner(&d->qps, c->qpn);
	c->obs = worker_obs(worker_get(d->workers, c->worker), c->port);
	c->huge = d->huge;
	q->qp = qp_create(c);
	if (q->qp == NULL)
		return ENOMEM;
	q->qp->bind.owner = q;
	cq_serve(q->send_cq, c->worker);
	cq_serve(q->recv_cq, c->worker);
	worker_call(obj_qp_worker(q), adopt_on_worker, &adopt);
	return -adopt.rc;
}

static void
qp_publish(struct obj_qp *q)
{
	struct daemon *d = q->s->d;

	__atomic_store_n(&d->qps.slot[q->qp->conn.qpn & d->qps.mask], q->qp, __ATOMIC_RELEASE);
	TAILQ_INSERT_TAIL(&q->s->dev->qps, q, dev_link);
	q->pd->refs++;
	q->send_cq->refs++;
	q->recv_cq->refs++;
	if (q->srq != NULL)
		q->srq->refs++;
}

/* Out of every table: no packet finds it from now on. Its worker still has it. */
static void
qp_unpublish(struct obj_qp *q)
{
	struct daemon *d = q->s->d;

	mcast_leave(q);
	qp_triples_release(q);
	__atomic_store_n(&d->qps.slot[q->qp->conn.qpn & d->qps.mask], NULL, __ATOMIC_RELEASE);
	TAILQ_REMOVE(&q->s->dev->qps, q, dev_link);
	q->pd->refs--;
	q->send_cq->refs--;
	q->recv_cq->refs--;
	if (q->srq != NULL)
		q->srq->refs--;
}

static void
qp_obj_free(struct obj_qp *q)
{
	struct session *s = q->s;

	ipc_arena_free(s->arena, &q->sq);
	if (q->srq == NULL)
		ipc_arena_free(s->arena, &q->rq);
	quota_give(s->user, QUOTA_QPS, 1);
	idtab_del(&s->qps, q->handle);
	qp_free(q->qp);
	free(q);
}

/* Look up what the request names and fill in what the QP is made from. */
static int
qp_prepare(struct obj_qp *q, const struct uroce_create_qp_req *req, struct qp_create *c)
{
	struct uroce_qp_cap cap = req->cap;
	struct session *s = q->s;
	int rc;

	if (req->qp_type != QP_TYPE_RC && req->qp_type != QP_TYPE_UC && req->qp_type != QP_TYPE_UD)
		return EOPNOTSUPP;
	if (req->srq != 0) {
		q->srq = idtab_get(&s->srqs, req->srq - 1);
		if (q->srq == NULL)
			return ENOENT;
		if (req->qp_type == QP_TYPE_UC)
			return EINVAL; /* ibv_create_qp(3): RC and UD alone have SRQs */
		c->srq = &q->srq->srq;
		cap.max_recv_wr = cap.max_recv_sge = 0; /* whatever the client left there */
	}
	c->ahs = &s->ahs;
	c->pkeys = s->dev->pkey;
	c->dev_mtu = s->dev->max_mtu;
	q->pd = idtab_get(&s->pds, req->pd);
	q->send_cq = idtab_get(&s->cqs, req->send_cq);
	q->recv_cq = idtab_get(&s->cqs, req->recv_cq);
	if (q->pd == NULL || q->send_cq == NULL || q->recv_cq == NULL)
		return ENOENT;
	c->type = req->qp_type;
	c->port = s->dev->port.id;
	c->pd = q->pd->id;
	c->send_cq = &q->send_cq->cq;
	c->recv_cq = &q->recv_cq->cq;
	c->sig_all = req->sq_sig_all != 0;
	c->user_handle = req->user_handle;
	rc = qp_cap_grant(&cap, &c->cap);
	if (q->srq != NULL)
		c->cap.max_recv_wr = c->cap.max_recv_sge = 0;
	return rc;
}

int
qp_obj_create(struct session *s, const struct ctrl_req *req, struct ctrl_rep *rp)
{
	const struct uroce_create_qp_req *r = req->body;
	struct uroce_create_qp_rep *rep = rp->body;
	struct qp_create c = {0};
	struct obj_qp *q = calloc(1, sizeof(*q));
	int rc;

	if (q == NULL)
		return ENOMEM;
	q->s = s;
	rc = qp_prepare(q, r, &c);
	if (rc == 0)
		rc = -quota_take(s->user, QUOTA_QPS, 1);
	if (rc == 0 && idtab_add(&s->qps, q, &q->handle) < 0) {
		quota_give(s->user, QUOTA_QPS, 1);
		rc = ENOMEM;
	}
	if (rc != 0) {
		free(q);
		return rc;
	}
	rc = qp_build(q, &c);
	if (rc != 0) {
		qp_obj_free(q);
		return rc;
	}
	qp_publish(q);
	rep->handle = q->handle;
	rep->qpn = c.qpn;
	rep->worker = c.worker;
	rep->cap = c.cap;
	ctrl_rep_ring(rp, s, &q->sq, c.cap.max_send_wr, c.sq.stride, &rep->sq);
	if (q->srq == NULL)
		ctrl_rep_ring(rp, s, &q->rq, c.cap.max_recv_wr, c.rq.stride, &rep->rq);
	return 0;
}

int
qp_obj_destroy(struct session *s, const struct ctrl_req *req, struct ctrl_rep *rp)
{
	const struct uroce_handle *h = req->body;
	struct obj_qp *q = idtab_get(&s->qps, h->handle);

	if (q == NULL)
		return ENOENT;
	if (q->nmembers != 0)
		return EBUSY; /* ibv_destroy_qp(3): not while it is attached to a group */
	qp_unpublish(q);
	worker_call(obj_qp_worker(q), forget_on_worker, q);
	worker_quiesce(s->d->workers);
	qp_obj_free(q);
	return 0;
}

/* As many as a call takes off its worker: other QPs' traffic waits meanwhile. */
#define FORGET_QPS 64u

static void
forget_some_on_worker(struct worker *w, void *arg)
{
	struct session *s = arg;
	struct obj_qp *q;

	for (uint32_t i = 0; i < FORGET_QPS; i++) {
		q = LIST_FIRST(&s->worker_qps[worker_index(w)]);
		if (q == NULL)
			return;
		forget_on_worker(w, q);
	}
}

void
qp_detach_all(struct session *s)
{
	struct obj_qp *q;
	uint32_t pos = 0;

	while ((q = idtab_next(&s->qps, &pos)) != NULL)
		qp_unpublish(q);
	/* Many a call: a call waits for its worker, and the other clients for this thread. */
	for (unsigned i = 0; i < worker_count(s->d->workers); i++) {
		while (!LIST_EMPTY(&s->worker_qps[i]))
			worker_call(worker_get(s->d->workers, i), forget_some_on_worker, s);
	}
}

void
qp_free_all(struct session *s)
{
	struct obj_qp *q;
	uint32_t pos = 0;

	while ((q = idtab_next(&s->qps, &pos)) != NULL)
		qp_obj_free(q);
}
