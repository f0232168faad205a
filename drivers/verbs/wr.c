/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The work request builders of ibv_qp_ex. wr_start takes the send queue's lock; each operation
 * opens a WQE at the next slot, the setters act on the one opened last; wr_complete publishes
 * them all or, if any step failed, none; wr_abort drops them.
 */
#include "provider.h"
#include "refusal.h"

#include <errno.h>
#include <string.h>

static struct prov_qp *
qp_of_ex(struct ibv_qp_ex *ex)
{
	return prov_container(ex, struct prov_qp, vqp.qp_ex);
}

/* Records the first error and why; later calls have no effect. */
static void
wr_fail(struct prov_qp *qp, int error, const char *why)
{
	if (!qp->build_error) {
		qp->build_error = error;
		qp->build_why = why;
	}
	qp->build = NULL;
}

/* Opens the next WQE. Returns NULL if the list has failed, before or with this call. */
static struct uroce_send_wqe *
wr_open(struct ibv_qp_ex *ex, enum uroce_wr_opcode opcode)
{
	struct prov_qp *qp = qp_of_ex(ex);
	struct prov_ring *sq = &qp->sq;
	struct uroce_send_wqe *wqe;

	qp->build = NULL;
	if (prov_unlikely(qp->build_error))
		return NULL;
	if (prov_unlikely(!uroce_wr_is_legal(uroce_wr_rule_get(opcode), ex->qp_base.qp_type))) {
		wr_fail(qp, EINVAL, "an operation is not possible on this type of QP");
		return NULL;
	}
	if (prov_unlikely(prov_ring_room(sq, 1) == 0)) {
		wr_fail(qp, ENOMEM, NULL);
		return NULL;
	}
	prov_ring_ahead(sq);
	wqe = prov_ring_slot(sq, sq->prod++);
	wqe->wr_id = ex->wr_id;
	wqe->opcode = opcode;
	wqe->flags = (uint8_t)((ex->wr_flags & UROCE_WQE_ANY_FLAGS) |
			       (qp->sig_all ? UROCE_WQE_SIGNALED : 0));
	wqe->num = 0;
	wqe->imm = 0;
	qp->build = wqe;
	return wqe;
}

static void
wr_rdma(struct ibv_qp_ex *ex, enum uroce_wr_opcode opcode, uint32_t rkey, uint64_t remote_addr,
	uint32_t imm)
{
	struct uroce_send_wqe *wqe = wr_open(ex, opcode);

	if (!wqe)
		return;
	wqe->imm = imm;
	wqe->rdma.remote_addr = remote_addr;
	wqe->rdma.rkey = rkey;
	memset(wqe->rdma.spare, 0, sizeof(wqe->rdma.spare));
}

static void
wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr)
{
	wr_rdma(ex, UROCE_WR_RDMA_READ, rkey, remote_addr, 0);
}

static void
wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr)
{
	wr_rdma(ex, UROCE_WR_RDMA_WRITE, rkey, remote_addr, 0);
}

static void
wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr, __be32 imm)
{
	wr_rdma(ex, UROCE_WR_RDMA_WRITE_IMM, rkey, remote_addr, imm);
}

static void
wr_atomic(struct ibv_qp_ex *ex, enum uroce_wr_opcode opcode, uint32_t rkey, uint64_t remote_addr,
	  uint64_t compare_add, uint64_t swap)
{
	struct uroce_send_wqe *wqe = wr_open(ex, opcode);

	if (!wqe)
		return;
	wqe->rdma.remote_addr = remote_addr;
	wqe->rdma.rkey = rkey;
	memset(wqe->rdma.spare, 0, sizeof(wqe->rdma.spare));
	wqe->rdma.compare_add = compare_add;
	wqe->rdma.swap = swap;
}

static void
wr_atomic_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr, uint64_t compare,
		  uint64_t swap)
{
	wr_atomic(ex, UROCE_WR_ATOMIC_CMP_SWAP, rkey, remote_addr, compare, swap);
}

static void
wr_atomic_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr, uint64_t add)
{
	wr_atomic(ex, UROCE_WR_ATOMIC_FETCH_ADD, rkey, remote_addr, add, 0);
}

static void
wr_send(struct ibv_qp_ex *ex)
{
	wr_open(ex, UROCE_WR_SEND);
}

/* Operations whose header needs only imm. */
static void
wr_with_imm(struct ibv_qp_ex *ex, enum uroce_wr_opcode opcode, uint32_t imm)
{
	struct uroce_send_wqe *wqe = wr_open(ex, opcode);

	if (wqe)
		wqe->imm = imm;
}

static void
wr_send_imm(struct ibv_qp_ex *ex, __be32 imm)
{
	wr_with_imm(ex, UROCE_WR_SEND_IMM, imm);
}

static void
wr_send_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	wr_with_imm(ex, UROCE_WR_SEND_INV, rkey);
}

static void
wr_local_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	wr_with_imm(ex, UROCE_WR_LOCAL_INV, rkey);
}

static void
wr_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey,
	   const struct ibv_mw_bind_info *info)
{
	struct uroce_send_wqe *wqe = wr_open(ex, UROCE_WR_BIND_MW);

	if (wqe)
		prov_bind_write(wqe, mw, rkey, info);
}

static void
wr_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t remote_qpn, uint32_t remote_qkey)
{
	struct uroce_send_wqe *wqe = qp_of_ex(ex)->build;

	if (!wqe)
		return;
	wqe->ud.ah = ah->handle;
	wqe->ud.remote_qpn = remote_qpn;
	wqe->ud.remote_qkey = remote_qkey;
}

