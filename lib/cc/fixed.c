/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Policy `fixed`: the full window, but a small one after a loss, because packets sent behind a
 * packet that is lost again are lost, too. The window then doubles with each progress. No pace.
 *
 * The full window is CC_WINDOW_PKTS, which is too little for a path with a long round trip: packets
 * of 1024 bytes make 2 Gb/s if it is 0.5 ms. If the peer takes more (cc_fixed_allow), the window
 * grows with the shortest round trip, as far as the peer's receive buffer holds it. It is less than
 * CC_WINDOW_PKTS if that buffer holds less. A loss for which go-back-N is needed, or of more than a
 * 16th of the window in a round, halves a window above CC_WINDOW_PKTS, to no less than that; a 64th
 * of the full window comes back with each round trip.
 */
#include "cc/cc_parts.h"

static void
fixed_init(struct cc *cc, struct cc_flow *flow, uint64_t now_ns)
{
	cc->most_pkts = cc->window_pkts = CC_WINDOW_PKTS;
	flow->kept_pkts = flow->fixed.full_pkts = CC_WINDOW_PKTS;
	flow->limits = false;
}

void
fixed_on_ack(struct cc *cc, struct cc_flow *flow, uint64_t now_ns, const struct cc_ack *ack)
{
	cc_fixed_on_ack(cc);
}

void
fixed_on_loss(struct cc *cc, struct cc_flow *flow, uint64_t now_ns)
{
	cc_fixed_narrow(cc);
	if (cc->window_pkts > CC_AGAIN_PKTS)
		cc->window_pkts = CC_AGAIN_PKTS;
}

/* A window that was narrowed stays as it is. */
static void
fixed_on_rtt(struct cc *cc, struct cc_flow *flow, uint64_t now_ns, uint32_t rtt_ns)
{
	struct cc_fixed *f = &flow->fixed;
	bool full = cc->most_pkts == f->full_pkts;
	uint64_t pkts;

	if (f->wanted == 0)
		return;
	if (rtt_ns < f->least_ns)
		f->least_ns = rtt_ns;
	if (--f->wanted != 0)
		return;
	pkts = (uint64_t)f->least_ns * CC_RATE_PPS / 1000000000u;
	if (pkts > CC_WINDOW_PKTS)
		f->full_pkts = (uint16_t)(pkts < f->wide_pkts ? pkts : f->wide_pkts);
	if (full)
		cc->most_pkts = f->full_pkts;
}

/*
 * Sets one packet. If a queue on the way is shorter than the window, a full window would lose the
 * same packets each time.
 */
void
fixed_on_timeout(struct cc *cc, struct cc_flow *flow, uint64_t now_ns)
{
	cc_fixed_narrow(cc);
	cc->window_pkts = 1;
}

void
fixed_on_probe(struct cc *cc, struct cc_flow *flow, uint64_t now_ns, bool again)
{
	if (!again)
		flow->kept_pkts = cc->window_pkts;
	cc->window_pkts = 1;
}

void
fixed_on_spurious(struct cc *cc, struct cc_flow *flow, uint64_t now_ns)
{
	cc->window_pkts = flow->kept_pkts < cc->most_pkts ? flow->kept_pkts : cc->most_pkts;
}

const struct cc_ops cc_fixed = {
	.name = "fixed",
	.init = fixed_init,
	.on_ack = fixed_on_ack,
	.on_rtt = fixed_on_rtt,
	.on_loss = fixed_on_loss,
	.on_timeout = fixed_on_timeout,
	.on_probe = fixed_on_probe,
	.on_spurious = fixed_on_spurious,
};
