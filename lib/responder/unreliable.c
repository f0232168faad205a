/* SPDX-License-Identifier: BSD-3-Clause */
/* Unreliable connections, receiving side (RSP-06). */
#include <rte_branch_prediction.h>
#include "responder/responder_parts.h"
#include "wire/psn.h"

/*
 * A message that had a receive WQE was aborted, and the next message needs none. A WQE of the QP's
 * own RQ stays for the next message. A WQE of an SRQ would be withheld from the other QPs, forever
 * if this QP's peer falls silent, and cannot be returned because the client may have reused its
 * slot. It therefore completes with an error, and the QP continues (CQE-14).
 */
static void
abort_shared(struct qp_env *env, struct qp *qp)
{
	struct uroce_cqe cqe = {.opcode = UROCE_CQE_RECV, .vendor_err = UROCE_ERROR_MESSAGE_LOST};

	if (qp->bind.srq != NULL && qp->conn.rcv.cur.taken)
		qp_complete_recv(env, qp, QP_WC_REM_ABORT_ERR, &cqe);
}

void
rsp_unreliable_rx(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt)
{
	struct qp_rcv *rcv = &qp->conn.rcv;
	bool first = (pkt->op->flags & WIRE_F_FIRST) != 0;
	uint32_t next = psn_add(pkt->psn, 1);

	if (rcv->msg != QP_MSG_NONE && (first || pkt->psn != rcv->epsn)) {
		env->counters->ctr[COUNTER_RSP_MSG_LOST]++;
		qp_msg_end(rcv);
		if (!first || !(pkt->op->flags & WIRE_F_SEND))
			abort_shared(env, qp);
	}
	if (unlikely(pkt->psn != rcv->epsn))
		qp_record(env, qp, QP_RECORD_EARLY, 0, pkt->psn, 1);
	rcv->epsn = pkt->psn;
	if (first || rcv->msg != QP_MSG_NONE)
		rsp_execute(env, qp, pkt);
	else
		qp_env_drop(env, DROP_MSG_ABORTED);
	if (env->dropped == DROP_MEMORY_LATE)
		return; /* it is tried again, or is lost: rsp_rx_lost */
	/* Not executed: its message is aborted. */
	if (rcv->epsn != next)
		qp_msg_end(rcv);
	rcv->epsn = next;
	if (rcv->msg == QP_MSG_NONE)
		abort_shared(env, qp);
}

void
rsp_rx_lost(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt)
{
	struct qp_rcv *rcv = &qp->conn.rcv;

	if (qp->conn.type == QP_TYPE_RC)
		rsp_late_nak(env, qp, pkt->psn);
	else
		rcv->late.once = 0;
	if (qp->conn.type != QP_TYPE_UC)
		return;
	/* With it, the rest of its message is lost (RSP-06). */
	qp_msg_end(rcv);
	rcv->epsn = psn_add(pkt->psn, 1);
	abort_shared(env, qp);
}
