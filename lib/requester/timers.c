/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loss recovery by going back N: rewinds, probes, the ACK timeout, and the round-trip samples that
 * determine when to probe (REQ-04, REQ-11; qp/loss.h).
 */
#include <rte_common.h>
#include "qp/migrate.h"
#include "requester/requester_parts.h"
#include "requester/selective.h"
#include "wire/psn.h"

/* Karn: a response to a retransmitted packet may be to either copy. Times a later one. */
static void
time_later(struct qp_snd *snd)
{
	if (snd->watch & QP_WATCH_RTT)
		snd->watch = (snd->watch & (uint8_t)~QP_WATCH_RTT) | QP_WATCH_RTT_WANT;
}

/* Moves the cursor back: the next packet sent is una_psn's. */
static void
rewind_cursor(const struct qp_env *env, struct qp *qp)
{
	struct qp_snd *snd = &qp->conn.snd;
	uint32_t i;

	qp_recorder_cut(env, qp);
	qp_scoreboard_clear(qp);
	qp->conn.loss.probe_read = false;
	/* rd_out WQEs are marked: stops at the last of these. */
	for (i = snd->tail; snd->rd_out != 0 && i != snd->head; i++) {
		struct qp_sq_entry *e = qp_sq_entry(qp, i);

		snd->rd_out -= e->rd_counted;
		e->rd_counted = false;
	}
	snd->rd_out = 0;
	snd->rd_psns = 0;
	snd->since_ackreq = 0;
	snd->next_psn = snd->una_psn;
	snd->cur = snd->tail;
	snd->cur_pkt = 0;
	if (snd->tail != snd->head)
		snd->cur_pkt = psn_diff(snd->una_psn, qp_sq_entry(qp, snd->tail)->first_psn) &
			       WIRE_PSN_MASK;
	qp->conn.rq_out = snd->cur_pkt != 0 && req_takes_recv(qp_sq_entry(qp, snd->tail));
	qp_recorder_continue(env, qp);
	time_later(snd);
}

void
req_catch_up(const struct qp_env *env, struct qp *qp)
{
	rewind_cursor(env, qp);
}

void
req_rewind(const struct qp_env *env, struct qp *qp)
{
	rewind_cursor(env, qp);
	qp->conn.snd.watch &= (uint8_t)~QP_WATCH_SPURIOUS;
	qp->conn.snd.probe_ns = 0;
	qp_deadline_clear(&qp->conn, QP_DEADLINE_ACK);
	qp_deadline_clear(&qp->conn, QP_DEADLINE_PATH);
}

/*
 * End of the ACK timeout if READ data is requested again now: restarts with the first such request
 * since there was progress, and continues with later ones. 0: there is no timeout.
 */
static uint64_t
requested_retry_at(const struct qp_env *env, const struct qp *qp)
{
	const struct qp_snd *snd = &qp->conn.snd;
	uint64_t from_ns = env->now_ns;

	if (qp->conn.loss.timeout_ns == 0)
		return 0;
	if (snd->watch & QP_WATCH_ASKED) {
		if (qp_deadline_is_set(&qp->conn, QP_DEADLINE_ACK))
			return qp_deadline_get(&qp->conn, QP_DEADLINE_ACK);
		if (snd->probe_ns != 0)
			from_ns = snd->probe_ns - snd->wait_ns; /* time of the last retry */
	}
	return from_ns + qp->conn.loss.timeout_ns;
}

void
req_ask_again(struct qp_env *env, struct qp *qp)
{
	uint64_t at_ns = requested_retry_at(env, qp);

	req_rewind(env, qp);
	if (qp->conn.snd.wait_ns == 0)
		return;
	if (at_ns != 0)
		qp_deadline_set(&qp->conn, QP_DEADLINE_ACK, at_ns);
	qp->conn.snd.watch |= QP_WATCH_ASKED;
	qp->conn.snd.probe_ns = env->now_ns + qp->conn.snd.wait_ns;
}

