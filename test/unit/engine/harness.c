/* SPDX-License-Identifier: BSD-3-Clause */
/* The bench itself: engine, clock, regions, QPs. */
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <rte_eal.h>
#include <rte_mbuf.h>
#include "harness.h"
#include "qp/segs.h"
#include "wire/icrc.h"
#include "../../kit/unit_eal.h"

#define POOL_MBUFS 4096

uint8_t bench_bytes[BENCH_BYTES];
static struct rte_mempool *pool;
static struct qp_segs *segs;

static const uint8_t our_mac[6] = {0x02, 0, 0, 0, 0, 0x01};
static const uint8_t peer_mac[6] = {0x02, 0, 0, 0, 0, 0x02};

const struct conn_cfg conn_rc = {
	.type = QP_TYPE_RC,
	.state = QP_RTS,
	.pd = 7,
	.mtu_code = 3, /* 1024 */
	.sq_psn = 0x001000,
	.rq_psn = 0x555000,
	.access = ALL_REMOTE,
	.timeout = 14, /* 67 ms */
	.retry_cnt = 3,
	.rnr_retry = 3,
	.min_rnr_timer = 12, /* 0.64 ms */
	.max_rd_atomic = 4,
	.max_dest_rd_atomic = 4,
	.sq_entries = 64,
	.rq_entries = 64,
	.cq_entries = 256,
	.max_sge = 4,
	.max_inline = 64,
};

static int
bench_group_setup(void **state)
{
	uint32_t i, x = 1;

	pool = unit_eal_pool(POOL_MBUFS, WIRE_MAX_OVERHEAD + 4096);
	if (pool == NULL)
		return -1;
	for (i = 0; i < BENCH_BYTES; i++) {
		x = x * 1664525 + 1013904223;
		bench_bytes[i] = (uint8_t)(x >> 24);
	}
	segs = qp_segs_create("segs", ENGINE_TX_CAP, SOCKET_ID_ANY);
	return segs != NULL ? 0 : -1;
}

UNIT_PROGRAM(bench_group_setup, NULL);

static bool
on_slow_path(void *ctx, uint16_t dev, struct rte_mbuf *m)
{
	((struct bench *)ctx)->slow++;
	rte_pktmbuf_free(m);
	return true;
}

static enum drop_reason
on_consumer(void *ctx, uint16_t dev, struct rte_mbuf *m, const struct wire_pkt *pkt)
{
	struct bench *b = ctx;

	rte_pktmbuf_free(m);
	if (b->consumer_full)
		return DROP_SLOW_PATH_FULL;
	b->consumed++;
	return DROP_NUM;
}

static bool
on_host(void *ctx, uint16_t dev, struct rte_mbuf *m)
{
	struct bench *b = ctx;

	rte_pktmbuf_free(m);
	b->hosted += !b->host_full;
	return !b->host_full;
}

static void
on_handoff(void *ctx, uint32_t worker, uint32_t qpn, struct rte_mbuf *m)
{
	struct wire_pkt pkt;

	wire_parse(rte_pktmbuf_mtod(m, uint8_t *), m->data_len, &pkt);
	assert_true(wire_icrc_check(&pkt));
	((struct bench *)ctx)->handoffs++;
	rte_pktmbuf_free(m);
}

static void
on_set_timer(void *ctx, struct qp *qp, uint64_t at_ns)
{
	((struct bench *)ctx)->timers_set++;
	qp->bind.timer_at_ns = at_ns;
}

static void
on_cq_event(void *ctx, struct cq *cq)
{
	((struct bench_cq *)cq->owner)->channel++;
}

static void
on_async_event(void *ctx, enum qp_event ev, struct qp *qp, struct cq *cq)
{
	struct bench *b = ctx;

	assert_true(b->nevents < BENCH_EVENTS);
	b->event[b->nevents++] = (struct bench_event){.ev = ev, .qp = qp, .cq = cq};
}

static const struct engine_ops bench_ops = {
	.slow_path = on_slow_path,
	.consumer = on_consumer,
	.host = on_host,
	.handoff = on_handoff,
	.set_timer = on_set_timer,
	.cq_event = on_cq_event,
	.async_event = on_async_event,
};

static void *
zalloc(size_t bytes)
{
	void *p = aligned_alloc(64, (bytes + 63) & ~(size_t)63);

	assert_non_null(p);
	memset(p, 0, (bytes + 63) & ~(size_t)63);
	return p;
}

