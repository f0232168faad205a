/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>
#include <rte_common.h>
#include "qp/congestion.h"
#include "qp/lines.h"
#include "qp/qp.h"
#include "qp/selective.h"
#include "wire/hdr.h"

_Static_assert(QP_SR_FRAME_BYTES >= WIRE_MAX_OVERHEAD + 4096 && QP_SR_FRAME_BYTES % 64 == 0,
	       "holds any legal request, by cache lines");

void
qp_psns_from(const struct qp_psns *s, uint32_t from, uint32_t n, struct qp_psns_rel *to)
{
	uint32_t w = from / 64, shift = from % 64, i;

	to->words = (n + 63) / 64;
	for (i = 0; i < to->words; i++)
		to->word[i] = s->word[(w + i) % QP_SR_WORDS] >> shift |
			      (s->word[(w + i + 1) % QP_SR_WORDS] << 1) << (63 - shift);
	if (n % 64 != 0)
		to->word[i - 1] &= (UINT64_C(1) << (n % 64)) - 1;
}

void
qp_psns_join(struct qp_psns *s, uint32_t from, const struct qp_psns_rel *rel)
{
	uint32_t w = from / 64, shift = from % 64, i;

	for (i = 0; i < rel->words; i++) {
		s->word[(w + i) % QP_SR_WORDS] |= rel->word[i] << shift;
		s->word[(w + i + 1) % QP_SR_WORDS] |= (rel->word[i] >> 1) >> (63 - shift);
	}
}

void
qp_psns_cut(struct qp_psns *s, uint32_t from, uint32_t n)
{
	while (n != 0) {
		uint32_t k = RTE_MIN(64 - from % 64, n);

		s->word[from / 64 % QP_SR_WORDS] &= ~((UINT64_MAX >> (64 - k)) << (from % 64));
		from += k;
		n -= k;
	}
}

uint32_t
qp_psns_next(const struct qp_psns_rel *s, uint32_t i)
{
	for (; i < s->words * 64; i = (i / 64 + 1) * 64) {
		uint64_t rest = s->word[i / 64] >> (i % 64);

		if (rest != 0)
			return i + (uint32_t)__builtin_ctzll(rest);
	}
	return QP_SR_WINDOW;
}

static bool
stock_init(struct qp_sr_stock *s, uint32_t n)
{
	s->n = s->nfree = n;
	s->free = qp_lines_zalloc(RTE_MAX(n, 1u) * sizeof(*s->free));
	/* The part used last is used next. */
	for (uint32_t i = 0; i < n && s->free != NULL; i++)
		s->free[i] = (uint16_t)(n - 1 - i);
	return s->free != NULL;
}

#define NONE UINT32_MAX

/* Takes a part. Returns its number; NONE: none is left for at. */
static uint32_t
stock_take(struct qp_sr_stock *s, struct qp_sr_place at)
{
	if (s->user[at.user] + 2u * s->peer[at.user][at.peer] >= s->nfree)
		return NONE;
	s->nfree--;
	s->user[at.user]++;
	s->peer[at.user][at.peer]++;
	return s->free[s->nfree];
}

static void
stock_give(struct qp_sr_stock *s, struct qp_sr_place at, uint32_t number)
{
	s->user[at.user]--;
	s->peer[at.user][at.peer]--;
	s->free[s->nfree++] = (uint16_t)number;
}

/* Has the place from more parts than the place to, so that one of them may change sides? */
static bool
stock_is_richer(const struct qp_sr_stock *s, struct qp_sr_place from, struct qp_sr_place to)
{
	if (from.user != to.user)
		return s->user[from.user] > s->user[to.user] + 1;
	return from.peer == to.peer ||
	       s->peer[from.user][from.peer] > s->peer[to.user][to.peer] + 1;
}

static void
stock_move(struct qp_sr_stock *s, struct qp_sr_place from, struct qp_sr_place to)
{
	s->user[from.user]--;
	s->peer[from.user][from.peer]--;
	s->user[to.user]++;
	s->peer[to.user][to.peer]++;
}

static struct qp_sr_place
place_of(const struct qp *qp)
{
	return (struct qp_sr_place){qp->bind.run_user, qp->bind.sr_peer};
}