/* Uses up a retry. False: none was left, and the QP is in the error state for why. */
bool
req_take_retry(struct qp_env *env, struct qp *qp, enum uroce_error why)
{
	struct qp_snd *snd = &qp->conn.snd;

	if (snd->retry_left != 0) {
		snd->retry_left--;
		return true;
	}
	if (qp_migrate(env, qp))
		return true; /* with all retries for the other path (REQ-11) */
	env->counters->ctr[COUNTER_REQ_RETRY_EXC]++;
	req_fault(env, qp, why, snd->una_psn);
	qp_error(env, qp, QP_WC_RETRY_EXC_ERR);
	return false;
}

void
req_answered(struct qp_env *env, struct qp *qp)
{
	if (!(qp->conn.snd.watch & QP_WATCH_PROBED))
		return;
	qp->conn.snd.watch &= (uint8_t)~QP_WATCH_PROBED;
	qp_deadline_clear(&qp->conn, QP_DEADLINE_ACK);
	qp_loss_rewait(env, qp);
}

/*
 * Progress after a probe. If everything sent is acknowledged, no request was lost, and perhaps
 * nothing at all: the response may have been on its way. Otherwise the rest is retransmitted,
 * because a responder that had it would have acknowledged it. That does not hold for responses of
 * a READ, and after the probe of one the cursor was not moved back.
 */
static void
probe_progress(struct qp_env *env, struct qp *qp)
{
	struct qp_snd *snd = &qp->conn.snd;

	req_answered(env, qp);
	qp->conn.loss.rtt_last_ns = env->now_ns - qp->conn.loss.silent_ns;
	if (psn_lt(snd->una_psn, snd->high_psn)) {
		if (snd->next_psn == snd->high_psn) {
			snd->watch |= QP_WATCH_SPURIOUS;
			req_probe_tail(env, qp);
		}
		return;
	}
	cc_on_spurious(&snd->cc, &qp->conn.cc_flow, env->now_ns);
	snd->watch |= QP_WATCH_SPURIOUS;
}

/* Starts to time a round trip, if no outstanding packet was retransmitted. */
static void
rtt_begin(struct qp_env *env, struct qp *qp)
{
	struct qp_snd *snd = &qp->conn.snd;

	if (snd->next_psn != snd->high_psn)
		return;
	snd->watch &= (uint8_t)~QP_WATCH_RTT;
	if (!req_outstanding(snd)) {
		snd->watch |= QP_WATCH_RTT_FLIGHT;
		return;
	}
	/* The next packet is sent now or, if not posted yet, up to a round trip later. */
	snd->watch |= QP_WATCH_RTT_PSN;
	qp->conn.loss.rtt_sack = false;
	qp->conn.loss.rtt_psn = snd->next_psn;
	qp->conn.loss.rtt_from_ns = env->now_ns;
}

static void
rtt_progress(struct qp_env *env, struct qp *qp)
{
	struct qp_snd *snd = &qp->conn.snd;
	uint64_t from_ns = qp->conn.loss.rtt_from_ns;
	bool over = false;

	if (snd->watch & QP_WATCH_RTT_FLIGHT) {
		/* Timed from the flight's first packet: the deadline has not moved since. */
		over = snd->probe_ns != 0;
		from_ns = snd->probe_ns - snd->wait_ns;
	} else if (snd->watch & QP_WATCH_RTT_PSN) {
		over = psn_lt(qp->conn.loss.rtt_psn, snd->una_psn);
		if (!over && req_outstanding(snd))
			return;
	}
	over = over && !((snd->watch & QP_WATCH_RTT_PSN) && qp->conn.loss.rtt_sack);
	if (over) {
		snd->watch &= (uint8_t)~QP_WATCH_RTT;
		qp_loss_sample(env, qp, env->now_ns - from_ns);
		if (unlikely(cc_times(&qp->conn.cc_flow)))
			rtt_begin(env, qp);
	} else {
		rtt_begin(env, qp);
	}
}

