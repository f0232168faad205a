/* SPDX-License-Identifier: BSD-3-Clause */
#include "idle.h"

#include <sched.h>
#include <time.h>

__thread struct uv_idle uv_idle;

static uint64_t
now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void
yield(uint64_t now)
{
	uint64_t after;

	if (uv_idle.alone_until_ns > now)
		return;
	sched_yield();
	after = now_ns();
	uv_idle.alone_until_ns = after - now < UV_ALONE_YIELD_NS ? after + UV_ALONE_NS : 0;
}

void
uv_idle_pause(void)
{
	static const struct timespec shortest = {.tv_nsec = 1};
	uint64_t now = now_ns();

	if (uv_idle.since_ns == 0)
		uv_idle.since_ns = now;
	if (now - uv_idle.since_ns < (uv_idle.waking ? UV_YIELD_WAKING_NS : UV_YIELD_NS))
		yield(now);
	else
		nanosleep(&shortest, NULL);
}