int
bench_setup(void **state)
{
	struct bench *b = zalloc(sizeof(*b));

	assert_int_equal(mr_table_init(&b->mrs, 256), 0);
	assert_int_equal(qp_table_init(&b->qps, 1024), 0);
	/* Odd QPNs are another worker's. */
	for (uint32_t qpn = 1; qpn <= b->qps.mask; qpn += 2)
		qp_table_own(&b->qps, qpn, 1);
	b->sqes = qp_sqe_pool_create(BENCH_CONNS, 64);
	assert_non_null(b->sqes);
	engine_init(&b->engine, pool, b->sqes, &b->mrs, &b->qps, 0, &bench_ops, b);
	engine_set_segs(&b->engine, segs);
	engine_set_sr(&b->engine, qp_sr_pool_create(pool, 8));
	/* test_probe.c covers packets that are sent before the ACK timeout. */
	b->engine.env.plain = QP_PLAIN_REQUESTER;
	engine_add_dev(&b->engine, BENCH_DEV, our_mac, &b->counters);
	b->now = 1000000000;
	*state = b;
	return 0;
}

static void
conn_close(struct conn *c)
{
	engine_forget(&c->b->engine, c->qp);
	qp_free(c->qp);
	free(c->sq.hdr);
	free(c->rq.hdr);
	free(c->scq.hdr);
	free(c->rcq.hdr);
	free(c);
}

/* Is the payload of m lent, by the last read ahead or by one before it in this burst? */
static bool
is_lent(const struct qp_ahead *a, const struct rte_mbuf *m)
{
	const uint8_t *p = m->nb_segs == 3 ? rte_pktmbuf_mtod(m->next, const uint8_t *) : NULL;
	bool lent =
		p != NULL && a->viewed && p >= a->lent.bytes && p < a->lent.bytes + QP_AHEAD_BYTES;

	for (uint32_t i = 0; i < a->nold && p != NULL; i++)
		lent |= p >= a->old[i].bytes && p < a->old[i].bytes + QP_AHEAD_BYTES;
	return lent;
}

/* Frames leave the tx array as a worker's port would take them. */
static void
take_frames(struct bench *b)
{
	struct qp_env *env = &b->engine.env;
	uint32_t i;

	for (i = 0; i < env->tx_n; i++) {
		assert_true(b->nframes < BENCH_FRAMES);
		if (is_lent(&b->engine.ahead, env->tx[i])) {
			b->lent++;
			assert_int_equal(rte_pktmbuf_linearize(env->tx[i]), 0);
		}
		b->frame[b->nframes++] = env->tx[i];
	}
	env->tx_n = 0;
}

int
bench_teardown(void **state)
{
	struct bench *b = *state;
	uint32_t i;
	int leaked;

	take_frames(b);
	for (i = b->frames_seen > 0 ? b->frames_seen - 1 : 0; i < b->nframes; i++)
		rte_pktmbuf_free(b->frame[i]);
	for (i = 0; i < b->nconns; i++)
		conn_close(b->conn[i]);
	for (i = 0; i < b->nregions; i++) {
		free(b->region[i]->bytes);
		free(b->region[i]);
	}
	qp_table_free(&b->qps);
	assert_true(qp_sqe_pool_whole(b->sqes));
	qp_sqe_pool_free(b->sqes);
	assert_true(qp_sr_pool_whole(b->engine.env.sr));
	qp_sr_pool_free(b->engine.env.sr);
	assert_true(qp_segs_whole(segs));
	mr_table_free(&b->mrs);
	free(b);
	leaked = POOL_MBUFS - (int)rte_mempool_avail_count(pool);
	if (leaked != 0)
		print_error("%d mbufs leaked\n", leaked);
	return leaked;
}

size_t
bench_heap(void)
{
	struct mallinfo2 now = mallinfo2();

	return now.uordblks + now.hblkhd;
}

uint32_t
bench_key(struct bench *b)
{
	return ++b->nkeys << b->mrs.shift | 0x5a5;
}

struct bench_region *
region_add(struct bench *b, uint32_t pd, uint64_t iova, uint64_t len, uint32_t access)
{
	struct bench_region *r = zalloc(sizeof(*r));

	r->bytes = calloc(1, len);
	assert_non_null(r->bytes);
	r->mr = (struct mr){.iova = iova, .len = len, .host = r->bytes, .pd = pd, .access = access};
	assert_int_equal(mr_table_add(&b->mrs, &r->mr, bench_key(b)), 0);
	b->region[b->nregions++] = r;
	return r;
}

void
region_drop(struct bench *b, struct bench_region *r)
{
	mr_table_del(&b->mrs, &r->mr);
}

static void
cq_open(struct bench_cq *cq, uint32_t entries)
{
	cq->hdr = zalloc(UROCE_CQ_HDR + entries * sizeof(struct uroce_cqe));
	cq->entries = entries;
	cq_init(&cq->cq, cq->hdr, entries);
	cq->cq.owner = cq;
}

