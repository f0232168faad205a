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
 * Worker. Enter the error state (QP-19, REQ-10) for conn.why, which qp_fault_set has set; if it is
 * 0, the program asked for it. The oldest send WQE completes with status unless
 * that is QP_WC_SUCCESS; all other WQEs of both queues are flushed in order. WQEs that the worker
 * has taken are flushed here; qp_flush flushes the rest in later turns. A QP with an SRQ then
 * raises LAST_WQE_REACHED.
 */
void qp_error(struct qp_env *env, struct qp *qp, enum qp_wc_status status);
/*
 * Worker. A turn of a QP in the error state, or in SQE (sends only): flush posted WQEs, at most
 * QP_TURN_STEPS of each queue and at most env->work. Reads each queue's prod once. Schedules the QP
 * for another turn if WQEs are left.
 */
void qp_flush(struct qp_env *env, struct qp *qp);
/*
 * Worker. The QP leaves SQE for RTS: WQEs posted before are still flushed, by qp_flush_rest, before
 * later ones are taken.
 */
void qp_flush_mark(struct qp_env *env, struct qp *qp);
/* Worker. A turn of a QP with snd.flushing. Returns true if more WQEs are to be flushed. */
bool qp_flush_rest(struct qp_env *env, struct qp *qp);
/*
 * Worker. A send WQE failed: the oldest completes with status, the rest is flushed. RC enters the
 * error state (QP-20); UC and UD enter SQE, in which the receive side continues (QP-17).
 */
void qp_send_error(struct qp_env *env, struct qp *qp, enum qp_wc_status status);
/*
 * Worker. A ring of this QP is corrupt, or a queue that it uses has failed: error state, QP_FATAL
 * (EVT-01), rings not read again.
 */
void qp_fatal(struct qp_env *env, struct qp *qp, enum uroce_error why);

/*
 * Worker. Retire the send WQE at index tail - 1; tail becomes the oldest. The caller releases its
 * copy, if any. The client sees, in this order: the slot is free; the completion, if any; no more
 * completions up to tail (ring.h).
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
			.vendor_err = status != QP_WC_SUCCESS ? qp->conn.why : 0,
			.timestamp_ns = env->now_ns,
			.qp_cookie = qp->bind.user_handle,
		};

		qp_env_post(env, qp->bind.send_cq, &cqe, &sq->hdr->entry, tail - 1);
	}
	qp_ring_done(sq, tail);
}

/*
 * Worker. Retire the oldest send WQE, whose entry is e: return its slot to the client, and complete
 * it with status if it is signaled or failed (REQ-01). Invalidates e.
 */
void qp_retire_send(struct qp_env *env, struct qp *qp, const struct qp_sq_entry *e,
		    enum qp_wc_status status);

/* Worker. If the WQE of e succeeds, does it complete silently? */
static inline bool
qp_is_silent(const struct qp *qp, const struct qp_sq_entry *e)
{
	return !qp->conn.sig_all && !(e->wqe.flags & UROCE_WQE_SIGNALED);
}

/*
 * Worker. Publish that the WQEs before tail, which all completed silently, are retired; wr_id: of
 * the last one. An ACK of many silent WQEs thus writes the line shared with the client only once.
 */
static inline void
qp_retire_publish(struct qp *qp, uint32_t tail, uint64_t wr_id)
{
	qp->conn.snd.tail = tail;
	qp_ring_retire(&qp->bind.sq, tail, wr_id);
	qp_ring_done(&qp->bind.sq, tail);
}

/*
 * Worker. Take the next receive WQE into qp->conn.rcv.cur. Returns 0; -EAGAIN none is posted;
 * -EINVAL malformed (but taken); -EPROTO the ring is corrupt (qp_fatal was called).
 */
int qp_take_recv(struct qp_env *env, struct qp *qp);
/*
 * Worker. Complete the taken receive WQE. The caller sets opcode, flags, byte_len and imm of cqe;
 * this function sets the rest; vendor_err, if it is 0 and status is not, is conn.why.
 */
void qp_complete_recv(struct qp_env *env, struct qp *qp, enum qp_wc_status status,
		      struct uroce_cqe *cqe);

#endif
