/* SPDX-License-Identifier: BSD-3-Clause */
#include "responder/reorder.h"
#include <string.h>
#include <rte_common.h>
#include <rte_prefetch.h>
#include "responder/responder_parts.h"
#include "wire/sack.h"

_Static_assert(QP_SR_WORDS == WIRE_SACK_WORDS, "a SACK reports all that may be held");

/*
 * The QP falls back after the peer ignores all SACKs of several gaps in a row: 4 of at least
 * IGNORED_HELD held requests, or 16 of fewer. A few duplicates may also be those of a lost SACK.
 */
#define IGNORED_MOST 16
#define IGNORED_HELD 4

/*
 * An answer to this many requests or more is sent twice if requests were held lately: the requester
 * may have sent all it may, and if the only answer was lost, it would wait for a probe.
 */
#define COPY_REQUESTS 8u
#define COPY_ACKS     64u /* the same for so many ACKs after requests were held */

static void
duplicate(struct qp *qp, uint32_t psn)
{
	struct qp_sr *sr = &qp->conn.sr;

	sr->dups++;
	sr->dup_psn = psn;
	sr->dup_reported = false;
}

/* A request was held that no ACK or SACK has reported yet. */
static void
count_fresh(struct qp *qp)
{
	struct qp_sr *sr = &qp->conn.sr;

	if (sr->lossy == 0) {
		sr->acked_psn = qp->conn.rcv.epsn;
		sr->fresh = 0;
	}
	sr->lossy = COPY_ACKS;
	qp->conn.rcv.sr_acks = true;
	sr->fresh += sr->fresh != UINT8_MAX;
}

__rte_noinline bool
rsp_reorder_put(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt, struct rte_mbuf *m)
{
	struct qp_rcv *rcv = &qp->conn.rcv;
	int32_t ahead = psn_diff(pkt->psn, rcv->epsn);
	struct qp_reorder *h;
	uint32_t len;
	bool kept;

	if (qp->conn.sr.state != QP_SR_ON || env->sr == NULL || qp->conn.loopback || rcv->nak_due ||
	    rcv->nak_sent || ahead >= (int32_t)QP_SR_WINDOW)
		return false;
	/* Ports pass longer frames. A request longer than the path MTU is an error at its turn. */
	len = (uint32_t)(pkt->payload - pkt->l2) + pkt->payload_len + pkt->pad_len + WIRE_ICRC_LEN;
	if (pkt->payload_len > qp->conn.mtu || len > QP_SR_FRAME_BYTES)
		return false;
	h = qp_reorder_take(env->sr, qp);
	if (h == NULL)
		return false;
	if (qp_psns_has(&h->held, pkt->psn)) {
		env->counters->ctr[COUNTER_RSP_DUP]++;
		duplicate(qp, pkt->psn);
		rcv->sack_due = true;
		return true;
	}
	if (!qp_reorder_put(env->sr, h, pkt, len, m, &kept)) {
		if (h->n == 0)
			return false;
		/* Dropped as if lost. A NAK would discard the held requests, too. */
		qp_env_drop(env, DROP_OUT_OF_SEQ);
		rcv->sack_due = true;
		return true;
	}
	if (kept)
		env->dropped = QP_ENV_KEPT;
	if (h->n++ == 0) {
		/* The peer retransmitted only the last gap: it uses SACKs. */
		if (qp->conn.sr.expect_dup != 0)
			qp->conn.sr.ignored = 0;
		qp->conn.sr.expect_dup = 0;
	}
	env->counters->ctr[COUNTER_RSP_HELD]++;
	count_fresh(qp);
	rcv->early_psn = pkt->psn; /* later duplicates are not of this gap (rsp_duplicate_report) */
	rcv->sack_due = true;
	return true;
}

__rte_noinline void
rsp_reorder_discard(struct qp_env *env, struct qp *qp)
{
	if (!qp->conn.rcv.holding)
		return;
	env->counters->ctr[COUNTER_RSP_HELD_LOST] += qp_reorder_drop(env->sr, qp);
	qp->conn.rcv.sack_due = false;
}

