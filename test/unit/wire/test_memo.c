/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire_parse_with and wire_parse_like against wire_parse: with any contents of the header cache all
 * agree.
 */
#include <string.h>
#include "frames.h"
#include "wire/icrc.h"
#include "wire/parse.h"
#include "../../kit/unit.h"

/* Fields are set with this verdict. */
static bool
is_filled(enum wire_verdict v)
{
	return v == WIRE_OK || v == WIRE_BAD_TVER || wire_bad_form(v);
}

/*
 * Parses after prev, with the same header prefix or not. Returns true if wire_parse_like took it;
 * it must agree then.
 */
static bool
parse_behind(const struct frame *prev, const uint8_t *bytes, uint32_t len)
{
	const uint8_t *at = frame_guarded(bytes, len);
	struct wire_pkt before, want, got;

	assert_int_equal(wire_parse(prev->bytes, prev->len, &before), WIRE_OK);
	memset(&want, 0, sizeof(want));
	memset(&got, 0, sizeof(got));
	before.icrc_head = 0x1234;
	if (!wire_parse_like(at, len, &before, &got))
		return false;
	assert_memory_equal(at, prev->bytes, prev->bth_off + 8);
	assert_int_equal(wire_parse(at, len, &want), WIRE_OK);
	assert_int_equal(got.icrc_head, 0x1234);
	got.icrc_head = 0;
	assert_memory_equal(&got, &want, sizeof(got));
	return true;
}

/*
 * Parses the first len bytes of a frame both ways and compares. Returns true if memo holds the
 * header prefix now.
 */
static bool
parse_both(struct wire_memo *memo, const uint8_t *bytes, uint32_t len)
{
	const uint8_t *at = frame_guarded(bytes, len);
	struct wire_pkt want, got;
	enum wire_verdict v;
	uint32_t known;

	/* What neither sets is the same in both; padding is copied by neither. */
	memset(&want, 0, sizeof(want));
	memset(&got, 0, sizeof(got));
	v = wire_parse(at, len, &want);
	assert_int_equal(wire_parse_with(at, len, memo, &got), v);
	if (!is_filled(v))
		return false;
	assert_int_equal(want.icrc_head, 0);
	known = got.icrc_head;
	if (known != 0)
		assert_int_equal(known, wire_icrc_head(got.ip, got.is_v6));
	if (v != WIRE_BAD_TVER)
		assert_int_equal(wire_icrc_check(&got), wire_icrc_check(&want));
	got.icrc_head = 0;
	assert_memory_equal(&got, &want, sizeof(got));
	return known != 0;
}

/* Fills every entry of the header cache with the header prefix of f. */
static void
know(struct wire_memo *memo, const struct frame *f)
{
	const struct wire_memo_entry *e = memo->entry;
	uint32_t i;

	memset(memo, 0, sizeof(*memo));
	parse_both(memo, f->bytes, f->len);
	parse_both(memo, f->bytes, f->len);
	while (e < memo->entry + WIRE_MEMO && e->of_head[0] == 0)
		e++;
	assert_true(e != memo->entry + WIRE_MEMO);
	for (i = 0; i < WIRE_MEMO; i++)
		memo->entry[i] = *e;
	assert_true(parse_both(memo, f->bytes, f->len));
}

static bool
has_payload(uint32_t opcode)
{
	return (wire_op_table[opcode].flags & WIRE_F_PAYLOAD) != 0;
}

/* Do something to frames of every valid opcode, kind and some lengths. */
static void
each_frame(void (*act)(const struct frame *f))
{
	static const uint32_t lengths[] = {0, 13, 64};
	uint32_t opcode, kind, i;

	for (opcode = frame_next_opcode(0); opcode < 256; opcode = frame_next_opcode(opcode + 1)) {
		for (kind = 0; kind < FRAME_KINDS; kind++) {
			for (i = 0; i < (has_payload(opcode) ? 3 : 1); i++) {
				struct frame f = frame_make((uint8_t)opcode, kind, lengths[i]);

				act(&f);
			}
		}
	}
}

/* Each bit of the frame changed in turn, with wrong and with corrected IPv4 checksum. */
static void
change_bits(const struct frame *f)
{
	static struct wire_memo memo;
	uint32_t off, bit;

	know(&memo, f);
	for (off = 0; off < f->len; off++) {
		bool in_head = off >= f->ip_off && off < f->bth_off + 8;

		for (bit = 1; bit < 256; bit <<= 1) {
			struct frame g = *f;

			/* The one before may have taken the place of f. */
			if (in_head)
				know(&memo, f);
			g.bytes[off] ^= (uint8_t)bit;
			parse_both(&memo, g.bytes, g.len);
			assert_int_equal(parse_behind(f, g.bytes, g.len), off >= f->bth_off + 8);
			frame_fix_csum(&g);
			parse_both(&memo, g.bytes, g.len);
			if (in_head)
				assert_false(parse_behind(f, g.bytes, g.len) &&
					     memcmp(g.bytes, f->bytes, g.len) != 0);
		}
	}
}

REQUIREMENT("WIRE-03")
UNIT_TEST(header_cache_misses_on_each_changed_bit)
{
	each_frame(change_bits);
}

