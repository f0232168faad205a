/* SPDX-License-Identifier: BSD-3-Clause */
/* How a row's cause changes receives, the responder's memory and the errant request. */
#include <errno.h>
#include <sched.h>
#include <string.h>
#include "errmatrix.h"

#define GOOD_BYTES        64u
#define FOLLOW_WRITE_OFF  1024u
#define WINDOW_BYTES      4096u
#define WRONG_KEY_BITS    0x55u   /* in the variable part of a key, on any device */
#define WRONG_WINDOW_BITS 0x5500u /* in the part that names a window, on any device */
#define TOO_LONG_BYTES    0x60000000u
#define QKEY              0x11111111u
#define RIGHTS            (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
#define ALL_RIGHTS        (IBV_ACCESS_LOCAL_WRITE | RIGHTS | IBV_ACCESS_MW_BIND)

static bool
is_atomic(enum op op)
{
	return op == OP_CMP_SWAP || op == OP_FETCH_ADD;
}

static bool
fetches(enum op op)
{
	return op == OP_READ || is_atomic(op);
}

/* The right that an operation needs on the region that it names. */
static int
right_of(enum op op)
{
	if (op == OP_READ)
		return IBV_ACCESS_REMOTE_READ;
	return is_atomic(op) ? IBV_ACCESS_REMOTE_ATOMIC : IBV_ACCESS_REMOTE_WRITE;
}

static uint64_t
id_of(const struct run *r, uint32_t id)
{
	return (uint64_t)r->plan->row << 32 | id;
}

/* --- receives -----------------------------------------------------------------------------------
 */

/* The errant request uses the second receive: applies the row's fault to it. */
static bool
recv_spoil(struct run *r, struct ibv_sge *sge, struct ibv_mr **dereg)
{
	const size_t half = row_bytes(r->row) / 2;
	uint32_t grh = row_type(r->row) == IBV_QPT_UD ? GRH_BYTES : 0;
	struct ibv_mr *mr = NULL;

	switch (r->row->cause) {
	case RECV_SHORT:
		sge->length = (uint32_t)half + grh;
		return true;
	case RECV_LKEY:
		sge->lkey ^= WRONG_KEY_BITS;
		return true;
	case RECV_READONLY:
		mr = extra_mr(r, r->s->pd, AREA_RECV + 1, RECV_BYTES, IBV_ACCESS_REMOTE_READ);
		break;
	case RECV_OTHER_PD:
		mr = extra_mr(r, r->s->other_pd, AREA_RECV + 1, RECV_BYTES, ALL_RIGHTS);
		break;
	case RECV_RANGE:
		mr = extra_mr(r, r->s->pd, AREA_RECV + 1, half + grh, ALL_RIGHTS);
		break;
	case RECV_DEREG:
		mr = extra_mr(r, r->s->pd, AREA_RECV + 1, RECV_BYTES, ALL_RIGHTS);
		*dereg = mr;
		break;
	default:
		return true;
	}
	if (mr)
		sge->lkey = mr->lkey;
	return mr != NULL;
}

bool
recvs_post(struct run *r, uint32_t n)
{
	struct ibv_mr *dereg = NULL;

	for (uint32_t i = 0; i < n; i++) {
		struct ibv_sge sge = {.addr = area_addr(r->s, AREA_RECV + i),
				      .length = RECV_BYTES,
				      .lkey = r->s->area[AREA_RECV]->lkey};
		struct ibv_recv_wr wr = {.wr_id = id_of(r, ID_RECV + i),
					 .sg_list = &sge,
					 .num_sge = 1};
		struct ibv_recv_wr *bad;
		int rc;

		if (i == 1 && !r->s->requester && !recv_spoil(r, &sge, &dereg))
			return false;
		rc = r->srq ? ibv_post_srq_recv(r->srq, &wr, &bad)
			    : ibv_post_recv(r->qp, &wr, &bad);
		if (rc)
			return run_failed(r, "receive %u: %s", i, strerror(rc));
	}
	return dereg ? extra_dereg(r, dereg) : true;
}

/* --- windows -------------------------------------------------------------------------------------
 */

bool
window_alloc(struct run *r, struct ibv_pd *pd)
{
	r->mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	return r->mw ? true : run_failed(r, "ibv_alloc_mw: %s", strerror(errno));
}

