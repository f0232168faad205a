/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that was adopted for a small region stays adopted for a moment after the last
 * registration: a program that registers a buffer for each message finds it adopted the next time.
 * If it is not registered again, a thread of the provider returns it to private memory.
 *
 * Programs must not notice this. They would notice it by MADV_DONTNEED and MADV_FREE, which act on
 * private memory only: allocators use them on freed memory. The memory is therefore registered with
 * a userfaultfd that makes either call wait, and mremap, which would take the memory elsewhere. The
 * thread returns all lingering memory, where it is now, and only then lets the call continue.
 *
 * The thread takes mr_adopt.c's lock and never allocates or frees: the thread that it keeps waiting
 * in madvise may hold the allocator's lock.
 */
#ifndef VERBS_MR_LINGER_H
#define VERBS_MR_LINGER_H

#include <stdbool.h>
#include <stdint.h>
#include "mr_ref.h"

/* Longer parts do not linger. */
#define MR_LINGER_MAX (1ull << 20)

/* Acquire and release mr_adopt.c's lock. */
struct mr_linger_ops {
	void (*lock)(void);
	void (*unlock)(void);
};

/* Not locked. Start the thread if it does not run; without it nothing lingers. ops stay valid. */
void mr_linger_start(const struct mr_linger_ops *ops);

/*
 * The functions below are called locked.
 *
 * Prepare adopted memory [addr, addr + len), in base pages, for lingering. False: it cannot linger.
 */
bool mr_linger_arm(uint64_t addr, uint64_t len);

/*
 * Called when the program releases pin, all of whose memory is armed. Returns true if it lingers;
 * this file then owns it. Returns false if the caller must release it now, because the same memory
 * lingers already or nothing can linger.
 */
bool mr_linger_add(struct mr_pin *pin);

/* Return all lingering memory. */
void mr_linger_end_all(void);

/*
 * Return the memory that was adopted at addresses [start, end). The program has mapped other memory
 * there since; only the offsets in the file are still in use.
 */
void mr_linger_end_range(uint64_t start, uint64_t end);

/*
 * Returns the pins whose memory was returned, linked by next_put_off. The caller frees them,
 * unlocked.
 */
struct mr_pin *mr_linger_dead(void);

/* In the child of a fork. */
void mr_linger_forget(void);

#endif
