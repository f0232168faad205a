/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/capture.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <rte_mbuf.h>
#include "wire/build.h"
#include "worker/worker_parts.h"

#define NS_PER_S_U64 1000000000ull

/*
 * Header of a frame in the ring; the frame's bytes follow. Records are multiples of its size. If a
 * frame does not fit before the ring's end, a record without a frame fills the rest.
 */
struct record {
	uint64_t time_ns;
	uint32_t room; /* bytes to the next record */
	uint32_t len;
	uint32_t frame_len;
	uint32_t kind;
	struct capture_note note;
	uint8_t rsvd[16];
};
_Static_assert(sizeof(struct record) == 64, "records are aligned to their size");
enum { RECORD_SKIP, RECORD_RECEIVED, RECORD_SENT };

struct capture {
	uint8_t *ring;
	uint32_t mask;
	uint64_t epoch_ns; /* of the workers' clock */
	/* owned by the worker */
	uint64_t prod __rte_cache_aligned; /* free running, bytes */
	uint64_t cons_seen;
	uint64_t lost;
	uint64_t next; /* position of the frame that capture_commit passes on */
	uint32_t faulted_n;
	struct { /* frames of the current poll that a fault injector changed */
		const struct rte_mbuf *m;
		struct capture_fault fault;
	} faulted[WORKER_RX_BURST];
	/* owned by the reader */
	uint64_t cons __rte_cache_aligned;
};

struct capture *
capture_create(uint32_t bytes)
{
	struct capture *c = aligned_alloc(RTE_CACHE_LINE_SIZE, sizeof(*c));

	if (c == NULL)
		return NULL;
	memset(c, 0, sizeof(*c));
	c->mask = bytes - 1;
	c->ring = aligned_alloc(RTE_CACHE_LINE_SIZE, bytes);
	if (c->ring == NULL) {
		free(c);
		return NULL;
	}
	return c;
}

void
capture_free(struct capture *c)
{
	if (c == NULL)
		return;
	free(c->ring);
	free(c);
}

static struct record *
record_at(struct capture *c, uint64_t pos)
{
	return (struct record *)(c->ring + (pos & c->mask));
}

/* Returns true if n bytes fit after pos. */
static bool
has_room(struct capture *c, uint64_t pos, uint32_t n)
{
	if (pos + n - c->cons_seen <= (uint64_t)c->mask + 1)
		return true;
	/* Partner: capture_done's release, after the reader's last access to the bytes. */
	c->cons_seen = __atomic_load_n(&c->cons, __ATOMIC_ACQUIRE);
	return pos + n - c->cons_seen <= (uint64_t)c->mask + 1;
}

static void
copy_frame(uint8_t *to, const struct rte_mbuf *m, uint32_t len)
{
	for (; len != 0; m = m->next) {
		uint32_t n = RTE_MIN(len, (uint32_t)m->data_len);

		memcpy(to, rte_pktmbuf_mtod(m, const uint8_t *), n);
		to += n;
		len -= n;
	}
}

bool
capture_put(struct capture *c, uint64_t now_ns, const struct rte_mbuf *m, bool sent)
{
	uint32_t len = RTE_MIN(m->pkt_len, (uint32_t)CAPTURE_MAX_FRAME);
	uint32_t room = RTE_ALIGN_CEIL(sizeof(struct record) + len, sizeof(struct record));
	uint32_t to_end = c->mask + 1 - (uint32_t)(c->prod & c->mask);
	uint64_t pos = c->prod;
	struct record *r;

	if (room > to_end)
		pos += to_end;
	if (!has_room(c, pos, room)) {
		__atomic_store_n(&c->lost, c->lost + 1, __ATOMIC_RELAXED);
		return false;
	}
	if (pos != c->prod)
		*record_at(c, c->prod) = (struct record){.room = to_end, .kind = RECORD_SKIP};
	r = record_at(c, pos);
	*r = (struct record){.time_ns = now_ns,
			     .room = room,
			     .len = len,
			     .frame_len = m->pkt_len,
			     .kind = sent ? RECORD_SENT : RECORD_RECEIVED};
	copy_frame((uint8_t *)(r + 1), m, len);
	c->next = pos;
	return true;
}

void
capture_commit(struct capture *c, struct capture_note note)
{
	struct record *r = record_at(c, c->next);

	r->note = note;
	/* Partner: capture_peek's acquire. */
	__atomic_store_n(&c->prod, c->next + r->room, __ATOMIC_RELEASE);
}

bool
capture_peek(struct capture *c, struct capture_frame *f)
{
	uint64_t prod = __atomic_load_n(&c->prod, __ATOMIC_ACQUIRE);
	const struct record *r;

	if (c->cons == prod)
		return false;
	r = record_at(c, c->cons);
	if (r->kind == RECORD_SKIP) {
		capture_done(c);
		r = record_at(c, c->cons); /* a frame always follows */
	}
	*f = (struct capture_frame){.epoch_ns = c->epoch_ns + r->time_ns,
				    .data = (const uint8_t *)(r + 1),
				    .len = r->len,
				    .frame_len = r->frame_len,
				    .note = r->note,
				    .sent = r->kind == RECORD_SENT};
	return true;
}

void
capture_done(struct capture *c)
{
	__atomic_store_n(&c->cons, c->cons + record_at(c, c->cons)->room, __ATOMIC_RELEASE);
}

uint64_t
capture_lost(const struct capture *c)
{
	return __atomic_load_n(&c->lost, __ATOMIC_RELAXED);
}

