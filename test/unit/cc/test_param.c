/* SPDX-License-Identifier: BSD-3-Clause */
/* Parameters of congestion policies as text: what is legal, and what the errors say (CC-04). */
#include <stdio.h>
#include <string.h>
#include "cc/param.h"
#include "../../kit/unit.h"

static char err[256];

static struct cc_param
good(const char *text, uint32_t link_kbps)
{
	struct cc_param p;

	if (!cc_param_parse(&p, text, err, sizeof(err)) ||
	    !cc_param_fill(&p, link_kbps, err, sizeof(err)))
		fail_msg("%s: %s", text, err);
	return p;
}

static void
bad(const char *text, const char *message)
{
	struct cc_param p;

	if (cc_param_parse(&p, text, err, sizeof(err)) && cc_param_fill(&p, 0, err, sizeof(err)))
		fail_msg("%s was accepted", text);
	assert_string_equal(err, message);
}

REQUIREMENT("CC-04")
UNIT_TEST(defaults_follow_the_link)
{
	struct cc_param p = good("dcqcn", 100000000);

	assert_int_equal(p.policy, CC_DCQCN);
	assert_int_equal(p.link_kbps, 100000000);
	assert_int_equal(p.max_kbps, 100000000);
	assert_int_equal(p.min_kbps, 100000);
	assert_int_equal(p.ai_kbps, 20000); /* 5 Mb/s per 25 Gb/s */
	assert_int_equal(p.hai_kbps, 200000);
	assert_int_equal(p.alpha_ns, 1000);
	assert_int_equal(p.decrease_ns, 4000);
	assert_int_equal(p.increase_ns, 300000);
	p = good("dcqcn:rate=25000", 100000000);
	assert_int_equal(p.link_kbps, 25000000);
	assert_int_equal(p.ai_kbps, 5000);
	p = good("dcqcn", 0);
	assert_int_equal(p.link_kbps, CC_RATE_KBPS);
	p = good("dcqcn:rate=1", 0);
	assert_int_equal(p.min_kbps, 1000);
	p = good("fixed", 0);
	assert_int_equal(p.policy, CC_FIXED);
}

REQUIREMENT("CC-04")
UNIT_TEST(defaults_follow_the_policy)
{
	struct cc_param p = good("dcqcn", 0);

	assert_int_equal(p.rounds, 5);
	assert_int_equal(p.window_ns, 200000);
	assert_int_equal(p.g_inv, 256);
	p = good("dcqcn-paper", 0);
	assert_int_equal(p.rounds, 5);
	assert_true(p.clamp);
	assert_int_equal(p.window_ns, 200000);
	assert_int_equal(p.alpha_ns, 50000);
	assert_int_equal(p.decrease_ns, 50000);
	assert_int_equal(p.increase_ns, 55000);
	assert_int_equal(p.byte_kib, 10240);
	assert_int_equal(p.g_inv, 256);
	p = good("swift", 0);
	assert_int_equal(p.window_ns, 200000);
	assert_int_equal(p.target_ns, 50000);
	p = good("timely:target=30", 0);
	assert_int_equal(p.window_ns, 200000);
	assert_int_equal(p.target_ns, 30000);
	assert_int_equal(p.high_ns, 1000000);
	assert_int_equal(good("timely", 0).target_ns, 50000);
}

