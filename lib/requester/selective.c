/* SPDX-License-Identifier: BSD-3-Clause */
#include <rte_branch_prediction.h>
#include <rte_common.h>
#include "requester/requester_parts.h"
#include "requester/selective.h"
#include "wire/psn.h"
#include "wire/sack.h"

/* Retransmissions without a sign of reordering after which the threshold is halved. */
#define DECAY_RESENT 16u

/* Packets arrived up to places late: raises the threshold to twice as many. */
static void
reordered(struct qp *qp, uint32_t places)
{
	struct qp_sr *sr = &qp->conn.sr;
	uint32_t most = RTE_MIN(RTE_MAX(2 * places, qp_sr_threshold(sr)), QP_SR_THRESHOLD_MOST);

	sr->threshold = (uint8_t)most;
	sr->known = QP_SR_KNOWN;
	if (4 * places >= most)
		sr->undelayed = 0; /* half of it would be just enough */
}

/* Counts a retransmission. After DECAY_RESENT without late packets, halves the threshold. */
static void
decay_reo_wnd(struct qp_sr *sr)
{
	if (sr->known < QP_SR_KNOWN)
		sr->known++;
	if (sr->threshold == 0 || ++sr->undelayed < DECAY_RESENT)
		return;
	sr->undelayed = 0;
	sr->threshold /= 2;
	if (sr->threshold <= QP_SR_THRESHOLD)
		sr->threshold = 0;
}

/* psn, which the peer lacked, has arrived. */
static void
mark_delivered(struct qp *qp, struct qp_scoreboard *m, uint32_t psn)
{
	struct qp_resent *r = req_resent_of(m, psn);
	int32_t places = psn_diff(m->top_psn, psn);

	qp_psns_remove(&m->lost, psn);
	if (r == NULL) {
		if (places > 1)
			reordered(qp, (uint32_t)places);
	} else {
		m->newest = RTE_MAX(m->newest, r->first_serial);
	}
}

/* Decides whether duplicates that the peer reported were retransmissions. */
static void
on_duplicate_report(struct qp_env *env, struct qp *qp, const struct wire_sack *s)
{
	struct qp_sr *sr = &qp->conn.sr;
	uint16_t dups = rte_be_to_cpu_16(s->dups), more = (uint16_t)(dups - sr->dups_seen);
	uint32_t psn = rte_be_to_cpu_32(s->dup_psn) & WIRE_PSN_MASK;
	struct qp_scoreboard *m = qp->bind.scoreboard;
	struct qp_resent *r;

	if (!(s->flags & WIRE_SACK_DUPLICATE))
		return;
	sr->dups_seen = dups;
	r = m != NULL ? req_resent_of(m, psn) : NULL;
	/* The second response to the packet, if it has had one: this one is to the probe. */
	if (r != NULL && r->reported && more != 0 && psn_lt(psn, qp->conn.snd.una_psn))
		req_watch_stale(env, qp);
	if (r == NULL || r->reported || more > QP_SR_WINDOW)
		return; /* from the network, or of a probe before go-back-N */
	r->reported = true;
	more = RTE_MIN(more, sr->unreported);
	sr->unreported -= more;
	sr->spurious += more;
	env->counters->ctr[COUNTER_REQ_SPURIOUS] += more;
	/* The place of its original is not known any more; it was at least the threshold. */
	reordered(qp, RTE_MAX(qp_sr_threshold(sr), (uint32_t)psn_diff(r->high_psn, psn) / 2));
}

void
req_scoreboard_advance(struct qp *qp, struct qp_scoreboard *m, uint32_t psn)
{
	uint32_t n = RTE_MIN((uint32_t)psn_diff(psn, m->base_psn), QP_SR_WINDOW), i;
	uint32_t sent = RTE_MIN((uint32_t)psn_diff(m->top_psn, m->base_psn), n);
	struct qp_psns_rel got;

	qp_psns_from(&m->got, m->base_psn, sent, &got);
	for (i = 0; i < sent; i++) {
		if (!qp_psns_rel_has(&got, i))
			mark_delivered(qp, m, psn_add(m->base_psn, i));
	}
	qp_psns_cut(&m->got, m->base_psn, n);
	qp_psns_cut(&m->lost, m->base_psn, n); /* of a probe; it would mean a later PSN */
	m->base_psn = psn;
	if (psn_lt(m->top_psn, psn))
		m->top_psn = psn;
}

