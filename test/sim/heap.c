/* SPDX-License-Identifier: BSD-3-Clause */
#include "heap.h"

static bool
heap_before(const struct sim_event *a, const struct sim_event *b)
{
	return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

void
sim_heap_clear(struct sim_heap *h)
{
	h->n = 0;
	h->order = 0;
}

bool
sim_heap_push(struct sim_heap *h, uint64_t at_ns, uint32_t kind, uint32_t arg)
{
	struct sim_event ev = {.at_ns = at_ns, .order = h->order++, .kind = kind, .arg = arg};
	uint32_t i = h->n;

	if (i == SIM_MAX_EVENTS)
		return false;
	h->n++;
	for (; i > 0 && heap_before(&ev, &h->ev[(i - 1) / 2]); i = (i - 1) / 2)
		h->ev[i] = h->ev[(i - 1) / 2];
	h->ev[i] = ev;
	return true;
}

struct sim_event
sim_heap_pop(struct sim_heap *h)
{
	struct sim_event top = h->ev[0], last = h->ev[--h->n];
	uint32_t i = 0, child;

	while ((child = 2 * i + 1) < h->n) {
		if (child + 1 < h->n && heap_before(&h->ev[child + 1], &h->ev[child]))
			child++;
		if (!heap_before(&h->ev[child], &last))
			break;
		h->ev[i] = h->ev[child];
		i = child;
	}
	h->ev[i] = last;
	return top;
}
