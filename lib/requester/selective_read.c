/* SPDX-License-Identifier: BSD-3-Clause */
/* Selective repeat of READ and atomic responses (selective.h). */
#include <rte_branch_prediction.h>
#include <rte_common.h>
#include "requester/selective.h"
#include "wire/psn.h"

/*
 * The scoreboard of a QP whose missing responses before upto are requested one by one; NULL: by
 * go-back-N, which may be on its way to them.
 */
static struct qp_scoreboard *
scoreboard_of(struct qp_env *env, struct qp *qp, uint32_t upto)
{
	if (qp->conn.sr.state != QP_SR_ON || env->sr == NULL || qp->conn.loopback ||
	    req_rnr_waits(qp) || req_is_behind(env, qp) || psn_lt(qp->conn.snd.next_psn, upto))
		return NULL;
	return qp_scoreboard_take(env->sr, qp);
}

/*
 * As req_entry_of, for responses, most of which come in order: begins with the WQE of the last PSN
 * looked up, if it is still in flight.
 */
static struct qp_sq_entry *
entry_near(const struct qp *qp, struct qp_reads *r, uint32_t psn)
{
	const struct qp_snd *snd = &qp->conn.snd;
	uint32_t *i = &r->last_wqe;

	if (*i - snd->tail >= snd->head - snd->tail || psn_lt(psn, qp_sq_entry(qp, *i)->first_psn))
		*i = snd->tail;
	return req_entry_of(qp, psn, i);
}

/* Has the network reordered packets lately? */
static bool
reorders(const struct qp *qp)
{
	return qp->conn.sr.threshold != 0;
}

/* The responses from psn to end are missing, unless they are here: they are to be requested again.
 */
static uint32_t
want(struct qp *qp, struct qp_scoreboard *m, uint32_t psn, uint32_t end)
{
	struct qp_reads *r = &m->reads;
	uint32_t before = r->wanted.n;

	if (psn_lt(psn, qp->conn.snd.una_psn))
		psn = qp->conn.snd.una_psn;
	for (; psn_lt(psn, end); psn = psn_add(psn, 1)) {
		if (!qp_resp_psns_has(&r->here, psn))
			qp_resp_psns_add(&r->wanted, psn);
	}
	if (r->wanted.n != 0)
		qp->conn.snd.resend = true;
	return r->wanted.n - before;
}

/* n more responses were lost. */
static void
lost(struct qp_env *env, struct qp *qp, uint32_t n)
{
	struct qp_snd *snd = &qp->conn.snd;

	if (n == 0)
		return;
	snd->rd_lossy = true;
	if (qp->conn.cc_flow.param.policy != CC_FIXED)
		req_cc_loss(env, qp);
	env->ops->qp_wake(env->ops_ctx, qp);
}

static void
ask_remove(struct qp *qp, struct qp_reads *r, uint32_t j)
{
	r->nasks--;
	memmove(&r->ask[j], &r->ask[j + 1], (r->nasks - j) * sizeof(r->ask[0]));
	if (r->wanted.n != 0)
		qp->conn.snd.resend = true; /* they may have waited for a place */
}

static uint32_t
ask_end(const struct qp_ask *a)
{
	return psn_add(a->psn, a->n);
}

/* The peer has answered a request that comes after ask j: the missing responses of j are lost. */
static uint32_t
ask_overtaken(struct qp_env *env, struct qp *qp, struct qp_scoreboard *m, uint32_t j)
{
	struct qp_ask a = m->reads.ask[j];

	if (reorders(qp) && env->now_ns - a.at_ns < qp->conn.loss.srtt_ns)
		return 0;
	ask_remove(qp, &m->reads, j);
	return want(qp, m, a.next_psn, ask_end(&a));
}

/* A response that was requested again has arrived after ns. */
static void
repaired(struct qp_env *env, struct qp *qp, uint64_t ns)
{
	struct cc_flow *flow = &qp->conn.cc_flow;

	qp_loss_repaired(env, qp, ns);
	/* While responses are lost, no other round trip of READs is timed. */
	if (flow->param.policy == CC_FIXED)
		cc_on_rtt(&qp->conn.snd.cc, flow, env->now_ns,
			  (uint32_t)RTE_MIN(ns, (uint64_t)UINT32_MAX));
}

