/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion queues and the channels that they report to. */
#include <errno.h>
#include <stdlib.h>
#include "control/obj.h"
#include "control/ring.h"
#include "qp/retire.h"

static void
channel_free(struct obj_channel *ch)
{
	events_channel_close(&ch->ch);
	quota_give(ch->s->user, QUOTA_FDS, 1);
	quota_give(ch->s->user, QUOTA_CHANNELS, 1);
	idtab_del(&ch->s->channels, ch->handle);
	free(ch);
}

/* CQs may outlive their channel: a program can close its descriptor at any time. */
static void
channel_closed(struct events_channel *ech)
{
	struct obj_channel *ch = WATCH_OF(ech, struct obj_channel, ch);
	struct obj_cq *cq;
	uint32_t pos = 0;

	while (ch->refs > 0 && (cq = idtab_next(&ch->s->cqs, &pos)) != NULL) {
		if (cq->channel != ch)
			continue;
		events_channel_forget(ech, cq);
		cq->channel = NULL;
		ch->refs--;
	}
	channel_free(ch);
}

int
channel_create(struct session *s, const struct ctrl_req *req, struct ctrl_rep *rp)
{
	struct uroce_channel_rep *rep = rp->body;
	struct obj_channel *ch = calloc(1, sizeof(*ch));
	int client_fd, rc;

	if (ch == NULL)
		return ENOMEM;
	ch->s = s;
	ch->ch.closed = channel_closed;
	rc = quota_take(s->user, QUOTA_CHANNELS, 1);
	if (rc < 0)
		goto fail;
	rc = quota_take(s->user, QUOTA_FDS, 1);
	if (rc < 0)
		goto fail_channels;
	rc = -ENOMEM;
	if (idtab_add(&s->channels, ch, &ch->handle) < 0)
		goto fail_fds;
	rc = events_channel_open(&ch->ch, s->d, &client_fd);
	if (rc < 0)
		goto fail_handle;
	rep->handle = ch->handle;
	ctrl_rep_fd(rp, client_fd, true);
	return 0;

fail_handle:
	idtab_del(&s->channels, ch->handle);
fail_fds:
	quota_give(s->user, QUOTA_FDS, 1);
fail_channels:
	quota_give(s->user, QUOTA_CHANNELS, 1);
fail:
	free(ch);
	return -rc;
}

void
channel_free_all(struct session *s)
{
	struct obj_channel *ch;
	uint32_t pos = 0;

	while ((ch = idtab_next(&s->channels, &pos)) != NULL)
		channel_free(ch);
}

static void
cq_free(struct obj_cq *cq)
{
	struct session *s = cq->s;

	if (cq->channel != NULL) {
		events_channel_forget(&cq->channel->ch, cq);
		cq->channel->refs--;
	}
	quota_give(s->user, QUOTA_CQS, 1);
	idtab_del(&s->d->cqs, cq->cq.id);
	idtab_del(&s->cqs, cq->handle);
	ipc_arena_free(s->arena, &cq->ext);
	if (cq->old.base != NULL)
		ipc_arena_free(s->arena, &cq->old);
	free(cq);
}

/* Ring, handle and id of a new CQ. */
static int
cq_register(struct session *s, struct obj_cq *cq, uint32_t entries)
{
	size_t bytes = UROCE_CQ_HDR + (size_t)entries * sizeof(struct uroce_cqe);
	int rc = quota_take(s->user, QUOTA_CQS, 1);

	if (rc < 0)
		return -rc;
	rc = session_ring_alloc(s, bytes, &cq->ext);
	if (rc < 0) {
		quota_give(s->user, QUOTA_CQS, 1);
		return -rc;
	}
	if (idtab_add(&s->cqs, cq, &cq->handle) < 0)
		goto fail_ext;
	if (idtab_add(&s->d->cqs, cq, &cq->cq.id) < 0)
		goto fail_handle;
	cq_init(&cq->cq, (struct uroce_cq_hdr *)cq->ext.base, entries);
	return 0;

fail_handle:
	idtab_del(&s->cqs, cq->handle);
fail_ext:
	ipc_arena_free(s->arena, &cq->ext);
	quota_give(s->user, QUOTA_CQS, 1);
	return ENOMEM;
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
		return EINVAL;
	if (q->channel != 0) {
		ch = idtab_get(&s->channels, q->channel - 1);
		if (ch == NULL)
			return ENOENT;
	}
	cq = calloc(1, sizeof(*cq));
	if (cq == NULL)
		return ENOMEM;
	cq->s = s;
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
		ch->refs++;
	rep->handle = cq->handle;
	ctrl_rep_ring(rp, s, &cq->ext, cq->cq.ring->mask + 1, sizeof(struct uroce_cqe), &rep->ring);
	return 0;
}