struct qp_sr_pool *
qp_sr_pool_create(const struct rte_mempool *bufs, uint32_t nbufs)
{
	struct qp_sr_pool *p = qp_lines_zalloc(sizeof(*p));

	if (p == NULL)
		return NULL;
	p->bufs = bufs;
	p->all_reorders = calloc(QP_SR_QPS, sizeof(*p->all_reorders));
	p->all_scoreboards = calloc(QP_SR_QPS, sizeof(*p->all_scoreboards));
	p->all_frames = malloc((size_t)QP_SR_FRAMES * QP_SR_FRAME_BYTES);
	nbufs = bufs != NULL ? RTE_MIN(nbufs, UINT16_MAX - QP_SR_FRAMES) : 0;
	p->all_held = calloc(nbufs + QP_SR_FRAMES, sizeof(*p->all_held));
	if (!stock_init(&p->reorders, QP_SR_QPS) || !stock_init(&p->scoreboards, QP_SR_QPS) ||
	    !stock_init(&p->frames, QP_SR_FRAMES) || !stock_init(&p->kept, nbufs) ||
	    p->all_reorders == NULL || p->all_scoreboards == NULL || p->all_frames == NULL ||
	    p->all_held == NULL) {
		qp_sr_pool_free(p);
		return NULL;
	}
	return p;
}

void
qp_sr_pool_free(struct qp_sr_pool *p)
{
	if (p == NULL)
		return;
	free(p->all_reorders);
	free(p->all_scoreboards);
	free(p->all_frames);
	free(p->all_held);
	free(p->reorders.free);
	free(p->scoreboards.free);
	free(p->frames.free);
	free(p->kept.free);
	free(p);
}

bool
qp_sr_pool_whole(const struct qp_sr_pool *p)
{
	return p->reorders.nfree == p->reorders.n && p->frames.nfree == p->frames.n &&
	       p->kept.nfree == p->kept.n;
}

/* Hash of a GID to the places of a user's peers. */
static uint8_t
peer_place(const uint8_t gid[16])
{
	uint64_t word[2];

	memcpy(word, gid, sizeof(word));
	return (uint8_t)((word[0] + word[1]) * 0x9e3779b97f4a7c15ull >> 56) % QP_SR_PEERS;
}

void
qp_sr_set(struct qp_sr_pool *p, struct qp *qp, enum qp_sr_state state)
{
	qp->conn.sr = (struct qp_sr){.state = qp->conn.type == QP_TYPE_RC ? state : QP_SR_OFF,
				     .dup_reported = true};
	qp_sr_drop(p, qp);
	qp->bind.sr_peer = peer_place(qp->conn.dgid);
	qp_sr_told(qp, 0);
}

void
qp_sr_told(struct qp *qp, uint8_t peer_buffer)
{
	qp->conn.peer_buffer = peer_buffer;
	qp_cc_allow(qp);
}

void
qp_sr_agree(struct qp_env *env, struct qp *qp)
{
	qp_sr_set(env->sr, qp, QP_SR_ON);
	qp_loss_rewait(env, qp);
	env->ops->qp_wake(env->ops_ctx, qp); /* its timer may be due earlier */
}

bool
qp_reorder_put(struct qp_sr_pool *p, struct qp_reorder *h, const struct wire_pkt *pkt, uint32_t len,
	       struct rte_mbuf *m, bool *kept)
{
	uint32_t number = NONE;
	struct qp_held *to;
	uint8_t *copy;

	if (m->pool == p->bufs && RTE_MBUF_DIRECT(m))
		number = stock_take(&p->kept, h->place);
	*kept = number != NONE;
	if (*kept) {
		to = &p->all_held[number];
		to->buf = m;
		to->pkt = *pkt;
	} else if ((number = stock_take(&p->frames, h->place)) != NONE) {
		copy = p->all_frames + (size_t)number * QP_SR_FRAME_BYTES;
		memcpy(copy, pkt->l2, len);
		to = &p->all_held[p->kept.n + number];
		to->buf = NULL;
		to->pkt = *pkt;
		to->pkt.l2 = copy;
		to->pkt.ip = copy + (pkt->ip - pkt->l2);
		to->pkt.bth = copy + (pkt->bth - pkt->l2);
		to->pkt.payload = copy + (pkt->payload - pkt->l2);
	} else {
		return false;
	}
	h->at[pkt->psn % QP_SR_WINDOW] = (uint16_t)(to - p->all_held);
	qp_psns_add(&h->held, pkt->psn);
	if (!psn_lt(pkt->psn, h->end_psn))
		h->end_psn = psn_add(pkt->psn, 1);
	return true;
}

struct rte_mbuf *
qp_reorder_release(struct qp_sr_pool *p, struct qp_reorder *h, uint32_t psn)
{
	const struct qp_held *of = qp_held_at(p, h, psn);
	uint32_t number = (uint32_t)(of - p->all_held);

	if (of->buf != NULL)
		stock_give(&p->kept, h->place, number);
	else
		stock_give(&p->frames, h->place, number - p->kept.n);
	return of->buf;
}

struct qp_reorder *
qp_reorder_take(struct qp_sr_pool *p, struct qp *qp)
{
	struct qp_reorder *h = qp->bind.reorder;
	uint32_t number;

	if (h != NULL || (number = stock_take(&p->reorders, place_of(qp))) == NONE)
		return h;
	h = &p->all_reorders[number];
	h->place = place_of(qp);
	h->n = 0;
	h->end_psn = qp->conn.rcv.epsn;
	h->held = (struct qp_psns){{0}};
	qp->bind.reorder = h;
	qp->conn.rcv.holding = true;
	return h;
}

