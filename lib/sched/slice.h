/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SCHED_SLICE_H
#define SCHED_SLICE_H

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

#endif
