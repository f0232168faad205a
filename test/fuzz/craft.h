/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frames that get past the engine's first checks: for the mutator, and for seeds made of captures.
 */
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

/* What a frame says behind its UDP header: BTH fields, and the bytes from there to the ICRC. */
struct craft {
	uint32_t q; /* enum world_qp, groups too: addresses and destination QPN */
	uint8_t opcode;
	bool solicited, ackreq, migreq;
	uint32_t psn;
	uint32_t rest_len; /* extended headers and payload, without pad */
	uint8_t rest[STEP_MAX_FRAME];
};

/*
 * Take a frame apart; headers that are not there are made up. Returns false where the destination
 * is none of the QPs: q is then drawn.
 */
bool craft_take(struct craft *c, const uint8_t *frame, uint32_t len, struct rng *r);

/* A frame of opcode for q, all else plausible: headers, and payload bytes of payload. */
void craft_new(struct craft *c, uint32_t q, uint8_t opcode, uint32_t payload, struct rng *r);

/* Draw one of the fields of the opcode's extended headers anew, plausibly. */
void craft_redraw(struct craft *c, struct rng *r);

/* One that the QP's type speaks. */
uint8_t craft_opcode(uint32_t q, struct rng *r);

/* Aim the headers that name memory or a Q_Key at what there is. */
void craft_aim(struct craft *c, struct rng *r);

/* Put it together, lengths, checksum and ICRC right. Returns its bytes, at most STEP_MAX_FRAME. */
uint32_t craft_finish(const struct craft *c, uint8_t *frame);

/* Flip bits of the headers of a finished frame and set the ICRC right again. */
void craft_spoil(uint8_t *frame, uint32_t len, struct rng *r);

/*
 * Bad form, all else right: a reserved opcode, one that does not take what is behind it, another
 * pad count.
 */
void craft_deform(uint8_t *frame, uint32_t len, struct rng *r);

/* Cut a finished frame short somewhere, its IP and UDP lengths agreeing. Returns what is left. */
uint32_t craft_cut(uint8_t *frame, uint32_t len, struct rng *r);

#endif
