/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SCHED_SLICE_H
#define SCHED_SLICE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * A slice is how long the scheduler lets a thread run before it looks for another; the thread's
 * share of the processor does not depend on it. A thread that wakes takes the core at once from one
 * with a longer slice, unless it has used up its share (Linux 6.12 and later; no privilege needed).
 */
#define SCHED_SLICE_SHORT_NS 100000ull /* the kernel's minimum */

/*
 * Sets the calling thread's slice. Returns what it was, or 0 if nothing has changed: it was
 * slice_ns already, the thread's policy is not SCHED_OTHER, the kernel knows no slices, or it
 * refuses.
 */
uint64_t sched_slice_set(uint64_t slice_ns);

/*
 * The calling thread, which runs for microseconds at a time only, takes a core from any thread that
 * is not real-time as soon as it wakes (SCHED_FIFO, lowest priority). False: not permitted (needs
 * CAP_SYS_NICE or RLIMIT_RTPRIO); it has short slices then.
 */
bool sched_urgent(void);

#endif
