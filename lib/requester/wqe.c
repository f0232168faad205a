/* SPDX-License-Identifier: BSD-3-Clause */
/* Taking send WQEs from the shared SQ: copy, then check, then use (REQ-03). */
#include <string.h>
#include <uroce_abi/wr.h>
#include <rte_branch_prediction.h>
#include <rte_common.h>
#include "requester/requester_parts.h"
#include "requester/selective.h"
#include "wire/psn.h"

/* Finding a WQE in flight by a PSN. */

/*
 * Does WQE number i end more than ahead PSNs after una_psn? The WQEs taken may span more than half
 * of the circle, so psn_lt cannot compare their ends; they never span all of it.
 */
static inline bool
ends_behind(const struct qp *qp, uint32_t i, uint32_t ahead)
{
	const struct qp_sq_entry *e = qp_sq_entry(qp, i);

	return psn_ahead(psn_add(e->first_psn, e->npkts), qp->conn.snd.una_psn) > ahead;
}

/*
 * Does not walk the WQEs: the peer chooses the PSNs, and the client how many WQEs are in flight.
 * Doubles the step up to a WQE that ends behind psn, then halves the distance to the first one. A
 * WQE without a PSN ends where the one before it does, so it is never the first.
 */
struct qp_sq_entry *
req_entry_of(const struct qp *qp, uint32_t psn, uint32_t *i)
{
	const struct qp_snd *snd = &qp->conn.snd;
	uint32_t ahead = psn_ahead(psn, snd->una_psn), from = *i, to = snd->head, step;
	struct qp_sq_entry *e;

	for (step = 1; to - from >= step; step *= 2) {
		if (ends_behind(qp, from + step - 1, ahead)) {
			to = from + step - 1;
			break;
		}
		from += step;
	}
	while (from != to) {
		uint32_t mid = from + (to - from) / 2;

		if (ends_behind(qp, mid, ahead))
			to = mid;
		else
			from = mid + 1;
	}
	*i = to;
	if (to == snd->head)
		return NULL;
	e = qp_sq_entry(qp, to);
	return psn_ahead(psn, e->first_psn) < e->npkts ? e : NULL;
}

/* Local operations: LOCAL_INV and BIND_MW (MEM-04, CQE-06). */

void
req_bind_of(const struct qp *qp, const struct uroce_send_wqe *w, struct mw_bind *b)
{
	*b = (struct mw_bind){
		.key = w->bind.mw_rkey,
		.new_key = w->bind.new_rkey,
		.lkey = w->bind.mr_lkey,
		.access = w->bind.access,
		.pd = qp->bind.pd,
		.qpn = qp->conn.qpn,
		.addr = w->bind.addr,
		.len = w->bind.length,
	};
}

static bool
local_bind(struct qp_env *env, struct qp *qp, const struct uroce_send_wqe *w)
{
	struct mw_bind b;

	req_bind_of(qp, w, &b);
	return mw_bind(env->mrs, &b);
}

void
req_local_run(struct qp_env *env, struct qp *qp, struct qp_sq_entry *e)
{
	bool ok = e->wqe.opcode == UROCE_WR_BIND_MW
			  ? local_bind(env, qp, &e->wqe)
			  : mw_invalidate(env->mrs, e->wqe.imm, qp->bind.pd, qp->conn.qpn);

	if (ok)
		e->done = true;
	else
		e->status = QP_WC_MW_BIND_ERR;
}

void
req_local_retire(struct qp_env *env, struct qp *qp)
{
	struct qp_snd *snd = &qp->conn.snd;
	const struct qp_sq_entry *e;

	while (snd->tail != snd->head && (e = qp_sq_entry(qp, snd->tail))->done) {
		/* After a rewind the cursor may be here: a response to an earlier packet came. */
		if (snd->cur == snd->tail)
			snd->cur++;
		qp_retire_send(env, qp, e, QP_WC_SUCCESS);
	}
}

