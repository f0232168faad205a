/* SPDX-License-Identifier: BSD-3-Clause */
/* Posting receive work, to a QP's receive queue or to a shared one. */
#include "provider.h"
#include "refusal.h"

#include <errno.h>
#include <string.h>

/* Encodes one WR at the queue's next slot. 0 or a positive errno. */
static int
recv_write(struct prov_ring *rq, const struct ibv_recv_wr *wr)
{
	struct uroce_recv_wqe *wqe = prov_ring_slot(rq, rq->prod);

	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > rq->max_sge)
		return EINVAL;
	if (prov_ring_room(rq, 1) == 0)
		return ENOMEM;
	wqe->wr_id = wr->wr_id;
	wqe->num_sge = (uint32_t)wr->num_sge;
	memset(wqe->spare, 0, sizeof(wqe->spare));
	prov_sges_write(wqe + 1, wr->sg_list, wr->num_sge);
	return 0;
}

/*
 * Posts a chain. Lock held. Returns 0, or a positive errno: *wr is then the WR that failed, and the
 * WRs before it are posted. *ring: the daemon needs a doorbell.
 */
static int
recv_chain(struct prov_ring *rq, struct ibv_recv_wr **wr, bool *ring)
{
	int rc = 0;

	for (; *wr; *wr = (*wr)->next) {
		rc = recv_write(rq, *wr);
		if (prov_unlikely(rc))
			break;
		rq->prod++;
	}
	*ring = rq->hdr->prod != rq->prod && prov_ring_publish(rq);
	return rc;
}

/* Handles an error at wr, of qp or srq. *bad is not written before, because some callers keep a
 * list there. */
static int
recv_failed(const struct prov_qp *qp, const struct prov_srq *srq, int rc, struct ibv_recv_wr *wr,
	    struct ibv_recv_wr **bad)
{
	*bad = wr;
	prov_refusal_recv(qp, srq, wr, rc);
	return prov_post_failed(srq ? srq->vsrq.srq.context : qp->vqp.qp.context, rc);
}

int
prov_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct prov_qp *qp = prov_qp_of(ibqp);
	bool ring = false;
	int rc;

	if (prov_unlikely(!qp->rq.hdr)) /* the QP receives from an SRQ */
		return recv_failed(qp, NULL, EINVAL, wr, bad);
	prov_lock(&qp->rq.lock);
	/* Under the lock: WRs posted before the loss was noticed complete (daemon_lost.c). */
	if (prov_unlikely(prov_context_lost(prov_context_of(ibqp->context))))
		rc = EIO;
	else if (prov_state_receives(qp->state))
		rc = recv_chain(&qp->rq, &wr, &ring);
	else
		rc = EINVAL;
	prov_unlock(&qp->rq.lock);
	if (ring)
		prov_doorbell(qp);
	return prov_unlikely(rc) ? recv_failed(qp, NULL, rc, wr, bad) : 0;
}

int
prov_post_srq_recv(struct ibv_srq *ibsrq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct prov_srq *srq = prov_srq_of(ibsrq);
	int rc = EIO;
	bool ring;

	prov_lock(&srq->ring.lock);
	/* No doorbell: a QP that finds the SRQ empty sends an RNR NAK and polls it on the retry. */
	if (!prov_unlikely(prov_context_lost(prov_context_of(ibsrq->context))))
		rc = recv_chain(&srq->ring, &wr, &ring);
	prov_unlock(&srq->ring.lock);
	return prov_unlikely(rc) ? recv_failed(NULL, srq, rc, wr, bad) : 0;
}
