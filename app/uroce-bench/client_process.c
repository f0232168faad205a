/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include "client.h"
#include "kit/verbs.h"

#define CLIENT_BATCH_MAX 64
#define CLIENT_POLL      32 /* completions taken at a time */
/* Ends the process with 1 and a line on stderr. */
#define client_die(...) bench_die("client: " __VA_ARGS__)

#define MEM_BYTES       (64u * 1024) /* larger messages have one slot, as in mode "engine" */
#define READS           16
#define RNR_TIMER       1 /* 10 us */
#define FIRST_PSN       0x1000u

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

/* Opens everything in the plan except the QPs; then the QPs, in RESET. */
static void
client_open(struct client *c)
{
	const struct client_plan *p = &c->plan;

	open_device(c);
	c->step = calloc(p->steps + 1, sizeof(*c->step));
	if (c->step == NULL)
		client_die("out of memory");
	c->stride = (p->size + 63) & ~63u;
	c->slots = c->stride >= MEM_BYTES ? 1 : MEM_BYTES / c->stride;
	c->from_mr = memory(c, &c->from);
	c->to_mr = memory(c, &c->to);
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

static void
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

/* Addresses of side's QPs, plan.qps of them, into a. */
static void
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

/* Where message number n of QP q has its bytes: the same on both sides. */
static uint64_t
slot(const struct client *c, uint32_t q, uint32_t n)
{
	return (uint64_t)((q * 7u + n) % c->slots) * c->stride;
}

/* Post n receives to QP q of side, 1 .. CLIENT_BATCH_MAX. */
static void
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
	rc = verbs_raise(qp, &attr, IBV_QPS_RTS);
	if (rc != 0)
		client_die("connect: %s", strerror(rc));
}

/* Connects all QPs of side to the peer, up to RTS, and posts their receives. */
static void
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

/* plan.steps: stamps a step of message number n. */
static inline void
stamp(struct client *c, enum stamp_kind kind, uint32_t n)
{
	if (c->nsteps < c->plan.steps)
		c->step[c->nsteps++] = (struct stamp){.tsc = stamp_tsc(),
						      .n = n,
						      .cpu = (uint16_t)sched_getcpu(),
						      .kind = (uint16_t)kind};
}

/* Post the next n operations of QP q, 1 .. CLIENT_BATCH_MAX; the last is signaled. */
static void
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
	stamp(c, STAMP_POST, c->step_sent);
	rc = ibv_post_send(c->end[side].qp[q], wr, &bad);
	stamp(c, STAMP_POSTED, c->step_sent++);
	if (rc != 0)
		client_die("ibv_post_send: %s", strerror(rc));
}

/* Takes completions of a CQ. Returns their number. If there are none, yields if plan.yield is set.
 */
static int
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

/* The measured loops: many messages in flight, or one at a time. */

#define CLOCK_TURNS 16   /* iterations between two reads of the clock */
#define PING_TURNS  256  /* pings between two reads of the clock */
#define STOP_TURNS  1024 /* empty polls of the passive side between two polls of its socket */

/* Take the completed receives of side and post as many new ones, in batches. */
static void
replenish(struct client *c, unsigned side)
{
	struct client_end *e = &c->end[side];
	struct ibv_wc wc[CLIENT_POLL];
	int n = client_poll(c, e->rcq, wc);

	for (int i = 0; i < n; i++) {
		uint32_t q = (uint32_t)wc[i].wr_id;

		if (++e->count[q].arrived % c->plan.batch == 0)
			client_post_recvs(c, side, q, c->plan.batch);
	}
}

/* Count completed operations; with more, post as many new ones. */
static uint64_t
advance(struct client *c, bool more)
{
	struct client_end *e = &c->end[0];
	struct ibv_wc wc[CLIENT_POLL];
	int n = client_poll(c, e->scq, wc);

	for (int i = 0; i < n; i++) {
		uint32_t q = (uint32_t)wc[i].wr_id;

		e->count[q].done += c->plan.batch;
		if (more)
			client_post(c, 0, q, c->plan.batch);
	}
	return (uint64_t)n * c->plan.batch;
}

