/* SPDX-License-Identifier: BSD-3-Clause */
/* Responses and the completions that follow (REQ-01, REQ-05 .. REQ-09, NAK-12). */
#include <rte_branch_prediction.h>
#include <rte_common.h>
#include "requester/internal.h"
#include "wire/credits.h"
#include "wire/psn.h"
#include "wire/timer.h"

void
req_drain_check(struct qp_env *env, struct qp *qp)
{
	struct qp_snd *snd = &qp->conn.snd;

	/* All that was sent may be acknowledged, and the message still not be over. */
	if (!snd->draining || snd->una_psn != snd->high_psn || snd->cur_pkt != 0)
		return;
	snd->draining = false;
	if (qp->conn.attr.en_sqd_async_notify)
		env->ops->async_event(env->ops_ctx, QP_EVENT_SQ_DRAINED, qp, NULL);
}

/* una_psn moved on: counters reloaded, timer started anew or stopped. */
static void
progress(struct qp_env *env, struct qp *qp)
{
	struct qp_snd *snd = &qp->conn.snd;

	req_local_retire(env, qp);
	snd->retry_left = qp->conn.retry_cnt;
	snd->rnr_left = qp->conn.rnr_retry;
	snd->read_gap = false;
	cc_on_ack(&snd->cc, env->now_ns, qp->conn.loss.srtt_ns);
	if (unlikely(snd->watch != 0))
		req_watched(env, qp);
	/* An answer to something sent before a rewind may overtake the cursor. */
	if (psn_lt(snd->next_psn, snd->una_psn))
		req_catch_up(qp);
	if (!snd->rnr_wait)
		snd->deadline_ns =
			req_outstanding(snd) && snd->wait_ns != 0 ? env->now_ns + snd->wait_ns : 0;
	req_drain_check(env, qp);
	/* All was sent, and the client rings for more: a turn would find nothing. */
	if (!qp->bind.armed || snd->cur != snd->head)
		env->ops->qp_wake(env->ops_ctx, qp);
}

/*
 * The WQE at tail is acknowledged, whose entry is e: it has taken its receive WQE, and one of the
 * credits, unless the acknowledgement tells others. A NAK does not, nor does what leaves a READ
 * open.
 */
static __rte_noinline void
credit_release(struct qp *qp, const struct qp_sq_entry *e)
{
	if (!req_takes_recv(e))
		return;
	if (req_oldest_started(&qp->conn.snd))
		qp->conn.rq_out--;
	if (qp->conn.rq_credits != 0 && qp->conn.rq_credits != UINT16_MAX)
		qp->conn.rq_credits--;
}

/*
 * The first credits of this peer. Messages under way have not been counted so far, and from now on
 * none goes without being held against them.
 */
static void
credit_count_out(struct qp *qp)
{
	struct qp_snd *snd = &qp->conn.snd;
	uint32_t i, started = snd->cur + (snd->cur_pkt != 0) - snd->tail;

	qp->conn.rq_out = 0;
	for (i = 0; i != snd->head - snd->tail; i++) {
		struct qp_sq_entry *e = qp_sq_entry(qp, snd->tail + i);

		qp->conn.rq_out += i < started && req_takes_recv(e);
		e->plain = QP_SQE_SPECIAL;
	}
	snd->limited = true;
}

/*
 * End-to-end credits that came with the acknowledgement of everything before una_psn: how many
 * messages that take a receive WQE may be outstanding from there on.
 */
static __rte_noinline void
credit_take(struct qp_env *env, struct qp *qp, uint32_t code)
{
	struct qp_snd *snd = &qp->conn.snd;
	uint16_t were = snd->limited ? qp->conn.rq_credits : UINT16_MAX;

	if (qp->conn.state != QP_RTS && qp->conn.state != QP_SQD)
		return; /* the response has just failed */
	if (!snd->limited)
		credit_count_out(qp);
	qp->conn.rq_credits =
		code == WIRE_SYN_NO_CREDITS ? UINT16_MAX : (uint16_t)wire_credit_count(code);
	if (qp->conn.rq_credits > were)
		env->ops->qp_wake(env->ops_ctx, qp);
}

