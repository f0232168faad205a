/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include "bed.h"
#include "connect.h"
#include "port/port.h"
#include "qp/doorbell.h"
#include "wire/hdr.h"
#include "wire/icrc.h"

#define POOL_MBUFS 16383
#define PORT_SLOTS 4096
#define MEM_BYTES  (64u * 1024) /* messages are moved within this much, unless one is larger */
#define IOVA       0x100000000ull
#define PD         1
#define QPN_BASE   0x100u

/* of a sender without a transport */
#define BARE_HEADERS 54 /* Ethernet, IPv4, UDP and BTH */
#define BARE_SWEEPS  5

static struct rte_mempool *pool;
static struct port ports[2];

static void
die(const char *what)
{
	fprintf(stderr, "uroce-bench: %s\n", what);
	exit(1);
}

static void *
zalloc(size_t bytes)
{
	void *p = aligned_alloc(4096, (bytes + 4095) & ~(size_t)4095);

	if (p == NULL)
		die("no memory");
	memset(p, 0, (bytes + 4095) & ~(size_t)4095);
	return p;
}

static void
ports_open(void)
{
	static const char *const name[2] = {"net_ring_bencha", "net_ring_benchb"};

	if (pool != NULL)
		return;
	pool = rte_pktmbuf_pool_create("bench", POOL_MBUFS, 256, 0,
				       RTE_PKTMBUF_HEADROOM + WIRE_MAX_OVERHEAD + 4096, 0);
	if (pool == NULL)
		die("no memory for packets");
	if (port_ring_pair("bencha", "benchb", 1, PORT_SLOTS) != 0)
		die("net_ring: no ports");
	for (unsigned i = 0; i < 2; i++) {
		struct port_params p = {.name = name[i], .nqueues = 1, .link_mtu = 4200};

		if (port_open(&ports[i], &p, pool) != 0)
			die("net_ring: a port does not start");
	}
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
	if (ev != QP_EVENT_COMM_EST)
		die("a QP or CQ failed");
}

static const struct engine_ops bed_ops = {
	.slow_path = on_frame,
	.handoff = on_handoff,
	.set_timer = on_set_timer,
	.cq_event = on_cq_event,
	.async_event = on_async_event,
};

static struct qp_ring
ring_open(struct bed_ring *r, uint32_t entries, uint32_t stride)
{
	r->hdr = zalloc(UROCE_RING_HDR + (size_t)entries * stride);
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
	return rte_align32pow2(n < 16 ? 16 : n);
}

static void
conn_open(struct bed *b, unsigned side, uint32_t i)
{
	struct bed_node *n = &b->node[side];
	struct bed_conn *c = &n->conn[i];
	uint32_t entries = pow2(b->o.depth);
	struct qp_create q = {
		.qpn = QPN_BASE + i,
		.type = QP_TYPE_RC,
		.dev_mtu = 5,
		.port = n->port,
		.pd = PD,
		.send_cq = &n->cq,
		.recv_cq = &n->cq,
		.user_handle = i,
		.cap = {entries, entries, 1, 1, 0},
		.obs = &n->obs,
	};

	q.sq = ring_open(&c->sq, entries, uroce_sq_stride(1, 0));
	q.rq = ring_open(&c->rq, entries, uroce_rq_stride(1));
	c->qp = qp_create(&q);
	if (c->qp == NULL)
		die("no memory for a QP");
	n->qps.slot[q.qpn & n->qps.mask] = c->qp;
}

static void
conn_raise(struct bed *b, unsigned side, uint32_t i)
{
	struct qp_path path = {.path_ok = true};
	struct wire_path *w = &path.wire;
	struct bed_node *n = &b->node[side];

	memcpy(w->sgid, (uint8_t[16]){[10] = 0xff, 0xff, 10, 0, 0, 1}, 16);
	memcpy(w->dgid, w->sgid, 16);
	w->sgid[15] += side;
	w->dgid[15] += 1 - side;
	memcpy(w->smac, ports[side].mac, 6);
	memcpy(w->dmac, ports[1 - side].mac, 6);
	w->udp_sport = wire_udp_sport(0, QPN_BASE + i, QPN_BASE + i);
	w->hop_limit = 64;
	if (!bench_connect(&n->engine.env, n->conn[i].qp, b->o.mtu, QPN_BASE + i, 14, &path))
		die("a QP cannot be connected");
}

