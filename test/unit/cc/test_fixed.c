/* SPDX-License-Identifier: BSD-3-Clause */
/* The congestion policy `fixed`: the window before and after each event (REQ-04, REQ-05). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "cc/cc.h"
#include "../../kit/requirement.h"

static struct cc_flow flow; /* the policy uses little of it */

static struct cc
fresh(void)
{
	struct cc cc = {.policy = CC_FIXED};

	cc_init(&cc, &flow, 1);
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

		cc_on_ack(cc, &flow, 2, &(struct cc_ack){.rtt_ns = 1000});
		assert_int_equal(cc->window_pkts, was * 2);
	}
	cc_on_ack(cc, &flow, 2, &(struct cc_ack){.rtt_ns = 1000});
	assert_int_equal(cc->window_pkts, CC_WINDOW_PKTS);
	return n;
}

REQUIREMENT("REQ-05")
static void
sequence_nak_shrinks_the_window(void **state)
{
	struct cc cc = fresh();

	cc_on_loss(&cc, &flow, 2);
	assert_int_equal(cc.window_pkts, CC_AGAIN_PKTS);
	assert_int_equal(acks_until_open(&cc), 3);
}

REQUIREMENT("REQ-04")
static void
timeout_shrinks_the_window_to_one_packet(void **state)
{
	struct cc cc = fresh();

	cc_on_timeout(&cc, &flow, 2);
	assert_int_equal(cc.window_pkts, 1);
	cc_on_loss(&cc, &flow, 2); /* a loss opens nothing */
	assert_int_equal(cc.window_pkts, 1);
	assert_int_equal(acks_until_open(&cc), 7);
}

REQUIREMENT("REQ-04")
static void
spurious_probe_keeps_the_window(void **state)
{
	struct cc cc = fresh();

	cc_on_loss(&cc, &flow, 2);
	cc_on_probe(&cc, &flow, 3, false);
	assert_int_equal(cc.window_pkts, 1);
	cc_on_probe(&cc, &flow, 4, true);
	assert_int_equal(cc.window_pkts, 1);
	cc_on_ack(&cc, &flow, 5, &(struct cc_ack){.rtt_ns = 0});
	cc_on_spurious(&cc, &flow, 5);
	assert_int_equal(cc.window_pkts, CC_AGAIN_PKTS);
	cc_on_timeout(&cc, &flow, 6);
	cc_on_probe(&cc, &flow, 7, false); /* relative to the current window */
	cc_on_spurious(&cc, &flow, 8);
	assert_int_equal(cc.window_pkts, 1);
}

/* The table's hooks and the fast path do the same. */
static void
cc_table_agrees_with_the_fast_path(void **state)
{
	uint32_t w;

	for (w = 1; w <= CC_WINDOW_PKTS; w++) {
		struct cc a = {.window_pkts = (uint8_t)w, .most_pkts = CC_WINDOW_PKTS}, b = a;
		struct cc_ack ack = {.rtt_ns = 0};

		cc_fixed_on_ack(&a);
		cc_on_ack(&b, &flow, 1, &ack);
		assert_int_equal(a.window_pkts, b.window_pkts);
		assert_int_equal(a.window_pkts, 2 * w < CC_WINDOW_PKTS ? 2 * w : CC_WINDOW_PKTS);
	}
	assert_string_equal(cc_policies[CC_FIXED]->name, "fixed");
}

/* It has no hooks for these, and sets no pace. */
static void
fixed_takes_no_reports_of_packets_and_cnps(void **state)
{
	struct cc cc = fresh();
	struct cc_flow before = flow;

	cc_on_sent(&cc, &flow, 2, 1000);
	assert_false(cc_on_cnp(&cc, &flow, 3));
	assert_int_equal(cc.window_pkts, CC_WINDOW_PKTS);
	assert_memory_equal(&flow, &before, sizeof(before));
	assert_true(flow.next_send_ns == 0);
}

static void
policies_are_those_of_the_program(void **state)
{
	assert_true(cc_policy_exists(CC_FIXED));
	assert_true(cc_policy_exists(CC_DCQCN));
	assert_true(cc_policy_exists(CC_TIMELY));
	assert_false(cc_policy_exists(CC_TEST)); /* this program has no cc_test */
	assert_false(cc_policy_exists(CC_POLICIES));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sequence_nak_shrinks_the_window),
		cmocka_unit_test(timeout_shrinks_the_window_to_one_packet),
		cmocka_unit_test(spurious_probe_keeps_the_window),
		cmocka_unit_test(cc_table_agrees_with_the_fast_path),
		cmocka_unit_test(fixed_takes_no_reports_of_packets_and_cnps),
		cmocka_unit_test(policies_are_those_of_the_program),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
