/* SPDX-License-Identifier: BSD-3-Clause */
#include "sched/crowd.h"

#include "sched/slice.h"

static void
begin(struct crowd *c, uint64_t from_ns, uint64_t to_ns)
{
	bool again = c->until_ns != 0 && from_ns - c->until_ns < CROWD_AGAIN_NS;

	c->span_ns = again && c->span_ns < CROWD_MAX_NS ? 2 * c->span_ns
		     : again                            ? c->span_ns
							: CROWD_FIRST_NS;
	c->until_ns = to_ns + c->span_ns;
	c->row = 0;
	if (c->slice_ns == 0)
		c->slice_ns = sched_slice_set(SCHED_SLICE_SHORT_NS);
}

static void
end(struct crowd *c)
{
	c->row = 0;
	if (c->slice_ns != 0)
		sched_slice_set(c->slice_ns);
	c->slice_ns = 0;
}

void
crowd_yielded(struct crowd *c, uint64_t from_ns, uint64_t to_ns)
{
	if (to_ns - from_ns < CROWD_YIELD_NS) {
		end(c);
		return;
	}
	c->row = from_ns - c->long_ns < CROWD_BETWEEN_NS ? c->row + 1 : 1;
	c->long_ns = to_ns;
	if (c->row >= CROWD_ROW)
		begin(c, from_ns, to_ns);
}
