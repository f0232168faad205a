/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A cursor over the bytes of a received frame. The parser advances from header to header only
 * through it. Everything it returns is inside the frame: it never moves past its end, and its end
 * only moves inwards. Private to lib/wire and lib/net.
 */
#ifndef WIRE_CURSOR_H
#define WIRE_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct wire_cur {
	const uint8_t *pos; /* next byte */
	const uint8_t *end; /* one past the last; pos <= end */
};

static inline struct wire_cur
wire_cur_over(const uint8_t *bytes, uint32_t len)
{
	return (struct wire_cur){.pos = bytes, .end = bytes + len};
}

/* Bytes between the cursor and its end. */
static inline uint32_t
wire_cur_left(const struct wire_cur *c)
{
	return (uint32_t)(c->end - c->pos);
}

/* Returns the next n bytes and moves past them. Returns NULL, without moving, if fewer remain. */
static inline const void *
wire_cur_take(struct wire_cur *c, uint32_t n)
{
	const uint8_t *p = c->pos;

	if (n > wire_cur_left(c))
		return NULL;
	c->pos = p + n;
	return p;
}

/* The next header, typed (a WIRE_PACKED struct, so any address will do), or NULL. */
#define wire_cur_get(c, type) ((const type *)wire_cur_take((c), sizeof(type)))

/* Set the end to n bytes from the current position. False, without a change, if fewer remain. */
static inline bool
wire_cur_limit(struct wire_cur *c, uint32_t n)
{
	if (n > wire_cur_left(c))
		return false;
	c->end = c->pos + n;
	return true;
}

#endif
