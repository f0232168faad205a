/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Deadlines: a binary heap. The timers are parts of the caller's objects. One thread. Private to
 * lib/cm.
 */
#ifndef CM_HEAP_H
#define CM_HEAP_H

#include <stddef.h>
#include <stdint.h>
#include "cm/cm.h"

#define CM_HEAP_NONE UINT32_MAX

struct cm_timer {
	uint64_t deadline_ns; /* or CM_NEVER: not in the heap */
	uint32_t at;          /* in the heap; CM_HEAP_NONE */
};
#define CM_TIMER_NONE ((struct cm_timer){.deadline_ns = CM_NEVER, .at = CM_HEAP_NONE})

struct cm_heap {
	uint32_t len;
	struct cm_timer **timer; /* room for all timers; the next deadline first */
};

/* Sets the deadline of t, which was CM_TIMER_NONE at first. CM_NEVER: none. Takes O(log n). */
void cm_heap_set(struct cm_heap *h, struct cm_timer *t, uint64_t deadline_ns);

/* Returns the timer of the next deadline; NULL: none. */
static inline struct cm_timer *
cm_heap_first(const struct cm_heap *h)
{
	return h->len == 0 ? NULL : h->timer[0];
}

/* Returns the next deadline, or CM_NEVER. */
static inline uint64_t
cm_heap_next_ns(const struct cm_heap *h)
{
	return h->len == 0 ? CM_NEVER : h->timer[0]->deadline_ns;
}

#endif
