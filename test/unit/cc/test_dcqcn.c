/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The congestion policy `dcqcn` against a plain model of the published rules: floating point, a
 * clock that steps through every microsecond, no lazy updates (CC-03, CC-07).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "cc/param.h"
#include "../../kit/unit.h"

#define US   1000ull
#define MS   1000000ull
#define LINK 25000000u /* kb/s */
#define MTU  4096u

/* The reference. Rates in kb/s, times in us. */
struct model {
	double rate, target, alpha, max, min, g, ai, hai, kib, bytes;
	int t_stage, b_stage, rounds, clamp;
	uint64_t alpha_every, cut_every, inc_every;
	uint64_t alpha_at, cut_at, inc_at; /* next ones */
	int began, cnp_alpha, cnp_cut;
};

static void
model_init(struct model *m, const struct cc_param *p)
{
	*m = (struct model){
		.rate = p->max_kbps,
		.target = p->max_kbps,
		.max = p->max_kbps,
		.min = p->min_kbps,
		.g = 1.0 / p->g_inv,
		.ai = p->ai_kbps,
		.hai = p->hai_kbps,
		.kib = p->byte_kib,
		.rounds = p->rounds,
		.clamp = p->clamp,
		.alpha_every = p->alpha_ns / US,
		.cut_every = p->decrease_ns / US,
		.inc_every = p->increase_ns / US,
	};
}

static void
model_raise(struct model *m)
{
	int most = m->t_stage > m->b_stage ? m->t_stage : m->b_stage;
	int least = m->t_stage < m->b_stage ? m->t_stage : m->b_stage;

	if (m->kib == 0)
		least = m->t_stage;
	if (most >= m->rounds)
		m->target += least > m->rounds ? m->hai : m->ai;
	m->target = fmin(m->target, m->max);
	m->rate = (m->rate + m->target) / 2;
}

static void
model_cut(struct model *m, uint64_t us)
{
	if (m->clamp || m->t_stage > 0)
		m->target = m->rate;
	m->rate = fmax(m->min, m->rate * (1 - m->alpha / 2));
	m->t_stage = m->b_stage = 0;
	m->bytes = 0;
	m->inc_at = us + m->inc_every;
	m->cut_at = us + m->cut_every;
	m->cnp_cut = 0;
}

static void
model_cnp(struct model *m, uint64_t us)
{
	if (!m->began) {
		m->began = 1;
		m->alpha = 1;
		m->alpha_at = us + m->alpha_every;
	}
	m->cnp_alpha = m->cnp_cut = 1;
	if (us >= m->cut_at)
		model_cut(m, us);
}

/* Runs the timers that are due in one microsecond. */
static void
model_step(struct model *m, uint64_t us)
{
	if (!m->began)
		return;
	if (us == m->alpha_at) {
		m->alpha = (1 - m->g) * m->alpha + (m->cnp_alpha ? m->g : 0);
		m->cnp_alpha = 0;
		m->alpha_at += m->alpha_every;
	}
	if (us == m->inc_at) {
		model_raise(m);
		m->t_stage++;
		m->inc_at += m->inc_every;
	}
	if (m->cnp_cut && us == m->cut_at)
		model_cut(m, us);
	m->bytes += m->rate / 8000; /* bytes in a us */
	if (m->kib != 0 && m->bytes >= 1024 * m->kib) {
		m->bytes = 0;
		model_raise(m);
		m->b_stage++;
	}
}

static struct cc_param
params(const char *text)
{
	struct cc_param p;
	char err[256];

	assert_true(cc_param_parse(&p, text, err, sizeof(err)));
	assert_true(cc_param_fill(&p, LINK, err, sizeof(err)));
	p.mtu = MTU;
	return p;
}

static struct cc cc;
static struct cc_flow flow;

static void
begin(const char *text, uint64_t now_ns)
{
	cc = (struct cc){0};
	flow = (struct cc_flow){.param = params(text)};
	cc_init(&cc, &flow, now_ns);
}

