/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A simulated clock and scheduler for a unit test; one file of the test includes it. Time passes
 * only in a yield, in a sleep or when the test moves it.
 */
#ifndef KIT_FAKE_CLOCK_H
#define KIT_FAKE_CLOCK_H

#include <sched.h>
#include <stdint.h>
#include <time.h>
#include "kit/fake_futex.h"

#define SLACK_NS 5000 /* that a sleep lasts longer than its limit */

static struct {
	uint64_t now_ns, yield_ns; /* yield_ns: duration of a sched_yield */
	unsigned int yields, sleeps;
} os;

int
sched_yield(void)
{
	os.yields++;
	os.now_ns += os.yield_ns;
	return 0;
}

int
clock_gettime(clockid_t id, struct timespec *ts)
{
	ts->tv_sec = (time_t)(os.now_ns / 1000000000);
	ts->tv_nsec = (long)(os.now_ns % 1000000000);
	return 0;
}

static void
clock_sleep(uint64_t limit_ns)
{
	os.sleeps++;
	os.now_ns += limit_ns + SLACK_NS;
}

static __attribute__((constructor)) void
clock_install(void)
{
	futex.sleep = clock_sleep;
}

#endif
