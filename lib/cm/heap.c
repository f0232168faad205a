/* SPDX-License-Identifier: BSD-3-Clause */
#include "cm/heap.h"

static void
put(struct cm_heap *h, uint32_t at, struct cm_timer *t)
{
	h->timer[at] = t;
	t->at = at;
}

/* Puts t at `at` or nearer to the root. */
static void
up(struct cm_heap *h, uint32_t at, struct cm_timer *t)
{
	while (at > 0 && t->deadline_ns < h->timer[(at - 1) / 2]->deadline_ns) {
		put(h, at, h->timer[(at - 1) / 2]);
		at = (at - 1) / 2;
	}
	put(h, at, t);
}

/* Puts t at `at` or farther from the root. */
static void
down(struct cm_heap *h, uint32_t at, struct cm_timer *t)
{
	for (;;) {
		uint32_t child = 2 * at + 1;

		if (child + 1 < h->len &&
		    h->timer[child + 1]->deadline_ns < h->timer[child]->deadline_ns)
			child++;
		if (child >= h->len || h->timer[child]->deadline_ns >= t->deadline_ns)
			break;
		put(h, at, h->timer[child]);
		at = child;
	}
	put(h, at, t);
}

static void
take_out(struct cm_heap *h, uint32_t at)
{
	struct cm_timer *last = h->timer[--h->len];

	h->timer[at]->at = CM_HEAP_NONE;
	if (at == h->len)
		return;
	if (at > 0 && last->deadline_ns < h->timer[(at - 1) / 2]->deadline_ns)
		up(h, at, last);
	else
		down(h, at, last);
}

void
cm_heap_set(struct cm_heap *h, struct cm_timer *t, uint64_t deadline_ns)
{
	if (t->at != CM_HEAP_NONE)
		take_out(h, t->at);
	t->deadline_ns = deadline_ns;
	if (deadline_ns != CM_NEVER)
		up(h, h->len++, t);
}
