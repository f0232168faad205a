/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counts the processor's instructions of a call, by single steps, to show that work is bounded: no
 * timing, so the result does not depend on the load of the machine. A step takes microseconds. Only
 * counts with the same arguments in the same build compare.
 */
#ifndef TEST_KIT_STEPS_H
#define TEST_KIT_STEPS_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

#if defined(__x86_64__)
#define STEPS_COUNTED 1
#define STEPS_TF      0x100ll /* trap flag of RFLAGS */

static volatile uint64_t steps_n;
static volatile bool steps_on;

static void
steps_trap(int sig, siginfo_t *info, void *context)
{
	greg_t *flags = &((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL];

	(void)sig;
	(void)info;
	steps_n += steps_on;
	*flags = steps_on ? *flags | STEPS_TF : *flags & ~STEPS_TF;
}

/* Returns the number of instructions of fn(arg), and a constant. */
static inline uint64_t
steps_of(void (*fn)(void *arg), void *arg)
{
	struct sigaction act = {.sa_sigaction = steps_trap, .sa_flags = SA_SIGINFO}, was;

	sigemptyset(&act.sa_mask);
	sigaction(SIGTRAP, &act, &was);
	steps_n = 0;
	steps_on = true;
	raise(SIGTRAP);
	fn(arg);
	steps_on = false;
	sigaction(SIGTRAP, &was, NULL);
	return steps_n;
}
#else
#define STEPS_COUNTED 0

static inline uint64_t
steps_of(void (*fn)(void *arg), void *arg)
{
	fn(arg);
	return 0;
}
#endif

#endif
