/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lib/sched: how a waiting thread shares its core with threads that compute. Used by the worker
 * (lib/worker/idle.c) and the provider (drivers/verbs/idle.c). Includes nothing of uroce. Each
 * struct belongs to one thread, or to a lock's holder.
 */
#ifndef SCHED_WAITING_H
#define SCHED_WAITING_H

#include <stdbool.h>
#include <stdint.h>

/*
 * A slice is how long the scheduler lets a thread run before it considers another. The thread's
 * share of the processor does not depend on it. A thread that wakes preempts one with a longer
 * slice at once, unless it has used up its share (Linux 6.12 and later; no privilege needed).
 */
#define SCHED_SLICE_SHORT_NS 100000ull /* the kernel's minimum */

/*
 * Sets the calling thread's slice. Returns the old slice, or 0 if nothing changed: it was slice_ns
 * already, the thread's policy is not SCHED_OTHER, or the kernel does not support slices or
 * refuses.
 */
uint64_t sched_slice_set(uint64_t slice_ns);

/*
 * Lets the calling thread, which must run only for microseconds at a time, preempt any thread that
 * is not real-time as soon as it wakes (SCHED_FIFO, lowest priority). Returns false if not
 * permitted (needs CAP_SYS_NICE or RLIMIT_RTPRIO); the thread then has short slices.
 */
bool sched_urgent(void);

/*
 * A waiting thread that yields gets its core back within microseconds as long as the core's other
 * threads wait, too. Next to a computing thread, a yield lasts at least until the scheduler's next
 * tick (4 ms at HZ=250). It also forfeits the caller's own slice (Linux 6.18; 6.12.63), so next to
 * ten such threads it lasts several ticks: 20 to 40 ms. A sleeping thread keeps its claim to the
 * core; with short slices it gets the core as soon as it wakes.
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

/*
 * Something that may be worth its cost or not: a wait for what usually comes soon. After each try
 * in vain the next ones are left out, 1, 3, 7 and so on; a try that was worth it resets this.
 */
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

#define SCHED_SPIN_NS    50000ull /* a request and its reply, each with a wake-up, take longer */
#define SCHED_SPIN_SKIPS 255u     /* waits without a spin after spins in vain */

/*
 * Waits for up to SCHED_SPIN_NS until fd is readable, without sleeping: a thread that writes to fd
 * then need not wake this one, which costs about 10 us if it is on another CPU of a virtual
 * machine. Yields to the other threads of this CPU, one of which may be the writer. If spins are in
 * vain, the next calls return at once (struct backoff); the caller blocks afterwards in any case.
 * Errors of poll count as readable: the caller's read reports them. b belongs to fd's reader.
 */
void sched_spin_readable(struct backoff *b, int fd);

/*
 * The processor's hint that a thread polls memory. Any thread, in each round of a loop that polls
 * memory: leaves the core's shared units to its sibling for some cycles. Orders nothing.
 */
static inline void
sched_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

#endif
