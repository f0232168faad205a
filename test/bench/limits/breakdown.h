/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Merges the stamps of both ends of a ping-pong (worker/steps.h) into the times of its steps. Pure;
 * one thread.
 *
 * A round trip has two halves: end 0 sends and end 1 receives, then the other way. In each half
 * every step begins where the one before ends, so the steps of a round trip add up to its time. A
 * call that returns after the next step was already seen elsewhere (ibv_post_send, the port's send
 * call) counts up to there only.
 */
#ifndef UROCE_BENCH_BREAKDOWN_H
#define UROCE_BENCH_BREAKDOWN_H

#include <stddef.h>
#include <stdint.h>
#include "app/uroce-bench/client.h"
#include "worker/steps.h"

/*
 * Intervals of a half: number i is from the stamp of kind i to the next one. The last one, the
 * client's answer, is in the first half only: end 0's begins the next round trip.
 */
#define BREAKDOWN_STEPS STAMP_KINDS
struct breakdown_name {
	const char *key, *text;
};
extern const struct breakdown_name breakdown_name[BREAKDOWN_STEPS];

/* What an end did during a round trip, besides its steps. */
enum breakdown_wait {
	BREAKDOWN_YIELDED, /* its worker's yield let another thread run */
	BREAKDOWN_SLEPT,   /* its worker slept */
	BREAKDOWN_WOKE,    /* its worker woke a client by a system call */
	BREAKDOWN_WAITS,
};
extern const struct breakdown_name breakdown_wait_name[BREAKDOWN_WAITS];

struct breakdown {
	uint64_t incomplete; /* round trips without all stamps, which are left out */
	struct client_hist total;
	struct client_hist step[2][BREAKDOWN_STEPS];  /* by the half */
	double total_ns, step_ns[2][BREAKDOWN_STEPS]; /* their sums */
	/* by the end: round trips with such a wait, and ns of these waits in all round trips */
	uint64_t waited[2][BREAKDOWN_WAITS], waited_ns[2][BREAKDOWN_WAITS];
	uint64_t beside[2]; /* .. in which client and worker were on one CPU at the completion */
	uint64_t cpu[2][2]; /* by the end: bits of the CPUs below 64 of its worker and its client */
};

/* Stamps of one end, in the order of time: of its client, and of its worker. */
struct breakdown_end {
	const struct stamp *client, *worker;
	uint32_t nclient, nworker;
};

/*
 * Adds trips round trips. Messages are numbered from 0 at both ends, in either direction; the round
 * trip is from end 0's STAMP_POST to its STAMP_POLLED. Exits with 1 without memory.
 */
void breakdown_add(struct breakdown *b, const struct breakdown_end end[2], uint32_t trips,
		   double ns_per_cycle);

#endif
