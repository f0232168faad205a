/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The policies `swift` and `timely`: single events, and flows that share a queue. The queue is a
 * counter of bytes that a link drains (CC-03, CC-07).
 */
#include <string.h>
#include "cc/param.h"
#include "../../kit/unit.h"

#define US   1000ull
#define MS   1000000ull
#define LINK 25000000u /* kb/s */
#define MTU  4096u
#define BASE (10 * US) /* round trip without a queue */

struct sender {
	struct cc cc;
	struct cc_flow flow;
	uint32_t out; /* packets unacknowledged */
	uint64_t acked;
};

static void
begin(struct sender *s, const char *text, uint64_t now_ns)
{
	char err[256];

	memset(s, 0, sizeof(*s));
	assert_true(cc_param_parse(&s->flow.param, text, err, sizeof(err)));
	assert_true(cc_param_fill(&s->flow.param, LINK, err, sizeof(err)));
	s->flow.param.mtu = MTU;
	cc_init(&s->cc, &s->flow, now_ns);
}

static void
acked(struct sender *s, uint64_t now_ns, uint32_t rtt_ns)
{
	cc_on_rtt(&s->cc, &s->flow, now_ns, rtt_ns);
	cc_on_ack(&s->cc, &s->flow, now_ns, &(struct cc_ack){.bytes = MTU, .rtt_ns = rtt_ns});
}

UNIT_TEST(swift_cuts_once_a_round_trip)
{
	struct sender s;
	uint32_t full, once;

	begin(&s, "swift", MS);
	full = s.flow.swift.cwnd;
	assert_false(s.flow.limits);
	acked(&s, 2 * MS, 40 * US);
	assert_int_equal(s.flow.swift.cwnd, full);
	assert_false(s.flow.limits);
	acked(&s, 3 * MS, 100 * US);
	once = s.flow.swift.cwnd;
	assert_true(s.flow.limits);
	/* 0.8 of the excess, of which flow scaling takes some */
	assert_in_range(once, full * 60 / 100, full * 66 / 100);
	acked(&s, 3 * MS + 50 * US, 100 * US);
	assert_int_equal(s.flow.swift.cwnd, once);
	acked(&s, 20 * MS, 10000 * US);
	assert_int_equal(s.flow.swift.cwnd, once - once / 2); /* no more than half */
	assert_int_equal(s.cc.window_pkts, (s.flow.swift.cwnd + CC_SWIFT_ONE - 1) / CC_SWIFT_ONE);
}

REQUIREMENT("CC-03")
UNIT_TEST(swift_paces_fractions_of_a_packet)
{
	struct sender s;
	uint64_t now = MS;

	begin(&s, "swift", now);
	for (uint32_t i = 0; i < 40; i++)
		acked(&s, now += 500 * US, 500 * US);
	assert_int_equal(s.cc.window_pkts, 1);
	assert_true(s.flow.swift.cwnd < CC_SWIFT_ONE / 2);
	cc_on_sent(&s.cc, &s.flow, now, MTU);
	/* One packet takes longer than a round trip, but no longer than at the minimum rate. */
	assert_in_range(s.flow.next_send_ns - now, 990 * US,
			MTU * 8000000ull / s.flow.param.min_kbps);
	/* Short round trips raise it to the full window again, which sets no pace. */
	for (uint32_t i = 0; i < 200000 && s.flow.limits; i++)
		acked(&s, now += 10 * US, 20 * US);
	assert_false(s.flow.limits);
	assert_int_equal(s.cc.window_pkts, s.cc.most_pkts);
	assert_true(s.flow.next_send_ns == 0);
}

