/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <rte_common.h>
#include <rte_mbuf.h>
#include "engine_pair.h"
#include "qp/doorbell.h"
#include "rc_connect.h"

#define IOVA     0x100000000ull
#define PD       1
#define QPN_BASE 0x100u
#define TIMEOUT  14

static void
die(const char *what)
{
	fprintf(stderr, "engine pair: %s\n", what);
	exit(1);
}

void *
engine_pair_zalloc(size_t bytes)
{
	size_t pages = RTE_ALIGN_CEIL(bytes, 4096);
	void *p = aligned_alloc(4096, pages);

	if (p == NULL)
		die("no memory");
	return memset(p, 0, pages);
}

static bool
on_frame(void *ctx, uint16_t dev, struct rte_mbuf *m)
{
	rte_pktmbuf_free(m);
	return true;
}

static void
on_handoff(void *ctx, uint32_t worker, struct rte_mbuf *m)
{
	rte_pktmbuf_free(m);
}

static void
on_set_timer(void *ctx, struct qp *qp)
{
	qp->bind.timer_at_ns = qp->conn.snd.deadline_ns;
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

struct qp_ring
pair_ring_make(struct pair_ring *r, uint32_t entries, uint32_t stride)
{
	r->hdr = engine_pair_zalloc(UROCE_RING_HDR + (size_t)entries * stride);
	r->slots = (uint8_t *)r->hdr + UROCE_RING_HDR;
	r->mask = entries - 1;
	r->stride = stride;
	r->prod = 0;
	return (struct qp_ring){
		.hdr = r->hdr, .slots = r->slots, .mask = r->mask, .stride = stride, .max_sge = 1};
}

static uint32_t
pow2(uint32_t n)
{
	return rte_align32pow2(RTE_MAX(n, 16u));
}

static void
conn_open(struct engine_pair *p, unsigned side, uint32_t i)
{
	struct engine_pair_node *n = &p->node[side];
	struct pair_conn *c = &n->conn[i];
	uint32_t entries = pow2(p->params.depth);
	struct qp_create q = {
		.qpn = QPN_BASE + i,
		.type = QP_TYPE_RC,
		.dev_mtu = 5,
		.port = p->params.dev[side],
		.pd = PD,
		.send_cq = &n->cq,
		.recv_cq = &n->cq,
		.user_handle = i,
		.cap = {entries, entries, 1, 1, 0},
		.counters = &n->counters,
	};

	q.sq = pair_ring_make(&c->sq, entries, uroce_sq_stride(1, 0));
	q.rq = pair_ring_make(&c->rq, entries, uroce_rq_stride(1));
	c->qp = qp_create(&q);
	if (c->qp == NULL)
		die("no memory for a QP");
	n->qps.slot[q.qpn & n->qps.mask] = c->qp;
}

static void
conn_raise(struct engine_pair *p, unsigned side, uint32_t i)
{
	struct engine_pair_node *n = &p->node[side];
	struct qp_path path =
		rc_path(p->params.mac[side], p->params.mac[1 - side], side, QPN_BASE + i);

	if (!rc_connect(&n->engine.env, n->conn[i].qp, p->params.mtu, QPN_BASE + i, TIMEOUT, &path))
		die("a QP cannot be connected");
}

static void
node_open(struct engine_pair *p, unsigned side)
{
	const struct engine_pair_params *params = &p->params;
	struct engine_pair_node *n = &p->node[side];
	uint32_t entries = pow2(params->qps * params->depth);
	uint32_t bytes = params->places * p->stride;

	if (mr_table_init(&n->mrs, 16) != 0 ||
	    qp_table_init(&n->qps, pow2(params->qps + QPN_BASE)) != 0)
		die("no memory");
	n->sqes = qp_sqe_pool_create(params->qps, QP_WQE_CHUNKS);
	n->conn = calloc(params->qps, sizeof(*n->conn));
	if (n->sqes == NULL || n->conn == NULL)
		die("no memory");
	engine_init(&n->engine, params->pool, n->sqes, &n->mrs, &n->qps, 0, &pair_ops, p);
	engine_add_dev(&n->engine, params->dev[side], params->mac[side], &n->counters);
	n->cq_hdr = engine_pair_zalloc(UROCE_CQ_HDR + (size_t)entries * sizeof(struct uroce_cqe));
	n->cq_mask = entries - 1;
	cq_init(&n->cq, n->cq_hdr, entries);
	n->mr = (struct mr){.iova = IOVA,
			    .len = bytes,
			    .host = engine_pair_zalloc(bytes),
			    .pd = PD,
			    .access = MEM_LOCAL_WRITE | MEM_REMOTE_WRITE | MEM_REMOTE_READ |
				      MEM_REMOTE_ATOMIC};
	if (mr_table_add(&n->mrs, &n->mr, 0x100005a5) != 0)
		die("no memory");
	for (uint32_t i = 0; i < bytes; i++)
		n->mr.host[i] = (uint8_t)((i * 2654435761u) >> 24) ^ (uint8_t)(side * 0x5a);
	for (uint32_t i = 0; i < params->qps; i++)
		conn_open(p, side, i);
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
			engine_forget(&n->engine, n->conn[i].qp);
			qp_free(n->conn[i].qp);
			free(n->conn[i].sq.hdr);
			free(n->conn[i].rq.hdr);
		}
		free(n->conn);
		free(n->cq_hdr);
		free(n->mr.host);
		qp_table_free(&n->qps);
		qp_sqe_pool_free(n->sqes);
		mr_table_free(&n->mrs);
	}
}

