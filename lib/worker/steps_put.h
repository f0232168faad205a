/* SPDX-License-Identifier: BSD-3-Clause */
/* Writing steps (steps.h). Private to lib/worker; worker. */
#ifndef WORKER_STEPS_PUT_H
#define WORKER_STEPS_PUT_H

#include <sched.h>
#include "worker/worker_parts.h"

struct steps {
	struct steps *next; /* of the worker */
	uint32_t qpn;
	uint32_t sent, received; /* messages taken and completed since the start */
	bool found;              /* the next message */
	bool unsent;             /* the last message taken is not with the port yet */
	uint32_t n, max;
	uint64_t lost;
	struct stamp step[];
};

/* The time and the CPU of a step. */
static inline struct stamp
steps_stamp(void)
{
	return (struct stamp){.tsc = stamp_tsc(), .cpu = (uint16_t)sched_getcpu()};
}

static inline void
steps_put(struct steps *s, struct stamp step, enum stamp_kind kind, uint32_t n)
{
	if (s->n == s->max) {
		s->lost++;
		return;
	}
	step.kind = (uint16_t)kind;
	step.n = n;
	s->step[s->n++] = step;
}

/* One of STAMP_YIELDED and the kinds behind it has ended; it took ns. */
static inline void
steps_other(struct worker *w, enum stamp_kind kind, uint64_t ns)
{
	for (struct steps *s = w->steps; s != NULL; s = s->next)
		steps_put(s, steps_stamp(), kind, (uint32_t)RTE_MIN(ns, (uint64_t)UINT32_MAX));
}

#endif
