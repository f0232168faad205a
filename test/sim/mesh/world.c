/* SPDX-License-Identifier: BSD-3-Clause */
/* Nodes, workers, regions, queues and QPs of a schedule. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <rte_common.h>
#include "mesh.h"

void
mesh_area_show(struct mesh_node *n, struct mesh_area *a)
{
	struct mesh *m = n->m;

	a->told = (sim_rand(&m->load) >> 8 & ~7ull) + (a->off & 7);
	a->gone = false;
	a->shown = true;
	sim_area_show(&n->sim_node, &a->sim_area, a->told);
}

void
mesh_area_hide(struct mesh_node *n, struct mesh_area *a)
{
	if (!a->shown)
		return;
	a->shown = false;
	a->gone = true;
	mr_table_del(&n->mrs, &a->mr);
}

/* Reserves len bytes after an unused strip, and registers them. */
static void
world_area(struct mesh_node *n, struct mesh_area *a, uint32_t len, uint32_t pd, uint32_t access)
{
	struct mesh *m = n->m;

	memset(a, 0, sizeof(*a));
	sim_area_place(&n->sim_node, &a->sim_area,
		       RTE_ALIGN_CEIL(n->used + 64 + sim_below(&m->load, 64), 8), len, pd, access);
	mesh_area_show(n, a);
}

static void
world_slots(struct mesh_node *n, struct mesh_area *a, uint32_t stride, uint32_t access)
{
	world_area(n, a, MESH_SLOTS * stride, 1, access);
	a->stride = stride;
}

void
mesh_group_gid(uint32_t group, uint8_t gid[16])
{
	memset(gid, 0, 16);
	if (group & 1) {
		gid[0] = 0xff;
		gid[1] = 0x12;
		gid[15] = (uint8_t)(7 + group);
		return;
	}
	gid[10] = gid[11] = 0xff;
	gid[12] = 239;
	gid[15] = (uint8_t)(7 + group);
}

static int
member_cmp(const void *a, const void *b)
{
	return engine_member_cmp(a, b);
}

void
mesh_members_set(struct mesh_node *n)
{
	struct mesh *m = n->m;
	uint32_t i, g, k = 0;

	for (i = 0; i < m->nsides; i++) {
		struct mesh_side *side = &m->side[i];

		/* A QP is in the groups whose bit is set in its number. */
		for (g = 0; g < MESH_GROUPS; g++) {
			if (side->node != n || side->type != QP_TYPE_UD || side->qp == NULL ||
			    !(side->idx >> g & 1))
				continue;
			mesh_group_gid(g, n->member[k].gid);
			n->member[k++].qpn = side->qpn;
		}
	}
	qsort(n->member, k, sizeof(n->member[0]), member_cmp);
	n->addrs = (struct engine_addrs){.ngids = 2,
					 .nmembers = k,
					 .gid = (const uint8_t(*)[16])n->gid,
					 .member = n->member};
	for (i = 0; i < m->cfg.workers; i++)
		engine_set_addrs(&n->worker[i].eng, n->dev, &n->addrs);
}

static void
world_srq(struct mesh_worker *w)
{
	struct mesh *m = w->node->m;
	struct mesh_srq *q = &w->srq;
	uint32_t max_wr = rte_align32pow2(sim_between(&m->load, 1, 16));

	q->cookie = sim_rand(&m->load);
	world_slots(w->node, &q->area, m->cfg.maxlen + 128, MEM_LOCAL_WRITE);
	q->srq.rq = sim_ring_make(&q->ring, max_wr, uroce_rq_stride(2), 2, 0);
	q->srq.pd = 1;
	q->srq.user_handle = q->cookie;
	q->srq.worker = (uint16_t)w->idx;
}

static void
world_node(struct mesh *m, uint32_t idx)
{
	struct mesh_node *n = &m->node[idx];
	uint8_t *mem = n->mem, *base = n->base;
	uint32_t i;

	memset(n, 0, sizeof(*n));
	n->mem = mem;
	n->base = base;
	n->m = m;
	n->dev = (uint16_t)(1 + idx);
	memcpy(n->mac, (uint8_t[]){0x02, 0, 0, 0, 9, (uint8_t)(idx + 1)}, 6);
	n->gid[0][10] = n->gid[0][11] = 0xff;
	n->gid[0][12] = 10;
	n->gid[1][0] = 0xfd;
	n->gid[0][15] = n->gid[1][15] = (uint8_t)(idx + 1);
	sim_node_make(&m->sim, &n->sim_node, idx, 1024, 256);
	n->ncqs = MESH_CQS;
	n->cq[MESH_CQS - 1].arm = UROCE_CQ_ARM_ANY;
	for (i = 0; i < m->cfg.workers; i++) {
		struct mesh_worker *w = &n->worker[i];

		w->node = n;
		sim_worker_make(&n->sim_node, &w->sim_worker, i, idx * SIM_WORKERS + i,
				m->cfg.workers, m->cfg.small_pool, m->cfg.view, &mesh_engine_ops);
		world_srq(w);
	}
	world_area(n, &n->consts, MESH_CONST_LEN, 1, MEM_REMOTE_READ);
	world_area(n, &n->idle, 4096, 99, MEM_LOCAL_WRITE | MEM_REMOTE_WRITE | MEM_REMOTE_READ);
	world_area(n, &n->counter, 8, 1, MEM_LOCAL_WRITE | MEM_REMOTE_ATOMIC);
}

