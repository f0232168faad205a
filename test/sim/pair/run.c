/* SPDX-License-Identifier: BSD-3-Clause */
/* One schedule from its seed to its verdict. */
#include <stdlib.h>
#include <rte_common.h>
#include "pair.h"
#include "wire/timer.h"
/*
 * The longest time without progress: every retry fails, or without a timeout as many probes; RNR
 * waits, late receives.
 */
static uint64_t
run_patience(const struct pair_cfg *c)
{
	uint64_t timeout_ns = c->timeout != 0 ? wire_ack_timeout_ns(c->timeout) : QP_PROBE_MAX_NS;

	return 256 * timeout_ns + 64 * wire_rnr_timer_ns(c->rnr_code) + 2ull * c->blackout_ns +
	       512ull * c->pace + 50000000;
}

static void
run_begin(struct sim *sim, struct sim_rng *r, const char *const *set, unsigned nset)
{
	struct pair *s = container_of(sim, struct pair, sim);
	unsigned i;

	s->by_hand = false;
	s->next_id = 1;
	s->cfg.family = PAIR_ANY_FAMILY;
	for (i = 0; i < nset; i++)
		pair_cfg_set(&s->cfg, set[i]);
	pair_cfg_draw(&s->cfg, r, s->cfg.family); /* first: other fields depend on it */
	for (i = 0; i < nset; i++)
		pair_cfg_set(&s->cfg, set[i]);
	pair_cfg_settle(&s->cfg);
	s->patience_ns = run_patience(&s->cfg);
	sim_pace.gap_ns = s->cfg.pace;
	/* A part of a wrong READ may be right, and is stored. */
	sim_pace.parts = s->cfg.family != PAIR_FAULTS;
	if (s->verbose)
		pair_cfg_print(&s->cfg);
	pair_net_reset(s);
	pair_world_make(s);
}

/* Runs the clients until no event is left. */
static void
run_on(struct pair *s)
{
	uint32_t i;

	s->last_progress_ns = s->now_ns;
	for (i = 0; i < PAIR_NODES; i++) {
		s->node[i].step_wait = s->cfg.step_ns;
		sim_at(&s->sim, s->now_ns, SIM_EV_STEP, i);
	}
	sim_loop(&s->sim);
}

/* QP-19, QP-21: the client moves QPs to ERR: outstanding and later WQEs are flushed. */
static void
run_error_state(struct pair *s)
{
	uint32_t i;

	s->by_hand = true;
	for (i = 0; i < s->nsides && !s->failed; i++)
		pair_side_modify(&s->side[i], QP_ERR);
	run_on(s);
	for (i = 0; i < s->nsides && !s->failed; i++)
		pair_client_post_dead(&s->side[i]);
	run_on(s);
	for (i = 0; i < s->nsides && !s->failed; i++) {
		struct pair_side *side = &s->side[i];

		if (s->cfg.srq && side->last_wqe != 1)
			sim_fail(&s->sim, "EVT-07: qp %06x: last WQE reached %u times", side->qpn,
				 side->last_wqe);
		if (side->reaped != side->posted || (!s->cfg.srq && side->rreaped != side->rposted))
			sim_fail(&s->sim,
				 "QP-19: qp %06x: %u of %u sends and %u of %u receives completed",
				 side->qpn, side->reaped, side->posted, side->rreaped,
				 side->rposted);
	}
}

/* SRQ-01: WQEs that QPs took are completed, the others unchanged; EVT-10: one event. */
static void
run_srqs(struct pair *s)
{
	uint32_t i;

	for (i = 0; i < PAIR_NODES && s->cfg.srq; i++) {
		struct pair_srq *q = &s->node[i].srq;

		if (q->reaped != q->srq.head)
			sim_fail(&s->sim, "SRQ-01: node %u: %u of %u receives taken are complete",
				 i, q->reaped, q->srq.head);
		if (q->limit_events > 1)
			sim_fail(&s->sim, "EVT-10: node %u: SRQ limit reached %u times", i,
				 q->limit_events);
	}
}

static void
run_reset(struct pair *s)
{
	uint32_t i;

	for (i = 0; i < s->nsides && !s->failed; i++)
		pair_side_modify(&s->side[i], QP_RESET);
	sim_loop(&s->sim);
}

/* QPs from RESET through a connection and back to RESET. */
static void
run_round(struct pair *s)
{
	pair_world_connect(s);
	run_on(s);
	if (!s->failed)
		pair_check_end(s);
	if (!s->failed)
		run_error_state(s);
	if (!s->failed)
		run_srqs(s);
	if (!s->failed)
		pair_check_memory(s);
	if (!s->failed)
		run_reset(s);
}

static void
run_play(struct sim *sim)
{
	struct pair *s = container_of(sim, struct pair, sim);
	uint32_t i;

	for (i = 0; i < s->cfg.rounds && !s->failed; i++)
		run_round(s);
}

static void
run_end(struct sim *sim)
{
	struct pair *s = container_of(sim, struct pair, sim);

	pair_net_drain(s);
	pair_world_free(s);
}

/* A doorbell always wakes, even an old one: a newer one may have been sent since. */
static bool
run_due(const struct sim_end *end, const struct sim_event *ev)
{
	return ev->kind == SIM_EV_BELL || end->timer_ns == ev->at_ns;
}

static struct sim_op *
run_op(struct sim_end *end, uint32_t index)
{
	return &container_of(end, struct pair_side, sim_end)->op[index].sim_op;
}

/* The client owns the memory again. */
static void
run_failing(struct sim_end *end, const struct sim_op *op, uint8_t status)
{
	container_of(end, struct pair_side, sim_end)->local.tail =
		container_of(op, const struct pair_op, sim_op)->local_end;
}

static const struct sim_model run_model = {
	.stream = 0,
	.begin = run_begin,
	.play = run_play,
	.end = run_end,
	.arrive = pair_net_arrive,
	.poll = pair_poll,
	.step = pair_client_step,
	.due = run_due,
	.send = pair_net_send,
	.touched = pair_client_race,
	.op = run_op,
	.cqe = pair_reap_cqe,
	.commit = pair_reap_commit,
	.has_cause = pair_reap_has_cause,
	.failing = run_failing,
};

void
pair_open(struct pair *s, const struct sim_stock *stock)
{
	uint32_t i;

	s->model = &run_model;
	s->sim_stock = *stock;
	for (i = 0; i < PAIR_NODES; i++) {
		sim_node_memory(&s->node[i].sim_node);
		s->node[i].model = malloc(SIM_NODE_BYTES);
		if (s->node[i].model == NULL)
			abort();
	}
}

void
pair_close(struct pair *s)
{
	uint32_t i;

	for (i = 0; i < PAIR_NODES; i++) {
		free(s->node[i].mem);
		free(s->node[i].base);
		free(s->node[i].model);
	}
	free(s);
}
