/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>
#include "frames.h"
#include "wire/icrc.h"
#include "../../kit/unit.h"

/* A parsed SEND ONLY of len bytes in f. */
static void
make(struct frame *f, unsigned kind, uint32_t len, struct wire_pkt *pkt)
{
	*f = frame_make(WIRE_OP_SEND_ONLY, kind, len);
	assert_int_equal(wire_parse(f->bytes, f->len, pkt), WIRE_OK);
	assert_true(wire_icrc_check(pkt));
}

static void
set_word(struct frame *f, uint32_t off, uint16_t value)
{
	f->bytes[f->ip_off + off] = (uint8_t)(value >> 8);
	f->bytes[f->ip_off + off + 1] = (uint8_t)value;
	frame_fix_csum(f);
}

UNIT_TEST(change_turns_the_icrc_of_one_identification_into_that_of_another)
{
	for (uint32_t len = 0; len <= FRAME_MAX_PAYLOAD; len += 4) {
		struct wire_pkt pkt;
		struct frame f;
		uint32_t icrc, factor;
		const uint8_t *end;

		make(&f, FRAME_V4, len, &pkt);
		end = f.bytes + f.len - WIRE_ICRC_LEN;
		factor = wire_icrc_id_factor((uint32_t)(end - pkt.ip) - WIRE_ICRC_ID_END);
		for (uint32_t id = 1; id < 65536; id = id * 3 + 1) {
			uint16_t was = (uint16_t)(pkt.ip[4] << 8 | pkt.ip[5]);

			memcpy(&icrc, end, sizeof(icrc));
			icrc ^= wire_icrc_id_change(factor, (uint16_t)(was ^ id));
			set_word(&f, 4, (uint16_t)id);
			assert_int_equal(icrc, wire_icrc_frame(pkt.ip, false, end));
			memcpy(f.bytes + f.len - WIRE_ICRC_LEN, &icrc, sizeof(icrc));
		}
	}
}

UNIT_TEST(any_identification_and_no_df_are_accepted)
{
	struct wire_pkt pkt;
	struct frame f;

	for (uint32_t len = 0; len <= FRAME_MAX_PAYLOAD; len += 16) {
		make(&f, FRAME_V4, len, &pkt);
		for (uint32_t id = 0; id < 65536; id += 4099) {
			set_word(&f, 4, (uint16_t)id);
			assert_true(wire_icrc_check_any_id(&pkt));
			set_word(&f, 6, id & 1 ? WIRE_IPV4_DF : 0);
			assert_true(wire_icrc_check_any_id(&pkt));
		}
	}
}

UNIT_TEST(flipped_bits_elsewhere_are_refused)
{
	struct wire_pkt pkt;
	struct frame f;

	make(&f, FRAME_V4, 64, &pkt);
	set_word(&f, 4, 0x1234);
	for (uint32_t at = f.bth_off + 5; at < f.len; at++) {
		for (uint32_t bit = 0; bit < 8; bit++) {
			f.bytes[at] ^= (uint8_t)(1u << bit);
			assert_false(wire_icrc_check_any_id(&pkt));
			f.bytes[at] ^= (uint8_t)(1u << bit);
		}
	}
	assert_true(wire_icrc_check_any_id(&pkt));
}

UNIT_TEST(ipv6_has_no_identification)
{
	struct wire_pkt pkt;
	struct frame f;

	make(&f, FRAME_V6, 64, &pkt);
	f.bytes[f.len - 1] ^= 1;
	assert_false(wire_icrc_check_any_id(&pkt));
}