/* Marks the PSNs of held, relative to the base, as received. Leaves the new ones in held. */
static void
take_held(struct qp *qp, struct qp_scoreboard *m, struct qp_psns_rel *held)
{
	uint32_t sent = (uint32_t)psn_diff(m->top_psn, m->base_psn), i, top = 0;
	struct qp_psns_rel got;

	qp_psns_from(&m->got, m->base_psn, held->words * 64, &got);
	for (i = 0; i < held->words; i++) {
		held->word[i] &= ~got.word[i];
		if (held->word[i] != 0)
			top = i * 64 + 64 - (uint32_t)__builtin_clzll(held->word[i]);
	}
	for (i = qp_psns_next(held, 0); i < sent && i < QP_SR_WINDOW; i = qp_psns_next(held, i + 1))
		mark_delivered(qp, m, psn_add(m->base_psn, i));
	qp_psns_join(&m->got, m->base_psn, held);
	if (top > sent)
		m->top_psn = psn_add(m->base_psn, top);
}

/*
 * Sets *to to the set relative to a PSN n further on. A SACK may begin before the base: it was sent
 * between READ responses, one of which has shown that the whole READ was executed; or it was late.
 */
static void
held_from(const struct qp_psns_rel *held, uint32_t n, struct qp_psns_rel *to)
{
	uint32_t w = RTE_MIN(n / 64, held->words), shift = n % 64, i;

	to->words = held->words - w;
	for (i = 0; i < to->words; i++) {
		uint64_t high = i + 1 < to->words ? held->word[w + i + 1] : 0;

		to->word[i] = held->word[w + i] >> shift | (high << 1) << (63 - shift);
	}
}

/* Is psn, which the peer lacks, lost? */
static bool
is_lost(const struct qp_env *env, const struct qp *qp, struct qp_scoreboard *m, uint32_t psn)
{
	const struct qp_resent *r = req_resent_of(m, psn);
	const struct qp_sr *sr = &qp->conn.sr;
	bool reorders = sr->threshold != 0;

	/*
	 * top_psn is one past the last that has arrived. If that is all that was sent, nothing else
	 * will show a loss.
	 */
	if (r == NULL)
		return psn_diff(m->top_psn, psn) > (int32_t)qp_sr_threshold(sr) ||
		       (m->top_psn == qp->conn.snd.high_psn && !reorders);
	if (reorders && env->now_ns - r->at_ns < qp->conn.loss.srtt_ns)
		return false;
	return psn_diff(m->top_psn, r->high_psn) > (int32_t)req_threshold(qp) ||
	       m->newest > r->serial;
}

/* Of a READ only the request was sent: its other PSNs, from base + k on, count as arrived. */
static uint32_t
pass_read(const struct qp *qp, struct qp_scoreboard *m, const struct qp_sq_entry *e, uint32_t k)
{
	uint32_t end = (uint32_t)psn_diff(req_requested_end(qp, e), m->base_psn);

	for (; k < end && k < QP_SR_WINDOW; k++)
		qp_psns_add(&m->got, psn_add(m->base_psn, k));
	return end;
}

/*
 * Round trips above this are not those of a short path: 48 packets of 4 KiB are 16 Gb/s then.
 */
#define BEHIND_RTT_NS 100000u

/*
 * Requests other than READs were lost while packets wait for this worker (cc_fixed_behind). The cap
 * widens by a packet each round trip, as any.
 */
static void
lost_behind(const struct qp_env *env, struct qp *qp)
{
	struct qp_snd *snd = &qp->conn.snd;
	uint32_t srtt_ns = qp->conn.loss.srtt_ns;

	if (likely(!env->behind) || srtt_ns == 0 || srtt_ns > BEHIND_RTT_NS ||
	    snd->cc.most_pkts <= CC_BEHIND_PKTS)
		return;
	cc_fixed_behind(&snd->cc);
	req_window_capped(qp);
}

