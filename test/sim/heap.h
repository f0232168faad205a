/* SPDX-License-Identifier: BSD-3-Clause */
/* Events in order of time; events of the same time in the order in which they were pushed. */
#ifndef SIM_HEAP_H
#define SIM_HEAP_H

#include <stdbool.h>
#include <stdint.h>

#define SIM_MAX_EVENTS 12288

struct sim_event {
	uint64_t at_ns, order;
	uint32_t kind, arg;
};

struct sim_heap {
	struct sim_event ev[SIM_MAX_EVENTS];
	uint32_t n;
	uint64_t order;
};

void sim_heap_clear(struct sim_heap *h);
/* False: full. */
bool sim_heap_push(struct sim_heap *h, uint64_t at_ns, uint32_t kind, uint32_t arg);
/* Removes the earliest event; the heap must not be empty. */
struct sim_event sim_heap_pop(struct sim_heap *h);

#endif