/* A gap that a long delay or a low rate has set becomes shorter with them, never longer. */
UNIT_TEST(gaps_shrink_when_the_network_recovers)
{
	static const char *const policies[] = {"swift", "timely"};

	for (uint32_t k = 0; k < 2; k++) {
		struct sender s;
		uint64_t now = MS, sent, was, first;

		begin(&s, policies[k], now);
		for (uint32_t i = 0; i < 40; i++)
			acked(&s, now += 2 * MS, 2000 * US);
		sent = s.flow.next_send_ns > now ? s.flow.next_send_ns : now;
		cc_on_sent(&s.cc, &s.flow, sent, 16 * MTU);
		first = was = s.flow.next_send_ns;
		assert_true(was > sent + 2 * MS);
		acked(&s, sent + US, 2000 * US);
		assert_true(s.flow.next_send_ns == was);
		for (uint32_t i = 0; i < 5; i++) {
			acked(&s, sent + (10 + i) * 10 * US, 10 * US);
			assert_true(s.flow.next_send_ns <= was);
			was = s.flow.next_send_ns;
		}
		assert_true(was - sent < (first - sent) / 2);
	}
}

UNIT_TEST(swift_losses_count_with_long_delays_only)
{
	struct sender s;
	uint32_t was;

	begin(&s, "swift", MS);
	acked(&s, 2 * MS, 20 * US);
	was = s.flow.swift.cwnd;
	cc_on_loss(&s.cc, &s.flow, 3 * MS);
	assert_int_equal(s.flow.swift.cwnd, was);
	assert_int_equal(s.cc.window_pkts, CC_AGAIN_PKTS);
	acked(&s, 4 * MS, 45 * US);
	cc_on_loss(&s.cc, &s.flow, 5 * MS);
	assert_int_equal(s.flow.swift.cwnd, was / 2);
	cc_on_timeout(&s.cc, &s.flow, 6 * MS);
	assert_int_equal(s.flow.swift.cwnd, was / 4);
	assert_int_equal(s.cc.window_pkts, 1);
}

UNIT_TEST(timely_rises_and_falls)
{
	struct sender s;
	uint32_t was;

	begin(&s, "timely", MS);
	acked(&s, 2 * MS, 40 * US);
	assert_false(s.flow.limits);
	acked(&s, 3 * MS, 200 * US); /* growing, above the target */
	was = s.flow.timely.rate_kbps;
	assert_true(s.flow.limits && was < LINK);
	acked(&s, 4 * MS, 5000 * US); /* above the limit */
	assert_true(s.flow.timely.rate_kbps < was);
	assert_true(s.flow.timely.rate_kbps >= was / 2);
	was = s.flow.timely.rate_kbps;
	acked(&s, 5 * MS, 30 * US);
	assert_int_equal(s.flow.timely.rate_kbps, was + 40000);
	/* Again, at once: a small share of the step. */
	was = s.flow.timely.rate_kbps;
	acked(&s, 5 * MS + 3 * US, 30 * US);
	assert_in_range(s.flow.timely.rate_kbps, was + 3900, was + 4100);
	cc_on_timeout(&s.cc, &s.flow, 6 * MS);
	assert_in_range(s.flow.timely.rate_kbps, was / 2, (was + 4100) / 2);
}

/* Above the limit the rate falls although the round trips become shorter. */
UNIT_TEST(timely_falls_above_the_limit_whatever_the_trend)
{
	struct sender s;
	uint32_t was;

	begin(&s, "timely", MS);
	acked(&s, 2 * MS, 3000 * US);
	was = s.flow.timely.rate_kbps;
	acked(&s, 4 * MS, 1010 * US);
	assert_int_equal(s.flow.timely.rate_kbps, was / 2);
}

/* Retransmitted packets give no round trip: then losses show the congestion. */
REQUIREMENT("CC-06")
UNIT_TEST(timely_losses_count_without_round_trips_only)
{
	struct sender s;

	begin(&s, "timely", MS);
	acked(&s, 2 * MS, 10 * US);
	cc_on_loss(&s.cc, &s.flow, 2 * MS + 900 * US);
	assert_false(s.flow.limits);
	cc_on_loss(&s.cc, &s.flow, 3 * MS + 100 * US);
	assert_int_equal(s.flow.timely.rate_kbps, LINK / 2);
	cc_on_loss(&s.cc, &s.flow, 3 * MS + 500 * US);
	assert_int_equal(s.flow.timely.rate_kbps, LINK / 2);
	cc_on_loss(&s.cc, &s.flow, 4 * MS + 200 * US);
	assert_int_equal(s.flow.timely.rate_kbps, LINK / 4);
}

