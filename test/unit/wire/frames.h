/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames for the tests of lib/wire, made by its builder from fields that are all different. */
#ifndef TEST_WIRE_FRAMES_H
#define TEST_WIRE_FRAMES_H

#include <stdbool.h>
#include <stdint.h>
#include "wire/build.h"

#define FRAME_MAX_PAYLOAD 256

struct frame {
	uint8_t bytes[WIRE_MAX_OVERHEAD + FRAME_MAX_PAYLOAD];
	uint32_t len;
	uint32_t ip_off, bth_off; /* where these headers are */
};

enum frame_kind { /* bits */
		  FRAME_V4 = 0,
		  FRAME_V6 = 1,
		  FRAME_VLAN = 2,
		  FRAME_KINDS = 4,
};

/* The path of a kind, and one set of fields forevery opcode. */
struct wire_path frame_path(unsigned kind);
struct wire_fields frame_fields(uint8_t opcode);

/* A whole frame of opcode with payload_len bytes (0xa5, 0xa4 ..), at most FRAME_MAX_PAYLOAD. */
struct frame frame_make(uint8_t opcode, unsigned kind, uint32_t payload_len);

/* Corrects the IPv4 checksum after a change. Does nothing for IPv6. */
void frame_fix_csum(struct frame *f);

/* Removes n bytes from the end and corrects IP and UDP lengths and the checksum. */
void frame_shorten(struct frame *f, uint32_t n);

/* The first valid opcode that is not below opcode; 256 if there is none. */
uint32_t frame_next_opcode(uint32_t opcode);

/*
 * A copy of len bytes that ends at the end of a readable page, so that a read past it ends the
 * test. The copy is valid until the next call.
 */
const uint8_t *frame_guarded(const uint8_t *bytes, uint32_t len);

#endif
