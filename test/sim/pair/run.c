/* SPDX-License-Identifier: BSD-3-Clause */
/* One schedule from its seed to its verdict. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <rte_common.h>
#include "pair.h"
#include "wire/timer.h"

void
pair_fail(struct pair *s, const char *fmt, ...)
{
	va_list ap;

	if (s->failed)
		return;
	s->failed = true;
	va_start(ap, fmt);
	vsnprintf(s->why, sizeof(s->why), fmt, ap);
	va_end(ap);
	pair_log(s, "VIOLATION: %s", s->why);
}

void
pair_log(struct pair *s, const char *fmt, ...)
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
run_patience(const struct pair_cfg *c)
{
	uint64_t timeout_ns = c->timeout != 0 ? wire_ack_timeout_ns(c->timeout) : QP_PROBE_MAX_NS;

	return 256 * timeout_ns + 64 * wire_rnr_timer_ns(c->rnr_code) + 2ull * c->blackout_ns +
	       50000000;
}

static void
run_start(struct pair *s, uint64_t seed, const char *const *set, unsigned nset)
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
	sim_rng_init(&s->mover, seed, 4);
	s->cfg.family = PAIR_ANY_FAMILY;
	for (i = 0; i < nset; i++)
		pair_cfg_set(&s->cfg, set[i]);
	pair_cfg_draw(&s->cfg, &r, s->cfg.family); /* which the others depend on */
	for (i = 0; i < nset; i++)
		pair_cfg_set(&s->cfg, set[i]);
	pair_cfg_settle(&s->cfg);
	s->patience_ns = run_patience(&s->cfg);
	if (s->verbose)
		pair_cfg_print(&s->cfg);
	pair_net_reset(s);
	pair_world_make(s);
}

/* Let the clients go on until nothing moves any more. */
static void
run_on(struct pair *s)
{
	uint32_t i;

	s->last_progress_ns = s->now_ns;
	for (i = 0; i < PAIR_NODES; i++) {
		s->node[i].step_wait = s->cfg.step_ns;
		pair_at(s, s->now_ns, PAIR_EV_STEP, i);
	}
	pair_loop(s);
}

/* QP-19, QP-21: by hand to the error state: what is outstanding is flushed, what is posted later
 * too. */
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
			pair_fail(s, "EVT-07: qp %06x: last WQE reached %u times", side->qpn,
				  side->last_wqe);
		if (side->reaped != side->posted || (!s->cfg.srq && side->rreaped != side->rposted))
			pair_fail(s,
				  "QP-19: qp %06x: %u of %u sends and %u of %u receives completed",
				  side->qpn, side->reaped, side->posted, side->rreaped,
				  side->rposted);
	}
}

/* SRQ-01: what QPs took from it is completed, the rest is as it was; EVT-10: one event. */
static void
run_srqs(struct pair *s)
{
	uint32_t i;

	for (i = 0; i < PAIR_NODES && s->cfg.srq; i++) {
		struct pair_srq *q = &s->node[i].srq;

		if (q->reaped != q->srq.head)
			pair_fail(s, "SRQ-01: node %u: %u of %u receives taken are complete", i,
				  q->reaped, q->srq.head);
		if (q->limit_events > 1)
			pair_fail(s, "EVT-10: node %u: SRQ limit reached %u times", i,
				  q->limit_events);
	}
}

static void
run_reset(struct pair *s)
{
	uint32_t i;

	for (i = 0; i < s->nsides && !s->failed; i++)
		pair_side_modify(&s->side[i], QP_RESET);
	pair_loop(s);
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

bool
pair_run(struct pair *s, uint64_t seed, const char *const *set, unsigned nset)
{
	uint32_t i;

	run_start(s, seed, set, nset);
	for (i = 0; i < s->cfg.rounds && !s->failed; i++)
		run_round(s);
	s->stats.cqes += s->node[0].cqes + s->node[1].cqes;
	s->stats.virtual_ns += s->now_ns - 1000000;
	pair_net_drain(s);
	pair_world_free(s);
	if (!s->failed)
		pair_check_pools(s);
	return !s->failed;
}
