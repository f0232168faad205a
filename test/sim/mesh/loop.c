/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Steps of the clients, and iterations of a worker: frames from its queue and from other workers,
 * and callbacks of its engine.
 */
#include <string.h>
#include <rte_common.h>
#include "mesh.h"
#include "wire/icrc.h"

/* One frame at a time, so that the model sees the state in which each frame arrives. */
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

/*
 * With cfg.move, sometimes moves one of the worker's QPs to another worker, between two loops of
 * both. Frames on their way to the old one are handed over, and may be behind later ones.
 */
static void
move(struct mesh_worker *w)
{
	struct mesh *m = w->node->m;
	struct mesh_worker *to;
	struct mesh_side *side;

	if (m->cfg.move == 0 || m->failed || !sim_chance(&m->mover, m->cfg.move))
		return;
	side = &m->side[sim_below(&m->mover, m->nsides)];
	to = &w->node->worker[sim_below(&m->mover, m->cfg.workers)];
	if (side->node != w->node || side->qp == NULL || side->worker != w->idx || to == w ||
	    engine_may_give(side->qp) != NULL)
		return;
	engine_leave(&w->eng, side->qpn, to->idx);
	engine_give(&w->eng, side->qp, m->wqes);
	side->timer_ns = 0;
	if (!engine_take(&to->eng, side->qp, m->wqes, &to->counters)) {
		to = w;
		if (!engine_take(&w->eng, side->qp, m->wqes, &w->counters))
			sim_fail(&m->sim, "qp %06x: its worker does not take it back", side->qpn);
	}
	side->worker = side->qp->bind.worker = to->idx;
	m->more.moves++;
	sim_wake(&to->sim_worker, 0);
}

void
mesh_poll(struct sim_worker *worker)
{
	struct mesh_worker *w = container_of(worker, struct mesh_worker, sim_worker);
	struct mesh *m = w->node->m;
	struct qp_env *env = &w->eng.env;
	uint32_t had = env->tx_n, i;
	bool more;

	w->poll_at = SIM_NEVER;
	loop_frames(w, w->in, &w->in_n);
	loop_frames(w, w->rx, &w->rx_n);
	sim_bells_and_timers(worker);
	more = engine_run(&w->eng, m->now_ns);
	mesh_waits_check(w);
	if (env->tx_n > env->tx_cap)
		sim_fail(&m->sim, "node %u: engine built more frames than it has room for",
			 w->node->idx);
	for (i = had; i < env->tx_n; i++) { /* copied, as a port does */
		if (env->tx[i]->hash.usr == QP_TX_LOOPBACK)
			qp_view_own(env->tx[i]);
		if (rte_pktmbuf_linearize(env->tx[i]) != 0)
			sim_fail(&m->sim, "node %u: no room for a frame in its buffer",
				 w->node->idx);
	}
	for (i = had; i < env->tx_n && !m->failed; i++)
		mesh_built(w, env->tx[i]);
	sim_tx(worker, m->cfg.tx_refuse);
	move(w);
	sim_again(worker, more || w->rx_n > 0 || w->in_n > 0 || env->tx_n > 0, m->cfg.stall,
		  m->cfg.poll_ns);
}

static void
ops_handoff(void *ctx, uint32_t worker, uint32_t qpn, struct rte_mbuf *frame)
{
	struct mesh_worker *w = ctx, *to = &w->node->worker[worker];
	struct mesh *m = w->node->m;
	struct wire_pkt pkt;

	w->handed++;
	m->more.handed++;
	if (w->group &&
	    (wire_parse(rte_pktmbuf_mtod(frame, uint8_t *), frame->data_len, &pkt) != WIRE_OK ||
	     !wire_icrc_check(&pkt)))
		sim_fail(&m->sim, "WIRE-10: node %u: a member's copy is not a valid frame",
			 w->node->idx);
	if (worker >= m->cfg.workers || worker == w->idx)
		sim_fail(&m->sim, "node %u: worker %u hands a frame to worker %u", w->node->idx,
			 w->idx, worker);
	if (m->failed || to->in_n >= RTE_MIN(m->cfg.handoff, MESH_RX + 0u)) {
		m->stats.lost++;
		rte_pktmbuf_free(frame);
		return;
	}
	frame->hash.usr = 0xdeadbeef;
	to->in[to->in_n++] = frame;
	sim_wake(&to->sim_worker, sim_below(&m->netr, m->cfg.poll_ns + 1));
}

