/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The requester half of a QP: send WQEs to request packets, responses to completions, lost packets
 * to retransmissions. Runs on the owner worker, within an environment (qp/env.h). Includes qp and
 * the libraries below; independent of the responder.
 *
 * Timers: the caller keeps one timer per QP, armed for qp_deadline_earliest (qp/deadline.h). When
 * it expires, the caller asks qp_deadline_passed and calls req_expired with the result.
 */
#ifndef REQUESTER_REQUESTER_H
#define REQUESTER_REQUESTER_H

#include "qp/qp.h"
#include "wire/parse.h"

/* Is there more to send after a call? */
enum req_more {
	REQ_IDLE = 0, /* nothing to send until a doorbell, a response or the deadline */
	REQ_MORE = 1, /* budget, space or buffers ran out: call again */
	/* The congestion policy holds qp back until QP_DEADLINE_PACE: call again then. */
	REQ_PACED = 2,
	REQ_LATE = 4, /* a payload's memory is late: call again some time later */
};

/*
 * Send up to budget packets of qp, or the bytes of a turn (qp/env.h), into env->tx. Takes new WQEs
 * from the SQ, checks them (REQ-03), builds packets within the window, and arms the doorbell if the
 * SQ is empty.
 */
enum req_more req_run(struct qp_env *env, struct qp *qp, uint32_t budget);

/* Handle a response (ACK, NAK, READ response, atomic ACK) for qp; not checked against its state. */
void req_rx(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt);
/* The same for a response that has waited for memory, by a separate copy of the code. */
void req_rx_late(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt);

/*
 * A response for qp whose memory was late (DROP_MEMORY_LATE) waits: no probe is sent meanwhile, and
 * the peer, which has responded, uses up no retry. Called after each attempt.
 */
void req_rx_waits(struct qp_env *env, struct qp *qp);
/* No response for qp waits any longer: the silence after which it probes begins. */
void req_rx_waited(struct qp_env *env, struct qp *qp);
/* One does not wait any longer, or had no place: its data is requested again, a little later. */
void req_rx_lost(struct qp_env *env, struct qp *qp);

/*
 * Handle a congestion notification packet for qp, which passed all checks. Returns false, and
 * changes nothing, if the congestion policy of qp takes none.
 */
bool req_rx_cnp(struct qp_env *env, struct qp *qp);

/*
 * Handle a selective acknowledgement (wire/sack.h) for qp, an RC QP, which passed all checks.
 * Returns false, and changes nothing, if the device of qp does not use selective repeat, or if the
 * packet has a wrong form or names requests that were not sent.
 */
bool req_rx_sack(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt);

/*
 * Handle a packet with a response opcode and a format error (wire_bad_form), counted as dropped by
 * the caller. A READ response to an outstanding READ fails its WQE with BAD_RESP_ERR (REQ-09). An
 * ACK, NAK or atomic ACK has no effect: it could be forged with just a QPN and a PSN, and a peer
 * that really sent it will get a retransmission.
 */
void req_rx_malformed(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt);

/*
 * Act on deadlines that have passed, and clear or move them: probe, retry or give up (REQ-04,
 * REQ-06). passed: the result of qp_deadline_passed, not 0.
 */
void req_expired(struct qp_env *env, struct qp *qp, uint32_t passed);
/* The timer expired, but the deadline has moved since: a round trip may be timed again. */
void req_timer_early(struct qp *qp);

#endif
