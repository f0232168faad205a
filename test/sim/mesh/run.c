/* SPDX-License-Identifier: BSD-3-Clause */
/* One schedule of the mesh, from its seed to its verdict. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include "mesh.h"

/* The longest time without progress: failed retries, RNR waits, late receives. */
static uint64_t
run_patience(const struct mesh_cfg *c)
{
	return 64 * (4096ull << c->timeout) + 4 * 655360000ull + 2ull * c->blackout_ns +
	       512ull * c->pace;
}

static void
run_begin(struct sim *sim, struct sim_rng *r, const char *const *set, unsigned nset)
{
	struct mesh *m = container_of(sim, struct mesh, sim);
	unsigned i;

	m->cfg.must = 2;
	for (i = 0; i < nset; i++)
		mesh_cfg_set(&m->cfg, set[i]);
	mesh_cfg_draw(&m->cfg, r, m->cfg.must); /* first: other fields depend on it */
	for (i = 0; i < nset; i++)
		mesh_cfg_set(&m->cfg, set[i]);
	mesh_cfg_settle(&m->cfg);
	sim_rng_init(&m->mover, m->seed, 4);
	m->patience_ns = run_patience(&m->cfg);
	sim_pace.gap_ns = m->cfg.pace;
	sim_pace.parts = true;
	if (m->verbose)
		mesh_cfg_print(&m->cfg);
	mesh_world_make(m);
	mesh_net_reset(m);
}

static void
run_play(struct sim *sim)
{
	struct mesh *m = container_of(sim, struct mesh, sim);
	uint32_t i;

	for (i = 0; i < m->cfg.nodes; i++) {
		m->node[i].step_wait = m->cfg.step_ns;
		sim_at(sim, m->now_ns, SIM_EV_STEP, i);
	}
	sim_loop(sim);
	if (!m->failed)
		mesh_check_end(m);
}

static void
run_end(struct sim *sim)
{
	struct mesh *m = container_of(sim, struct mesh, sim);

	mesh_net_drain(m);
	mesh_world_free(m);
}

static bool
run_due(const struct sim_end *end, const struct sim_event *ev)
{
	return end->timer_ns == ev->at_ns || end->bell_ns == ev->at_ns;
}

static struct sim_op *
run_op(struct sim_end *end, uint32_t index)
{
	return &container_of(end, struct mesh_side, sim_end)->op[index].sim_op;
}

static void
run_failing(struct sim_end *end, const struct sim_op *op, uint8_t status)
{
	struct mesh_side *side = container_of(end, struct mesh_side, sim_end);

	if (side->flushed)
		return;
	side->first_status = status;
	side->first_dead = side->dead;
}

static const struct sim_model run_model = {
	.stream = 10,
	.begin = run_begin,
	.play = run_play,
	.end = run_end,
	.arrive = mesh_net_arrive,
	.poll = mesh_poll,
	.step = mesh_step,
	.due = run_due,
	.send = mesh_net_send,
	.dump = mesh_dump,
	.op = run_op,
	.cqe = mesh_reap_cqe,
	.commit = mesh_reap_commit,
	.has_cause = mesh_reap_has_cause,
	.failing = run_failing,
};

void
mesh_open(struct mesh *m, const struct sim_stock *stock)
{
	uint32_t i;

	m->model = &run_model;
	m->sim_stock = *stock;
	for (i = 0; i < SIM_NODES; i++)
		sim_node_memory(&m->node[i].sim_node);
}

void
mesh_close(struct mesh *m)
{
	uint32_t i;

	for (i = 0; i < SIM_NODES; i++) {
		free(m->node[i].mem);
		free(m->node[i].base);
	}
	free(m);
}

void
mesh_summary(const struct mesh *m)
{
	const struct sim_stats *t = &m->stats;
	const struct mesh_stats *more = &m->more;

	printf("mesh: %" PRIu64 " lives, %" PRIu64 " killed; %" PRIu64 " frames, %" PRIu64
	       " lost, %" PRIu64 " doubled, %" PRIu64 " damaged, %" PRIu64 " handed over; %" PRIu64
	       " messages and %" PRIu64 " datagrams arrived, %" PRIu64 " completions, %" PRIu64
	       " WQEs failed as they had to; %" PRIu64 " binds, %" PRIu64 " windows gone, %" PRIu64
	       " drains, %" PRIu64 " recoveries from SQE, %" PRIu64
	       " CQs resized, %.1f s virtual\n",
	       more->lives, more->kills, t->frames, t->lost, t->doubled, t->damaged, more->handed,
	       more->delivered, more->datagrams, t->cqes, t->failed_wqes, more->binds,
	       more->invalidated, more->drained, more->recovered, more->resized,
	       (double)t->virtual_ns / 1e9);
	if (more->moves != 0)
		printf("mesh: %" PRIu64 " QPs moved to another worker\n", more->moves);
}