static struct uroce_sge
place_of(const struct engine_pair *p, unsigned side, uint64_t message)
{
	return (struct uroce_sge){.addr = IOVA + message % p->params.places * p->stride,
				  .length = p->params.size,
				  .lkey = p->node[side].mr.key};
}

static uint8_t *
next_slot(struct pair_ring *r)
{
	return r->slots + (size_t)(r->prod++ & r->mask) * r->stride;
}

void
engine_pair_post_recv(struct engine_pair *p, uint32_t i, uint64_t message)
{
	struct pair_ring *r = &p->node[1].conn[i].rq;
	struct uroce_recv_wqe w = {.num_sge = 1};
	struct uroce_sge sge = place_of(p, 1, message);
	uint8_t *slot = next_slot(r);

	memcpy(slot, &w, sizeof(w));
	memcpy(slot + sizeof(w), &sge, sizeof(sge));
	__atomic_store_n(&r->hdr->prod, r->prod, __ATOMIC_RELEASE);
}

void
engine_pair_post(struct engine_pair *p, uint32_t i, uint8_t opcode)
{
	struct uroce_sge sge = place_of(p, 0, p->posted++);
	struct uroce_send_wqe w = {
		.wr_id = i,
		.opcode = opcode,
		.flags = UROCE_WQE_SIGNALED,
		.num = p->params.size != 0,
		.rdma = {.remote_addr = sge.addr, .rkey = p->node[1].mr.key},
	};
	uint8_t *slot = next_slot(&p->node[0].conn[i].sq);

	memcpy(slot, &w, sizeof(w));
	memcpy(slot + sizeof(w), &sge, sizeof(sge));
}

void
engine_pair_publish(struct engine_pair *p, uint32_t i)
{
	struct pair_conn *c = &p->node[0].conn[i];

	if (qp_doorbell_publish_here(c->sq.hdr, c->sq.prod))
		engine_doorbell(&p->node[0].engine, c->qp->conn.qpn);
}

uint32_t
engine_pair_poll(struct engine_pair *p, unsigned side)
{
	struct engine_pair_node *n = &p->node[side];
	const struct uroce_cqe *ring = (const void *)((uint8_t *)n->cq_hdr + UROCE_CQ_HDR);
	uint32_t took = 0;

	for (;; took++) {
		const struct uroce_cqe *cqe = &ring[n->cq_cons & n->cq_mask];
		uint32_t lap = n->cq_cons / (n->cq_mask + 1) + 1;

		if (__atomic_load_n(&cqe->phase, __ATOMIC_ACQUIRE) != lap)
			break;
		if (cqe->status != QP_WC_SUCCESS)
			p->failed = true;
		if (side == 0)
			n->conn[cqe->wr_id].done++;
		n->cq_cons++;
	}
	if (took != 0)
		__atomic_store_n(&n->cq_hdr->cons, n->cq_cons, __ATOMIC_RELEASE);
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
	const uint8_t *a = p->node[0].mr.host, *b = p->node[1].mr.host;

	for (uint64_t i = 0; i < p->params.places && i < p->posted; i++)
		if (memcmp(a + i * p->stride, b + i * p->stride, p->params.size) != 0)
			return false;
	return true;
}
