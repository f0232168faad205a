/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Policy `dcqcn`: the reaction point of DCQCN (Zhu et al., SIGCOMM 2015). A CNP cuts the rate by
 * alpha / 2, at most once per decrease interval. alpha is a moving average of whether CNPs come,
 * updated once per alpha interval. Time and bytes since the last cut raise the rate: first halfway
 * to the rate before the cut (fast recovery), then halfway to a target that grows by an additive
 * step, at last by a larger one (hyper increase).
 *
 * There are no timers. Each event first applies the updates and increases that were due since the
 * one before (advance), in order of their times.
 */
#include "cc/cc_parts.h"

#define INCREASES_MOST 64u /* by time, applied at one event; the others follow at the next one */
#define FULL_SHIFT     10  /* a rate within 1 / 1024 of the maximum is the maximum */

/* (1 - 1 / g_inv)^n x alpha. */
static uint32_t
decayed(uint32_t alpha, uint32_t g_inv, uint64_t n)
{
	uint64_t power = (1ull << 31) - (1ull << 31) / g_inv, v = alpha;

	if (n >= 32ull * g_inv)
		return 0; /* less than the resolution */
	for (; n != 0; n >>= 1) {
		if (n & 1)
			v = v * power >> 31;
		power = power * power >> 31;
	}
	return (uint32_t)v;
}

/* Updates alpha as often as was due until at_ns. */
static void
advance_alpha(struct cc_flow *flow, uint64_t at_ns)
{
	const struct cc_param *p = &flow->param;
	struct cc_dcqcn *d = &flow->dcqcn;
	uint64_t n = (at_ns - d->alpha_ns) / p->alpha_ns;

	if (n == 0)
		return;
	d->alpha_ns += n * p->alpha_ns;
	if (d->cnp_alpha) {
		d->alpha += (CC_DCQCN_ONE - d->alpha) / p->g_inv;
		d->cnp_alpha = false;
		n--;
	}
	d->alpha = decayed(d->alpha, p->g_inv, n);
}

/* Raises the rate one step, by the stages before this step. */
static void
raise(struct cc_flow *flow)
{
	const struct cc_param *p = &flow->param;
	struct cc_dcqcn *d = &flow->dcqcn;
	uint8_t t = d->time_stage, b = d->byte_stage;
	uint64_t target = d->target_kbps;

	if (t >= p->rounds || b >= p->rounds) {
		bool hyper = t > p->rounds && (p->byte_kib == 0 || b > p->rounds);

		target += hyper ? p->hai_kbps : p->ai_kbps;
		d->target_kbps = target > p->max_kbps ? p->max_kbps : (uint32_t)target;
	}
	d->rate_kbps = (uint32_t)(((uint64_t)d->rate_kbps + d->target_kbps + 1) / 2);
	if (p->max_kbps - d->rate_kbps <= p->max_kbps >> FULL_SHIFT) {
		d->rate_kbps = d->target_kbps = p->max_kbps;
		cc_unlimit(flow);
	}
}

static void
advance_rate(struct cc_flow *flow, uint64_t at_ns)
{
	const struct cc_param *p = &flow->param;
	struct cc_dcqcn *d = &flow->dcqcn;
	uint32_t n;

	for (n = 0; n < INCREASES_MOST && d->rate_kbps < p->max_kbps &&
		    at_ns - d->increase_ns >= p->increase_ns;
	     n++) {
		d->increase_ns += p->increase_ns;
		raise(flow);
		if (d->time_stage != UINT8_MAX)
			d->time_stage++;
	}
}

/* Cuts the rate at at_ns; what was due before has been applied. */
static void
cut(struct cc_flow *flow, uint64_t at_ns)
{
	const struct cc_param *p = &flow->param;
	struct cc_dcqcn *d = &flow->dcqcn;
	uint32_t by = (uint32_t)((uint64_t)d->rate_kbps * d->alpha / (2ull * CC_DCQCN_ONE));

	if (p->clamp || d->time_stage != 0 || d->target_kbps < d->rate_kbps)
		d->target_kbps = d->rate_kbps;
	d->rate_kbps = d->rate_kbps - by > p->min_kbps ? d->rate_kbps - by : p->min_kbps;
	d->time_stage = d->byte_stage = 0;
	d->bytes = 0;
	d->increase_ns = at_ns;
	d->cut_ns = at_ns + p->decrease_ns;
	d->cnp_cut = false;
	if (d->rate_kbps < p->max_kbps)
		cc_limit(flow, at_ns);
}

static void
advance(struct cc_flow *flow, uint64_t now_ns)
{
	struct cc_dcqcn *d = &flow->dcqcn;

	if (!d->began)
		return;
	if (d->cnp_cut && d->cut_ns <= now_ns) {
		advance_alpha(flow, d->cut_ns);
		advance_rate(flow, d->cut_ns);
		cut(flow, d->cut_ns);
	}
	advance_alpha(flow, now_ns);
	advance_rate(flow, now_ns);
}

static void
dcqcn_init(struct cc *cc, struct cc_flow *flow, uint64_t now_ns)
{
	cc_begin(cc, flow, now_ns);
	flow->dcqcn.rate_kbps = flow->dcqcn.target_kbps = flow->param.max_kbps;
}

static void
dcqcn_on_sent(struct cc *cc, struct cc_flow *flow, uint64_t now_ns, uint32_t bytes)
{
	const struct cc_param *p = &flow->param;
	struct cc_dcqcn *d = &flow->dcqcn;

	advance(flow, now_ns);
	d->bytes += bytes;
	if (p->byte_kib != 0 && d->bytes >= 1024ull * p->byte_kib && d->rate_kbps < p->max_kbps) {
		d->bytes = 0;
		raise(flow);
		if (d->byte_stage != UINT8_MAX)
			d->byte_stage++;
	}
	if (flow->limits)
		cc_pace(flow, now_ns, cc_time_ns(bytes, d->rate_kbps));
}

static void
dcqcn_on_ack(struct cc *cc, struct cc_flow *flow, uint64_t now_ns, const struct cc_ack *ack)
{
	advance(flow, now_ns);
	cc_fixed_on_ack(cc);
}

static void
dcqcn_on_cnp(struct cc *cc, struct cc_flow *flow, uint64_t now_ns)
{
	struct cc_dcqcn *d = &flow->dcqcn;

	advance(flow, now_ns);
	if (!d->began) {
		d->began = true;
		d->alpha = CC_DCQCN_ONE;
		d->alpha_ns = now_ns;
	}
	d->cnp_alpha = true;
	d->cnp_cut = true;
	if (d->cut_ns <= now_ns)
		cut(flow, now_ns);
}

static void
dcqcn_view(const struct cc *cc, const struct cc_flow *flow, struct cc_view *view)
{
	view->rate_kbps = flow->limits ? flow->dcqcn.rate_kbps : 0;
	view->alpha_ppm = (uint32_t)(flow->dcqcn.alpha * 1000000ull / CC_DCQCN_ONE);
}

const struct cc_ops cc_dcqcn = {
	.name = "dcqcn",
	.ect = true,
	.init = dcqcn_init,
	.on_sent = dcqcn_on_sent,
	.on_ack = dcqcn_on_ack,
	.on_cnp = dcqcn_on_cnp,
	.on_loss = fixed_on_loss,
	.on_timeout = fixed_on_timeout,
	.on_probe = fixed_on_probe,
	.on_spurious = fixed_on_spurious,
	.view = dcqcn_view,
};
