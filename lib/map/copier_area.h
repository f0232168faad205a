/* SPDX-License-Identifier: BSD-3-Clause */
/* What a copier's two sides share: copier.c in the daemon, copier_serve.c in the broker. */
#ifndef UROCE_MAP_COPIER_AREA_H
#define UROCE_MAP_COPIER_AREA_H

#include "map/copier.h"

/*
 *   FREE  -> ASKED  worker: a job
 *   ASKED -> BEGUN  thread
 *   BEGUN -> DONE   thread: the result is there
 *   DONE  -> FREE   worker: has taken it
 *
 *   ASKED -> FREE   worker: taken back
 *   BEGUN -> LEFT   worker: does not wait any longer
 *   LEFT  -> OVER   thread: the result is there, and nobody waits for it
 *   OVER  -> FREE   worker: forgotten, or taken by whoever asked again
 */
enum copy_state {
	COPY_FREE = 0,
	COPY_ASKED,
	COPY_BEGUN,
	COPY_DONE,
	COPY_LEFT,
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
	uint64_t va;
	uint32_t len;
	int32_t result; /* 0 or -errno */
	struct mem_atomic atomic;
	uint64_t orig;
} __attribute__((aligned(64)));

struct copier_area {
	uint32_t bell;   /* futex: workers change it when the thread is asleep */
	uint32_t asleep; /* the thread is, or is about to be */
	uint32_t urgent; /* the thread takes a core as soon as it wakes (sched/slice.h) */
	uint32_t closed; /* by the daemon */
	uint32_t refused;
	uint64_t begun; /* jobs, by the thread; atomic */
	struct copy_slot slot[COPIER_SLOTS];
	uint8_t bytes[COPIER_SLOTS][COPIER_BYTES] __attribute__((aligned(4096)));
};

#endif
