/* SPDX-License-Identifier: BSD-3-Clause */
/* Receive WQEs: each is taken from shared memory once and completed once (RSP-05). */
#include <errno.h>
#include <string.h>
#include <rte_branch_prediction.h>
#include <rte_common.h>
#include "qp/retire.h"

/* The SRQ's ring is corrupt: the SRQ is dead, and each QP when it next uses it (EVT-09). */
static int
srq_corrupt(struct qp_env *env, struct qp *qp)
{
	if (!qp->bind.srq->dead) {
		qp->bind.srq->dead = true;
		env->ops->async_event(env->ops_ctx, QP_EVENT_SRQ_ERR, qp, NULL);
	}
	qp_fatal(env, qp, UROCE_ERROR_SRQ_FAILED);
	return -EPROTO;
}

/* A WQE was taken from the SRQ; left WQEs remain. Frees its slot and checks the limit. */
static void
srq_taken(struct qp_env *env, struct qp *qp, uint32_t left)
{
	struct uroce_held *held = &qp->bind.sq.hdr->held;
	struct srq *srq = qp->bind.srq;

	/* The only record of this WQE for the client if the daemon dies here (ring.h). */
	__atomic_store_n(&held->wr_id, qp->conn.rcv.cur.wqe.wr_id, __ATOMIC_RELEASE);
	__atomic_store_n(&held->index, qp->conn.rcv.cur.index, __ATOMIC_RELEASE);
	__atomic_store_n(&held->state, UROCE_HELD_TAKING, __ATOMIC_RELEASE);
	__atomic_store_n(&srq->rq.hdr->cons, srq->head, __ATOMIC_RELEASE);
	__atomic_store_n(&held->state, UROCE_HELD_TAKEN, __ATOMIC_RELEASE);
	if (srq->limit != 0 && left < srq->limit) {
		srq->limit = 0; /* EVT-10: disarms itself */
		env->ops->async_event(env->ops_ctx, QP_EVENT_SRQ_LIMIT_REACHED, qp, NULL);
	}
}

/* Copies the SGEs of the taken WQE; their number was checked. */
static inline void
take_sges(struct qp *qp, const uint8_t *sges)
{
	struct qp_recv_wqe *cur = &qp->conn.rcv.cur;
	uint32_t i, n = cur->wqe.num_sge;
	uint64_t sum = 0;

	if (likely(n == 1)) { /* constant size: two moves */
		memcpy(qp->recv_sge, sges, sizeof(qp->recv_sge[0]));
		sum = qp->recv_sge[0].length;
	} else {
		memcpy(qp->recv_sge, sges, n * sizeof(qp->recv_sge[0]));
		for (i = 0; i < n; i++)
			sum += qp->recv_sge[i].length;
	}
	cur->length = (uint32_t)RTE_MIN(sum, (uint64_t)QP_MAX_MSG_BYTES);
}

int
qp_take_recv(struct qp_env *env, struct qp *qp)
{
	struct qp_ring *rq = qp->bind.srq != NULL ? &qp->bind.srq->rq : &qp->bind.rq;
	uint32_t *head = qp->bind.srq != NULL ? &qp->bind.srq->head : &qp->conn.rcv.head;
	struct qp_recv_wqe *cur = &qp->conn.rcv.cur;
	const uint8_t *slot;
	uint32_t prod;
	bool fits;

	if (qp->bind.srq != NULL && qp->bind.srq->dead)
		return srq_corrupt(env, qp);
	prod = rq->prod;
	/* An SRQ's limit depends on the current number of posted WQEs. */
	if (qp->bind.srq != NULL || prod == *head) {
		prod = __atomic_load_n(&rq->hdr->prod, __ATOMIC_ACQUIRE);
		if (prod == *head)
			return -EAGAIN;
		if (prod - *head > rq->mask + 1) {
			if (qp->bind.srq != NULL)
				return srq_corrupt(env, qp);
			qp_fatal(env, qp, UROCE_ERROR_RQ_CORRUPT);
			return -EPROTO;
		}
		rq->prod = prod;
	}
	slot = rq->slots + (size_t)(*head & rq->mask) * rq->stride;
	memcpy(&cur->wqe, slot, sizeof(cur->wqe));
	cur->taken = true;
	cur->length = 0;
	cur->index = (*head)++;
	fits = cur->wqe.num_sge <= rq->max_sge;
	if (likely(fits))
		take_sges(qp, slot + sizeof(cur->wqe));
	else
		cur->wqe.num_sge = 0;
	if (qp->bind.srq != NULL)
		srq_taken(env, qp, prod - *head);
	return fits ? 0 : -EINVAL;
}

static __rte_always_inline void
complete(struct qp_env *env, struct qp *qp, enum qp_wc_status status, struct uroce_cqe *cqe)
{
	struct qp_rcv *rcv = &qp->conn.rcv;
	struct uroce_held *held = &qp->bind.sq.hdr->held;
	bool shared = qp->bind.srq != NULL;

	cqe->wr_id = rcv->cur.wqe.wr_id;
	cqe->status = status;
	if (unlikely(status != QP_WC_SUCCESS) && cqe->vendor_err == 0)
		cqe->vendor_err = qp->conn.why;
	cqe->qp_num = qp->conn.qpn;
	if (qp->conn.type != QP_TYPE_UD)
		cqe->src_qp = qp->conn.dest_qpn;
	cqe->timestamp_ns = env->now_ns;
	cqe->qp_cookie = shared ? qp->bind.srq->user_handle : qp->bind.user_handle;
	rcv->cur.taken = false;
	if (!shared)
		qp_ring_retire(&qp->bind.rq, rcv->head, cqe->wr_id);
	qp_env_post(env, qp->bind.recv_cq, cqe, shared ? &held->entry : &qp->bind.rq.hdr->entry,
		    rcv->cur.index);
	if (shared)
		__atomic_store_n(&held->state, UROCE_HELD_NONE, __ATOMIC_RELEASE);
	else
		qp_ring_done(&qp->bind.rq, rcv->head);
}

static __rte_cold void
complete_watched(struct qp_env *env, struct qp *qp, enum qp_wc_status status, struct uroce_cqe *cqe)
{
	env->ops->cq_watched(env->ops_ctx, qp, false);
	complete(env, qp, status, cqe);
	env->ops->cq_watched(env->ops_ctx, qp, true);
}

void
qp_complete_recv(struct qp_env *env, struct qp *qp, enum qp_wc_status status, struct uroce_cqe *cqe)
{
	if (unlikely(qp->bind.recv_cq->watched))
		complete_watched(env, qp, status, cqe);
	else
		complete(env, qp, status, cqe);
}
