/* SPDX-License-Identifier: BSD-3-Clause */
#include "idle.h"

#include <sched.h>
#include <time.h>

__thread struct prov_idle prov_idle;

uint64_t
prov_idle_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

bool
prov_idle_sleeps(uint64_t now_ns)
{
	uint64_t first = prov_idle.waking ? PROV_YIELD_WAKING_NS : PROV_YIELD_NS;

	if (prov_idle.since_ns == 0)
		prov_idle.since_ns = now_ns;
	if (crowd_is(&prov_idle.crowd, now_ns))
		return true;
	return now_ns - prov_idle.since_ns >=
	       (prov_idle.sleep_ns != 0 ? prov_idle.sleep_ns : first);
}

void
prov_idle_yield(uint64_t now_ns)
{
	uint64_t after;

	if (prov_idle.alone_until_ns > now_ns)
		return;
	sched_yield();
	after = prov_idle_now_ns();
	crowd_yielded(&prov_idle.crowd, now_ns, after);
	if (after - now_ns >= CROWD_YIELD_NS) {
		prov_idle.since_ns = 0; /* not idle time: the thread did not poll */
		prov_idle.sleep_ns = 0;
	}
	prov_idle.alone_until_ns = after - now_ns < PROV_ALONE_YIELD_NS ? after + PROV_ALONE_NS : 0;
}

void
prov_idle_sleep(bool outstanding)
{
	static const struct timespec shortest = {.tv_nsec = 1};
	uint64_t waited;

	nanosleep(&shortest, NULL);
	waited = prov_idle_now_ns() - prov_idle.since_ns;
	prov_idle.sleep_ns = outstanding ? waited + PROV_YIELD_NS : 2 * waited;
}