bool
local_work(struct run *r, struct ibv_qp *qp, struct ibv_send_wr *wr)
{
	uint64_t end = patience_end(r);
	struct ibv_send_wr *bad;
	struct ibv_wc wc;
	int n = 0, rc = ibv_post_send(qp, wr, &bad);

	if (rc)
		return run_failed(r, "local work: %s", strerror(rc));
	while (n == 0 && now_ns() < end) {
		n = ibv_poll_cq(r->scq, 1, &wc);
		if (n == 0)
			sched_yield();
	}
	if (n != 1)
		return run_failed(r, "local work: no completion");
	return wc.status == IBV_WC_SUCCESS
		       ? true
		       : run_failed(r, "local work: %s", ibv_wc_status_str(wc.status));
}

bool
window_bind(struct run *r, struct ibv_qp *qp, struct ibv_mr *mr, size_t len, int access)
{
	struct ibv_send_wr wr = {
		.wr_id = id_of(r, ID_LOCAL),
		.opcode = IBV_WR_BIND_MW,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_mw = {.mw = r->mw,
			    .rkey = ibv_inc_rkey(r->mw->rkey),
			    .bind_info = {.mr = mr,
					  .addr = area_addr(r->s, AREA_TARGET),
					  .length = len,
					  .mw_access_flags = access}},
	};

	if (!local_work(r, qp, &wr))
		return false;
	r->mw->rkey = wr.bind_mw.rkey;
	return true;
}

static bool
window_invalidate(struct run *r)
{
	struct ibv_send_wr wr = {.wr_id = id_of(r, ID_LOCAL),
				 .opcode = IBV_WR_LOCAL_INV,
				 .send_flags = IBV_SEND_SIGNALED,
				 .invalidate_rkey = r->mw->rkey};

	return local_work(r, r->qp, &wr);
}

static bool
window_free(struct run *r)
{
	int rc = ibv_dealloc_mw(r->mw);

	r->mw = NULL;
	return rc ? run_failed(r, "ibv_dealloc_mw: %s", strerror(rc)) : true;
}

/* A window over the first WINDOW_BYTES of the target, with the row's fault applied. */
static bool
target_window(struct run *r, struct target *t)
{
	bool other = r->row->cause == MW_OTHER_QP || r->row->cause == INV_OTHER_QP;
	int access = RIGHTS;

	if (r->row->cause == MW_NO_RIGHT)
		access &= ~right_of(r->row->op);
	if ((other && !helper_make(r)) || !window_alloc(r, r->s->pd) ||
	    !window_bind(r, other ? r->helper : r->qp, r->s->area[AREA_TARGET], WINDOW_BYTES,
			 access))
		return false;
	t->rkey = t->inv_rkey = r->mw->rkey;
	if (r->row->cause == MW_INVALIDATED)
		return window_invalidate(r);
	if (r->row->cause == MW_FREED)
		return window_free(r);
	if (r->row->cause == MW_RANGE)
		t->addr += WINDOW_BYTES - (is_atomic(r->row->op) ? 0 : GOOD_BYTES / 2);
	return true;
}

/* --- what the errant request names
 * ---------------------------------------------------------------- */

static bool
target_region(struct run *r, struct target *t, struct ibv_pd *pd, int access)
{
	struct ibv_mr *mr = extra_mr(r, pd, AREA_TARGET, TARGET_BYTES, access);

	if (!mr)
		return false;
	t->rkey = mr->rkey;
	return r->row->cause == RKEY_DEREG ? extra_dereg(r, mr) : true;
}

static void
target_range(const struct run *r, struct target *t)
{
	uint32_t len = row_bytes(r->row);

	if (r->row->cause == RKEY_PAST_END)
		t->addr += TARGET_BYTES - (is_atomic(r->row->op) ? 0 : len / 2);
	else if (r->row->cause == RKEY_BEFORE)
		t->addr -= 8;
	else if (r->row->cause == RKEY_WRAP)
		t->addr = -(uint64_t)8;
	else if (r->row->cause == MISALIGNED)
		t->addr += 4;
}

