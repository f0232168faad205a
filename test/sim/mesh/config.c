/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>
#include "../fields.h"
#include "config.h"

static const struct sim_field cfg_fields[] = {
#define MESH_CFG_ROW(name, what) {#name, offsetof(struct mesh_cfg, name)},
	MESH_CFG(MESH_CFG_ROW)
#undef MESH_CFG_ROW
};
#define CFG_NFIELDS (sizeof(cfg_fields) / sizeof(cfg_fields[0]))

int
mesh_cfg_set(struct mesh_cfg *cfg, const char *text)
{
	return sim_fields_set(cfg_fields, CFG_NFIELDS, cfg, text);
}

void
mesh_cfg_print(const struct mesh_cfg *cfg)
{
	sim_fields_print(cfg_fields, CFG_NFIELDS, cfg);
}

static void
draw_network(struct mesh_cfg *c, struct sim_rng *r)
{
	uint32_t bad = !sim_chance(r, 200000);

	c->loss = bad * sim_draw_rate(r, 100000);
	c->ackloss = bad * sim_draw_rate(r, 200000);
	c->dup = bad * sim_draw_rate(r, 150000);
	c->reorder = bad * sim_draw_rate(r, 150000);
	c->hold_ns = sim_scale(r, 1000, 500000);
	c->corrupt = bad * sim_draw_rate(r, 80000);
	c->forge = bad * sim_draw_rate(r, 100000);
	c->blackout_ns = bad && sim_chance(r, 150000) ? sim_scale(r, 10000, 3000000) : 0;
	c->delay_ns = sim_scale(r, 200, 30000);
	c->jitter_ns = bad && sim_chance(r, 200000) ? sim_scale(r, 100, 20000) : 0;
	c->byte_ps = sim_scale(r, 10, 1000);
	c->rx_ring = bad && sim_chance(r, 200000) ? sim_scale(r, 8, 256) : 512;
	c->handoff = bad && sim_chance(r, 200000) ? sim_scale(r, 4, 64) : 512;
	c->rss = sim_chance(r, 500000);
	c->tx_refuse = sim_draw_rate(r, 200000);
	c->poll_ns = sim_scale(r, 100, 4000);
	c->stall = bad * sim_draw_rate(r, 5000);
	c->small_pool = sim_chance(r, 80000);
}

static void
draw_trouble(struct mesh_cfg *c, struct sim_rng *r)
{
	c->windows = sim_chance(r, 500000) ? sim_scale(r, 20000, 400000) : 0;
	c->sqd = sim_draw_rate(r, 800000);
	c->resize = sim_draw_rate(r, 100000);
	if (c->must)
		return;
	c->faults = sim_draw_rate(r, 60000);
	c->kill = sim_draw_rate(r, 800000);
	c->dereg = sim_draw_rate(r, 800000);
}

void
mesh_cfg_draw(struct mesh_cfg *c, struct sim_rng *r, uint32_t must)
{
	bool die = sim_chance(r, 400000);

	memset(c, 0, sizeof(*c));
	c->nodes = sim_between(r, 2, 3);
	c->workers = 1u << sim_below(r, 3);
	c->rc = sim_between(r, 0, 4);
	c->uc = sim_between(r, 0, 3);
	c->ud = sim_chance(r, 600000) ? sim_between(r, 2, 6) : 0;
	c->must = must < 2 ? must : die;
	c->lives = sim_chance(r, 500000) ? 1 : sim_between(r, 2, 4);
	c->ops = sim_scale(r, 2, 48);
	c->maxlen = sim_scale(r, 64, 8192);
	c->mtu = sim_chance(r, 500000) ? sim_between(r, 1, 5) : 0;
	c->depth = sim_scale(r, 1, 16);
	c->sge = sim_between(r, 1, 4);
	c->timeout = sim_between(r, 4, 9);
	c->retry = sim_between(r, 0, 7);
	c->rnr_retry = sim_chance(r, 500000) ? 7 : sim_between(r, 0, 7);
	c->rnr_code = sim_chance(r, 600000) ? sim_between(r, 1, 14) : 32;
	c->rd_atomic = sim_between(r, 1, 16);
	c->step_ns = sim_scale(r, 200, 20000);
	c->loopback = sim_chance(r, 300000) ? 300000 : 0;
	c->copy_mr = sim_chance(r, 300000) ? 300000 : 0;
	c->srq = sim_chance(r, 400000) ? sim_scale(r, 100000, 1000000) : 0;
	c->recv_late = sim_draw_rate(r, 300000);
	c->wrap = sim_chance(r, 400000);
	c->mcast = sim_draw_rate(r, 500000);
	c->late_ah = sim_draw_rate(r, 100000);
	draw_network(c, r);
	draw_trouble(c, r);
	c->view = sim_chance(r, 500000) ? sim_between(r, 1, 1500)
					: 0; /* last: older seeds mean the same */
}

static void
clamp(uint32_t *v, uint32_t lo, uint32_t hi)
{
	*v = sim_clamp(*v, lo, hi);
}

void
mesh_cfg_settle(struct mesh_cfg *c)
{
	clamp(&c->nodes, 2, 3);
	if (c->workers != 1 && c->workers != 2)
		c->workers = 4;
	clamp(&c->rc, 0, 4);
	clamp(&c->uc, 0, 3);
	clamp(&c->ud, 0, 6);
	if (c->rc + c->uc + c->ud == 0)
		c->rc = 1;
	clamp(&c->lives, 1, 8);
	clamp(&c->ops, 1, 48);
	clamp(&c->maxlen, 1, 8192);
	clamp(&c->mtu, 0, 5);
	clamp(&c->depth, 1, 16);
	clamp(&c->sge, 1, 4);
	clamp(&c->timeout, 1, 14);
	clamp(&c->rd_atomic, 1, 16);
	clamp(&c->rx_ring, 1, 512);
	clamp(&c->handoff, 1, 512);
	clamp(&c->step_ns, 1, 1000000);
	if (c->must)
		c->faults = c->kill = c->dereg = 0;
}
