/* SPDX-License-Identifier: BSD-3-Clause */
/* Retiring WQEs, the error state, flushing (QP-19, REQ-01, REQ-10, CQE-05). */
#include <errno.h>
#include <string.h>
#include "qp/ahead.h"
#include "qp/deadline.h"
#include "qp/doorbell.h"
#include "qp/recorder.h"
#include "qp/retire.h"

void
qp_retire_send(struct qp_env *env, struct qp *qp, const struct qp_sq_entry *e,
	       enum qp_wc_status status)
{
	struct qp_snd *snd = &qp->conn.snd;
	uint32_t tail = snd->tail + 1;

	if (e->rd_counted)
		snd->rd_out--;
	qp_retire_one(env, qp, tail, &e->wqe, e->length, status);
	qp_sqes_put(&qp->bind.sqes, env->sqes, tail, snd->head);
}

/* Reads the client's index of the SQ. False: the index is invalid, and the QP is dead. */
static bool
posted_sends(struct qp_env *env, struct qp *qp, uint32_t *prod)
{
	struct qp_snd *snd = &qp->conn.snd;

	*prod = __atomic_load_n(&qp->bind.sq.hdr->prod, __ATOMIC_ACQUIRE);
	if (*prod - snd->head > qp->bind.sq.mask + 1) {
		qp_fatal(env, qp, UROCE_ERROR_SQ_CORRUPT);
		return false;
	}
	qp->bind.sq.prod = *prod;
	return true;
}

/* Flushes WQEs before prod that were never taken from the SQ, up to a turn's steps. */
static void
flush_sends(struct qp_env *env, struct qp *qp, uint32_t prod)
{
	struct qp_snd *snd = &qp->conn.snd;
	uint32_t steps = qp_turn_steps(env);
	struct uroce_send_wqe wqe;

	for (; snd->head != prod && steps != 0; steps--) {
		memcpy(&wqe,
		       qp->bind.sq.slots +
			       (size_t)(snd->head & qp->bind.sq.mask) * qp->bind.sq.stride,
		       sizeof(wqe));
		snd->cur = ++snd->head;
		qp_retire_one(env, qp, snd->head, &wqe, 0, QP_WC_WR_FLUSH_ERR);
		env->work--;
	}
}

/*
 * Flushes the current receive WQE and the posted ones, up to a turn's steps. WQEs of an SRQ stay
 * for its other QPs (QP-19). Returns true if some are left.
 */
static bool
flush_recvs(struct qp_env *env, struct qp *qp)
{
	uint32_t steps = qp_turn_steps(env);
	struct qp_rcv *rcv = &qp->conn.rcv;
	bool looked = false;

	for (;;) {
		struct uroce_cqe cqe = {.opcode = UROCE_CQE_RECV};
		int rc = 0;

		if (steps-- == 0)
			return true;
		if (!rcv->cur.taken &&
		    (qp->bind.srq != NULL || (looked && qp->bind.rq.prod == rcv->head)))
			return false;
		if (!rcv->cur.taken) {
			rc = qp_take_recv(env, qp);
			looked = true;
		}
		if (!rcv->cur.taken || rc == -EPROTO)
			return false;
		qp_complete_recv(env, qp, QP_WC_WR_FLUSH_ERR, &cqe);
		env->work--;
	}
}

void
qp_flush(struct qp_env *env, struct qp *qp)
{
	bool more = false;
	uint32_t prod;

	if (qp->conn.rings_bad || !posted_sends(env, qp, &prod))
		return;
	flush_sends(env, qp, prod);
	if (qp->conn.state == QP_ERR)
		more = flush_recvs(env, qp);
	if (qp->conn.rings_bad)
		return;
	if (more || qp->conn.snd.head != prod) {
		qp_wake(env, qp);
		return;
	}
	if (qp->conn.last_wqe_due) {
		qp->conn.last_wqe_due = false;
		env->ops->async_event(env->ops_ctx, QP_EVENT_QP_LAST_WQE_REACHED, qp, NULL);
	}
	more = !qp_doorbell_arm(qp->bind.sq.hdr, qp->conn.snd.head);
	if (qp->conn.state == QP_ERR && qp->bind.srq == NULL)
		more |= !qp_doorbell_arm(qp->bind.rq.hdr, qp->conn.rcv.head);
	/* A client that keeps posting gets no more than its turns. */
	if (more)
		qp_wake(env, qp);
}

