/* SPDX-License-Identifier: BSD-3-Clause */
/* The virtual clock, and the worker's part around its engine: doorbells, timers, transmit. */
#include <string.h>
#include <rte_common.h>
#include "sim.h"

void
sim_at(struct sim *s, uint64_t at_ns, enum sim_event_kind kind, uint32_t arg)
{
	if (!sim_heap_push(&s->heap, RTE_MAX(at_ns, s->now_ns), kind, arg))
		sim_fail(s, "simulator: too many events");
}

static void
wake_at(struct sim_worker *w, uint64_t at_ns)
{
	if (w->poll_at <= at_ns)
		return;
	w->poll_at = at_ns;
	sim_at(w->home->sim, at_ns, SIM_EV_POLL, w->id);
}

void
sim_wake(struct sim_worker *w, uint32_t after_ns)
{
	wake_at(w, w->home->sim->now_ns + after_ns);
}

static uint32_t
loop_pause(struct sim *s, uint32_t stall, uint32_t poll_ns)
{
	if (sim_chance(&s->cli, stall))
		return sim_between(&s->cli, 10000, 400000);
	return sim_between(&s->cli, 1, 2 * poll_ns + 1);
}

void
sim_again(struct sim_worker *w, bool busy, uint32_t stall, uint32_t poll_ns)
{
	struct sim *s = w->home->sim;
	uint64_t next_ns = engine_next_ns(&w->eng);

	if (busy)
		sim_wake(w, loop_pause(s, stall, poll_ns));
	else if (next_ns != UINT64_MAX)
		wake_at(w, RTE_MAX(next_ns, s->now_ns));
}

void
sim_step_again(struct sim_node *n, bool busy, uint32_t step_ns)
{
	struct sim *s = n->sim;

	n->step_wait = busy ? step_ns : RTE_MIN(2 * n->step_wait + 1, 64ull * step_ns);
	sim_at(s, s->now_ns + sim_between(&s->cli, 1, (uint32_t)(2 * n->step_wait + 1)),
	       SIM_EV_STEP, n->idx);
}

void
sim_bells_and_timers(struct sim_worker *w)
{
	struct sim *s = w->home->sim;
	uint32_t i;

	for (i = 0; i < s->nsides; i++) {
		struct sim_end *e = s->end_at[i];

		if (e->home != w->home || e->worker != w->idx || e->qp == NULL)
			continue;
		if (e->bell_ns != 0 && e->bell_ns <= s->now_ns) {
			e->bell_ns = 0;
			engine_doorbell(&w->eng, e->qpn);
		}
		if (e->timer_ns != 0 && e->timer_ns <= s->now_ns) {
			e->timer_ns = 0;
			engine_timer(&w->eng, s->now_ns, e->qp);
		}
	}
}

void
sim_tx(struct sim_worker *w, uint32_t refuse)
{
	struct sim *s = w->home->sim;
	struct qp_env *env = &w->eng.env;
	uint32_t i, take = env->tx_n;

	if (sim_chance(&s->netr, refuse))
		take = sim_below(&s->netr, env->tx_n + 1);
	for (i = 0; i < take; i++)
		s->model->send(w, env->tx[i]);
	memmove(env->tx, env->tx + take, (env->tx_n - take) * sizeof(env->tx[0]));
	env->tx_n -= take;
}

void
sim_ops_set_timer(void *ctx, struct qp *qp, uint64_t at_ns)
{
	struct sim_worker *w = ctx;
	struct sim *s = w->home->sim;
	uint32_t i;

	qp->bind.timer_at_ns = at_ns;
	for (i = 0; i < s->nsides && s->end_at[i]->qp != qp; i++)
		;
	if (i == s->nsides) {
		sim_fail(s, "timer of an unknown QP");
		return;
	}
	/* A deadline in the past, as after a modify, means now, as for the worker's timer. */
	s->end_at[i]->timer_ns = RTE_MAX(at_ns, s->now_ns);
	sim_at(s, s->end_at[i]->timer_ns, SIM_EV_TIMER, i);
}

bool
sim_ops_slow_path(void *ctx, uint16_t dev, struct rte_mbuf *m)
{
	rte_pktmbuf_free(m);
	return true;
}

void
sim_ops_cq_event(void *ctx, struct cq *cq)
{
	((struct sim_cq *)cq->owner)->event = true;
}

static void
loop_event(struct sim *s, const struct sim_event *ev)
{
	struct sim_end *e;

	switch ((enum sim_event_kind)ev->kind) {
	case SIM_EV_FRAME:
		s->model->arrive(s, ev->arg);
		break;
	case SIM_EV_POLL:
		if (s->worker_at[ev->arg]->poll_at == ev->at_ns)
			s->model->poll(s->worker_at[ev->arg]);
		break;
	case SIM_EV_STEP:
		s->model->step(s->node_at[ev->arg]);
		break;
	case SIM_EV_TIMER:
	case SIM_EV_BELL:
		e = s->end_at[ev->arg];
		if (s->model->due(e, ev))
			sim_wake(s->worker_at[e->home->first_worker + e->worker], 0);
		break;
	}
}

void
sim_loop(struct sim *s)
{
	while (s->heap.n > 0 && !s->failed) {
		struct sim_event ev = sim_heap_pop(&s->heap);

		s->now_ns = ev.at_ns;
		sim_digest_event(&s->digest, &ev);
		loop_event(s, &ev);
		if (s->now_ns <= s->last_progress_ns + s->patience_ns)
			continue;
		if (s->model->dump != NULL)
			s->model->dump(s);
		sim_fail(s, "no progress for %lu us of virtual time: something hangs",
			 (unsigned long)(s->patience_ns / 1000));
	}
}
