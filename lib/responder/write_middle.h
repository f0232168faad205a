/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RESPONDER_WRITE_MIDDLE_H
#define RESPONDER_WRITE_MIDDLE_H

#include <rte_branch_prediction.h>
#include "qp/record.h"
#include "responder/responder_parts.h"
#include "wire/psn.h"

/*
 * Worker. Executes pkt, which has the ePSN of qp, an RC QP, if it is a packet in the middle of a
 * WRITE that passes all checks and goes to mapped memory: the steps of rsp_execute for the packets
 * of which a long WRITE consists. Its length was checked with the first packet. Returns false,
 * without a change, for any other packet; the caller then calls rsp_execute, which finds the
 * reason.
 */
static __rte_always_inline bool
rsp_write_middle(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt)
{
	struct qp_rcv *rcv = &qp->conn.rcv;
	uint32_t len = pkt->payload_len;
	const struct mr *mr;

	if (pkt->opcode != (WIRE_SVC_RC | WIRE_OP_WRITE_MIDDLE) || rcv->msg != QP_MSG_WRITE ||
	    len != qp->conn.mtu || pkt->pad_len != 0 || !(qp->conn.access & MEM_REMOTE_WRITE) ||
	    len > rcv->write_left)
		return false;
	mr = mr_lookup_remote(env->mrs, rcv->write_rkey, qp->bind.pd, qp->conn.qpn, rcv->write_va,
			      rcv->write_left, MEM_REMOTE_WRITE, &env->window);
	if (mr == NULL || unlikely(mr->host == NULL))
		return false;
	if (len < MEM_STORE_TAIL)
		__builtin_unreachable(); /* it is the path MTU */
	mr_store(mr, rcv->write_va, pkt->payload, len);
	len = pkt->payload_len; /* no register has to keep it */
	rcv->msg_off += len;
	rcv->write_va += len;
	rcv->write_left -= len;
	qp_got(env, qp, pkt->op->flags);
	rcv->epsn = psn_add(rcv->epsn, 1);
	if (pkt->ackreq)
		rsp_ack(qp, pkt->psn);
	return true;
}

#endif