bool
target_make(struct run *r, struct target *t)
{
	t->addr = area_addr(r->s, AREA_TARGET);
	t->rkey = r->s->area[AREA_TARGET]->rkey;
	t->follow = area_addr(r->s, AREA_FOLLOW);
	t->follow_rkey = r->s->area[AREA_FOLLOW]->rkey;
	t->inv_rkey = t->rkey;
	switch (r->row->cause) {
	case RKEY_BAD:
	case RKEY_BAD_RECV_NONE:
	case INV_BAD:
		t->rkey ^= WRONG_KEY_BITS;
		t->inv_rkey ^= WRONG_KEY_BITS;
		return true;
	case RKEY_OTHER_PD:
		return target_region(r, t, r->s->other_pd, ALL_RIGHTS);
	case RKEY_DEREG:
		return target_region(r, t, r->s->pd, ALL_RIGHTS);
	case RKEY_NO_RIGHT:
		return target_region(r, t, r->s->pd, ALL_RIGHTS & ~right_of(r->row->op));
	case MW_INVALIDATED:
	case MW_FREED:
	case MW_OTHER_QP:
	case MW_RANGE:
	case MW_NO_RIGHT:
	case INV_OTHER_QP:
		return target_window(r, t);
	default:
		target_range(r, t);
		return true;
	}
}

/* --- requests
 * -------------------------------------------------------------------------------------- */

/* The buffer of a request: part of SRC, or of SINK. */
static void
request_data(const struct run *r, struct request *q, enum op op, bool errant, uint32_t place)
{
	enum area area = fetches(op) ? AREA_SINK : AREA_SRC;
	uint32_t len = is_atomic(op) ? 8 : GOOD_BYTES;

	if (errant) /* or the READ before it that keeps the responder busy */
		len = op == r->row->op ? row_bytes(r->row) : TARGET_BYTES;
	q->sge[0] = (struct ibv_sge){
		.addr = area_addr(r->s, area) + (size_t)place * RECV_BYTES,
		.length = len,
		.lkey = r->s->area[area]->lkey,
	};
	q->wr.sg_list = q->sge;
	q->wr.num_sge = len ? 1 : 0;
}

/* Sets L_Key and length of the errant request, if these are the fault. */
static bool
request_spoil_data(struct run *r, struct request *q)
{
	enum area area = fetches(r->row->op) ? AREA_SINK : AREA_SRC;
	size_t bytes = area_bytes(area);
	struct ibv_mr *mr;

	switch (r->row->cause) {
	case LKEY_BAD:
		q->sge[0].lkey ^= WRONG_KEY_BITS;
		return true;
	case LKEY_RANGE:
		q->sge[0].addr = area_addr(r->s, area) + bytes - q->sge[0].length / 2;
		return true;
	case TOO_LONG:
		q->sge[1] = q->sge[0];
		q->wr.num_sge = 2;
		q->sge[0].length = q->sge[1].length = TOO_LONG_BYTES;
		if (row_type(r->row) == IBV_QPT_UD)
			q->sge[0].length = q->sge[1].length = 64u << r->s->port_mtu;
		q->sge[1].length += 8;
		return true;
	case ATOMIC_LENGTH:
		q->sge[0].length = 16;
		return true;
	case LKEY_OTHER_PD:
		mr = extra_mr(r, r->s->other_pd, area, bytes, ALL_RIGHTS);
		break;
	case LKEY_DEREG:
		mr = extra_mr(r, r->s->pd, area, bytes, ALL_RIGHTS);
		break;
	case LKEY_READONLY:
		mr = extra_mr(r, r->s->pd, area, bytes, IBV_ACCESS_REMOTE_READ);
		break;
	default:
		return true;
	}
	if (!mr)
		return false;
	q->sge[0].lkey = mr->lkey;
	return r->row->cause == LKEY_DEREG ? extra_dereg(r, mr) : true;
}

static bool
request_bind(struct run *r, struct request *q)
{
	struct ibv_mw_bind_info *info = &q->wr.bind_mw.bind_info;
	struct ibv_mr *mr = r->s->area[AREA_TARGET];
	enum cause cause = r->row->cause;

	if (!window_alloc(r, cause == BIND_WINDOW_PD ? r->s->other_pd : r->s->pd))
		return false;
	if (cause == BIND_TWICE && !window_bind(r, r->qp, mr, WINDOW_BYTES, RIGHTS))
		return false;
	if (cause == BIND_OTHER_PD)
		mr = extra_mr(r, r->s->other_pd, AREA_TARGET, TARGET_BYTES, ALL_RIGHTS);
	else if (cause == BIND_NO_RIGHT)
		mr = extra_mr(r, r->s->pd, AREA_TARGET, TARGET_BYTES,
			      ALL_RIGHTS & ~IBV_ACCESS_MW_BIND);
	else if (cause == BIND_READONLY)
		mr = extra_mr(r, r->s->pd, AREA_TARGET, TARGET_BYTES,
			      IBV_ACCESS_REMOTE_READ | IBV_ACCESS_MW_BIND);
	if (!mr)
		return false;
	q->fake_mr = *mr;
	q->fake_mw = *r->mw;
	if (cause == BIND_LKEY)
		q->fake_mr.lkey ^= WRONG_KEY_BITS;
	if (cause == BIND_STALE)
		q->fake_mw.rkey ^= WRONG_WINDOW_BITS;
	q->wr.bind_mw.mw = &q->fake_mw;
	q->wr.bind_mw.rkey = ibv_inc_rkey(q->fake_mw.rkey);
	*info = (struct ibv_mw_bind_info){
		.mr = &q->fake_mr,
		.addr = area_addr(r->s, AREA_TARGET),
		.length = cause == BIND_EMPTY   ? 0
			  : cause == BIND_RANGE ? TARGET_BYTES + 8
						: WINDOW_BYTES,
		.mw_access_flags = RIGHTS,
	};
	return true;
}

