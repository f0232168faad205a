/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Policy `swift`: a window that is reduced when a round trip exceeds a target delay, and grows
 * otherwise (Kumar et al., SIGCOMM 2020). The target of a flow with a small window is longer,
 * because many flows share its bottleneck (flow scaling). There is at most one cut a round trip. A
 * window below PACED_PKTS is paced, one packet after another, also fractions of a packet.
 *
 * A loss is a reason for a cut only while the delay exceeds half of the target: networks that lose
 * packets at random have short queues.
 */
#include "cc/cc_parts.h"

#define PACED_PKTS 8u  /* larger windows need no pace: ACKs space the packets */
#define BETA_PCT   80u /* cut: this share of the excess delay .. */
#define CUT_MOST   2u  /* .. and at most 1 / CUT_MOST of the window */
#define SCALE_MOST 2u  /* flow scaling: at most so many times the base target */
#define DELAY_MOST 1000000000u

static uint32_t
square_root(uint32_t v)
{
	uint32_t root = 0, bit = 1u << 30;

	while (bit > v)
		bit >>= 2;
	for (; bit != 0; bit >>= 2) {
		if (v >= root + bit) {
			v -= root + bit;
			root = (root >> 1) + bit;
		} else {
			root >>= 1;
		}
	}
	return root;
}

/*
 * Flow scaling is proportional to 1 / sqrt(cwnd) - 1 / sqrt(100), and SCALE_MOST at 0.1 packets.
 * The root of cwnd is 256 times that of the number of packets.
 */
static uint64_t
target_ns(const struct cc_flow *flow)
{
	uint64_t base_ns = flow->param.target_ns, scale_ns = SCALE_MOST * base_ns;
	uint64_t root = square_root(flow->swift.cwnd);
	uint64_t permille = 83607 / (root + 1);

	if (permille <= 33)
		return base_ns;
	permille = permille - 33 > 1000 ? 1000 : permille - 33;
	return base_ns + scale_ns * permille / 1000;
}

/* Sets the window that cwnd allows, unless losses allow less; limits is set unless it is full. */
static void
apply(struct cc *cc, struct cc_flow *flow, uint64_t now_ns)
{
	uint32_t most = cc->most_pkts * CC_SWIFT_ONE;
	uint32_t pkts;

	if (flow->swift.cwnd >= most) {
		flow->swift.cwnd = most;
		cc_unlimit(flow);
		return;
	}
	cc_limit(flow, now_ns);
	pkts = (flow->swift.cwnd + CC_SWIFT_ONE - 1) / CC_SWIFT_ONE;
	if (cc->window_pkts > pkts)
		cc->window_pkts = (uint16_t)pkts;
}

/* The window at which a flow has the minimum rate. */
static uint32_t
least_cwnd(const struct cc_flow *flow)
{
	uint64_t bytes = (uint64_t)flow->param.min_kbps * flow->swift.delay_ns / 8000000u;
	uint64_t least = bytes * CC_SWIFT_ONE / flow->param.mtu;

	return least == 0 ? 1 : least > CC_SWIFT_ONE ? CC_SWIFT_ONE : (uint32_t)least;
}

/* Reduces the window by `by`, at most 1 / CUT_MOST of it, unless it was cut in this round trip. */
static void
cut(struct cc *cc, struct cc_flow *flow, uint64_t now_ns, uint64_t by)
{
	struct cc_swift *s = &flow->swift;
	uint32_t least = least_cwnd(flow);

	if (s->cut_ns != 0 && now_ns - s->cut_ns < s->delay_ns)
		return;
	if (by > s->cwnd / CUT_MOST)
		by = s->cwnd / CUT_MOST;
	s->cut_ns = now_ns;
	s->cwnd = s->cwnd - (uint32_t)by > least ? s->cwnd - (uint32_t)by : least;
	apply(cc, flow, now_ns);
}

static void
swift_init(struct cc *cc, struct cc_flow *flow, uint64_t now_ns)
{
	cc_begin(cc, flow, now_ns);
	flow->swift.cwnd = cc->most_pkts * CC_SWIFT_ONE;
}

/* Time between two packets; 0: none. */
static uint64_t
gap_ns(const struct cc_flow *flow, uint32_t bytes)
{
	const struct cc_param *p = &flow->param;
	const struct cc_swift *s = &flow->swift;
	uint64_t ns = 0, least_ns, most_ns;

	if (s->cwnd < PACED_PKTS * CC_SWIFT_ONE)
		ns = (uint64_t)s->delay_ns * CC_SWIFT_ONE / s->cwnd * bytes / p->mtu;
	least_ns = p->max_kbps < p->link_kbps ? cc_time_ns(bytes, p->max_kbps) : 0;
	most_ns = cc_time_ns(bytes, p->min_kbps);
	ns = ns < least_ns ? least_ns : ns;
	return ns < most_ns ? ns : most_ns;
}

