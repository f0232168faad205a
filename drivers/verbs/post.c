/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Posting send work: a WQE is written into shared memory and published by the ring's index. A
 * system call is needed only to wake a sleeping worker. Errors that this side can detect are
 * returned at once (IMM-01, IMM-03); errors that need the daemon's tables are reported by a
 * completion.
 */
#include "provider.h"
#include "idle.h"
#include "qp/doorbell.h"
#include "refusal.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

bool
prov_state_sends(uint32_t state)
{
	return state == IBV_QPS_RTS || state == IBV_QPS_SQD || state == IBV_QPS_SQE ||
	       state == IBV_QPS_ERR;
}

bool
prov_state_receives(uint32_t state)
{
	return state != IBV_QPS_RESET;
}

uint32_t
prov_ring_room(struct prov_ring *r, uint32_t want)
{
	uint32_t used = r->prod - r->cons;

	if (used + want > r->limit) {
		/* Partner: the daemon's release of cons when it retires a WQE. */
		r->cons = __atomic_load_n(&r->hdr->cons, __ATOMIC_ACQUIRE);
		used = r->prod - r->cons;
	}
	return used < r->limit ? r->limit - used : 0;
}

bool
prov_ring_publish(struct prov_ring *r)
{
	prov_idle_busy();
	return qp_doorbell_publish(r->hdr, r->prod);
}

void
prov_worker_wake(struct prov_worker *w)
{
	const uint64_t one = 1;

	prov_idle.waking = true;
	/* A full eventfd counter (EAGAIN) wakes just as well. */
	if (write(w->wake_fd, &one, sizeof(one)) < 0)
		return;
}

void
prov_doorbell(struct prov_qp *qp)
{
	struct prov_context *ctx = prov_context_of(qp->vqp.qp.context);
	uint32_t i = __atomic_load_n(qp->worker, __ATOMIC_RELAXED);
	struct prov_worker *w = &ctx->worker[i < ctx->nworkers ? i : 0];

	prov_lock(&w->lock);
	qp_doorbell_ring(w->db, qp->qpn);
	prov_unlock(&w->lock);
	if (!qp_doorbell_is_asleep(w->state))
		return;
	prov_worker_wake(w);
}

bool
prov_sq_publish(struct prov_qp *qp)
{
	bool ring = prov_ring_publish(&qp->sq);

	prov_cq_traffic(prov_cq_of(qp->vqp.qp.send_cq));
	prov_cq_traffic(prov_cq_of(qp->vqp.qp.recv_cq)); /* a response may arrive */
	return ring;
}

/* Copies the data of all SGEs to the space after the WQE's header. 0; EINVAL: too much data. */
static int
wqe_inline(const struct prov_qp *qp, struct uroce_send_wqe *wqe, const struct ibv_send_wr *wr)
{
	uint8_t *to = (uint8_t *)(wqe + 1);
	uint32_t total = 0;

	for (int i = 0; i < wr->num_sge; i++) {
		const struct ibv_sge *s = &wr->sg_list[i];

		if (s->length > qp->max_inline - total)
			return EINVAL;
		if (s->length == 0)
			continue;
		memcpy(to + total, (const void *)(uintptr_t)s->addr, s->length);
		total += s->length;
	}
	wqe->flags |= UROCE_WQE_INLINE;
	wqe->num = (uint16_t)total;
	return 0;
}

void
prov_sges_write(void *to, const struct ibv_sge *from, int n)
{
	struct uroce_sge *sge = to;

	for (int i = 0; i < n; i++)
		sge[i] = (struct uroce_sge){
			.addr = from[i].addr,
			.length = from[i].length,
			.lkey = from[i].lkey,
		};
}

void
prov_bind_write(struct uroce_send_wqe *wqe, const struct ibv_mw *mw, uint32_t rkey,
		const struct ibv_mw_bind_info *info)
{
	wqe->bind.addr = info->addr;
	wqe->bind.length = info->length;
	wqe->bind.mr_lkey = info->mr ? info->mr->lkey : 0;
	wqe->bind.mw_rkey = mw->rkey;
	wqe->bind.access = info->mw_access_flags;
	wqe->bind.new_rkey = prov_mw_key(mw, rkey);
}