static bool
request_local_inv(struct run *r, struct request *q)
{
	struct ibv_mr *mr = r->s->area[AREA_TARGET];

	q->wr.invalidate_rkey = mr->rkey;
	if (r->row->cause == INVALIDATE_REGION)
		return true;
	q->wr.invalidate_rkey ^= WRONG_KEY_BITS;
	if (r->row->cause == INVALIDATE_BAD)
		return true;
	if (!window_alloc(r, r->s->pd))
		return false;
	if (r->row->cause == INVALIDATE_OTHER_QP &&
	    (!helper_make(r) || !window_bind(r, r->helper, mr, WINDOW_BYTES, RIGHTS)))
		return false;
	q->wr.invalidate_rkey = r->mw->rkey;
	return true;
}

static void
request_remote(const struct run *r, struct request *q, enum op op, bool errant)
{
	const struct target *t = &r->target;
	uint64_t addr = errant ? t->addr : t->follow + (op == OP_WRITE ? FOLLOW_WRITE_OFF : 0);
	uint32_t rkey = errant ? t->rkey : t->follow_rkey;

	if (is_atomic(op)) {
		q->wr.wr.atomic.remote_addr = addr;
		q->wr.wr.atomic.rkey = rkey;
		q->wr.wr.atomic.compare_add = 1;
		q->wr.wr.atomic.swap = 2;
	} else {
		q->wr.wr.rdma.remote_addr = addr;
		q->wr.wr.rdma.rkey = rkey;
	}
}

bool
request_make(struct run *r, enum op op, bool errant, uint32_t id, struct request *q)
{
	static const enum ibv_wr_opcode opcode[] = {
		[OP_SEND] = IBV_WR_SEND,
		[OP_SEND_IMM] = IBV_WR_SEND_WITH_IMM,
		[OP_SEND_INV] = IBV_WR_SEND_WITH_INV,
		[OP_WRITE] = IBV_WR_RDMA_WRITE,
		[OP_WRITE_IMM] = IBV_WR_RDMA_WRITE_WITH_IMM,
		[OP_READ] = IBV_WR_RDMA_READ,
		[OP_CMP_SWAP] = IBV_WR_ATOMIC_CMP_AND_SWP,
		[OP_FETCH_ADD] = IBV_WR_ATOMIC_FETCH_AND_ADD,
		[OP_BIND_MW] = IBV_WR_BIND_MW,
		[OP_LOCAL_INV] = IBV_WR_LOCAL_INV,
	};
	bool ud = row_type(r->row) == IBV_QPT_UD;

	*q = (struct request){.wr = {.wr_id = id_of(r, id),
				     .opcode = opcode[op],
				     .send_flags = IBV_SEND_SIGNALED}};
	if (op == OP_BIND_MW)
		return request_bind(r, q);
	if (op == OP_LOCAL_INV)
		return request_local_inv(r, q);
	request_data(r, q, op, errant, errant || id >= ID_SQE ? 0 : id - ID_CHAIN);
	if (op == OP_SEND_INV)
		q->wr.invalidate_rkey = r->target.inv_rkey;
	else if (op == OP_SEND_IMM || op == OP_WRITE_IMM)
		q->wr.imm_data = 0x01020304;
	if (ud) {
		q->wr.wr.ud.ah = errant && r->row->cause == AH_OTHER_PD ? r->other_ah : r->ah;
		q->wr.wr.ud.remote_qpn = r->peer.qpn;
		q->wr.wr.ud.remote_qkey = errant && r->row->cause == QKEY_WRONG ? QKEY + 1 : QKEY;
	} else if (op > OP_SEND_INV) {
		request_remote(r, q, op, errant);
	}
	return errant ? request_spoil_data(r, q) : true;
}
