/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory, regions, rings, CQs and engines of a node. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <rte_common.h>
#include "keys.h"
#include "sim.h"

/* client memory, for regions that are not mapped */
#define WORLD_VA 0x7f1234560000u

static void
world_touch(struct sim_node *n)
{
	if (n->sim->model->touched != NULL)
		n->sim->model->touched(n);
}

/* Late memory: this access must be repeated (mem/mr.h). */
static bool
world_late(struct sim_node *n)
{
	return n->sim->late != 0 && sim_chance(&n->sim->cli, n->sim->late);
}

static const struct mem_ops world_mem_ops;

static int
world_mem_read(void *ctx, uint64_t va, void *dst, uint32_t len)
{
	struct sim_node *n = ctx;

	world_touch(n);
	if (va < WORLD_VA || va - WORLD_VA + len > n->used)
		return -EFAULT;
	if (world_late(n))
		return -EAGAIN;
	memcpy(dst, n->mem + (va - WORLD_VA), len);
	return 0;
}

static int
world_mem_lend(void *ctx, const struct mem_part *part, uint32_t n, struct mem_lent *lent)
{
	uint32_t len = 0, at = 0;
	uint8_t *bytes;
	int rc = 0;

	for (uint32_t i = 0; i < n; i++)
		len += part[i].len;
	bytes = malloc(len); /* so that a sanitizer detects a use after the release */
	if (bytes == NULL)
		abort();
	for (uint32_t i = 0; rc == 0 && i < n; i++) {
		rc = world_mem_read(ctx, part[i].va, bytes + at, part[i].len);
		at += part[i].len;
	}
	if (rc == 0)
		*lent = (struct mem_lent){.bytes = bytes, .ops = &world_mem_ops, .at = bytes};
	else
		free(bytes);
	return rc;
}

static void
world_mem_release(struct mem_lent *lent)
{
	free(lent->at);
	*lent = (struct mem_lent){0};
}

/* Returns -EAGAIN: the access was executed, but its reply is late. */
static int
world_pending(struct sim_node *n, struct mem_late *late, uint64_t orig)
{
	if (late != NULL)
		*late = (struct mem_late){.state = MEM_LATE_PENDING, .orig = orig, .at = n};
	return -EAGAIN;
}

static void
world_late_poll(struct mem_late *late)
{
	struct sim_node *n = late->at;

	if (sim_chance(&n->sim->cli, 700000))
		late->state = MEM_LATE_DONE;
}

static void
world_late_forget(struct mem_late *late)
{
}

static int
world_mem_write_parts(void *ctx, const struct mem_part *part, uint32_t nparts,
		      const struct mem_bytes *src, uint32_t nsrc, struct mem_late *reply)
{
	static uint8_t joined[SIM_NODE_BYTES];
	const uint8_t *bytes = joined;
	struct sim_node *n = ctx;
	uint64_t len = 0, given = 0;
	bool late;

	world_touch(n);
	for (uint32_t i = 0; i < nparts; i++) {
		if (part[i].va < WORLD_VA || part[i].va - WORLD_VA + part[i].len > n->used)
			return -EFAULT;
		len += part[i].len;
	}
	for (uint32_t i = 0; i < nsrc; i++)
		given += src[i].len;
	if (given != len || len > sizeof(joined))
		abort();
	late = world_late(n);
	if (late && sim_chance(&n->sim->cli, 500000))
		return -EAGAIN;
	mem_bytes_join(joined, src, nsrc);
	for (uint32_t i = 0; i < nparts; i++) {
		memcpy(n->mem + (part[i].va - WORLD_VA), bytes, part[i].len);
		bytes += part[i].len;
	}
	return late ? world_pending(n, reply, 0) : 0;
}

static int
world_mem_write(void *ctx, uint64_t va, const void *src, uint32_t len, struct mem_late *reply)
{
	struct mem_part part = {.va = va, .len = len};
	struct mem_bytes bytes = {.at = src, .len = len};

	return world_mem_write_parts(ctx, &part, 1, &bytes, 1, reply);
}

static int
world_mem_atomic(void *ctx, uint64_t va, const struct mem_atomic *a, struct mem_late *reply,
		 uint64_t *orig)
{
	struct sim_node *n = ctx;
	uint8_t *word = n->mem + (va - WORLD_VA);
	uint64_t next;
	bool late;

	world_touch(n);
	if (va < WORLD_VA || va - WORLD_VA + 8 > n->used)
		return -EFAULT;
	late = world_late(n);
	if (late && sim_chance(&n->sim->cli, 500000))
		return -EAGAIN;
	memcpy(orig, word, 8);
	next = a->swap ? a->value : *orig + a->value;
	if (!a->swap || *orig == a->compare) {
		world_touch(n);
		memcpy(word, &next, 8);
	}
	return late ? world_pending(n, reply, *orig) : 0;
}

static const struct mem_ops world_mem_ops = {.read = world_mem_read,
					     .lend = world_mem_lend,
					     .release = world_mem_release,
					     .write = world_mem_write,
					     .write_parts = world_mem_write_parts,
					     .atomic = world_mem_atomic,
					     .late_poll = world_late_poll,
					     .late_forget = world_late_forget};

void
sim_area_place(struct sim_node *n, struct sim_area *a, uint32_t off, uint32_t len, uint32_t pd,
	       uint32_t access)
{
	if (off + len + 64 > SIM_NODE_BYTES)
		abort();
	a->off = off;
	a->len = len;
	n->used = off + len + 64;
	a->mr = (struct mr){.len = len,
			    .pd = pd,
			    .access = access,
			    .va = WORLD_VA + off,
			    .ops = &world_mem_ops,
			    .ops_ctx = n};
}

