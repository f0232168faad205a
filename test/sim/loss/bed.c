/* SPDX-License-Identifier: BSD-3-Clause */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <rte_common.h>
#include <rte_eal.h>
#include <rte_mbuf.h>
#include "bed.h"
#include "qp/doorbell.h"
#include "qp/sqe.h"
#include "wire/timer.h"

#define POOL_MBUFS 16383
#define POLL_NS    1000
#define IOVA       0x100000000ull
#define PD         1
#define QPN        0x100u
#define MTU        4096u
#define RX_BURST   32

static struct rte_mempool *pool;

static struct bed {
	struct bed_run run;
	struct bed_node node[2];
	struct link link[2]; /* from node 0, from node 1 */
	uint64_t now_ns;
	uint32_t posted, done;
	bool failed;
} bed;

static void
die(const char *what)
{
	fprintf(stderr, "uroce-loss: %s\n", what);
	exit(2);
}

void
bed_open(void)
{
	char prefix[64];
	char *argv[] = {"uroce-loss",
			"--no-huge",
			"--no-pci",
			"-m",
			"160",
			"--no-telemetry",
			"--log-level=error",
			"--no-shconf",
			"--lcores=0@0",
			"--file-prefix",
			prefix,
			NULL};
	cpu_set_t cpus;

	snprintf(prefix, sizeof(prefix), "uroce-loss-%d", (int)getpid());
	sched_getaffinity(0, sizeof(cpus), &cpus);
	if (rte_eal_init((int)RTE_DIM(argv) - 1, argv) < 0)
		die("EAL does not start");
	/* The EAL has bound us to one core; several tests share them better unbound. */
	sched_setaffinity(0, sizeof(cpus), &cpus);
	pool = rte_pktmbuf_pool_create("loss", POOL_MBUFS, 0, 0,
				       RTE_PKTMBUF_HEADROOM + WIRE_MAX_OVERHEAD + MTU, 0);
	if (pool == NULL)
		die("no memory for frames");
}

static void *
zalloc(size_t bytes)
{
	void *p = aligned_alloc(4096, RTE_ALIGN_CEIL(bytes, 4096));

	if (p == NULL)
		die("no memory");
	return memset(p, 0, RTE_ALIGN_CEIL(bytes, 4096));
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
		bed.failed = true;
}

static const struct engine_ops bed_ops = {
	.slow_path = on_frame,
	.handoff = on_handoff,
	.set_timer = on_set_timer,
	.cq_event = on_cq_event,
	.async_event = on_async_event,
};

static struct qp_ring
ring_make(struct bed_ring *r, uint32_t stride)
{
	r->hdr = zalloc(UROCE_RING_HDR + (size_t)BED_DEPTH * stride);
	r->slots = (uint8_t *)r->hdr + UROCE_RING_HDR;
	r->stride = stride;
	r->prod = 0;
	return (struct qp_ring){.hdr = r->hdr,
				.slots = r->slots,
				.mask = BED_DEPTH - 1,
				.stride = stride,
				.max_sge = 1};
}

static void
node_make(unsigned side)
{
	struct bed_node *n = &bed.node[side];
	uint32_t bytes = BED_PLACES * bed.run.size, i;
	struct qp_create q = {.qpn = QPN,
			      .type = QP_TYPE_RC,
			      .dev_mtu = 5,
			      .pd = PD,
			      .send_cq = &n->cq,
			      .recv_cq = &n->cq,
			      .cap = {BED_DEPTH, BED_DEPTH, 1, 1, 0},
			      .obs = &n->obs};

	memset(n, 0, sizeof(*n));
	memcpy(n->mac, (uint8_t[6]){2, 0, 0, 0, 0, (uint8_t)side}, 6);
	if (mr_table_init(&n->mrs, 16) != 0 || qp_table_init(&n->qps, 1024) != 0)
		die("no memory");
	n->sqes = qp_sqe_pool_create(1, QP_SQE_CHUNKS);
	engine_init(&n->eng, pool, n->sqes, &n->mrs, &n->qps, 0, &bed_ops, n);
	engine_add_dev(&n->eng, 0, n->mac, &n->obs);
	n->eng.env.plain = bed.run.plain[side];
	n->cq_hdr = zalloc(UROCE_CQ_HDR + BED_CQ * sizeof(struct uroce_cqe));
	cq_init(&n->cq, n->cq_hdr, BED_CQ);
	n->mr = (struct mr){.iova = IOVA,
			    .len = bytes,
			    .host = zalloc(bytes),
			    .pd = PD,
			    .access = MEM_LOCAL_WRITE | MEM_REMOTE_WRITE | MEM_REMOTE_READ};
	if (mr_table_add(&n->mrs, &n->mr, 0x100005a5) != 0)
		die("no memory");
	for (i = 0; i < bytes; i++)
		n->mr.host[i] = (uint8_t)((i * 2654435761u) >> 24) ^ (uint8_t)(side * 0x5a);
	q.sq = ring_make(&n->sq, uroce_sq_stride(1, 0));
	q.rq = ring_make(&n->rq, uroce_rq_stride(1));
	n->qp = qp_create(&q);
	if (n->qp == NULL)
		die("no memory for a QP");
	n->qps.slot[QPN & n->qps.mask] = n->qp;
	n->poll_ns = 0;
}

