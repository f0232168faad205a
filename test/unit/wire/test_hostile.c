/* SPDX-License-Identifier: BSD-3-Clause */
/* Bytes that no honest peer sends: nothing is read outside of the frame, nothing taken for good. */
#include <stdlib.h>
#include <string.h>
#include "frames.h"
#include "wire/icrc.h"
#include "wire/parse.h"
#include "../../kit/unit.h"

/*
 * A frame truncated to every length, in a heap block of that size (for ASan) and at the end of a
 * page (for the MMU): no read past it, and never accepted.
 */
REQUIREMENT("WIRE-04")
UNIT_TEST(frame_truncated_at_any_length_is_refused)
{
	uint32_t opcode, kind, len;

	for (opcode = frame_next_opcode(0); opcode < 256; opcode = frame_next_opcode(opcode + 1)) {
		bool has_payload = wire_op_table[opcode].flags & WIRE_F_PAYLOAD;

		for (kind = 0; kind < FRAME_KINDS; kind++) {
			struct frame f = frame_make((uint8_t)opcode, kind, has_payload ? 5 : 0);

			for (len = 0; len < f.len; len++) {
				uint8_t *heap = malloc(len ? len : 1);
				struct wire_pkt pkt;
				enum wire_verdict v;

				assert_non_null(heap);
				memcpy(heap, f.bytes, len);
				v = wire_parse(heap, len, &pkt);
				assert_true(v == WIRE_RUNT || v == WIRE_BAD_IP);
				free(heap);
				assert_int_equal(wire_parse(frame_guarded(f.bytes, len), len, &pkt),
						 v);
			}
		}
	}
}

/*
 * IP and UDP lengths that agree but leave no space for the opcode's headers: with such a runt rxe
 * read 8 bytes past the frame.
 */
REQUIREMENT("WIRE-04")
UNIT_TEST(runt_with_consistent_lengths_is_refused)
{
	uint32_t opcode, kind, n;

	for (opcode = frame_next_opcode(0); opcode < 256; opcode = frame_next_opcode(opcode + 1)) {
		for (kind = 0; kind < FRAME_KINDS; kind++) {
			uint32_t rest = wire_op_table[opcode].hdr_len + WIRE_ICRC_LEN;

			for (n = 1; n <= rest; n++) {
				struct frame f = frame_make((uint8_t)opcode, kind, 0);
				struct wire_pkt pkt;

				frame_shorten(&f, n);
				assert_int_equal(wire_parse(frame_guarded(f.bytes, f.len), f.len,
							    &pkt),
						 WIRE_RUNT);
			}
		}
	}
}

/* A separate generator, so that the same seed repeats a failure. */
static uint32_t
next_random(uint64_t *seed)
{
	*seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(*seed >> 33);
}

static uint32_t
sum_bytes(const uint8_t *p, uint32_t n)
{
	uint32_t sum = 0;

	while (n--)
		sum += *p++;
	return sum;
}

/* For any bytes: no read outside of the frame, and all results point into it. */
static void
check_inside(const uint8_t *bytes, uint32_t len)
{
	const uint8_t *at = frame_guarded(bytes, len), *end;
	struct wire_pkt pkt;
	enum wire_verdict v = wire_parse(at, len, &pkt);

	assert_in_range(v, 0, WIRE_VERDICTS - 1);
	if (v != WIRE_OK && (v < WIRE_BAD_TVER || v > WIRE_BAD_LENGTH))
		return;
	end = pkt.payload + pkt.payload_len + pkt.pad_len + WIRE_ICRC_LEN;
	assert_true(pkt.l2 == at && pkt.ip >= at + WIRE_ETH_LEN && pkt.bth > pkt.ip);
	assert_true(pkt.payload >= pkt.bth + WIRE_BTH_LEN && end <= at + len);
	assert_true(pkt.psn <= WIRE_PSN_MASK && pkt.qpn <= WIRE_QPN_MASK);
	/* Reads the reported payload, and lets the ICRC read the rest. */
	assert_true(sum_bytes(pkt.payload, pkt.payload_len) <= 255 * pkt.payload_len);
	(void)wire_icrc_check(&pkt);
}

REQUIREMENT("WIRE-04")
UNIT_TEST(mutated_frames_are_read_within_bounds)
{
	uint64_t seed = 20251120;
	uint32_t round, i;

	for (round = 0; round < 400000; round++) {
		uint32_t opcode = frame_next_opcode(next_random(&seed) % 0x82);
		struct frame f = frame_make((uint8_t)opcode, next_random(&seed) % FRAME_KINDS,
					    next_random(&seed) % 24);

		for (i = next_random(&seed) % 4; i > 0; i--)
			f.bytes[next_random(&seed) % f.len] = (uint8_t)next_random(&seed);
		if (next_random(&seed) % 4 == 0)
			f.len = next_random(&seed) % (f.len + 1);
		/* Mostly with a right checksum, or little would get past it. */
		if (f.len >= f.ip_off + WIRE_IPV4_LEN && next_random(&seed) % 8)
			frame_fix_csum(&f);
		check_inside(f.bytes, f.len);
	}
}

REQUIREMENT("WIRE-04")
UNIT_TEST(random_bytes_are_read_within_bounds)
{
	uint64_t seed = 7;
	uint32_t round, i;
	uint8_t bytes[128];

	for (round = 0; round < 100000; round++) {
		uint32_t len = next_random(&seed) % sizeof(bytes);

		for (i = 0; i < len; i++)
			bytes[i] = (uint8_t)next_random(&seed);
		check_inside(bytes, len);
	}
}
