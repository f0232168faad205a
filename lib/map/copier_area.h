/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by a copier's two sides: copier.c in the daemon and copier_serve.c in the broker. */
#ifndef UROCE_MAP_COPIER_AREA_H
#define UROCE_MAP_COPIER_AREA_H

#include <time.h>
#include "map/copier.h"
#include "map/page.h"

/* CLOCK_MONOTONIC in ns: begun_ns and ended_ns are compared with the worker's time. Any thread. */
static inline uint64_t
copier_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/*
 *   FREE      -> ASKED      worker: submits a job
 *   ASKED     -> BEGUN      thread
 *   BEGUN     -> DONE       thread: the result is ready
 *   DONE      -> FREE       worker: has taken the result
 *
 *   ASKED     -> FREE       worker: withdraws the job
 *   BEGUN     -> ABANDONED  worker: stops waiting
 *   ABANDONED -> OVER       thread: the result is ready, but the worker has given up
 *   OVER      -> FREE       worker: discards the result, or its owner has taken it
 */
enum copy_state {
	COPY_FREE = 0,
	COPY_ASKED,
	COPY_BEGUN,
	COPY_DONE,
	COPY_ABANDONED,
	COPY_OVER,
};

enum copy_op {
	COPY_READ,
	COPY_WRITE,
	COPY_ATOMIC,
};

struct copy_slot {
	uint32_t state; /* enum copy_state; atomic */
	uint32_t op;    /* enum copy_op */
	uint32_t waits; /* the worker sleeps on state */
	uint32_t cpu;   /* CPU of the worker */
	uint32_t n;     /* parts; 1 if op is COPY_ATOMIC */
	uint32_t len;   /* of all parts */
	int32_t result; /* 0 or -errno */
	uint32_t spare;
	struct mem_part part[MEM_MAX_PARTS];
	struct mem_atomic atomic;
	uint64_t orig;
	/* CLOCK_MONOTONIC when the thread began and ended the job; 0: not yet. Atomic. */
	uint64_t begun_ns, ended_ns;
} __attribute__((aligned(64)));

struct copier_area {
	uint32_t bell;   /* futex: workers change it to wake the thread */
	uint32_t asleep; /* the thread sleeps or is about to */
	uint32_t urgent; /* the thread gets a core as soon as it wakes (sched/waiting.h) */
	uint32_t bound;  /* 1 + the CPU that the thread follows its worker to; 0: none. Atomic */
	uint32_t closed; /* by the daemon */
	uint32_t refused;
	uint64_t begun; /* jobs begun by the thread; atomic */
	struct copy_slot slot[COPIER_SLOTS];
	uint8_t bytes[COPIER_SLOTS][COPIER_BYTES] __attribute__((aligned(PAGE_LEAST)));
};

#endif
