/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The virtual clock, the clients' steps, and what a worker does around its engine: frames from its
 * queue and from other workers, doorbells, timers, run, transmit.
 */
#include <string.h>
#include <rte_common.h>
#include "mesh.h"
#include "wire/icrc.h"

static void
loop_at(struct mesh *m, uint64_t at_ns, enum mesh_event kind, uint32_t arg)
{
	if (!sim_heap_push(&m->heap, RTE_MAX(at_ns, m->now_ns), kind, arg))
		mesh_fail(m, "simulator: too many events");
}

void
mesh_wake(struct mesh_worker *w, uint32_t after_ns)
{
	struct mesh *m = w->node->m;
	uint64_t at = m->now_ns + after_ns;

	if (w->poll_at <= at)
		return;
	w->poll_at = at;
	loop_at(m, at, MESH_EV_POLL, w->node->idx * MESH_WORKERS + w->idx);
}

static uint32_t
loop_pause(struct mesh *m)
{
	if (sim_chance(&m->cli, m->cfg.stall))
		return sim_between(&m->cli, 10000, 400000);
	return sim_between(&m->cli, 1, 2 * m->cfg.poll_ns + 1);
}

/* One by one, so that the model sees the state that each frame meets. */
static void
loop_frames(struct mesh_worker *w, struct rte_mbuf **from, uint32_t *count)
{
	struct mesh_node *n = w->node;
	uint32_t k = RTE_MIN(*count, 32u), i;

	for (i = 0; i < k && !n->m->failed; i++) {
		struct rte_mbuf *frame = from[i];

		mesh_arriving(w, frame);
		if (frame->hash.usr == QP_TX_LOOPBACK)
			engine_rx_loopback(&w->eng, n->m->now_ns, n->dev, &frame, 1);
		else if (frame->hash.usr == ENGINE_RX_EXTRA)
			engine_rx_extra(&w->eng, n->m->now_ns, n->dev, frame);
		else
			engine_rx(&w->eng, n->m->now_ns, n->dev, &frame, 1);
		mesh_taken(w);
	}
	*count -= i;
	memmove(from, from + i, *count * sizeof(*from));
}

static void
loop_bells_and_timers(struct mesh_worker *w)
{
	struct mesh *m = w->node->m;
	uint32_t i;

	for (i = 0; i < m->nsides; i++) {
		struct mesh_side *side = &m->side[i];

		if (side->node != w->node || side->worker != w->idx || side->qp == NULL)
			continue;
		if (side->bell_ns != 0 && side->bell_ns <= m->now_ns) {
			side->bell_ns = 0;
			engine_doorbell(&w->eng, side->qpn);
		}
		if (side->timer_ns != 0 && side->timer_ns <= m->now_ns) {
			side->timer_ns = 0;
			engine_timer(&w->eng, m->now_ns, side->qp);
		}
	}
}

/* Frames that were built go out; those to this very node come round as they are. */
static void
loop_tx(struct mesh_worker *w)
{
	struct mesh *m = w->node->m;
	struct qp_env *env = &w->eng.env;
	uint32_t i, take = env->tx_n;

	if (sim_chance(&m->netr, m->cfg.tx_refuse))
		take = sim_below(&m->netr, env->tx_n + 1);
	for (i = 0; i < take; i++)
		mesh_net_send(w, env->tx[i]);
	memmove(env->tx, env->tx + take, (env->tx_n - take) * sizeof(env->tx[0]));
	env->tx_n -= take;
}

static void
loop_poll(struct mesh_worker *w)
{
	struct mesh *m = w->node->m;
	struct qp_env *env = &w->eng.env;
	uint32_t had = env->tx_n, i;
	bool more;

	w->poll_at = MESH_NEVER;
	loop_frames(w, w->in, &w->in_n);
	loop_frames(w, w->rx, &w->rx_n);
	loop_bells_and_timers(w);
	more = engine_run(&w->eng, m->now_ns);
	if (env->tx_n > env->tx_cap)
		mesh_fail(m, "node %u: engine built more frames than it has room for",
			  w->node->idx);
	for (i = had; i < env->tx_n; i++) { /* as a port copies them */
		if (env->tx[i]->hash.usr == QP_TX_LOOPBACK)
			qp_view_own(env->tx[i]);
		if (rte_pktmbuf_linearize(env->tx[i]) != 0)
			mesh_fail(m, "node %u: no room for a frame in its buffer", w->node->idx);
	}
	for (i = had; i < env->tx_n && !m->failed; i++)
		mesh_built(w, env->tx[i]);
	loop_tx(w);
	if (more || w->rx_n > 0 || w->in_n > 0 || env->tx_n > 0)
		mesh_wake(w, loop_pause(m));
}