/* Writes the part of the header that depends on the opcode. 0 or EINVAL. */
static int
wqe_head(const struct prov_qp *qp, struct uroce_send_wqe *wqe, const struct ibv_send_wr *wr,
	 uint8_t traits)
{
	if (traits & UROCE_WRT_EIGHT) {
		wqe->rdma.remote_addr = wr->wr.atomic.remote_addr;
		wqe->rdma.compare_add = wr->wr.atomic.compare_add;
		wqe->rdma.swap = wr->wr.atomic.swap;
		wqe->rdma.rkey = wr->wr.atomic.rkey;
		memset(wqe->rdma.spare, 0, sizeof(wqe->rdma.spare));
	} else if (traits & UROCE_WRT_REMOTE) {
		wqe->rdma.remote_addr = wr->wr.rdma.remote_addr;
		wqe->rdma.rkey = wr->wr.rdma.rkey;
		memset(wqe->rdma.spare, 0, sizeof(wqe->rdma.spare));
	} else if (wr->opcode == IBV_WR_BIND_MW) {
		if (!wr->bind_mw.mw)
			return EINVAL;
		prov_bind_write(wqe, wr->bind_mw.mw, wr->bind_mw.rkey, &wr->bind_mw.bind_info);
		/* No check follows: the WR will be posted. Programs read the new key here. */
		wr->bind_mw.mw->rkey = wqe->bind.new_rkey;
	} else if (qp->vqp.qp.qp_type == IBV_QPT_UD) {
		if (!wr->wr.ud.ah)
			return EINVAL;
		wqe->ud.ah = wr->wr.ud.ah->handle;
		wqe->ud.remote_qpn = wr->wr.ud.remote_qpn;
		wqe->ud.remote_qkey = wr->wr.ud.remote_qkey;
	}
	return 0;
}

/* Encodes one WR at the queue's next slot. 0 or a positive errno; nothing is published. */
static int
wqe_write(struct prov_qp *qp, const struct ibv_send_wr *wr)
{
	const struct uroce_wr_rule *rule = uroce_wr_rule_get(wr->opcode);
	struct prov_ring *sq = &qp->sq;
	struct uroce_send_wqe *wqe = prov_ring_slot(sq, sq->prod);
	unsigned int flags = wr->send_flags & UROCE_WQE_ANY_FLAGS;

	if (!uroce_wr_is_legal(rule, qp->vqp.qp.qp_type))
		return EINVAL;
	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > sq->max_sge)
		return EINVAL;
	if (prov_ring_room(sq, 1) == 0)
		return ENOMEM;
	prov_ring_ahead(sq);
	wqe->wr_id = wr->wr_id;
	wqe->opcode = (uint8_t)wr->opcode;
	wqe->flags = (uint8_t)(flags | (qp->sig_all ? UROCE_WQE_SIGNALED : 0));
	wqe->imm = wr->imm_data; /* or invalidate_rkey, in the same union */
	if (wr->send_flags & IBV_SEND_INLINE) {
		if (!(rule->flags & UROCE_WQE_INLINE) || wqe_inline(qp, wqe, wr))
			return EINVAL;
	} else {
		wqe->num = (uint16_t)wr->num_sge;
		prov_sges_write(wqe + 1, wr->sg_list, wr->num_sge);
	}
	return wqe_head(qp, wqe, wr, rule->traits);
}

int
prov_post_failed(struct ibv_context *ibctx, int rc)
{
	if (rc == ENOMEM)
		prov_daemon_lost_queue_full(prov_context_of(ibctx));
	return prov_fail(rc);
}

int
prov_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct prov_qp *qp = prov_qp_of(ibqp);
	bool ring = false;
	int rc = 0;

	prov_lock(&qp->sq.lock);
	/* Under the lock: WRs posted before the loss was noticed complete (daemon_lost.c). */
	if (prov_unlikely(prov_context_lost(prov_context_of(ibqp->context))))
		rc = EIO;
	else if (prov_unlikely(!prov_state_sends(qp->state)))
		rc = EINVAL;
	for (; wr && rc == 0; wr = wr->next) {
		rc = wqe_write(qp, wr);
		if (prov_unlikely(rc))
			break;
		qp->sq.prod++;
	}
	/* An error in the middle of a chain leaves the WRs before it posted. */
	if (qp->sq.hdr->prod != qp->sq.prod)
		ring = prov_sq_publish(qp);
	prov_unlock(&qp->sq.lock);
	if (ring)
		prov_doorbell(qp);
	if (!prov_unlikely(rc))
		return 0;
	*bad = wr;
	prov_refusal_send(qp, wr, rc);
	return prov_post_failed(ibqp->context, rc);
}
