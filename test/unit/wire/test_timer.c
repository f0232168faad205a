/* SPDX-License-Identifier: BSD-3-Clause */
#include "wire/hdr.h"
#include "wire/timer.h"
#include "../../kit/unit.h"

/* The values of requirement NAK-11, in hundredths of a millisecond. */
static const uint64_t rnr_ms_100[32] = {
	65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,    32,
	48,    64,   96,   128,  192,  256,   384,   512,   768,   1024,  1536,
	2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
};

REQUIREMENT("NAK-11")
UNIT_TEST(rnr_timer_values_are_as_specified)
{
	uint32_t code;

	for (code = 0; code < 32; code++)
		assert_int_equal(wire_rnr_timer_ns(code), rnr_ms_100[code] * 10000);
	/* The one that rxe has wrong, spelled out. */
	assert_int_equal(wire_rnr_timer_ns(25), 61440000);
}

/* From code 1 on every code waits longer than the one before; 0 waits longest. */
REQUIREMENT("NAK-11")
UNIT_TEST(rnr_timer_grows_with_its_code)
{
	uint32_t code;

	for (code = 2; code < 32; code++)
		assert_true(wire_rnr_timer_ns(code) > wire_rnr_timer_ns(code - 1));
	assert_true(wire_rnr_timer_ns(0) > wire_rnr_timer_ns(31));
}

/* The timer field of an AETH is the syndrome's low five bits: the kind bits do not disturb. */
REQUIREMENT("NAK-11")
UNIT_TEST(rnr_timer_takes_a_syndrome)
{
	assert_int_equal(wire_rnr_timer_ns(WIRE_SYN_RNR | 12), 640000);
}

REQUIREMENT("REQ-04")
UNIT_TEST(ack_timeout_values_are_as_specified)
{
	uint32_t code;

	assert_int_equal(wire_ack_timeout_ns(0), 0);
	assert_int_equal(wire_ack_timeout_ns(1), 8192);
	assert_int_equal(wire_ack_timeout_ns(14), 67108864); /* perftest's default: 67 ms */
	assert_int_equal(wire_ack_timeout_ns(31), UINT64_C(8796093022208));
	for (code = 2; code < 32; code++)
		assert_int_equal(wire_ack_timeout_ns(code), 2 * wire_ack_timeout_ns(code - 1));
}