/* Counters that tell what became of a received frame. */
static const struct {
	enum counter counter;
	uint16_t flag;
} rx_flags[] = {
	{COUNTER_RSP_DUP, CAPTURE_DUPLICATE}, {COUNTER_RSP_OUT_OF_SEQ, CAPTURE_OUT_OF_SEQ},
	{COUNTER_REQ_DUP_ACK, CAPTURE_STALE}, {COUNTER_SLOW_PATH, CAPTURE_SLOW_PATH},
	{COUNTER_RSP_RNR_NAK, CAPTURE_RNR},
};

/* What the counters say of the frame received since they were as in before. */
static struct capture_note
note_of(const struct counter_block *before, const struct counter_block *now)
{
	struct capture_note note = {.drop = 0};

	while (note.drop < DROP_NUM && before->drop[note.drop] == now->drop[note.drop])
		note.drop++;
	for (unsigned i = 0; i < RTE_DIM(rx_flags); i++) {
		if (before->ctr[rx_flags[i].counter] != now->ctr[rx_flags[i].counter])
			note.flags |= rx_flags[i].flag;
	}
	return note;
}

void
worker_capture_fault(struct worker_set *ws, uint16_t dev, uint16_t queue, const struct rte_mbuf *m,
		     const struct capture_fault *fault, bool lost)
{
	struct worker *w = ws->worker[queue % ws->n];
	struct capture *c = w->cap[dev];

	if (c == NULL)
		return;
	if (lost) {
		if (capture_put(c, w->now_ns, m, false))
			capture_commit(c, (struct capture_note){.drop = DROP_NUM, .fault = *fault});
	} else if (c->faulted_n < RTE_DIM(c->faulted)) {
		c->faulted[c->faulted_n].m = m;
		c->faulted[c->faulted_n++].fault = *fault;
	}
}

/* What the injector did to m, which it delivered in order. *i: the next entry to look at. */
static struct capture_fault
fault_of(const struct capture *c, const struct rte_mbuf *m, uint32_t *i)
{
	if (*i == c->faulted_n || c->faulted[*i].m != m)
		return (struct capture_fault){.bytes = {0}};
	return c->faulted[(*i)++].fault;
}

void
captured_rx(struct engine *e, uint64_t now_ns, uint16_t dev, struct rte_mbuf **m, uint32_t n)
{
	struct worker *w = container_of(e, struct worker, engine);
	const struct counter_block *counters = &w->counters[dev];
	struct capture *c = w->cap[dev];
	struct counter_block before;
	uint32_t next_fault = 0;

	if (w->steps != NULL)
		steps_rx(w);
	if (c == NULL) {
		engine_rx(e, now_ns, dev, m, n);
		return;
	}
	/* One frame at a time, so that the counters tell what became of it. */
	for (uint32_t i = 0; i < n; i++) {
		bool kept = capture_put(c, now_ns, m[i], false);
		struct capture_fault fault = fault_of(c, m[i], &next_fault);
		struct capture_note note;

		before = *counters;
		engine_rx(e, now_ns, dev, &m[i], 1);
		note = note_of(&before, counters);
		note.fault = fault;
		/* A frame that another worker has got is captured there. */
		if (kept && (note.drop != DROP_NUM ||
			     before.ctr[COUNTER_RX_HANDOFF] == counters->ctr[COUNTER_RX_HANDOFF]))
			capture_commit(c, note);
	}
	c->faulted_n = 0;
}

void
captured_sent(struct worker *w, struct rte_mbuf *const *m, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		struct capture *c = w->cap[m[i]->port];
		struct capture_note note = {.drop = DROP_NUM};

		if (c == NULL)
			continue;
		/* Frames that loop back have no ICRC (qp/env.h); readers of captures expect one. */
		if (m[i]->hash.usr == QP_TX_LOOPBACK) {
			if (!engine_own(&w->engine, m[i]))
				continue;
			wire_frame_seal_own(rte_pktmbuf_mtod(m[i], uint8_t *), m[i]->data_len);
		}
		if (m[i]->hash.usr != TX_CONTROL) {
			note.qpn = m[i]->hash.fdir.hi & QP_TX_QPN_MASK;
			note.flags = m[i]->hash.fdir.hi & QP_TX_AGAIN ? CAPTURE_AGAIN : 0;
		}
		if (capture_put(c, w->now_ns, m[i], true))
			capture_commit(c, note);
	}
}

struct change {
	uint16_t dev;
	struct capture *const *cap;
};

static void
change_on_worker(struct worker *w, void *arg)
{
	const struct change *ch = arg;

	w->watches -= w->ncaps;
	w->ncaps -= w->cap[ch->dev] != NULL;
	w->cap[ch->dev] = ch->cap != NULL ? ch->cap[w->index] : NULL;
	w->ncaps += w->cap[ch->dev] != NULL;
	w->watches += w->ncaps;
}

void
worker_capture(struct worker_set *ws, uint16_t dev, struct capture *const *cap)
{
	struct change ch = {.dev = dev, .cap = cap};
	struct timespec t;
	uint64_t epoch;

	clock_gettime(CLOCK_REALTIME, &t);
	epoch = (uint64_t)t.tv_sec * NS_PER_S_U64 + (uint64_t)t.tv_nsec - timer_now_ns();
	for (unsigned i = 0; cap != NULL && i < ws->n; i++)
		cap[i]->epoch_ns = epoch;
	worker_call_all(ws, change_on_worker, &ch);
}
