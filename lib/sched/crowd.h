/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lib/sched: how a waiting thread shares its core with threads that compute. Used by the worker
 * (lib/worker/idle.c) and the provider (drivers/verbs/idle.c). Includes nothing of uroce. Each
 * struct crowd belongs to one thread.
 *
 * A waiting thread that yields gets its core back within microseconds as long as the core's other
 * threads wait, too. Next to a computing thread, a yield lasts at least until the scheduler's next
 * tick (4 ms at HZ=250). It also forfeits the caller's own slice (Linux 6.18; 6.12.63), so next to
 * ten such threads it lasts several ticks: 20 to 40 ms. A sleeping thread keeps its claim to the
 * core; with short slices (slice.h) it gets the core as soon as it wakes.
 *
 * CROWD_ROW long yields without a short one in between mark the core as oversubscribed for some
 * time. During that time the caller sleeps instead of yielding, and has short slices. A single long
 * yield has no meaning: the caller's whole scheduling group (a session, a cgroup) had to wait, and
 * its threads hand over their core quickly when it is their turn again.
 *
 * A yield reaches only threads of the caller's scheduling group (session, cgroup). Beside a
 * spinning thread of another group it ends at once, and the two take turns of milliseconds. A
 * thread that finds CROWD_ROW such gaps in its own waiting, with no yield that another thread used
 * in between, is on an oversubscribed core, too.
 *
 * Only another yield shows whether the core is still oversubscribed. It costs milliseconds, so each
 * period is twice as long as the last until a yield is short. Slices are short only while the core
 * is oversubscribed, because of two threads that yield to each other the scheduler prefers the one
 * with shorter slices.
 */
#ifndef SCHED_CROWD_H
#define SCHED_CROWD_H

#include <stdbool.h>
#include <stdint.h>

#define CROWD_ALONE_NS   1000          /* a shorter yield let no other thread run */
#define CROWD_YIELD_NS   1000000ull    /* shortest long yield */
#define CROWD_ROW        3             /* this many in a row: oversubscribed .. */
#define CROWD_BETWEEN_NS 20000000ull   /* .. without a short one or this much time in between */
#define CROWD_FIRST_NS   40000000ull   /* the first period */
#define CROWD_MAX_NS     1280000000ull /* the longest period */
#define CROWD_AGAIN_NS   200000000ull /* oversubscribed again within this time: double the period */

/* All zero: not oversubscribed. */
struct crowd {
	uint64_t until_ns; /* the core counts as oversubscribed until then */
	uint64_t span_ns;  /* length of the current or last period */
	uint64_t long_ns;  /* end of the last long yield */
	uint64_t slice_ns; /* slice to restore after short slices; 0: unchanged */
	uint64_t gap_ns;   /* end of the last gap */
	uint32_t row;      /* consecutive long yields */
	uint32_t gaps;     /* CROWD_BETWEEN_NS apart at most */
};

/* Returns true if the core is oversubscribed at now_ns. */
static inline bool
crowd_is(const struct crowd *c, uint64_t now_ns)
{
	return now_ns < c->until_ns;
}

/* The calling thread yielded from from_ns to to_ns. The core was not oversubscribed at from_ns. */
void crowd_yielded(struct crowd *c, uint64_t from_ns, uint64_t to_ns);

/*
 * The calling thread waited, without giving its core up, and did not run from from_ns to to_ns. The
 * core was not oversubscribed at from_ns. Gaps shorter than CROWD_YIELD_NS have no effect.
 */
void crowd_gap(struct crowd *c, uint64_t from_ns, uint64_t to_ns);

#endif