/* Sends as the pace allows from *now until end_ns. Returns the bytes. */
static uint64_t
send_until(uint64_t *now_ns, uint64_t end_ns)
{
	uint64_t sent = 0, full_ns = MTU * 8000000ull / LINK;

	while (*now_ns < end_ns) {
		if (flow.next_send_ns > *now_ns) {
			*now_ns = flow.next_send_ns < end_ns ? flow.next_send_ns : end_ns;
			continue;
		}
		if (flow.limits)
			cc_on_sent(&cc, &flow, *now_ns, MTU);
		sent += MTU;
		if (flow.next_send_ns <= *now_ns)
			*now_ns += full_ns;
	}
	return sent;
}

static void
near(double value, double expected, double part)
{
	if (fabs(value - expected) > part * expected)
		fail_msg("%.0f is not within %.0f %% of %.0f", value, part * 100, expected);
}

/* CNPs at these us, then silence: the rate at every ms, and over every ms, follows the model. */
static void
follow(const char *text, const uint64_t *cnps, uint32_t n, uint64_t ms)
{
	struct model m;
	uint64_t now = MS, us = 1000;
	uint32_t k = 0;
	int slow = 0;
	double back[2] = {0}; /* recovery: us from the last CNP to nine tenths of the full rate */

	begin(text, now);
	model_init(&m, &flow.param);
	for (uint64_t i = 1; i <= 10 * ms; i++) {
		uint64_t end_us = 1000 + i * 100, sent = 0;
		double expected = 0;

		while (us < end_us) {
			if (k < n && cnps[k] + 1000 == us) {
				sent += send_until(&now, us * US);
				now = us * US;
				cc_on_cnp(&cc, &flow, now);
				model_cnp(&m, us);
				k++;
			}
			us++;
			model_step(&m, us);
			expected += fmin(m.rate, m.max) / 8000;
		}
		sent += send_until(&now, us * US);
		/* The gap behind a packet is that of the rate at which it was sent. */
		if (expected > 40 * MTU && --slow <= 0)
			near((double)sent, expected, 0.10);
		cc_on_ack(&cc, &flow, now, &(struct cc_ack){.bytes = 0}); /* brings it up to date */
		near(flow.dcqcn.rate_kbps, m.rate, 0.15);
		if (k == n && back[0] == 0 && flow.dcqcn.rate_kbps >= 0.9 * m.max)
			back[0] = (double)(us - 1000 - cnps[n - 1]);
		if (k == n && back[1] == 0 && m.rate >= 0.9 * m.max)
			back[1] = (double)(us - 1000 - cnps[n - 1]);
		slow = expected < 10 * MTU ? 15 : slow;
		near(flow.dcqcn.alpha / (double)CC_DCQCN_ONE + 0.01, m.alpha + 0.01, 0.05);
	}
	assert_int_equal(k, n);
	if (back[1] != 0)
		near(back[0], back[1], 0.15);
}

REQUIREMENT("CC-03", "CC-07")
UNIT_TEST(one_cnp_and_the_recovery_follow_the_rules)
{
	static const uint64_t one[] = {50};

	follow("dcqcn", one, 1, 6);
	follow("dcqcn-paper", one, 1, 6);
}

REQUIREMENT("CC-03", "CC-07")
UNIT_TEST(rows_of_cnps_follow_the_rules)
{
	uint64_t cnps[40];

	for (uint32_t i = 0; i < 40; i++)
		cnps[i] = 50 + 50 * i; /* 2 ms at the usual interval */
	follow("dcqcn", cnps, 40, 60);
	follow("dcqcn-paper", cnps, 40, 30);
	for (uint32_t i = 0; i < 40; i++)
		cnps[i] = 50 + 3 * i; /* more often than cuts are allowed */
	follow("dcqcn", cnps, 40, 20);
	for (uint32_t i = 0; i < 40; i++)
		cnps[i] = 50 + 700 * i; /* in additive increase */
	follow("dcqcn", cnps, 40, 60);
	follow("dcqcn-paper:kib=1000", cnps, 40, 60);
}