static void
node_connect(unsigned side)
{
	static const uint32_t mask[] = {
		QP_PKEY_INDEX | QP_PORT | QP_ACCESS_FLAGS,
		QP_AV | QP_PATH_MTU | QP_DEST_QPN | QP_RQ_PSN | QP_MAX_DEST_RD_ATOMIC |
			QP_MIN_RNR_TIMER,
		QP_SQ_PSN | QP_TIMEOUT | QP_RETRY_CNT | QP_RNR_RETRY | QP_MAX_QP_RD_ATOMIC,
	};
	struct bed_node *n = &bed.node[side];
	struct qp_path path = {.path_ok = true};
	struct uroce_qp_attr a = {
		.qp_access_flags = MEM_LOCAL_WRITE | MEM_REMOTE_WRITE | MEM_REMOTE_READ,
		.port_num = 1,
		.path_mtu = 5,
		.dest_qp_num = QPN,
		.max_rd_atomic = QP_MAX_RD_ATOMIC,
		.max_dest_rd_atomic = QP_MAX_RD_ATOMIC,
		.min_rnr_timer = 1,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.ah = {.is_global = 1, .port_num = 1},
	};

	memcpy(path.wire.sgid, (uint8_t[16]){[10] = 0xff, 0xff, 10, 0, 0, 1}, 16);
	memcpy(path.wire.dgid, path.wire.sgid, 16);
	path.wire.sgid[15] += side;
	path.wire.dgid[15] += 1 - side;
	memcpy(path.wire.smac, n->mac, 6);
	memcpy(path.wire.dmac, bed.node[1 - side].mac, 6);
	path.wire.udp_sport = wire_udp_sport(0, QPN, QPN);
	path.wire.hop_limit = 64;
	for (a.qp_state = QP_INIT; a.qp_state <= QP_RTS; a.qp_state++) {
		uint32_t m = QP_STATE | mask[a.qp_state - 1];

		qp_modify_apply(&n->eng.env, n->qp, m, &a, m & QP_AV ? &path : NULL, NULL);
	}
}

static void
node_free(struct bed_node *n)
{
	rte_pktmbuf_free_bulk(n->eng.env.tx, n->eng.env.tx_n);
	engine_forget(&n->eng, n->qp);
	qp_free(n->qp);
	free(n->sq.hdr);
	free(n->rq.hdr);
	free(n->cq_hdr);
	free(n->mr.host);
	qp_table_free(&n->qps);
	qp_sqe_pool_free(n->sqes);
	mr_table_free(&n->mrs);
}

static uint64_t
place(uint32_t i)
{
	return IOVA + (uint64_t)(i % BED_PLACES) * bed.run.size;
}

static void
ring_bell(struct bed_node *n, struct bed_ring *r)
{
	if (qp_doorbell_publish(r->hdr, r->prod))
		engine_doorbell(&n->eng, QPN);
}

static void
post_recv(void)
{
	struct bed_node *n = &bed.node[1];
	struct bed_ring *r = &n->rq;
	struct uroce_recv_wqe w = {.num_sge = 1};
	struct uroce_sge sge = {place(r->prod), bed.run.size, n->mr.key};
	uint8_t *slot = r->slots + (size_t)(r->prod++ % BED_DEPTH) * r->stride;

	memcpy(slot, &w, sizeof(w));
	memcpy(slot + sizeof(w), &sge, sizeof(sge));
	__atomic_store_n(&r->hdr->prod, r->prod, __ATOMIC_RELEASE);
}

static void
post_sends(void)
{
	static const uint8_t opcode[BED_OPS] = {UROCE_WR_RDMA_WRITE, UROCE_WR_SEND,
						UROCE_WR_RDMA_READ};
	struct bed_node *n = &bed.node[0];
	struct bed_ring *r = &n->sq;
	uint32_t had = r->prod;

	for (; bed.posted < bed.run.messages && bed.posted - bed.done < BED_DEPTH; bed.posted++) {
		struct uroce_send_wqe w = {.wr_id = bed.posted,
					   .opcode = opcode[bed.run.op],
					   .flags = UROCE_WQE_SIGNALED,
					   .num = 1,
					   .rdma = {.remote_addr = place(bed.posted),
						    .rkey = bed.node[1].mr.key}};
		struct uroce_sge sge = {place(bed.posted), bed.run.size, n->mr.key};
		uint8_t *slot = r->slots + (size_t)(r->prod++ % BED_DEPTH) * r->stride;

		memcpy(slot, &w, sizeof(w));
		memcpy(slot + sizeof(w), &sge, sizeof(sge));
	}
	if (r->prod != had)
		ring_bell(n, r);
}