/* Many messages in flight on all QPs. */
static void
client_rate(struct client *c, const struct client_command *cmd, struct client_answer *a)
{
	bool recvs = c->plan.op == BENCH_SEND && c->has[1], more = true;
	uint64_t flying = 0, done = 0, now;

	a->start_ns = bench_now_ns();
	for (uint32_t q = 0; q < c->plan.qps; q++) {
		for (uint32_t d = 0; d + c->plan.batch <= c->plan.depth; d += c->plan.batch) {
			client_post(c, 0, q, c->plan.batch);
			flying += c->plan.batch;
		}
	}
	for (uint32_t turn = 1; flying != 0; turn++) {
		uint64_t n = advance(c, more);

		done += n;
		if (!more)
			flying -= n;
		if (recvs)
			replenish(c, 1);
		if (!more || turn % CLOCK_TURNS != 0)
			continue;
		now = bench_now_ns();
		more = now - a->start_ns < cmd->ns || done < cmd->count;
	}
	a->end_ns = bench_now_ns();
	/* receives may complete after the last SEND has */
	for (uint32_t q = 0; recvs && q < c->plan.qps; q++) {
		while (c->end[1].count[q].arrived != c->end[0].count[q].done)
			replenish(c, 1);
	}
	a->messages = done;
}

static void
wait_for(struct client *c, struct ibv_cq *cq)
{
	struct ibv_wc wc[CLIENT_POLL];

	while (client_poll(c, cq, wc) == 0)
		;
}

/* A SEND one way, from side to the other, which posts its receive again. */
static void
ping_half(struct client *c, unsigned side)
{
	client_post(c, side, 0, 1);
	wait_for(c, c->end[!side].rcq);
	client_post_recvs(c, !side, 0, 1);
}

/* Time of a round trip of SENDs, in ns; one_way: of the first half. Takes their completions. */
static uint64_t
ping_send(struct client *c, bool one_way)
{
	uint64_t start = bench_now_ns(), half;

	if (!c->has[1]) {
		client_post(c, 0, 0, 1);
		wait_for(c, c->end[0].rcq);
		stamp(c, STAMP_POLLED, c->step_back++);
		half = bench_now_ns();
		client_post_recvs(c, 0, 0, 1);
		wait_for(c, c->end[0].scq);
		return half - start;
	}
	ping_half(c, 0);
	half = bench_now_ns();
	ping_half(c, 1);
	if (!one_way)
		half = bench_now_ns();
	wait_for(c, c->end[0].scq);
	wait_for(c, c->end[1].scq);
	return half - start;
}

/* Any other operation: from its post to its completion. */
static uint64_t
ping_op(struct client *c)
{
	uint64_t start = bench_now_ns();

	client_post(c, 0, 0, 1);
	wait_for(c, c->end[0].scq);
	return bench_now_ns() - start;
}

/* One message at a time on QP 0; adds the time of each to h. */
static void
client_ping(struct client *c, const struct client_command *cmd, struct client_answer *a,
	    struct client_hist *h)
{
	struct timespec pause = {.tv_sec = (time_t)(cmd->pause_us / 1000000),
				 .tv_nsec = (long)(cmd->pause_us % 1000000 * 1000)};

	a->start_ns = bench_now_ns();
	while (a->messages < cmd->count) {
		if (cmd->ns != 0 && a->messages % PING_TURNS == PING_TURNS - 1 &&
		    bench_now_ns() - a->start_ns > cmd->ns)
			break;
		if (cmd->pause_us != 0)
			nanosleep(&pause, NULL);
		client_hist_add(h, c->plan.op == BENCH_SEND ? ping_send(c, cmd->pause_us != 0)
							    : ping_op(c));
		a->messages++;
	}
	a->end_ns = bench_now_ns();
}

static bool
told_to_stop(const struct client *c)
{
	struct pollfd fd = {.fd = c->sock, .events = POLLIN};

	return poll(&fd, 1, 0) != 0;
}

/* The passive side, until the socket has a message. */
static void
client_serve(struct client *c, bool pong)
{
	struct client_end *e = &c->end[1];
	struct ibv_wc wc[CLIENT_POLL];

	/* only SEND needs work on this side */
	if (c->plan.op != BENCH_SEND) {
		struct pollfd fd = {.fd = c->sock, .events = POLLIN};

		poll(&fd, 1, -1);
		return;
	}
	for (uint32_t empty = 0; empty < STOP_TURNS || !told_to_stop(c);) {
		if (empty >= STOP_TURNS)
			empty = 0;
		if (!pong) {
			replenish(c, 1);
			empty++;
			continue;
		}
		if (client_poll(c, e->rcq, wc) == 0) {
			empty++;
			continue;
		}
		stamp(c, STAMP_POLLED, c->step_back++);
		e->count[0].arrived++;
		client_post(c, 1, 0, 1);
		client_post_recvs(c, 1, 0, 1);
		wait_for(c, e->scq);
	}
}

