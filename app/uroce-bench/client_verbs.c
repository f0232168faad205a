/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "client_int.h"
#include "kit/verbs.h"

#define MEM_BYTES (64u * 1024) /* larger messages have one slot, as in mode "engine" */
#define READS     16
#define RNR_TIMER 1  /* 10 us */
#define TIMEOUT   14 /* 67 ms */
#define FIRST_PSN 0x1000u

static void
open_device(struct client *c)
{
	c->ctx = verbs_open(c->plan.dev[0] != '\0' ? c->plan.dev : NULL);
	if (c->ctx == NULL)
		client_die("--dev %s: no such device that can be opened", c->plan.dev);
	c->pd = ibv_alloc_pd(c->ctx);
	if (c->pd == NULL)
		client_die("ibv_alloc_pd: %s", strerror(errno));
}

static struct ibv_mr *
memory(struct client *c, uint8_t **at)
{
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		     IBV_ACCESS_REMOTE_ATOMIC;
	size_t bytes = (size_t)c->slots * c->stride;
	struct ibv_mr *mr;

	*at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (*at == MAP_FAILED)
		client_die("%zu bytes of memory: %s", bytes, strerror(errno));
	mr = ibv_reg_mr(c->pd, *at, bytes, access);
	if (mr == NULL)
		client_die("ibv_reg_mr of %zu bytes: %s", bytes, strerror(errno));
	return mr;
}

static struct ibv_cq *
cq_make(struct client *c, uint64_t entries)
{
	struct ibv_cq *cq = ibv_create_cq(c->ctx, (int)entries, NULL, NULL, 0);

	if (cq == NULL)
		client_die("ibv_create_cq of %llu entries (QPs x depth): %s",
			   (unsigned long long)entries, strerror(errno));
	return cq;
}

/* Receives that a QP posts: twice the messages in flight, unless there are only pings. */
static uint32_t
recv_room(const struct client *c)
{
	return c->plan.op == BENCH_SEND ? 2 * c->plan.queue : c->plan.queue;
}

static void
qps_make(struct client *c, struct client_end *e)
{
	const struct client_plan *p = &c->plan;

	e->qp = calloc(p->qps, sizeof(struct ibv_qp *));
	e->count = calloc(p->qps, sizeof(*e->count));
	if (e->qp == NULL || e->count == NULL)
		client_die("out of memory");
	for (uint32_t q = 0; q < p->qps; q++) {
		struct ibv_qp_init_attr init = {
			.qp_type = IBV_QPT_RC,
			.send_cq = e->scq,
			.recv_cq = e->rcq,
			.cap = {.max_send_wr = p->queue,
				.max_recv_wr = recv_room(c),
				.max_send_sge = 1,
				.max_recv_sge = 1,
				.max_inline_data = p->inline_bytes},
		};

		e->qp[q] = ibv_create_qp(c->pd, &init);
		if (e->qp[q] == NULL)
			client_die("ibv_create_qp, number %u: %s", q, strerror(errno));
		c->can_inline = p->inline_bytes != 0 && p->size <= init.cap.max_inline_data;
	}
}

void
client_open(struct client *c)
{
	const struct client_plan *p = &c->plan;

	open_device(c);
	c->stride = (p->size + 63) & ~63u;
	c->slots = c->stride >= MEM_BYTES ? 1 : MEM_BYTES / c->stride;
	c->from_mr = memory(c, &c->from);
	c->to_mr = memory(c, &c->to);
	c->mw = p->hops ? ibv_alloc_mw(c->pd, IBV_MW_TYPE_1) : NULL;
	if (p->hops && c->mw == NULL)
		client_die("ibv_alloc_mw: %s", strerror(errno));
	for (unsigned side = 0; side < 2; side++) {
		struct client_end *e = &c->end[side];

		c->has[side] = p->role == CLIENT_BOTH || p->role == CLIENT_ACTIVE + side;
		if (!c->has[side])
			continue;
		/* one entry a batch, and the pongs are batches of one */
		e->scq = cq_make(c, (uint64_t)p->qps * (p->depth / p->batch + 1));
		e->rcq = cq_make(c, p->op == BENCH_SEND ? (uint64_t)p->qps * recv_room(c) : 1);
	}
}

