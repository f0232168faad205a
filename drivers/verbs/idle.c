/* SPDX-License-Identifier: BSD-3-Clause */
#include "idle.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

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
	if (prov_idle.yields.skip != 0)
		return true;
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
	prov_idle.alone_until_ns = after - now_ns < CROWD_ALONE_NS ? after + PROV_ALONE_NS : 0;
}

bool
prov_idle_sleep(const uint32_t *word, uint32_t value, bool outstanding)
{
	bool is_long = word != NULL && prov_idle.yields.skip != 0 &&
		       prov_idle.yields.back >= PROV_SKIP_LONG;
	const struct timespec limit = {.tv_nsec = is_long ? PROV_SLEEP_LONG_NS : PROV_SLEEP_NS};
	static const uint32_t never;
	uint64_t waited;
	int was = errno;
	bool woken;

	if (word == NULL)
		value = *(word = &never);
	woken = syscall(SYS_futex, word, FUTEX_WAIT, value, &limit, NULL, 0) == 0 ||
		errno != ETIMEDOUT;
	errno = was;
	prov_idle.slept = true;
	prov_idle.waking = false; /* it runs by now, or sleeps again */
	waited = prov_idle_now_ns() - prov_idle.since_ns;
	prov_idle.sleep_ns = outstanding ? waited + PROV_YIELD_NS : 2 * waited;
	if (is_long && !woken)
		prov_idle.yields = (struct backoff){0};
	return woken || !is_long;
}