#define HELD_AHEAD 2 /* requests whose bytes are prefetched */

/* The bytes of a held request may have left the cache since it arrived. */
static inline void
prefetch_held(const struct qp_sr_pool *p, const struct qp_reorder *h, uint32_t psn)
{
	const struct qp_held *of = qp_held_at(p, h, psn);
	uint32_t line;

	if (!qp_psns_has(&h->held, psn))
		return;
#pragma GCC unroll 16
	for (line = 0; line < 16; line++)
		rte_prefetch0(of->pkt.payload + line * RTE_CACHE_LINE_SIZE);
	if (of->buf != NULL)
		rte_prefetch0(of->buf);
}

/* Buffers of executed requests, to be freed together. */
struct spent {
	uint32_t n;
	struct rte_mbuf *m[32];
};

static void
spent_free(struct spent *s)
{
	rte_pktmbuf_free_bulk(s->m, s->n);
	s->n = 0;
}

/*
 * Executes the held request with the ePSN. Returns false if it was not executed. If its memory is
 * late it stays held.
 */
static bool
execute_one(struct qp_env *env, struct qp *qp, struct spent *s)
{
	struct qp_reorder *h = qp->bind.reorder;
	struct qp_rcv *rcv = &qp->conn.rcv;
	uint32_t psn = rcv->epsn, was = env->dropped;
	const struct wire_pkt *pkt = &qp_held_at(env->sr, h, psn)->pkt;

	qp_psns_remove(&h->held, psn);
	h->n--;
	prefetch_held(env->sr, h, psn_add(psn, HELD_AHEAD));
	if (!rsp_write_middle(env, qp, pkt))
		rsp_execute(env, qp, pkt);
	if (env->dropped == DROP_MEMORY_LATE) {
		qp_psns_add(&h->held, psn);
		h->n++;
		return false;
	}
	env->dropped = was; /* it was counted on arrival */
	if (s->n == RTE_DIM(s->m))
		spent_free(s);
	s->m[s->n] = qp_reorder_release(env->sr, h, psn);
	s->n += s->m[s->n] != NULL;
	return rcv->epsn != psn;
}

/* A READ took PSNs first .. end, and a wrong peer has sent requests with such PSNs, too. */
static void
discard_taken(struct qp_env *env, struct qp_reorder *h, uint32_t first, uint32_t end)
{
	uint32_t i, n = RTE_MIN((uint32_t)psn_diff(end, first), QP_SR_WINDOW);

	for (i = 0; i < n && h->n != 0; i++) {
		uint32_t psn = psn_add(first, i);

		if (!qp_psns_has(&h->held, psn))
			continue;
		qp_psns_remove(&h->held, psn);
		h->n--;
		rte_pktmbuf_free(qp_reorder_release(env->sr, h, psn));
		env->counters->ctr[COUNTER_RSP_HELD_LOST]++;
	}
}

/* The gap before the held requests is closed. n: requests that were executed. */
static void
close_gap(struct qp_env *env, struct qp *qp, uint32_t n)
{
	struct qp_sr *sr = &qp->conn.sr;

	qp_reorder_drop(env->sr, qp);
	sr->expect_dup = (uint8_t)RTE_MIN(n, UINT8_MAX);
	/* Counted now. The next gap resets the count, unless all of them were retransmitted. */
	if (n != 0)
		sr->ignored += n >= IGNORED_HELD ? IGNORED_MOST / 4 : 1;
}