/*
 * n requests were lost, with policy `fixed`: its window is reduced once a round, if more than a
 * sixth of it was lost, but not for a few; a wide one once more if more than a 16th of it was. For
 * a go-back-N sender each loss makes it small.
 */
static void
lost_fixed(struct qp *qp, struct qp_scoreboard *m, uint32_t n)
{
	struct qp_snd *snd = &qp->conn.snd;
	uint32_t few;

	if (psn_le(m->round_psn, m->base_psn)) {
		m->round_psn = snd->high_psn;
		m->round_lost = 0;
	}
	few = snd->cc.most_pkts / 16u;
	if (m->round_lost <= few && m->round_lost + n > few && cc_fixed_narrow(&snd->cc))
		req_window_capped(qp);
	m->round_lost += n;
	if (m->round_lost <= RTE_MAX(snd->cc.window_pkts / 6u, 6u))
		return;
	cc_fixed_cap(&snd->cc);
	req_window_capped(qp);
	m->round_psn = snd->high_psn;
	m->round_lost = 0;
}

/* Finds what is lost before the last packet that has arrived. */
static void
find_lost(struct qp_env *env, struct qp *qp, struct qp_scoreboard *m)
{
	uint32_t span = RTE_MIN((uint32_t)psn_diff(m->top_psn, m->base_psn), QP_SR_WINDOW);
	uint32_t k, next, i = qp->conn.snd.tail, n = 0;
	struct qp_psns_rel lacks, lost;
	bool data = false;

	qp_psns_from(&m->got, m->base_psn, span, &lacks);
	qp_psns_from(&m->lost, m->base_psn, span, &lost);
	for (k = 0; k < lacks.words; k++)
		lacks.word[k] = ~(lacks.word[k] | lost.word[k]);
	for (k = qp_psns_next(&lacks, 0); k < span; k = qp_psns_next(&lacks, next)) {
		uint32_t psn = psn_add(m->base_psn, k);
		const struct qp_sq_entry *e = req_entry_of(qp, psn, &i);

		if (e == NULL)
			break;
		next = k + 1;
		if (req_fetches(e) && psn != e->first_psn) {
			next = RTE_MIN(pass_read(qp, m, e, k), QP_SR_WINDOW);
		} else if (is_lost(env, qp, m, psn)) {
			req_lose(qp, m, psn);
			data |= !req_fetches(e);
			n++;
		}
	}
	if (n == 0)
		return;
	if (qp->conn.cc_flow.param.policy != CC_FIXED) {
		req_cc_loss(env, qp);
	} else {
		lost_fixed(qp, m, n);
		if (data)
			lost_behind(env, qp);
	}
	env->ops->qp_wake(env->ops_ctx, qp);
}

/* Returns true if all PSNs that the SACK names were sent. */
static bool
was_sent(const struct qp_snd *snd, uint32_t epsn, const struct qp_psns_rel *held)
{
	uint32_t i = held->words;

	while (i-- > 0) {
		if (held->word[i] != 0)
			return psn_lt(psn_add(epsn,
					      i * 64 + 63 -
						      (uint32_t)__builtin_clzll(held->word[i])),
				      snd->high_psn);
	}
	return psn_le(epsn, snd->high_psn);
}

/* The members of s, got or lost of m, among the PSNs in flight, relative to the base. */
static void
in_flight(const struct qp_snd *snd, const struct qp_scoreboard *m, const struct qp_psns *s,
	  struct qp_psns_rel *to)
{
	uint32_t n = (uint32_t)psn_diff(snd->high_psn, m->base_psn);

	qp_psns_from(s, m->base_psn, RTE_MIN(n, QP_SR_WINDOW), to);
}

