/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The requester half of an RC QP: send WQEs to request packets, responses to completions, lost
 * packets to retries. Runs on the owner worker; see qp/env.h for what it works with.
 * May include qp and below; knows nothing of the responder.
 *
 * Timers: one deadline a QP (qp->conn.snd.deadline_ns): a probe (qp/loss.h), the ACK timeout
 * (REQ-04) or the end of an RNR wait (REQ-06). Whoever drives the QP calls req_timeout once
 * env->now_ns reached it.
 */
#ifndef REQUESTER_REQUESTER_H
#define REQUESTER_REQUESTER_H

#include "qp/qp.h"
#include "wire/parse.h"

/* What a call left behind. */
enum req_more {
	REQ_IDLE = 0, /* nothing to send until a doorbell, a response or the deadline */
	REQ_MORE = 1, /* budget, room or buffers ran out: call again */
};

/*
 * Send up to budget packets of qp into env->tx, or the bytes of a turn (qp/env.h). Takes new WQEs
 * from the SQ, checks them (REQ-03), builds packets within the window, arms the doorbell when the
 * SQ is empty.
 */
enum req_more req_run(struct qp_env *env, struct qp *qp, uint32_t budget);

/* A response packet for qp (ACK, NAK, READ response, atomic ACK), fully checked but for the QP. */
void req_rx(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt);

/*
 * A packet with an opcode of a response and a bad form (wire_bad_form), which the caller has
 * counted as dropped. A READ response that would answer something fails its WQE with BAD_RESP_ERR
 * (REQ-09). An ACK, NAK or atomic ACK changes nothing: whoever forges it needs no more than a QPN
 * and a PSN, and a peer that has sent it will be asked again.
 */
void req_rx_malformed(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt);

/* env->now_ns has reached qp->conn.snd.deadline_ns: probe, retry or give up (REQ-04, REQ-06). */
void req_timeout(struct qp_env *env, struct qp *qp);
/* The timer went off and the deadline has moved meanwhile: a round trip may be timed again. */
void req_timer_early(struct qp *qp);

#endif
