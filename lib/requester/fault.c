/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names the reason for which a QP fails as a requester (qp/fault.h). A WQE with an error is checked
 * once more, check by check, when its turn to complete has come: its checks only keep a status.
 */
#include <rte_common.h>
#include <uroce_abi/wr.h>
#include "mem/explain.h"
#include "requester/requester_parts.h"

/* The remote address and key of e, if it has any. */
static void
add_remote(struct qp_fault *f, const struct qp_sq_entry *e)
{
	f->opcode = e->wqe.opcode;
	f->length = e->length;
	if (!(uroce_wr_rule_get(e->wqe.opcode)->traits & UROCE_WRT_REMOTE))
		return;
	f->addr = e->wqe.rdma.remote_addr;
	f->key = e->wqe.rdma.rkey;
}

void
req_fault(struct qp_env *env, struct qp *qp, enum uroce_error why, uint32_t psn)
{
	struct qp_fault f = {.reason = why, .side = QP_SIDE_REQUESTER, .psn = psn};

	if (qp->conn.snd.tail != qp->conn.snd.head)
		add_remote(&f, qp_sq_entry(qp, qp->conn.snd.tail));
	qp_fault_set(env, qp, &f);
}

/*
 * Finds the SGE among those of bytes off .. off + len whose key is refused. If none is, the memory
 * under a region failed.
 */
static void
explain_sges(const struct qp_env *env, const struct qp *qp, struct qp_sq_entry *e, uint32_t off,
	     uint32_t len, uint32_t access, struct qp_fault *f)
{
	const struct uroce_sge *sge = req_sges(e);

	f->reason = UROCE_ERROR_MEMORY_GONE;
	for (uint32_t i = 0; i < e->wqe.num && len != 0; i++, sge++) {
		uint32_t n;
		enum mr_refusal why;

		if (off >= sge->length) {
			off -= sge->length;
			continue;
		}
		n = RTE_MIN(sge->length - off, len);
		why = mr_explain(env->mrs, sge->lkey, qp->bind.pd, sge->addr + off, n, access);
		f->key = sge->lkey;
		f->addr = sge->addr + off;
		f->length = n;
		if (why <= MR_OUT_OF_BOUNDS) {
			f->reason = (uint16_t)(UROCE_ERROR_LKEY_UNKNOWN + why);
			return;
		}
		len -= n;
		off = 0;
	}
}

void
req_fault_scatter(struct qp_env *env, struct qp *qp, struct qp_sq_entry *e, uint32_t off,
		  uint32_t len)
{
	struct qp_fault f = {.side = QP_SIDE_REQUESTER,
			     .opcode = e->wqe.opcode,
			     .psn = qp->conn.snd.una_psn};

	explain_sges(env, qp, e, off, len, MEM_LOCAL_WRITE, &f);
	qp_fault_set(env, qp, &f);
}

static enum uroce_error
explain_operation(const struct qp *qp, const struct qp_sq_entry *e)
{
	const struct uroce_wr_rule *rule = uroce_wr_rule_get(e->wqe.opcode);
	const struct qp_ring *sq = &qp->bind.sq;

	if ((e->wqe.flags & UROCE_WQE_INLINE) && e->wqe.num > sq->max_inline)
		return UROCE_ERROR_WR_INLINE;
	if (!(e->wqe.flags & UROCE_WQE_INLINE) && e->wqe.num > sq->max_sge)
		return UROCE_ERROR_WR_SGES;
	if (!uroce_wr_is_legal(rule, qp->conn.type))
		return UROCE_ERROR_WR_OPCODE;
	return e->wqe.flags & ~rule->flags ? UROCE_ERROR_WR_FLAGS : UROCE_ERROR_NO_READ_CREDIT;
}

static enum uroce_error
explain_datagram(const struct qp *qp, const struct qp_sq_entry *e)
{
	const struct qp_ah *ah = qp_ah_get(qp->bind.ahs, e->wqe.ud.ah);

	if (ah == NULL)
		return UROCE_ERROR_AH_UNKNOWN;
	return ah->pd != qp->bind.pd ? UROCE_ERROR_AH_PD : UROCE_ERROR_REMOTE_QPN;
}

static enum uroce_error
explain_length(const struct qp *qp, struct qp_sq_entry *e)
{
	const struct uroce_sge *sge = req_sges(e);
	uint64_t sum = 0;

	for (uint32_t i = 0; i < e->wqe.num && !(e->wqe.flags & UROCE_WQE_INLINE); i++)
		sum += sge[i].length;
	if (sum > QP_MAX_MSG_BYTES)
		return UROCE_ERROR_WR_LENGTH;
	return qp->conn.type == QP_TYPE_UD ? UROCE_ERROR_DATAGRAM_LENGTH
					   : UROCE_ERROR_ATOMIC_LENGTH;
}

static void
explain_local(const struct qp_env *env, const struct qp *qp, const struct qp_sq_entry *e,
	      struct qp_fault *f)
{
	struct mw_bind b;

	if (e->wqe.opcode == UROCE_WR_BIND_MW) {
		req_bind_of(qp, &e->wqe, &b);
		f->reason = mw_explain_bind(env->mrs, &b);
		f->key = f->reason >= UROCE_ERROR_BIND_LKEY_UNKNOWN &&
					 f->reason <= UROCE_ERROR_BIND_LKEY_BOUNDS
				 ? b.lkey
				 : b.key;
		f->addr = b.addr;
		f->length = (uint32_t)RTE_MIN(b.len, (uint64_t)UINT32_MAX);
		return;
	}
	f->key = e->wqe.imm;
	f->reason = mw_explain_invalidate(env->mrs, f->key, qp->bind.pd, qp->conn.qpn);
}

void
req_fault_wqe(struct qp_env *env, struct qp *qp, struct qp_sq_entry *e)
{
	struct qp_fault f = {.side = QP_SIDE_REQUESTER, .psn = e->first_psn};
	bool ud = qp->conn.type == QP_TYPE_UD;

	add_remote(&f, e);
	switch (e->status) {
	case QP_WC_LOC_LEN_ERR:
		f.reason = explain_length(qp, e);
		break;
	case QP_WC_MW_BIND_ERR:
		explain_local(env, qp, e, &f);
		break;
	case QP_WC_LOC_PROT_ERR:
		explain_sges(env, qp, e, 0, e->length,
			     req_fetches(e) ? MEM_LOCAL_WRITE : MEM_LOCAL_READ, &f);
		break;
	default:
		/* Nothing is wrong with the WQE itself if a datagram got as far as its PSN. */
		f.reason = ud && e->npkts != 0 ? explain_datagram(qp, e) : explain_operation(qp, e);
		break;
	}
	qp_fault_set(env, qp, &f);
}