/* This process ends when the mode closes the socket. */
static void
hear(struct client *c, void *msg, size_t len)
{
	if (client_recv(c->sock, msg, len) < 0)
		exit(1);
}

static void
say(struct client *c, const void *msg, size_t len)
{
	if (client_send(c->sock, msg, len) < 0)
		exit(1);
}

/* CLIENT_CONNECT: receive the addresses of the peer's QPs, unless this process has both sides. */
static void
connect_ends(struct client *c)
{
	uint32_t qps = c->plan.qps;
	struct client_address *a = calloc(qps, sizeof(*a));

	if (a == NULL)
		client_die("out of memory");
	for (unsigned side = 0; side < 2; side++) {
		if (!c->has[side])
			continue;
		if (c->has[!side])
			client_addresses(c, !side, a);
		else
			for (uint32_t q = 0; q < qps; q++)
				hear(c, &a[q], sizeof(a[q]));
		client_connect(c, side, a);
	}
	free(a);
}

/* A client with one side sends the addresses of its QPs before it connects. */
static void
say_addresses(struct client *c)
{
	unsigned side = c->has[1];
	struct client_address *a;

	if (c->has[0] && c->has[1])
		return;
	a = calloc(c->plan.qps, sizeof(*a));
	if (a == NULL)
		client_die("out of memory");
	client_addresses(c, side, a);
	for (uint32_t q = 0; q < c->plan.qps; q++)
		say(c, &a[q], sizeof(a[q]));
	free(a);
}

/* CLIENT_STEPS */
static void
say_steps(struct client *c)
{
	struct client_steps now = {.n = c->nsteps};
	struct rusage u;

	getrusage(RUSAGE_THREAD, &u);
	now.slept = (uint32_t)u.ru_nvcsw - c->switches.slept;
	now.preempted = (uint32_t)u.ru_nivcsw - c->switches.preempted;
	say(c, &now, sizeof(now));
	for (uint32_t i = 0, n; i < c->nsteps; i += n) {
		n = c->nsteps - i < CLIENT_STEPS_MSG ? c->nsteps - i : CLIENT_STEPS_MSG;
		say(c, c->step + i, n * sizeof(*c->step));
	}
	c->nsteps = c->step_sent = c->step_back = 0;
	getrusage(RUSAGE_THREAD, &u);
	c->switches.slept = (uint32_t)u.ru_nvcsw;
	c->switches.preempted = (uint32_t)u.ru_nivcsw;
}

static void
carry_out(struct client *c, const struct client_command *cmd)
{
	static struct client_hist h;
	struct client_answer a = {0};

	switch ((enum client_order)cmd->order) {
	case CLIENT_CONNECT:
		client_open_qps(c);
		say_addresses(c);
		connect_ends(c);
		break;
	case CLIENT_PATTERN:
		client_pattern(c, cmd->seed);
		break;
	case CLIENT_RATE:
		client_rate(c, cmd, &a);
		break;
	case CLIENT_PING:
		h = (struct client_hist){0};
		client_ping(c, cmd, &a, &h);
		break;
	case CLIENT_SERVE:
		client_serve(c, cmd->count != 0);
		return;
	case CLIENT_STOP:
		break;
	case CLIENT_VERIFY:
		a.equal = client_verify(c, cmd->seed, cmd->count);
		break;
	case CLIENT_STEPS:
		say_steps(c);
		return;
	}
	say(c, &a, sizeof(a));
	if (cmd->order == CLIENT_PING)
		say(c, &h, sizeof(h));
}

int
client_main(int argc, char **argv)
{
	struct client_command cmd;
	struct client c = {.sock = argc == 3 ? atoi(argv[2]) : -1};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	hear(&c, &c.plan, sizeof(c.plan));
	client_open(&c);
	for (;;) {
		hear(&c, &cmd, sizeof(cmd));
		carry_out(&c, &cmd);
	}
}