/* EVT-10: raised once below the limit, until the limit is set again. */
static void
loop_srq_limit(struct mesh_side *side)
{
	struct mesh_srq *q = side->srq;

	if (q == NULL || q->armed == 0 || q->posted - q->srq.head >= q->armed)
		sim_fail(&side->m->sim, "EVT-10: qp %06x: SRQ limit reached, limit %u, left %u",
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
		sim_fail(&m->sim, "EVT-08: node %u: event %u of %s", w->node->idx, ev,
			 cq != NULL ? "a CQ" : "no QP");
		return;
	}
	sim_log(&m->sim, "node %u qp %06x asynchronous event %u", w->node->idx, qp->conn.qpn, ev);
	side->comm_est += ev == QP_EVENT_COMM_EST;
	side->sq_drained += ev == QP_EVENT_SQ_DRAINED;
	side->last_wqe += ev == QP_EVENT_QP_LAST_WQE_REACHED;
	side->access_errs += ev == QP_EVENT_QP_ACCESS_ERR;
	side->req_errs += ev == QP_EVENT_QP_REQ_ERR;
	side->fatals += ev == QP_EVENT_QP_FATAL;
	if (ev == QP_EVENT_SRQ_LIMIT_REACHED)
		loop_srq_limit(side);
	else if (ev == QP_EVENT_CQ_ERR || ev == QP_EVENT_SRQ_ERR)
		sim_fail(&m->sim, "qp %06x: asynchronous event %u", qp->conn.qpn, ev);
}

const struct engine_ops mesh_engine_ops = {
	.slow_path = sim_ops_slow_path,
	.handoff = ops_handoff,
	.set_timer = sim_ops_set_timer,
	.cq_event = sim_ops_cq_event,
	.async_event = ops_async_event,
};

/* SRQ-01: the daemon reports a limit that the queue is already below (lib/control). */
static void
loop_arm_srqs(struct mesh_node *n)
{
	struct mesh *m = n->m;
	uint32_t i;

	for (i = 0; i < m->cfg.workers; i++) {
		struct mesh_srq *q = &n->worker[i].srq;
		uint32_t left = q->posted - q->srq.head;

		if (q->armed == 0 && q->srq.limit != 0)
			sim_fail(&m->sim, "EVT-10: node %u: the limit did not disarm itself",
				 n->idx);
		if (q->armed == 0 && left != 0 && sim_chance(&m->cli, 50000))
			q->armed = q->srq.limit = sim_between(&m->cli, 1, left);
	}
}

static bool
loop_quiet(const struct mesh *m)
{
	return mesh_over(m) && m->nfree_pkt == MESH_PKTS;
}

void
mesh_step(struct sim_node *node)
{
	struct mesh_node *n = container_of(node, struct mesh_node, sim_node);
	struct mesh *m = n->m;
	bool busy = sim_reap(node);
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
	sim_step_again(node, busy, m->cfg.step_ns);
}

void
mesh_dump(struct sim *sim)
{
	struct mesh *m = container_of(sim, struct mesh, sim);
	uint32_t i;

	for (i = 0; i < m->nsides; i++) {
		const struct mesh_side *s = &m->side[i];

		sim_log(&m->sim,
			"qp %06x conn %u life %u %s: %s%s%s posted %u of %u, over %u; "
			"receives %u of %u, delivered %u, due %u; srq %d",
			s->qpn, (uint32_t)(s->conn - m->conn), s->conn->life,
			mesh_conn_state_name[s->conn->state],
			s->qp != NULL ? qp_state_name[s->qp->conn.state] : "none",
			s->dead ? " dead" : "", s->flushed ? " flushed" : "", s->posted, s->nops,
			s->reaped, s->rreaped, s->rposted, s->delivered, s->due_tail - s->due_head,
			s->srq != NULL);
	}
}
