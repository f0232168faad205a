/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Work that waits for workers without blocking the control thread. An object has been removed from
 * the tables that workers read; a function on the control thread continues when no worker uses it
 * any more. The program's loop calls defer_poll whenever a worker has an event (worker_events.c).
 * Control thread only.
 *
 * Not rte_rcu_qsbr_dq, because an element here also waits for jobs of a worker, can be removed
 * again and is always queued successfully. Unlike that queue, an rte_ring of fixed size, it holds
 * any number of elements and does not need EAL.
 */
#ifndef CONTROL_DEFER_H
#define CONTROL_DEFER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include "worker/worker.h"

struct daemon;

/* Part of the object that waits. The owner fills in the first members before each defer_begin. */
struct defer {
	void (*then)(struct defer *df); /* may free the object that contains df, and begin others */
	struct worker_job *job;         /* posted jobs that must be done, too */
	uint32_t njobs;                 /* number of jobs; 0: a grace period is enough */
	bool waiting;
	uint64_t token;
	TAILQ_ENTRY(defer) link;
};
TAILQ_HEAD(defer_list, defer);

/*
 * Begins a grace period. The object was removed from the tables and the jobs were posted before.
 * Returns true if it is already over; the caller continues. Returns false if then is called later,
 * once.
 */
bool defer_begin(struct daemon *d, struct defer *df);
/*
 * Cancels the call of then. Jobs of df may still be outstanding: their memory must stay until jobs
 * that were posted later to the same workers are done. Harmless if df does not wait.
 */
void defer_cancel(struct daemon *d, struct defer *df);
/* Calls then of all elements that need not wait any more. */
void defer_poll(struct daemon *d);
/* Waits for workers and calls then until nothing waits. Called when the daemon ends. Blocks. */
void defer_drain(struct daemon *d);

/*
 * Frees the n blocks in p with free(3) once no worker uses them. Blocks on workers if there is no
 * memory to queue them.
 */
void defer_free(struct daemon *d, void *const *p, uint32_t n);

#endif