REQUIREMENT("CC-03")
UNIT_TEST(timely_keeps_the_minimum_and_recovers)
{
	struct sender s;
	uint64_t now = MS, end;

	begin(&s, "timely", now);
	for (uint32_t i = 0; i < 200; i++)
		acked(&s, now += 10 * MS, 10000 * US);
	assert_int_equal(s.flow.timely.rate_kbps, s.flow.param.min_kbps);
	cc_on_sent(&s.cc, &s.flow, now, MTU);
	assert_true(s.flow.next_send_ns > now);
	/* 40 Mb/s each round trip: 25 Gb/s in 625 of them. */
	for (end = now + 640 * 30 * US; now < end;)
		acked(&s, now += 30 * US, 30 * US);
	assert_false(s.flow.limits);
}

#define FLOWS_MOST 32u
#define IN_FLIGHT  8192u

/*
 * n senders share a link of LINK kb/s whose queue has no end. Steps of the time of one packet: each
 * sender that may send does. Returns Jain's index in permille over the last half, and the longest
 * queue of the last half in ns in *queue_ns, the share of the link used in permille in *used.
 */
static uint32_t
share(const char *text, uint32_t n, uint64_t ms, uint64_t *queue_ns, uint32_t *used)
{
	static struct sender s[FLOWS_MOST];
	static struct {
		uint32_t who;
		uint64_t sent_ns, ack_ns;
	} q[IN_FLIGHT];
	uint64_t step = MTU * 8000000ull / LINK, now, free_ns = 0, end = ms * MS, half = end / 2;
	uint32_t head = 0, tail = 0, i, k;
	double sum = 0, squares = 0;

	*queue_ns = 0;
	for (i = 0; i < n; i++)
		begin(&s[i], text, step);
	for (now = step; now < end; now += step) {
		while (tail != head && q[tail % IN_FLIGHT].ack_ns <= now) {
			struct sender *to = &s[q[tail % IN_FLIGHT].who];

			acked(to, now, (uint32_t)(now - q[tail % IN_FLIGHT].sent_ns));
			to->out--;
			to->acked += now > half ? MTU : 0;
			tail++;
		}
		for (i = 0; i < n; i++) {
			k = (i + (uint32_t)(now / step)) % n;
			if (s[k].out >= s[k].cc.window_pkts || s[k].flow.next_send_ns > now)
				continue;
			cc_on_sent(&s[k].cc, &s[k].flow, now, MTU);
			free_ns = (free_ns > now ? free_ns : now) + step;
			assert_true(head - tail < IN_FLIGHT);
			q[head % IN_FLIGHT].who = k;
			q[head % IN_FLIGHT].sent_ns = now;
			q[head++ % IN_FLIGHT].ack_ns = free_ns + BASE;
			s[k].out++;
		}
		if (now > half && free_ns > now && free_ns - now > *queue_ns)
			*queue_ns = free_ns - now;
	}
	for (i = 0; i < n; i++) {
		sum += (double)s[i].acked;
		squares += (double)s[i].acked * (double)s[i].acked;
	}
	*used = (uint32_t)(1000 * sum / (LINK / 8.0 * (double)(ms / 2)));
	return (uint32_t)(1000 * sum * sum / (n * squares));
}

static void
flows_share(const char *text, uint32_t n, uint64_t ms, uint32_t used_least, uint64_t queue_most_ns)
{
	uint64_t queue_ns;
	uint32_t used, jain = share(text, n, ms, &queue_ns, &used);

	print_message("%s, %u flows: Jain 0.%03u, %u permille used, queue %u us\n", text, n,
		      jain % 1000, used, (unsigned)(queue_ns / US));
	assert_true(jain >= 950);
	assert_true(used >= used_least);
	assert_true(queue_ns <= queue_most_ns);
}

UNIT_TEST(flows_of_a_delay_policy_share_a_link)
{
	flows_share("swift", 2, 40, 900, 100 * US);
	flows_share("swift", 8, 40, 900, 128 * US);
	flows_share("swift", 32, 40, 900, 250 * US);
	flows_share("timely", 2, 200, 950, 100 * US);
	flows_share("timely", 8, 200, 950, 130 * US);
	flows_share("timely", 32, 200, 950, 130 * US);
}