void
client_open_qps(struct client *c)
{
	for (unsigned side = 0; side < 2; side++) {
		if (c->has[side])
			qps_make(c, &c->end[side]);
	}
}

/* Index of the RoCEv2 GID to use: the first with an IPv4 address in it, else 0. */
static int
gid_index(struct client *c, union ibv_gid *gid)
{
	static const uint8_t v4[12] = {[10] = 0xff, [11] = 0xff};
	struct ibv_port_attr port;

	if (ibv_query_port(c->ctx, 1, &port) != 0)
		client_die("ibv_query_port: %s", strerror(errno));
	for (int i = 0; i < port.gid_tbl_len; i++) {
		if (ibv_query_gid(c->ctx, 1, i, gid) == 0 && memcmp(gid->raw, v4, 12) == 0)
			return i;
	}
	if (ibv_query_gid(c->ctx, 1, 0, gid) != 0)
		client_die("ibv_query_gid: %s", strerror(errno));
	return 0;
}

void
client_addresses(struct client *c, unsigned side, struct client_address *a)
{
	struct ibv_port_attr port;
	union ibv_gid gid;

	gid_index(c, &gid);
	if (ibv_query_port(c->ctx, 1, &port) != 0)
		client_die("ibv_query_port: %s", strerror(errno));
	for (uint32_t q = 0; q < c->plan.qps; q++) {
		uint8_t *at = side == 1 && c->plan.op == BENCH_READ ? c->from : c->to;

		a[q] = (struct client_address){
			.qpn = c->end[side].qp[q]->qp_num,
			.rkey = at == c->to ? c->to_mr->rkey : c->from_mr->rkey,
			.mtu = port.active_mtu,
			.va = (uintptr_t)at,
		};
		memcpy(a[q].gid, gid.raw, sizeof(a[q].gid));
	}
}

static void
connect_one(struct client *c, struct ibv_qp *qp, int sgid, const struct client_address *peer)
{
	uint32_t mtu = 1;
	union ibv_gid gid;
	struct ibv_qp_attr attr;
	int rc;

	memcpy(gid.raw, peer->gid, sizeof(gid.raw));
	while (mtu < 5 && 256u << (mtu - 1) < c->plan.mtu && mtu < peer->mtu)
		mtu++;
	attr = verbs_attr(peer->qpn, &gid);
	attr.ah_attr.grh.sgid_index = (uint8_t)sgid;
	attr.qp_access_flags =
		IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	attr.path_mtu = (enum ibv_mtu)mtu;
	attr.rq_psn = attr.sq_psn = FIRST_PSN;
	attr.max_dest_rd_atomic = attr.max_rd_atomic = READS;
	attr.min_rnr_timer = RNR_TIMER;
	attr.timeout = TIMEOUT;
	rc = verbs_raise(qp, &attr, IBV_QPS_RTS);
	if (rc != 0)
		client_die("connect: %s", strerror(rc));
}

void
client_connect(struct client *c, unsigned side, const struct client_address *peer)
{
	struct client_end *e = &c->end[side];
	union ibv_gid gid;
	int sgid = gid_index(c, &gid);

	for (uint32_t q = 0; q < c->plan.qps; q++) {
		e->count[q].peer_va = peer[q].va;
		e->count[q].peer_rkey = peer[q].rkey;
		connect_one(c, e->qp[q], sgid, &peer[q]);
		/* pongs come to side 0, one at a time */
		while (c->plan.op == BENCH_SEND &&
		       e->count[q].recvs < (side == 1 ? recv_room(c) : 1))
			client_post_recvs(c, side, q, 1);
	}
}

/* Where message number n of QP q has its bytes: the same on both sides. */
static uint64_t
slot(const struct client *c, uint32_t q, uint32_t n)
{
	return (uint64_t)((q * 7u + n) % c->slots) * c->stride;
}

