/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Early requests that are held until their turn, for peers that have agreed to selective repeat
 * (doc/selective-repeat.md). A held request has had no effect. When its turn comes it is executed
 * like a request that arrives then, with all checks, so the visible order is that of the PSNs
 * (SR-02).
 *
 * While requests are held, no NAK is due or sent: a NAK makes the requester send everything again
 * from the ePSN on, so whatever is held is discarded with it. Owner worker only.
 */
#ifndef RESPONDER_REORDER_H
#define RESPONDER_REORDER_H

#include "qp/qp.h"
#include "wire/parse.h"
#include <rte_branch_prediction.h>
#include "qp/record.h"
#include "responder/responder_parts.h"
#include "wire/psn.h"

/*
 * Holds the early request pkt, in the frame m, and makes a selective acknowledgement due. If
 * env->dropped becomes QP_ENV_KEPT, m belongs to qp from now on. Returns false, with no effect, if
 * it cannot be held: no agreement, too far ahead, no memory, or after a NAK.
 */
bool rsp_reorder_put(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt,
		     struct rte_mbuf *m);
/*
 * Executes pkt, if it has the ePSN, and the held requests that follow. The memory of one of these
 * may be late, too (DROP_MEMORY_LATE): it stays held until a call with a pkt that is no later.
 */
void rsp_execute_held(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt);
/* A NAK is due: discards what is held. */
void rsp_reorder_discard(struct qp_env *env, struct qp *qp);
/* A duplicate from a peer that has agreed: responds as rsp_duplicate, and tells the peer. */
void rsp_duplicate_report(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt);
/*
 * Sends the selective acknowledgement that is due, and if it tells of many requests a copy. Returns
 * false if there is no space for the first.
 */
bool rsp_sack_send(struct qp_env *env, struct qp *qp);
/*
 * An ACK was sent while rcv.sr_acks was set: if packets are lost and it was the first to tell of
 * many requests, sends a copy, a SACK without held requests, if there is space.
 */
void rsp_ack_sent(struct qp_env *env, struct qp *qp);
/*
 * The same between the READ responses that are queued (rdq_n != 0): the requester can then repair
 * the gap before the queue is empty. The SACK's PSN is that of the next response, and requests
 * behind it that were executed count as held. Does nothing, and leaves the SACK due, if that
 * response is the first of its request, the SACK's window does not reach the last held request, or
 * there is no space.
 */
void rsp_sack_send_early(struct qp_env *env, struct qp *qp);

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