/* Completions not polled, those of WRs posted before this call among them. */
static uint32_t
cq_waiting(struct obj_cq *cq)
{
	struct worker_set *ws = cq->s->d->workers;
	const struct cq_ring *r = cq->cq.ring;

	/* Twice: a doorbell rung before the first is served before the second. */
	worker_quiesce(ws);
	worker_quiesce(ws);
	/* cons is the client's word: a wrong one costs its own completions only. */
	return r->prod - __atomic_load_n(&r->hdr->cons, __ATOMIC_RELAXED);
}

/*
 * A new ring takes over (CQ-02). The client reads what is left in the old one first, which is kept
 * until the next resize or the end.
 */
int
cq_resize_obj(struct session *s, const struct ctrl_req *req, struct ctrl_rep *rp)
{
	const struct uroce_resize_cq_req *q = req->body;
	struct uroce_create_cq_rep *rep = rp->body;
	struct obj_cq *cq = idtab_get(&s->cqs, q->handle);
	struct ipc_extent ext;
	uint32_t entries;
	int rc;

	if (cq == NULL)
		return ENOENT;
	if (q->cqe == 0 || q->cqe > EVENTS_MAX_CQE)
		return EINVAL;
	if (cq_waiting(cq) > q->cqe)
		return EINVAL;
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
	rep->handle = cq->handle;
	ctrl_rep_ring(rp, s, &cq->ext, entries, sizeof(struct uroce_cqe), &rep->ring);
	return 0;
}

int
cq_destroy(struct session *s, const struct ctrl_req *req, struct ctrl_rep *rp)
{
	const struct uroce_handle *h = req->body;
	struct obj_cq *cq = idtab_get(&s->cqs, h->handle);

	if (cq == NULL)
		return ENOENT;
	if (cq->refs != 0)
		return EBUSY;
	cq_free(cq);
	return 0;
}

void
cq_free_all(struct session *s)
{
	struct obj_cq *cq;
	uint32_t pos = 0;

	while ((cq = idtab_next(&s->cqs, &pos)) != NULL)
		cq_free(cq);
}

static void
fail_on_worker(struct worker *w, void *arg)
{
	struct qp_env *env = &worker_engine(w)->env;
	struct qp *qp = arg;

	env->obs = qp->bind.obs;
	qp_fatal(env, qp);
	qp_env_flush(env);
}

void
cq_failed(struct obj_cq *cq)
{
	struct session *s = cq->s;
	struct obj_qp *q;
	uint32_t pos = 0;

	while ((q = idtab_next(&s->qps, &pos)) != NULL) {
		if (q->send_cq == cq || q->recv_cq == cq)
			worker_call(worker_get(s->d->workers, q->qp->bind.worker), fail_on_worker,
				    q->qp);
	}
}

void
srq_failed(struct obj_srq *srq)
{
	struct session *s = srq->s;
	struct obj_qp *q;
	uint32_t pos = 0;

	while ((q = idtab_next(&s->qps, &pos)) != NULL) {
		if (q->srq == srq)
			worker_call(worker_get(s->d->workers, q->qp->bind.worker), fail_on_worker,
				    q->qp);
	}
}