static struct qp_ring
ring_open(struct bench_ring *r, uint32_t entries, uint32_t stride, uint32_t max_sge,
	  uint32_t max_inline)
{
	r->hdr = zalloc(UROCE_RING_HDR + (size_t)entries * stride);
	r->slots = (uint8_t *)r->hdr + UROCE_RING_HDR;
	r->entries = entries;
	r->stride = stride;
	return (struct qp_ring){.hdr = r->hdr,
				.slots = r->slots,
				.mask = entries - 1,
				.stride = stride,
				.max_sge = max_sge,
				.max_inline = max_inline};
}

struct bench_srq *
srq_open_in(struct bench *b, uint32_t entries, uint32_t max_sge, uint32_t pd)
{
	struct bench_srq *s = zalloc(sizeof(*s));

	s->srq.rq = ring_open(&s->ring, entries, uroce_rq_stride(max_sge), max_sge, 0);
	s->srq.pd = pd;
	s->srq.user_handle = 0x5125125125;
	s->mem = region_add(b, pd, LOCAL_VA, BENCH_BYTES, MEM_LOCAL_WRITE);
	return s;
}

struct bench_srq *
srq_open(struct bench *b, uint32_t entries)
{
	return srq_open_in(b, entries, 1, conn_rc.pd);
}

void
srq_close(struct bench_srq *s)
{
	free(s->ring.hdr);
	free(s);
}

/* Both directions: as net would make them of the two GIDs. */
static void
conn_paths(struct conn *c, const struct conn_cfg *cfg)
{
	static const uint8_t v4[16] = {[10] = 0xff, 0xff, 192, 0, 2, 1};
	static const uint8_t v6[16] = {0xfe, 0x80, [8] = 0x02, [11] = 0xff, 0xfe, [15] = 1};
	struct wire_path *out = &c->path.wire, *in = &c->peer_path;

	memcpy(out->sgid, cfg->v6 ? v6 : v4, 16);
	memcpy(out->dgid, out->sgid, 16);
	out->dgid[15] = 2;
	memcpy(out->smac, our_mac, 6);
	memcpy(out->dmac, peer_mac, 6);
	out->udp_sport = 0xc123;
	out->hop_limit = 64;
	c->path.path_ok = true;
	memcpy(c->path.hop, out->dgid, 16);

	*in = *out;
	memcpy(in->sgid, out->dgid, 16);
	memcpy(in->dgid, out->sgid, 16);
	memcpy(in->smac, peer_mac, 6);
	memcpy(in->dmac, our_mac, 6);
	wire_tmpl_init(&c->peer, in, c->qp->conn.qpn, 0xffff);
}

int
conn_modify(struct conn *c, uint32_t mask, const struct uroce_qp_attr *attr)
{
	static const struct qp_limits lim = {.max_mtu = 5,
					     .npkeys = UROCE_MAX_PKEYS,
					     .ngids = 3,
					     .gid_valid = 7};
	struct engine *e = &c->b->engine;
	int rc = qp_modify_check(c->qp, mask, attr, &lim, NULL);

	if (rc != 0)
		return rc;
	e->env.now_ns = c->b->now;
	qp_modify_apply(&e->env, c->qp, mask, attr, mask & QP_AV ? &c->path : NULL,
			mask & QP_ALT_PATH ? &c->alt : NULL);
	return 0;
}

int
conn_to(struct conn *c, enum qp_state state)
{
	struct uroce_qp_attr a = {.qp_state = state};

	return conn_modify(c, QP_STATE, &a);
}

/* Required attributes of each transition, by type (QP-02). */
static const struct {
	enum qp_type type;
	uint32_t mask[3]; /* to INIT, RTR, RTS */
} raise_masks[] = {
	{QP_TYPE_RC,
	 {QP_PKEY_INDEX | QP_PORT | QP_ACCESS_FLAGS,
	  QP_AV | QP_PATH_MTU | QP_DEST_QPN | QP_RQ_PSN | QP_MAX_DEST_RD_ATOMIC | QP_MIN_RNR_TIMER,
	  QP_SQ_PSN | QP_TIMEOUT | QP_RETRY_CNT | QP_RNR_RETRY | QP_MAX_QP_RD_ATOMIC}},
	{QP_TYPE_UC,
	 {QP_PKEY_INDEX | QP_PORT | QP_ACCESS_FLAGS, QP_AV | QP_PATH_MTU | QP_DEST_QPN | QP_RQ_PSN,
	  QP_SQ_PSN}},
	{QP_TYPE_UD, {QP_PKEY_INDEX | QP_PORT | QP_QKEY, 0, QP_SQ_PSN}},
};

