/* SPDX-License-Identifier: BSD-3-Clause */
#include <rte_common.h>
#include <rte_mbuf.h>
#include "line.h"

#define AT(l, i) (&(l)->frame[(i) % LINE_FRAMES])

static void
begin(struct line *l, uint64_t from_ns)
{
	uint64_t bits;

	if (l->busy || l->paused || l->cur == l->head)
		return;
	bits = (uint64_t)AT(l, l->cur)->m->pkt_len * 8 * 1000000000 + l->rest;
	l->busy = true;
	l->done_ns = from_ns + bits / l->bps;
	l->rest = bits % l->bps;
}

bool
line_push(struct line *l, uint64_t now_ns, struct rte_mbuf *m, uint32_t from)
{
	if (l->head - l->tail == LINE_FRAMES)
		return false;
	*AT(l, l->head++) = (struct line_frame){.m = m, .from = from};
	l->waiting_bytes += m->pkt_len;
	begin(l, now_ns);
	return true;
}

bool
line_sent(struct line *l, uint64_t now_ns, uint32_t *from, uint32_t *bytes)
{
	struct line_frame *f = AT(l, l->cur);

	if (!l->busy || l->done_ns > now_ns)
		return false;
	f->at_ns = l->done_ns + l->delay_ns;
	*from = f->from;
	*bytes = f->m->pkt_len;
	l->waiting_bytes -= f->m->pkt_len;
	l->cur++;
	l->busy = false;
	begin(l, l->done_ns);
	return true;
}

struct rte_mbuf *
line_arrived(struct line *l, uint64_t now_ns)
{
	if (l->tail == l->cur || AT(l, l->tail)->at_ns > now_ns)
		return NULL;
	return AT(l, l->tail++)->m;
}

void
line_pause(struct line *l, uint64_t now_ns, bool paused)
{
	l->paused = paused;
	begin(l, now_ns);
}

uint64_t
line_next(const struct line *l)
{
	uint64_t arrives = l->tail != l->cur ? AT(l, l->tail)->at_ns : UINT64_MAX;

	return l->busy ? RTE_MIN(arrives, l->done_ns) : arrives;
}

void
line_drain(struct line *l)
{
	while (l->tail != l->head)
		rte_pktmbuf_free(AT(l, l->tail++)->m);
	l->cur = l->head;
	l->waiting_bytes = 0;
	l->busy = false;
}
