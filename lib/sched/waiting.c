/* SPDX-License-Identifier: BSD-3-Clause */
#include "sched/waiting.h"

#include <poll.h>
#include <sched.h>
#include <time.h>

static void
crowd_begin(struct crowd *c, uint64_t from_ns, uint64_t to_ns)
{
	bool again = c->until_ns != 0 && from_ns - c->until_ns < CROWD_AGAIN_NS;

	c->span_ns = again && c->span_ns < CROWD_MAX_NS ? 2 * c->span_ns
		     : again                            ? c->span_ns
							: CROWD_FIRST_NS;
	c->until_ns = to_ns + c->span_ns;
	c->row = c->gaps = 0;
	if (c->slice_ns == 0)
		c->slice_ns = sched_slice_set(SCHED_SLICE_SHORT_NS);
}

static void
crowd_end(struct crowd *c)
{
	c->row = 0;
	if (c->slice_ns != 0)
		sched_slice_set(c->slice_ns);
	c->slice_ns = 0;
}

/* One more in a row that ended at *last_ns, or the first of a new one. */
static uint32_t
in_a_row(uint32_t row, uint64_t *last_ns, uint64_t from_ns, uint64_t to_ns)
{
	bool close = from_ns - *last_ns < CROWD_BETWEEN_NS;

	*last_ns = to_ns;
	return close ? row + 1 : 1;
}

void
crowd_yielded(struct crowd *c, uint64_t from_ns, uint64_t to_ns)
{
	if (to_ns - from_ns >= CROWD_ALONE_NS && to_ns - from_ns < CROWD_YIELD_NS)
		c->gaps = 0;
	if (to_ns - from_ns < CROWD_YIELD_NS) {
		crowd_end(c);
		return;
	}
	c->row = in_a_row(c->row, &c->long_ns, from_ns, to_ns);
	if (c->row >= CROWD_ROW)
		crowd_begin(c, from_ns, to_ns);
	else
		crowd_gap(c, from_ns, to_ns);
}

void
crowd_gap(struct crowd *c, uint64_t from_ns, uint64_t to_ns)
{
	if (to_ns - from_ns < CROWD_YIELD_NS)
		return;
	c->gaps = in_a_row(c->gaps, &c->gap_ns, from_ns, to_ns);
	if (c->gaps >= CROWD_ROW)
		crowd_begin(c, from_ns, to_ns);
}

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
	} while (!readable && now_ns() - start < SCHED_SPIN_NS);
	backoff_tried(b, readable, SCHED_SPIN_SKIPS);
}
