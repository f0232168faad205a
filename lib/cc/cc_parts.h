/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of lib/cc. */
#ifndef CC_CC_PARTS_H
#define CC_CC_PARTS_H

#include "cc/cc.h"

extern const struct cc_ops cc_fixed;  /* fixed.c */
extern const struct cc_ops cc_dcqcn;  /* dcqcn.c */
extern const struct cc_ops cc_swift;  /* swift.c */
extern const struct cc_ops cc_timely; /* timely.c */

/* Window rules that all policies share; events as in struct cc_ops. */
void fixed_on_ack(struct cc *cc, struct cc_flow *flow, uint64_t now_ns, const struct cc_ack *ack);
void fixed_on_loss(struct cc *cc, struct cc_flow *flow, uint64_t now_ns);
void fixed_on_timeout(struct cc *cc, struct cc_flow *flow, uint64_t now_ns);
void fixed_on_probe(struct cc *cc, struct cc_flow *flow, uint64_t now_ns, bool again);
void fixed_on_spurious(struct cc *cc, struct cc_flow *flow, uint64_t now_ns);

/*
 * If a turn is late by up to CC_LATE_NS, the next gap is shortened by as much. The average rate is
 * therefore kept although turns are not exact.
 */
#define CC_LATE_NS 5000u

/* Time in ns of bytes at kbps, which is not 0. */
static inline uint64_t
cc_time_ns(uint64_t bytes, uint32_t kbps)
{
	return bytes * 8000000u / kbps;
}

/* A packet is sent now: the next one may follow gap_ns later. */
static inline void
cc_pace(struct cc_flow *flow, uint64_t now_ns, uint64_t gap_ns)
{
	uint64_t from_ns = flow->next_send_ns;

	if (from_ns + CC_LATE_NS < now_ns)
		from_ns = now_ns - CC_LATE_NS;
	flow->next_send_ns = from_ns + gap_ns;
}

/* As cc_pace for a packet of these bytes, for a policy that shortens gaps later. */
static inline void
cc_pace_noted(struct cc_flow *flow, struct cc_gap *gap, uint64_t now_ns, uint32_t bytes,
	      uint64_t gap_ns)
{
	cc_pace(flow, now_ns, gap_ns);
	gap->from_ns = flow->next_send_ns - gap_ns;
	gap->bytes = bytes;
}

/* The gap for gap->bytes is gap_ns by now: ends the gap accordingly, if that is sooner. */
static inline void
cc_pace_again(struct cc_flow *flow, const struct cc_gap *gap, uint64_t gap_ns)
{
	if (gap->from_ns + gap_ns < flow->next_send_ns)
		flow->next_send_ns = gap->from_ns + gap_ns;
}

/* The policy limits the flow from now on. */
static inline void
cc_limit(struct cc_flow *flow, uint64_t now_ns)
{
	if (!flow->limits)
		flow->next_send_ns = now_ns;
	flow->limits = true;
}

/* The policy allows max_kbps. That limits the flow only if the link is faster. */
static inline void
cc_unlimit(struct cc_flow *flow)
{
	flow->limits = flow->param.max_kbps < flow->param.link_kbps;
	if (!flow->limits)
		flow->next_send_ns = 0;
}

/* init: the window that holds window_ns at the link's rate, at least 2 packets. */
static inline void
cc_begin(struct cc *cc, struct cc_flow *flow, uint64_t now_ns)
{
	const struct cc_param *p = &flow->param;
	uint64_t bytes = (uint64_t)p->link_kbps * p->window_ns / 8000000u, pkts = bytes / p->mtu;

	pkts = pkts < 2 ? 2 : pkts > CC_WINDOW_PKTS ? CC_WINDOW_PKTS : pkts;
	cc->most_pkts = cc->window_pkts = (uint16_t)pkts;
	flow->kept_pkts = cc->most_pkts;
	flow->next_send_ns = now_ns;
	cc_unlimit(flow);
}

#endif