void
client_post_recvs(struct client *c, unsigned side, uint32_t q, uint32_t n)
{
	struct client_count *count = &c->end[side].count[q];
	struct ibv_recv_wr wr[CLIENT_BATCH_MAX], *bad;
	struct ibv_sge sge[CLIENT_BATCH_MAX];
	int rc;

	for (uint32_t i = 0; i < n; i++) {
		sge[i] = (struct ibv_sge){
			.addr = (uintptr_t)c->to + slot(c, q, count->recvs++),
			.length = c->plan.size,
			.lkey = c->to_mr->lkey,
		};
		wr[i] = (struct ibv_recv_wr){
			.wr_id = q,
			.next = i + 1 < n ? &wr[i + 1] : NULL,
			.sg_list = &sge[i],
			.num_sge = 1,
		};
	}
	rc = ibv_post_recv(c->end[side].qp[q], wr, &bad);
	if (rc != 0)
		client_die("ibv_post_recv: %s", strerror(rc));
}

static const enum ibv_wr_opcode opcode_of[BENCH_OPS] = {
	[BENCH_WRITE] = IBV_WR_RDMA_WRITE,
	[BENCH_SEND] = IBV_WR_SEND,
	[BENCH_READ] = IBV_WR_RDMA_READ,
	[BENCH_ATOMIC] = IBV_WR_ATOMIC_FETCH_AND_ADD,
};

/* One WR of message number n; READ lands where WRITE would have, on this side. */
static void
wr_make(const struct client *c, const struct client_count *count, uint32_t q, uint32_t n,
	struct ibv_send_wr *wr, struct ibv_sge *sge)
{
	bool into = c->plan.op == BENCH_READ;
	uint64_t off = slot(c, q, n);

	*sge = (struct ibv_sge){
		.addr = (uintptr_t)(into ? c->to : c->from) + off,
		.length = c->plan.size,
		.lkey = into ? c->to_mr->lkey : c->from_mr->lkey,
	};
	wr->wr_id = q;
	wr->next = NULL;
	wr->sg_list = sge;
	wr->num_sge = 1;
	wr->opcode = opcode_of[c->plan.op];
	wr->send_flags = 0;
	if (c->can_inline && (c->plan.op == BENCH_WRITE || c->plan.op == BENCH_SEND))
		wr->send_flags = IBV_SEND_INLINE;
	if (c->plan.op == BENCH_ATOMIC) {
		wr->wr.atomic.remote_addr = count->peer_va + off;
		wr->wr.atomic.compare_add = 1;
		wr->wr.atomic.rkey = count->peer_rkey;
		return;
	}
	wr->wr.rdma.remote_addr = count->peer_va + off;
	wr->wr.rdma.rkey = count->peer_rkey;
}

void
client_post(struct client *c, unsigned side, uint32_t q, uint32_t n)
{
	struct client_count *count = &c->end[side].count[q];
	struct ibv_send_wr wr[CLIENT_BATCH_MAX], *bad;
	struct ibv_sge sge[CLIENT_BATCH_MAX];
	int rc;

	for (uint32_t i = 0; i < n; i++) {
		wr_make(c, count, q, count->posted++, &wr[i], &sge[i]);
		if (i != 0)
			wr[i - 1].next = &wr[i];
	}
	wr[n - 1].send_flags |= IBV_SEND_SIGNALED;
	rc = ibv_post_send(c->end[side].qp[q], wr, &bad);
	if (rc != 0)
		client_die("ibv_post_send: %s", strerror(rc));
}

void
client_post_bind(struct client *c)
{
	struct ibv_mw_bind bind = {.send_flags = IBV_SEND_SIGNALED};
	int rc = ibv_bind_mw(c->end[0].qp[0], c->mw, &bind);

	if (rc != 0)
		client_die("ibv_bind_mw: %s", strerror(rc));
}

int
client_poll(struct client *c, struct ibv_cq *cq, struct ibv_wc wc[CLIENT_POLL])
{
	int n = ibv_poll_cq(cq, CLIENT_POLL, wc);

	if (n < 0)
		client_die("ibv_poll_cq: the daemon is gone, or the queue overran");
	for (int i = 0; i < n; i++) {
		if (wc[i].status != IBV_WC_SUCCESS)
			client_die("a completion failed: %s", ibv_wc_status_str(wc[i].status));
	}
	if (n == 0 && c->plan.yield)
		sched_yield();
	return n;
}