void
conn_raise(struct conn *c, const struct conn_cfg *cfg)
{
	struct uroce_qp_attr a = {
		.qp_access_flags = cfg->access,
		.pkey_index = (uint16_t)cfg->pkey_index,
		.port_num = 1,
		.path_mtu = cfg->mtu_code,
		.dest_qp_num = PEER_QPN,
		.rq_psn = cfg->rq_psn,
		.sq_psn = cfg->sq_psn,
		.qkey = cfg->qkey,
		.max_rd_atomic = cfg->max_rd_atomic,
		.max_dest_rd_atomic = cfg->max_dest_rd_atomic,
		.min_rnr_timer = cfg->min_rnr_timer,
		.timeout = cfg->timeout,
		.retry_cnt = cfg->retry_cnt,
		.rnr_retry = cfg->rnr_retry,
		.ah = {.is_global = 1, .port_num = 1},
	};
	uint32_t t = cfg->type - QP_TYPE_RC;

	for (a.qp_state = QP_INIT; a.qp_state <= cfg->state; a.qp_state++)
		assert_int_equal(conn_modify(c, QP_STATE | raise_masks[t].mask[a.qp_state - 1], &a),
				 0);
}

struct conn *
conn_open(struct bench *b, struct conn_cfg cfg)
{
	struct conn *c = zalloc(sizeof(*c));
	uint32_t qpn = cfg.qpn != 0 ? cfg.qpn : BENCH_QPN + 2 * b->nconns;
	struct qp_create q = {
		.qpn = qpn,
		.type = cfg.type,
		.srq = cfg.srq,
		.ahs = cfg.ahs,
		.pkeys = cfg.pkeys,
		.dev_mtu = (uint8_t)cfg.mtu_code,
		.port = BENCH_DEV,
		.pd = cfg.pd,
		.uid = cfg.uid,
		.send_cq = &c->scq.cq,
		.recv_cq = &c->rcq.cq,
		.sig_all = cfg.sig_all,
		.user_handle = 0xc00c1e00 + b->nconns,
		.cap = {cfg.sq_entries, cfg.rq_entries, cfg.max_sge, cfg.max_sge, cfg.max_inline},
		.counters = &b->counters,
	};

	c->b = b;
	c->pkey = 0xffff;
	c->migreq = true;
	cq_open(&c->scq, cfg.cq_entries);
	cq_open(&c->rcq, cfg.cq_entries);
	q.sq = ring_open(&c->sq, cfg.sq_entries, uroce_sq_stride(cfg.max_sge, cfg.max_inline),
			 cfg.max_sge, cfg.max_inline);
	if (cfg.srq == NULL)
		q.rq = ring_open(&c->rq, cfg.rq_entries, uroce_rq_stride(cfg.max_sge), cfg.max_sge,
				 0);
	c->qp = qp_create(&q);
	assert_non_null(c->qp);
	b->qps.slot[qpn & b->qps.mask] = c->qp;
	b->conn[b->nconns++] = c;
	c->local = region_add(b, cfg.pd, LOCAL_VA, BENCH_BYTES, MEM_LOCAL_WRITE);
	memcpy(c->local->bytes, bench_bytes, BENCH_BYTES);
	c->remote = region_add(b, cfg.pd, REMOTE_VA, BENCH_BYTES, ALL_REMOTE);
	conn_paths(c, &cfg);
	conn_raise(c, &cfg);
	return c;
}

void
bench_run(struct bench *b)
{
	uint32_t rounds = 0;
	bool more;

	do {
		more = engine_run(&b->engine, b->now);
		take_frames(b);
		assert_true(++rounds < 1000); /* an engine that never rests */
	} while (more);
}

void
bench_run_once(struct bench *b)
{
	engine_run(&b->engine, b->now);
	take_frames(b);
}

/* The timer that goes off next, not later than end. */
static struct qp *
next_timer(struct bench *b, uint64_t end)
{
	struct qp *best = NULL;
	uint32_t i;

	for (i = 0; i < b->nconns; i++) {
		struct qp *qp = b->conn[i]->qp;

		if (qp->bind.timer_at_ns == 0 || qp->bind.timer_at_ns > end)
			continue;
		if (best == NULL || qp->bind.timer_at_ns < best->bind.timer_at_ns)
			best = qp;
	}
	return best;
}

void
bench_pass(struct bench *b, uint64_t ns)
{
	uint64_t end = b->now + ns, next;
	struct qp *qp;

	bench_run(b);
	for (;;) {
		next = engine_next_ns(&b->engine);
		qp = next_timer(b, RTE_MIN(end, next));
		if (qp == NULL && next > end)
			break;
		next = qp != NULL ? qp->bind.timer_at_ns : next;
		b->now = RTE_MAX(b->now, next);
		if (qp != NULL)
			engine_timer(&b->engine, b->now, qp);
		bench_run(b);
	}
	b->now = end;
}