__rte_noinline void
rsp_execute_held(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt)
{
	const struct wire_pkt *(*rx_next)(struct qp_env *, const struct wire_pkt *) = env->rx_next;
	struct qp_rcv *rcv = &qp->conn.rcv;
	uint32_t first = rcv->epsn, psn = psn_add(first, WIRE_PSN_MASK), n = 0;
	bool more = qp_psns_has(&qp->bind.reorder->held, first); /* its memory was late */
	struct spent spent;

	if (!more && pkt->psn != first)
		return;
	spent.n = 0;
	env->rx_next = NULL; /* held packets are in no burst */
	if (!more) {
		psn = first;
		rsp_execute(env, qp, pkt);
		more = rcv->epsn != psn;
	}
	/* The QP may fail, which gives back all it holds. */
	while (rcv->holding && more && !rcv->nak_due && !rcv->fatal) {
		if (rcv->epsn != psn_add(psn, 1))
			discard_taken(env, qp->bind.reorder, psn_add(psn, 1), rcv->epsn);
		psn = rcv->epsn;
		if (!qp_psns_has(&qp->bind.reorder->held, psn))
			break;
		more = execute_one(env, qp, &spent);
		n += more;
	}
	spent_free(&spent);
	env->rx_next = rx_next;
	if (env->dropped == DROP_MEMORY_LATE) {
		/* The engine tries it again. The peer needs no SACK: nothing is missing. */
		if (rcv->epsn != first)
			rsp_ack(qp, psn_add(rcv->epsn, WIRE_PSN_MASK));
		return;
	}
	if (!rcv->holding)
		return;
	if (rcv->nak_due || rcv->fatal) {
		rsp_reorder_discard(env, qp);
		return;
	}
	/* Some requests that were dropped without a NAK, or not needed any more, end it, too. */
	if (qp->bind.reorder->n == 0)
		close_gap(env, qp, n);
	rcv->sack_due = true;
}

__rte_noinline void
rsp_duplicate_report(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt)
{
	struct qp_sr *sr = &qp->conn.sr;

	rsp_duplicate(env, qp, pkt);
	/* Of a READ or atomic the response was lost, not the request. */
	if (qp->conn.loopback || !(pkt->op->flags & (WIRE_F_SEND | WIRE_F_WRITE)))
		return;
	/* It was received before, or one behind it was: SACKs seem to be lost or ignored. */
	if (sr->dups != 0 && psn_le(pkt->psn, sr->dup_psn))
		sr->dup_again = qp->conn.rcv.sr_acks = true;
	duplicate(qp, pkt->psn);
	if (!sr->dup_again)
		qp->conn.rcv.sack_due = true;
	/* early_psn is the last request held in the last gap; later ones do not count. */
	if (sr->expect_dup == 0 || psn_lt(qp->conn.rcv.early_psn, pkt->psn) ||
	    --sr->expect_dup != 0 || sr->ignored < IGNORED_MOST)
		return;
	sr->state = QP_SR_CAN;
	sr->lossy = 0; /* no more copies */
	env->counters->ctr[COUNTER_RSP_SR_FALLBACK]++;
	qp_record(env, qp, QP_RECORD_SR_OFF, 0, qp->conn.rcv.epsn, 0);
	/* No request is held: the first one of a gap clears expect_dup. */
	qp->conn.rcv.sack_due = false;
}

/* The requests that are held, relative to the ePSN. Returns the end of the set. */
static uint32_t
held_behind(const struct qp *qp, struct qp_psns_rel *held)
{
	const struct qp_reorder *h = qp->bind.reorder;
	uint32_t epsn = qp->conn.rcv.epsn, n = 0;

	if (h != NULL && psn_lt(epsn, h->end_psn))
		n = (uint32_t)psn_diff(h->end_psn, epsn);
	if (n != 0)
		qp_psns_from(&h->held, epsn, n, held);
	else
		held->words = 0;
	/* The peer takes the ePSN for missing. It may be held, if its memory is late. */
	if (held->words != 0)
		held->word[0] &= ~UINT64_C(1);
	return n;
}

/*
 * Sends a SACK of requests behind psn: all before it were executed. held: relative to psn. Returns
 * false if there is no space.
 */
