/* SPDX-License-Identifier: BSD-3-Clause */
/* The congestion policy `fixed`: the window before and after each event (REQ-04, REQ-05). */
#include "cc/cc.h"
#include "../../kit/unit.h"

static struct cc_flow flow; /* the policy uses little of it */

static struct cc
fresh(void)
{
	struct cc cc = {0};

	flow = (struct cc_flow){.param.policy = CC_FIXED};
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
		uint16_t was = cc->window_pkts;

		cc_on_ack(cc, &flow, 2, &(struct cc_ack){.rtt_ns = 1000});
		assert_int_equal(cc->window_pkts, was * 2);
	}
	cc_on_ack(cc, &flow, 2, &(struct cc_ack){.rtt_ns = 1000});
	assert_int_equal(cc->window_pkts, CC_WINDOW_PKTS);
	return n;
}

REQUIREMENT("REQ-05")
UNIT_TEST(sequence_nak_shrinks_the_window)
{
	struct cc cc = fresh();

	cc_on_loss(&cc, &flow, 2);
	assert_int_equal(cc.window_pkts, CC_AGAIN_PKTS);
	assert_int_equal(acks_until_open(&cc), 3);
}

REQUIREMENT("REQ-04")
UNIT_TEST(timeout_shrinks_the_window_to_one_packet)
{
	struct cc cc = fresh();

	cc_on_timeout(&cc, &flow, 2);
	assert_int_equal(cc.window_pkts, 1);
	cc_on_loss(&cc, &flow, 2); /* a loss opens nothing */
	assert_int_equal(cc.window_pkts, 1);
	assert_int_equal(acks_until_open(&cc), 7);
}

REQUIREMENT("REQ-04")
UNIT_TEST(spurious_probe_keeps_the_window)
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
UNIT_TEST(cc_table_agrees_with_the_fast_path)
{
	uint32_t w;

	for (w = 1; w <= CC_WINDOW_PKTS; w++) {
		struct cc a = {.window_pkts = (uint16_t)w, .most_pkts = CC_WINDOW_PKTS}, b = a;
		struct cc_ack ack = {.rtt_ns = 0};

		cc_fixed_on_ack(&a);
		cc_on_ack(&b, &flow, 1, &ack);
		assert_int_equal(a.window_pkts, b.window_pkts);
		assert_int_equal(a.window_pkts, 2 * w < CC_WINDOW_PKTS ? 2 * w : CC_WINDOW_PKTS);
	}
	assert_string_equal(cc_policies[CC_FIXED]->name, "fixed");
}

/* It has no hooks for these, and sets no pace. */
UNIT_TEST(fixed_takes_no_reports_of_packets_and_cnps)
{
	struct cc cc = fresh();
	struct cc_flow before = flow;

	cc_on_sent(&cc, &flow, 2, 1000);
	assert_false(cc_on_cnp(&cc, &flow, 3));
	assert_int_equal(cc.window_pkts, CC_WINDOW_PKTS);
	assert_memory_equal(&flow, &before, sizeof(before));
	assert_true(flow.next_send_ns == 0);
}

/* Round trips: one of us, then as many as are missing of at least as long. */
static void
measured(struct cc *cc, uint32_t us)
{
	for (uint32_t i = 0; i < CC_ROUND_TRIPS; i++) {
		assert_true(cc_times(&flow));
		cc_on_rtt(cc, &flow, 2, us * 1000 * (i % 3 + 1));
	}
	assert_false(cc_times(&flow));
}

/* Only if the peer takes it: the shortest of some round trips decides, within the limits. */
UNIT_TEST(window_grows_with_the_round_trip)
{
	static const struct {
		uint32_t us, pkts;
	} path[] = {{10, CC_WINDOW_PKTS}, {64, CC_WINDOW_PKTS},  {100, 200},
		    {500, 1000},          {10000, CC_WIDE_PKTS}, {1000000, CC_WIDE_PKTS}};

	for (unsigned i = 0; i < sizeof(path) / sizeof(path[0]); i++) {
		struct cc cc = fresh();

		assert_false(cc_times(&flow));
		cc_on_rtt(&cc, &flow, 2, 1000000); /* the one that every path gets */
		assert_int_equal(cc.most_pkts, CC_WINDOW_PKTS);
		cc_fixed_allow(&cc, &flow, CC_WIDE_PKTS);
		measured(&cc, path[i].us);
		assert_int_equal(cc.most_pkts, path[i].pkts);
		assert_int_equal(cc.window_pkts, CC_WINDOW_PKTS);
		for (uint32_t w = CC_WINDOW_PKTS; w < path[i].pkts; w *= 2)
			cc_fixed_on_ack(&cc);
		assert_int_equal(cc.window_pkts, path[i].pkts);
		cc_fixed_allow(&cc, &flow, CC_WINDOW_PKTS);
		assert_int_equal(cc.window_pkts, CC_WINDOW_PKTS);
		assert_int_equal(cc.most_pkts, CC_WINDOW_PKTS);
		assert_false(cc_times(&flow));
	}
}