/* What the peer holds is not in flight: moves wide_psn by as much. */
static void
update_send_limit(struct qp_env *env, struct qp *qp, struct qp_scoreboard *m)
{
	const struct qp_snd *snd = &qp->conn.snd;
	uint32_t more = snd->rd_psns + snd->cc.window_pkts, most, i;
	struct qp_psns_rel got;

	in_flight(snd, m, &m->got, &got);
	for (i = 0; i < got.words; i++)
		more += (uint32_t)__builtin_popcountll(got.word[i]);
	most = snd->cc.window_pkts > CC_WINDOW_PKTS ? QP_SR_WINDOW : QP_SR_WIDE;
	m->wide_psn = psn_add(m->base_psn, RTE_MIN(more, most));
	if (psn_lt(snd->next_psn, m->wide_psn))
		env->ops->qp_wake(env->ops_ctx, qp);
}

__rte_noinline bool
req_rx_sack(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt)
{
	struct qp_snd *snd = &qp->conn.snd;
	struct wire_sack s;
	struct qp_psns_rel held, behind; /* relative to the SACK's PSN, and to the base */
	struct qp_scoreboard *m;
	uint64_t any = 0;

	if (qp->conn.sr.state == QP_SR_OFF || env->sr == NULL || !wire_sack_get(pkt, &s))
		return false;
	held.words = (pkt->payload_len - WIRE_SACK_LEN(0)) / 8;
	for (uint32_t i = 0; i < held.words; i++)
		any |= held.word[i] = rte_le_to_cpu_64(s.held[i]);
	if (!psn_lt(pkt->psn, snd->una_psn) && !was_sent(snd, pkt->psn, &held))
		return false;
	if (unlikely(snd->cc_active))
		req_cc_response(qp, pkt);
	env->counters->ctr[COUNTER_REQ_SACK]++;
	on_duplicate_report(env, qp, &s);
	if (psn_lt(pkt->psn, snd->una_psn)) {
		if (!(s.flags & WIRE_SACK_COPY)) /* a copy answers nothing that was sent since */
			req_watch_stale(env, qp);
		return true;
	}
	if (!req_ack_until(env, qp, pkt->psn) && !req_ack_early(env, qp, pkt->psn)) {
		req_read_gap(env, qp, psn_add(pkt->psn, WIRE_PSN_MASK), false); /* as an ACK */
		return true;
	}
	if (qp->conn.state == QP_ERR || req_rnr_waits(qp))
		return true;
	if (any == 0 && qp->bind.scoreboard == NULL)
		return true;
	m = qp_scoreboard_take(env->sr, qp);
	if (m == NULL)
		return true; /* no memory: the probe's */
	if (!psn_lt(pkt->psn, m->base_psn))
		req_scoreboard_advance(qp, m, pkt->psn);
	held_from(&held, (uint32_t)psn_diff(m->base_psn, pkt->psn), &behind);
	take_held(qp, m, &behind);
	find_lost(env, qp, m);
	update_send_limit(env, qp, m);
	req_watch_held(env, qp, pkt->psn, &held);
	return true;
}

__rte_noinline bool
req_window_wider(const struct qp *qp)
{
	const struct qp_snd *snd = &qp->conn.snd;
	const struct qp_scoreboard *m = qp->bind.scoreboard;

	return m != NULL && psn_lt(snd->next_psn, m->wide_psn) && snd->next_psn == snd->high_psn &&
	       (uint32_t)psn_diff(snd->next_psn, snd->una_psn) < QP_SR_WINDOW;
}

/*
 * The ACK timeout counts from the last progress, or from the first packet sent. Retransmissions
 * delay the next probe, but not the end of the timeout.
 */
static void
resent_timer(const struct qp_env *env, struct qp *qp)
{
	struct qp_snd *snd = &qp->conn.snd;
	uint64_t from_ns = snd->probe_ns != 0 ? snd->probe_ns - snd->wait_ns : env->now_ns;

	if (snd->wait_ns == 0)
		return;
	if (!qp_deadline_is_set(&qp->conn, QP_DEADLINE_ACK) && qp->conn.loss.timeout_ns != 0)
		qp_deadline_set(&qp->conn, QP_DEADLINE_ACK, from_ns + qp->conn.loss.timeout_ns);
	snd->probe_ns = env->now_ns + snd->wait_ns;
}

