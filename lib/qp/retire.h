/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ends of WQEs: retiring send WQEs, taking and completing receive WQEs, the error state and
 * flushing. Called on the owner worker only.
 */
#ifndef QP_RETIRE_H
#define QP_RETIRE_H

#include "qp/env.h"
#include "qp/qp.h"

/*
 * Worker. Into the error state (QP-19, REQ-10): the oldest send WQE completes with status unless
 * that is QP_WC_SUCCESS, every other WQE of both queues is flushed, in order. WQEs that the worker
 * has taken are flushed here; qp_flush does the rest in the turns that follow. A QP with an SRQ
 * raises LAST_WQE_REACHED when these are over.
 */
void qp_error(struct qp_env *env, struct qp *qp, enum qp_wc_status status);
/*
 * Worker. A turn of a QP in the error state, or in SQE (sends only): flush what the client has
 * posted, QP_TURN_STEPS WQEs of each queue at most and no more than env->work. Each queue's prod is
 * read once. Wakes the QP for another turn while WQEs are left.
 */
void qp_flush(struct qp_env *env, struct qp *qp);
/*
 * Worker. The QP leaves SQE for RTS: what was posted before is flushed all the same, and nothing
 * behind it is taken before that is done (qp_flush_rest).
 */
void qp_flush_mark(struct qp_env *env, struct qp *qp);
/* Worker. A turn of a QP with snd.flushing. True when that is not over. */
bool qp_flush_rest(struct qp_env *env, struct qp *qp);
/*
 * Worker. A send WQE failed: the oldest completes with status and the rest is flushed. RC goes to
 * the error state (QP-20), UC and UD to SQE, where the receive side works on (QP-17).
 */
void qp_send_error(struct qp_env *env, struct qp *qp, enum qp_wc_status status);
/* Worker. A ring of this QP makes no sense: error state, QP_FATAL (EVT-01), rings not read again.
 */
void qp_fatal(struct qp_env *env, struct qp *qp);

/*
 * Worker. The send WQE at index tail - 1 is over, tail the oldest now; its copy, if it has one, is
 * the caller's to put. In this order its client is told: the slot is free; the completion, if there
 * is one; that there is none to come (ring.h).
 */
static __rte_always_inline void
qp_retire_one(struct qp_env *env, struct qp *qp, uint32_t tail, const struct uroce_send_wqe *wqe,
	      uint32_t byte_len, enum qp_wc_status status)
{
	struct qp_ring *sq = &qp->bind.sq;

	qp->conn.snd.tail = tail;
	qp_ring_retire(sq, tail, wqe->wr_id);
	if (status != QP_WC_SUCCESS || qp->conn.sig_all || (wqe->flags & UROCE_WQE_SIGNALED)) {
		struct uroce_cqe cqe = {
			.wr_id = wqe->wr_id,
			.status = status,
			.opcode = uroce_cqe_opcode_of(wqe->opcode),
			.byte_len = byte_len,
			.qp_num = qp->conn.qpn,
			.src_qp = qp->conn.dest_qpn,
			.timestamp_ns = env->now_ns,
			.qp_cookie = qp->bind.user_handle,
		};

		qp_env_post(env, qp->bind.send_cq, &cqe, &sq->hdr->entry, tail - 1);
	}
	qp_ring_done(sq, tail);
}

/*
 * Worker. Retire the oldest send WQE, whose entry is e: its slot goes back to the client, and it
 * completes with status if it is signaled or failed (REQ-01). e is void then.
 */
void qp_retire_send(struct qp_env *env, struct qp *qp, const struct qp_sq_entry *e,
		    enum qp_wc_status status);

/* Worker. Does the good WQE of e complete without a word? */
static inline bool
qp_is_silent(const struct qp *qp, const struct qp_sq_entry *e)
{
	return !qp->conn.sig_all && !(e->wqe.flags & UROCE_WQE_SIGNALED);
}

/*
 * Worker. The WQEs before tail are retired, the last of them, of this wr_id, silently as all since
 * the client was told the last time: tell it. So an ACK of many silent ones writes the line that
 * they share with their client once.
 */
static inline void
qp_retire_told(struct qp *qp, uint32_t tail, uint64_t wr_id)
{
	qp->conn.snd.tail = tail;
	qp_ring_retire(&qp->bind.sq, tail, wr_id);
	qp_ring_done(&qp->bind.sq, tail);
}

/*
 * Worker. Take the next receive WQE into qp->conn.rcv.cur. 0; -EAGAIN none is posted; -EINVAL it is
 * malformed (taken all the same); -EPROTO the ring is corrupt (qp_fatal was called).
 */
int qp_take_recv(struct qp_env *env, struct qp *qp);
/*
 * Worker. Complete the receive WQE taken. cqe: opcode, flags, byte_len, imm set by the caller; the
 * rest is filled in here.
 */
void qp_complete_recv(struct qp_env *env, struct qp *qp, enum qp_wc_status status,
		      struct uroce_cqe *cqe);

#endif
