/* SPDX-License-Identifier: BSD-3-Clause */
#include "wire/psn.h"
#include "../../kit/unit.h"

#define HALF 0x800000u

REQUIREMENT("WIRE-06")
UNIT_TEST(add_wraps_at_24_bits)
{
	assert_int_equal(psn_add(0, 1), 1);
	assert_int_equal(psn_add(0xffffff, 1), 0);
	assert_int_equal(psn_add(0xffffff, 0xffffff), 0xfffffe);
	assert_int_equal(psn_add(0, (uint32_t)-1), 0xffffff);
	assert_int_equal(psn_add(5, (uint32_t)-10), 0xfffffb);
}

REQUIREMENT("WIRE-06")
UNIT_TEST(diff_is_a_signed_distance)
{
	assert_int_equal(psn_diff(7, 7), 0);
	assert_int_equal(psn_diff(0, 0xffffff), 1);
	assert_int_equal(psn_diff(0xffffff, 0), -1);
	assert_int_equal(psn_diff(3, 0xfffffd), 6);
	assert_int_equal(psn_diff(HALF - 1, 0), HALF - 1);
	assert_int_equal(psn_diff(HALF, 0), -(int)HALF);
	assert_int_equal(psn_diff(0, HALF), -(int)HALF);
}

/* Around every interesting start the order is that of the sender, wrap or not. */
REQUIREMENT("WIRE-06")
UNIT_TEST(order_holds_across_the_wrap)
{
	static const uint32_t starts[] = {0, 1, 0x7ffffe, 0x7fffff, HALF, 0xfffffe, 0xffffff};
	static const uint32_t steps[] = {1, 2, 127, 128, 0x10000, HALF - 1};
	unsigned i, j;

	for (i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
		uint32_t a = starts[i];

		assert_false(psn_lt(a, a));
		assert_true(psn_le(a, a));
		for (j = 0; j < sizeof(steps) / sizeof(steps[0]); j++) {
			uint32_t b = psn_add(a, steps[j]);

			assert_true(b <= 0xffffff);
			assert_true(psn_lt(a, b) && psn_le(a, b));
			assert_false(psn_lt(b, a) || psn_le(b, a));
			assert_int_equal(psn_diff(b, a), steps[j]);
			assert_int_equal(psn_diff(a, b), -(int)steps[j]);
			assert_int_equal(psn_add(b, -steps[j]), a);
		}
	}
}