void
sim_area_show(struct sim_node *n, struct sim_area *a, uint64_t iova)
{
	struct sim *s = n->sim;

	a->mr.iova = iova;
	a->mr.host = sim_chance(&s->load, s->copy_mr) ? NULL : n->mem + a->off;
	if (sim_key_add(&n->mrs, &a->mr, &s->load) != 0)
		sim_fail(s, "simulator: no slot for a region");
}

void *
sim_zalloc(size_t bytes)
{
	void *p = aligned_alloc(64, RTE_ALIGN_CEIL(bytes, 64));

	if (p == NULL)
		abort();
	return memset(p, 0, RTE_ALIGN_CEIL(bytes, 64));
}

struct qp_ring
sim_ring_make(struct sim_ring *r, uint32_t entries, uint32_t stride, uint32_t max_sge,
	      uint32_t max_inline)
{
	r->hdr = sim_zalloc(UROCE_RING_HDR + (size_t)entries * stride);
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
sim_cqring_make(struct sim_cqring *r, uint32_t entries)
{
	r->entries = rte_align32pow2(RTE_MAX(entries, 2u));
	r->cons = 0;
	r->hdr = sim_zalloc(UROCE_CQ_HDR + (size_t)r->entries * sizeof(struct uroce_cqe));
}

void
sim_cq_make(struct sim_node *n, uint32_t i)
{
	struct sim_cq *cq = &n->cq[i];

	sim_cqring_make(&cq->ring, cq->need);
	cq_init(&cq->cq, cq->ring.hdr, cq->ring.entries);
	cq->cq.id = i;
	cq->cq.owner = cq;
	cq->ring.hdr->arm = cq->arm;
}

void
sim_node_memory(struct sim_node *n)
{
	n->mem = malloc(SIM_NODE_BYTES);
	n->base = malloc(SIM_NODE_BYTES);
	if (n->mem == NULL || n->base == NULL)
		abort();
}

void
sim_node_make(struct sim *s, struct sim_node *n, uint32_t idx, uint32_t nkeys, uint32_t nqps)
{
	s->node_at[idx] = n;
	n->sim = s;
	n->idx = idx;
	if (mr_table_init(&n->mrs, nkeys) != 0 || qp_table_init(&n->qps, nqps) != 0)
		abort();
}

void
sim_node_free(struct sim_node *n)
{
	for (uint32_t i = 0; i < n->ncqs; i++) {
		free(n->cq[i].ring.hdr);
		free(n->cq[i].old.hdr);
	}
	mr_table_free(&n->mrs);
	qp_table_free(&n->qps);
}

void
sim_worker_make(struct sim_node *n, struct sim_worker *w, uint32_t idx, uint32_t id,
		uint32_t nworkers, bool small_pool, uint32_t view, const struct engine_ops *ops)
{
	struct sim *s = n->sim;
	struct qp_sqe_pool *sqes = qp_sqe_pool_create(s->max_ends, small_pool ? 1 : 32);
	struct qp_sr_pool *sr = qp_sr_pool_create(s->pool, 64); /* others are copied */

	if (sqes == NULL || sr == NULL)
		abort();
	if (idx == 0)
		n->first_worker = id;
	for (uint32_t qpn = idx; qpn <= n->qps.mask; qpn += nworkers)
		qp_table_own(&n->qps, qpn, (uint8_t)idx);
	s->worker_at[id] = w;
	w->home = n;
	w->idx = idx;
	w->id = id;
	w->poll_at = SIM_NEVER;
	engine_init(&w->eng, small_pool ? s->small_pool : s->pool, sqes, &n->mrs, &n->qps, idx, ops,
		    w);
	engine_add_dev(&w->eng, n->dev, n->mac, &w->counters);
	engine_set_sr(&w->eng, sr);
	if (view != 0) {
		engine_set_segs(&w->eng, s->segs);
		engine_set_zero_copy(&w->eng, n->dev, view);
		engine_set_loop_zero_copy(&w->eng, view);
	}
	w->eng.env.now_ns = s->now_ns;
}

void
sim_worker_free(struct sim_worker *w)
{
	struct qp_env *env = &w->eng.env;

	rte_pktmbuf_free_bulk(env->tx, env->tx_n);
	env->tx_n = 0;
	if (!qp_sqe_pool_whole(env->sqes))
		sim_fail(w->home->sim, "node %u: copies of WQEs are leaked", w->home->idx);
	qp_sqe_pool_free(env->sqes);
	if (!qp_sr_pool_whole(env->sr))
		sim_fail(w->home->sim, "node %u: held requests are leaked", w->home->idx);
	qp_sr_pool_free(env->sr);
}

/* Fills mem and base with parts of the table, from random offsets. */
void
sim_node_fill(struct sim_node *n)
{
	struct sim *s = n->sim;
	uint32_t at, len;

	n->used += 64;
	for (at = 0; at < n->used; at += len) {
		len = RTE_MIN(n->used - at, 65536u);
		memcpy(n->mem + at, s->table + sim_below(&s->load, SIM_TABLE_BYTES - len), len);
	}
	memcpy(n->base, n->mem, n->used);
}

void
sim_end_renew(struct sim_end *e)
{
	e->nops = e->posted = e->reaped = 0;
	e->flushed = e->rflushed = e->cut = false;
	e->sq.prod = e->rq.prod = 0;
}

void
sim_end_free(struct sim_end *e, struct engine *eng)
{
	engine_forget(eng, e->qp);
	e->home->qps.slot[e->qpn & e->home->qps.mask] = NULL;
	qp_free(e->qp);
	e->qp = NULL;
	e->timer_ns = e->bell_ns = 0;
	free(e->sq.hdr);
	free(e->rq.hdr);
	e->sq.hdr = e->rq.hdr = NULL;
}
