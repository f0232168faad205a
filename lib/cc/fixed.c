/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Policy `fixed`: the full window, but a small one after a loss, because packets sent behind a
 * packet that is lost again are lost, too. The window then doubles with each progress. No pace.
 */
#include "cc/cc_parts.h"

static void
fixed_init(struct cc *cc, struct cc_flow *flow, uint64_t now_ns)
{
	cc->most_pkts = cc->window_pkts = CC_WINDOW_PKTS;
	flow->kept_pkts = CC_WINDOW_PKTS;
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
	if (cc->window_pkts > CC_AGAIN_PKTS)
		cc->window_pkts = CC_AGAIN_PKTS;
}

/*
 * Sets one packet. If a queue on the way is shorter than the window, a full window would lose the
 * same packets each time.
 */
void
fixed_on_timeout(struct cc *cc, struct cc_flow *flow, uint64_t now_ns)
{
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
	cc->window_pkts = flow->kept_pkts;
}

const struct cc_ops cc_fixed = {
	.name = "fixed",
	.init = fixed_init,
	.on_ack = fixed_on_ack,
	.on_loss = fixed_on_loss,
	.on_timeout = fixed_on_timeout,
	.on_probe = fixed_on_probe,
	.on_spurious = fixed_on_spurious,
};
