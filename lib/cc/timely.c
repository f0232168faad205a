/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Policy `timely`: a rate that follows the round trip (Mittal et al., SIGCOMM 2015), with the
 * correction that makes it converge (patched TIMELY; Zhu et al., CoNEXT 2016). Below target_ns the
 * rate grows by a step. Above it, a weight between 0 and 1, which grows with the trend of the round
 * trips, chooses between the step and a reduction in proportion to the excess over target_ns. Above
 * high_ns the weight is 1. Round trips that are measured in quick succession have a smaller effect.
 *
 * The trend counts in relation to target_ns, not to the shortest round trip as in the papers: on a
 * network of a few microseconds, the round trip changes by several of these from one sample to the
 * next when many flows share a queue, so that the weight would only be 0 or 1.
 *
 * Packets that were retransmitted give no round trip. A loss when there was none for high_ns
 * therefore counts as a long one.
 */
#include "cc/cc_parts.h"

#define ONE        1024 /* of the fixed-point numbers below */
#define SMOOTH     471  /* weight of a new difference in the trend: 0.46 */
#define BETA       52   /* 0.05 */
#define RTT_MOST   1000000000u
#define FULL_SHIFT 10 /* a rate within 1 / 1024 of the maximum is the maximum */

/* Weight of the reduction: 0 for a trend of -1/4 of target_ns or less, 1 for 1/4. */
static int64_t
weight(const struct cc_param *p, const struct cc_timely *t)
{
	int64_t w = (int64_t)t->trend_ns * 2 * ONE / p->target_ns + ONE / 2;

	return t->rtt_ns > p->high_ns || w > ONE ? ONE : w < 0 ? 0 : w;
}

/* The change of the rate, for a share of ONE of the effect. */
static int64_t
change(const struct cc_param *p, const struct cc_timely *t, int64_t share)
{
	int64_t rate = t->rate_kbps, rtt = t->rtt_ns, step = (int64_t)p->ai_kbps, w;

	if (rtt <= p->target_ns)
		return step * share / ONE;
	w = weight(p, t);
	rate = rate * BETA / ONE * w / ONE * (rtt - p->target_ns) / p->target_ns;
	return (step * (ONE - w) / ONE - rate) * share / ONE;
}

/* Takes a round trip into the trend. Returns the share of the effect that it has. */
static int64_t
measure(struct cc_timely *t, uint64_t now_ns, uint32_t rtt_ns)
{
	int64_t diff = t->rtt_ns == 0 ? 0 : (int64_t)rtt_ns - (int64_t)t->rtt_ns;
	uint64_t since_ns = now_ns - t->at_ns;

	if (t->least_ns == 0 || rtt_ns < t->least_ns)
		t->least_ns = rtt_ns;
	t->trend_ns += (int32_t)((diff - t->trend_ns) * SMOOTH / ONE);
	t->rtt_ns = rtt_ns;
	t->at_ns = now_ns;
	return since_ns >= t->least_ns ? ONE : (int64_t)(since_ns * ONE / t->least_ns);
}

static void
set_rate(struct cc_flow *flow, uint64_t now_ns, int64_t rate)
{
	const struct cc_param *p = &flow->param;
	struct cc_timely *t = &flow->timely;

	if (rate < t->rate_kbps / 2)
		rate = t->rate_kbps / 2;
	if (rate < p->min_kbps)
		rate = p->min_kbps;
	if (rate + (p->max_kbps >> FULL_SHIFT) >= p->max_kbps) {
		t->rate_kbps = p->max_kbps;
		cc_unlimit(flow);
		return;
	}
	t->rate_kbps = (uint32_t)rate;
	cc_limit(flow, now_ns);
	if (flow->next_send_ns > now_ns)
		cc_pace_again(flow, &t->gap, cc_time_ns(t->gap.bytes, t->rate_kbps));
}

static void
timely_init(struct cc *cc, struct cc_flow *flow, uint64_t now_ns)
{
	cc_begin(cc, flow, now_ns);
	flow->timely.rate_kbps = flow->param.max_kbps;
	flow->timely.at_ns = now_ns;
}

static void
timely_on_rtt(struct cc *cc, struct cc_flow *flow, uint64_t now_ns, uint32_t rtt_ns)
{
	const struct cc_param *p = &flow->param;
	struct cc_timely *t = &flow->timely;
	int64_t share;

	rtt_ns = rtt_ns == 0 ? 1 : rtt_ns > RTT_MOST ? RTT_MOST : rtt_ns;
	share = measure(t, now_ns, rtt_ns);
	if (t->rate_kbps == p->max_kbps && rtt_ns <= p->target_ns)
		return;
	set_rate(flow, now_ns, t->rate_kbps + change(p, t, share));
}

static void
timely_on_sent(struct cc *cc, struct cc_flow *flow, uint64_t now_ns, uint32_t bytes)
{
	struct cc_timely *t = &flow->timely;

	if (flow->limits)
		cc_pace_noted(flow, &t->gap, now_ns, bytes, cc_time_ns(bytes, t->rate_kbps));
}

static void
timely_on_loss(struct cc *cc, struct cc_flow *flow, uint64_t now_ns)
{
	struct cc_timely *t = &flow->timely;

	fixed_on_loss(cc, flow, now_ns);
	if (now_ns - t->at_ns <= flow->param.high_ns)
		return;
	t->at_ns = now_ns;
	set_rate(flow, now_ns, t->rate_kbps / 2);
}

static void
timely_on_timeout(struct cc *cc, struct cc_flow *flow, uint64_t now_ns)
{
	fixed_on_timeout(cc, flow, now_ns);
	set_rate(flow, now_ns, flow->timely.rate_kbps / 2);
}

/* What the rate allows in a round trip. */
static uint32_t
timely_read_pkts(const struct cc_flow *flow)
{
	const struct cc_timely *t = &flow->timely;
	uint64_t n = (uint64_t)t->rate_kbps * t->rtt_ns / 8000000u / flow->param.mtu;

	return n == 0 ? 1 : n > CC_WINDOW_PKTS ? CC_WINDOW_PKTS : (uint32_t)n;
}

static void
timely_view(const struct cc *cc, const struct cc_flow *flow, struct cc_view *view)
{
	view->rate_kbps = flow->limits ? flow->timely.rate_kbps : 0;
	view->delay_ns = flow->timely.rtt_ns;
}

const struct cc_ops cc_timely = {
	.name = "timely",
	.init = timely_init,
	.on_sent = timely_on_sent,
	.on_ack = fixed_on_ack,
	.on_rtt = timely_on_rtt,
	.on_loss = timely_on_loss,
	.on_timeout = timely_on_timeout,
	.on_probe = fixed_on_probe,
	.on_spurious = fixed_on_spurious,
	.read_pkts = timely_read_pkts,
	.view = timely_view,
};
