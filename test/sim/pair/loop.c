/* SPDX-License-Identifier: BSD-3-Clause */
/* The virtual clock, and what a worker does around its engine: rx, doorbells, timers, run, tx. */
#include <string.h>
#include <rte_common.h>
#include "apm.h"
#include "pair.h"

void
pair_at(struct pair *s, uint64_t at_ns, enum pair_event_kind kind, uint32_t arg)
{
	if (!sim_heap_push(&s->heap, RTE_MAX(at_ns, s->now_ns), kind, arg))
		pair_fail(s, "simulator: too many events");
}

void
pair_wake(struct pair_node *n, uint32_t after_ns)
{
	uint64_t at = n->pair->now_ns + after_ns;

	if (n->poll_at <= at)
		return;
	n->poll_at = at;
	pair_at(n->pair, at, PAIR_EV_POLL, n->idx);
}

/* When this worker comes round again: soon, or, once in a while, much later. */
static uint32_t
loop_pause(struct pair_node *n)
{
	struct pair *s = n->pair;

	if (sim_chance(&s->cli, s->cfg.stall))
		return sim_between(&s->cli, 10000, 400000);
	return sim_between(&s->cli, 1, 2 * s->cfg.poll_ns + 1);
}

/* Frames that were built go out; now and then the port takes only some of them. */
static void
loop_tx(struct pair_node *n)
{
	struct qp_env *env = &n->eng.env;
	struct pair *s = n->pair;
	uint32_t i, take = env->tx_n;

	if (sim_chance(&s->netr, s->cfg.tx_refuse))
		take = sim_below(&s->netr, env->tx_n + 1);
	for (i = 0; i < take; i++)
		pair_net_send(n, env->tx[i]);
	memmove(env->tx, env->tx + take, (env->tx_n - take) * sizeof(env->tx[0]));
	env->tx_n -= take;
}

/* A frame whose payload is gone, as its QP has flushed: lost, whatever was in it (QP-19). */
static bool
loop_gone(const struct pair_pkt *p)
{
	const struct pair_side *from = p->view.from;

	if (p->link < PAIR_LINK_LOOPBACK || from == NULL || !qp_view_is(p->m))
		return false;
	return qp_view_get(p->m).qpn != from->qpn ||
	       (from->qp->conn.state != QP_RTS && from->qp->conn.state != QP_SQD);
}

/* One by one, so that the trace sees the state that each frame meets. */
static void
loop_rx(struct pair_node *n)
{
	struct pair *s = n->pair;
	uint32_t i, k = RTE_MIN(n->rxq_n, 32u);
	uint64_t was;

	for (i = 0; i < k && !s->failed; i++) {
		struct pair_pkt p = *n->rxq[i];

		n->rxq[i]->m = NULL;
		pair_pkt_free(s, n->rxq[i]);
		p.intact = p.intact && !loop_gone(&p);
		pair_trace_arriving(s, &p);
		was = obs_accounted(&n->obs);
		if (p.link >= PAIR_LINK_LOOPBACK)
			engine_rx_loopback(&n->eng, s->now_ns, n->dev, &p.m, 1);
		else
			engine_rx(&n->eng, s->now_ns, n->dev, &p.m, 1);
		pair_trace_taken(s, &p);
		if (obs_accounted(&n->obs) != was + 1)
			pair_fail(s, "node %u: a frame counts %d times", n->idx,
				  (int)(obs_accounted(&n->obs) - was));
	}
	n->rxq_n -= i;
	memmove(n->rxq, n->rxq + i, n->rxq_n * sizeof(n->rxq[0]));
}

static void
loop_bells_and_timers(struct pair_node *n)
{
	struct pair *s = n->pair;
	uint32_t i;

	for (i = 0; i < s->nsides; i++) {
		struct pair_side *side = &s->side[i];

		if (side->node != n)
			continue;
		if (side->bell_ns != 0 && side->bell_ns <= s->now_ns) {
			side->bell_ns = 0;
			engine_doorbell(&n->eng, side->qpn);
		}
		if (side->timer_ns != 0 && side->timer_ns <= s->now_ns) {
			side->timer_ns = 0;
			engine_timer(&n->eng, s->now_ns, side->qp);
		}
	}
}

/* The view of a frame rides in its mbuf's private area, from its building to its sending. */
static void
loop_trace(struct pair_node *n, uint32_t from)
{
	uint32_t i;

	for (i = from; i < n->eng.env.tx_n; i++)
		pair_trace_built(n, n->eng.env.tx[i], rte_mbuf_to_priv(n->eng.env.tx[i]));
}

/*
 * Payload that is still in client memory: a port copies it when it takes the frame. A frame that
 * loops back may leave it there until it is received, or may have to wait for something (no dice
 * for that: seeds of old keep their meaning).
 */
static void
loop_payloads(struct pair_node *n, uint32_t from)
{
	struct pair *s = n->pair;
	uint32_t i;

	for (i = from; i < n->eng.env.tx_n; i++) {
		struct rte_mbuf *m = n->eng.env.tx[i];

		if (m->hash.usr == QP_TX_LOOPBACK && (s->cfg.small_pool || (i & 1)))
			engine_own(&n->eng, m);
		if (rte_pktmbuf_linearize(m) != 0)
			pair_fail(s, "node %u: no room for a frame in its buffer", n->idx);
	}
}