void
qp_flush_mark(struct qp_env *env, struct qp *qp)
{
	if (!qp->conn.rings_bad && posted_sends(env, qp, &qp->conn.flush_to))
		qp->conn.snd.flushing = qp->conn.flush_to != qp->conn.snd.head;
}

bool
qp_flush_rest(struct qp_env *env, struct qp *qp)
{
	flush_sends(env, qp, qp->conn.flush_to);
	qp->conn.snd.flushing = qp->conn.snd.head != qp->conn.flush_to;
	if (!qp->conn.snd.flushing)
		qp->conn.why = 0;
	return qp->conn.snd.flushing;
}

/* Stops all activity of the QP: it sends and accepts no packets from here on. */
static void
flush_stop(struct qp *qp)
{
	qp->conn.state = QP_ERR;
	qp_deadline_clear_all(&qp->conn);
	qp->conn.snd.draining = false;
	qp->conn.snd.flushing = false;
	qp->conn.rcv.ack_due = false;
	qp->conn.rcv.nak_due = false;
	qp->conn.rcv.fatal = false;
	qp->conn.rcv.rdq_n = 0;
	qp_msg_end(&qp->conn.rcv);
}

/* Flushes all WQEs taken from the SQ; the oldest gets status instead, unless that is SUCCESS. */
static void
flush_taken_sends(struct qp_env *env, struct qp *qp, enum qp_wc_status status)
{
	struct qp_snd *snd = &qp->conn.snd;

	while (snd->tail != snd->head) {
		qp_retire_send(env, qp, qp_sq_entry(qp, snd->tail),
			       status != QP_WC_SUCCESS ? status : QP_WC_WR_FLUSH_ERR);
		status = QP_WC_SUCCESS;
	}
	snd->cur = snd->head;
	snd->cur_pkt = 0;
}

void
qp_error(struct qp_env *env, struct qp *qp, enum qp_wc_status status)
{
	if (qp->conn.state == QP_ERR)
		return;
	if (qp->conn.why == 0)
		qp->conn.why = UROCE_ERROR_MOVED;
	qp_record(env, qp, QP_RECORD_STATE, QP_ERR, qp->conn.why, qp->conn.state);
	flush_stop(qp);
	qp_sr_drop(env->sr, qp);
	if (qp->conn.rings_bad)
		return;
	flush_taken_sends(env, qp, status);
	qp->conn.last_wqe_due = qp->bind.srq != NULL;
	qp_wake(env, qp);
}

void
qp_send_error(struct qp_env *env, struct qp *qp, enum qp_wc_status status)
{
	if (qp->conn.type == QP_TYPE_RC) {
		qp_error(env, qp, status);
		return;
	}
	qp_record(env, qp, QP_RECORD_STATE, QP_SQE, qp->conn.why, qp->conn.state);
	qp->conn.state = QP_SQE;
	qp_deadline_clear_all(&qp->conn);
	qp->conn.snd.draining = false;
	flush_taken_sends(env, qp, status);
	/* Messages posted later get the PSNs of those flushed here. */
	qp_ahead_forget_qp(env->ahead, qp);
	/* Packets of the aborted message expect no ACK, so a drain ends at once. */
	qp->conn.snd.una_psn = qp->conn.snd.alloc_psn = qp->conn.snd.next_psn;
	qp_recorder_sync(qp);
	qp_wake(env, qp);
}

void
qp_fatal(struct qp_env *env, struct qp *qp, enum uroce_error why)
{
	if (qp->conn.rings_bad)
		return;
	qp_fault_set(env, qp, &(struct qp_fault){.reason = why});
	qp->conn.rings_bad = true;
	qp_error(env, qp, QP_WC_SUCCESS);
	env->ops->async_event(env->ops_ctx, QP_EVENT_QP_FATAL, qp, NULL);
}
