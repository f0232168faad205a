/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An input of the fuzzer: a sequence of steps, each a header and len bytes of body. Every byte
 * string is valid: lengths are limited to the rest, numbers to the existing objects.
 */
#ifndef FUZZ_STEP_H
#define FUZZ_STEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum step_op {
	STEP_FRAME = 0, /* body: a frame that arrives; arg 1: together with the next one */
	STEP_TIME,      /* 2^(arg % 34) ns go by, timers and all */
	STEP_RECV,      /* QP arg posts a receive; body: which slots of memory */
	STEP_SEND,      /* QP arg posts a send; body: opcode, flags, slots .. */
	STEP_MODIFY,    /* QP arg is taken to ERR, SQD or RTS, as body says */
	STEP_DEREG,     /* region arg goes */
	STEP_SELECTIVE, /* QP arg / 2 agrees on selective repeat (arg odd), or no longer */
	STEP_SCRIBBLE,  /* writes to shared memory arg, now or later (race.c) */
	STEP_TUNE,      /* setting arg (enum world_tune); body: its value, a byte */
	STEP_OPS,
};

struct step_head {
	uint8_t op, arg;
	uint16_t len; /* little endian, as all machines are that this runs on */
};
_Static_assert(sizeof(struct step_head) == 4, "head of a step");

#define STEP_MAX       64   /* of an input; the rest is ignored */
#define STEP_MAX_FRAME 4400 /* bytes of a frame */

/*
 * Changes n bytes as a step's body says: triples of a place, whose upper 2 bits say how, and a
 * value: one byte; 32 bits; 32 bits of its negative; a power of two in 64 bits.
 */
void step_overlay(uint8_t *to, uint32_t n, const uint8_t *body, uint32_t len);

struct step {
	uint8_t op, arg;
	uint16_t len;
	const uint8_t *body;
};

/* Takes the step at *data of *size bytes and advances past it. Returns false at the end. */
static inline bool
step_take(const uint8_t **data, size_t *size, struct step *s)
{
	if (*size < sizeof(struct step_head))
		return false;
	s->op = (*data)[0] % STEP_OPS;
	s->arg = (*data)[1];
	s->len = (uint16_t)((*data)[2] | (*data)[3] << 8);
	s->body = *data + sizeof(struct step_head);
	*size -= sizeof(struct step_head);
	if (s->len > *size)
		s->len = (uint16_t)*size;
	*data = s->body + s->len;
	*size -= s->len;
	return true;
}

/* Appends a step at out, which must have space for it. Returns its size in bytes. */
size_t step_put(uint8_t *out, uint8_t op, uint8_t arg, const uint8_t *body, uint16_t len);

#endif