void
req_watch_resent(struct qp *qp, uint32_t psn)
{
	struct qp_snd *snd = &qp->conn.snd;

	if ((snd->watch & QP_WATCH_RTT_PSN) && cc_times(&qp->conn.cc_flow) && snd->rd_psns == 0 &&
	    psn_lt(psn, qp->conn.loss.rtt_psn))
		qp->conn.loss.rtt_sack = true;
	else
		time_later(snd);
}

void
req_watch_held(struct qp_env *env, struct qp *qp, uint32_t epsn, const struct qp_psns_rel *held)
{
	struct qp_snd *snd = &qp->conn.snd;
	uint32_t i = (qp->conn.loss.rtt_psn - epsn) & WIRE_PSN_MASK;

	/* A SACK does not tell whether the responses of a READ have met a queue. */
	if (!(snd->watch & (QP_WATCH_RTT_PSN | QP_WATCH_RTT_WANT)) ||
	    !cc_times(&qp->conn.cc_flow) || snd->rd_psns != 0)
		return;
	if (snd->watch & QP_WATCH_RTT_PSN) {
		if (!qp_psns_rel_has(held, i))
			return;
		snd->watch &= (uint8_t)~QP_WATCH_RTT;
		qp_loss_sample(env, qp, env->now_ns - qp->conn.loss.rtt_from_ns);
	}
	/* Times the next packet if it can be sent now. */
	if ((uint32_t)psn_diff(snd->next_psn, snd->una_psn) < snd->cc.window_pkts ||
	    req_window_wider(qp))
		rtt_begin(env, qp);
	else
		snd->watch |= QP_WATCH_RTT_WANT;
}

/* A round trip later, a capped window may be a packet larger (cc_fixed_cap). */
static void
cap_progress(struct qp *qp)
{
	struct qp_snd *snd = &qp->conn.snd;

	if (psn_lt(snd->una_psn, qp->conn.loss.cap_psn))
		return;
	qp->conn.loss.cap_psn = snd->high_psn;
	if (qp->conn.cc_flow.param.policy != CC_FIXED ||
	    cc_fixed_uncap(&snd->cc, &qp->conn.cc_flow))
		snd->watch &= (uint8_t)~QP_WATCH_CAPPED;
}

void
req_watched(struct qp_env *env, struct qp *qp)
{
	qp_deadline_clear(&qp->conn, QP_DEADLINE_ACK);
	qp_deadline_clear(&qp->conn, QP_DEADLINE_PATH);
	qp->conn.snd.watch &= (uint8_t) ~(QP_WATCH_NAK_PSN | QP_WATCH_ASKED);
	if (qp->conn.snd.watch & QP_WATCH_PROBED)
		probe_progress(env, qp);
	if (qp->conn.snd.watch & QP_WATCH_RTT)
		rtt_progress(env, qp);
	if (qp->conn.snd.watch & QP_WATCH_CAPPED)
		cap_progress(qp);
}

void
req_watch_stale(struct qp_env *env, struct qp *qp)
{
	if (!(qp->conn.snd.watch & QP_WATCH_SPURIOUS))
		return;
	/* One response to the packet, one to its probe: a valid sample; the probe was spurious. */
	qp->conn.snd.watch &= (uint8_t)~QP_WATCH_SPURIOUS;
	env->counters->ctr[COUNTER_REQ_PROBE_VAIN]++;
	if (qp->conn.loss.repair_ns != 0)
		qp_loss_repaired(env, qp, qp->conn.loss.rtt_last_ns);
	qp_loss_sample(env, qp, qp->conn.loss.rtt_last_ns);
}

void
req_timer_early(struct qp *qp)
{
	if (!(qp->conn.snd.watch & QP_WATCH_RTT))
		qp->conn.snd.watch |= QP_WATCH_RTT_WANT;
}