static void
ops_set_timer(void *ctx, struct qp *qp)
{
	struct mesh_worker *w = ctx;
	struct mesh *m = w->node->m;
	struct mesh_side *side = mesh_side_of(m, qp->conn.qpn);

	qp->bind.timer_at_ns = qp->conn.snd.deadline_ns;
	if (side == NULL || side->qp != qp) {
		mesh_fail(m, "timer of an unknown QP");
		return;
	}
	side->timer_ns = qp->conn.snd.deadline_ns;
	loop_at(m, qp->conn.snd.deadline_ns, MESH_EV_TIMER, side->idx);
}

static bool
ops_slow_path(void *ctx, uint16_t dev, struct rte_mbuf *frame)
{
	rte_pktmbuf_free(frame);
	return true;
}

static void
ops_handoff(void *ctx, uint32_t worker, struct rte_mbuf *frame)
{
	struct mesh_worker *w = ctx, *to = &w->node->worker[worker];
	struct mesh *m = w->node->m;
	struct wire_pkt pkt;

	w->handed++;
	m->stats.handed++;
	if (w->group &&
	    (wire_parse(rte_pktmbuf_mtod(frame, uint8_t *), frame->data_len, &pkt) != WIRE_OK ||
	     !wire_icrc_check(&pkt)))
		mesh_fail(m, "WIRE-10: node %u: a member's copy is no good frame", w->node->idx);
	if (worker >= m->cfg.workers || worker == w->idx)
		mesh_fail(m, "node %u: worker %u hands a frame to worker %u", w->node->idx, w->idx,
			  worker);
	if (m->failed || to->in_n >= RTE_MIN(m->cfg.handoff, MESH_RX + 0u)) {
		m->stats.lost++;
		rte_pktmbuf_free(frame);
		return;
	}
	frame->hash.usr = 0xdeadbeef;
	to->in[to->in_n++] = frame;
	mesh_wake(to, sim_below(&m->netr, m->cfg.poll_ns + 1));
}

static void
ops_cq_event(void *ctx, struct cq *cq)
{
	((struct mesh_cq *)cq->owner)->event = true;
}

/* EVT-10: below the limit, once, until it is set again. */
static void
loop_srq_limit(struct mesh_side *side)
{
	struct mesh_srq *q = side->srq;

	if (q == NULL || q->armed == 0 || q->posted - q->srq.head >= q->armed)
		mesh_fail(side->m, "EVT-10: qp %06x: SRQ limit reached, limit %u, left %u",
			  side->qpn, q != NULL ? q->armed : 0,
			  q != NULL ? q->posted - q->srq.head : 0);
	else
		q->armed = 0;
}

static void
ops_async_event(void *ctx, enum qp_event ev, struct qp *qp, struct cq *cq)
{
	struct mesh_worker *w = ctx;
	struct mesh *m = w->node->m;
	struct mesh_side *side = qp != NULL ? mesh_side_of(m, qp->conn.qpn) : NULL;

	if (side == NULL || cq != NULL) {
		mesh_fail(m, "EVT-08: node %u: event %u of %s", w->node->idx, ev,
			  cq != NULL ? "a CQ" : "no QP");
		return;
	}
	mesh_log(m, "node %u qp %06x asynchronous event %u", w->node->idx, qp->conn.qpn, ev);
	side->comm_est += ev == QP_EVENT_COMM_EST;
	side->sq_drained += ev == QP_EVENT_SQ_DRAINED;
	side->last_wqe += ev == QP_EVENT_QP_LAST_WQE_REACHED;
	side->access_errs += ev == QP_EVENT_QP_ACCESS_ERR;
	side->req_errs += ev == QP_EVENT_QP_REQ_ERR;
	side->fatals += ev == QP_EVENT_QP_FATAL;
	if (ev == QP_EVENT_SRQ_LIMIT_REACHED)
		loop_srq_limit(side);
	else if (ev == QP_EVENT_CQ_ERR || ev == QP_EVENT_SRQ_ERR)
		mesh_fail(m, "qp %06x: asynchronous event %u", qp->conn.qpn, ev);
}

const struct engine_ops mesh_engine_ops = {
	.slow_path = ops_slow_path,
	.handoff = ops_handoff,
	.set_timer = ops_set_timer,
	.cq_event = ops_cq_event,
	.async_event = ops_async_event,
};