/* Copies the WQE at slot into e. The copied lengths are bounded by our own limits. */
static enum qp_wc_status
wqe_copy(const struct qp_ring *sq, const uint8_t *slot, struct qp_sq_entry *e)
{
	uint32_t bytes;

	memcpy(&e->wqe, slot, sizeof(e->wqe));
	if (e->wqe.flags & UROCE_WQE_INLINE) {
		if (e->wqe.num > sq->max_inline)
			return QP_WC_LOC_QP_OP_ERR;
		bytes = e->wqe.num;
	} else {
		if (e->wqe.num > sq->max_sge)
			return QP_WC_LOC_QP_OP_ERR;
		bytes = e->wqe.num * sizeof(struct uroce_sge);
	}
	if (likely(bytes == sizeof(struct uroce_sge))) /* constant size: two moves */
		memcpy(e + 1, slot + UROCE_SEND_WQE_HDR, sizeof(struct uroce_sge));
	else
		memcpy(e + 1, slot + UROCE_SEND_WQE_HDR, bytes);
	return QP_WC_SUCCESS;
}

/* Computes the message's length. LOC_LEN_ERR over 2^31 (WIRE-05), or for an atomic not of 8. */
static enum qp_wc_status
wqe_length(struct qp_sq_entry *e)
{
	const struct uroce_sge *sge = req_sges(e);
	uint64_t sum = 0;
	uint32_t i;

	if (e->wqe.flags & UROCE_WQE_INLINE) {
		e->length = e->wqe.num;
		return QP_WC_SUCCESS;
	}
	if (likely(e->wqe.num == 1)) {
		sum = sge->length;
	} else {
		for (i = 0; i < e->wqe.num; i++)
			sum += sge[i].length;
	}
	if (sum > QP_MAX_MSG_BYTES)
		return QP_WC_LOC_LEN_ERR;
	if (e->wqe.opcode != UROCE_WR_RDMA_READ && req_fetches(e) && sum != 8)
		return QP_WC_LOC_LEN_ERR;
	e->length = (uint32_t)sum;
	return QP_WC_SUCCESS;
}

/*
 * Checks a WQE. SGEs of single-packet messages are checked when the packet is built, those of
 * others here, before the first packet is.
 */
static enum qp_wc_status
wqe_check(struct qp_env *env, struct qp *qp, struct qp_sq_entry *e)
{
	const struct uroce_wr_rule *rule = uroce_wr_rule_get(e->wqe.opcode);
	enum qp_wc_status st;

	if (!uroce_wr_is_legal(rule, qp->conn.type))
		return QP_WC_LOC_QP_OP_ERR; /* CQE-03 */
	/* Two steps, because nearly all WQEs need only the first. */
	if ((e->wqe.flags & ~UROCE_WQE_ANY_FLAGS) && (e->wqe.flags & ~rule->flags))
		return QP_WC_LOC_QP_OP_ERR;
	if (req_fetches(e) && qp->conn.attr.max_rd_atomic == 0)
		return QP_WC_LOC_QP_OP_ERR; /* it could never be sent */
	st = wqe_length(e);
	if (st != QP_WC_SUCCESS)
		return st;
	if (req_sends(e) && e->length <= qp->conn.mtu)
		return QP_WC_SUCCESS;
	if (qp->conn.type == QP_TYPE_UD)
		return QP_WC_LOC_LEN_ERR; /* a datagram is one packet */
	if (!(e->wqe.flags & UROCE_WQE_INLINE) &&
	    !req_check_sges(env, qp, e, req_fetches(e) ? MEM_LOCAL_WRITE : MEM_LOCAL_READ))
		return QP_WC_LOC_PROT_ERR;
	return QP_WC_SUCCESS;
}

/* Checks any WQE, assigns its PSNs and its fast-path class. */
static __rte_noinline void
wqe_place(struct qp_env *env, struct qp *qp, struct qp_sq_entry *e)
{
	e->length = 0;
	e->npkts = 0;
	e->fast = QP_WQE_GENERAL;
	if (e->status == QP_WC_SUCCESS)
		e->status = wqe_check(env, qp, e);
	if (e->status != QP_WC_SUCCESS || req_is_local(e))
		return;
	/* The MTU is a power of two. */
	e->npkts = e->length <= qp->conn.mtu
			   ? 1
			   : (e->length + qp->conn.mtu - 1) >> __builtin_ctz(qp->conn.mtu);
	if (req_sends(e) && !(e->wqe.flags & UROCE_WQE_FENCE) && qp->conn.type == QP_TYPE_RC &&
	    !qp->conn.snd.general)
		e->fast = QP_WQE_PACKETS;
}

/*
 * Is e a valid one-packet fast-path WQE: RC, one SGE, at most one packet, nothing to wait for?
 * False does not mean that it is invalid.
 */