/* An acknowledgement of psn was taken. One that left something before it open says nothing here. */
static inline void
rx_credits(struct qp_env *env, struct qp *qp, uint32_t psn, uint8_t syndrome)
{
	uint32_t code = syndrome & WIRE_SYN_VALUE;

	if (likely(code == WIRE_SYN_NO_CREDITS) && likely(!qp->conn.snd.limited))
		return;
	if (psn_add(psn, 1) == qp->conn.snd.una_psn)
		credit_take(env, qp, code);
}

/* The WQE at tail is acknowledged, which ends before PSN end: an answer may overtake the cursor. */
static inline void
ack_pass(struct qp_snd *snd, uint32_t tail, uint32_t end)
{
	if (snd->cur == tail) {
		snd->cur++;
		snd->cur_pkt = 0;
		snd->next_psn = end;
	}
}

/*
 * The oldest WQE, whose entry is e, is silent and acknowledged: retires it, and those of its kind
 * behind it that are acknowledged before upto. Their client is told once, and little is written
 * meanwhile: the completion before them may still be on its way to memory.
 */
static __rte_noinline void
ack_silent(struct qp_env *env, struct qp *qp, const struct qp_sq_entry *e, uint32_t upto)
{
	struct qp_snd *snd = &qp->conn.snd;
	uint32_t tail = snd->tail, una, end = psn_add(e->first_psn, e->npkts);
	uint64_t wr_id;

	do {
		wr_id = e->wqe.wr_id;
		una = end;
		ack_pass(snd, tail++, end);
		qp_sqes_put(&qp->bind.sqes, env->sqes, tail, snd->head);
		if (tail == snd->head)
			break;
		e = qp_sq_entry(qp, tail);
		end = psn_add(e->first_psn, e->npkts);
	} while (e->plain && qp_is_silent(qp, e) && !psn_lt(upto, end));
	snd->una_psn = una;
	qp_retire_told(qp, tail, wr_id);
}

/*
 * Everything before upto is acknowledged, as far as that goes: a READ is complete only when its
 * data is here (REQ-07). Retires WQEs; true when una_psn is now upto.
 */
static bool
ack_until(struct qp_env *env, struct qp *qp, uint32_t upto)
{
	struct qp_snd *snd = &qp->conn.snd;
	uint32_t was = snd->una_psn;

	while (snd->tail != snd->head && psn_lt(snd->una_psn, upto)) {
		struct qp_sq_entry *e = qp_sq_entry(qp, snd->tail);
		uint32_t end = psn_add(e->first_psn, e->npkts);

		if (!e->plain && (e->status != QP_WC_SUCCESS || req_fetches(e)))
			break;
		if (psn_lt(upto, end)) {
			snd->una_psn = upto;
			break;
		}
		if (!e->plain && snd->limited)
			credit_release(qp, e);
		if (e->plain && qp_is_silent(qp, e)) {
			ack_silent(env, qp, e, upto);
			continue;
		}
		snd->una_psn = end;
		ack_pass(snd, snd->tail, end);
		if (likely(e->plain)) {
			uint32_t tail = snd->tail + 1;

			qp_retire_one(env, qp, tail, &e->wqe, e->length, QP_WC_SUCCESS);
			qp_sqes_put(&qp->bind.sqes, env->sqes, tail, snd->head);
		} else {
			qp_retire_send(env, qp, e, QP_WC_SUCCESS);
		}
	}
	if (snd->una_psn != was)
		progress(env, qp);
	return snd->una_psn == upto;
}

/*
 * The gap in READ responses was asked for again; a response with psn shows it once more. Has the
 * peer begun anew, and lost it again? Then the response is at or before the one that showed the gap
 * before, and comes a round trip later: sooner, the network has changed the order of two.
 */
