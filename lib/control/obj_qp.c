/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queue pairs: create and destroy. The control thread owns memory and tables; the owning worker
 * does its part by worker_call. obj_qp_modify.c has modify and query.
 */
#include <errno.h>
#include <stdlib.h>
#include "control/cm.h"
#include "control/device.h"
#include "control/obj.h"
#include "control/ring.h"

#define QPN_TRIES       256u
#define LIMIT_LOGGED_NS 600000000000ull

void
qp_comes(struct worker *w, struct qp *qp)
{
	struct obj_qp *q = qp->bind.owner;

	LIST_INSERT_HEAD(&q->o.s->worker_qps[worker_index(w)], q, worker_link);
}

void
qp_leaves(struct worker *w, struct qp *qp)
{
	struct obj_qp *q = qp->bind.owner, **scan = &q->o.s->worker_scan[worker_index(w)];

	if (*scan == q)
		*scan = LIST_NEXT(q, worker_link);
	LIST_REMOVE(q, worker_link);
}

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
		qp_comes(w, c->q->qp);
}

static void
forget_on_worker(struct worker *w, struct obj_qp *q)
{
	worker_forget_qp(w, q->qp);
	qp_leaves(w, q->qp);
}

static void
share_on_worker(struct worker *w, void *arg)
{
	struct cq *cq = arg;

	__atomic_store_n(&cq->multi, true, __ATOMIC_RELAXED);
}

/*
 * Lets QPs of worker w complete to cq. If only QPs of another worker did so far, that worker must
 * switch to atomic posting first, between two of its bursts.
 */
