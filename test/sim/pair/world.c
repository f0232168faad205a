/* SPDX-License-Identifier: BSD-3-Clause */
/* Nodes, regions, rings and QPs of a schedule. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <rte_common.h>
#include "pair.h"

#define WORLD_VA                                                                                   \
	0x7f1234560000u /* where a client has its memory, for regions that are not mapped */

static int
world_mem_read(void *ctx, uint64_t va, void *dst, uint32_t len)
{
	struct pair_node *n = ctx;

	pair_client_race(n);
	if (va < WORLD_VA || va - WORLD_VA + len > n->used)
		return -EFAULT;
	memcpy(dst, n->mem + (va - WORLD_VA), len);
	return 0;
}

static int
world_mem_write(void *ctx, uint64_t va, const void *src, uint32_t len, uint64_t once)
{
	struct pair_node *n = ctx;

	pair_client_race(n);
	if (va < WORLD_VA || va - WORLD_VA + len > n->used)
		return -EFAULT;
	memcpy(n->mem + (va - WORLD_VA), src, len);
	return 0;
}

static int
world_mem_atomic(void *ctx, uint64_t va, const struct mem_atomic *a, uint64_t once, uint64_t *orig)
{
	int rc = world_mem_read(ctx, va, orig, sizeof(*orig));
	uint64_t next = a->swap ? a->value : *orig + a->value;

	if (rc == 0 && (!a->swap || *orig == a->compare))
		rc = world_mem_write(ctx, va, &next, sizeof(next), once);
	return rc;
}

static const struct mem_ops world_mem_ops = {.read = world_mem_read,
					     .write = world_mem_write,
					     .atomic = world_mem_atomic};

/* Carve and register len bytes, with a strip that is nobody's in front. */
static void
world_area(struct pair_node *n, struct pair_area *a, uint32_t len, uint32_t pd, uint32_t access)
{
	struct pair *s = n->pair;

	a->off = n->used + 64 + sim_below(&s->load, 256);
	if (access & MEM_REMOTE_ATOMIC) /* words, here and as the peer names them */
		a->off = RTE_ALIGN_CEIL(a->off, 8);
	a->len = len;
	a->head = a->tail = 0;
	n->used = a->off + len + 64;
	if (n->used > PAIR_NODE_BYTES) {
		pair_fail(s, "simulator: node memory too small");
		n->used = a->off = 0;
	}
	memset(&a->mr, 0, sizeof(a->mr));
	a->mr.len = len;
	a->mr.pd = pd;
	a->mr.access = access;
	/* Sometimes the region's last byte is the last one of the address space. */
	a->mr.iova = sim_chance(&s->load, 60000)
			     ? 0 - (uint64_t)len
			     : (sim_rand(&s->load) >> 4) + sim_below(&s->load, 99);
	if (access & MEM_REMOTE_ATOMIC)
		a->mr.iova &= ~7ull;
	a->mr.va = WORLD_VA + a->off;
	a->mr.ops = &world_mem_ops;
	a->mr.ops_ctx = n;
	a->mr.host = sim_chance(&s->load, s->cfg.copy_mr) ? NULL : n->mem + a->off;
	if (sim_key_add(&n->mrs, &a->mr, &s->load) != 0)
		pair_fail(s, "simulator: no slot for a region");
}

static void *
world_zalloc(size_t bytes)
{
	void *p = aligned_alloc(64, RTE_ALIGN_CEIL(bytes, 64));

	if (p == NULL)
		abort();
	memset(p, 0, bytes);
	return p;
}

static struct qp_ring
world_ring(struct pair_ring *r, uint32_t entries, uint32_t stride, uint32_t max_sge,
	   uint32_t max_inline)
{
	r->hdr = world_zalloc(UROCE_RING_HDR + (size_t)entries * stride);
	r->slots = (uint8_t *)r->hdr + UROCE_RING_HDR;
	r->entries = entries;
	r->stride = stride;
	r->prod = 0;
	return (struct qp_ring){.hdr = r->hdr,
				.slots = r->slots,
				.mask = entries - 1,
				.stride = stride,
				.max_sge = max_sge,
				.max_inline = max_inline};
}

static void
world_caps(struct pair_side *side)
{
	struct pair *s = side->pair;
	const struct pair_cfg *c = &s->cfg;
	struct uroce_qp_cap want = {
		.max_send_wr = sim_between(&s->load, 1, c->depth),
		.max_recv_wr = sim_between(&s->load, 1, c->depth),
		.max_send_sge = sim_between(&s->load, 1, c->sge),
		.max_recv_sge = sim_between(&s->load, 1, c->sge),
		.max_inline = sim_chance(&s->load, 500000) ? sim_scale(&s->load, 1, 512) : 0,
	};

	if (qp_cap_grant(&want, &side->cap) != 0 || side->cap.max_send_wr < want.max_send_wr ||
	    side->cap.max_recv_wr < want.max_recv_wr || side->cap.max_inline < want.max_inline)
		pair_fail(s, "LIFE-03: granted less than was asked for");
}

