/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Responses and what they acknowledge: dispatch by opcode and syndrome, retiring WQEs in order,
 * end-to-end credits (REQ-01, REQ-07).
 */
#include <rte_branch_prediction.h>
#include <rte_common.h>
#include "requester/requester_parts.h"
#include "requester/selective.h"
#include "wire/credits.h"
#include "wire/psn.h"

void
req_drain_check(struct qp_env *env, struct qp *qp)
{
	struct qp_snd *snd = &qp->conn.snd;

	/* All packets sent may be acknowledged although the message is not complete. */
	if (!snd->draining || snd->una_psn != snd->high_psn || snd->cur_pkt != 0)
		return;
	snd->draining = false;
	qp_record(env, qp, QP_RECORD_DRAINED, 0, 0, 0);
	if (qp->conn.attr.en_sqd_async_notify)
		env->ops->async_event(env->ops_ctx, QP_EVENT_SQ_DRAINED, qp, NULL);
}

/* una_psn has advanced: reloads the retry counters, restarts or stops the timer. */
void
req_progress(struct qp_env *env, struct qp *qp)
{
	struct qp_snd *snd = &qp->conn.snd;

	req_local_retire(env, qp);
	snd->retry_left = qp->conn.retry_cnt;
	snd->rnr_left = qp->conn.rnr_retry;
	snd->read_gap = false;
	if (unlikely(snd->off_fast_path != 0))
		req_watched(env, qp);
	/* A response to a packet sent before a rewind may overtake the cursor. */
	if (psn_lt(snd->next_psn, snd->una_psn))
		req_catch_up(env, qp);
	/* Not set in an RNR wait: next_psn is una_psn then. */
	snd->probe_ns = req_outstanding(snd) && snd->wait_ns != 0 ? env->now_ns + snd->wait_ns : 0;
	req_drain_check(env, qp);
	/* If all was sent and the client rings for more, a turn would have no work. */
	if (!qp->bind.armed || snd->cur != snd->head)
		env->ops->qp_wake(env->ops_ctx, qp);
}

/*
 * The WQE at tail, whose entry is e, is acknowledged. It consumed a receive WQE and with it one
 * credit, unless the acknowledgement carries new credits. NAKs, and acknowledgements behind an
 * incomplete READ, carry none.
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
 * Starts to count credits, when the peer sends its first. Counts the outstanding messages; from now
 * on each message needs a credit.
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
		e->fast = QP_WQE_GENERAL;
	}
	snd->limited = true;
}

/*
 * Credits from a response that acknowledged everything before una_psn: the number of messages that
 * use a receive WQE that may be outstanding from there on.
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

/* Handles the credits of a response for psn. Ignored if something before psn stays open. */
static inline void
rx_credits(struct qp_env *env, struct qp *qp, uint32_t psn, uint8_t syndrome)
{
	uint32_t code = syndrome & WIRE_SYN_VALUE;

	if (likely(code == WIRE_SYN_NO_CREDITS) && likely(!qp->conn.snd.limited))
		return;
	if (psn_add(psn, 1) == qp->conn.snd.una_psn)
		credit_take(env, qp, code);
}

/* Moves the cursor past the acknowledged WQE at tail, which ends before PSN end, if it is there. */
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
 * Retires the oldest WQE, whose entry e is a silent fast-path WQE, and those of its kind behind it
 * that are acknowledged before upto. Publishes the index once and writes little else, because the
 * line of the completion before them may still be on its way to memory.
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
	} while (e->fast && qp_is_silent(qp, e) && !psn_lt(upto, end));
	snd->una_psn = una;
	qp_retire_publish(qp, tail, wr_id);
}

/* e, which is not fast, is acknowledged. Returns its bytes that the policy was not told of. */
static __rte_noinline uint32_t
ack_general(struct qp *qp, const struct qp_sq_entry *e)
{
	if (qp->conn.snd.limited)
		credit_release(qp, e);
	return qp->conn.snd.cc_active ? req_cc_bytes(qp, e, e->npkts) : 0;
}

/*
 * Acknowledges everything before upto, as far as possible: a READ is complete only when its data
 * has arrived (REQ-07). Retires WQEs. Returns true if una_psn is now upto.
 */
