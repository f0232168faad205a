/* SPDX-License-Identifier: BSD-3-Clause */
/* Posting receive work, to a QP's own queue or to a shared one. */
#include "uv.h"

#include <errno.h>

/* Encodes one WR at the queue's next slot. 0 or a positive errno. */
static int
recv_write(struct uv_ring *rq, const struct ibv_recv_wr *wr)
{
	struct uroce_recv_wqe *wqe = uv_ring_slot(rq, rq->prod);

	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > rq->max_sge)
		return EINVAL;
	if (uv_ring_room(rq, 1) == 0)
		return ENOMEM;
	wqe->wr_id = wr->wr_id;
	wqe->num_sge = (uint32_t)wr->num_sge;
	wqe->rsvd = 0;
	uv_sges_write(wqe + 1, wr->sg_list, wr->num_sge);
	return 0;
}

/*
 * Posts a chain; lock held. 0, or a positive errno: then *wr is the WR that failed, and those
 * before it are posted. *ring: the daemon wants its doorbell.
 */
static int
recv_chain(struct uv_ring *rq, struct ibv_recv_wr **wr, bool *ring)
{
	int rc = 0;

	for (; *wr; *wr = (*wr)->next) {
		rc = recv_write(rq, *wr);
		if (uv_unlikely(rc))
			break;
		rq->prod++;
	}
	*ring = rq->hdr->prod != rq->prod && uv_ring_publish(rq);
	return rc;
}

/* A post that failed with rc at wr. *bad is the caller's own until then: some keep a list there. */
static int
recv_failed(struct ibv_context *ctx, int rc, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	*bad = wr;
	if (rc == ENOMEM)
		uv_lost_queue_full(uv_context_of(ctx));
	return uv_fail(rc);
}

int
uv_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct uv_qp *qp = uv_qp_of(ibqp);
	bool ring = false;
	int rc;

	if (uv_unlikely(!qp->rq.hdr)) /* the QP receives from an SRQ */
		return recv_failed(ibqp->context, EINVAL, wr, bad);
	uv_lock(&qp->rq.lock);
	/* Under the lock: what was posted before the loss was noticed completes (lost.c). */
	if (uv_unlikely(uv_context_of(ibqp->context)->lost))
		rc = EIO;
	else if (uv_state_receives(qp->state))
		rc = recv_chain(&qp->rq, &wr, &ring);
	else
		rc = EINVAL;
	uv_unlock(&qp->rq.lock);
	if (ring)
		uv_doorbell(qp->worker, qp->qpn);
	return uv_unlikely(rc) ? recv_failed(ibqp->context, rc, wr, bad) : 0;
}

int
uv_post_srq_recv(struct ibv_srq *ibsrq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct uv_srq *srq = uv_srq_of(ibsrq);
	int rc = EIO;
	bool ring;

	uv_lock(&srq->ring.lock);
	/* No one waits for an SRQ's WRs: a QP that finds it empty says RNR, and asks again. */
	if (!uv_unlikely(uv_context_of(ibsrq->context)->lost))
		rc = recv_chain(&srq->ring, &wr, &ring);
	uv_unlock(&srq->ring.lock);
	return uv_unlikely(rc) ? recv_failed(ibsrq->context, rc, wr, bad) : 0;
}
