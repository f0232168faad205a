/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion queues and their channels. */
#include <errno.h>
#include <stdlib.h>
#include "control/obj.h"
#include "control/ring.h"
#include "qp/lines.h"
#include "qp/retire.h"

static void
channel_release(struct object *o)
{
	events_channel_close(&((struct obj_channel *)o)->ch);
	quota_give(o->s->user, QUOTA_FDS, 1);
}

const struct object_kind channel_kind = {
	.table = offsetof(struct session, channels),
	.quota = QUOTA_CHANNELS,
	.release = channel_release,
};

/* Detaches the CQs, which may outlive it: a program can close its descriptor at any time. */
static void
channel_closed(struct events_channel *ech)
{
	struct obj_channel *ch = WATCH_OF(ech, struct obj_channel, ch);
	struct obj_cq *cq;
	uint32_t pos = 0;

	while (ch->o.refs > 0 && (cq = idtab_next(&ch->o.s->cqs, &pos)) != NULL) {
		if (cq->channel != ch)
			continue;
		events_channel_forget(ech, cq);
		cq->channel = NULL;
		ch->o.refs--;
	}
	object_free(&channel_kind, &ch->o);
}

int
channel_create(struct session *s, const struct ctrl_req *req, struct ctrl_rep *rp)
{
	struct uroce_channel_rep *rep = rp->body;
	struct obj_channel *ch = calloc(1, sizeof(*ch));
	int client_fd, rc;

	if (ch == NULL)
		return ENOMEM;
	ch->ch.closed = channel_closed;
	rc = object_add(&channel_kind, &ch->o, s, NULL);
	if (rc < 0)
		goto fail;
	rc = quota_take(s->user, QUOTA_FDS, 1);
	if (rc < 0)
		goto fail_object;
	rc = events_channel_open(&ch->ch, s->d, &client_fd);
	if (rc < 0)
		goto fail_fds;
	rep->handle = ch->o.handle;
	ctrl_rep_fd(rp, client_fd, true);
	return 0;

fail_fds:
	quota_give(s->user, QUOTA_FDS, 1);
fail_object:
	object_drop(&channel_kind, &ch->o);
fail:
	free(ch);
	return -rc;
}

static void
cq_release(struct object *o)
{
	struct obj_cq *cq = (struct obj_cq *)o;

	if (cq->channel != NULL) {
		events_channel_forget(&cq->channel->ch, cq);
		cq->channel->o.refs--;
	}
	idtab_del(&o->s->d->cqs, cq->cq.id);
	ipc_arena_free(o->s->arena, &cq->ext);
	if (cq->old.base != NULL)
		ipc_arena_free(o->s->arena, &cq->old);
}

const struct object_kind cq_kind = {
	.table = offsetof(struct session, cqs),
	.quota = QUOTA_CQS,
	.release = cq_release,
};

/* Allocates ring, handle and id of a new CQ. */
static int
cq_register(struct session *s, struct obj_cq *cq, uint32_t entries)
{
	size_t bytes = UROCE_CQ_HDR + (size_t)entries * sizeof(struct uroce_cqe);
	int rc = object_add(&cq_kind, &cq->o, s, NULL);

	if (rc < 0)
		return -rc;
	rc = session_ring_alloc(s, bytes, &cq->ext);
	if (rc < 0)
		goto fail_object;
	if (idtab_add(&s->d->cqs, cq, &cq->cq.id) < 0) {
		rc = -ENOMEM;
		goto fail_ext;
	}
	cq_init(&cq->cq, (struct uroce_cq_hdr *)cq->ext.base, entries);
	cq->cq.waiter = &session_doorbell(s, 0)->waiter;
	cq->cq.user = qp_user_place(s->user->id);
	return 0;

fail_ext:
	ipc_arena_free(s->arena, &cq->ext);
fail_object:
	object_drop(&cq_kind, &cq->o);
	return -rc;
}