void
req_resent(struct qp_env *env, struct qp *qp, uint32_t psn)
{
	qp->conn.sr.resent++;
	env->counters->ctr[COUNTER_REQ_SELECTIVE]++;
	resent_timer(env, qp);
	req_watch_resent(qp, psn);
}

/*
 * A repeated retransmission is ambiguous if no later packet showed that the one before was lost: if
 * it probes the oldest packet, and in a network that reorders. All others count as sent now, or the
 * loss of a burst of retransmissions would be found by probes, one packet each.
 */
static void
resent_note(struct qp_env *env, struct qp *qp, struct qp_scoreboard *m, uint32_t psn)
{
	struct qp_resent *r = &m->resent[psn % QP_SR_WINDOW], *was = req_resent_of(m, psn);
	bool tail = m->tail_probe && psn == m->tail_psn;
	bool oldest = (qp->conn.snd.watch & QP_WATCH_PROBED) && psn == qp->conn.snd.una_psn;
	uint32_t first_serial = m->serial + 1;

	if (was != NULL && (oldest || qp->conn.sr.threshold != 0))
		first_serial = was->first_serial;
	if (tail)
		m->tail_probe = false;
	*r = (struct qp_resent){.psn = psn,
				.high_psn = qp->conn.snd.high_psn,
				.serial = ++m->serial,
				.first_serial = first_serial,
				/* A probe's duplicate shows a late ACK, not a late packet. */
				.reported = tail || oldest,
				.at_ns = env->now_ns};
	decay_reo_wnd(&qp->conn.sr);
	if (qp->conn.sr.unreported < UINT16_MAX)
		qp->conn.sr.unreported++;
	req_resent(env, qp, psn);
}

enum req_step
req_resend_one(struct qp_env *env, struct qp *qp, uint32_t i, struct qp_sq_entry *e, uint32_t psn,
	       uint32_t n)
{
	struct qp_snd *snd = &qp->conn.snd;
	uint32_t cur = snd->cur, cur_pkt = snd->cur_pkt, next_psn = snd->next_psn;
	uint32_t rd_psns = snd->rd_psns;
	uint8_t since_ackreq = snd->since_ackreq;
	bool ack_owed = snd->ack_owed;
	enum req_step step;

	qp_record(env, qp, QP_RECORD_AGAIN, 0, psn, RTE_MAX(n, 1u));
	snd->cur = i;
	snd->cur_pkt = psn_diff(psn, e->first_psn) & WIRE_PSN_MASK;
	snd->next_psn = psn;
	snd->since_ackreq = QP_ACKREQ_PKTS; /* asks for an ACK */
	snd->resending = true;
	step = req_send_again(env, qp, e, n);
	snd->resending = false;
	snd->cur = cur;
	snd->cur_pkt = cur_pkt;
	snd->next_psn = next_psn;
	snd->rd_psns = rd_psns;
	snd->since_ackreq = since_ackreq;
	snd->ack_owed = ack_owed;
	return step;
}