/* Marks the oldest WQE for a probe that leaves the cursor. False: it is not a READ in flight. */
static bool
probe_read(struct qp *qp)
{
	struct qp_snd *snd = &qp->conn.snd;

	if (snd->tail == snd->head || snd->next_psn != snd->high_psn || !req_outstanding(snd) ||
	    qp_sq_entry(qp, snd->tail)->wqe.opcode != UROCE_WR_RDMA_READ)
		return false;
	qp->conn.loss.probe_read = true;
	snd->read_gap = false;
	snd->resend = true;
	return true;
}

__rte_noinline enum req_step
req_resend_probe(struct qp_env *env, struct qp *qp, struct qp_turn turn)
{
	struct qp_snd *snd = &qp->conn.snd;
	struct qp_sq_entry *e;
	enum req_step step;
	bool alone;

	/* A response may have arrived meanwhile, or the path may have changed. */
	if ((snd->watch & QP_WATCH_PROBED) && qp->conn.path_ok && snd->tail != snd->head &&
	    req_outstanding(snd)) {
		if (qp_turn_over(env, turn))
			return REQ_NO_ROOM;
		e = qp_sq_entry(qp, snd->tail); /* still the READ: nothing was acknowledged */
		alone = !req_read_unknown(qp, e, snd->una_psn);
		step = req_resend_one(env, qp, snd->tail, e, snd->una_psn, alone ? 1 : 0);
		if (step >= REQ_HELD)
			return step;
		if (step == REQ_SENT && alone) {
			qp->conn.loss.alone = true;
			qp->conn.loss.alone_psn = snd->una_psn;
		}
		time_later(snd);
	}
	qp->conn.loss.probe_read = false;
	return REQ_NEXT;
}

/* No response for wait_ns: retransmits the first unacknowledged packet. */
static void
probe(struct qp_env *env, struct qp *qp)
{
	struct qp_snd *snd = &qp->conn.snd;

	env->counters->ctr[COUNTER_REQ_PROBE]++;
	qp_record(env, qp, QP_RECORD_PROBE, 0, snd->una_psn, 1);
	if (req_probe_selective(env, qp) || probe_read(qp)) {
		snd->watch |= QP_WATCH_PROBED;
	} else {
		cc_on_probe(&snd->cc, &qp->conn.cc_flow, env->now_ns,
			    (snd->watch & QP_WATCH_PROBED) != 0);
		snd->watch |= QP_WATCH_PROBED;
		snd->read_gap = false;
		rewind_cursor(env, qp);
	}
	qp_loss_back_off(qp);
	snd->probe_ns = env->now_ns + snd->wait_ns;
	env->ops->qp_wake(env->ops_ctx, qp);
}

static void
ack_timeout(struct qp_env *env, struct qp *qp)
{
	struct qp_snd *snd = &qp->conn.snd;

	env->counters->ctr[COUNTER_REQ_TIMEOUT]++;
	qp_record(env, qp, QP_RECORD_TIMEOUT, snd->retry_left, snd->una_psn, snd->cc.window_pkts);
	if (!req_take_retry(env, qp, UROCE_ERROR_NO_RESPONSE))
		return;
	snd->read_gap = false;
	if (!qp->conn.loss.eager) {
		qp->conn.loss.eager = true;
		qp_loss_rewait(env, qp);
	}
	cc_on_timeout(&snd->cc, &qp->conn.cc_flow, env->now_ns);
	req_window_check(qp);
	qp_cc_follow(env, qp);
	req_rewind(env, qp);
	env->ops->qp_wake(env->ops_ctx, qp);
}

/*
 * The ACK timeout has expired and would use up a retry. If it expired because this process did not
 * run, restart it instead.
 */