static inline bool
wqe_is_one_packet(const struct qp *qp, const struct qp_sq_entry *e)
{
	return qp->conn.type == QP_TYPE_RC && !qp->conn.snd.general && e->wqe.num == 1 &&
	       req_sends(e) && !(e->wqe.flags & ~(UROCE_WQE_SIGNALED | UROCE_WQE_SOLICITED)) &&
	       req_sges((struct qp_sq_entry *)e)->length <= qp->conn.mtu;
}

/* Is a WQE posted? Reads the client's index only if the known ones are used up. */
static inline bool
fetch_posted(struct qp_env *env, struct qp *qp)
{
	struct qp_snd *snd = &qp->conn.snd;
	uint32_t prod;

	if (likely(qp->bind.sq.prod != snd->head))
		return true;
	/* If armed, the client would have rung for a new WQE. */
	if (qp->bind.armed)
		return false;
	prod = __atomic_load_n(&qp->bind.sq.hdr->prod, __ATOMIC_ACQUIRE);
	/* At most as many as the ring holds, and none before those taken. */
	if (prod - snd->tail > qp->bind.sq.mask + 1 || prod - snd->tail < snd->head - snd->tail) {
		qp_fatal(env, qp, UROCE_ERROR_SQ_CORRUPT);
		return false;
	}
	qp->bind.sq.prod = prod;
	return prod != snd->head;
}

/*
 * Is the payload of e in its only SGE, and final? A fenced message may send what a READ or atomic
 * before it fetches (REQ-02).
 */
static bool
peeks(const struct qp_sq_entry *e)
{
	return req_sends(e) && e->wqe.num == 1 &&
	       !(e->wqe.flags & (UROCE_WQE_INLINE | UROCE_WQE_FENCE));
}

bool
req_peek(const struct qp *qp, uint32_t i, struct uroce_sge *sge)
{
	const struct qp_snd *snd = &qp->conn.snd;
	const struct qp_ring *sq = &qp->bind.sq;
	uint32_t prod = __atomic_load_n(&sq->hdr->prod, __ATOMIC_ACQUIRE);
	struct qp_sq_entry taken;

	if (i - snd->tail < snd->head - snd->tail) {
		const struct qp_sq_entry *e = qp_sq_entry(qp, i);

		if (e->status != QP_WC_SUCCESS || !peeks(e))
			return false;
		*sge = *req_sges((struct qp_sq_entry *)e);
		return true;
	}
	/* As in fetch_posted, which handles a corrupt ring. */
	if (prod - snd->tail > sq->mask + 1 || i - snd->tail >= prod - snd->tail)
		return false;
	memcpy(&taken.wqe, sq->slots + (size_t)(i & sq->mask) * sq->stride, sizeof(taken.wqe));
	if (!peeks(&taken) || sq->max_sge == 0)
		return false;
	memcpy(sge, sq->slots + (size_t)(i & sq->mask) * sq->stride + UROCE_SEND_WQE_HDR,
	       sizeof(*sge));
	return true;
}

struct qp_sq_entry *
req_fetch(struct qp_env *env, struct qp *qp)
{
	struct qp_snd *snd = &qp->conn.snd;
	struct qp_ring *sq = &qp->bind.sq;
	struct qp_sq_entry *e;
	const uint8_t *slot;
	uint32_t head = snd->head;

	if (head - snd->tail > qp->bind.sqes.mask || qp->conn.state != QP_RTS ||
	    !fetch_posted(env, qp) || !qp_sqes_take(&qp->bind.sqes, env->sqes, head))
		return NULL;
	e = qp_sq_entry(qp, head);
	slot = sq->slots + (size_t)(head & sq->mask) * sq->stride;
	if (env->crowded && sq->prod - head > QP_AHEAD_WQES)
		qp_prefetch_wqe(sq, head + QP_AHEAD_WQES);
	e->rd_counted = false;
	e->done = false;
	e->status = wqe_copy(sq, slot, e);
	e->first_psn = snd->alloc_psn;
	if (likely(e->status == QP_WC_SUCCESS && wqe_is_one_packet(qp, e))) {
		e->length = req_sges(e)->length;
		e->npkts = 1;
		e->fast = QP_WQE_ONE_PACKET;
	} else {
		wqe_place(env, qp, e);
	}
	qp_taken(env, qp, e->wqe.opcode);
	snd->alloc_psn = psn_add(e->first_psn, e->npkts);
	snd->head = head + 1;
	env->counters->ctr[COUNTER_WQE_SEND]++;
	return e;
}
