/* SPDX-License-Identifier: BSD-3-Clause */
#include "idle.h"

#include <sched.h>
#include <time.h>

__thread struct uv_idle uv_idle;

uint64_t
uv_idle_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

bool
uv_idle_sleeps(uint64_t now_ns)
{
	uint64_t first = uv_idle.waking ? UV_YIELD_WAKING_NS : UV_YIELD_NS;

	if (uv_idle.since_ns == 0)
		uv_idle.since_ns = now_ns;
	if (crowd_is(&uv_idle.crowd, now_ns))
		return true;
	return now_ns - uv_idle.since_ns >= (uv_idle.sleep_ns != 0 ? uv_idle.sleep_ns : first);
}

void
uv_idle_yield(uint64_t now_ns)
{
	uint64_t after;

	if (uv_idle.alone_until_ns > now_ns)
		return;
	sched_yield();
	after = uv_idle_now_ns();
	crowd_yielded(&uv_idle.crowd, now_ns, after);
	if (after - now_ns >= CROWD_YIELD_NS) {
		uv_idle.since_ns = 0; /* no time in which it polled */
		uv_idle.sleep_ns = 0;
	}
	uv_idle.alone_until_ns = after - now_ns < UV_ALONE_YIELD_NS ? after + UV_ALONE_NS : 0;
}

void
uv_idle_sleep(bool outstanding)
{
	static const struct timespec shortest = {.tv_nsec = 1};
	uint64_t waited;

	nanosleep(&shortest, NULL);
	waited = uv_idle_now_ns() - uv_idle.since_ns;
	uv_idle.sleep_ns = outstanding ? waited + UV_YIELD_NS : 2 * waited;
}
