/* SPDX-License-Identifier: BSD-3-Clause */
/* Nodes, regions, rings and QPs of a schedule. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <rte_common.h>
#include "pair.h"

/* Reserves and registers len bytes, after an unused strip. */
static void
world_area(struct pair_node *n, struct pair_area *a, uint32_t len, uint32_t pd, uint32_t access)
{
	struct pair *s = n->pair;
	uint64_t iova;

	a->off = n->used + 64 + sim_below(&s->load, 256);
	if (access & MEM_REMOTE_ATOMIC) /* words: aligned here and at the peer's address */
		a->off = RTE_ALIGN_CEIL(a->off, 8);
	a->head = a->tail = 0;
	sim_area_place(&n->sim_node, &a->sim_area, a->off, len, pd, access);
	/* Sometimes the region ends at the end of the address space. */
	iova = sim_chance(&s->load, 60000) ? 0 - (uint64_t)len
					   : (sim_rand(&s->load) >> 4) + sim_below(&s->load, 99);
	if (access & MEM_REMOTE_ATOMIC)
		iova &= ~7ull;
	sim_area_show(&n->sim_node, &a->sim_area, iova);
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
		sim_fail(&s->sim, "LIFE-03: granted less than was asked for");
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
	side->scq->need += side->cap.max_send_wr;
	side->rcq->need += s->cfg.srq ? n->srq.max_wr : side->cap.max_recv_wr;
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
		.user_handle = side->cookie,
		.cap = side->cap,
		.counters = &n->worker.counters,
	};

	side->sig_all = c.sig_all = sim_chance(&side->pair->load, 200000);
	c.sq = sim_ring_make(&side->sq, side->cap.max_send_wr,
			     uroce_sq_stride(side->cap.max_send_sge, side->cap.max_inline),
			     side->cap.max_send_sge, side->cap.max_inline);
	if (side->pair->cfg.srq)
		c.srq = &n->srq.srq;
	else
		c.rq = sim_ring_make(&side->rq, side->cap.max_recv_wr,
				     uroce_rq_stride(side->cap.max_recv_sge),
				     side->cap.max_recv_sge, 0);
	side->qp = qp_create(&c);
	if (side->qp == NULL)
		abort();
	n->qps.slot[side->qpn & n->qps.mask] = side->qp;
}

static void
world_node(struct pair *s, uint32_t idx)
{
	struct pair_node *n = &s->node[idx];
	uint8_t *mem = n->mem, *base = n->base, *model = n->model;
	uint32_t i;

	memset(n, 0, sizeof(*n));
	n->mem = mem;
	n->base = base;
	n->model = model;
	n->pair = s;
	n->dev = (uint16_t)(1 + 2 * idx);
	memcpy(n->mac, (uint8_t[]){0x02, 0, 0, 0, 7, (uint8_t)(idx + 1)}, 6);
	sim_node_make(&s->sim, &n->sim_node, idx, 512, 64);
	sim_worker_make(&n->sim_node, &n->worker, 0, idx, 1, s->cfg.small_pool, s->cfg.view,
			&pair_engine_ops);
	engine_set_vlan(&n->worker.eng, n->dev, pair_vid(s));
	n->ncqs = SIM_CQS;
	for (i = 0; i < SIM_CQS && s->cfg.cq_events != 0; i++)
		n->cq[i].arm =
			s->cfg.cq_events == 2 && i == 1 ? UROCE_CQ_ARM_SOLICITED : UROCE_CQ_ARM_ANY;
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
	q->srq.rq = sim_ring_make(&q->ring, q->max_wr, uroce_rq_stride(q->max_sge), q->max_sge, 0);
	q->srq.pd = 1;
	q->srq.limit = sim_below(&s->load, q->max_wr + 1);
	q->srq.user_handle = q->cookie;
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
		s->end_at[side->idx] = &side->sim_end;
		side->node = &s->node[loop ? pair & 1 : side->idx & 1];
		side->home = &side->node->sim_node;
		world_side(side);
	}
}

void
pair_world_make(struct pair *s)
{
	uint32_t i, k;

	s->nsides = 2 * s->cfg.pairs;
	s->nnodes = PAIR_NODES;
	s->max_ends = PAIR_MAX_SIDES;
	s->copy_mr = s->cfg.copy_mr;
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
		for (k = 0; k < SIM_CQS; k++)
			sim_cq_make(&s->node[i].sim_node, k);
		sim_node_fill(&s->node[i].sim_node);
		memcpy(s->node[i].model, s->node[i].mem, s->node[i].used);
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
		sim_end_free(&side->sim_end, &side->node->worker.eng);
	}
	for (i = 0; i < PAIR_NODES; i++) {
		sim_worker_free(&s->node[i].worker);
		free(s->node[i].srq.ring.hdr);
		sim_node_free(&s->node[i].sim_node);
	}
}