enum req_step
req_resend(struct qp_env *env, struct qp *qp, struct qp_turn turn)
{
	struct qp_snd *snd = &qp->conn.snd;
	struct qp_scoreboard *m = qp->bind.scoreboard;
	uint32_t k, i = snd->tail;
	struct qp_psns_rel lost;
	enum req_step step;

	if (qp->conn.loss.probe_read) {
		step = req_resend_probe(env, qp, turn);
		if (step != REQ_NEXT)
			return step;
	}
	if (m == NULL || !qp->conn.path_ok) {
		snd->resend = false;
		return REQ_NEXT;
	}
	if (psn_lt(m->base_psn, snd->una_psn))
		req_scoreboard_advance(qp, m, snd->una_psn);
	in_flight(snd, m, &m->lost, &lost);
	for (k = qp_psns_next(&lost, 0); k < QP_SR_WINDOW; k = qp_psns_next(&lost, k + 1)) {
		uint32_t psn = psn_add(m->base_psn, k);
		struct qp_sq_entry *e;

		if (qp_turn_over(env, turn))
			return REQ_NO_ROOM;
		/* Packets that go-back-N retransmits anyway are skipped. */
		e = psn_lt(psn, snd->next_psn) ? req_entry_of(qp, psn, &i) : NULL;
		step = e != NULL ? req_resend_one(env, qp, i, e, psn, 0) : REQ_NEXT;
		if (step >= REQ_HELD)
			return step;
		qp_psns_remove(&m->lost, psn);
		if (step == REQ_SENT) {
			resent_note(env, qp, m, psn);
		} else if (e != NULL) {
			/* Its memory is gone: the error comes when it is the oldest (REQ-01). */
			req_rewind(env, qp);
			break;
		}
	}
	snd->resend = false;
	return m->reads.wanted.n != 0 ? req_resend_reads(env, qp, turn) : REQ_NEXT;
}

/* Probes of selective repeat: the oldest packet, and the last one that the peer lacks. */

__rte_noinline bool
req_probe_selective(struct qp_env *env, struct qp *qp)
{
	struct qp_snd *snd = &qp->conn.snd;
	struct qp_sq_entry *e;
	struct qp_scoreboard *m;

	if (qp->conn.sr.state != QP_SR_ON || env->sr == NULL || qp->conn.loopback ||
	    snd->tail == snd->head || !psn_lt(snd->una_psn, snd->next_psn))
		return false;
	e = qp_sq_entry(qp, snd->tail);
	if (snd->next_psn != snd->high_psn && !req_fetches(e))
		return false; /* on the way back to what follows it */
	m = qp_scoreboard_take(env->sr, qp);
	if (m == NULL)
		return false;
	if (psn_lt(m->base_psn, snd->una_psn))
		req_scoreboard_advance(qp, m, snd->una_psn);
	if (req_fetches(e) && m->base_psn == snd->una_psn && e->first_psn != snd->una_psn &&
	    req_read_unknown(qp, e, snd->una_psn))
		return false; /* a part, which must be requested whole */
	if (req_fetches(e) && (m->base_psn != snd->una_psn || e->first_psn != snd->una_psn)) {
		req_reads_lose_all(qp, m); /* the peer has executed it */
		return true;
	}
	if (m->base_psn != snd->una_psn)
		return false; /* the peer has executed it, but its ACK was of no use */
	req_lose(qp, m, snd->una_psn);
	return true;
}

void
req_probe_tail(struct qp_env *env, struct qp *qp)
{
	const struct qp_snd *snd = &qp->conn.snd;
	struct qp_scoreboard *m = qp->bind.scoreboard;
	const struct qp_sq_entry *e;
	uint32_t k = 1, i = snd->tail;
	struct qp_psns_rel got;

	if (qp->conn.sr.state != QP_SR_ON || m == NULL || req_resent_of(m, m->base_psn) == NULL)
		return;
	in_flight(snd, m, &m->got, &got);
	while (qp_psns_rel_has(&got, k))
		k++;
	if (snd->una_psn != psn_add(m->base_psn, k))
		return; /* an ACK of the packets that were sent before the probe */
	req_scoreboard_advance(qp, m, snd->una_psn);
	in_flight(snd, m, &m->got, &got);
	k = RTE_MIN((uint32_t)psn_diff(snd->high_psn, m->base_psn), QP_SR_WINDOW) - 1;
	while (k != 0 && qp_psns_rel_has(&got, k))
		k--;
	if (k == 0)
		return; /* the oldest, of the next probe */
	e = req_entry_of(qp, psn_add(m->base_psn, k), &i);
	if (e == NULL || req_fetches(e))
		return;
	env->counters->ctr[COUNTER_REQ_PROBE]++;
	m->tail_psn = psn_add(m->base_psn, k);
	m->tail_probe = true;
	req_lose(qp, m, m->tail_psn);
	env->ops->qp_wake(env->ops_ctx, qp);
}