/* Response psn of ask j has arrived. Finds lost responses before it. Returns their number. */
static uint32_t
ask_got(struct qp_env *env, struct qp *qp, struct qp_scoreboard *m, uint32_t j, uint32_t psn)
{
	struct qp_ask *a = &m->reads.ask[j];
	uint32_t upto = reorders(qp) ? psn_add(psn, 0u - req_threshold(qp)) : psn;
	uint32_t next = a->next_psn, n = 0;

	/* In a network that reorders, it may be the original. */
	if (psn == a->psn && !reorders(qp))
		repaired(env, qp, env->now_ns - a->at_ns);
	if (psn_lt(next, upto)) {
		n = want(qp, m, next, upto);
		a->next_psn = upto;
	}
	if (a->next_psn == psn)
		a->next_psn = psn_add(psn, 1);
	if (a->next_psn == ask_end(a))
		ask_remove(qp, &m->reads, j);
	return n;
}

/* The number of the ask that response psn answers; nasks: none. */
static uint32_t
ask_of(const struct qp_reads *r, uint32_t psn)
{
	uint32_t j;

	if (!psn_lt(psn, r->ask_end_psn))
		return r->nasks;
	for (j = 0; j < r->nasks; j++) {
		const struct qp_ask *a = &r->ask[j];

		if (!psn_lt(psn, a->next_psn) && psn_lt(psn, ask_end(a)))
			break;
	}
	return j;
}

/* The response psn has arrived. Finds asks that lost responses. Returns the number of these. */
static uint32_t
asks_see(struct qp_env *env, struct qp *qp, struct qp_scoreboard *m, uint32_t psn)
{
	struct qp_reads *r = &m->reads;
	uint32_t n = 0, j, hit;

	if (r->nasks == 0)
		return 0;
	hit = ask_of(r, psn);
	if (hit < r->nasks) {
		n += ask_got(env, qp, m, hit, psn);
		j = RTE_MIN(hit, r->nasks);
		/* The peer answers those that wait there in the order of their PSNs. */
		while (j-- > 0) {
			if (psn_lt(r->ask[j].psn, psn))
				n += ask_overtaken(env, qp, m, j);
		}
		return n;
	}
	/* The first ask has the lowest high_psn. */
	if (psn_diff(psn, r->ask[0].high_psn) < (int32_t)req_threshold(qp))
		return n;
	for (j = r->nasks; j-- > 0;) {
		if (psn_diff(psn, r->ask[j].high_psn) >= (int32_t)req_threshold(qp))
			n += ask_overtaken(env, qp, m, j);
	}
	return n;
}

/*
 * The peer has executed everything before upto, and sent its responses before a packet that has
 * arrived. Finds lost responses, except those close to upto, which may be late. Returns the number
 * of new ones.
 */
static uint32_t
find_missing(struct qp *qp, struct qp_scoreboard *m, uint32_t upto)
{
	const struct qp_snd *snd = &qp->conn.snd;
	struct qp_reads *r = &m->reads;
	uint32_t psn = r->seen_psn, n = 0;

	if (upto != snd->next_psn || reorders(qp))
		upto = psn_add(upto, 0u - req_threshold(qp));
	if (psn_diff(upto, snd->una_psn) > (int32_t)QP_SR_READ_WINDOW)
		upto = psn_add(snd->una_psn, QP_SR_READ_WINDOW);
	if (psn_lt(psn, snd->una_psn))
		psn = snd->una_psn;
	while (psn_lt(psn, upto)) {
		uint32_t left = (uint32_t)psn_diff(upto, psn), end;
		uint32_t came = qp_resp_psns_run(&r->here, psn, left);
		const struct qp_sq_entry *e;

		if (came != 0) {
			psn = psn_add(psn, came);
			continue;
		}
		e = entry_near(qp, r, psn);
		if (e == NULL)
			break;
		end = psn_add(e->first_psn, e->npkts);
		if (psn_lt(upto, end))
			end = upto;
		if (req_fetches(e))
			n += want(qp, m, psn, end);
		psn = end;
	}
	r->seen_psn = psn;
	return n;
}

/* The peer has executed everything before upto. */
static void
executed(struct qp *qp, struct qp_scoreboard *m, uint32_t upto)
{
	if (psn_lt(m->base_psn, upto))
		req_scoreboard_advance(qp, m, upto);
}

/*
 * Stores data of a response, in advance. Returns false if that is not possible now: it counts as
 * lost, and the error, if it is one, comes when it is the oldest.
 */
static bool
store_early(struct qp_env *env, struct qp *qp, struct qp_sq_entry *e, const struct wire_pkt *pkt)
{
	uint32_t k = psn_diff(pkt->psn, e->first_psn) & WIRE_PSN_MASK;

	if (e->wqe.opcode != UROCE_WR_RDMA_READ)
		return req_scatter(env, qp, e, 0, (const uint8_t *)&pkt->orig, sizeof(pkt->orig)) ==
		       0;
	return req_scatter(env, qp, e, k * qp->conn.mtu, pkt->payload, pkt->payload_len) == 0;
}

