/* SPDX-License-Identifier: BSD-3-Clause */
#include "sched/spin.h"

#include <poll.h>
#include <sched.h>
#include <time.h>

static uint64_t
now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

void
sched_spin_readable(struct backoff *b, int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	uint64_t start;
	bool readable;

	if (backoff_skips(b))
		return;
	start = now_ns();
	do {
		readable = poll(&p, 1, 0) != 0;
		if (!readable)
			sched_yield();
	} while (!readable && now_ns() - start < SPIN_NS);
	backoff_tried(b, readable, SPIN_SKIP_MAX);
}
