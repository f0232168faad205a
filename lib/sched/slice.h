/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SCHED_SLICE_H
#define SCHED_SLICE_H

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

#endif
