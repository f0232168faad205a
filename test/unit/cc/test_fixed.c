/* SPDX-License-Identifier: BSD-3-Clause */
/* The congestion policy `fixed`: the window before and after each event (REQ-04, REQ-05). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "cc/cc.h"
#include "../../kit/requirement.h"

static struct cc
fresh(void)
{
	struct cc cc = {.policy = CC_FIXED};

	cc_init(&cc, 1);
	assert_int_equal(cc.window_pkts, CC_WINDOW_PKTS);
	assert_int_equal(cc.window_pkts, CC_WINDOW_PKTS);
	return cc;
}

/* As many ACKs as it takes to open the window again. */
static uint32_t
acks_until_open(struct cc *cc)
{
	uint32_t n = 0;

	for (; cc->window_pkts < CC_WINDOW_PKTS; n++) {
		uint8_t was = cc->window_pkts;

		cc_on_ack(cc, 2, 1000);
		assert_int_equal(cc->window_pkts, was * 2);
	}
	cc_on_ack(cc, 2, 1000);
	assert_int_equal(cc->window_pkts, CC_WINDOW_PKTS);
	return n;
}

REQUIREMENT("REQ-05")
static void
sequence_nak_shrinks_the_window(void **state)
{
	struct cc cc = fresh();

	cc_on_loss(&cc, 2);
	assert_int_equal(cc.window_pkts, CC_AGAIN_PKTS);
	assert_int_equal(acks_until_open(&cc), 3);
}

REQUIREMENT("REQ-04")
static void
timeout_shrinks_the_window_to_one_packet(void **state)
{
	struct cc cc = fresh();

	cc_on_timeout(&cc, 2);
	assert_int_equal(cc.window_pkts, 1);
	cc_on_loss(&cc, 2); /* a loss opens nothing */
	assert_int_equal(cc.window_pkts, 1);
	assert_int_equal(acks_until_open(&cc), 7);
}

REQUIREMENT("REQ-04")
static void
spurious_probe_keeps_the_window(void **state)
{
	struct cc cc = fresh();

	cc_on_loss(&cc, 2);
	cc_on_probe(&cc, 3, false);
	assert_int_equal(cc.window_pkts, 1);
	cc_on_probe(&cc, 4, true);
	assert_int_equal(cc.window_pkts, 1);
	cc_on_ack(&cc, 5, 0);
	cc_on_spurious(&cc, 5);
	assert_int_equal(cc.window_pkts, CC_AGAIN_PKTS);
	cc_on_timeout(&cc, 6);
	cc_on_probe(&cc, 7, false); /* of the window that there is now */
	cc_on_spurious(&cc, 8);
	assert_int_equal(cc.window_pkts, 1);
}

/* What is called by the table is what the fast path does. */
static void
cc_table_agrees_with_the_fast_path(void **state)
{
	uint32_t w;

	for (w = 1; w <= CC_WINDOW_PKTS; w++) {
		struct cc a = {.window_pkts = (uint8_t)w}, b = a;

		cc_on_ack(&a, 1, 0);
		cc_policies[CC_FIXED]->on_ack(&b, 1, 0);
		assert_int_equal(a.window_pkts, b.window_pkts);
		assert_int_equal(a.window_pkts, 2 * w < CC_WINDOW_PKTS ? 2 * w : CC_WINDOW_PKTS);
	}
	assert_string_equal(cc_policies[CC_FIXED]->name, "fixed");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sequence_nak_shrinks_the_window),
		cmocka_unit_test(timeout_shrinks_the_window_to_one_packet),
		cmocka_unit_test(spurious_probe_keeps_the_window),
		cmocka_unit_test(cc_table_agrees_with_the_fast_path),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