static bool
gap_again(const struct qp_env *env, const struct qp *qp, uint32_t psn)
{
	const struct qp_loss *l = &qp->conn.loss;

	return l->srtt_ns != 0 && env->now_ns - l->gap_at_ns >= l->srtt_ns &&
	       psn_le(psn, l->gap_psn) && req_outstanding(&qp->conn.snd) &&
	       !(env->plain & QP_PLAIN_REQUESTER);
}

/*
 * READ responses before psn, which an answer just had, are missing: ask for them again, once a gap
 * (REQ-08). data: the answer is a response.
 */
static void
read_gap(struct qp_env *env, struct qp *qp, uint32_t psn, bool data)
{
	struct qp_snd *snd = &qp->conn.snd;

	if (snd->rnr_wait || (snd->read_gap && !(data && gap_again(env, qp, psn))))
		return;
	env->obs->ctr[OBS_REQ_READ_GAP]++;
	req_ask_again(env, qp);
	snd->read_gap = true;
	qp->conn.loss.gap_at_ns = env->now_ns;
	qp->conn.loss.gap_psn = psn;
	env->ops->qp_wake(env->ops_ctx, qp);
}

static void
stale(struct qp_env *env)
{
	env->obs->ctr[OBS_REQ_DUP_ACK]++;
	qp_env_drop(env, OBS_DROP_STALE_RESP);
}

static void
rx_ack(struct qp_env *env, struct qp *qp, uint32_t psn)
{
	cq_prefetch(qp->bind.send_cq);
	if (!ack_until(env, qp, psn_add(psn, 1)))
		read_gap(env, qp, psn, false);
}

/* REQ-06, NAK-10. */
static void
rx_rnr(struct qp_env *env, struct qp *qp, uint32_t psn, uint32_t code)
{
	struct qp_snd *snd = &qp->conn.snd;

	if (!ack_until(env, qp, psn)) {
		read_gap(env, qp, psn, false);
		return;
	}
	if (snd->rnr_wait)
		return; /* of a packet sent before the wait began */
	env->obs->ctr[OBS_REQ_RNR_NAK]++;
	if (qp->conn.attr.rnr_retry != 7) {
		if (snd->rnr_left == 0) {
			qp_error(env, qp, QP_WC_RNR_RETRY_EXC_ERR);
			return;
		}
		snd->rnr_left--;
	}
	/*
	 * The oldest packet got through: nothing is lost, and rnr_left counts these. Behind each
	 * such answer rxe sends a sequence NAK for the rest of the burst, which may come after a
	 * short wait is over; they must not add up over many waits.
	 */
	snd->retry_left = qp->conn.attr.retry_cnt;
	req_answered(env, qp);
	snd->rnr_wait = true;
	snd->deadline_ns = env->now_ns + wire_rnr_timer_ns(code);
	req_rewind(qp);
}

/*
 * A sequence NAK that does not acknowledge all before it, because READ data is missing: has the
 * peer got further than by the last one? Then nothing is retried in vain.
 */
static bool
nak_is_progress(struct qp *qp, uint32_t psn)
{
	struct qp_snd *snd = &qp->conn.snd;
	uint32_t told = snd->watch & QP_WATCH_TOLD ? qp->conn.loss.told_psn : snd->una_psn;

	if (snd->una_psn == psn || !psn_lt(told, psn))
		return false;
	snd->watch |= QP_WATCH_TOLD;
	qp->conn.loss.told_psn = psn;
	return true;
}

/* REQ-05. */
static void
rx_seq_nak(struct qp_env *env, struct qp *qp, uint32_t psn)
{
	struct qp_snd *snd = &qp->conn.snd;

	ack_until(env, qp, psn);
	if (snd->rnr_wait)
		return; /* packets behind the one that met RNR; they go again after the wait */
	env->obs->ctr[OBS_REQ_SEQ_NAK]++;
	if (!nak_is_progress(qp, psn) && !req_take_retry(env, qp))
		return;
	req_answered(env, qp);
	if (!(env->plain & QP_PLAIN_REQUESTER))
		cc_on_loss(&snd->cc, env->now_ns);
	req_rewind(qp);
	env->ops->qp_wake(env->ops_ctx, qp);
}

