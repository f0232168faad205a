/* SPDX-License-Identifier: BSD-3-Clause */
#include "mem/fate.h"
#include <stdbool.h>
#include <stddef.h>

/*
 * State of a cell. A thread owns the other fields while it has set BUSY:
 *
 *   any but BUSY -> BUSY -> PENDING   mem_fate_begin, which takes the cell from an older operation
 *   PENDING      -> BUSY -> DONE      mem_fate_end
 *   PENDING      -> BUSY -> FREE      mem_fate_end after a failure
 *   PENDING      -> BUSY -> PENDING   mem_fate_end for an operation that lost the cell
 */
enum cell_state {
	CELL_FREE = 0,
	CELL_BUSY,
	CELL_PENDING,
	CELL_DONE,
};

#define OWN_TRIES 1000u

/* All fields are atomic. */
struct cell {
	uint32_t state; /* enum cell_state */
	uint32_t len;
	uint64_t once, orig;
};

static struct cell table[MEM_FATES];

static struct cell *
cell_of(uint64_t once)
{
	/* The top byte is the worker (engine/engine.c). */
	return &table[(once + (once >> 56) * 37) % MEM_FATES];
}

static bool
cell_own(struct cell *c, uint32_t from)
{
	return from != CELL_BUSY && __atomic_compare_exchange_n(&c->state, &from, CELL_BUSY, false,
								__ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

void
mem_fate_begin(uint64_t once)
{
	struct cell *c = cell_of(once);

	/* If another thread is using the cell, this operation is forgotten. */
	if (!cell_own(c, __atomic_load_n(&c->state, __ATOMIC_RELAXED)))
		return;
	__atomic_store_n(&c->once, once, __ATOMIC_RELAXED);
	__atomic_store_n(&c->state, CELL_PENDING, __ATOMIC_RELEASE);
}

void
mem_fate_end(uint64_t once, int rc, const struct mem_fate_result *res)
{
	struct cell *c = cell_of(once);
	uint32_t to = rc == 0 ? CELL_DONE : CELL_FREE;

	/* Another thread owns a cell for a few stores only, unless it is interrupted. */
	for (uint32_t n = 0; !cell_own(c, CELL_PENDING); n++) {
		uint32_t state = __atomic_load_n(&c->state, __ATOMIC_RELAXED);

		if (n == OWN_TRIES || state == CELL_FREE || state == CELL_DONE)
			return;
	}
	if (__atomic_load_n(&c->once, __ATOMIC_RELAXED) != once) {
		to = CELL_PENDING;
	} else if (rc == 0) {
		__atomic_store_n(&c->len, res->len, __ATOMIC_RELAXED);
		__atomic_store_n(&c->orig, res->orig, __ATOMIC_RELAXED);
	}
	__atomic_store_n(&c->state, to, __ATOMIC_RELEASE);
}

enum mem_fate
mem_fate_get(uint64_t once, struct mem_fate_result *res)
{
	const struct cell *c = cell_of(once);
	uint32_t state = __atomic_load_n(&c->state, __ATOMIC_ACQUIRE);

	if (state == CELL_BUSY)
		return MEM_FATE_PENDING; /* perhaps of another operation: the next call tells */
	if (state == CELL_FREE || __atomic_load_n(&c->once, __ATOMIC_RELAXED) != once)
		return MEM_FATE_NONE;
	if (state == CELL_PENDING)
		return MEM_FATE_PENDING;
	res->len = __atomic_load_n(&c->len, __ATOMIC_RELAXED);
	res->orig = __atomic_load_n(&c->orig, __ATOMIC_RELAXED);
	/* Partner: cell_own. The cell may have been taken for another operation meanwhile. */
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return __atomic_load_n(&c->state, __ATOMIC_RELAXED) == CELL_DONE &&
			       __atomic_load_n(&c->once, __ATOMIC_RELAXED) == once
		       ? MEM_FATE_DONE
		       : MEM_FATE_NONE;
}
