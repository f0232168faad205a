/* SPDX-License-Identifier: BSD-3-Clause */
/* One schedule from its seed to its verdict. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <rte_common.h>
#include "sim.h"
#include "wire/timer.h"

void
sim_fail(struct sim *s, const char *fmt, ...)
{
	va_list ap;

	if (s->failed)
		return;
	s->failed = true;
	va_start(ap, fmt);
	vsnprintf(s->why, sizeof(s->why), fmt, ap);
	va_end(ap);
	sim_log(s, "VIOLATION: %s", s->why);
}

void
sim_log(struct sim *s, const char *fmt, ...)
{
	va_list ap;

	if (!s->verbose)
		return;
	printf("%12.3f us  ", (double)s->now_ns / 1000);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
}

/*
 * How long nothing may happen: every retry in vain, or without a timeout as many probes; RNR waits,
 * receives that come late.
 */
static uint64_t
run_patience(const struct sim_cfg *c)
{
	uint64_t timeout_ns = c->timeout != 0 ? wire_ack_timeout_ns(c->timeout) : QP_PROBE_MAX_NS;

	return 256 * timeout_ns + 64 * wire_rnr_timer_ns(c->rnr_code) + 2ull * c->blackout_ns +
	       50000000;
}

static void
run_start(struct sim *s, uint64_t seed, const char *const *set, unsigned nset)
{
	struct sim_rng r;
	unsigned i;

	s->seed = seed;
	s->now_ns = 1000000;
	s->failed = s->by_hand = false;
	s->why[0] = '\0';
	sim_heap_clear(&s->heap);
	s->digest.value = SIM_DIGEST_START;
	s->nevents = 0;
	s->next_id = 1;
	s->last_progress_ns = s->now_ns;
	sim_rng_init(&r, seed, 0);
	sim_rng_init(&s->load, seed, 1);
	sim_rng_init(&s->cli, seed, 2);
	sim_rng_init(&s->netr, seed, 3);
	s->cfg.family = SIM_ANY_FAMILY;
	for (i = 0; i < nset; i++)
		sim_cfg_set(&s->cfg, set[i]);
	sim_cfg_draw(&s->cfg, &r, s->cfg.family); /* which the others depend on */
	for (i = 0; i < nset; i++)
		sim_cfg_set(&s->cfg, set[i]);
	sim_cfg_settle(&s->cfg);
	s->patience_ns = run_patience(&s->cfg);
	if (s->verbose)
		sim_cfg_print(&s->cfg);
	sim_net_reset(s);
	sim_world_make(s);
}

/* Let the clients go on until nothing moves any more. */
static void
run_on(struct sim *s)
{
	uint32_t i;

	s->last_progress_ns = s->now_ns;
	for (i = 0; i < SIM_NODES; i++) {
		s->node[i].step_wait = s->cfg.step_ns;
		sim_at(s, s->now_ns, SIM_EV_STEP, i);
	}
	sim_loop(s);
}

/* QP-19, QP-21: by hand to the error state: what is outstanding is flushed, what is posted later
 * too. */
static void
run_error_state(struct sim *s)
{
	uint32_t i;

	s->by_hand = true;
	for (i = 0; i < s->nsides && !s->failed; i++)
		sim_side_modify(&s->side[i], QP_ERR);
	run_on(s);
	for (i = 0; i < s->nsides && !s->failed; i++)
		sim_client_post_dead(&s->side[i]);
	run_on(s);
	for (i = 0; i < s->nsides && !s->failed; i++) {
		struct sim_side *side = &s->side[i];

		if (s->cfg.srq && side->last_wqe != 1)
			sim_fail(s, "EVT-07: qp %06x: last WQE reached %u times", side->qpn,
				 side->last_wqe);
		if (side->reaped != side->posted || (!s->cfg.srq && side->rreaped != side->rposted))
			sim_fail(s,
				 "QP-19: qp %06x: %u of %u sends and %u of %u receives completed",
				 side->qpn, side->reaped, side->posted, side->rreaped,
				 side->rposted);
	}
}

/* SRQ-01: what QPs took from it is completed, the rest is as it was; EVT-10: one event. */
static void
run_srqs(struct sim *s)
{
	uint32_t i;

	for (i = 0; i < SIM_NODES && s->cfg.srq; i++) {
		struct sim_srq *q = &s->node[i].srq;

		if (q->reaped != q->srq.head)
			sim_fail(s, "SRQ-01: node %u: %u of %u receives taken are complete", i,
				 q->reaped, q->srq.head);
		if (q->limit_events > 1)
			sim_fail(s, "EVT-10: node %u: SRQ limit reached %u times", i,
				 q->limit_events);
	}
}

static void
run_reset(struct sim *s)
{
	uint32_t i;

	for (i = 0; i < s->nsides && !s->failed; i++)
		sim_side_modify(&s->side[i], QP_RESET);
	sim_loop(s);
}

/* QPs from RESET through a connection and back to RESET. */
static void
run_round(struct sim *s)
{
	sim_world_connect(s);
	run_on(s);
	if (!s->failed)
		sim_check_end(s);
	if (!s->failed)
		run_error_state(s);
	if (!s->failed)
		run_srqs(s);
	if (!s->failed)
		sim_check_memory(s);
	if (!s->failed)
		run_reset(s);
}

bool
sim_run(struct sim *s, uint64_t seed, const char *const *set, unsigned nset)
{
	uint32_t i;

	run_start(s, seed, set, nset);
	for (i = 0; i < s->cfg.rounds && !s->failed; i++)
		run_round(s);
	s->stats.cqes += s->node[0].cqes + s->node[1].cqes;
	s->stats.virtual_ns += s->now_ns - 1000000;
	sim_net_drain(s);
	sim_world_free(s);
	if (!s->failed)
		sim_check_pools(s);
	return !s->failed;
}
