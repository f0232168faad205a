/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Selective repeat of the requester (doc/selective-repeat.md): only packets that the peer
 * lacks are retransmitted, not those behind them. Shared by the files of lib/requester; owner
 * worker only.
 *
 * A packet is considered lost when a packet that was sent later has arrived:
 *
 *   sent once      a PSN further on by qp_sr_threshold is held by the peer. The threshold grows
 *                  when packets turn out to have been late, not lost
 *   sent again     the same for a packet first sent after it, or for a later retransmission. In
 *                  a network that has reordered packets a round trip must have passed, too
 *
 * Otherwise the probe finds it (requester_parts.h), which is such a retransmission of una_psn. All
 * else is as with go-back-N, to which a NAK, an ACK timeout, a migration and an error always lead.
 */
#ifndef REQUESTER_SELECTIVE_H
#define REQUESTER_SELECTIVE_H

#include "requester/requester_parts.h"

/*
 * Retransmits lost packets, if snd.resend. Called within a turn, before any new packet. Returns
 * REQ_NEXT if none is left; else why it stopped.
 */
enum req_step req_resend(struct qp_env *env, struct qp *qp, struct qp_turn turn);
/*
 * send.c: sends the packet at the cursor of a WQE that was sent before: no window, no READ limit.
 * n: of a READ, responses to request, 1 .. those behind the cursor; 0: the usual number. REQ_SENT,
 * REQ_HELD or above: not now, or another value: it cannot be sent.
 */
enum req_step req_send_again(struct qp_env *env, struct qp *qp, struct qp_sq_entry *e, uint32_t n);
/*
 * The same for psn of e, which is WQE number i. The cursor stays where it is.
 */
enum req_step req_resend_one(struct qp_env *env, struct qp *qp, uint32_t i, struct qp_sq_entry *e,
			     uint32_t psn, uint32_t n);
/*
 * timers.c: sends the probe of a READ, if loss.probe_read and it is still due. Returns REQ_NEXT
 * if none is left; else why it was not sent.
 */
enum req_step req_resend_probe(struct qp_env *env, struct qp *qp, struct qp_turn turn);
/*
 * una_psn has advanced after a probe. If the ACK covers the probed packet and
 * nothing else that the peer lacked, retransmits the last packet that it lacks: the SACK of this
 * one shows all others that are lost, whereas each probe of the oldest packet shows one.
 */
void req_probe_tail(struct qp_env *env, struct qp *qp);
/* The packet psn was sent again: moves the probe, and times no round trip by it (Karn). */
void req_resent(struct qp_env *env, struct qp *qp, uint32_t psn);
/* Packets behind a gap of READ responses, or behind a retransmission, that show a loss. */
static inline uint32_t
req_threshold(const struct qp *qp)
{
	return qp->conn.sr.threshold != 0 ? qp->conn.sr.threshold : QP_SR_THRESHOLD;
}
/* Returns the record of a retransmission of psn; NULL: none is known. */
static inline struct qp_resent *
req_resent_of(struct qp_scoreboard *m, uint32_t psn)
{
	struct qp_resent *r = &m->resent[psn % QP_SR_WINDOW];

	return r->serial != 0 && r->psn == psn ? r : NULL;
}
/* The packet psn, in flight, is lost: the next turn retransmits it. */
static inline void
req_lose(struct qp *qp, struct qp_scoreboard *m, uint32_t psn)
{
	qp_psns_add(&m->lost, psn);
	qp->conn.snd.resend = true;
}
/*
 * The window is full: may another new packet be sent because the peer holds some that were sent?
 * What the peer holds is not in flight. It holds no PSN QP_SR_WINDOW or more behind una_psn.
 */
bool req_window_wider(const struct qp *qp);
/* The peer has executed everything before psn, which is not before m->base_psn. */
void req_scoreboard_advance(struct qp *qp, struct qp_scoreboard *m, uint32_t psn);
/*
 * wqe.c: the WQE of psn, which is not before una_psn, from number *i on, where *i moves to it.
 * NULL: psn is before that WQE, or behind all. *i is in tail .. head. Takes a number of steps that
 * grows with the logarithm of the distance.
 */
struct qp_sq_entry *req_entry_of(const struct qp *qp, uint32_t psn, uint32_t *i);
/* Makes una_psn's packet a probe. Returns false, with no effect, if go-back-N
 * has to do it. */
bool req_probe_selective(struct qp_env *env, struct qp *qp);

/*
 * Responses (selective_read.c). A READ or atomic response behind a missing one is stored at once
 * and counts when its turn comes. Missing responses are requested again, in parts of a READ if the
 * peer is known to have executed it. A response is considered lost by the same rule as a request;
 * or if a later request for responses was answered first.
 */
/*
 * Handles the response pkt, which is in flight, although data before it is missing. Returns false,
 * with no effect, if go-back-N has to do it.
 */
bool req_rx_early(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt);
/* The same for an ACK of everything before upto. */
bool req_ack_early(struct qp_env *env, struct qp *qp, uint32_t upto);
/* The response psn was taken in order: counts the early responses behind it. */
void req_reads_progress(struct qp_env *env, struct qp *qp, uint32_t psn);
/* As req_resend, for responses. */
enum req_step req_resend_reads(struct qp_env *env, struct qp *qp, struct qp_turn turn);
/* A probe: una_psn's response, and all responses that were requested again, are missing. */
void req_reads_lose_all(struct qp *qp, struct qp_scoreboard *m);
/* read_response.c: may pkt be packet k of the READ e (REQ-09)? */
bool req_read_resp_fits(const struct qp *qp, const struct qp_sq_entry *e, uint32_t k,
			const struct wire_pkt *pkt);
/* read_response.c: data of n PSNs from una_psn on was stored, all of e, the oldest WQE. */
void req_responses_taken(struct qp_env *env, struct qp *qp, const struct qp_sq_entry *e,
			 uint32_t n);

#endif
