/* SPDX-License-Identifier: BSD-3-Clause */
/* Nodes, workers, regions, queues and QPs of a schedule. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <rte_common.h>
#include "mesh.h"

#define WORLD_VA                                                                                   \
	0x7f1234560000u /* where a client has its memory, for regions that are not mapped */

/* Memory that is not there yet: this access has to come again (mem/mr.h). */
static bool
world_late(struct mesh_node *n)
{
	return n->m->cfg.late != 0 && sim_chance(&n->m->cli, n->m->cfg.late);
}

static int
world_mem_read(void *ctx, uint64_t va, void *dst, uint32_t len)
{
	struct mesh_node *n = ctx;

	if (va < WORLD_VA || va - WORLD_VA + len > n->used)
		return -EFAULT;
	if (world_late(n))
		return -EAGAIN;
	memcpy(dst, n->mem + (va - WORLD_VA), len);
	return 0;
}

/* Was this executed when it came before, too late for an answer? Then that is given now. */
static bool
world_kept(struct mesh_node *n, uint64_t once, uint64_t *orig)
{
	for (uint32_t i = 0; once != 0 && i < MESH_KEPT; i++) {
		if (n->kept[i].once != once)
			continue;
		if (orig != NULL)
			*orig = n->kept[i].orig;
		n->kept[i].once = 0;
		return true;
	}
	return false;
}

/* 0, or -EAGAIN: executed now is whatever has no answer yet. */
static int
world_keep(struct mesh_node *n, uint64_t once, uint64_t orig)
{
	uint32_t i = n->kept_next++ % MESH_KEPT;

	if (once == 0)
		return -EAGAIN;
	n->kept[i] = (struct mesh_kept){once, orig};
	return -EAGAIN;
}

static int
world_mem_write(void *ctx, uint64_t va, const void *src, uint32_t len, uint64_t once)
{
	struct mesh_node *n = ctx;
	bool late;

	if (va < WORLD_VA || va - WORLD_VA + len > n->used)
		return -EFAULT;
	if (world_kept(n, once, NULL))
		return 0;
	late = world_late(n);
	if (late && sim_chance(&n->m->cli, 500000))
		return -EAGAIN;
	memcpy(n->mem + (va - WORLD_VA), src, len);
	return late ? world_keep(n, once, 0) : 0;
}

static int
world_mem_atomic(void *ctx, uint64_t va, const struct mem_atomic *a, uint64_t once, uint64_t *orig)
{
	struct mesh_node *n = ctx;
	uint8_t *word = n->mem + (va - WORLD_VA);
	uint64_t next;
	bool late;

	if (va < WORLD_VA || va - WORLD_VA + 8 > n->used)
		return -EFAULT;
	if (world_kept(n, once, orig))
		return 0;
	late = world_late(n);
	if (late && sim_chance(&n->m->cli, 500000))
		return -EAGAIN;
	memcpy(orig, word, 8);
	next = a->swap ? a->value : *orig + a->value;
	if (!a->swap || *orig == a->compare)
		memcpy(word, &next, 8);
	return late ? world_keep(n, once, *orig) : 0;
}

static const struct mem_ops world_mem_ops = {.read = world_mem_read,
					     .write = world_mem_write,
					     .atomic = world_mem_atomic};