static void
world_side(struct pair_side *side)
{
	struct pair *s = side->pair;
	struct pair_node *n = side->node;
	uint32_t room = 2 * s->cfg.maxlen + 4096;
	uint32_t local = MEM_LOCAL_WRITE;
	uint32_t remote = MEM_LOCAL_WRITE | MEM_REMOTE_WRITE | MEM_REMOTE_READ;
	uint32_t ncq = s->cfg.cq_events == 2 ? 2 : s->cfg.ncq;

	side->pd = s->cfg.srq ? 1 : 1 + sim_below(&s->load, 3);
	side->qpn = (sim_below(&s->load, 0xffff) + 1) << 6 | (side->idx + 2);
	side->cookie = sim_rand(&s->load);
	world_caps(side);
	if (s->cfg.cq_events == 2) {
		side->scq = &n->cq[0];
		side->rcq = &n->cq[1];
	} else {
		side->scq = &n->cq[sim_below(&s->load, ncq)];
		side->rcq = &n->cq[sim_below(&s->load, ncq)];
	}
	side->scq->entries += side->cap.max_send_wr;
	side->rcq->entries += s->cfg.srq ? n->srq.max_wr : side->cap.max_recv_wr;
	world_area(n, &side->local, room, side->pd, local);
	world_area(n, &side->recvs, room, side->pd, local);
	world_area(n, &side->window, s->cfg.maxlen + sim_below(&s->load, 512), side->pd, remote);
	world_area(n, &side->readonly, 4096, side->pd, 0);
	world_area(n, &side->atoms, 8 * PAIR_ATOMS, side->pd, MEM_LOCAL_WRITE | MEM_REMOTE_ATOMIC);
}

static void
world_qp(struct pair_side *side)
{
	struct pair_node *n = side->node;
	struct qp_create c = {
		.qpn = side->qpn,
		.type = QP_TYPE_RC,
		.port = n->dev,
		.pd = side->pd,
		.send_cq = &side->scq->cq,
		.recv_cq = &side->rcq->cq,
		.sig_all = sim_chance(&side->pair->load, 200000),
		.user_handle = side->cookie,
		.cap = side->cap,
		.obs = &n->obs,
	};

	c.sq = world_ring(&side->sq, side->cap.max_send_wr,
			  uroce_sq_stride(side->cap.max_send_sge, side->cap.max_inline),
			  side->cap.max_send_sge, side->cap.max_inline);
	if (side->pair->cfg.srq)
		c.srq = &n->srq.srq;
	else
		c.rq = world_ring(&side->rq, side->cap.max_recv_wr,
				  uroce_rq_stride(side->cap.max_recv_sge), side->cap.max_recv_sge,
				  0);
	side->qp = qp_create(&c);
	if (side->qp == NULL)
		abort();
	n->qps.slot[side->qpn & n->qps.mask] = side->qp;
}

static void
world_cq(struct pair_node *n, uint32_t i)
{
	struct pair_cq *cq = &n->cq[i];

	cq->entries = rte_align32pow2(RTE_MAX(cq->entries, 2u));
	cq->hdr = world_zalloc(UROCE_CQ_HDR + (size_t)cq->entries * sizeof(struct uroce_cqe));
	cq_init(&cq->cq, cq->hdr, cq->entries);
	cq->cq.id = i;
	cq->cq.owner = cq;
	cq->arm = UROCE_CQ_ARM_ANY;
	if (n->pair->cfg.cq_events == 2 && i == 1)
		cq->arm = UROCE_CQ_ARM_SOLICITED;
	if (n->pair->cfg.cq_events != 0)
		cq->hdr->arm = cq->arm;
}

static void
world_node(struct pair *s, uint32_t idx)
{
	struct pair_node *n = &s->node[idx];
	uint8_t *mem = n->mem, *base = n->base, *model = n->model;
	struct rte_mempool *pool = s->cfg.small_pool ? s->small_pool : s->pool;
	struct qp_sqe_pool *sqes;

	memset(n, 0, sizeof(*n));
	n->mem = mem;
	n->base = base;
	n->model = model;
	n->pair = s;
	n->idx = idx;
	n->dev = (uint16_t)(1 + 2 * idx);
	n->poll_at = PAIR_NEVER;
	memcpy(n->mac, (uint8_t[]){0x02, 0, 0, 0, 7, (uint8_t)(idx + 1)}, 6);
	if (mr_table_init(&n->mrs, 512) != 0 || qp_table_init(&n->qps, 64) != 0)
		abort();
	sqes = qp_sqe_pool_create(PAIR_MAX_SIDES, s->cfg.small_pool ? 1 : 32);
	if (sqes == NULL)
		abort();
	engine_init(&n->eng, pool, sqes, &n->mrs, &n->qps, 0, &pair_engine_ops, n);
	engine_add_dev(&n->eng, n->dev, n->mac, &n->obs);
	engine_set_vlan(&n->eng, n->dev, pair_vid(s));
	if (s->cfg.view != 0) {
		engine_set_segs(&n->eng, s->segs);
		engine_set_views(&n->eng, n->dev, s->cfg.view);
		engine_set_loop_views(&n->eng, s->cfg.view);
	}
	n->eng.env.now_ns = s->now_ns;
}

