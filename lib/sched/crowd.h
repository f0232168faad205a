/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lib/sched: how a thread that waits shares its core with threads that compute. The worker
 * (lib/worker/idle.c) and the provider (drivers/verbs/idle.c) use it. It includes nothing of uroce,
 * and each struct crowd belongs to one thread.
 *
 * A thread that waits and yields gets its core back in microseconds as long as the other threads of
 * that core wait, too. Beside a thread that computes, a yield lasts until the scheduler's next tick
 * (4 ms at HZ=250) at least. It also forfeits the caller's own slice (Linux 6.18; 6.12.63), so
 * beside ten such threads it lasts for several ticks: 20 to 40 ms. A thread that sleeps keeps its
 * claim to the core, and with short slices (slice.h) it takes the core as soon as it wakes.
 *
 * CROWD_ROW long yields without a short one between them mark the core as crowded for a while. Then
 * the caller sleeps where it would have yielded, and has short slices. A single long yield means
 * nothing: the caller's whole scheduling group (a session, a cgroup) had to wait, and its threads
 * hand their core over quickly when it is their turn again.
 *
 * To yield once more tells whether the core is crowded still. It costs milliseconds, so each while
 * is twice as long as the last, until a yield is short. Slices are only short while the core is
 * crowded: of two threads that yield to each other, the one with shorter slices is preferred.
 */
#ifndef SCHED_CROWD_H
#define SCHED_CROWD_H

#include <stdbool.h>
#include <stdint.h>

#define CROWD_YIELD_NS   1000000ull    /* a yield that takes as long is a long one */
#define CROWD_ROW        3             /* so many of them make a crowd .. */
#define CROWD_BETWEEN_NS 20000000ull   /* .. without a short one, or so long, between two */
#define CROWD_FIRST_NS   40000000ull   /* the first while */
#define CROWD_MAX_NS     1280000000ull /* the longest */
#define CROWD_AGAIN_NS   200000000ull  /* a crowd within this after a while: the next one */

/* All zeros: not crowded. */
struct crowd {
	uint64_t until_ns; /* the core is crowded until then */
	uint64_t span_ns;  /* how long that while is, or was */
	uint64_t long_ns;  /* when the last long yield ended */
	uint64_t slice_ns; /* slices are short, and were so long before; 0: they are what they were
			    */
	uint32_t row;      /* long yields in a row */
};

/* Is the core crowded at now_ns? */
static inline bool
crowd_is(const struct crowd *c, uint64_t now_ns)
{
	return now_ns < c->until_ns;
}

/* The calling thread has yielded from from_ns to to_ns. It had no crowd when it began to. */
void crowd_yielded(struct crowd *c, uint64_t from_ns, uint64_t to_ns);

#endif
