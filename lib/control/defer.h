/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Work that has to wait for workers, which the control thread never does: something has left the
 * tables that workers read, and a function of the control thread goes on when no worker uses it any
 * more. The program's loop comes back to defer_poll whenever a worker has something to report
 * (worker_events.c). Control thread only.
 *
 * A list of our own and not rte_rcu_qsbr_dq: an element here also waits for jobs of a worker, can
 * be taken out again, has no fixed number, cannot fail to be queued, and needs no EAL (that queue
 * is an rte_ring of fixed size).
 */
#ifndef CONTROL_DEFER_H
#define CONTROL_DEFER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include "worker/worker.h"

struct daemon;

/* Lives in the object that waits, whose owner fills in the first members before each defer_begin.
 */
struct defer {
	void (*then)(struct defer *df); /* may free what df lives in, and begin others */
	struct worker_job *job;         /* jobs that were posted and have to be done, too .. */
	uint32_t njobs;                 /* .. so many; 0: a grace period is enough */
	bool waiting;
	uint64_t token;
	TAILQ_ENTRY(defer) link;
};
TAILQ_HEAD(defer_list, defer);

/*
 * Begin a grace period, after what it is for was removed from the tables and the jobs were posted.
 * True: it is over already, and the caller goes on by itself. False: then is called later, once.
 */
bool defer_begin(struct daemon *d, struct defer *df);
/*
 * then is not called any more. Jobs of df may still be outstanding: their memory stays until jobs
 * that were posted to the same workers later are done. Harmless if df does not wait.
 */
void defer_cancel(struct daemon *d, struct defer *df);
/* Call then of all that wait no longer. */
void defer_poll(struct daemon *d);
/* The daemon ends: wait for workers, calling then as they get there, until nothing waits. Blocks.
 */
void defer_drain(struct daemon *d);

/*
 * free(3) the n blocks in p once no worker uses them. Blocks on workers if there is no memory to
 * remember them by.
 */
void defer_free(struct daemon *d, void *const *p, uint32_t n);

#endif