static bool
excused(struct qp_env *env, struct qp *qp)
{
	struct qp_loss *l = &qp->conn.loss;
	uint64_t end_ns = qp_deadline_get(&qp->conn, QP_DEADLINE_ACK);

	if (l->excused == QP_TIMEOUTS_MOST - 1 ||
	    !env->ops->held_up(env->ops_ctx, qp, end_ns - l->timeout_ns))
		return false;
	l->excused++;
	qp_deadline_set(&qp->conn, QP_DEADLINE_ACK, env->now_ns + l->timeout_ns);
	env->counters->ctr[COUNTER_REQ_EXCUSED]++;
	qp_record(env, qp, QP_RECORD_EXCUSED, 0, qp->conn.snd.una_psn, 0);
	return true;
}

/*
 * The next hop's MAC is unknown. Nothing can be sent, so no retry is used up; the QP gives up when
 * QP_DEADLINE_PATH has passed, after the time that all retries would have taken.
 */
static void
path_timeout(struct qp_env *env, struct qp *qp, bool over)
{
	if (over) {
		qp_record(env, qp, QP_RECORD_NO_MAC, 0, 0, 0);
		qp->conn.snd.retry_left = 0;
		if (!req_take_retry(env, qp, UROCE_ERROR_NO_NEIGHBOUR))
			return;
	}
	req_rewind(env, qp);
	env->ops->qp_wake(env->ops_ctx, qp);
}

enum req_step
req_wait_path(struct qp_env *env, struct qp *qp)
{
	uint64_t timeout_ns = qp->conn.loss.timeout_ns;

	if (qp_deadline_earliest(&qp->conn) == 0 && timeout_ns != 0)
		qp_deadline_set(&qp->conn, QP_DEADLINE_PATH,
				env->now_ns + (qp->conn.retry_cnt + 1) * timeout_ns);
	return REQ_BLOCKED;
}

/*
 * No progress until at_ns, a deadline: probe, or retry if the ACK timeout is over. Its end is
 * derived when the first probe is due. A QP that may not probe waits for the end.
 */
static void
silence(struct qp_env *env, struct qp *qp, uint64_t at_ns)
{
	struct qp_snd *snd = &qp->conn.snd;
	struct qp_loss *l = &qp->conn.loss;
	uint64_t end_ns = qp_deadline_get(&qp->conn, QP_DEADLINE_ACK);

	if (!(snd->watch & QP_WATCH_PROBED))
		l->silent_ns = at_ns - snd->wait_ns;
	if (end_ns == 0 && l->timeout_ns != 0) {
		end_ns = at_ns - snd->wait_ns + l->timeout_ns;
		qp_deadline_set(&qp->conn, QP_DEADLINE_ACK, end_ns);
		l->excused = 0;
	}
	if (end_ns != 0 && env->now_ns >= end_ns && !excused(env, qp))
		ack_timeout(env, qp);
	else if (likely(qp_loss_may_probe(env, qp)))
		probe(env, qp);
	else
		time_later(snd); /* until the end of the ACK timeout; probe_ns is 0 */
}

void
req_expired(struct qp_env *env, struct qp *qp, uint32_t passed)
{
	uint64_t at_ns = qp_deadline_earliest(&qp->conn);

	if (passed & QP_DEADLINE_BIT(QP_DEADLINE_RNR)) {
		qp_deadline_clear(&qp->conn, QP_DEADLINE_RNR);
		env->ops->qp_wake(env->ops_ctx, qp);
		return;
	}
	qp->conn.snd.probe_ns = 0;
	qp_deadline_clear(&qp->conn, QP_DEADLINE_PATH);
	if (qp->conn.snd.tail == qp->conn.snd.head)
		qp_deadline_clear(&qp->conn, QP_DEADLINE_ACK);
	else if (qp->conn.type == QP_TYPE_UD)
		req_datagram_timeout(env, qp);
	else if (!qp->conn.path_ok)
		path_timeout(env, qp, (passed & QP_DEADLINE_BIT(QP_DEADLINE_PATH)) != 0);
	else
		silence(env, qp, at_ns);
}
