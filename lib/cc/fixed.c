/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Policy `fixed`: the whole window, but few packets after a loss. What follows a packet that is
 * lost again is lost, too. The window doubles with each progress from there.
 */
#include "cc/cc.h"

static void
fixed_init(struct cc *cc, uint64_t now_ns)
{
	cc->window_pkts = CC_WINDOW_PKTS;
	cc->kept_pkts = CC_WINDOW_PKTS;
}

static void
fixed_on_ack(struct cc *cc, uint64_t now_ns, uint32_t rtt_ns)
{
	cc_fixed_on_ack(cc);
}

static void
fixed_on_loss(struct cc *cc, uint64_t now_ns)
{
	if (cc->window_pkts > CC_AGAIN_PKTS)
		cc->window_pkts = CC_AGAIN_PKTS;
}

/*
 * One packet. Where a queue on the way is shorter than the window, all of a full window would lose
 * the same packets each time.
 */
static void
fixed_on_timeout(struct cc *cc, uint64_t now_ns)
{
	cc->window_pkts = 1;
}

static void
fixed_on_probe(struct cc *cc, uint64_t now_ns, bool again)
{
	if (!again)
		cc->kept_pkts = cc->window_pkts;
	cc->window_pkts = 1;
}

static void
fixed_on_spurious(struct cc *cc, uint64_t now_ns)
{
	cc->window_pkts = cc->kept_pkts;
}

static const struct cc_ops fixed = {
	.name = "fixed",
	.init = fixed_init,
	.on_ack = fixed_on_ack,
	.on_loss = fixed_on_loss,
	.on_timeout = fixed_on_timeout,
	.on_probe = fixed_on_probe,
	.on_spurious = fixed_on_spurious,
};

const struct cc_ops *const cc_policies[CC_POLICIES] = {
	[CC_FIXED] = &fixed,
};