static void
node_open(struct bed *b, unsigned side)
{
	struct bed_node *n = &b->node[side];
	uint32_t entries = pow2(b->o.qps * b->o.depth);
	uint32_t bytes = b->slots * b->stride;

	n->port = ports[side].id;
	if (mr_table_init(&n->mrs, 16) != 0 ||
	    qp_table_init(&n->qps, pow2(b->o.qps + QPN_BASE)) != 0)
		die("no memory");
	n->sqes = qp_sqe_pool_create(b->o.qps, QP_SQE_CHUNKS);
	if (n->sqes == NULL)
		die("no memory");
	engine_init(&n->engine, pool, n->sqes, &n->mrs, &n->qps, 0, &bed_ops, n);
	engine_set_lcore(&n->engine, rte_lcore_id());
	engine_add_dev(&n->engine, n->port, ports[side].mac, &n->obs);
	n->cq_hdr = zalloc(UROCE_CQ_HDR + (size_t)entries * sizeof(struct uroce_cqe));
	n->cq_mask = entries - 1;
	cq_init(&n->cq, n->cq_hdr, entries);
	n->mr = (struct mr){.iova = IOVA,
			    .len = bytes,
			    .host = zalloc(bytes),
			    .pd = PD,
			    .access = MEM_LOCAL_WRITE | MEM_REMOTE_WRITE | MEM_REMOTE_READ |
				      MEM_REMOTE_ATOMIC};
	if (mr_table_add(&n->mrs, &n->mr, 0x100005a5) != 0)
		die("no memory");
	for (uint32_t i = 0; i < bytes; i++)
		n->mr.host[i] = (uint8_t)((i * 2654435761u) >> 24) ^ (uint8_t)(side * 0x5a);
	n->conn = calloc(b->o.qps, sizeof(*n->conn));
	if (n->conn == NULL)
		die("no memory");
	for (uint32_t i = 0; i < b->o.qps; i++)
		conn_open(b, side, i);
}

void
bed_open(struct bed *b, const struct bench_options *o)
{
	ports_open();
	memset(b, 0, sizeof(*b));
	b->o = *o;
	b->now_ns = 1000000000;
	b->stride = (o->size + 63) & ~63u;
	if (b->stride == 0)
		b->stride = 64;
	b->slots = b->stride >= MEM_BYTES ? 1 : MEM_BYTES / b->stride;
	for (unsigned side = 0; side < 2; side++)
		node_open(b, side);
	for (unsigned side = 0; side < 2; side++)
		for (uint32_t i = 0; i < o->qps; i++)
			conn_raise(b, side, i);
}

