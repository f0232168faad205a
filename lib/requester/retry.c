/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Responses that require a retry, or forbid one: gaps in READ responses, RNR and sequence NAKs,
 * late memory, fatal NAKs (REQ-05, REQ-06, REQ-08, NAK-12).
 */
#include "requester/requester_parts.h"
#include "wire/psn.h"
#include "wire/timer.h"

/*
 * The gap in READ responses was requested again, and a response with psn shows a gap once more. Is
 * it a new gap? Yes if the response is at or before the one that showed the old gap, and arrives a
 * round trip later. If it arrives earlier, the network has reordered two responses.
 */
static bool
gap_again(const struct qp_env *env, const struct qp *qp, uint32_t psn)
{
	const struct qp_loss *l = &qp->conn.loss;

	return l->srtt_ns != 0 && env->now_ns - l->gap_at_ns >= l->srtt_ns &&
	       psn_le(psn, l->gap_psn) && req_outstanding(&qp->conn.snd) &&
	       !qp_is_plain(env, qp, QP_PLAIN_REQUESTER | QP_PLAIN_TIMERS);
}

/*
 * READ responses before psn, the PSN of a received response, are missing: requests them again, once
 * per gap (REQ-08). data: the received response is a READ response.
 */
void
req_read_gap(struct qp_env *env, struct qp *qp, uint32_t psn, bool data)
{
	struct qp_snd *snd = &qp->conn.snd;

	if (req_is_behind(env, qp)) {
		qp_env_drop(env, DROP_MEMORY_LATE); /* the engine keeps it behind them */
		return;
	}
	if (req_rnr_waits(qp) || (snd->read_gap && !(data && gap_again(env, qp, psn))))
		return;
	env->counters->ctr[COUNTER_REQ_READ_GAP]++;
	qp_record(env, qp, QP_RECORD_READ_GAP, 0, psn, 1);
	snd->rd_lossy = true;
	if (!(env->plain & QP_PLAIN_REQUESTER))
		req_cc_loss(env, qp);
	req_ask_again(env, qp);
	snd->read_gap = true;
	qp->conn.loss.gap_at_ns = env->now_ns;
	qp->conn.loss.gap_psn = psn;
	env->ops->qp_wake(env->ops_ctx, qp);
}

/* REQ-06, NAK-10. */
void
req_rx_rnr(struct qp_env *env, struct qp *qp, uint32_t psn, uint32_t code)
{
	struct qp_snd *snd = &qp->conn.snd;

	if (!req_ack_until(env, qp, psn)) {
		req_read_gap(env, qp, psn, false);
		return;
	}
	if (req_rnr_waits(qp))
		return; /* to a packet sent before the wait began */
	env->counters->ctr[COUNTER_REQ_RNR_NAK]++;
	qp_record(env, qp, QP_RECORD_NAK_GOT, WIRE_SYN_RNR | code, psn, snd->rnr_left);
	if (qp->conn.attr.rnr_retry != 7) {
		if (snd->rnr_left == 0) {
			req_fault(env, qp, UROCE_ERROR_RNR_RETRIES, psn);
			qp_error(env, qp, QP_WC_RNR_RETRY_EXC_ERR);
			return;
		}
		snd->rnr_left--;
	}
	/*
	 * The oldest packet arrived: nothing is lost, and rnr_left counts these. After each such
	 * response rxe sends a sequence NAK for the rest of the burst, which may arrive after a
	 * short wait has ended; these must not add up over many waits.
	 */
	snd->retry_left = qp->conn.attr.retry_cnt;
	req_answered(env, qp);
	/*
	 * One packet after the wait, more once the peer takes it. A receiver that is stopped would
	 * otherwise have the whole window sent to it after each wait, which may be 10 us.
	 */
	cc_on_probe(&snd->cc, &qp->conn.cc_flow, env->now_ns, true);
	req_rewind(env, qp);
	qp_deadline_set(&qp->conn, QP_DEADLINE_RNR, env->now_ns + wire_rnr_timer_ns(code));
}

/*
 * A sequence NAK that cannot acknowledge everything before it, because READ data is missing: does
 * it name a later PSN than the last one? Then the peer makes progress.
 */
static bool
nak_is_progress(struct qp *qp, uint32_t psn)
{
	struct qp_snd *snd = &qp->conn.snd;
	uint32_t nak_psn = snd->watch & QP_WATCH_NAK_PSN ? qp->conn.loss.nak_psn : snd->una_psn;

	if (snd->una_psn == psn || !psn_lt(nak_psn, psn))
		return false;
	snd->watch |= QP_WATCH_NAK_PSN;
	qp->conn.loss.nak_psn = psn;
	return true;
}