int
cq_create(struct session *s, const struct ctrl_req *req, struct ctrl_rep *rp)
{
	const struct uroce_create_cq_req *q = req->body;
	struct uroce_create_cq_rep *rep = rp->body;
	struct obj_channel *ch = NULL;
	struct obj_cq *cq;
	int rc;

	if (q->cqe == 0 || q->cqe > EVENTS_MAX_CQE)
		return ctrl_refuse(rp, EINVAL, "cqe is %u, not in 1 .. %u", q->cqe, EVENTS_MAX_CQE);
	if (q->channel != 0) {
		ch = idtab_get(&s->channels, q->channel - 1);
		if (ch == NULL)
			return ENOENT;
	}
	cq = qp_lines_zalloc(sizeof(*cq)); /* a worker writes it */
	if (cq == NULL)
		return ENOMEM;
	cq->worker = -1;
	cq->cq.user_handle = q->user_handle;
	cq->cq.owner = cq;
	rc = cq_register(s, cq, pow2_at_least(q->cqe));
	if (rc != 0) {
		free(cq);
		return rc;
	}
	cq->channel = ch;
	if (ch != NULL)
		ch->o.refs++;
	rep->handle = cq->o.handle;
	ring_locate(&cq->ext, cq->cq.ring->mask + 1, sizeof(struct uroce_cqe), &rep->ring);
	return 0;
}

/* Returns the number of completions not polled, including those of WRs posted before this call. */
static uint32_t
cq_waiting(struct obj_cq *cq)
{
	struct worker_set *ws = cq->o.s->d->workers;
	const struct cq_ring *r = cq->cq.ring;

	/* Twice: a doorbell rung before the first call is served before the second. */
	worker_quiesce(ws);
	worker_quiesce(ws);
	/* The client writes cons: a wrong value harms only its own completions. */
	return r->prod - __atomic_load_n(&r->hdr->cons, __ATOMIC_RELAXED);
}

/*
 * Switches to a new ring (CQ-02). The client reads the rest of the old ring first; the daemon keeps
 * the old ring until the next resize or the end.
 */
int
cq_resize_obj(struct session *s, const struct ctrl_req *req, struct ctrl_rep *rp)
{
	const struct uroce_resize_cq_req *q = req->body;
	struct uroce_create_cq_rep *rep = rp->body;
	struct obj_cq *cq = idtab_get(&s->cqs, q->handle);
	struct ipc_extent ext;
	uint32_t entries, waiting;
	int rc;

	if (cq == NULL)
		return ENOENT;
	if (q->cqe == 0 || q->cqe > EVENTS_MAX_CQE)
		return ctrl_refuse(rp, EINVAL, "cqe is %u, not in 1 .. %u", q->cqe, EVENTS_MAX_CQE);
	waiting = cq_waiting(cq);
	if (waiting > q->cqe)
		return ctrl_refuse(rp, EINVAL, "cqe is %u, but %u completions wait in the CQ",
				   q->cqe, waiting);
	entries = pow2_at_least(q->cqe);
	rc = session_ring_alloc(s, UROCE_CQ_HDR + (size_t)entries * sizeof(struct uroce_cqe), &ext);
	if (rc < 0)
		return -rc;
	if (cq->old.base != NULL)
		ipc_arena_free(s->arena, &cq->old);
	cq_resize(&cq->cq, (struct uroce_cq_hdr *)ext.base, entries);
	worker_quiesce(s->d->workers);
	cq_resized(&cq->cq);
	cq->old = cq->ext;
	cq->ext = ext;
	rep->handle = cq->o.handle;
	ring_locate(&cq->ext, entries, sizeof(struct uroce_cqe), &rep->ring);
	return 0;
}

static void
fail_on_worker(struct worker *w, void *arg)
{
	const struct qp_batch_part *p = arg;
	const enum uroce_error *why = p->arg;
	struct qp_env *env = &worker_engine(w)->env;

	for (unsigned i = 0; i < p->n; i++) {
		env->counters = p->q[i]->qp->bind.counters;
		qp_fatal(env, p->q[i]->qp, *why);
		qp_env_flush(env);
	}
}

/* Moves the QPs of s to ERR that use cq or srq; either may be NULL. */
static void
fail_users(struct session *s, const struct obj_cq *cq, const struct obj_srq *srq,
	   enum uroce_error why)
{
	struct qp_batch batch = {.run = fail_on_worker, .arg = &why};
	struct obj_qp *q;
	uint32_t pos = 0;

	while ((q = idtab_next(&s->qps, &pos)) != NULL) {
		if (!q->o.hidden && ((cq != NULL && (q->send_cq == cq || q->recv_cq == cq)) ||
				     (srq != NULL && q->srq == srq)))
			qp_batch_add(&batch, q);
	}
	qp_batch_end(&batch, s->d);
}

void
cq_failed(struct obj_cq *cq)
{
	fail_users(cq->o.s, cq, NULL, UROCE_ERROR_CQ_OVERRUN);
}

void
srq_failed(struct obj_srq *srq)
{
	fail_users(srq->o.s, NULL, srq, UROCE_ERROR_SRQ_FAILED);
}
