/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/sched: the processor's hint that a thread polls memory. Includes nothing. */
#ifndef SCHED_RELAX_H
#define SCHED_RELAX_H

/*
 * Any thread, in each round of a loop that polls memory: leaves the core's shared units to its
 * sibling for some cycles. Orders nothing.
 */
static inline void
sched_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

#endif