/* Truncated, and with Ethernet padding after it. */
static void
change_length(const struct frame *f)
{
	static struct wire_memo memo;
	struct frame g = *f;
	uint32_t len;

	know(&memo, f);
	for (len = 0; len < f->len; len++) {
		assert_false(parse_both(&memo, f->bytes, len));
		assert_false(parse_behind(f, f->bytes, len));
	}
	for (len = f->len; len < f->len + 24 && len <= sizeof(g.bytes); len++) {
		assert_true(parse_both(&memo, g.bytes, len));
		assert_true(parse_behind(f, g.bytes, len));
	}
}

REQUIREMENT("WIRE-04")
UNIT_TEST(header_cache_checks_each_length)
{
	each_frame(change_length);
}

/* Under the name of the other IP: as much of the head as both have is the same. */
static void
change_ethertype(const struct frame *f)
{
	static struct wire_memo memo;
	bool is_v6 = f->bth_off - f->ip_off > WIRE_IPV4_LEN + WIRE_UDP_LEN;
	struct frame g = *f;

	know(&memo, f);
	memcpy(g.bytes + f->ip_off - 2, is_v6 ? "\x08\x00" : "\x86\xdd", 2);
	/* an IPv4 entry may be followed by remains of an IPv6 one */
	for (uint32_t i = 0; i < WIRE_MEMO && !is_v6; i++)
		memcpy(memo.entry[i].head + WIRE_HEAD4, g.bytes + g.ip_off + WIRE_HEAD4,
		       WIRE_HEAD6 - WIRE_HEAD4);
	parse_both(&memo, g.bytes, g.len);
	assert_false(parse_behind(f, g.bytes, g.len));
}

REQUIREMENT("WIRE-03")
UNIT_TEST(header_cache_misses_on_another_ethertype)
{
	each_frame(change_ethertype);
}

/* An empty header cache never hits, not even for a header of zeros. */
REQUIREMENT("WIRE-04")
UNIT_TEST(empty_header_cache_never_hits)
{
	static const char *const types[] = {"\x08\x00", "\x86\xdd"};
	static struct wire_memo memo;
	uint8_t bytes[128] = {0};
	uint32_t i, len;

	for (i = 0; i < 2; i++) {
		memcpy(bytes + 12, types[i], 2);
		for (len = 0; len <= sizeof(bytes); len++)
			assert_false(parse_both(&memo, bytes, len));
	}
}

/* Every opcode instead of the frame's own: none is taken for another. */
static void
change_opcode(const struct frame *f)
{
	static struct wire_memo memo;
	struct frame g = *f;
	uint32_t opcode, i;

	know(&memo, f);
	for (opcode = 0; opcode < 256; opcode++) {
		g.bytes[f->bth_off] = (uint8_t)opcode;
		for (i = 0; i < 3; i++)
			parse_both(&memo, g.bytes, g.len);
	}
	for (opcode = 0; opcode < 256; opcode++) {
		g.bytes[f->bth_off] = (uint8_t)opcode;
		parse_both(&memo, g.bytes, g.len);
	}
}

REQUIREMENT("WIRE-01")
UNIT_TEST(header_cache_agrees_with_the_parser_on_each_opcode)
{
	each_frame(change_opcode);
}

/*
 * More flows than the header cache has entries, in runs of four packets whose PSNs and bytes
 * differ.
 */
REQUIREMENT("WIRE-03")
UNIT_TEST(header_cache_holds_many_flows)
{
	static struct wire_memo memo;
	uint32_t n, known = 0;

	for (n = 0; n < 4 * 1000; n++) {
		uint32_t flow = n / 4 % 250;
		struct frame f = frame_make(flow % 3 ? 0x0a : 0x04, flow & FRAME_V6, flow % 64);

		f.bytes[f.bth_off + 7] = (uint8_t)flow;
		f.bytes[f.bth_off + 11] = (uint8_t)n;
		known += parse_both(&memo, f.bytes, f.len);
	}
	/* The first of four may be known from the time before. */
	assert_true(known >= 3 * 1000 && known < 4 * 1000);
}

/* Header prefixes that occur once evict no entry (the peer counts in the IPv4 identification). */
REQUIREMENT("WIRE-03")
UNIT_TEST(header_cache_keeps_recurring_flows)
{
	static struct wire_memo memo, before;
	struct frame f = frame_make(0x04, FRAME_V4, 8), g = f;
	uint32_t id;

	know(&memo, &f);
	before = memo;
	for (id = 0; id < 1000; id++) {
		g.bytes[g.ip_off + 4] = (uint8_t)(id >> 8);
		g.bytes[g.ip_off + 5] = (uint8_t)id;
		frame_fix_csum(&g);
		assert_false(parse_both(&memo, g.bytes, g.len));
		assert_memory_equal(memo.entry[0].head, before.entry[0].head, WIRE_HEAD6);
	}
	assert_true(parse_both(&memo, f.bytes, f.len));
	assert_true(parse_both(&memo, g.bytes, g.len) || parse_both(&memo, g.bytes, g.len));
}