void
mesh_area_show(struct mesh_node *n, struct mesh_area *a)
{
	struct mesh *m = n->m;

	a->mr.iova = (sim_rand(&m->load) >> 8 & ~7ull) + (a->off & 7);
	a->told = a->mr.iova;
	a->mr.host = sim_chance(&m->load, m->cfg.copy_mr) ? NULL : n->mem + a->off;
	a->gone = false;
	a->shown = true;
	if (sim_key_add(&n->mrs, &a->mr, &m->load) != 0)
		mesh_fail(m, "simulator: no slot for a region");
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

/* Carve len bytes, with a strip that is nobody's in front, and register them. */
static void
world_area(struct mesh_node *n, struct mesh_area *a, uint32_t len, uint32_t pd, uint32_t access)
{
	struct mesh *m = n->m;

	memset(a, 0, sizeof(*a));
	a->off = RTE_ALIGN_CEIL(n->used + 64 + sim_below(&m->load, 64), 8);
	a->len = len;
	n->used = a->off + len + 64;
	if (n->used > MESH_NODE_BYTES)
		abort();
	a->mr.len = len;
	a->mr.pd = pd;
	a->mr.access = access;
	a->mr.va = WORLD_VA + a->off;
	a->mr.ops = &world_mem_ops;
	a->mr.ops_ctx = n;
	mesh_area_show(n, a);
}

static void
world_slots(struct mesh_node *n, struct mesh_area *a, uint32_t stride, uint32_t access)
{
	world_area(n, a, MESH_SLOTS * stride, 1, access);
	a->stride = stride;
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

struct qp_ring
mesh_ring_make(struct mesh_ring *r, uint32_t entries, uint32_t stride, uint32_t max_sge,
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

void
mesh_cq_ring(struct mesh_cqring *r, uint32_t entries)
{
	r->entries = rte_align32pow2(RTE_MAX(entries, 2u));
	r->cons = 0;
	r->hdr = world_zalloc(UROCE_CQ_HDR + (size_t)r->entries * sizeof(struct uroce_cqe));
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
	q->srq.rq = mesh_ring_make(&q->ring, max_wr, uroce_rq_stride(2), 2, 0);
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
	n->idx = idx;
	n->dev = (uint16_t)(1 + idx);
	memcpy(n->mac, (uint8_t[]){0x02, 0, 0, 0, 9, (uint8_t)(idx + 1)}, 6);
	n->gid[0][10] = n->gid[0][11] = 0xff;
	n->gid[0][12] = 10;
	n->gid[1][0] = 0xfd;
	n->gid[0][15] = n->gid[1][15] = (uint8_t)(idx + 1);
	if (mr_table_init(&n->mrs, 1024) != 0 || qp_table_init(&n->qps, 256) != 0)
		abort();
	for (i = 0; i <= n->qps.mask; i++)
		qp_table_own(&n->qps, i, (uint8_t)(i % m->cfg.workers));
	for (i = 0; i < m->cfg.workers; i++) {
		struct mesh_worker *w = &n->worker[i];
		struct qp_sqe_pool *sqes;

		w->node = n;
		w->idx = i;
		w->poll_at = MESH_NEVER;
		sqes = qp_sqe_pool_create(MESH_SIDES, m->cfg.small_pool ? 1 : 32);
		if (sqes == NULL)
			abort();
		engine_init(&w->eng, m->cfg.small_pool ? m->small_pool : m->pool, sqes, &n->mrs,
			    &n->qps, i, &mesh_engine_ops, w);
		engine_add_dev(&w->eng, n->dev, n->mac, &w->obs);
		if (m->cfg.view != 0) {
			engine_set_segs(&w->eng, m->segs);
			engine_set_views(&w->eng, n->dev, m->cfg.view);
			engine_set_loop_views(&w->eng, m->cfg.view);
		}
		w->eng.env.now_ns = m->now_ns;
		world_srq(w);
	}
	world_area(n, &n->consts, MESH_CONST_LEN, 1, MEM_REMOTE_READ);
	world_area(n, &n->idle, 4096, 99, MEM_LOCAL_WRITE | MEM_REMOTE_WRITE | MEM_REMOTE_READ);
	world_area(n, &n->counter, 8, 1, MEM_LOCAL_WRITE | MEM_REMOTE_ATOMIC);
}

/* Where the handles of a node lead to: each node by both of its addresses, and the groups. */
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
		.obs = &n->worker[side->worker].obs,
	};

	side->gen++;
	side->qpn = (sim_below(&m->load, 0xfff0) + 1) << 8 | (side->gen & 1) << 7 |
		    (4 * (side->idx + 2) + side->worker);
	c.qpn = side->qpn;
	c.sq = mesh_ring_make(&side->sq, side->cap.max_send_wr,
			      uroce_sq_stride(side->cap.max_send_sge, side->cap.max_inline),
			      side->cap.max_send_sge, side->cap.max_inline);
	if (side->srq != NULL)
		c.srq = &side->srq->srq;
	else
		c.rq = mesh_ring_make(&side->rq, side->cap.max_recv_wr,
				      uroce_rq_stride(side->cap.max_recv_sge),
				      side->cap.max_recv_sge, 0);
	side->qp = qp_create(&c);
	if (side->qp == NULL)
		abort();
	n->qps.slot[side->qpn & n->qps.mask] = side->qp;
	if (side->type == QP_TYPE_UD)
		mesh_members_set(n);
}

void
mesh_qp_destroy(struct mesh_side *side)
{
	struct mesh_node *n = side->node;

	engine_forget(&n->worker[side->worker].eng, side->qp);
	n->qps.slot[side->qpn & n->qps.mask] = NULL;
	qp_free(side->qp);
	side->qp = NULL;
	side->timer_ns = side->bell_ns = 0;
	free(side->sq.hdr);
	free(side->rq.hdr);
	side->sq.hdr = side->rq.hdr = NULL;
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

static void
world_cq(struct mesh_node *n, uint32_t i)
{
	struct mesh_cq *cq = &n->cq[i];

	mesh_cq_ring(&cq->ring, cq->need);
	cq_init(&cq->cq, cq->ring.hdr, cq->ring.entries);
	cq->cq.id = i;
	cq->cq.owner = cq;
	cq->cq.multi = n->m->cfg.workers > 1;
	cq->armed = i == 2;
	if (cq->armed)
		cq->ring.hdr->arm = UROCE_CQ_ARM_ANY;
}

/* The same bytes in both copies; a strip of the table, from another place each time. */
static void
world_fill(struct mesh_node *n)
{
	uint64_t zero = 0;
	uint32_t at, len;

	n->used += 64;
	for (at = 0; at < n->used; at += len) {
		len = RTE_MIN(n->used - at, 65536u);
		memcpy(n->mem + at, n->m->table + sim_below(&n->m->load, MESH_TABLE_BYTES - len),
		       len);
	}
	memcpy(n->mem + n->counter.off, &zero, sizeof(zero));
	memcpy(n->base, n->mem, n->used);
}

void
mesh_world_make(struct mesh *m)
{
	uint32_t i, k;

	m->nsides = m->nconns = 0;
	for (i = 0; i < m->cfg.nodes; i++)
		world_node(m, i);
	for (i = 0; i < m->cfg.rc + m->cfg.uc + m->cfg.ud; i++)
		world_conn(m, i < m->cfg.rc               ? QP_TYPE_RC
			      : i < m->cfg.rc + m->cfg.uc ? QP_TYPE_UC
							  : QP_TYPE_UD);
	for (i = 0; i < m->cfg.nodes; i++) {
		world_ahs(&m->node[i]);
		for (k = 0; k < MESH_CQS; k++)
			world_cq(&m->node[i], k);
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
			struct qp_env *env = &n->worker[k].eng.env;

			rte_pktmbuf_free_bulk(env->tx, env->tx_n);
			env->tx_n = 0;
			if (!qp_sqe_pool_whole(env->sqes))
				mesh_fail(m, "node %u: copies of WQEs are leaked", i);
			qp_sqe_pool_free(env->sqes);
			free(n->worker[k].srq.ring.hdr);
			free(n->worker[k].srq.next.hdr);
		}
		for (k = 0; k < MESH_CQS; k++) {
			free(n->cq[k].ring.hdr);
			free(n->cq[k].old.hdr);
		}
		mr_table_free(&n->mrs);
		qp_table_free(&n->qps);
	}
}
