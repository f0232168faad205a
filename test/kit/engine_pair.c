/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <rte_common.h>
#include <rte_mbuf.h>
#include "engine_pair.h"
#include "qp/doorbell.h"

#define TIMEOUT 14

static void
die(const char *what)
{
	fprintf(stderr, "engine pair: %s\n", what);
	exit(1);
}

static bool
on_frame(void *ctx, uint16_t dev, struct rte_mbuf *m)
{
	rte_pktmbuf_free(m);
	return true;
}

static void
on_handoff(void *ctx, uint32_t worker, uint32_t qpn, struct rte_mbuf *m)
{
	rte_pktmbuf_free(m);
}

static void
on_set_timer(void *ctx, struct qp *qp, uint64_t at_ns)
{
	qp->bind.timer_at_ns = at_ns;
}

static void
on_cq_event(void *ctx, struct cq *cq)
{
}

static void
on_async_event(void *ctx, enum qp_event ev, struct qp *qp, struct cq *cq)
{
	struct engine_pair *p = ctx;

	if (ev != QP_EVENT_COMM_EST)
		p->failed = true;
}

static const struct engine_ops pair_ops = {
	.slow_path = on_frame,
	.handoff = on_handoff,
	.set_timer = on_set_timer,
	.cq_event = on_cq_event,
	.async_event = on_async_event,
};

static void
conn_raise(struct engine_pair *p, unsigned side, uint32_t i)
{
	struct engine_pair_node *n = &p->node[side];
	struct qp_path path =
		rc_path(p->params.mac[side], p->params.mac[1 - side], side, RC_QPN_BASE + i);

	n->rc.conn[i].qp->bind.cc = p->params.policy;
	if (!rc_connect(&n->engine.env, n->rc.conn[i].qp, p->params.mtu, RC_QPN_BASE + i, TIMEOUT,
			&path))
		die("a QP cannot be connected");
	if (p->params.sr)
		qp_sr_set(n->sr, n->rc.conn[i].qp, QP_SR_ON);
}

static void
node_open(struct engine_pair *p, unsigned side)
{
	const struct engine_pair_params *params = &p->params;
	struct engine_pair_node *n = &p->node[side];
	uint32_t bytes = params->places * p->stride, entries = rc_entries(params->depth);
	uint8_t *host = rc_zalloc(bytes);

	n->sqes = qp_sqe_pool_create(params->qps, QP_WQE_CHUNKS);
	if (host == NULL || n->sqes == NULL ||
	    !rc_side_open(&n->rc, side, host, bytes, params->qps,
			  rc_entries(params->qps * params->depth)))
		die("no memory");
	engine_init(&n->engine, params->pool, n->sqes, &n->rc.mrs, &n->rc.qps, 0, &pair_ops, p);
	engine_add_dev(&n->engine, params->dev[side], params->mac[side], &n->counters);
	if (params->sr && (n->sr = qp_sr_pool_create(params->pool, 1024)) == NULL)
		die("no memory");
	engine_set_sr(&n->engine, n->sr);
	for (uint32_t i = 0; i < params->qps; i++) {
		if (!rc_conn_open(&n->rc, i, entries, entries, params->dev[side], &n->counters))
			die("no memory for a QP");
	}
}

void
engine_pair_open(struct engine_pair *p, const struct engine_pair_params *params)
{
	memset(p, 0, sizeof(*p));
	p->params = *params;
	p->stride = RTE_MAX(RTE_ALIGN_CEIL(params->size, 64), 64u);
	for (unsigned side = 0; side < 2; side++)
		node_open(p, side);
	for (unsigned side = 0; side < 2; side++)
		for (uint32_t i = 0; i < params->qps; i++)
			conn_raise(p, side, i);
}

void
engine_pair_close(struct engine_pair *p)
{
	for (unsigned side = 0; side < 2; side++) {
		struct engine_pair_node *n = &p->node[side];

		rte_pktmbuf_free_bulk(n->engine.env.tx, n->engine.env.tx_n);
		for (uint32_t i = 0; i < p->params.qps; i++) {
			engine_forget(&n->engine, n->rc.conn[i].qp);
			qp_free(n->rc.conn[i].qp);
		}
		free(n->rc.mr.host);
		rc_side_close(&n->rc);
		qp_sqe_pool_free(n->sqes);
		qp_sr_pool_free(n->sr);
	}
}

static uint64_t
offset_of(const struct engine_pair *p, uint64_t message)
{
	return message % p->params.places * p->stride;
}

void
engine_pair_post_recv(struct engine_pair *p, uint32_t i, uint64_t message)
{
	struct rc_side *s = &p->node[1].rc;

	rc_post_recv(s, &s->conn[i], 0, offset_of(p, message), p->params.size);
}

void
engine_pair_post(struct engine_pair *p, uint32_t i, uint8_t opcode)
{
	struct uroce_sge sge = {.addr = rc_addr(offset_of(p, p->posted++)),
				.length = p->params.size,
				.lkey = p->node[0].rc.mr.key};
	struct uroce_send_wqe w = {
		.wr_id = i,
		.opcode = opcode,
		.flags = UROCE_WQE_SIGNALED,
		.num = p->params.size != 0,
		.rdma = {.remote_addr = sge.addr, .rkey = p->node[1].rc.mr.key},
	};
	uint8_t *slot = rc_next_slot(&p->node[0].rc.conn[i].sq);

	memcpy(slot, &w, sizeof(w));
	memcpy(slot + sizeof(w), &sge, sizeof(sge));
}

void
engine_pair_publish(struct engine_pair *p, uint32_t i)
{
	struct rc_conn *c = &p->node[0].rc.conn[i];

	if (qp_doorbell_publish_here(c->sq.hdr, c->sq.prod))
		engine_doorbell(&p->node[0].engine, c->qp->conn.qpn);
}

uint32_t
engine_pair_poll(struct engine_pair *p, unsigned side)
{
	struct rc_side *s = &p->node[side].rc;
	const struct uroce_cqe *cqe;
	uint32_t took = 0;

	for (; (cqe = rc_next_cqe(s)) != NULL; took++) {
		if (cqe->status != QP_WC_SUCCESS)
			p->failed = true;
		if (side == 0)
			s->conn[cqe->wr_id].done++;
	}
	if (took != 0)
		rc_cqes_done(s);
	return took;
}

void
engine_pair_sent(struct engine_pair_node *node, uint32_t n)
{
	struct qp_env *env = &node->engine.env;

	env->tx_n -= n;
	memmove(env->tx, env->tx + n, env->tx_n * sizeof(env->tx[0]));
}

bool
engine_pair_verify(const struct engine_pair *p)
{
	const uint8_t *a = p->node[0].rc.mr.host, *b = p->node[1].rc.mr.host;

	for (uint64_t i = 0; i < p->params.places && i < p->posted; i++)
		if (memcmp(a + i * p->stride, b + i * p->stride, p->params.size) != 0)
			return false;
	return true;
}
