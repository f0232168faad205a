/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Something that may be worth its cost or not: a wait for what usually comes soon. After each try
 * in vain the next ones are left out, 1, 3, 7 and so on; a try that was worth it resets this.
 * Includes nothing of uroce. Not atomic: each struct belongs to one thread, or to a lock's holder.
 */
#ifndef SCHED_BACKOFF_H
#define SCHED_BACKOFF_H

#include <stdbool.h>
#include <stdint.h>

/* All zero: the next time is a try. */
struct backoff {
	uint32_t skip; /* times still to be left out */
	uint32_t back; /* value of skip after the last try */
};

/* Returns true if this time is left out, and counts it. */
static inline bool
backoff_skips(struct backoff *b)
{
	if (b->skip == 0)
		return false;
	b->skip--;
	return true;
}

/* A try has ended. most: the highest number of times left out, > 0. */
static inline void
backoff_tried(struct backoff *b, bool worth_it, uint32_t most)
{
	b->back = worth_it ? 0 : b->back < most / 2 ? 2 * b->back + 1 : most;
	b->skip = b->back;
}

#endif
