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

/*
 * Holds the early request pkt, in the frame m, and makes a selective acknowledgement due. If
 * env->dropped becomes QP_ENV_KEPT, m belongs to qp from now on. Returns false, with no effect, if
 * it cannot be held: no agreement, too far ahead, no memory, or after a NAK.
 */
bool rsp_reorder_put(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt,
		     struct rte_mbuf *m);
/* Executes pkt, which has the ePSN, and the held requests that follow it. */
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

#endif