/* NAK-12: no retry. A READ before it whose data is missing is asked for again first. */
static void
rx_fatal_nak(struct qp_env *env, struct qp *qp, uint32_t psn, uint32_t code)
{
	static const uint8_t status[] = {
		[WIRE_NAK_INV_REQ] = QP_WC_REM_INV_REQ_ERR,
		[WIRE_NAK_REM_ACCESS] = QP_WC_REM_ACCESS_ERR,
		[WIRE_NAK_REM_OP] = QP_WC_REM_OP_ERR,
	};

	if (!ack_until(env, qp, psn)) {
		read_gap(env, qp, psn, false);
		return;
	}
	env->obs->ctr[OBS_REQ_FATAL_NAK]++;
	qp_error(env, qp, status[code]);
}

static void
rx_nak(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt)
{
	uint32_t value = pkt->syndrome & WIRE_SYN_VALUE;

	switch (pkt->syndrome & WIRE_SYN_KIND) {
	case WIRE_SYN_ACK:
		rx_ack(env, qp, pkt->psn);
		rx_credits(env, qp, pkt->psn, pkt->syndrome);
		return;
	case WIRE_SYN_RNR:
		rx_rnr(env, qp, pkt->psn, value);
		return;
	case WIRE_SYN_NAK:
		if (value == WIRE_NAK_PSN_SEQ) {
			rx_seq_nak(env, qp, pkt->psn);
			return;
		}
		if (value <= WIRE_NAK_REM_OP) {
			rx_fatal_nak(env, qp, pkt->psn, value);
			return;
		}
		break;
	}
	stale(env); /* reserved syndrome */
}

/* Is this response's opcode and length what PSN number k of the READ must look like (REQ-09)? */
static bool
read_resp_fits(const struct qp *qp, const struct qp_sq_entry *e, uint32_t k,
	       const struct wire_pkt *pkt)
{
	bool last = k + 1 == e->npkts;
	bool ends = (pkt->op->flags & WIRE_F_LAST) != 0;

	if (last)
		return ends && pkt->payload_len == e->length - k * qp->conn.mtu;
	/* A READ that went as several requests has a LAST in its middle. */
	return pkt->payload_len == qp->conn.mtu && (!ends || e->npkts > QP_READ_CHUNK_PKTS);
}

/* The data of una_psn is in memory; last: all of the oldest WQE, e, is. */
static void
response_taken(struct qp_env *env, struct qp *qp, const struct qp_sq_entry *e, bool last)
{
	struct qp_snd *snd = &qp->conn.snd;

	snd->una_psn = psn_add(snd->una_psn, 1);
	if (snd->rd_psns != 0)
		snd->rd_psns--;
	if (last) {
		if (snd->cur == snd->tail) {
			snd->cur++;
			snd->cur_pkt = 0;
			if (psn_lt(snd->next_psn, snd->una_psn))
				snd->next_psn = snd->una_psn;
		}
		qp_retire_send(env, qp, e, QP_WC_SUCCESS);
	}
	progress(env, qp);
}

#define LATE_NS 1000000u /* before an answer is asked for again whose memory was late */

/*
 * The data of una_psn cannot be stored: rc is not 0. Memory that is not there yet: asked for again
 * a little later, as after an RNR NAK. The peer has answered, so no retry is used up.
 */
static __rte_noinline void
not_scattered(struct qp_env *env, struct qp *qp, int rc)
{
	struct qp_snd *snd = &qp->conn.snd;

	if (rc != -EAGAIN) {
		qp_error(env, qp, QP_WC_LOC_PROT_ERR);
		return;
	}
	qp_env_drop(env, OBS_DROP_MEMORY_LATE);
	if (snd->rnr_wait)
		return; /* asked for again already */
	snd->retry_left = qp->conn.attr.retry_cnt;
	req_answered(env, qp);
	snd->rnr_wait = true;
	snd->deadline_ns = env->now_ns + LATE_NS;
	req_rewind(qp);
}

