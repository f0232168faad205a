/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>
#include <rte_common.h>
#include "qp/qp.h"
#include "qp/selective.h"
#include "wire/hdr.h"

_Static_assert(QP_SR_FRAME_BYTES >= WIRE_MAX_OVERHEAD + 4096 && QP_SR_FRAME_BYTES % 64 == 0,
	       "holds any legal request, by cache lines");

struct qp_psns
qp_psns_from(const struct qp_psns *s, uint32_t from)
{
	uint32_t w = from / 64, n = from % 64, i;
	struct qp_psns to;

	for (i = 0; i < QP_SR_WORDS; i++) {
		to.word[i] = s->word[(w + i) % QP_SR_WORDS] >> n;
		if (n != 0)
			to.word[i] |= s->word[(w + i + 1) % QP_SR_WORDS] << (64 - n);
	}
	return to;
}

struct qp_psns
qp_psns_at(const struct qp_psns *s, uint32_t from)
{
	return qp_psns_from(s, QP_SR_WINDOW - from % QP_SR_WINDOW);
}

struct qp_psns
qp_psns_first(uint32_t n)
{
	struct qp_psns to = {{0}};
	uint32_t i;

	for (i = 0; i < n / 64; i++)
		to.word[i] = UINT64_MAX;
	if (n % 64 != 0)
		to.word[i] = (UINT64_C(1) << (n % 64)) - 1;
	return to;
}

uint32_t
qp_psns_next(const struct qp_psns *s, uint32_t i)
{
	for (; i < QP_SR_WINDOW; i = (i / 64 + 1) * 64) {
		uint64_t rest = s->word[i / 64] >> (i % 64);

		if (rest != 0)
			return i + (uint32_t)__builtin_ctzll(rest);
	}
	return QP_SR_WINDOW;
}

struct qp_sr_pool *
qp_sr_pool_create(const struct rte_mempool *bufs, uint32_t nbufs)
{
	struct qp_sr_pool *p = calloc(1, sizeof(*p));
	uint32_t i;

	if (p == NULL)
		return NULL;
	p->all_reorder = calloc(QP_SR_QPS, sizeof(*p->all_reorder));
	p->all_scoreboards = calloc(QP_SR_QPS, sizeof(*p->all_scoreboards));
	p->free = calloc(QP_SR_FRAMES, sizeof(*p->free));
	p->frames = malloc((size_t)QP_SR_FRAMES * QP_SR_FRAME_BYTES);
	if (p->all_reorder == NULL || p->all_scoreboards == NULL || p->free == NULL ||
	    p->frames == NULL) {
		qp_sr_pool_free(p);
		return NULL;
	}
	for (i = 0; i < QP_SR_QPS; i++) {
		p->all_reorder[i].next = i + 1 < QP_SR_QPS ? &p->all_reorder[i + 1] : NULL;
		p->all_scoreboards[i].next = i + 1 < QP_SR_QPS ? &p->all_scoreboards[i + 1] : NULL;
	}
	p->reorder = p->all_reorder;
	p->scoreboard = p->all_scoreboards;
	/* The frame used last is used next. */
	for (i = 0; i < QP_SR_FRAMES; i++)
		p->free[i] = (uint16_t)(QP_SR_FRAMES - 1 - i);
	p->nfree = QP_SR_FRAMES;
	p->bufs = bufs;
	p->nbufs = p->most_bufs = bufs != NULL ? nbufs : 0;
	return p;
}

void
qp_sr_pool_free(struct qp_sr_pool *p)
{
	if (p == NULL)
		return;
	free(p->all_reorder);
	free(p->all_scoreboards);
	free(p->free);
	free(p->frames);
	free(p);
}

bool
qp_sr_pool_whole(const struct qp_sr_pool *p)
{
	const struct qp_reorder *h = p->reorder;
	uint32_t n = 0;

	for (; h != NULL; h = h->next)
		n++;
	return n == QP_SR_QPS && p->nfree == QP_SR_FRAMES && p->nbufs == p->most_bufs;
}

void
qp_sr_set(struct qp_sr_pool *p, struct qp *qp, enum qp_sr_state state)
{
	qp->conn.sr = (struct qp_sr){.state = qp->conn.type == QP_TYPE_RC ? state : QP_SR_OFF,
				     .dup_reported = true};
	qp_sr_drop(p, qp);
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
	uint32_t i = pkt->psn % QP_SR_WINDOW;
	struct wire_pkt *to = &h->pkt[i];
	uint8_t *copy;

	*kept = p->nbufs != 0 && m->pool == p->bufs && RTE_MBUF_DIRECT(m);
	if (*kept) {
		p->nbufs--;
		h->buf[i] = m;
		*to = *pkt;
	} else if (p->nfree != 0) {
		copy = p->frames + (size_t)p->free[--p->nfree] * QP_SR_FRAME_BYTES;
		memcpy(copy, pkt->l2, len);
		h->buf[i] = NULL;
		*to = *pkt;
		to->l2 = copy;
		to->ip = copy + (pkt->ip - pkt->l2);
		to->bth = copy + (pkt->bth - pkt->l2);
		to->payload = copy + (pkt->payload - pkt->l2);
	} else {
		return false;
	}
	qp_psns_add(&h->held, pkt->psn);
	return true;
}

struct rte_mbuf *
qp_reorder_release(struct qp_sr_pool *p, struct qp_reorder *h, uint32_t psn)
{
	uint32_t i = psn % QP_SR_WINDOW;

	if (h->buf[i] != NULL)
		p->nbufs++;
	else
		p->free[p->nfree++] =
			(uint16_t)((size_t)(h->pkt[i].l2 - p->frames) / QP_SR_FRAME_BYTES);
	return h->buf[i];
}

struct qp_reorder *
qp_reorder_take(struct qp_sr_pool *p, struct qp *qp)
{
	struct qp_reorder *h = qp->bind.reorder;

	if (h != NULL || p->reorder == NULL)
		return h;
	h = p->reorder;
	p->reorder = h->next;
	h->n = 0;
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
	h->next = p->reorder;
	p->reorder = h;
	qp->bind.reorder = NULL;
	return n;
}

/* Is nothing missing? */
static bool
scoreboard_is_idle(const struct qp_scoreboard *m)
{
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

/* A scoreboard that its QP does not need now. NULL: none was found among LOOK_AT. */
static struct qp_scoreboard *
take_idle(struct qp_sr_pool *p)
{
	uint32_t i;

	for (i = 0; i < LOOK_AT; i++) {
		struct qp_scoreboard *m = &p->all_scoreboards[p->next_scoreboard++ % QP_SR_QPS];

		if (m->qp != NULL && scoreboard_is_idle(m)) {
			m->qp->bind.scoreboard = NULL;
			return m;
		}
	}
	return NULL;
}

struct qp_scoreboard *
qp_scoreboard_take(struct qp_sr_pool *p, struct qp *qp)
{
	struct qp_scoreboard *m = qp->bind.scoreboard;

	if (m != NULL || p == NULL)
		return m;
	m = p->scoreboard;
	if (m != NULL)
		p->scoreboard = m->next;
	else
		m = take_idle(p);
	if (m == NULL)
		return NULL;
	memset(m, 0, sizeof(*m));
	m->qp = qp;
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
	m->next = p->scoreboard;
	p->scoreboard = m;
	qp->bind.scoreboard = NULL;
}