REQUIREMENT("CC-03")
UNIT_TEST(a_flood_of_cnps_leaves_the_minimum_rate)
{
	uint64_t now = MS, i, sent;

	begin("dcqcn", now);
	for (i = 0; i < 100000; i++) {
		now += US;
		cc_on_cnp(&cc, &flow, now);
		assert_true(flow.dcqcn.rate_kbps >= flow.param.min_kbps);
	}
	assert_int_equal(flow.dcqcn.rate_kbps, flow.param.min_kbps);
	assert_int_equal(flow.param.min_kbps, 25000);
	sent = send_until(&now, now + US); /* the first packet may leave at once */
	assert_true(sent <= 2 * MTU);
	/* It does not stop: the next packet leaves in the time that the minimum rate needs. */
	assert_true(flow.next_send_ns - now <= MTU * 8000000ull / flow.param.min_kbps);
}

/* From the minimum rate: the hyper step (50 Mb/s) every 300 us needs 150 ms for 25 Gb/s. */
REQUIREMENT("CC-03")
UNIT_TEST(recovery_is_complete_in_the_stated_time)
{
	uint64_t now = MS, end, i;

	begin("dcqcn", now);
	for (i = 0; i < 100000; i++) {
		now += US;
		cc_on_cnp(&cc, &flow, now);
	}
	end = now + 160 * MS;
	/* Its target may be the rate before the flood: then it recovers sooner. */
	flow.dcqcn.target_kbps = flow.dcqcn.rate_kbps;
	send_until(&now, end);
	assert_false(flow.limits);
	assert_int_equal(flow.dcqcn.rate_kbps, LINK);
	assert_true(flow.next_send_ns == 0);
	/* After one CNP: ten halvings of the difference. */
	begin("dcqcn", now);
	cc_on_cnp(&cc, &flow, now);
	assert_in_range(flow.dcqcn.rate_kbps, LINK / 2 - 1, LINK / 2 + 1);
	end = now + 3 * MS + 100 * US;
	send_until(&now, end);
	assert_false(flow.limits);
}

/* The work of one event is bounded, however long the silence before it. */
UNIT_TEST(a_long_silence_is_caught_up)
{
	uint64_t now = MS;

	begin("dcqcn:increase=1:min=1:hyper=1:add=1", now);
	for (uint32_t i = 0; i < 10000; i++)
		cc_on_cnp(&cc, &flow, now += 4 * US);
	flow.dcqcn.target_kbps = flow.dcqcn.rate_kbps;
	now += 3600000 * MS;
	cc_on_sent(&cc, &flow, now, MTU);
	assert_true(flow.limits);
	assert_int_equal(flow.dcqcn.alpha, 0);
	assert_true(flow.dcqcn.rate_kbps >= 55000 && flow.dcqcn.rate_kbps < 80000);
	for (uint32_t i = 0; i < 1000; i++)
		cc_on_ack(&cc, &flow, now, &(struct cc_ack){.bytes = MTU});
	assert_false(flow.limits);
}

UNIT_TEST(a_rate_limit_is_always_paced)
{
	uint64_t now = MS, sent;

	begin("dcqcn:limit=1000", now);
	assert_true(flow.limits);
	sent = send_until(&now, now + 10 * MS);
	near((double)sent, 1000.0 * 1000 * 10 / 8, 0.01);
}

UNIT_TEST(the_window_is_the_product_of_bandwidth_and_delay)
{
	begin("dcqcn:window=20", 1);
	assert_int_equal(cc.window_pkts, 15); /* 62.5 KB of 4 KiB */
	begin("dcqcn:window=1", 1);
	assert_int_equal(cc.window_pkts, 2);
	begin("dcqcn:window=1000", 1);
	assert_int_equal(cc.window_pkts, CC_WINDOW_PKTS);
	begin("dcqcn:window=20", 1);
	cc_on_timeout(&cc, &flow, 2);
	assert_int_equal(cc.window_pkts, 1);
	for (uint32_t i = 0; i < 10; i++)
		cc_on_ack(&cc, &flow, 3, &(struct cc_ack){.bytes = MTU});
	assert_int_equal(cc.window_pkts, 15);
}
