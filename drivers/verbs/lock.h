/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lock of a queue: held for the few hundred instructions of a post or a poll. A spinlock,
 * because an uncontended one costs a single exchange; it yields under contention, because on
 * shared cores the holder may not be running.
 *
 * A lock records which process took it. In the child of a fork, a lock that another thread of the
 * parent held counts as free: that thread does not exist there, and the queue is the parent's.
 */
#ifndef UROCE_VERBS_LOCK_H
#define UROCE_VERBS_LOCK_H

#include <sched.h>
#include <stdint.h>
#include "sched/waiting.h"

struct prov_lock {
	uint32_t held; /* prov_lock_process of the holder; 0: free */
};

/* 1; a child of a fork adds one (context.c). */
extern uint32_t prov_lock_process __attribute__((visibility("hidden")));

#define PROV_LOCK_SPINS 64

/* Acquires; not recursive. */
static inline void
prov_lock(struct prov_lock *l)
{
	const uint32_t me = prov_lock_process;
	unsigned int spins = 0;

	while (__atomic_exchange_n(&l->held, me, __ATOMIC_ACQUIRE) == me) {
		while (__atomic_load_n(&l->held, __ATOMIC_RELAXED)) {
			if (++spins % PROV_LOCK_SPINS == 0)
				sched_yield();
			else
				sched_relax();
		}
	}
}

static inline void
prov_unlock(struct prov_lock *l)
{
	__atomic_store_n(&l->held, 0, __ATOMIC_RELEASE);
}

#endif