/* Completions of a node. */
static void
poll_cq(unsigned side)
{
	struct bed_node *n = &bed.node[side];
	const struct uroce_cqe *ring = (const void *)((uint8_t *)n->cq_hdr + UROCE_CQ_HDR);

	for (;; n->cq_cons++) {
		const struct uroce_cqe *c = &ring[n->cq_cons % BED_CQ];

		if (__atomic_load_n(&c->phase, __ATOMIC_ACQUIRE) != n->cq_cons / BED_CQ + 1)
			break;
		bed.failed |= c->status != QP_WC_SUCCESS;
		if (side == 0)
			bed.done++;
		else
			post_recv();
	}
	__atomic_store_n(&n->cq_hdr->cons, n->cq_cons, __ATOMIC_RELEASE);
}

/* Once round of a worker; when it comes round next. */
static uint64_t
poll_node(unsigned side)
{
	struct bed_node *n = &bed.node[side];
	struct link *out = &bed.link[side], *in = &bed.link[1 - side];
	struct qp_env *env = &n->eng.env;
	struct rte_mbuf *m[RX_BURST];
	uint32_t k = link_recv(in, bed.now_ns, m, RX_BURST);
	uint64_t next;
	bool more;

	if (k != 0)
		engine_rx(&n->eng, bed.now_ns, 0, m, k);
	poll_cq(side);
	if (side == 0)
		post_sends();
	if (k != RX_BURST && n->qp->bind.timer_at_ns != 0 && n->qp->bind.timer_at_ns <= bed.now_ns)
		engine_timer(&n->eng, bed.now_ns, n->qp);
	more = engine_run(&n->eng, bed.now_ns);
	k = link_send(out, bed.now_ns, env->tx, env->tx_n);
	env->tx_n -= k;
	memmove(env->tx, env->tx + k, env->tx_n * sizeof(env->tx[0]));
	if (more || env->tx_n != 0 || bed.done != bed.posted)
		next = bed.now_ns + POLL_NS;
	else
		next = UINT64_MAX;
	if (!more && env->tx_n == 0) {
		next = link_next(in);
		if (n->qp->bind.timer_at_ns != 0)
			next = RTE_MIN(next, n->qp->bind.timer_at_ns);
	}
	return RTE_MAX(next, bed.now_ns + POLL_NS);
}

static bool
bytes_equal(void)
{
	uint32_t used = RTE_MIN(bed.run.messages, BED_PLACES + 0u);

	return memcmp(bed.node[0].mr.host, bed.node[1].mr.host, (size_t)used * bed.run.size) == 0;
}

static void
go(void)
{
	unsigned side;

	while (bed.done < bed.run.messages && !bed.failed && bed.now_ns < bed.run.most_ns) {
		side = bed.node[1].poll_ns < bed.node[0].poll_ns;
		if (bed.node[side].poll_ns == UINT64_MAX) {
			bed.failed = true;
			return;
		}
		bed.now_ns = bed.node[side].poll_ns;
		bed.node[side].poll_ns = poll_node(side);
		/* What was sent may come before the other had planned to look. */
		bed.node[1 - side].poll_ns =
			RTE_MIN(bed.node[1 - side].poll_ns,
				RTE_MAX(link_next(&bed.link[side]), bed.now_ns + 1));
	}
}

struct bed_result
bed_measure(const struct bed_run *r)
{
	const uint64_t *c = bed.node[0].obs.ctr;
	struct bed_result res;
	unsigned i;

	memset(&bed, 0, sizeof(bed));
	bed.run = *r;
	for (i = 0; i < 2; i++) {
		node_make(i);
		bed.link[i].loss_ppm = r->loss_ppm[i];
		sim_rng_init(&bed.link[i].rng, r->seed, i);
	}
	for (i = 0; i < 2; i++)
		node_connect(i);
	for (i = 0; i < BED_DEPTH; i++)
		post_recv();
	bed.now_ns = 1000;
	go();
	res = (struct bed_result){
		.gbps = (double)bed.done * r->size * 8 / (double)bed.now_ns,
		.done = bed.done,
		.failed = bed.failed || (bed.done == r->messages && !bytes_equal()),
		.probes = c[OBS_REQ_PROBE],
		.spurious = c[OBS_REQ_PROBE_VAIN],
		.timeouts = c[OBS_REQ_TIMEOUT],
		.naks = c[OBS_REQ_SEQ_NAK],
		.gaps = c[OBS_REQ_READ_GAP],
		.resent = c[OBS_REQ_RETRANS],
	};
	for (i = 0; i < 2; i++) {
		link_drain(&bed.link[i]);
		node_free(&bed.node[i]);
	}
	return res;
}
