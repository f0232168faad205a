/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A congestion policy that paces: random gaps between two packets, shorter after ACKs and longer
 * after losses, marks and CNPs. It is the policy CC_TEST of the simulators (cc/cc.h).
 */
#include <rte_common.h>
#include "sim.h"

#define PACE_LONG                                                                                  \
	64u /* one gap in so many is PACE_LONG times as long: beyond the run list's wheel */

#define PACE_READ_PKTS 6u /* responses to one READ request, at most */

struct sim_pace sim_pace;

/* In struct cc_flow. */
enum {
	OWN_RANDOM, /* state of xorshift */
	OWN_GAP_NS, /* longest gap at present */
	OWN_ACKED,  /* bytes acknowledged since init */
};

static uint64_t
pace_random(struct cc_flow *flow)
{
	uint64_t *x = &flow->own[OWN_RANDOM];

	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x;
}

static void
pace_init(struct cc *cc, struct cc_flow *flow, uint64_t now_ns)
{
	flow->kept_pkts = cc->most_pkts = cc->window_pkts = CC_WINDOW_PKTS;
	flow->own[OWN_RANDOM] = (now_ns + flow->una_psn) * 0x9e3779b97f4a7c15ull | 1;
	flow->own[OWN_GAP_NS] = sim_pace.gap_ns;
}

static void
pace_on_sent(struct cc *cc, struct cc_flow *flow, uint64_t now_ns, uint32_t bytes)
{
	uint64_t gap_ns = pace_random(flow) % (flow->own[OWN_GAP_NS] + 1);

	if (pace_random(flow) % PACE_LONG == 0)
		gap_ns *= PACE_LONG;
	sim_pace.sent++;
	sim_pace.held += flow->next_send_ns == now_ns;
	sim_pace.early += flow->next_send_ns > now_ns;
	flow->next_send_ns = now_ns + gap_ns;
}

static void
pace_on_ack(struct cc *cc, struct cc_flow *flow, uint64_t now_ns, const struct cc_ack *ack)
{
	flow->own[OWN_ACKED] += ack->bytes;
	flow->own[OWN_GAP_NS] -= flow->own[OWN_GAP_NS] / 16;
	cc->window_pkts = RTE_MIN(cc->window_pkts + 1u, CC_WINDOW_PKTS);
	if (ack->ce)
		flow->own[OWN_GAP_NS] = sim_pace.gap_ns;
}

static void
pace_slower(struct cc *cc, struct cc_flow *flow, uint64_t now_ns)
{
	flow->own[OWN_GAP_NS] = RTE_MIN(2 * flow->own[OWN_GAP_NS] + 1, (uint64_t)sim_pace.gap_ns);
	cc->window_pkts = RTE_MAX(cc->window_pkts / 2, 1);
}

static void
pace_on_timeout(struct cc *cc, struct cc_flow *flow, uint64_t now_ns)
{
	flow->own[OWN_GAP_NS] = sim_pace.gap_ns;
	cc->window_pkts = 1;
}

/* Half of the READs are requested in parts. */
static uint32_t
pace_read_pkts(const struct cc_flow *flow)
{
	uint64_t x = flow->own[OWN_RANDOM];

	return !sim_pace.parts || (x & 1) ? UINT32_MAX : 1 + (uint32_t)(x >> 8) % PACE_READ_PKTS;
}

const struct cc_ops cc_test = {
	.name = "sim",
	.init = pace_init,
	.on_sent = pace_on_sent,
	.on_ack = pace_on_ack,
	.on_cnp = pace_slower,
	.on_loss = pace_slower,
	.on_timeout = pace_on_timeout,
	.read_pkts = pace_read_pkts,
};

void
sim_pace_set(struct qp *qp)
{
	if (sim_pace.gap_ns != 0)
		qp->conn.cc_flow.param.policy = CC_TEST;
}

uint64_t
sim_pace_acked(const struct qp *qp)
{
	return qp->conn.cc_flow.own[OWN_ACKED];
}