static bool
sack_send(struct qp_env *env, struct qp *qp, uint32_t psn, uint32_t msn,
	  const struct qp_psns_rel *held, uint8_t flags)
{
	struct qp_sr *sr = &qp->conn.sr;
	struct wire_fields f = {.opcode = WIRE_OPCODE_SACK,
				.psn = psn,
				.syndrome = WIRE_SYN_ACK | WIRE_SYN_NO_CREDITS,
				.msn = msn};
	struct wire_sack sack = {.version = WIRE_SACK_VERSION,
				 .flags = flags | (sr->dup_reported ? 0 : WIRE_SACK_DUPLICATE),
				 .dups = rte_cpu_to_be_16(sr->dups),
				 .dup_psn = rte_cpu_to_be_32(sr->dup_psn)};
	struct rte_mbuf *m = rsp_frame(env);
	uint32_t hdr, len = WIRE_SACK_LEN(RTE_MAX(held->words, 1u)), i;
	uint8_t *p;

	if (m == NULL)
		return false;
	for (i = 0; i < held->words; i++)
		sack.held[i] = rte_cpu_to_le_64(held->word[i]);
	p = rte_pktmbuf_mtod(m, uint8_t *);
	hdr = wire_hdr_put(&qp->conn.tmpl, &f, len, p);
	memcpy(p + hdr, &sack, len);
	rsp_emit(env, qp, m, hdr, len);
	qp->conn.rcv.sack_due = false;
	env->counters->ctr[COUNTER_RSP_SACK]++;
	return true;
}

/* While sr.lossy: should this answer be sent twice? Marks all requests so far as answered. */
static bool
wants_copy(struct qp *qp)
{
	struct qp_sr *sr = &qp->conn.sr;
	uint32_t epsn = qp->conn.rcv.epsn;
	uint32_t n = (uint32_t)psn_diff(epsn, sr->acked_psn) + sr->fresh;

	sr->acked_psn = epsn;
	sr->fresh = 0;
	return n >= COPY_REQUESTS;
}

__rte_noinline void
rsp_ack_sent(struct qp_env *env, struct qp *qp)
{
	struct qp_sr *sr = &qp->conn.sr;
	struct qp_rcv *rcv = &qp->conn.rcv;
	static const struct qp_psns_rel none;

	sr->dup_again = false;
	if (sr->lossy != 0) {
		sr->lossy--;
		if (wants_copy(qp))
			sack_send(env, qp, rcv->epsn, rcv->msn, &none, WIRE_SACK_COPY);
	}
	rcv->sr_acks = sr->lossy != 0;
}

__rte_noinline bool
rsp_sack_send(struct qp_env *env, struct qp *qp)
{
	struct qp_rcv *rcv = &qp->conn.rcv;
	struct qp_psns_rel held;

	held_behind(qp, &held);
	if (!sack_send(env, qp, rcv->epsn, rcv->msn, &held, 0))
		return false;
	rcv->ack_due = false; /* the ePSN acknowledges everything before it */
	if (qp->conn.sr.lossy != 0 && wants_copy(qp))
		sack_send(env, qp, rcv->epsn, rcv->msn, &held, WIRE_SACK_COPY);
	qp->conn.sr.dup_reported = true;
	return true;
}

__rte_noinline void
rsp_sack_send_early(struct qp_env *env, struct qp *qp)
{
	struct qp_rcv *rcv = &qp->conn.rcv;
	const struct qp_rd_op *op = &rcv->rdq[0];
	uint32_t psn = psn_add(op->psn, op->pos), gap, n, i;
	struct qp_psns_rel held;
	struct qp_psns sacked = {{0}};

	/* Not the PSN of a request: the requester counts bit 0 as missing. */
	if (!rcv->holding || rcv->nak_due || rcv->rdq_n == 0 || op->pos == 0)
		return;
	gap = (uint32_t)psn_diff(rcv->epsn, psn);
	n = gap + held_behind(qp, &held);
	if (n > QP_SR_WINDOW)
		return; /* later, when fewer responses are left */
	for (i = 0; i < gap / 64; i++)
		sacked.word[i] = UINT64_MAX;
	if (gap % 64 != 0)
		sacked.word[i] = (UINT64_C(1) << (gap % 64)) - 1;
	sacked.word[0] &= ~UINT64_C(1);
	qp_psns_join(&sacked, gap, &held);
	qp_psns_from(&sacked, 0, n, &held);
	/* The oldest entry is executed, but not yet answered. An ACK that is due stays due. */
	if (sack_send(env, qp, psn, (op->msn - 1) & WIRE_PSN_MASK, &held, 0))
		qp->conn.sr.dup_reported = true;
}
