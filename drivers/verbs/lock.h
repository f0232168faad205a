/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lock of a queue: held for the few hundred instructions of a post or a poll. A spinlock,
 * because an uncontended one costs a single exchange; it yields under contention, because on
 * shared cores the holder may not be running.
 */
#ifndef UROCE_VERBS_LOCK_H
#define UROCE_VERBS_LOCK_H

#include <sched.h>
#include <stdint.h>

struct uv_lock {
	uint32_t held;
};

#define UV_LOCK_SPINS 64

static inline void
uv_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* Acquires; not recursive. */
static inline void
uv_lock(struct uv_lock *l)
{
	unsigned int spins = 0;

	while (__atomic_exchange_n(&l->held, 1, __ATOMIC_ACQUIRE)) {
		while (__atomic_load_n(&l->held, __ATOMIC_RELAXED)) {
			if (++spins % UV_LOCK_SPINS == 0)
				sched_yield();
			else
				uv_relax();
		}
	}
}

static inline void
uv_unlock(struct uv_lock *l)
{
	__atomic_store_n(&l->held, 0, __ATOMIC_RELEASE);
}

#endif
