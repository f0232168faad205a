/* SPDX-License-Identifier: BSD-3-Clause */
/* The turns of a worker, frame by frame, and its engine's callbacks. */
#include <string.h>
#include <rte_common.h>
#include "apm.h"
#include "pair.h"

#define FULL_NS 100000u /* READs are limited for this long */

/* A frame whose payload is gone, because its QP was flushed, counts as lost (QP-19). */
static bool
loop_gone(const struct pair_pkt *p)
{
	const struct pair_side *from = p->view.from;

	if (p->link < PAIR_LINK_LOOPBACK || from == NULL || !qp_view_is(p->m))
		return false;
	return qp_view_get(p->m).qpn != from->qpn ||
	       (from->qp->conn.state != QP_RTS && from->qp->conn.state != QP_SQD);
}

/* One frame at a time, so that the trace sees the state in which each frame arrives. */
static void
loop_rx(struct pair_node *n)
{
	struct pair *s = n->pair;
	uint32_t i, k = RTE_MIN(n->rxq_n, 32u);
	uint64_t was;

	/* A worker says so at half a burst, which is rare here. */
	n->worker.eng.env.behind = k > 1;
	if (s->cfg.full != 0 && k > 1) {
		n->worker.eng.env.read_bytes = s->cfg.full;
		n->worker.eng.env.read_limit_ns = s->now_ns + FULL_NS;
	}
	for (i = 0; i < k && !s->failed; i++) {
		struct pair_pkt p = *n->rxq[i];

		n->rxq[i]->m = NULL;
		pair_pkt_free(s, n->rxq[i]);
		p.intact = p.intact && !loop_gone(&p);
		pair_trace_arriving(s, &p);
		was = counters_accounted(&n->worker.counters);
		if (p.link >= PAIR_LINK_LOOPBACK)
			engine_rx_loopback(&n->worker.eng, s->now_ns, n->dev, &p.m, 1);
		else
			engine_rx(&n->worker.eng, s->now_ns, n->dev, &p.m, 1);
		pair_trace_taken(s, &p);
		if (counters_accounted(&n->worker.counters) != was + 1)
			sim_fail(&s->sim, "node %u: a frame counts %d times", n->idx,
				 (int)(counters_accounted(&n->worker.counters) - was));
	}
	n->rxq_n -= i;
	memmove(n->rxq, n->rxq + i, n->rxq_n * sizeof(n->rxq[0]));
}

/* A frame's struct pair_view is in its mbuf's private area from building to sending. */
static void
loop_trace(struct pair_node *n, uint32_t from)
{
	uint32_t i;

	for (i = from; i < n->worker.eng.env.tx_n; i++)
		pair_trace_built(n, n->worker.eng.env.tx[i],
				 rte_mbuf_to_priv(n->worker.eng.env.tx[i]));
}

/* Is the payload of the loopback frame m lent (mem/mr.h)? It then stays for this burst only. */
static bool
loop_is_lent(const struct pair_node *n, const struct rte_mbuf *m)
{
	const uint8_t *mem = n->sim_node.mem;

	return qp_view_is(m) &&
	       (qp_view_get(m).payload < mem || qp_view_get(m).payload >= mem + SIM_NODE_BYTES);
}

/*
 * Payload that is still in client memory: a port copies it when it takes the frame. A loopback
 * frame may leave it there until it is received, or may have to wait for something (not drawn at
 * random, so that old seeds keep their meaning).
 */
static void
loop_payloads(struct pair_node *n, uint32_t from)
{
	struct pair *s = n->pair;
	uint32_t i;

	for (i = from; i < n->worker.eng.env.tx_n; i++) {
		struct rte_mbuf *m = n->worker.eng.env.tx[i];

		if (m->hash.usr == QP_TX_LOOPBACK &&
		    (s->cfg.small_pool || (i & 1) || loop_is_lent(n, m)))
			engine_own(&n->worker.eng, m);
		if (rte_pktmbuf_linearize(m) != 0)
			sim_fail(&s->sim, "node %u: no room for a frame in its buffer", n->idx);
	}
}

/* One iteration of a worker. */
void
pair_poll(struct sim_worker *w)
{
	struct pair_node *n = container_of(w, struct pair_node, worker);
	struct pair *s = n->pair;
	uint32_t had = n->worker.eng.env.tx_n;
	bool more;

	n->worker.poll_at = SIM_NEVER;
	if (n->rxq_n > 0)
		loop_rx(n);
	sim_bells_and_timers(w);
	more = engine_run(&n->worker.eng, s->now_ns);
	loop_payloads(n, had);
	if (n->worker.eng.env.tx_n > n->worker.eng.env.tx_cap)
		sim_fail(&s->sim, "node %u: engine built more frames than it has room for", n->idx);
	loop_trace(n, had);
	sim_tx(w, s->cfg.tx_refuse);
	if (!more && n->worker.eng.env.tx_n == 0)
		pair_trace_idle(n);
	sim_again(w, more || n->rxq_n > 0 || n->worker.eng.env.tx_n > 0, s->cfg.stall,
		  s->cfg.poll_ns);
}

static void
ops_handoff(void *ctx, uint32_t worker, uint32_t qpn, struct rte_mbuf *m)
{
	struct pair_node *n = container_of((struct sim_worker *)ctx, struct pair_node, worker);

	rte_pktmbuf_free(m);
	sim_fail(&n->pair->sim, "node %u: frame handed to worker %u, there is only one", n->idx,
		 worker);
}

static void
ops_async_event(void *ctx, enum qp_event ev, struct qp *qp, struct cq *cq)
{
	struct pair_node *n = container_of((struct sim_worker *)ctx, struct pair_node, worker);
	struct pair *s = n->pair;
	uint32_t i;

	if (cq != NULL) {
		sim_fail(&s->sim,
			 "EVT-08: node %u cq %u: overrun, but its client never asked for too much",
			 n->idx, cq->id);
		return;
	}
	for (i = 0; i < s->nsides && s->side[i].qp != qp; i++)
		;
	sim_log(&s->sim, "node %u qp %06x asynchronous event %u", n->idx, qp->conn.qpn, ev);
	if (i == s->nsides)
		sim_fail(&s->sim, "asynchronous event of an unknown QP");
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
		sim_fail(&s->sim, "qp %06x: asynchronous event %u", qp->conn.qpn, ev);
}

const struct engine_ops pair_engine_ops = {
	.slow_path = sim_ops_slow_path,
	.handoff = ops_handoff,
	.set_timer = sim_ops_set_timer,
	.cq_event = sim_ops_cq_event,
	.async_event = ops_async_event,
};