static void
wr_set_sge_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_sge *list)
{
	struct prov_qp *qp = qp_of_ex(ex);

	if (!qp->build)
		return;
	if (prov_unlikely(n > qp->sq.max_sge)) {
		wr_fail(qp, EINVAL, "more SGEs than max_send_sge");
		return;
	}
	prov_sges_write(qp->build + 1, list, (int)n);
	qp->build->num = (uint16_t)n;
}

static void
wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
	struct ibv_sge sge = {.addr = addr, .length = length, .lkey = lkey};

	wr_set_sge_list(ex, 1, &sge);
}

static void
wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_data_buf *list)
{
	struct prov_qp *qp = qp_of_ex(ex);
	uint8_t *to;
	size_t total = 0;

	if (!qp->build)
		return;
	if (prov_unlikely(!(uroce_wr_rule_get(qp->build->opcode)->flags & UROCE_WQE_INLINE))) {
		wr_fail(qp, EINVAL, "inline data is not possible with this operation");
		return;
	}
	to = (uint8_t *)(qp->build + 1);
	for (size_t i = 0; i < n; i++) {
		if (prov_unlikely(list[i].length > qp->max_inline - total)) {
			wr_fail(qp, EINVAL, "more inline data than max_inline_data");
			return;
		}
		if (list[i].length)
			memcpy(to + total, list[i].addr, list[i].length);
		total += list[i].length;
	}
	qp->build->flags |= UROCE_WQE_INLINE;
	qp->build->num = (uint16_t)total;
}

static void
wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length)
{
	struct ibv_data_buf buf = {.addr = addr, .length = length};

	wr_set_inline_data_list(ex, 1, &buf);
}

static void
wr_start(struct ibv_qp_ex *ex)
{
	struct prov_qp *qp = qp_of_ex(ex);

	prov_lock(&qp->sq.lock);
	qp->build_start = qp->sq.prod;
	qp->build = NULL;
	qp->build_error = 0;
	if (prov_unlikely(prov_context_lost(prov_context_of(ex->qp_base.context))))
		wr_fail(qp, EIO, NULL);
	else if (prov_unlikely(!prov_state_sends(qp->state)))
		wr_fail(qp, EINVAL, NULL);
}

static int
wr_complete(struct ibv_qp_ex *ex)
{
	struct prov_qp *qp = qp_of_ex(ex);
	int rc = qp->build_error;
	const char *why = NULL;
	bool ring = false;

	if (prov_unlikely(rc)) {
		why = qp->build_why;
		qp->sq.prod = qp->build_start;
	} else if (qp->sq.prod != qp->build_start)
		ring = prov_sq_publish(qp);
	prov_unlock(&qp->sq.lock);
	if (ring)
		prov_doorbell(qp);
	if (!prov_unlikely(rc))
		return 0;
	prov_refusal_ex(qp, why, rc);
	return prov_post_failed(ex->qp_base.context, rc);
}

static void
wr_abort(struct ibv_qp_ex *ex)
{
	struct prov_qp *qp = qp_of_ex(ex);

	qp->sq.prod = qp->build_start;
	prov_unlock(&qp->sq.lock);
}

/* The flag of ibv_create_qp_ex for each opcode. */
static const uint64_t op_flag[UROCE_WR_OPCODES] = {
	[UROCE_WR_RDMA_WRITE] = IBV_QP_EX_WITH_RDMA_WRITE,
	[UROCE_WR_RDMA_WRITE_IMM] = IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM,
	[UROCE_WR_SEND] = IBV_QP_EX_WITH_SEND,
	[UROCE_WR_SEND_IMM] = IBV_QP_EX_WITH_SEND_WITH_IMM,
	[UROCE_WR_RDMA_READ] = IBV_QP_EX_WITH_RDMA_READ,
	[UROCE_WR_ATOMIC_CMP_SWAP] = IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP,
	[UROCE_WR_ATOMIC_FETCH_ADD] = IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD,
	[UROCE_WR_LOCAL_INV] = IBV_QP_EX_WITH_LOCAL_INV,
	[UROCE_WR_BIND_MW] = IBV_QP_EX_WITH_BIND_MW,
	[UROCE_WR_SEND_INV] = IBV_QP_EX_WITH_SEND_WITH_INV,
};

uint64_t
prov_wr_ops(uint32_t qp_type)
{
	uint64_t ops = 0;

	for (uint32_t opcode = 0; opcode < UROCE_WR_OPCODES; opcode++) {
		if (uroce_wr_is_legal(uroce_wr_rule_get(opcode), qp_type))
			ops |= op_flag[opcode];
	}
	return ops;
}

void
prov_wr_init(struct prov_qp *qp)
{
	struct ibv_qp_ex *ex = &qp->vqp.qp_ex;

	rca_qp_set_ex(&qp->vqp);
	ex->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
	ex->wr_atomic_fetch_add = wr_atomic_fetch_add;
	ex->wr_bind_mw = wr_bind_mw;
	ex->wr_local_inv = wr_local_inv;
	ex->wr_rdma_read = wr_rdma_read;
	ex->wr_rdma_write = wr_rdma_write;
	ex->wr_rdma_write_imm = wr_rdma_write_imm;
	ex->wr_send = wr_send;
	ex->wr_send_imm = wr_send_imm;
	ex->wr_send_inv = wr_send_inv;
	ex->wr_set_ud_addr = wr_set_ud_addr;
	ex->wr_set_inline_data = wr_set_inline_data;
	ex->wr_set_inline_data_list = wr_set_inline_data_list;
	ex->wr_set_sge = wr_set_sge;
	ex->wr_set_sge_list = wr_set_sge_list;
	ex->wr_start = wr_start;
	ex->wr_complete = wr_complete;
	ex->wr_abort = wr_abort;
}
