/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames that pass the engine's first checks: for the mutator, and for seeds from captures. */
#ifndef FUZZ_CRAFT_H
#define FUZZ_CRAFT_H

#include "world.h"

/* A random sequence (splitmix64). */
struct rng {
	uint64_t state;
};
uint32_t rng_below(struct rng *r, uint32_t n); /* n > 0 */
static inline bool
rng_one_in(struct rng *r, uint32_t n)
{
	return rng_below(r, n) == 0;
}

/* A frame's contents after the UDP header: BTH fields, and the bytes up to the ICRC. */
struct craft {
	uint32_t q; /* enum world_qp, groups too: addresses and destination QPN */
	uint8_t opcode;
	bool solicited, ackreq, migreq, marked; /* by a switch: CE */
	uint32_t psn;
	uint32_t rest_len; /* extended headers and payload, without pad */
	uint8_t rest[STEP_MAX_FRAME];
};

/*
 * Parses a frame; missing headers are made up. Returns false if the destination is none of the QPs;
 * q is then drawn.
 */
bool craft_take(struct craft *c, const uint8_t *frame, uint32_t len, struct rng *r);

/* A frame of opcode for q, all else plausible: headers, and payload bytes of payload. */
void craft_new(struct craft *c, uint32_t q, uint8_t opcode, uint32_t payload, struct rng *r);

/* Draw one of the fields of the opcode's extended headers anew, plausibly. */
void craft_redraw(struct craft *c, struct rng *r);

/* One that the QP's type supports. */
uint8_t craft_opcode(uint32_t q, struct rng *r);

/* Sets headers that name memory or a Q_Key to existing ones. */
void craft_aim(struct craft *c, struct rng *r);

/* Put it together, lengths, checksum and ICRC right. Returns its bytes, at most STEP_MAX_FRAME. */
uint32_t craft_finish(const struct craft *c, uint8_t *frame);

/* Flips header bits of a finished frame and corrects the ICRC. */
void craft_spoil(uint8_t *frame, uint32_t len, struct rng *r);

/*
 * Makes a frame malformed and otherwise correct: a reserved opcode, an opcode with other headers,
 * another pad count.
 */
void craft_deform(uint8_t *frame, uint32_t len, struct rng *r);

/* Truncates a finished frame, with matching IP and UDP lengths. Returns its new length. */
uint32_t craft_cut(uint8_t *frame, uint32_t len, struct rng *r);

#endif
