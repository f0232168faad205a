/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion queues, shared receive queues and queue pairs, with messages between them. */
#include "storm.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include "kit/program.h"
#include "kit/verbs.h"

#define DEPTH     16
#define MAX_BYTES 9000
#define GRH_BYTES 40
#define TRIES     20 /* of an unreliable message */
#define LOST_NS   1000000000ull

bool
storm_wait(struct worker *w, struct ibv_cq *cq, struct ibv_wc *wc)
{
	uint64_t end = now_ns() + STORM_WAIT_S * 1000000000ull;
	int n;

	while ((n = ibv_poll_cq(cq, 1, wc)) == 0 && now_ns() < end)
		sched_yield();
	MUST(w, n == 1);
	return true;
}

bool
storm_done(struct worker *w, struct ibv_cq *cq)
{
	struct ibv_wc wc;

	if (!storm_wait(w, cq, &wc))
		return false;
	errno = (int)wc.status;
	MUST(w, wc.status == IBV_WC_SUCCESS);
	return true;
}

bool
storm_connect(struct worker *w, struct ibv_qp *a, struct ibv_qp *b)
{
	struct ibv_qp *qp[2] = {a, b};
	union ibv_gid gid;

	MUST(w, ibv_query_gid(a->context, 1, 1, &gid) == 0);
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_attr attr = verbs_attr(qp[1 - i]->qp_num, &gid);

		attr.min_rnr_timer = 12;
		attr.timeout = 18;
		attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
		if (a->qp_type == IBV_QPT_RC)
			attr.qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
		MUST(w, verbs_raise(qp[i], &attr, IBV_QPS_RTS) == 0);
	}
	return true;
}

struct ibv_qp *
storm_qp(struct worker *w, struct ibv_pd *pd, enum ibv_qp_type type, struct ibv_cq *cq,
	 struct ibv_srq *srq, uint32_t depth)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.srq = srq,
		.cap = {.max_send_wr = depth,
			.max_recv_wr = srq ? 0 : depth,
			.max_send_sge = 1 + storm_random(w, 3),
			.max_recv_sge = 1,
			.max_inline_data = storm_random(w, 2) ? 64 : 0},
		.qp_type = type,
		.sq_sig_all = 1,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = pd,
	};
	struct ibv_qp *qp;

	if (storm_random(w, 2)) {
		struct ibv_qp_init_attr plain = {.send_cq = cq,
						 .recv_cq = cq,
						 .srq = srq,
						 .cap = attr.cap,
						 .qp_type = type,
						 .sq_sig_all = 1};

		qp = ibv_create_qp(pd, &plain);
	} else {
		if (storm_random(w, 2)) {
			attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
			attr.send_ops_flags = IBV_QP_EX_WITH_SEND;
		}
		qp = ibv_create_qp_ex(pd->context, &attr);
	}
	if (!qp)
		storm_failed(w, __FILE__, __LINE__, "a queue pair is created");
	return qp;
}

bool
storm_post_recv(struct ibv_qp *qp, struct ibv_mr *mr, size_t off, uint32_t len)
{
	struct ibv_sge sge = {(uintptr_t)mr->addr + off, len, mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	return (qp->srq ? ibv_post_srq_recv(qp->srq, &wr, &bad) : ibv_post_recv(qp, &wr, &bad)) ==
	       0;
}

bool
storm_post_send(struct ibv_qp *qp, struct ibv_mr *mr, size_t off, uint32_t len)
{
	struct ibv_sge sge = {(uintptr_t)mr->addr + off, len, mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;

	return ibv_post_send(qp, &wr, &bad) == 0;
}

static bool
post_rdma(struct ibv_qp *qp, enum ibv_wr_opcode op, struct ibv_mr *mr, uint32_t len, uint64_t addr,
	  uint32_t rkey)
{
	struct ibv_sge sge = {(uintptr_t)mr->addr, len, mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = op}, *bad;

	wr.wr.rdma.remote_addr = addr;
	wr.wr.rdma.rkey = rkey;
	return ibv_post_send(qp, &wr, &bad) == 0;
}

/* A CQ of any kind. */
static struct ibv_cq *
any_cq(struct worker *w)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 2 * DEPTH + storm_random(w, 200),
		.wc_flags = IBV_WC_STANDARD_FLAGS,
	};
	struct ibv_cq *cq;

	if (storm_random(w, 2)) {
		cq = ibv_create_cq(storm.ctx, (int)attr.cqe, w, NULL, 0);
	} else {
		struct ibv_cq_ex *ex = ibv_create_cq_ex(storm.ctx, &attr);

		cq = ex ? ibv_cq_ex_to_cq(ex) : NULL;
	}
	if (!cq)
		storm_failed(w, __FILE__, __LINE__, "a completion queue is created");
	return cq;
}