/* SRQ-01: a limit that the queue is below already is the daemon's to report (lib/control). */
static void
loop_arm_srqs(struct mesh_node *n)
{
	struct mesh *m = n->m;
	uint32_t i;

	for (i = 0; i < m->cfg.workers; i++) {
		struct mesh_srq *q = &n->worker[i].srq;
		uint32_t left = q->posted - q->srq.head;

		if (q->armed == 0 && q->srq.limit != 0)
			mesh_fail(m, "EVT-10: node %u: the limit did not disarm itself", n->idx);
		if (q->armed == 0 && left != 0 && sim_chance(&m->cli, 50000))
			q->armed = q->srq.limit = sim_between(&m->cli, 1, left);
	}
}

static bool
loop_quiet(const struct mesh *m)
{
	return mesh_over(m) && m->nfree_pkt == MESH_PKTS;
}

static void
loop_step(struct mesh_node *n)
{
	struct mesh *m = n->m;
	bool busy = mesh_poll(n);
	uint32_t i;

	busy |= mesh_srq_post(n);
	loop_arm_srqs(n);
	busy |= mesh_life_step(n);
	for (i = 0; i < m->nsides && !m->failed; i++) {
		if (m->side[i].node == n)
			busy |= mesh_post(&m->side[i]);
	}
	if (sim_chance(&m->cli, m->cfg.resize))
		mesh_cq_resize(n);
	mesh_srq_resize(n);
	mesh_ah_step(n);
	if (loop_quiet(m))
		return;
	n->step_wait =
		busy ? m->cfg.step_ns : RTE_MIN(2 * n->step_wait + 1, 64ull * m->cfg.step_ns);
	loop_at(m, m->now_ns + sim_between(&m->cli, 1, (uint32_t)(2 * n->step_wait + 1)),
		MESH_EV_STEP, n->idx);
}

static void
loop_event(struct mesh *m, const struct sim_event *ev)
{
	struct mesh_worker *w;
	struct mesh_side *side;

	switch ((enum mesh_event)ev->kind) {
	case MESH_EV_FRAME:
		mesh_net_arrive(m, ev->arg);
		break;
	case MESH_EV_POLL:
		w = &m->node[ev->arg / MESH_WORKERS].worker[ev->arg % MESH_WORKERS];
		if (w->poll_at == ev->at_ns)
			loop_poll(w);
		break;
	case MESH_EV_STEP:
		loop_step(&m->node[ev->arg]);
		break;
	case MESH_EV_TIMER:
	case MESH_EV_BELL:
		side = &m->side[ev->arg];
		if (side->timer_ns == ev->at_ns || side->bell_ns == ev->at_ns)
			mesh_wake(&side->node->worker[side->worker], 0);
		break;
	}
}

/* How long nothing may happen: every retry in vain, RNR waits, receives that come late. */
static uint64_t
loop_patience(const struct mesh_cfg *c)
{
	return 64 * (4096ull << c->timeout) + 4 * 655360000ull + 2ull * c->blackout_ns;
}

/* With -v: where everybody stands. */
static void
loop_dump(struct mesh *m)
{
	uint32_t i;

	for (i = 0; i < m->nsides; i++) {
		const struct mesh_side *s = &m->side[i];

		mesh_log(m,
			 "qp %06x conn %u life %u state %u: %s%s%s posted %u of %u, over %u; "
			 "receives %u of %u, delivered %u, due %u; srq %d",
			 s->qpn, (uint32_t)(s->conn - m->conn), s->conn->life, s->conn->state,
			 s->qp != NULL ? qp_state_name[s->qp->conn.state] : "none",
			 s->dead ? " dead" : "", s->flushed ? " flushed" : "", s->posted, s->nops,
			 s->reaped, s->rreaped, s->rposted, s->delivered, s->due_tail - s->due_head,
			 s->srq != NULL);
	}
}

void
mesh_loop(struct mesh *m)
{
	uint64_t patience = loop_patience(&m->cfg);
	uint32_t i;

	for (i = 0; i < m->cfg.nodes; i++) {
		m->node[i].step_wait = m->cfg.step_ns;
		loop_at(m, m->now_ns, MESH_EV_STEP, i);
	}
	m->last_progress_ns = m->now_ns;
	while (m->heap.n > 0 && !m->failed) {
		struct sim_event ev = sim_heap_pop(&m->heap);

		m->now_ns = ev.at_ns;
		sim_digest_event(&m->digest, &ev);
		loop_event(m, &ev);
		if (m->now_ns <= m->last_progress_ns + patience)
			continue;
		loop_dump(m);
		mesh_fail(m, "no progress for %lu us of virtual time: something hangs",
			  (unsigned long)(patience / 1000));
	}
}