static void
swift_on_sent(struct cc *cc, struct cc_flow *flow, uint64_t now_ns, uint32_t bytes)
{
	uint64_t ns = flow->limits ? gap_ns(flow, bytes) : 0;

	if (ns != 0)
		cc_pace_noted(flow, &flow->swift.gap, now_ns, bytes, ns);
}

/* The window or the delay has changed. */
static void
gap_again(struct cc_flow *flow, uint64_t now_ns)
{
	if (flow->next_send_ns > now_ns)
		cc_pace_again(flow, &flow->swift.gap, gap_ns(flow, flow->swift.gap.bytes));
}

static void
swift_on_rtt(struct cc *cc, struct cc_flow *flow, uint64_t now_ns, uint32_t rtt_ns)
{
	struct cc_swift *s = &flow->swift;
	uint64_t target = target_ns(flow);

	s->delay_ns = rtt_ns == 0 ? 1 : rtt_ns > DELAY_MOST ? DELAY_MOST : rtt_ns;
	if (s->delay_ns > target)
		cut(cc, flow, now_ns,
		    s->cwnd * (s->delay_ns - target) / s->delay_ns * BETA_PCT / 100);
	gap_again(flow, now_ns);
}

static void
swift_on_ack(struct cc *cc, struct cc_flow *flow, uint64_t now_ns, const struct cc_ack *ack)
{
	const struct cc_param *p = &flow->param;
	struct cc_swift *s = &flow->swift;
	uint64_t pkts = ack->bytes > p->mtu ? ack->bytes / p->mtu : 1;
	uint64_t step; /* of one round trip */

	cc_fixed_on_ack(cc);
	if (s->delay_ns <= target_ns(flow)) {
		step = (uint64_t)p->ai_kbps * s->delay_ns / 8000 * CC_SWIFT_ONE / 1000 / p->mtu;
		step = (step == 0 ? 1 : step) * pkts;
		if (s->cwnd > CC_SWIFT_ONE)
			step = step * CC_SWIFT_ONE / s->cwnd;
		step = step == 0 ? 1 : step > CC_SWIFT_ONE * pkts ? CC_SWIFT_ONE * pkts : step;
		s->cwnd = (uint32_t)(s->cwnd + step);
	}
	apply(cc, flow, now_ns);
	gap_again(flow, now_ns);
}

static void
swift_on_loss(struct cc *cc, struct cc_flow *flow, uint64_t now_ns)
{
	fixed_on_loss(cc, flow, now_ns);
	if (flow->swift.delay_ns > target_ns(flow) / 2)
		cut(cc, flow, now_ns, flow->swift.cwnd / CUT_MOST);
}

static void
swift_on_timeout(struct cc *cc, struct cc_flow *flow, uint64_t now_ns)
{
	fixed_on_timeout(cc, flow, now_ns);
	cut(cc, flow, now_ns, flow->swift.cwnd / CUT_MOST);
}

static uint32_t
swift_read_pkts(const struct cc_flow *flow)
{
	return (flow->swift.cwnd + CC_SWIFT_ONE - 1) / CC_SWIFT_ONE;
}

static void
swift_view(const struct cc *cc, const struct cc_flow *flow, struct cc_view *view)
{
	const struct cc_swift *s = &flow->swift;
	uint64_t bits = (uint64_t)flow->param.mtu * 8 * s->cwnd / CC_SWIFT_ONE;

	view->delay_ns = s->delay_ns;
	view->cwnd_ppm = (uint32_t)(s->cwnd * 1000000ull / CC_SWIFT_ONE);
	if (flow->limits && s->delay_ns != 0)
		view->rate_kbps = (uint32_t)(bits * 1000000u / s->delay_ns);
}

const struct cc_ops cc_swift = {
	.name = "swift",
	.init = swift_init,
	.on_sent = swift_on_sent,
	.on_ack = swift_on_ack,
	.on_rtt = swift_on_rtt,
	.on_loss = swift_on_loss,
	.on_timeout = swift_on_timeout,
	.on_probe = fixed_on_probe,
	.on_spurious = fixed_on_spurious,
	.read_pkts = swift_read_pkts,
	.view = swift_view,
};