/* Is pkt a response that packet k of e can have? */
static bool
fits(const struct qp *qp, const struct qp_sq_entry *e, const struct wire_pkt *pkt)
{
	bool read = (pkt->op->flags & WIRE_F_READ) != 0;

	if (e->status != QP_WC_SUCCESS || !req_fetches(e) ||
	    read != (e->wqe.opcode == UROCE_WR_RDMA_READ))
		return false;
	return !read ||
	       req_read_resp_fits(qp, e, psn_diff(pkt->psn, e->first_psn) & WIRE_PSN_MASK, pkt);
}

/* All responses before end that are not here when una_psn has come to them are lost. */
static void
lose_tail(struct qp_reads *r, uint32_t end)
{
	if (!r->tail)
		r->piece = QP_READ_AGAIN_PKTS;
	if (!r->tail || psn_lt(r->lost_psn, end))
		r->lost_psn = end;
	r->tail = true;
}

__rte_noinline bool
req_rx_early(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt)
{
	struct qp_scoreboard *m = scoreboard_of(env, qp, psn_add(pkt->psn, 1));
	struct qp_sq_entry *e;
	uint32_t n;

	if (m == NULL)
		return false;
	e = entry_near(qp, &m->reads, pkt->psn);
	if (e == NULL || !fits(qp, e, pkt))
		return false;
	executed(qp, m,
		 e->npkts <= QP_READ_CHUNK_PKTS ? req_requested_end(qp, e) : psn_add(pkt->psn, 1));
	if (psn_diff(pkt->psn, qp->conn.snd.una_psn) >= (int32_t)QP_SR_READ_WINDOW) {
		lose_tail(&m->reads, psn_add(pkt->psn, 1));
		return true; /* it is requested again later */
	}
	if (!qp_resp_psns_has(&m->reads.here, pkt->psn)) {
		if (!store_early(env, qp, e, pkt))
			return true;
		qp_resp_psns_remove(&m->reads.wanted, pkt->psn);
		qp_resp_psns_add(&m->reads.here, pkt->psn);
		/* A READ may have waited for it (req_fetch_must_wait). */
		if (qp->conn.snd.cur != qp->conn.snd.head)
			env->ops->qp_wake(env->ops_ctx, qp);
	}
	n = find_missing(qp, m, psn_add(pkt->psn, 1));
	n += asks_see(env, qp, m, pkt->psn);
	lost(env, qp, n);
	return true;
}

__rte_noinline bool
req_ack_early(struct qp_env *env, struct qp *qp, uint32_t upto)
{
	struct qp_scoreboard *m = scoreboard_of(env, qp, upto);

	if (m == NULL)
		return false;
	executed(qp, m, upto);
	lost(env, qp, find_missing(qp, m, upto));
	return true;
}

/* The number of early responses of e, from una_psn on without a gap. */
static uint32_t
count_here(const struct qp *qp, const struct qp_reads *r, const struct qp_sq_entry *e)
{
	uint32_t una = qp->conn.snd.una_psn;
	uint32_t most = (uint32_t)psn_diff(psn_add(e->first_psn, e->npkts), una);

	return qp_resp_psns_run(&r->here, una, RTE_MIN(most, r->here.n));
}

/* Takes early responses behind una_psn, and acknowledges requests that the peer has executed. */
static void
catch_up(struct qp_env *env, struct qp *qp)
{
	const struct qp_snd *snd = &qp->conn.snd;
	struct qp_scoreboard *m;

	/* A completion may end the QP, and with it the scoreboard. */
	while ((m = qp->bind.scoreboard) != NULL && snd->tail != snd->head) {
		const struct qp_sq_entry *e = qp_sq_entry(qp, snd->tail);
		uint32_t una = snd->una_psn, n;

		if (req_fetches(e)) {
			n = count_here(qp, &m->reads, e);
			if (n == 0)
				return;
			qp_resp_psns_remove_run(&m->reads.here, una, n);
			req_responses_taken(env, qp, e, n);
		} else if (psn_lt(una, m->base_psn)) {
			req_ack_until(env, qp, m->base_psn);
		}
		if (snd->una_psn == una)
			return;
	}
}

/*
 * The responses from una_psn on are lost, up to the first one that is here: the next piece of those
 * of the oldest WQE, e, is requested again. Returns their number.
 */
static uint32_t
lose_piece(struct qp *qp, struct qp_scoreboard *m, const struct qp_sq_entry *e)
{
	uint32_t una = qp->conn.snd.una_psn, end = req_requested_end(qp, e), n = 0;
	struct qp_reads *r = &m->reads;

	while (n < r->piece && psn_lt(psn_add(una, n), end) &&
	       !qp_resp_psns_has(&r->here, psn_add(una, n)))
		n++;
	end = psn_add(una, n);
	if (psn_lt(r->seen_psn, end))
		r->seen_psn = end;
	return want(qp, m, una, end);
}

