/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client that writes to its queues while the engine reads them. clang calls __sanitizer_cov_load*
 * before each load of instrumented code (trace-loads), and the write takes place between two chosen
 * ones, always the same for the same input. Without instrumentation (replay.c with gcc) it takes
 * place at once, between two steps.
 */
#include <string.h>
#include "world_parts.h"

#define AREAS 32u
#define LATER 16u /* writes that wait */

static struct {
	uint8_t *at;
	uint32_t n;
} areas[AREAS];
static uint32_t nareas;

static struct {
	uint32_t area;
	uint32_t reads; /* loads from a queue until it takes place, and then .. */
	uint32_t loads; /* .. loads of anything */
	uint8_t body[64];
	uint32_t len;
} later[LATER];
static uint32_t nlater;
static uintptr_t low, high; /* where the areas are */
static bool instrumented;

void
race_reset(void)
{
	nareas = nlater = 0;
	low = UINTPTR_MAX;
	high = 0;
}

void
race_add(void *at, uint32_t n)
{
	CHECK(nareas < AREAS);
	areas[nareas].at = at;
	areas[nareas++].n = n;
	low = (uintptr_t)at < low ? (uintptr_t)at : low;
	high = (uintptr_t)at + n > high ? (uintptr_t)at + n : high;
}

void
race_move(const void *from, void *to, uint32_t n)
{
	for (uint32_t i = 0; i < nareas; i++) {
		if (areas[i].at != from)
			continue;
		areas[i].at = to;
		areas[i].n = n;
		low = (uintptr_t)to < low ? (uintptr_t)to : low;
		high = (uintptr_t)to + n > high ? (uintptr_t)to + n : high;
	}
}

static void
write_now(uint32_t area, const uint8_t *body, uint32_t len)
{
	step_overlay(areas[area].at, areas[area].n, body, len);
}

void
race_scribble(uint32_t which, const uint8_t *body, uint32_t len)
{
	uint32_t area = which % nareas, reads, n = len < 2 ? len : 2;

	if (n < 2)
		return;
	reads = body[0];
	len = len - n < sizeof(later[0].body) ? len - n : (uint32_t)sizeof(later[0].body);
	if (!instrumented || reads == 0 || nlater == LATER) {
		write_now(area, body + n, len);
		return;
	}
	later[nlater].area = area;
	later[nlater].reads = reads;
	later[nlater].loads = body[1];
	memcpy(later[nlater].body, body + n, len);
	later[nlater++].len = len;
}

static bool
is_queue(uintptr_t at)
{
	if (at < low || at >= high)
		return false;
	for (uint32_t i = 0; i < nareas; i++)
		if (at - (uintptr_t)areas[i].at < areas[i].n)
			return true;
	return false;
}

static inline void
on_load(const void *p)
{
	bool queue;

	instrumented = true;
	if (nlater == 0)
		return;
	queue = is_queue((uintptr_t)p);
	for (uint32_t i = 0; i < nlater; i++) {
		if (later[i].reads > 0) {
			later[i].reads -= queue;
		} else if (later[i].loads > 0) {
			later[i].loads--;
		} else {
			write_now(later[i].area, later[i].body, later[i].len);
			later[i--] = later[--nlater];
		}
	}
}

#define ON_LOAD(bytes, type)                                                                       \
	void __sanitizer_cov_load##bytes(type *p);                                                 \
	void __sanitizer_cov_load##bytes(type *p)                                                  \
	{                                                                                          \
		on_load(p);                                                                        \
	}
ON_LOAD(1, uint8_t)
ON_LOAD(2, uint16_t)
ON_LOAD(4, uint32_t)
ON_LOAD(8, uint64_t)
ON_LOAD(16, __uint128_t)
