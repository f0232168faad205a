/* SPDX-License-Identifier: BSD-3-Clause */
/* Timers of ids: a binary heap of slots. */
#include "cm/parts.h"

static bool
heap_before(const struct cm *cm, uint32_t a, uint32_t b)
{
	return cm->ids[a].deadline_ns < cm->ids[b].deadline_ns;
}

static void
heap_put(struct cm *cm, uint32_t at, uint32_t slot)
{
	cm->heap[at] = slot;
	cm->ids[slot].heap_at = at;
}

/* Puts slot at `at` or nearer to the root. */
static void
heap_up(struct cm *cm, uint32_t at, uint32_t slot)
{
	while (at > 0 && heap_before(cm, slot, cm->heap[(at - 1) / 2])) {
		heap_put(cm, at, cm->heap[(at - 1) / 2]);
		at = (at - 1) / 2;
	}
	heap_put(cm, at, slot);
}

/* Puts slot at `at` or farther from the root. */
static void
heap_down(struct cm *cm, uint32_t at, uint32_t slot)
{
	for (;;) {
		uint32_t child = 2 * at + 1;

		if (child + 1 < cm->heap_len &&
		    heap_before(cm, cm->heap[child + 1], cm->heap[child]))
			child++;
		if (child >= cm->heap_len || !heap_before(cm, cm->heap[child], slot))
			break;
		heap_put(cm, at, cm->heap[child]);
		at = child;
	}
	heap_put(cm, at, slot);
}

static void
heap_remove(struct cm *cm, uint32_t at)
{
	uint32_t last = cm->heap[--cm->heap_len];

	cm->ids[cm->heap[at]].heap_at = CM_NONE;
	if (at == cm->heap_len)
		return;
	if (at > 0 && heap_before(cm, last, cm->heap[(at - 1) / 2]))
		heap_up(cm, at, last);
	else
		heap_down(cm, at, last);
}

void
cm_timer_set(struct cm *cm, struct cm_id *id, uint64_t deadline_ns)
{
	if (id->heap_at != CM_NONE)
		heap_remove(cm, id->heap_at);
	id->deadline_ns = deadline_ns;
	if (deadline_ns != CM_NEVER)
		heap_up(cm, cm->heap_len++, cm_slot(cm, id));
}

uint64_t
cm_hurried_ns(const struct cm *cm, struct cm_id *id, uint64_t now_ns)
{
	id->retries_left = CM_DEFAULT_RETRIES;
	if (id->response_ns > cm->hurry_ns)
		id->response_ns = cm->hurry_ns;
	return now_ns + id->response_ns;
}

void
cm_hurry(struct cm *cm, uint64_t again_ns, uint64_t now_ns)
{
	cm->hurry_ns = again_ns;
	for (uint32_t i = 0; i < cm->nids; i++) {
		struct cm_id *id = &cm->ids[i];

		if (id->comm_id != 0 && id->state == CM_DREQ_SENT)
			cm_timer_set(cm, id, cm_hurried_ns(cm, id, now_ns));
	}
}

uint32_t
cm_disconnecting(const struct cm *cm)
{
	return cm->ndisconnecting;
}

uint64_t
cm_next_ns(const struct cm *cm)
{
	return cm->heap_len == 0 ? CM_NEVER : cm->ids[cm->heap[0]].deadline_ns;
}