/* The targets of a node's address handles: each node by both of its addresses, and the groups. */
static void
world_ahs(struct mesh_node *n)
{
	struct mesh *m = n->m;
	uint32_t i;

	n->ahs = (struct qp_ah_table){.slot = n->ah_slot, .nslots = MESH_AHS};
	for (i = 0; i < 2 * m->cfg.nodes + MESH_GROUPS; i++) {
		struct qp_ah *ah = &n->ah[i];
		uint32_t to = i / 2, group = i - 2 * m->cfg.nodes;
		bool v6 = i & 1;

		ah->pd = 1;
		ah->handle = i;
		ah->path_ok = true;
		ah->path.hop_limit = 64;
		memcpy(ah->path.smac, n->mac, 6);
		if (to < m->cfg.nodes) {
			ah->loopback = to == n->idx;
			memcpy(ah->path.dmac, m->node[to].mac, 6);
			memcpy(ah->path.dgid, m->node[to].gid[v6], 16);
		} else {
			ah->multicast = true;
			mesh_group_gid(group, ah->path.dgid);
			v6 = group & 1;
			memcpy(ah->path.dmac, v6 ? "\x33\x33\0\0\0\1" : "\x01\0\x5e\0\0\1", 6);
		}
		memcpy(ah->path.sgid, n->gid[v6], 16);
		n->ah_slot[i] = ah;
	}
}

static void
world_side(struct mesh_conn *c, struct mesh_node *n)
{
	struct mesh *m = n->m;
	struct mesh_side *side = &m->side[m->nsides];
	uint32_t stride = m->cfg.maxlen + 64;
	struct uroce_qp_cap want = {
		.max_send_wr = sim_between(&m->load, 1, m->cfg.depth),
		.max_recv_wr = sim_between(&m->load, 1, m->cfg.depth),
		.max_send_sge = sim_between(&m->load, 1, m->cfg.sge),
		.max_recv_sge = sim_between(&m->load, 1, m->cfg.sge),
		.max_inline = sim_chance(&m->load, 500000) ? sim_scale(&m->load, 1, 256) : 0,
	};

	memset(side, 0, sizeof(*side));
	side->m = m;
	side->conn = c;
	side->node = n;
	side->home = &n->sim_node;
	m->end_at[m->nsides] = &side->sim_end;
	side->type = c->type;
	side->idx = m->nsides++;
	side->worker = sim_below(&m->load, m->cfg.workers);
	side->cookie = sim_rand(&m->load);
	side->sig_all = sim_chance(&m->load, 200000);
	side->attr.sq_psn = (uint32_t)sim_rand(&m->load) & WIRE_PSN_MASK;
	qp_cap_grant(&want, &side->cap);
	if (sim_chance(&m->load, m->cfg.srq))
		side->srq = &n->worker[side->worker].srq;
	side->scq = &n->cq[sim_below(&m->load, MESH_CQS)];
	side->rcq = &n->cq[sim_below(&m->load, MESH_CQS)];
	side->scq->need += 4 * side->cap.max_send_wr;
	side->rcq->need += 4 * (side->srq != NULL ? MESH_SLOTS : side->cap.max_recv_wr);
	world_slots(n, &side->local, stride, MEM_LOCAL_WRITE);
	world_slots(n, &side->recvs, stride + WIRE_GRH_LEN, MEM_LOCAL_WRITE);
	if (side->type != QP_TYPE_UD)
		world_slots(n, &side->slots, stride,
			    MEM_LOCAL_WRITE | MEM_REMOTE_WRITE | MEM_REMOTE_READ);
	if (side->type == QP_TYPE_RC) {
		world_area(n, &side->words, 8, 1, MEM_LOCAL_WRITE | MEM_REMOTE_ATOMIC);
		world_area(n, &side->wins, MESH_WINS * MESH_SLOTS * MESH_WIN_LEN, 1,
			   MEM_LOCAL_WRITE | MEM_MW_BIND);
	}
	c->side[c->nsides++] = side;
}

