/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Work that continues later on the control thread, which does not wait for it: when no worker uses
 * an object any more (defer_begin), or in a later turn of the loop because the work is long
 * (defer_turn). The object has been removed from the tables that workers read. The program's loop
 * calls defer_poll whenever a worker has an event (worker_events.c). Control thread only.
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
	bool waiting;                   /* for workers or for its turn: then has not been called */
	bool turn;                      /* for its turn */
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
 * Calls then in a later turn of the loop, once all other descriptors that are ready now have had
 * theirs. Elements take turns, one per round of the loop. Work that is long for one client is done
 * in slices this way, so that the requests of others wait for one slice at most.
 */
void defer_turn(struct daemon *d, struct defer *df);
/* Open and close the descriptor that defer_turn uses. Return 0 or -errno. The loop is open. */
int defer_open(struct daemon *d);
void defer_close(struct daemon *d);
/*
 * Cancels the call of then. Jobs of df may still be outstanding: their memory must stay until jobs
 * that were posted later to the same workers are done. Harmless if df does not wait.
 */
void defer_cancel(struct daemon *d, struct defer *df);
/* Calls then of all elements that need not wait any more. */
void defer_poll(struct daemon *d);
/* Waits for workers, and calls then of all elements until none waits. Called when the daemon ends.
 * Blocks. */
void defer_drain(struct daemon *d);

/*
 * Frees the n blocks in p with free(3) once no worker uses them. Blocks on workers if there is no
 * memory to queue them.
 */
void defer_free(struct daemon *d, void *const *p, uint32_t n);

#endif