static void
cq_serve(struct obj_cq *cq, uint32_t w)
{
	if (cq->worker < 0)
		cq->worker = (int32_t)w;
	else if (cq->worker != (int32_t)w && !__atomic_load_n(&cq->cq.multi, __ATOMIC_RELAXED))
		worker_call(worker_get(cq->o.s->d->workers, (unsigned)cq->worker), share_on_worker,
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
		ring_alloc(q->o.s, c->cap.max_send_wr,
			   uroce_sq_stride(c->cap.max_send_sge, c->cap.max_inline), &q->sq, &c->sq);

	if (rc == 0 && q->srq == NULL)
		rc = ring_alloc(q->o.s, c->cap.max_recv_wr, uroce_rq_stride(c->cap.max_recv_sge),
				&q->rq, &c->rq);
	c->sq.max_sge = c->cap.max_send_sge;
	c->sq.max_inline = c->cap.max_inline;
	c->rq.max_sge = c->cap.max_recv_sge;
	return rc;
}

/* Takes a QPN of worker that no connection in TIMEWAIT holds. Returns true on success. */
static bool
qpn_of_worker(const struct device *dev, uint32_t worker, uint32_t *qpn)
{
	/* A slot has consecutive QPNs, few of which are held by connections. */
	for (uint32_t i = 0; i < QPN_TRIES; i++) {
		if (qpn_take(&dev->d->qpns, worker, qpn) != 0)
			return false;
		if (ucma_qpn_is_free(dev, *qpn))
			return true;
	}
	return false;
}

/* Takes a QPN of the next worker, round robin, that has one. */
static int
qpn_next(const struct device *dev, const struct obj_srq *srq, uint32_t *qpn)
{
	struct daemon *d = dev->d;

	/* The QPs of an SRQ belong to its worker. */
	if (srq != NULL)
		return qpn_of_worker(dev, srq->srq.worker, qpn) ? 0 : ENOMEM;
	for (uint32_t i = 0; i < d->nworkers; i++) {
		if (qpn_of_worker(dev, d->next_worker++ % d->nworkers, qpn))
			return 0;
	}
	return ENOMEM;
}

/* Builds the QP, its rings and its part of a worker; not visible to packets yet. */
static int
qp_build(struct obj_qp *q, struct qp_create *c)
{
	struct daemon *d = q->o.s->d;
	struct adopt_call adopt = {.q = q};
	int rc = rings_alloc(q, c);

	if (rc != 0)
		return rc;
	rc = qpn_next(q->o.s->dev, q->srq, &c->qpn);
	if (rc != 0)
		return rc;
	c->worker = (uint16_t)qp_table_owner(&d->qps, c->qpn);
	c->counters = worker_counters(worker_get(d->workers, c->worker), c->port);
	c->sq.hdr->worker = c->worker;
	c->huge = d->huge;
	c->fixed = (q->o.s->features & UROCE_ABI_MOVES) == 0;
	q->qp = qp_create(c);
	if (q->qp == NULL)
		return ENOMEM;
	q->qp->bind.owner = q;
	cq_serve(q->send_cq, c->worker);
	cq_serve(q->recv_cq, c->worker);
	worker_call(worker_get(d->workers, c->worker), adopt_on_worker, &adopt);
	return -adopt.rc;
}

static void
qp_publish(struct obj_qp *q)
{
	struct daemon *d = q->o.s->d;

	__atomic_store_n(&d->qps.slot[q->qp->conn.qpn & d->qps.mask], q->qp, __ATOMIC_RELEASE);
	TAILQ_INSERT_TAIL(&q->o.s->dev->qps, q, dev_link);
	q->send_cq->o.refs++;
	q->recv_cq->o.refs++;
	if (q->srq != NULL)
		q->srq->o.refs++;
}

/* Removes the QP from all tables, so that no packet finds it. Its worker still has it. */
static void
qp_hide(struct object *o)
{
	struct obj_qp *q = (struct obj_qp *)o;
	struct daemon *d = o->s->d;

	mcast_leave(q);
	qp_conn_keys_unref(q);
	qpn_hold(&d->qpns, q->qp->conn.qpn);
	__atomic_store_n(&d->qps.slot[q->qp->conn.qpn & d->qps.mask], NULL, __ATOMIC_RELEASE);
	TAILQ_REMOVE(&q->o.s->dev->qps, q, dev_link);
	q->send_cq->o.refs--;
	q->recv_cq->o.refs--;
	if (q->srq != NULL)
		q->srq->o.refs--;
}

static bool
leave_on_worker(struct worker *w, void *arg)
{
	forget_on_worker(w, arg);
	return true;
}

static struct worker_job *
qp_leave(struct object *o)
{
	struct obj_qp *q = (struct obj_qp *)o;

	q->job = (struct worker_job){.run = leave_on_worker, .arg = q, .qp = q->qp};
	worker_post(obj_qp_worker(q), &q->job);
	return &q->job;
}

static void
qp_release(struct object *o)
{
	struct obj_qp *q = (struct obj_qp *)o;

	ipc_arena_free(o->s->arena, &q->sq);
	if (q->srq == NULL)
		ipc_arena_free(o->s->arena, &q->rq);
	if (q->qp != NULL)
		qp_history_add(&o->s->d->kept, q);
	if (q->qp != NULL)
		qpn_release(&o->s->d->qpns, q->qp->conn.qpn);
	qp_free(q->qp);
}

const struct object_kind qp_kind = {
	.table = offsetof(struct session, qps),
	.quota = QUOTA_QPS,
	.hide = qp_hide,
	.leave = qp_leave,
	.release = qp_release,
};

/*
 * Names the first capability that is above its limit. Each process of a job may search for the
 * limits by asking for more, and go on: the log names a limit at most once in ten minutes while the
 * user has clients.
 */
static void
refuse_cap(struct ctrl_rep *rp, struct quota_user *u, const struct uroce_qp_cap *cap)
{
	const struct {
		const char *name;
		uint32_t value, limit;
	} caps[QUOTA_QP_LIMITS] = {{"max_send_wr", cap->max_send_wr, QP_MAX_WR},
				   {"max_recv_wr", cap->max_recv_wr, QP_MAX_WR},
				   {"max_send_sge", cap->max_send_sge, QP_MAX_SGE},
				   {"max_recv_sge", cap->max_recv_sge, QP_MAX_SGE},
				   {"max_inline_data", cap->max_inline, QP_MAX_INLINE}};

	uint64_t now = daemon_now_ns();

	for (unsigned i = 0; i < QUOTA_QP_LIMITS; i++) {
		uint64_t *said = &u->qp_refused_ns[i];

		if (caps[i].value <= caps[i].limit)
			continue;
		ctrl_refuse(rp, EINVAL, "%s is %u, above %u", caps[i].name, caps[i].value,
			    caps[i].limit);
		rp->quiet = *said != 0 && now - *said < LIMIT_LOGGED_NS;
		if (!rp->quiet)
			*said = now;
		return;
	}
}

/* Looks up the objects of the request and fills in *c. */
static int
qp_prepare(struct obj_qp *q, struct session *s, struct obj_pd *pd,
	   const struct uroce_create_qp_req *req, struct qp_create *c, struct ctrl_rep *rp)
{
	struct uroce_qp_cap cap = req->cap;
	int rc;

	if (req->qp_type != QP_TYPE_RC && req->qp_type != QP_TYPE_UC && req->qp_type != QP_TYPE_UD)
		return EOPNOTSUPP;
	if (req->srq != 0) {
		q->srq = idtab_get(&s->srqs, req->srq - 1);
		if (q->srq == NULL)
			return ENOENT;
		if (req->qp_type == QP_TYPE_UC)
			return ctrl_refuse(rp, EINVAL, "a UC QP has no SRQ");
		c->srq = &q->srq->srq;
		cap.max_recv_wr = cap.max_recv_sge = 0; /* ignore the client's values */
	}
	c->ahs = &s->ahs;
	c->pkeys = s->dev->pkey;
	c->dev_mtu = s->dev->max_mtu;
	c->cc = &s->dev->cc;
	c->plain = s->dev->plain;
	q->send_cq = idtab_get(&s->cqs, req->send_cq);
	q->recv_cq = idtab_get(&s->cqs, req->recv_cq);
	if (pd == NULL || q->send_cq == NULL || q->recv_cq == NULL)
		return ENOENT;
	c->type = req->qp_type;
	c->port = s->dev->port.id;
	c->pd = pd->id;
	c->uid = s->user->id;
	c->send_cq = &q->send_cq->cq;
	c->recv_cq = &q->recv_cq->cq;
	c->sig_all = req->sq_sig_all != 0;
	c->user_handle = req->user_handle;
	rc = qp_cap_grant(&cap, &c->cap);
	if (rc != 0)
		refuse_cap(rp, s->user, &cap);
	if (q->srq != NULL)
		c->cap.max_recv_wr = c->cap.max_recv_sge = 0;
	return rc;
}

int
qp_obj_create(struct session *s, const struct ctrl_req *req, struct ctrl_rep *rp)
{
	const struct uroce_create_qp_req *r = req->body;
	struct uroce_create_qp_rep *rep = rp->body;
	struct obj_pd *pd = idtab_get(&s->pds, r->pd);
	struct qp_create c = {0};
	struct obj_qp *q = calloc(1, sizeof(*q));
	int rc;

	if (q == NULL)
		return ENOMEM;
	rc = qp_prepare(q, s, pd, r, &c, rp);
	if (rc == 0)
		rc = session_doorbells_poll(s, rp);
	if (rc == 0)
		rc = -object_add(&qp_kind, &q->o, s, pd);
	if (rc != 0) {
		free(q);
		return rc;
	}
	rc = qp_build(q, &c);
	if (rc != 0) {
		qp_release(&q->o);
		object_drop(&qp_kind, &q->o);
		free(q);
		return rc;
	}
	qp_publish(q);
	rep->handle = q->o.handle;
	rep->qpn = c.qpn;
	rep->worker = c.worker;
	rep->cap = c.cap;
	ring_locate(&q->sq, c.cap.max_send_wr, c.sq.stride, &rep->sq);
	if (q->srq == NULL)
		ring_locate(&q->rq, c.cap.max_recv_wr, c.rq.stride, &rep->rq);
	return 0;
}

#define FORGET_QPS 64u

bool
qp_forget_some(struct worker *w, struct session *s)
{
	struct session_qps *qps = &s->worker_qps[worker_index(w)];
	struct obj_qp *q;

	for (uint32_t i = 0; i < FORGET_QPS && (q = LIST_FIRST(qps)) != NULL; i++)
		forget_on_worker(w, q);
	return LIST_EMPTY(qps);
}