static void
rx_read_resp(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt)
{
	struct qp_snd *snd = &qp->conn.snd;
	struct qp_sq_entry *e;
	uint32_t k;
	int rc;

	if (!ack_until(env, qp, pkt->psn)) {
		read_gap(env, qp, pkt->psn, true);
		return;
	}
	e = qp_sq_entry(qp, snd->tail);
	k = psn_diff(pkt->psn, e->first_psn) & WIRE_PSN_MASK;
	if (e->wqe.opcode != UROCE_WR_RDMA_READ || !read_resp_fits(qp, e, k, pkt)) {
		qp_error(env, qp, QP_WC_BAD_RESP_ERR);
		return;
	}
	rc = req_scatter(env, qp, e, k * qp->conn.mtu, pkt->payload, pkt->payload_len);
	if (unlikely(rc != 0)) {
		not_scattered(env, qp, rc);
		return;
	}
	response_taken(env, qp, e, k + 1 == e->npkts);
}

/* The answer to an atomic: the value that was there, in the memory's own byte order. */
static void
rx_atomic_ack(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt)
{
	struct qp_sq_entry *e;
	int rc;

	if (!ack_until(env, qp, pkt->psn)) {
		read_gap(env, qp, pkt->psn, true);
		return;
	}
	e = qp_sq_entry(qp, qp->conn.snd.tail);
	if (e->wqe.opcode == UROCE_WR_RDMA_READ || !req_fetches(e)) {
		qp_error(env, qp, QP_WC_BAD_RESP_ERR);
		return;
	}
	rc = req_scatter(env, qp, e, 0, (const uint8_t *)&pkt->orig, sizeof(pkt->orig));
	if (unlikely(rc != 0)) {
		not_scattered(env, qp, rc);
		return;
	}
	response_taken(env, qp, e, true);
}

/*
 * Acknowledges nothing new. An ACK of what was acknowledged last may be how the responder tells
 * that it has more receive WQEs by now.
 */
static void
rx_stale(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt)
{
	stale(env);
	if (psn_lt(pkt->psn, qp->conn.snd.una_psn))
		req_watch_stale(env, qp);
	if ((pkt->op->flags & WIRE_F_ACK) && (pkt->syndrome & WIRE_SYN_KIND) == WIRE_SYN_ACK)
		rx_credits(env, qp, pkt->psn, pkt->syndrome);
}

void
req_rx(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt)
{
	struct qp_snd *snd = &qp->conn.snd;

	/* Only what was sent and not yet acknowledged can be answered (REQ-07). */
	if (psn_lt(pkt->psn, snd->una_psn) || !psn_lt(pkt->psn, snd->high_psn)) {
		rx_stale(env, qp, pkt);
		return;
	}
	if (pkt->op->flags & WIRE_F_ACK) {
		rx_nak(env, qp, pkt);
		return;
	}
	/* Data under any other syndrome is no answer. */
	if ((pkt->op->flags & WIRE_F_AETH) && (pkt->syndrome & WIRE_SYN_KIND) != WIRE_SYN_ACK) {
		stale(env);
		return;
	}
	if (pkt->op->flags & WIRE_F_READ)
		rx_read_resp(env, qp, pkt);
	else
		rx_atomic_ack(env, qp, pkt);
	if (pkt->op->flags & WIRE_F_AETH)
		rx_credits(env, qp, pkt->psn, pkt->syndrome);
}

void
req_rx_malformed(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt)
{
	struct qp_snd *snd = &qp->conn.snd;

	/* No data, so nothing of it is needed: it may be forged, and whoever sent it is asked
	 * again. */
	if (!(pkt->op->flags & WIRE_F_READ))
		return;
	if (psn_lt(pkt->psn, snd->una_psn) || !psn_lt(pkt->psn, snd->high_psn))
		return; /* a ghost (REQ-07) */
	if (ack_until(env, qp, pkt->psn))
		qp_error(env, qp, QP_WC_BAD_RESP_ERR);
	else
		read_gap(env, qp, pkt->psn, false);
}