void
mesh_qp_make(struct mesh_side *side)
{
	struct mesh_node *n = side->node;
	struct mesh *m = side->m;
	struct qp_create c = {
		.type = side->type,
		.port = n->dev,
		.worker = (uint16_t)side->worker,
		.pd = 1,
		.send_cq = &side->scq->cq,
		.recv_cq = &side->rcq->cq,
		.ahs = &n->ahs,
		.dev_mtu = 5,
		.sig_all = side->sig_all,
		.user_handle = side->cookie,
		.cap = side->cap,
		.counters = &n->worker[side->worker].counters,
	};

	side->gen++;
	side->qpn = (sim_below(&m->load, 0xfff0) + 1) << 8 | (side->gen & 1) << 7 |
		    (4 * (side->idx + 2) + side->worker);
	c.qpn = side->qpn;
	c.sq = sim_ring_make(&side->sq, side->cap.max_send_wr,
			     uroce_sq_stride(side->cap.max_send_sge, side->cap.max_inline),
			     side->cap.max_send_sge, side->cap.max_inline);
	if (side->srq != NULL)
		c.srq = &side->srq->srq;
	else
		c.rq = sim_ring_make(&side->rq, side->cap.max_recv_wr,
				     uroce_rq_stride(side->cap.max_recv_sge),
				     side->cap.max_recv_sge, 0);
	side->qp = qp_create(&c);
	if (side->qp == NULL)
		abort();
	qp_table_own(&n->qps, side->qpn, side->worker);
	n->qps.slot[side->qpn & n->qps.mask] = side->qp;
	if (side->type == QP_TYPE_UD)
		mesh_members_set(n);
}

void
mesh_qp_destroy(struct mesh_side *side)
{
	struct mesh_node *n = side->node;

	sim_end_free(&side->sim_end, &n->worker[side->worker].eng);
	if (side->type == QP_TYPE_UD)
		mesh_members_set(n);
}

struct mesh_side *
mesh_side_of(struct mesh *m, uint32_t qpn)
{
	uint32_t i;

	for (i = 0; i < m->nsides; i++) {
		if (m->side[i].qpn == qpn && m->side[i].qp != NULL)
			return &m->side[i];
	}
	return NULL;
}

static void
world_conn(struct mesh *m, enum qp_type type)
{
	struct mesh_conn *c = &m->conn[m->nconns++];
	uint32_t a = sim_below(&m->load, m->cfg.nodes), b;

	memset(c, 0, sizeof(*c));
	c->type = type;
	c->at_ns = m->now_ns;
	world_side(c, &m->node[a]);
	if (type == QP_TYPE_UD)
		return;
	b = (a + sim_between(&m->load, 1, m->cfg.nodes - 1)) % m->cfg.nodes;
	world_side(c, &m->node[sim_chance(&m->load, m->cfg.loopback) ? a : b]);
	c->side[0]->peer = c->side[1];
	c->side[1]->peer = c->side[0];
}

/* The counter begins at 0. */
static void
world_fill(struct mesh_node *n)
{
	sim_node_fill(&n->sim_node);
	memset(n->mem + n->counter.off, 0, sizeof(uint64_t));
	memset(n->base + n->counter.off, 0, sizeof(uint64_t));
}

void
mesh_world_make(struct mesh *m)
{
	uint32_t i, k;

	m->nsides = m->nconns = 0;
	m->nnodes = m->cfg.nodes;
	m->max_ends = MESH_SIDES;
	m->copy_mr = m->cfg.copy_mr;
	m->late = m->cfg.late;
	for (i = 0; i < m->cfg.nodes; i++)
		world_node(m, i);
	for (i = 0; i < m->cfg.rc + m->cfg.uc + m->cfg.ud; i++)
		world_conn(m, i < m->cfg.rc               ? QP_TYPE_RC
			      : i < m->cfg.rc + m->cfg.uc ? QP_TYPE_UC
							  : QP_TYPE_UD);
	for (i = 0; i < m->cfg.nodes; i++) {
		world_ahs(&m->node[i]);
		for (k = 0; k < MESH_CQS; k++) {
			sim_cq_make(&m->node[i].sim_node, k);
			m->node[i].cq[k].cq.multi = m->cfg.workers > 1;
		}
		world_fill(&m->node[i]);
		mesh_members_set(&m->node[i]);
	}
	for (i = 0; i < m->nsides; i++)
		mesh_qp_make(&m->side[i]);
}

void
mesh_world_free(struct mesh *m)
{
	uint32_t i, k;

	for (i = 0; i < m->nsides; i++) {
		if (m->side[i].qp != NULL)
			mesh_qp_destroy(&m->side[i]);
	}
	for (i = 0; i < m->cfg.nodes; i++) {
		struct mesh_node *n = &m->node[i];

		for (k = 0; k < m->cfg.workers; k++) {
			sim_worker_free(&n->worker[k].sim_worker);
			free(n->worker[k].srq.ring.hdr);
			free(n->worker[k].srq.next.hdr);
		}
		sim_node_free(&n->sim_node);
	}
}