void
bed_close(struct bed *b)
{
	for (unsigned side = 0; side < 2; side++) {
		struct bed_node *n = &b->node[side];

		for (uint32_t i = 0; i < b->o.qps; i++) {
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

static void
post_recv(struct bed *b, struct bed_conn *c, uint64_t off)
{
	struct uroce_recv_wqe w = {.num_sge = 1};
	struct uroce_sge sge = {.addr = IOVA + off, .length = b->o.size, .lkey = b->node[1].mr.key};
	uint8_t *slot = c->rq.slots + (size_t)(c->rq.prod++ & c->rq.mask) * c->rq.stride;

	memcpy(slot, &w, sizeof(w));
	memcpy(slot + sizeof(w), &sge, sizeof(sge));
	__atomic_store_n(&c->rq.hdr->prod, c->rq.prod, __ATOMIC_RELEASE);
}

void
bed_post(struct bed *b, uint32_t i)
{
	static const uint8_t opcode[BENCH_OPS] = {
		[BENCH_WRITE] = UROCE_WR_RDMA_WRITE,
		[BENCH_SEND] = UROCE_WR_SEND,
		[BENCH_READ] = UROCE_WR_RDMA_READ,
		[BENCH_ATOMIC] = UROCE_WR_ATOMIC_FETCH_ADD,
	};
	struct bed_conn *c = &b->node[0].conn[i];
	uint64_t off = b->posted++ % b->slots * b->stride;
	struct uroce_send_wqe w = {
		.wr_id = i,
		.opcode = opcode[b->o.op],
		.flags = UROCE_WQE_SIGNALED,
		.num = b->o.size != 0,
		.rdma = {.remote_addr = IOVA + off, .rkey = b->node[1].mr.key},
	};
	struct uroce_sge sge = {.addr = IOVA + off, .length = b->o.size, .lkey = b->node[0].mr.key};
	uint8_t *slot = c->sq.slots + (size_t)(c->sq.prod++ & c->sq.mask) * c->sq.stride;

	if (b->o.op == BENCH_SEND)
		post_recv(b, &b->node[1].conn[i], off);
	memcpy(slot, &w, sizeof(w));
	memcpy(slot + sizeof(w), &sge, sizeof(sge));
}

void
bed_publish(struct bed *b, uint32_t i)
{
	struct bed_conn *c = &b->node[0].conn[i];

	if (qp_doorbell_publish_here(c->sq.hdr, c->sq.prod))
		engine_doorbell(&b->node[0].engine, c->qp->conn.qpn);
}

uint32_t
bed_poll(struct bed *b, unsigned side)
{
	struct bed_node *n = &b->node[side];
	const struct uroce_cqe *ring = (const void *)((uint8_t *)n->cq_hdr + UROCE_CQ_HDR);
	uint32_t took = 0;

	for (;; took++) {
		const struct uroce_cqe *cqe = &ring[n->cq_cons & n->cq_mask];
		uint32_t lap = n->cq_cons / (n->cq_mask + 1) + 1;

		if (__atomic_load_n(&cqe->phase, __ATOMIC_ACQUIRE) != lap)
			break;
		if (cqe->status != QP_WC_SUCCESS)
			die("a message completed in error");
		if (side == 0)
			n->conn[cqe->wr_id].done++;
		n->cq_cons++;
	}
	if (took != 0)
		__atomic_store_n(&n->cq_hdr->cons, n->cq_cons, __ATOMIC_RELEASE);
	return took;
}

void
bed_send(struct bed_node *n)
{
	struct qp_env *env = &n->engine.env;
	uint32_t sent = 0;

	if (env->tx_n == 0)
		return;
	sent = rte_eth_tx_burst(n->port, 0, env->tx, (uint16_t)env->tx_n);
	env->tx_n -= sent;
	memmove(env->tx, env->tx + sent, env->tx_n * sizeof(env->tx[0]));
}

bool
bed_verify(struct bed *b)
{
	const uint8_t *a = b->node[0].mr.host, *c = b->node[1].mr.host;

	/* Atomics change the responder's words only; their results went to the requester. */
	if (b->o.op == BENCH_ATOMIC)
		return true;
	for (uint32_t i = 0; i < b->slots && i < b->posted; i++)
		if (memcmp(a + (size_t)i * b->stride, c + (size_t)i * b->stride, b->o.size) != 0)
			return false;
	return true;
}

/* The CRC of what follows a template: of BTH, which has the PSN, and of the payload. */
static void
bare_frame(struct rte_mbuf *m, const uint8_t *payload, uint32_t len)
{
	static const uint8_t head[BARE_HEADERS];
	uint8_t *at = (uint8_t *)rte_pktmbuf_append(m, BARE_HEADERS + WIRE_ICRC_LEN);
	uint32_t crc;

	memcpy(at, head, BARE_HEADERS);
	crc = wire_icrc_update(0, at + BARE_HEADERS - WIRE_BTH_LEN, WIRE_BTH_LEN);
	crc = wire_icrc_update(crc, payload, len);
	memcpy(at + BARE_HEADERS, &crc, sizeof(crc));
}

double
bed_bare_ns(struct bed *b)
{
	uint32_t mtu = b->o.mtu, left, n, k;
	uint64_t spent, best = UINT64_MAX, start;
	struct rte_mbuf *m[BED_BURST];

	for (unsigned sweep = 0; sweep < BARE_SWEEPS; sweep++) {
		const uint8_t *at = b->node[0].mr.host;

		for (spent = 0, left = b->o.size; left != 0;) {
			start = rte_rdtsc_precise();
			n = RTE_MIN((left + mtu - 1) / mtu, (uint32_t)BED_BURST);
			if (rte_pktmbuf_alloc_bulk(pool, m, n) != 0)
				die("no memory for packets");
			for (uint32_t i = 0; i < n; i++) {
				uint32_t len = RTE_MIN(left, mtu);

				bare_frame(m[i], at, len);
				at += len;
				left -= len;
			}
			k = rte_eth_tx_burst(b->node[0].port, 0, m, (uint16_t)n);
			spent += rte_rdtsc_precise() - start;
			rte_pktmbuf_free_bulk(m + k, n - k);
			k = rte_eth_rx_burst(b->node[1].port, 0, m, BED_BURST);
			rte_pktmbuf_free_bulk(m, k);
		}
		best = RTE_MIN(best, spent);
	}
	return bench_ns(best);
}
