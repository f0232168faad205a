/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Results of late operations (struct mem_ops) that must not be executed twice. A program may
 * see the data of a late WRITE and deregister the region, or unbind the window, before the worker
 * tries the WRITE again. The region's operations cannot be asked any more then, so the results of
 * operations that were begun but not awaited are also recorded here, by their number (once).
 *
 * One table for the process. It has places for MEM_FATES operations. A new one takes the place of
 * the oldest of the user with the most, so a user, with however many late operations, makes only
 * its own forgotten: each of n users keeps its last MEM_FATES / n. A worker takes a forgotten one
 * as not executed. All functions: any thread, without locks, bounded.
 */
#ifndef MEM_FATE_H
#define MEM_FATE_H

#include <stdint.h>

#define MEM_FATES 256u

enum mem_fate {
	MEM_FATE_NONE = 0, /* withdrawn before it began, failed, or forgotten */
	MEM_FATE_PENDING,  /* begun; ask again later */
	MEM_FATE_DONE,     /* executed in full */
};

struct mem_fate_result {
	uint32_t len;  /* bytes, of all parts */
	uint64_t orig; /* atomic: original value */
};

/*
 * Records that the operation with number once (not 0) has begun and is no longer awaited. user: any
 * address that stands for the user whose memory it is for.
 */
void mem_fate_begin(uint64_t once, const void *user);
/*
 * Records the end of an operation: rc 0 if it was executed in full, else it counts as not executed.
 * Does nothing without a mem_fate_begin before it.
 */
void mem_fate_end(uint64_t once, int rc, const struct mem_fate_result *res);
/* Returns the fate of an operation. *res is set if that is MEM_FATE_DONE. */
enum mem_fate mem_fate_get(uint64_t once, struct mem_fate_result *res);

#endif