bool
req_ack_until(struct qp_env *env, struct qp *qp, uint32_t upto)
{
	struct qp_snd *snd = &qp->conn.snd;
	uint32_t was = snd->una_psn, acked = 0;

	while (snd->tail != snd->head && psn_lt(snd->una_psn, upto)) {
		struct qp_sq_entry *e = qp_sq_entry(qp, snd->tail);
		uint32_t end = psn_add(e->first_psn, e->npkts);

		if (!e->fast && (e->status != QP_WC_SUCCESS || req_fetches(e)))
			break;
		if (psn_lt(upto, end)) {
			snd->una_psn = upto;
			break;
		}
		if (!e->fast && snd->general)
			acked += ack_general(qp, e);
		if (e->fast && qp_is_silent(qp, e)) {
			ack_silent(env, qp, e, upto);
			continue;
		}
		snd->una_psn = end;
		ack_pass(snd, snd->tail, end);
		if (likely(e->fast)) {
			uint32_t tail = snd->tail + 1;

			qp_retire_one(env, qp, tail, &e->wqe, e->length, QP_WC_SUCCESS);
			qp_sqes_put(&qp->bind.sqes, env->sqes, tail, snd->head);
		} else {
			qp_retire_send(env, qp, e, QP_WC_SUCCESS);
		}
	}
	if (snd->una_psn != was) {
		if (likely(!snd->cc_active))
			cc_fixed_on_ack(&snd->cc);
		else
			req_cc_progress(env, qp, acked);
		req_progress(env, qp);
	}
	return snd->una_psn == upto;
}

static void
stale(struct qp_env *env)
{
	env->counters->ctr[COUNTER_REQ_DUP_ACK]++;
	qp_env_drop(env, DROP_STALE_RESP);
}

static void
rx_ack(struct qp_env *env, struct qp *qp, uint32_t psn)
{
	cq_prefetch(qp->bind.send_cq);
	if (!req_ack_until(env, qp, psn_add(psn, 1)) && !req_ack_early(env, qp, psn_add(psn, 1)))
		req_read_gap(env, qp, psn, false);
}

static void
rx_aeth(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt)
{
	uint32_t value = pkt->syndrome & WIRE_SYN_VALUE;

	switch (pkt->syndrome & WIRE_SYN_KIND) {
	case WIRE_SYN_ACK:
		rx_ack(env, qp, pkt->psn);
		rx_credits(env, qp, pkt->psn, pkt->syndrome);
		return;
	case WIRE_SYN_RNR:
		req_rx_rnr(env, qp, pkt->psn, value);
		return;
	case WIRE_SYN_NAK:
		if (value == WIRE_NAK_PSN_SEQ) {
			req_rx_seq_nak(env, qp, pkt->psn);
			return;
		}
		if (value <= WIRE_NAK_REM_OP) {
			req_rx_fatal_nak(env, qp, pkt->psn, value);
			return;
		}
		break;
	}
	stale(env); /* reserved syndrome */
}

/*
 * A response that acknowledges nothing new. A repeated ACK of the last packet may report that the
 * responder has more receive WQEs.
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

static __rte_always_inline void
rx_response(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt)
{
	struct qp_snd *snd = &qp->conn.snd;

	if (unlikely(snd->cc_active))
		req_cc_response(qp, pkt);
	/* Only a packet that was sent and is not acknowledged can get a response (REQ-07). */
	if (psn_lt(pkt->psn, snd->una_psn) || !psn_lt(pkt->psn, snd->high_psn)) {
		rx_stale(env, qp, pkt);
		return;
	}
	if (pkt->op->flags & WIRE_F_ACK) {
		rx_aeth(env, qp, pkt);
		return;
	}
	/* Data with another syndrome is not a valid response. */
	if ((pkt->op->flags & WIRE_F_AETH) && (pkt->syndrome & WIRE_SYN_KIND) != WIRE_SYN_ACK) {
		stale(env);
		return;
	}
	if (pkt->op->flags & WIRE_F_READ)
		req_rx_read_resp(env, qp, pkt);
	else
		req_rx_atomic_ack(env, qp, pkt);
	if (pkt->op->flags & WIRE_F_AETH)
		rx_credits(env, qp, pkt->psn, pkt->syndrome);
}

/* Has one caller, so that it becomes part of the loop over received frames. */
__attribute__((flatten)) void
req_rx(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt)
{
	rx_response(env, qp, pkt);
}

__rte_noinline void
req_rx_late(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt)
{
	rx_response(env, qp, pkt);
	if (env->dropped == DROP_MEMORY_LATE)
		req_rx_waits(env, qp);
}