static struct ibv_srq *
any_srq(struct worker *w, struct ibv_pd *pd)
{
	struct ibv_srq_init_attr attr = {
		.attr = {.max_wr = DEPTH + storm_random(w, 40), .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(pd, &attr);

	if (!srq)
		storm_failed(w, __FILE__, __LINE__, "a shared receive queue is created");
	return srq;
}

/* The memory of two ends. */
struct ends {
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_qp *a, *b;
	struct region from, to;
};

static bool
send_once(struct worker *w, struct ends *e, uint32_t len)
{
	uint32_t seed = storm_random(w, 1u << 24);

	storm_fill(e->from.buf, len, seed);
	MUST(w, storm_post_recv(e->b, e->to.mr, 0, MAX_BYTES) &&
			storm_post_send(e->a, e->from.mr, 0, len));
	if (storm_random(w, 4) == 0)
		MUST(w, ibv_resize_cq(e->cq, (int)(DEPTH + storm_random(w, 300))) == 0);
	if (!storm_done(w, e->cq) || !storm_done(w, e->cq))
		return false;
	MUST(w, storm_is_filled(e->to.buf, len, seed));
	return true;
}

/* RDMA WRITE to addr behind rkey, which is where to.buf is, and READ back. */
static bool
write_and_read(struct worker *w, struct ends *e, uint64_t addr, uint32_t rkey, uint32_t len)
{
	uint32_t seed = storm_random(w, 1u << 24);

	storm_fill(e->from.buf, len, seed);
	MUST(w, post_rdma(e->a, IBV_WR_RDMA_WRITE, e->from.mr, len, addr, rkey));
	if (!storm_done(w, e->cq))
		return false;
	MUST(w, storm_is_filled(e->to.buf, len, seed));
	memset(e->from.buf, 0, len);
	MUST(w, post_rdma(e->a, IBV_WR_RDMA_READ, e->from.mr, len, addr, rkey));
	if (!storm_done(w, e->cq))
		return false;
	MUST(w, storm_is_filled(e->from.buf, len, seed));
	return true;
}

static bool
through_window(struct worker *w, struct ends *e, uint32_t len)
{
	struct ibv_mw *mw = ibv_alloc_mw(e->pd, IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = {
		.bind_info = {.mr = e->to.mr,
			      .addr = (uintptr_t)e->to.buf,
			      .length = len,
			      .mw_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ},
	};

	MUST(w, mw != NULL);
	MUST(w, ibv_bind_mw(e->b, mw, &bind) == 0);
	if (!storm_done(w, e->cq) || !write_and_read(w, e, (uintptr_t)e->to.buf, mw->rkey, len))
		return false;
	MUST(w, ibv_dealloc_mw(mw) == 0);
	return true;
}

/* Receives that are outstanding at an error are flushed; their completions may stay unpolled. */
static bool
flush(struct worker *w, struct ends *e)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	uint32_t n = 1 + storm_random(w, 4);
	struct ibv_wc wc;

	for (uint32_t i = 0; i < n; i++)
		MUST(w, storm_post_recv(e->b, e->to.mr, 0, 100));
	MUST(w, ibv_modify_qp(e->b, &attr, IBV_QP_STATE) == 0);
	if (e->srq || storm_random(w, 2))
		return true;
	for (uint32_t i = 0; i < n; i++) {
		if (!storm_wait(w, e->cq, &wc))
			return false;
		MUST(w, wc.status == IBV_WC_WR_FLUSH_ERR);
	}
	return true;
}

static bool
look(struct worker *w, struct ends *e)
{
	struct ibv_qp_init_attr init;
	struct ibv_srq_attr srq;
	struct ibv_qp_attr attr;

	MUST(w, ibv_query_qp(e->a, &attr, IBV_QP_STATE, &init) == 0);
	MUST(w, attr.qp_state == IBV_QPS_RTS && attr.dest_qp_num == e->b->qp_num);
	if (e->srq) {
		MUST(w, ibv_query_srq(e->srq, &srq) == 0);
		srq.max_wr += storm_random(w, 30);
		MUST(w, ibv_modify_srq(e->srq, &srq, IBV_SRQ_MAX_WR) == 0);
	}
	return true;
}

static bool
ends_use(struct worker *w, struct ends *e)
{
	uint32_t n = 1 + storm_random(w, 5);

	for (uint32_t i = 0; i < n; i++) {
		if (!send_once(w, e, 1 + storm_random(w, MAX_BYTES - 1)))
			return false;
	}
	if (!write_and_read(w, e, (uintptr_t)e->to.buf, e->to.mr->rkey,
			    1 + storm_random(w, MAX_BYTES - 1)))
		return false;
	if (storm_random(w, 2) && !through_window(w, e, 1 + storm_random(w, MAX_BYTES - 1)))
		return false;
	return look(w, e) && (storm_random(w, 2) || flush(w, e));
}

/* Two reliable QPs on one CQ, and maybe an SRQ. */
void
job_connection(struct worker *w)
{
	struct ends e = {.pd = ibv_alloc_pd(storm.ctx)};

	NEED(w, e.pd);
	e.cq = any_cq(w);
	if (!e.cq)
		return;
	if (storm_random(w, 2)) {
		e.srq = any_srq(w, e.pd);
		if (!e.srq)
			return;
	}
	e.a = storm_qp(w, e.pd, IBV_QPT_RC, e.cq, NULL, DEPTH);
	e.b = storm_qp(w, e.pd, IBV_QPT_RC, e.cq, e.srq, DEPTH);
	if (!e.a || !e.b || !storm_connect(w, e.a, e.b) ||
	    !region_make(w, &e.from, e.pd, MAX_BYTES) || !region_make(w, &e.to, e.pd, MAX_BYTES) ||
	    !ends_use(w, &e))
		return;
	NEED(w, ibv_destroy_qp(e.a) == 0 && ibv_destroy_qp(e.b) == 0);
	NEED(w, !e.srq || ibv_destroy_srq(e.srq) == 0);
	NEED(w, ibv_destroy_cq(e.cq) == 0);
	if (region_end(w, &e.from) && region_end(w, &e.to))
		NEED(w, ibv_dealloc_pd(e.pd) == 0);
}

/* Returns 1 when a receive has completed, 0 after LOST_NS, -1 after a failure. Skips sends. */
static int
arrived(struct worker *w, struct ibv_cq *cq)
{
	uint64_t end = now_ns() + LOST_NS;
	struct ibv_wc wc;
	int n;

	while (now_ns() < end) {
		n = ibv_poll_cq(cq, 1, &wc);
		if (n == 0) {
			sched_yield();
			continue;
		}
		if (n < 0 || wc.status != IBV_WC_SUCCESS) {
			storm_failed(w, __FILE__, __LINE__, "an unreliable message succeeds");
			return -1;
		}
		if (wc.opcode & IBV_WC_RECV)
			return 1;
	}
	return 0;
}

/* Sends until a message arrives at b; a UD message has a GRH in front. */
static bool
send_unreliable(struct worker *w, struct ends *e, struct ibv_ah *ah)
{
	uint32_t seed = storm_random(w, 1u << 24), len = 1 + storm_random(w, 1000);
	size_t head = ah ? GRH_BYTES : 0;
	struct ibv_sge sge = {(uintptr_t)e->from.buf, len, e->from.mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
	int got = 0;

	if (ah) {
		wr.wr.ud.ah = ah;
		wr.wr.ud.remote_qpn = e->b->qp_num;
		wr.wr.ud.remote_qkey = VERBS_QKEY;
	}
	storm_fill(e->from.buf, len, seed);
	MUST(w, storm_post_recv(e->b, e->to.mr, 0, MAX_BYTES));
	for (int i = 0; i < TRIES && got == 0; i++) {
		MUST(w, ibv_post_send(e->a, &wr, &bad) == 0);
		got = arrived(w, e->cq);
	}
	if (got < 0)
		return false;
	MUST(w, got == 1 && storm_is_filled(e->to.buf + head, len, seed));
	return true;
}

static bool
datagrams_use(struct worker *w, struct ends *e, enum ibv_qp_type type)
{
	struct ibv_ah_attr attr = {.is_global = 1,
				   .port_num = 1,
				   .grh = {.sgid_index = 1, .hop_limit = 64}};
	struct ibv_ah *ah = NULL;
	union ibv_gid group = {.raw = {[10] = 0xff, 0xff, 239, 9, 1}};
	bool ok;

	if (type == IBV_QPT_UD) {
		group.raw[15] = (uint8_t)storm_random(w, 200);
		MUST(w, ibv_query_gid(storm.ctx, 1, 1, &attr.grh.dgid) == 0);
		ah = ibv_create_ah(e->pd, &attr);
		MUST(w, ah != NULL);
		MUST(w, ibv_attach_mcast(e->a, &group, 0) == 0);
	}
	ok = send_unreliable(w, e, ah) && send_unreliable(w, e, ah);
	if (ah) {
		MUST(w, ibv_detach_mcast(e->a, &group, 0) == 0);
		MUST(w, ibv_destroy_ah(ah) == 0);
	}
	return ok;
}

/* Two unreliable QPs: connected, or of datagrams with address handle and group. */
void
job_datagrams(struct worker *w)
{
	enum ibv_qp_type type = storm_random(w, 2) ? IBV_QPT_UD : IBV_QPT_UC;
	struct ends e = {.pd = ibv_alloc_pd(storm.ctx)};

	NEED(w, e.pd);
	e.cq = any_cq(w);
	if (!e.cq)
		return;
	e.a = storm_qp(w, e.pd, type, e.cq, NULL, 2 * TRIES);
	e.b = storm_qp(w, e.pd, type, e.cq, NULL, DEPTH);
	if (!e.a || !e.b || !storm_connect(w, e.a, e.b) ||
	    !region_make(w, &e.from, e.pd, MAX_BYTES) || !region_make(w, &e.to, e.pd, MAX_BYTES) ||
	    !datagrams_use(w, &e, type))
		return;
	NEED(w, ibv_destroy_qp(e.a) == 0 && ibv_destroy_qp(e.b) == 0 && ibv_destroy_cq(e.cq) == 0);
	if (region_end(w, &e.from) && region_end(w, &e.to))
		NEED(w, ibv_dealloc_pd(e.pd) == 0);
}

/* Many queues of random sizes, which need new segments, with one message each. */
void
job_queues(struct worker *w)
{
	struct ibv_cq *cq[4];
	struct ibv_qp *qp[8];
	struct ibv_wc wc;

	for (int i = 0; i < 4; i++) {
		cq[i] = ibv_create_cq(storm.ctx, (int)(1 + storm_random(w, 3000)), NULL, NULL, 0);
		NEED(w, cq[i]);
	}
	for (int i = 0; i < 8; i++) {
		qp[i] = storm_qp(w, storm.pd, IBV_QPT_RC, cq[i / 2], NULL,
				 2 + storm_random(w, 500));
		if (!qp[i])
			return;
	}
	for (int i = 0; i < 8; i += 2) {
		struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad;
		struct ibv_recv_wr rwr = {.wr_id = (uint64_t)i}, *rbad;

		if (!storm_connect(w, qp[i], qp[i + 1]))
			return;
		NEED(w, ibv_resize_cq(cq[i / 2], (int)(4 + storm_random(w, 3000))) == 0);
		NEED(w, ibv_post_recv(qp[i + 1], &rwr, &rbad) == 0);
		NEED(w, ibv_post_send(qp[i], &wr, &bad) == 0);
		for (int k = 0; k < 2; k++) {
			if (!storm_wait(w, cq[i / 2], &wc))
				return;
			NEED(w, wc.status == IBV_WC_SUCCESS);
		}
	}
	for (int i = 0; i < 8; i++)
		NEED(w, ibv_destroy_qp(qp[i]) == 0);
	for (int i = 0; i < 4; i++)
		NEED(w, ibv_destroy_cq(cq[i]) == 0);
}
