/* SPDX-License-Identifier: BSD-3-Clause */
/* Names the reason for which a QP refuses a request or fails as a responder (qp/fault.h). */
#include <rte_common.h>
#include "mem/explain.h"
#include "responder/responder_parts.h"

/* The remote address and key that a request names, in this packet or in the message's first. */
static struct qp_fault
fault_of(const struct qp *qp, enum uroce_error why, const struct wire_pkt *pkt)
{
	const struct qp_rcv *rcv = &qp->conn.rcv;
	struct qp_fault f = {.reason = why, .side = QP_SIDE_RESPONDER};

	if (pkt == NULL)
		return f;
	f.opcode = pkt->opcode;
	f.psn = pkt->psn;
	f.length = pkt->payload_len;
	if (qp->conn.type == QP_TYPE_UD) {
		wire_src_gid(pkt, f.peer);
		f.peer_qpn = pkt->src_qpn;
	}
	if (pkt->op->flags & (WIRE_F_RETH | WIRE_F_ATOMICETH)) {
		f.addr = pkt->va;
		f.key = pkt->rkey;
		f.length = pkt->op->flags & WIRE_F_RETH ? pkt->dmalen : 8;
	} else if (pkt->op->flags & WIRE_F_IETH) {
		f.key = pkt->inv_rkey;
	} else if ((pkt->op->flags & WIRE_F_WRITE) && rcv->msg == QP_MSG_WRITE) {
		f.addr = rcv->write_va;
		f.key = rcv->write_rkey;
		f.length = rcv->write_left;
	}
	return f;
}

void
rsp_fault(struct qp_env *env, struct qp *qp, enum uroce_error why, const struct wire_pkt *pkt)
{
	struct qp_fault f = fault_of(qp, why, pkt);

	qp_fault_set(env, qp, &f);
}

void
rsp_note(struct qp_env *env, struct qp *qp, enum uroce_error why, const struct wire_pkt *pkt)
{
	struct qp_fault f = fault_of(qp, why, pkt);

	qp_fault_note(env, qp, &f);
}

void
rsp_fault_rkey(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt, uint32_t access)
{
	struct qp_fault f = fault_of(qp, UROCE_ERROR_RKEY_UNKNOWN, pkt);

	f.reason = mr_explain_remote(env->mrs, f.key, qp->bind.pd, qp->conn.qpn, f.addr, f.length,
				     access);
	qp_fault_set(env, qp, &f);
}

void
rsp_fault_read(struct qp_env *env, struct qp *qp, const struct qp_rd_op *op, uint32_t psn)
{
	uint32_t off = op->pos * qp->conn.mtu;
	struct qp_fault f = {
		.side = QP_SIDE_RESPONDER,
		.opcode = WIRE_OP_READ_REQ,
		.psn = psn,
		.addr = op->va + off,
		.length = RTE_MIN(op->len - off, (uint32_t)qp->conn.mtu),
		.key = op->rkey,
	};
	enum uroce_error why = mr_explain_remote(env->mrs, f.key, qp->bind.pd, qp->conn.qpn, f.addr,
						 f.length, MEM_REMOTE_READ);

	f.reason = why == UROCE_ERROR_RKEY_CHANGED ? UROCE_ERROR_MEMORY_GONE : why;
	qp_fault_set(env, qp, &f);
}

void
rsp_fault_recv(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt, uint32_t off,
	       uint32_t len)
{
	struct qp_fault f = fault_of(qp, UROCE_ERROR_MEMORY_GONE, pkt);
	const struct uroce_sge *sge = qp->recv_sge;

	for (; len != 0; sge++) {
		uint32_t n;
		enum mr_refusal why;

		if (off >= sge->length) {
			off -= sge->length;
			continue;
		}
		n = RTE_MIN(sge->length - off, len);
		f.key = sge->lkey;
		f.addr = sge->addr + off;
		f.length = n;
		why = mr_explain(env->mrs, sge->lkey, qp->bind.recv_pd, f.addr, n, MEM_LOCAL_WRITE);
		if (why <= MR_OUT_OF_BOUNDS) {
			f.reason = (uint16_t)(UROCE_ERROR_RECV_LKEY_UNKNOWN + why);
			break;
		}
		len -= n;
		off = 0;
	}
	qp_fault_set(env, qp, &f);
}
