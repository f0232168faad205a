/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Execution in PSN order (responder_parts.h): the request with the ePSN is executed, a duplicate is
 * responded to again, and a packet that comes too early is dropped and causes a sequence NAK
 * (RSP-01, NAK-04), unless the peer has agreed to selective repeat and it can be held (reorder.h).
 */
#include <rte_branch_prediction.h>
#include <rte_common.h>
#include "responder/reorder.h"
#include "responder/responder_parts.h"
#include "wire/psn.h"

/* Repetitions of the NAK of an ePSN; fewer than a requester's retries (0 .. 7). */
#define NAK_REPEATS 3

/*
 * One NAK is sent per gap (NAK-04). The requester then goes back to the ePSN. If that packet is
 * lost again, the packets behind it arrive a second time. The packet that opened the gap therefore
 * shows, when it arrives again, that the requester received the NAK and that this is a new gap;
 * silence would cost the requester an ACK timeout. No other packet counts: if the network reorders
 * packets, many packets of one pass would cause a NAK, each of which uses up a retry.
 *
 * Anybody who knows the addresses and QPN can repeat that packet, because half of all PSNs are
 * ahead of the ePSN. The repetitions are therefore limited: they must not use up all of the
 * requester's retries while the ePSN is on its way.
 */
static bool
gap_reopened(const struct qp_env *env, const struct qp *qp, uint32_t early_psn)
{
	const struct qp_rcv *rcv = &qp->conn.rcv;

	return !rcv->nak_due && rcv->naks_again < NAK_REPEATS &&
	       rcv->nak_syndrome == (WIRE_SYN_NAK | WIRE_NAK_PSN_SEQ) &&
	       early_psn == rcv->gap_psn && !qp_is_plain(env, qp, QP_PLAIN_RESPONDER);
}

/* Makes a sequence NAK of the ePSN due, unless one was sent. Drops the packet with early_psn. */
static void
nak_sequence(struct qp_env *env, struct qp *qp, uint32_t early_psn)
{
	struct qp_rcv *rcv = &qp->conn.rcv;

	rsp_reorder_discard(env, qp);
	rcv->early_psn = early_psn;
	if (rcv->nak_sent && !gap_reopened(env, qp, early_psn)) {
		qp_env_drop(env, DROP_OUT_OF_SEQ);
		return;
	}
	rcv->naks_again = rcv->nak_sent ? rcv->naks_again + 1 : 0;
	rcv->gap_psn = early_psn;
	rsp_nak_due(qp, WIRE_SYN_NAK | WIRE_NAK_PSN_SEQ);
}

/*
 * The packet with the ePSN. It voids a due NAK of this ePSN (NAK-04). The packet that caused that
 * NAK was dropped. If it is behind the new ePSN, there is still a gap and a new NAK is due;
 * otherwise it was a late duplicate.
 */
static inline void
rx_expected(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt)
{
	struct qp_rcv *rcv = &qp->conn.rcv;
	bool early = false;

	if (unlikely(rcv->nak_due || rcv->nak_sent || rcv->holding)) {
		if (rcv->holding) {
			rsp_execute_held(env, qp, pkt);
			return;
		}
		early = rcv->nak_due && rcv->nak_syndrome == (WIRE_SYN_NAK | WIRE_NAK_PSN_SEQ);
		rcv->nak_due = rcv->nak_sent = false;
	}
	if (!rsp_write_middle(env, qp, pkt))
		rsp_execute(env, qp, pkt);
	if (unlikely(early) && !rcv->nak_due && psn_le(rcv->epsn, rcv->early_psn))
		nak_sequence(env, qp, rcv->early_psn);
}

/* The packet that comes too early is held or dropped: m stays the engine's. */
static __rte_noinline void
rx_early(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt, struct rte_mbuf *m)
{
	env->counters->ctr[COUNTER_RSP_OUT_OF_SEQ]++;
	qp_record(env, qp, QP_RECORD_EARLY, 0, pkt->psn, 1);
	if (rsp_reorder_put(env, qp, pkt, m))
		return;
	if (qp->bind.late_req.n != 0)
		qp_env_drop(env, DROP_MEMORY_LATE); /* the engine keeps it behind the late one */
	else
		nak_sequence(env, qp, pkt->psn);
}

void
rsp_order_rx(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt, struct rte_mbuf *m)
{
	int32_t ahead = psn_diff(pkt->psn, qp->conn.rcv.epsn);

	if (ahead == 0)
		rx_expected(env, qp, pkt);
	else if (ahead > 0)
		rx_early(env, qp, pkt, m);
	else if (qp->conn.sr.state == QP_SR_ON)
		rsp_duplicate_report(env, qp, pkt);
	else
		rsp_duplicate(env, qp, pkt);
}

void
rsp_order_late(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt)
{
	struct qp_rcv *rcv = &qp->conn.rcv;

	if (psn_lt(rcv->epsn, pkt->psn)) {
		nak_sequence(env, qp, pkt->psn);
	} else if (rcv->holding) {
		rsp_execute_held(env, qp, pkt);
	} else if (pkt->psn == rcv->epsn) {
		rcv->nak_due = rcv->nak_sent = false;
		rsp_execute(env, qp, pkt);
		/* requests behind the last one that waits had no place and were dropped */
		if (qp->bind.late_req.n == 1 && rcv->epsn != pkt->psn && !rcv->nak_due &&
		    psn_le(rcv->epsn, rcv->early_psn))
			nak_sequence(env, qp, rcv->early_psn);
	}
	qp_wake(env, qp);
}

void
rsp_order_rx_malformed(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt)
{
	struct qp_rcv *rcv = &qp->conn.rcv;
	int32_t ahead = psn_diff(pkt->psn, rcv->epsn);

	if (ahead == 0) {
		rcv->nak_due = rcv->nak_sent = false; /* void, as in rx_expected */
		rsp_reorder_discard(env, qp);
		rsp_invalid(env, qp, UROCE_ERROR_MALFORMED, pkt);
	} else if (ahead > 0 && !rcv->nak_sent) {
		env->counters->ctr[COUNTER_RSP_OUT_OF_SEQ]++;
		nak_sequence(env, qp, pkt->psn);
	}
}
