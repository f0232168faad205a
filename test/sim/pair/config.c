/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>
#include "../fields.h"
#include "config.h"

static const struct sim_field cfg_fields[] = {
#define PAIR_CFG_ROW(name, what) {#name, offsetof(struct pair_cfg, name)},
	PAIR_CFG(PAIR_CFG_ROW)
#undef PAIR_CFG_ROW
};
#define CFG_NFIELDS (sizeof(cfg_fields) / sizeof(cfg_fields[0]))

int
pair_cfg_set(struct pair_cfg *cfg, const char *text)
{
	return sim_fields_set(cfg_fields, CFG_NFIELDS, cfg, text);
}

void
pair_cfg_print(const struct pair_cfg *cfg)
{
	sim_fields_print(cfg_fields, CFG_NFIELDS, cfg);
}

static void
draw_network(struct pair_cfg *c, struct sim_rng *r)
{
	bool calm = sim_chance(r, 150000);
	uint32_t bad = calm ? 0 : 1;

	c->burst = sim_scale(r, 1, 16);
	c->loss = bad * sim_draw_rate(r, 150000) / c->burst;
	c->dup = bad * sim_draw_rate(r, 150000);
	c->corrupt = bad * sim_draw_rate(r, 100000);
	c->reorder = bad * sim_draw_rate(r, 200000);
	c->forge = bad * sim_draw_rate(r, 100000);
	c->noise = bad * sim_draw_rate(r, 100000);
	c->hold_ns = sim_scale(r, 1000, 1000000);
	c->blackout_ns = bad * (sim_chance(r, 100000) ? sim_scale(r, 10000, 2000000) : 0);
	c->delay_ns = sim_scale(r, 200, 50000);
	c->jitter_ns = bad * (sim_chance(r, 300000) ? sim_scale(r, 100, 20000) : 0);
	c->byte_ps = sim_scale(r, 10, 1000);
	c->queue = bad && sim_chance(r, 300000) ? sim_scale(r, 4, 256) : 600;
	c->rx_ring = bad && sim_chance(r, 200000) ? sim_scale(r, 4, 256) : 512;
	c->tx_refuse = sim_draw_rate(r, 300000);
	c->poll_ns = sim_scale(r, 100, 4000);
	c->stall = bad * sim_draw_rate(r, 5000);
}

static void
draw_endpoints(struct pair_cfg *c, struct sim_rng *r)
{
	/* From half a round trip (needless retries) to many round trips. */
	c->timeout = sim_between(r, 3, 9);
	while (4096u << c->timeout < c->delay_ns)
		c->timeout++;
	c->retry = 255;
	c->rnr_retry = 7;
	c->rnr_code = sim_between(r, 1, 14);
	c->rd_atomic = sim_chance(r, 300000) ? 1 : sim_between(r, 1, 16);
	c->depth = sim_scale(r, 1, 64);
	c->sge = sim_between(r, 1, 6);
	c->step_ns = sim_scale(r, 200, 20000);
	c->ncq = sim_between(r, 1, 4);
	c->cq_events = sim_chance(r, 400000) ? sim_between(r, 1, 2) : 0;
	c->recv_late = sim_chance(r, 400000);
	c->small_pool = sim_chance(r, 100000);
	c->loopback = sim_chance(r, 200000) ? 300000 : 0;
	c->wrap = sim_chance(r, 500000);
	c->scribble = sim_chance(r, 300000);
	c->copy_mr = sim_chance(r, 400000) ? 300000 : 0;
	c->srq = sim_chance(r, 150000);
	c->race = sim_chance(r, 500000) ? 100000 : 0;
	c->rounds = sim_chance(r, 200000) ? sim_between(r, 2, 3) : 1;
	c->late_path = sim_chance(r, 100000);
	c->sqd = sim_chance(r, 150000);
	c->mix = sim_chance(r, 500000) ? 0 : sim_between(r, 1, 6);
}

void
pair_cfg_draw(struct pair_cfg *c, struct sim_rng *r, uint32_t family)
{
	uint32_t die = sim_below(r, 10);

	memset(c, 0, sizeof(*c));
	c->family = die < 6 ? PAIR_MUST_SUCCEED : die < 8 ? PAIR_FINITE : PAIR_FAULTS;
	if (family != PAIR_ANY_FAMILY)
		c->family = family;
	c->maxlen = sim_scale(r, 512, sim_chance(r, 100000) ? 131072 : 16384);
	c->pairs = sim_chance(r, 400000) ? 1 : sim_scale(r, 1, c->maxlen > 32768 ? 2 : 8);
	c->ops = sim_scale(r, 1, c->pairs > 2 ? 16 : 64);
	c->oneway = sim_chance(r, 300000);
	c->mtu = sim_chance(r, 700000) ? sim_between(r, 1, 5) : 0;
	draw_network(c, r);
	draw_endpoints(c, r);
	if (c->family == PAIR_FINITE) {
		c->retry = sim_between(r, 0, 7);
		c->rnr_retry = sim_between(r, 0, 7);
	} else if (c->family == PAIR_FAULTS) {
		c->retry = sim_between(r, 5, 7);
		c->dereg = sim_chance(r, 300000);
		c->loss /= 4;
		c->corrupt /= 4;
	}
	/* Gaps that only later packets reveal, without a timeout. */
	if (c->family == PAIR_MUST_SUCCEED && sim_chance(r, 50000)) {
		c->timeout = 0;
		c->loss = c->corrupt = c->reorder = c->blackout_ns = c->jitter_ns = 0;
		c->skip = sim_draw_rate(r, 100000);
	}
	c->view = sim_chance(r, 500000) ? sim_between(r, 1, 1500)
					: 0; /* last: older seeds mean the same */
}

void
pair_cfg_settle(struct pair_cfg *c)
{
	if (c->family == PAIR_MUST_SUCCEED)
		c->dereg = 0;
	else
		c->apm = 0;
	c->pairs = sim_clamp(c->pairs, 1, 8);
	c->ops = sim_clamp(c->ops, 1, 64);
	c->depth = sim_clamp(c->depth, 1, 1024);
	c->sge = sim_clamp(c->sge, 1, 6);
	c->mtu = sim_clamp(c->mtu, 0, 5);
	c->rounds = sim_clamp(c->rounds, 1, 100);
	c->ncq = sim_clamp(c->ncq, 1, 4);
	c->burst = sim_clamp(c->burst, 1, 1000);
	c->step_ns = sim_clamp(c->step_ns, 1, 1000000);
	c->maxlen = sim_clamp(c->maxlen, 1, c->pairs > 2 ? 32768 : 131072);
	if (c->timeout == 0 && c->apm)
		c->timeout = 7; /* only a timeout shows that the path has failed */
	/*
	 * A message that broke off because its sender gave up keeps a receive of the SRQ, and no
	 * client destroys such a QP here. Senders must therefore not wait for receives forever.
	 */
	if (c->srq && c->family != PAIR_MUST_SUCCEED)
		c->rnr_retry = sim_clamp(c->rnr_retry, 0, 6);
	if (c->timeout == 0) {
		c->queue = c->rx_ring = 1u << 20;
		c->late_path = 0;
	} else {
		c->skip = 0;
	}
}