/* REQ-05. */
void
req_rx_seq_nak(struct qp_env *env, struct qp *qp, uint32_t psn)
{
	struct qp_snd *snd = &qp->conn.snd;

	if (!req_ack_until(env, qp, psn) && req_is_behind(env, qp)) {
		qp_env_drop(env, DROP_MEMORY_LATE); /* the engine keeps it behind them */
		return;
	}
	if (req_rnr_waits(qp))
		return; /* for packets behind the RNR NAK's; retransmitted after the wait */
	env->counters->ctr[COUNTER_REQ_SEQ_NAK]++;
	qp_record(env, qp, QP_RECORD_NAK_GOT, WIRE_SYN_NAK | WIRE_NAK_PSN_SEQ, psn,
		  snd->retry_left);
	if (!nak_is_progress(qp, psn) && !req_take_retry(env, qp, UROCE_ERROR_SEQ_NAK_RETRIES))
		return;
	req_answered(env, qp);
	if (!(env->plain & QP_PLAIN_REQUESTER))
		req_cc_loss(env, qp);
	/* Fewer READs are requested at a time now, so that fewer responses are queued. */
	if (snd->rd_psns != 0 && snd->wait_ns > QP_PROBE_FORGOT_NS)
		qp_loss_forget_rtt(env, qp);
	req_rewind(env, qp);
	env->ops->qp_wake(env->ops_ctx, qp);
}

/* NAK-12: no retry. First requests the missing data of an earlier READ again. */
void
req_rx_fatal_nak(struct qp_env *env, struct qp *qp, uint32_t psn, uint32_t code)
{
	static const uint8_t status[] = {
		[WIRE_NAK_INV_REQ] = QP_WC_REM_INV_REQ_ERR,
		[WIRE_NAK_REM_ACCESS] = QP_WC_REM_ACCESS_ERR,
		[WIRE_NAK_REM_OP] = QP_WC_REM_OP_ERR,
	};
	static const uint16_t why[] = {
		[WIRE_NAK_INV_REQ] = UROCE_ERROR_NAK_INVALID_REQUEST,
		[WIRE_NAK_REM_ACCESS] = UROCE_ERROR_NAK_REMOTE_ACCESS,
		[WIRE_NAK_REM_OP] = UROCE_ERROR_NAK_REMOTE_OPERATION,
	};

	if (!req_ack_until(env, qp, psn)) {
		req_read_gap(env, qp, psn, false);
		return;
	}
	env->counters->ctr[COUNTER_REQ_FATAL_NAK]++;
	qp_record(env, qp, QP_RECORD_NAK_GOT, WIRE_SYN_NAK | code, psn, 0);
	req_fault(env, qp, why[code], psn);
	qp_error(env, qp, status[code]);
}

#define LATE_NS 1000000u /* wait before a request is repeated whose memory was late */

void
req_rx_waits(struct qp_env *env, struct qp *qp)
{
	qp->conn.snd.retry_left = qp->conn.attr.retry_cnt;
	req_answered(env, qp);
	qp_deadline_clear(&qp->conn, QP_DEADLINE_ACK);
	qp->conn.snd.probe_ns = 0;
}

void
req_rx_waited(struct qp_env *env, struct qp *qp)
{
	struct qp_snd *snd = &qp->conn.snd;

	if (snd->probe_ns == 0 && snd->wait_ns != 0 && req_outstanding(snd) &&
	    qp->conn.state != QP_ERR)
		snd->probe_ns = env->now_ns + snd->wait_ns;
}

void
req_rx_lost(struct qp_env *env, struct qp *qp)
{
	if (req_rnr_waits(qp) || qp->conn.state == QP_ERR)
		return; /* requested again already */
	req_rx_waits(env, qp);
	req_rewind(env, qp);
	qp_deadline_set(&qp->conn, QP_DEADLINE_RNR, env->now_ns + LATE_NS);
}

__rte_noinline void
req_not_scattered(struct qp_env *env, struct qp *qp, struct qp_sq_entry *e, uint32_t off,
		  uint32_t len, int rc)
{
	if (rc == -EAGAIN) {
		qp_env_drop(env, DROP_MEMORY_LATE);
		qp_record(env, qp, QP_RECORD_LATE, 0, qp->conn.snd.una_psn, 1);
		return;
	}
	req_fault_scatter(env, qp, e, off, len);
	qp_error(env, qp, QP_WC_LOC_PROT_ERR);
}