/* A NAK, a timeout and a SACK halve a wide window, but not below the ordinary one. */
UNIT_TEST(losses_halve_a_wide_window)
{
	struct cc cc = fresh();

	cc_fixed_allow(&cc, &flow, CC_WIDE_PKTS);
	measured(&cc, 500);
	cc_on_loss(&cc, &flow, 3);
	assert_int_equal(cc.window_pkts, CC_AGAIN_PKTS);
	assert_int_equal(cc.most_pkts, 500);
	cc_on_timeout(&cc, &flow, 4);
	assert_int_equal(cc.window_pkts, 1);
	assert_int_equal(cc.most_pkts, 250);
	/* Also one that a needless probe has made small for a while. */
	cc.window_pkts = 250;
	cc_on_probe(&cc, &flow, 5, false);
	assert_true(cc_fixed_narrow(&cc));
	cc_on_spurious(&cc, &flow, 6);
	assert_int_equal(cc.window_pkts, CC_WINDOW_PKTS);
	assert_int_equal(cc.most_pkts, CC_WINDOW_PKTS);
	assert_false(cc_fixed_narrow(&cc));
	assert_int_equal(cc.most_pkts, CC_WINDOW_PKTS);
	for (uint32_t w = CC_WINDOW_PKTS + 15; w < 1000; w += 15) { /* 1000 / 64 */
		assert_false(cc_fixed_uncap(&cc, &flow));
		assert_int_equal(cc.most_pkts, w);
	}
	assert_true(cc_fixed_uncap(&cc, &flow));
	assert_true(cc_fixed_uncap(&cc, &flow));
	assert_int_equal(cc.most_pkts, 1000);
}

/* A peer with a small receive buffer limits what the round trip would allow. */
UNIT_TEST(wide_window_is_limited_to_what_the_peer_takes)
{
	struct cc cc = fresh();

	cc_fixed_allow(&cc, &flow, 300);
	measured(&cc, 500);
	assert_int_equal(cc.most_pkts, 300);
	assert_true(cc_fixed_narrow(&cc));
	assert_int_equal(cc.most_pkts, 150);
	for (uint32_t w = 150 + 4; w < 300; w += 4) /* 300 / 64 */
		assert_false(cc_fixed_uncap(&cc, &flow));
	assert_true(cc_fixed_uncap(&cc, &flow));
	assert_int_equal(cc.most_pkts, 300);
	cc_fixed_allow(&cc, &flow, 300);
	measured(&cc, 100); /* a short path needs less */
	assert_int_equal(cc.most_pkts, 200);
}

/* A peer whose buffer holds less than the ordinary window gets that, whatever the path is. */
UNIT_TEST(window_is_less_if_the_peer_takes_less)
{
	struct cc cc = fresh();

	cc_fixed_allow(&cc, &flow, 60);
	assert_false(cc_times(&flow));
	assert_int_equal(cc.most_pkts, 60);
	assert_int_equal(cc.window_pkts, 60);
	cc_on_timeout(&cc, &flow, 2);
	for (uint32_t w = 2; w < 60; w *= 2) {
		cc_fixed_on_ack(&cc);
		assert_int_equal(cc.window_pkts, w);
	}
	cc_fixed_on_ack(&cc);
	assert_int_equal(cc.window_pkts, 60);
	assert_false(cc_fixed_narrow(&cc));
	cc_fixed_cap(&cc);
	for (uint32_t w = 31; w < 60; w++) {
		assert_false(cc_fixed_uncap(&cc, &flow));
		assert_int_equal(cc.most_pkts, w);
	}
	assert_true(cc_fixed_uncap(&cc, &flow));
	assert_int_equal(cc.most_pkts, 60);
	/* A larger one opens at once, unless a loss has reduced it. */
	cc_fixed_allow(&cc, &flow, CC_WINDOW_PKTS);
	assert_int_equal(cc.most_pkts, CC_WINDOW_PKTS);
	cc_fixed_cap(&cc);
	cc_fixed_allow(&cc, &flow, 100);
	assert_int_equal(cc.most_pkts, CC_WINDOW_PKTS / 2);
	cc_fixed_allow(&cc, &flow, 60);
	assert_int_equal(cc.most_pkts, 60);
}

/* A window that a loss has reduced before the path is known stays: it grows by cc_fixed_uncap. */
UNIT_TEST(reduced_window_does_not_jump)
{
	struct cc cc = fresh();

	cc_fixed_allow(&cc, &flow, CC_WIDE_PKTS);
	cc_fixed_cap(&cc);
	measured(&cc, 500);
	assert_int_equal(cc.most_pkts, CC_WINDOW_PKTS / 2);
	assert_false(cc_fixed_uncap(&cc, &flow));
	assert_int_equal(cc.most_pkts, CC_WINDOW_PKTS / 2 + 1);
}

UNIT_TEST(policies_are_those_of_the_program)
{
	assert_true(cc_policy_exists(CC_FIXED));
	assert_true(cc_policy_exists(CC_DCQCN));
	assert_true(cc_policy_exists(CC_TIMELY));
	assert_false(cc_policy_exists(CC_TEST)); /* this program has no cc_test */
	assert_false(cc_policy_exists(CC_POLICIES));
}
