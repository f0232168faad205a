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

/* Attempts to own a cell. Other threads own it for a few stores, unless they are interrupted. */
#define OWN_TRIES 100u

/* All fields are atomic. */
struct cell {
	uint32_t state; /* enum cell_state */
	uint32_t len;
	uint64_t once, orig;
	uint64_t serial; /* of mem_fate_begin */
	uintptr_t user;
};

/* An operation has one of the cells of its row. */
#define CELLS 64u
#define ROWS  (MEM_FATES / CELLS)

static struct cell table[ROWS][CELLS];
static uint64_t serials; /* atomic */

static struct cell *
row_of(uint64_t once)
{
	/* The top byte is the worker (engine/engine.c). */
	return table[(once + (once >> 56)) % ROWS];
}

static uint32_t
state_of(const struct cell *c)
{
	return __atomic_load_n(&c->state, __ATOMIC_ACQUIRE);
}

static bool
cell_own(struct cell *c, uint32_t from)
{
	return from != CELL_BUSY && __atomic_compare_exchange_n(&c->state, &from, CELL_BUSY, false,
								__ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* How many cells of a row each user has. */
struct shares {
	uint32_t n; /* users */
	struct {
		uintptr_t user;
		uint32_t cells;
	} of[CELLS];
};

static uint32_t
share_add(struct shares *s, uintptr_t user)
{
	uint32_t i = 0;

	while (i < s->n && s->of[i].user != user)
		i++;
	if (i == s->n) {
		s->of[i].user = user;
		s->of[i].cells = 0;
		s->n++;
	}
	return ++s->of[i].cells;
}

/*
 * The cell that user gets: a free one, or the oldest of the user with the most cells, which is user
 * itself if it has as many. Others may change the row meanwhile.
 */
static struct cell *
choose(struct cell *row, uintptr_t user)
{
	struct shares s = {.n = 0};
	struct cell *oldest = NULL;
	uintptr_t top = user;
	uint32_t i, own = 0, most = 0;

	for (i = 0; i < CELLS; i++) {
		uintptr_t of = __atomic_load_n(&row[i].user, __ATOMIC_RELAXED);
		uint32_t state = state_of(&row[i]), cells;

		if (state == CELL_FREE)
			return &row[i];
		cells = share_add(&s, of);
		own = of == user ? cells : own;
		if (cells > most) {
			most = cells;
			top = of;
		}
	}
	if (own == most)
		top = user;
	for (i = 0; i < CELLS; i++) {
		if (__atomic_load_n(&row[i].user, __ATOMIC_RELAXED) == top &&
		    (oldest == NULL || __atomic_load_n(&row[i].serial, __ATOMIC_RELAXED) <
					       __atomic_load_n(&oldest->serial, __ATOMIC_RELAXED)))
			oldest = &row[i];
	}
	return oldest;
}

void
mem_fate_begin(uint64_t once, const void *user)
{
	struct cell *row = row_of(once), *c = NULL;
	uint32_t n;

	for (n = 0; c == NULL && n < OWN_TRIES; n++) {
		c = choose(row, (uintptr_t)user);
		if (c != NULL && !cell_own(c, state_of(c)))
			c = NULL;
	}
	if (c == NULL)
		return; /* other threads took every cell it tried: this operation is forgotten */
	__atomic_store_n(&c->once, once, __ATOMIC_RELAXED);
	__atomic_store_n(&c->user, (uintptr_t)user, __ATOMIC_RELAXED);
	__atomic_store_n(&c->serial, __atomic_fetch_add(&serials, 1, __ATOMIC_RELAXED),
			 __ATOMIC_RELAXED);
	__atomic_store_n(&c->state, CELL_PENDING, __ATOMIC_RELEASE);
}

/* The cell of an operation; NULL: it has none. */
static struct cell *
find(uint64_t once)
{
	struct cell *row = row_of(once);

	for (uint32_t i = 0; i < CELLS; i++) {
		if (state_of(&row[i]) != CELL_FREE &&
		    __atomic_load_n(&row[i].once, __ATOMIC_RELAXED) == once)
			return &row[i];
	}
	return NULL;
}

void
mem_fate_end(uint64_t once, int rc, const struct mem_fate_result *res)
{
	uint32_t to = rc == 0 ? CELL_DONE : CELL_FREE;
	struct cell *c = find(once);

	/* BUSY: an operation that takes the cell away, or the end of one that has lost it. */
	for (uint32_t n = 0; c != NULL && !cell_own(c, CELL_PENDING); n++) {
		if (n == OWN_TRIES || state_of(c) == CELL_DONE)
			return;
		c = find(once);
	}
	if (c == NULL)
		return;
	if (__atomic_load_n(&c->once, __ATOMIC_RELAXED) != once) {
		to = CELL_PENDING;
	} else if (rc == 0) {
		/* Partner: the fence of mem_fate_get. A thread that sees these sees the cell's
		 * number. */
		__atomic_store_n(&c->len, res->len, __ATOMIC_RELEASE);
		__atomic_store_n(&c->orig, res->orig, __ATOMIC_RELEASE);
	}
	__atomic_store_n(&c->state, to, __ATOMIC_RELEASE);
}

enum mem_fate
mem_fate_get(uint64_t once, struct mem_fate_result *res)
{
	const struct cell *c = find(once);
	uint32_t state;

	if (c == NULL)
		return MEM_FATE_NONE;
	state = state_of(c);
	if (state == CELL_BUSY)
		return MEM_FATE_PENDING; /* perhaps of another operation: the next call tells */
	if (state == CELL_FREE || __atomic_load_n(&c->once, __ATOMIC_RELAXED) != once)
		return MEM_FATE_NONE;
	if (state == CELL_PENDING)
		return MEM_FATE_PENDING;
	res->len = __atomic_load_n(&c->len, __ATOMIC_RELAXED);
	res->orig = __atomic_load_n(&c->orig, __ATOMIC_RELAXED);
	/* Partner: mem_fate_end. The cell may have been taken for another operation meanwhile. */
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return __atomic_load_n(&c->state, __ATOMIC_RELAXED) == CELL_DONE &&
			       __atomic_load_n(&c->once, __ATOMIC_RELAXED) == once
		       ? MEM_FATE_DONE
		       : MEM_FATE_NONE;
}
