/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Atomics, responder side. An atomic is executed once, on arrival. Its response is queued among the
 * READ responses, and kept so that a duplicate gets the original result (RSP-01, RSP-04).
 */
#include <errno.h>
#include <rte_mbuf.h>
#include "responder/responder_parts.h"
#include "wire/psn.h"

static __rte_noinline bool
atomic_by_ops(struct qp_env *env, struct qp *qp, const struct mr *mr, const struct wire_pkt *pkt,
	      bool swap, uint64_t *orig)
{
	struct mem_atomic a = {.swap = swap, .compare = pkt->compare, .value = pkt->swap_add};
	int rc = rsp_late_take(qp, pkt->rkey, true, sizeof(*orig), orig);

	if (rc > 0) {
		rc = mr_atomic_by_ops(mr, pkt->va, &a, rsp_late_new(env, qp), orig);
		if (rc == -EAGAIN)
			rsp_late_note(env, qp, mr, pkt->rkey, true, sizeof(*orig), 1);
	}
	if (rc == -EAGAIN) {
		rsp_memory_late(env, qp);
		return false;
	}
	if (rc != 0 && !rsp_client_gone(env, qp, rc)) {
		rsp_fault(env, qp, UROCE_ERROR_MEMORY_GONE, pkt);
		rsp_nak_fatal(env, qp, WIRE_NAK_REM_OP, QP_WC_GENERAL_ERR, QP_EVENT_QP_FATAL);
	}
	return rc == 0;
}

/*
 * The R_Key gives no access. Returns true if the atomic was late and was executed after all, and
 * its result is in *orig. Otherwise it is dropped, or fails.
 */
static __rte_noinline bool
atomic_without_region(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt, uint64_t *orig)
{
	switch (rsp_late_state(qp, pkt->rkey, true, sizeof(*orig))) {
	case MEM_LATE_DONE:
		return rsp_late_take(qp, pkt->rkey, true, sizeof(*orig), orig) == 0;
	case MEM_LATE_PENDING:
		rsp_memory_late(env, qp);
		return false;
	case MEM_LATE_NONE:
		break;
	}
	if (rsp_key_guessed(env, qp, pkt->rkey))
		return false;
	rsp_fault_rkey(env, qp, pkt, MEM_REMOTE_ATOMIC);
	rsp_nak_fatal(env, qp, WIRE_NAK_REM_ACCESS, QP_WC_REM_ACCESS_ERR, QP_EVENT_QP_ACCESS_ERR);
	return false;
}

static bool
atomic_execute(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt, uint64_t *orig)
{
	const struct mr *mr = mr_lookup_remote(env->mrs, pkt->rkey, qp->bind.pd, qp->conn.qpn,
					       pkt->va, 8, MEM_REMOTE_ATOMIC, &env->window);
	bool swap = (pkt->opcode & WIRE_OP_MASK) == WIRE_OP_CMP_SWAP;

	if (mr == NULL)
		return atomic_without_region(env, qp, pkt, orig);
	if (unlikely(mr->host == NULL))
		return atomic_by_ops(env, qp, mr, pkt, swap, orig);
	*orig = mr_atomic(mr, pkt->va, swap, pkt->compare, pkt->swap_add);
	return true;
}

void
rsp_atomic_new(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt)
{
	struct qp_rd_op op = {
		.va = pkt->va, .rkey = pkt->rkey, .psn = pkt->psn, .npkts = 1, .atomic = true};

	if ((pkt->va & 7) != 0 || !rsp_rd_room(qp)) {
		rsp_fault(env, qp,
			  (pkt->va & 7) != 0 ? UROCE_ERROR_ATOMIC_ALIGNMENT
					     : UROCE_ERROR_READ_DEPTH,
			  pkt);
		rsp_nak_fatal(env, qp, WIRE_NAK_INV_REQ, QP_WC_REM_INV_REQ_ERR,
			      QP_EVENT_QP_ACCESS_ERR);
		return;
	}
	if (!atomic_execute(env, qp, pkt, &op.orig))
		return;
	qp_got(env, qp, WIRE_F_ATOMIC);
	rsp_rd_add(qp, &op);
}

void
rsp_atomic_dup(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt)
{
	const struct qp_rcv *rcv = &qp->conn.rcv;
	uint32_t i;

	for (i = 0; i < QP_MAX_RD_ATOMIC; i++) {
		struct qp_rd_op op = *rsp_rd_past(rcv, i);

		if (!op.atomic || op.psn != pkt->psn || op.va != pkt->va || op.rkey != pkt->rkey)
			continue;
		rsp_rd_replay(env, qp, &op);
		return;
	}
	qp_env_drop(env, DROP_DUP_IGNORED);
}

bool
rsp_atomic_respond(struct qp_env *env, struct qp *qp, const struct qp_rd_op *op)
{
	struct wire_fields f = {
		.opcode = WIRE_OP_ATOMIC_ACK,
		.psn = op->psn,
		.syndrome = WIRE_SYN_ACK | WIRE_SYN_NO_CREDITS,
		.msn = op->msn,
		.orig = op->orig,
	};
	struct rte_mbuf *m = rsp_frame(env);

	if (m == NULL)
		return false;
	rsp_emit(env, qp, m, wire_hdr_put(&qp->conn.tmpl, &f, 0, rte_pktmbuf_mtod(m, uint8_t *)),
		 0);
	return true;
}