/* One loop of a worker. */
static void
loop_poll(struct pair_node *n)
{
	struct pair *s = n->pair;
	uint32_t had = n->eng.env.tx_n;
	bool more;

	n->poll_at = PAIR_NEVER;
	pair_move(n);
	if (n->rxq_n > 0)
		loop_rx(n);
	pair_move(n); /* with answers that are due */
	loop_bells_and_timers(n);
	more = engine_run(&n->eng, s->now_ns);
	loop_payloads(n, had);
	if (n->eng.env.tx_n > n->eng.env.tx_cap)
		pair_fail(s, "node %u: engine built more frames than it has room for", n->idx);
	loop_trace(n, had);
	loop_tx(n);
	if (!more && n->eng.env.tx_n == 0)
		pair_trace_idle(n);
	if (more || n->rxq_n > 0 || n->eng.env.tx_n > 0)
		pair_wake(n, loop_pause(n));
}

static void
ops_set_timer(void *ctx, struct qp *qp)
{
	struct pair_node *n = ctx;
	struct pair *s = n->pair;
	uint32_t i;

	qp->bind.timer_at_ns = qp->conn.snd.deadline_ns;
	for (i = 0; i < s->nsides; i++) {
		if (s->side[i].qp == qp) {
			s->side[i].timer_ns = qp->conn.snd.deadline_ns;
			pair_at(s, qp->conn.snd.deadline_ns, PAIR_EV_TIMER, i);
		}
	}
}

static bool
ops_slow_path(void *ctx, uint16_t dev, struct rte_mbuf *m)
{
	rte_pktmbuf_free(m);
	return true;
}

static void
ops_handoff(void *ctx, uint32_t worker, struct rte_mbuf *m)
{
	struct pair_node *n = ctx;

	rte_pktmbuf_free(m);
	pair_fail(n->pair, "node %u: frame handed to worker %u, there is only one", n->idx, worker);
}

static void
ops_cq_event(void *ctx, struct cq *cq)
{
	struct pair_cq *scq = cq->owner;

	scq->event = true;
}

static void
ops_async_event(void *ctx, enum qp_event ev, struct qp *qp, struct cq *cq)
{
	struct pair_node *n = ctx;
	struct pair *s = n->pair;
	uint32_t i;

	if (cq != NULL) {
		pair_fail(s,
			  "EVT-08: node %u cq %u: overrun, but its client never asked for too much",
			  n->idx, cq->id);
		return;
	}
	for (i = 0; i < s->nsides && s->side[i].qp != qp; i++)
		;
	pair_log(s, "node %u qp %06x asynchronous event %u", n->idx, qp->conn.qpn, ev);
	if (i == s->nsides)
		pair_fail(s, "asynchronous event of an unknown QP");
	else if (ev == QP_EVENT_COMM_EST)
		s->side[i].comm_est++;
	else if (ev == QP_EVENT_SQ_DRAINED)
		s->side[i].sq_drained++;
	else if (ev == QP_EVENT_QP_LAST_WQE_REACHED && s->cfg.srq)
		s->side[i].last_wqe++;
	else if (ev == QP_EVENT_SRQ_LIMIT_REACHED && s->cfg.srq)
		n->srq.limit_events++;
	else if (ev == QP_EVENT_PATH_MIG)
		pair_apm_event(&s->side[i]);
	else if (ev == QP_EVENT_QP_ACCESS_ERR || ev == QP_EVENT_QP_REQ_ERR)
		s->side[i].async_errors++;
	else
		pair_fail(s, "qp %06x: asynchronous event %u", qp->conn.qpn, ev);
}

const struct engine_ops pair_engine_ops = {
	.slow_path = ops_slow_path,
	.handoff = ops_handoff,
	.set_timer = ops_set_timer,
	.cq_event = ops_cq_event,
	.async_event = ops_async_event,
};

static void
loop_event(struct pair *s, const struct sim_event *ev)
{
	switch ((enum pair_event_kind)ev->kind) {
	case PAIR_EV_FRAME:
		pair_net_arrive(s, ev->arg);
		break;
	case PAIR_EV_POLL:
		if (s->node[ev->arg].poll_at == ev->at_ns)
			loop_poll(&s->node[ev->arg]);
		break;
	case PAIR_EV_STEP:
		pair_client_step(&s->node[ev->arg]);
		break;
	case PAIR_EV_TIMER:
		if (s->side[ev->arg].timer_ns == ev->at_ns)
			pair_wake(s->side[ev->arg].node, 0);
		break;
	case PAIR_EV_BELL:
		pair_wake(s->side[ev->arg].node, 0);
		break;
	}
}

void
pair_loop(struct pair *s)
{
	while (s->heap.n > 0 && !s->failed) {
		struct sim_event ev = sim_heap_pop(&s->heap);

		s->now_ns = ev.at_ns;
		sim_digest_event(&s->digest, &ev);
		s->nevents++;
		loop_event(s, &ev);
		if (s->now_ns - s->last_progress_ns > s->patience_ns &&
		    s->now_ns > s->last_progress_ns)
			pair_fail(s, "no progress for %lu us of virtual time: something hangs",
				  (unsigned long)(s->patience_ns / 1000));
	}
}