#define PIECE_MOST_PKTS (8 * QP_READ_AGAIN_PKTS)

/*
 * Requests the next piece when all of the piece before it has arrived, twice as much each time: no
 * response behind it will show that it is missing.
 */
static void
tail_progress(struct qp_env *env, struct qp *qp)
{
	struct qp_scoreboard *m = qp->bind.scoreboard;
	const struct qp_snd *snd = &qp->conn.snd;
	const struct qp_sq_entry *e;
	struct qp_reads *r;

	if (m == NULL || !m->reads.tail)
		return;
	r = &m->reads;
	r->tail = snd->tail != snd->head && psn_lt(snd->una_psn, r->lost_psn);
	if (!r->tail || r->nasks + r->wanted.n + r->here.n != 0)
		return;
	e = qp_sq_entry(qp, snd->tail);
	if (!req_fetches(e))
		return;
	r->piece = RTE_MIN(2 * r->piece, PIECE_MOST_PKTS);
	lost(env, qp, lose_piece(qp, m, e));
}

__rte_noinline void
req_reads_progress(struct qp_env *env, struct qp *qp, uint32_t psn)
{
	struct qp_scoreboard *m = qp->bind.scoreboard;

	qp_resp_psns_remove(&m->reads.wanted, psn);
	if (m->reads.nasks != 0)
		lost(env, qp, asks_see(env, qp, m, psn));
	catch_up(env, qp);
	tail_progress(env, qp);
}

void
req_reads_lose_all(struct qp *qp, struct qp_scoreboard *m)
{
	const struct qp_sq_entry *e = qp_sq_entry(qp, qp->conn.snd.tail);
	struct qp_reads *r = &m->reads;

	while (r->nasks != 0) {
		struct qp_ask a = r->ask[--r->nasks];

		want(qp, m, a.next_psn, ask_end(&a));
	}
	r->tail = false;
	lose_tail(r, req_requested_end(qp, e));
	(void)lose_piece(qp, m, e);
}

/* Requests n responses of e again, WQE number i. */
static enum req_step
ask(struct qp_env *env, struct qp *qp, struct qp_scoreboard *m, uint32_t i, struct qp_sq_entry *e,
    uint32_t psn, uint32_t n)
{
	struct qp_reads *r = &m->reads;
	enum req_step step = req_resend_one(env, qp, i, e, psn, n);
	uint32_t j;

	if (step >= REQ_HELD)
		return step;
	for (j = 0; j < n; j++)
		qp_resp_psns_remove(&r->wanted, psn_add(psn, j));
	if (step != REQ_SENT)
		return step; /* it has an error, which comes when it is the oldest (REQ-01) */
	env->counters->ctr[COUNTER_REQ_READ_GAP]++;
	if (r->nasks == 0 || psn_lt(r->ask_end_psn, psn_add(psn, n)))
		r->ask_end_psn = psn_add(psn, n);
	r->ask[r->nasks++] = (struct qp_ask){.psn = psn,
					     .n = n,
					     .next_psn = psn,
					     .high_psn = qp->conn.snd.next_psn,
					     .at_ns = env->now_ns};
	req_resent(env, qp, psn);
	return step;
}

__rte_noinline enum req_step
req_resend_reads(struct qp_env *env, struct qp *qp, struct qp_turn turn)
{
	struct qp_snd *snd = &qp->conn.snd;
	struct qp_reads *r = &qp->bind.scoreboard->reads;
	uint32_t k = 0, i = snd->tail;

	while (r->wanted.n != 0 && r->nasks < QP_SR_ASKS) {
		uint32_t psn, n = 1, most;
		struct qp_sq_entry *e;
		enum req_step step;

		k += qp_resp_psns_skip(&r->wanted, psn_add(snd->una_psn, k), QP_SR_READ_WINDOW - k);
		if (k == QP_SR_READ_WINDOW)
			break;
		psn = psn_add(snd->una_psn, k);
		if (qp_turn_over(env, turn)) {
			snd->resend = true;
			return REQ_NO_ROOM;
		}
		e = req_entry_of(qp, psn, &i);
		if (e == NULL || !req_fetches(e)) {
			qp_resp_psns_remove(&r->wanted, psn);
			continue;
		}
		most = RTE_MIN((uint32_t)psn_diff(req_requested_end(qp, e), psn),
			       QP_READ_AGAIN_PKTS);
		while (n < most && qp_resp_psns_has(&r->wanted, psn_add(psn, n)))
			n++;
		step = ask(env, qp, qp->bind.scoreboard, i, e, psn, n);
		if (step >= REQ_HELD) {
			snd->resend = true;
			return step;
		}
	}
	return REQ_NEXT;
}