uint32_t
qp_reorder_drop(struct qp_sr_pool *p, struct qp *qp)
{
	struct qp_reorder *h = qp->bind.reorder;
	uint32_t i, n;

	qp->conn.rcv.holding = false;
	if (h == NULL)
		return 0;
	n = h->n;
	for (i = 0; i < QP_SR_WINDOW && h->n != 0; i++) {
		if (qp_psns_has(&h->held, i)) {
			rte_pktmbuf_free(qp_reorder_release(p, h, i));
			h->n--;
		}
	}
	stock_give(&p->reorders, h->place, (uint32_t)(h - p->all_reorders));
	qp->bind.reorder = NULL;
	return n;
}

/* Is nothing missing? An ACK of all that was sent leaves the scoreboard as it is. */
static bool
scoreboard_is_idle(const struct qp_scoreboard *m)
{
	const struct qp_snd *snd = &m->qp->conn.snd;

	if (snd->una_psn == snd->high_psn)
		return true;
	return qp_psns_empty(&m->got) && qp_psns_empty(&m->lost) && m->reads.here.n == 0 &&
	       m->reads.wanted.n == 0 && m->reads.nasks == 0;
}

bool
qp_sr_is_idle(const struct qp *qp)
{
	const struct qp_scoreboard *m = qp->bind.scoreboard;

	return qp->bind.reorder == NULL && !qp->conn.snd.resend &&
	       (m == NULL || scoreboard_is_idle(m));
}

#define LOOK_AT 16u /* scoreboards for one packet; the next one looks at the next scoreboards */

/* Takes a scoreboard from a QP that does not need it now. NULL: LOOK_AT have none for this place.
 */
static struct qp_scoreboard *
take_idle(struct qp_sr_pool *p, struct qp_sr_place at)
{
	for (uint32_t i = 0; i < LOOK_AT && i < p->used_scoreboards; i++) {
		struct qp_scoreboard *m =
			&p->all_scoreboards[p->next_scoreboard++ % p->used_scoreboards];

		if (m->qp == NULL || !scoreboard_is_idle(m) ||
		    !stock_is_richer(&p->scoreboards, m->place, at))
			continue;
		stock_move(&p->scoreboards, m->place, at);
		m->qp->bind.scoreboard = NULL;
		return m;
	}
	return NULL;
}

struct qp_scoreboard *
qp_scoreboard_take(struct qp_sr_pool *p, struct qp *qp)
{
	struct qp_scoreboard *m = qp->bind.scoreboard;
	uint32_t number;

	if (m != NULL || p == NULL)
		return m;
	number = stock_take(&p->scoreboards, place_of(qp));
	if (number != NONE) {
		m = &p->all_scoreboards[number];
		p->used_scoreboards = RTE_MAX(p->used_scoreboards, number + 1);
	} else {
		m = take_idle(p, place_of(qp));
	}
	if (m == NULL)
		return NULL;
	memset(m, 0, sizeof(*m));
	m->qp = qp;
	m->place = place_of(qp);
	m->reads.last_wqe = qp->conn.snd.tail;
	m->base_psn = m->top_psn = m->wide_psn = m->round_psn = m->reads.seen_psn =
		qp->conn.snd.una_psn;
	qp->bind.scoreboard = m;
	return m;
}

void
qp_scoreboard_clear(struct qp *qp)
{
	struct qp_scoreboard *m = qp->bind.scoreboard;

	qp->conn.snd.resend = false;
	if (m == NULL)
		return;
	memset(m->resent, 0, sizeof(m->resent));
	m->got = m->lost = (struct qp_psns){{0}};
	memset(&m->reads, 0, sizeof(m->reads));
	m->tail_probe = false;
	m->reads.last_wqe = qp->conn.snd.tail;
	m->base_psn = m->top_psn = m->wide_psn = m->round_psn = m->reads.seen_psn =
		qp->conn.snd.una_psn;
}

void
qp_sr_drop(struct qp_sr_pool *p, struct qp *qp)
{
	struct qp_scoreboard *m = qp->bind.scoreboard;
	uint32_t n = qp_reorder_drop(p, qp);

	if (n != 0)
		qp->bind.counters->ctr[COUNTER_RSP_HELD_LOST] += n;
	qp->conn.rcv.sack_due = false;
	qp->conn.snd.resend = false;
	if (m == NULL)
		return;
	m->qp = NULL;
	stock_give(&p->scoreboards, m->place, (uint32_t)(m - p->all_scoreboards));
	qp->bind.scoreboard = NULL;
}
