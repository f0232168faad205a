/* SPDX-License-Identifier: BSD-3-Clause */
#include "idle.h"

#include <sched.h>
#include <time.h>

__thread struct uv_idle uv_idle;

void
uv_idle_pause(void)
{
	static const struct timespec shortest = {.tv_nsec = 1};
	struct timespec ts;
	uint64_t now;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	now = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
	if (uv_idle.since_ns == 0)
		uv_idle.since_ns = now;
	if (now - uv_idle.since_ns < (uv_idle.waking ? UV_YIELD_WAKING_NS : UV_YIELD_NS))
		sched_yield();
	else
		nanosleep(&shortest, NULL);
}