static void
world_srq(struct pair_node *n)
{
	struct pair *s = n->pair;
	struct pair_srq *q = &n->srq;

	q->max_wr = rte_align32pow2(sim_between(&s->load, 1, RTE_MIN(s->cfg.depth, 64u)));
	q->max_sge = sim_between(&s->load, 1, s->cfg.sge);
	q->cookie = sim_rand(&s->load);
	world_area(n, &q->area, 4 * s->cfg.maxlen + 8192, 1, MEM_LOCAL_WRITE);
	q->srq.rq = world_ring(&q->ring, q->max_wr, uroce_rq_stride(q->max_sge), q->max_sge, 0);
	q->srq.pd = 1;
	q->srq.limit = sim_below(&s->load, q->max_wr + 1);
	q->srq.user_handle = q->cookie;
}

/* The same bytes in all three copies; a strip of the table, from another place each time. */
static void
world_fill(struct pair_node *n)
{
	uint32_t at, len;

	n->used += 64;
	for (at = 0; at < n->used; at += len) {
		len = RTE_MIN(n->used - at, 65536u);
		memcpy(n->mem + at,
		       n->pair->table + sim_below(&n->pair->load, PAIR_TABLE_BYTES - len), len);
	}
	memcpy(n->base, n->mem, n->used);
	memcpy(n->model, n->mem, n->used);
}

static void
world_pair(struct pair *s, uint32_t pair)
{
	struct pair_side *a = &s->side[2 * pair], *b = a + 1;
	bool loop = sim_chance(&s->load, s->cfg.loopback);
	struct pair_side *side;

	for (side = a; side <= b; side++) {
		memset(side, 0, sizeof(*side));
		side->pair = s;
		side->idx = (uint32_t)(side - s->side);
		side->peer = side == a ? b : a;
		side->node = &s->node[loop ? pair & 1 : side->idx & 1];
		world_side(side);
	}
}

void
pair_world_make(struct pair *s)
{
	uint32_t i, k;

	s->nsides = 2 * s->cfg.pairs;
	for (i = 0; i < PAIR_NODES; i++) {
		world_node(s, i);
		if (s->cfg.srq)
			world_srq(&s->node[i]);
	}
	for (i = 0; i < s->nsides / 2; i++)
		world_pair(s, i);
	for (i = 0; i < PAIR_NODES; i++) {
		world_area(&s->node[i], &s->node[i].idle, 4096, 99,
			   MEM_LOCAL_WRITE | MEM_REMOTE_WRITE | MEM_REMOTE_READ);
		for (k = 0; k < PAIR_MAX_CQ; k++)
			world_cq(&s->node[i], k);
		world_fill(&s->node[i]);
	}
	for (i = 0; i < s->nsides; i++)
		world_qp(&s->side[i]);
}

void
pair_world_free(struct pair *s)
{
	uint32_t i, k;

	for (i = 0; i < s->nsides; i++) {
		struct pair_side *side = &s->side[i];

		for (k = 0; k < side->nops; k++)
			free(side->op[k].snapshot);
		if (side->qp != NULL) {
			engine_forget(&side->node->eng, side->qp);
			side->node->qps.slot[side->qpn & side->node->qps.mask] = NULL;
			qp_free(side->qp);
		}
		free(side->sq.hdr);
		free(side->rq.hdr);
	}
	for (i = 0; i < PAIR_NODES; i++) {
		struct engine *e = &s->node[i].eng;

		for (k = 0; k < e->env.tx_n; k++)
			rte_pktmbuf_free(e->env.tx[k]);
		e->env.tx_n = 0;
		for (k = 0; k < PAIR_MAX_CQ; k++)
			free(s->node[i].cq[k].hdr);
		free(s->node[i].srq.ring.hdr);
		mr_table_free(&s->node[i].mrs);
		qp_table_free(&s->node[i].qps);
		if (!qp_sqe_pool_whole(e->env.sqes))
			pair_fail(s, "node %u: copies of WQEs are leaked", i);
		qp_sqe_pool_free(e->env.sqes);
	}
}