REQUIREMENT("CC-04")
UNIT_TEST(wrong_texts_are_named)
{
	bad("cubic", "'cubic' is not a congestion policy; legal: fixed, dcqcn, dcqcn-paper, swift, "
		     "timely");
	bad("", "'' is not a congestion policy; legal: fixed, dcqcn, dcqcn-paper, swift, timely");
	bad("fixed:rate=1", "policy fixed has no parameter 'rate'; legal: none");
	bad("swift:g=2", "policy swift has no parameter 'g'; legal: rate, limit, min, window, "
			 "target, add");
	bad("swift:", "policy swift has no parameter ''; legal: rate, limit, min, window, target, "
		      "add");
	bad("swift:rate=1:rate=2", "policy swift: rate is given twice");
	bad("swift:target=30:window=20:target=30", "policy swift: target is given twice");
	bad("swift:target=0", "policy swift: 'target=0' is not target=1 .. 1000000 us");
	bad("swift:target", "policy swift: 'target' is not target=1 .. 1000000 us");
	bad("swift:target=-1", "policy swift: 'target=-1' is not target=1 .. 1000000 us");
	bad("swift:target=4294967297",
	    "policy swift: 'target=4294967297' is not target=1 .. 1000000 us");
	bad("swift:target=99999999999999999999999",
	    "policy swift: 'target=99999999999999999999999' is not target=1 .. 1000000 us");
	bad("dcqcn:rate=900000", "policy dcqcn: 'rate=900000' is not rate=1 .. 800000 Mb/s");
	bad("dcqcn:g=1", "policy dcqcn: 'g=1' is not g=2 .. 65536 (g is 1 / this)");
	bad("dcqcn:limit=100:min=200",
	    "min=200, limit=100, rate=10000 Mb/s: legal: min <= limit <= rate");
	bad("dcqcn:limit=20000",
	    "min=20, limit=20000, rate=10000 Mb/s: legal: min <= limit <= rate");
	bad("timely:target=100:high=10", "target=100, high=10 us: legal: target <= high");
}

/* The longest parameters, at the slowest and fastest rates, overflow nothing (UBSan checks). */
UNIT_TEST(extreme_parameters_work)
{
	static const char *const text[] = {
		("dcqcn:rate=800000:limit=800000:min=800000:window=1000000:alpha=1000000:"
		 "decrease=1000000:increase=1000000:add=800000:hyper=800000:kib=1073741824:g="
		 "65536"),
		"dcqcn:rate=800000:min=1:window=1000000:increase=1:alpha=1:decrease=1:g=2",
		"dcqcn:rate=1:min=1:window=1:increase=1000000:alpha=1000000:decrease=1000000",
		"dcqcn-paper:rate=800000:hyper=800000:add=800000:kib=1",
		"swift:rate=800000:min=1:target=1:window=1000000:add=800000",
		"swift:rate=1:target=1000000:window=1",
		"timely:rate=800000:min=1:target=1:high=1:add=800000",
		"timely:rate=1:target=1000000:high=1000000",
	};
	static const uint32_t rtt[] = {0, 1, 50000, 1000000000, UINT32_MAX};

	for (uint32_t i = 0; i < sizeof(text) / sizeof(text[0]); i++) {
		struct cc_flow flow = {.param = good(text[i], 0)};
		struct cc cc = {0};
		uint64_t now = 1;

		flow.param.mtu = i % 2 ? 256 : 4096;
		cc_init(&cc, &flow, now);
		for (uint32_t k = 0; k < 2000; k++) {
			now += k % 100 == 99 ? 1000000000ull : k * 100;
			cc_on_sent(&cc, &flow, now, 4096);
			cc_on_rtt(&cc, &flow, now, rtt[k / 3 % 5]);
			if (k % 7 == 0)
				cc_on_cnp(&cc, &flow, now);
			if (k % 50 == 0)
				cc_on_loss(&cc, &flow, now);
			if (k % 90 == 0)
				cc_on_timeout(&cc, &flow, now);
			cc_on_ack(&cc, &flow, now, &(struct cc_ack){.bytes = k % 3 ? 0 : 1u << 31});
			assert_in_range(cc.window_pkts, 1, cc.most_pkts);
			assert_in_range(cc.most_pkts, 2, CC_WINDOW_PKTS);
			/* never stopped: 4096 bytes at 1 Mb/s take 33 ms */
			assert_true(flow.next_send_ns <= now + 33000000);
		}
	}
}
