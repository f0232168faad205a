/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completions: each WQE once, in order, with the status that the schedule allows, and not before it
 * is true (REQ-01, REQ-07, REQ-10, CQE-01 .. CQE-13).
 */
#include <string.h>
#include <rte_common.h>
#include "receive.h"
#include "pair.h"

static struct pair_side *
reap_side(struct pair_node *n, uint32_t qpn)
{
	uint32_t i;

	for (i = 0; i < n->pair->nsides; i++) {
		if (n->pair->side[i].qpn == qpn && n->pair->side[i].node == n)
			return &n->pair->side[i];
	}
	return NULL;
}

void
pair_check_write(struct pair_side *side, const struct pair_op *op)
{
	struct pair_side *peer = side->peer;
	const struct pair_op *o;

	if (peer->window_gone)
		return;
	for (o = op + 1; o < &side->op[side->posted]; o++) {
		if ((o->opcode == UROCE_WR_RDMA_WRITE || o->opcode == UROCE_WR_RDMA_WRITE_IMM) &&
		    o->roff < op->roff + op->len && op->roff < o->roff + o->len)
			return;
	}
	if (memcmp(peer->node->mem + peer->window.off + op->roff, op->data, op->len) != 0)
		pair_fail(side->pair,
			  "REQ-07: qp %06x: WRITE %ld is complete, its bytes are not there",
			  side->qpn, (long)(op - side->op));
}

void
pair_check_pieces(struct pair_side *side, const struct pair_seg *seg, uint32_t nseg,
		  const uint8_t *data, uint32_t len, const char *what, long index)
{
	struct pair_node *n = side->node;
	uint32_t i, k;

	for (i = 0; i < nseg; i++) {
		k = RTE_MIN(len, seg[i].len);
		memcpy(n->base + seg[i].off, data, k);
		data += k;
		len -= k;
		if (memcmp(n->base + seg[i].off, n->mem + seg[i].off, seg[i].len) != 0)
			pair_fail(side->pair, "qp %06x: %s %ld: wrong bytes in piece %u of %u",
				  side->qpn, what, index, i, nseg);
	}
}

/* The client has its memory back, and writes something else there. */
static void
reap_reuse(struct pair_side *side, struct pair_op *op)
{
	struct pair_node *n = side->node;
	uint32_t i;

	side->local.tail = op->local_end;
	for (i = 0; i < op->nseg && !pair_op_fetches(op); i++) {
		const uint8_t *junk =
			side->pair->table +
			sim_below(&side->pair->cli, PAIR_TABLE_BYTES - op->seg[i].len);

		memcpy(n->mem + op->seg[i].off, junk, op->seg[i].len);
		memcpy(n->base + op->seg[i].off, junk, op->seg[i].len);
	}
}

void
pair_op_commit(struct pair_side *side, struct pair_op *op)
{
	struct pair_side *peer = side->peer;

	if (side->acked < op->first + op->npkts)
		pair_fail(side->pair,
			  "REQ-07: qp %06x: WQE %ld is complete, but nothing acknowledged it",
			  side->qpn, (long)(op - side->op));
	if (op->fault != FAULT_NONE)
		pair_fail(side->pair, "REQ-03: qp %06x: WQE %ld succeeds, fault %u in it",
			  side->qpn, (long)(op - side->op), op->fault);
	op->state = OP_DONE;
	if (pair_op_fetches(op) && op->opcode != UROCE_WR_RDMA_READ)
		memcpy(peer->node->base + peer->atoms.off + op->roff, &op->after,
		       sizeof(op->after));
	if (pair_op_fetches(op))
		pair_check_pieces(side, op->seg, op->nseg, op->data, op->len, "READ",
				  op - side->op);
	if (op->opcode == UROCE_WR_RDMA_WRITE || op->opcode == UROCE_WR_RDMA_WRITE_IMM) {
		if (!peer->window_gone)
			memcpy(peer->node->base + peer->window.off + op->roff, op->data, op->len);
		pair_check_write(side, op);
	}
	reap_reuse(side, op);
	side->reaped++;
	side->pair->last_progress_ns = side->pair->now_ns;
}

static uint64_t
reap_timeouts(const struct pair_side *side)
{
	uint64_t t = side->qp->conn.loss.timeout_ns;

	return t == 0 ? 0 : (side->pair->now_ns - side->progress_ns) / t;
}

/* The first error of a send queue: is there a reason for it? */
static bool
reap_error_has_cause(struct pair_side *side, const struct pair_op *op, uint8_t status)
{
	const struct pair_cfg *c = &side->pair->cfg;

	if (status == QP_WC_WR_FLUSH_ERR)
		return side->sent_fatal || side->pair->by_hand;
	if (op->fault != FAULT_NONE && status == pair_fault_status(op->fault))
		return pair_fault_is_local(op->fault) || side->fatal_naks > 0;
	if (c->family == PAIR_MUST_SUCCEED)
		return false;
	if (status == QP_WC_REM_ACCESS_ERR && side->peer->window_gone)
		return side->fatal_naks > 0;
	if (status == QP_WC_RETRY_EXC_ERR) /* REQ-04 */
		return side->naks + side->gaps + reap_timeouts(side) >= c->retry + 1;
	if (status == QP_WC_RNR_RETRY_EXC_ERR) /* REQ-06 */
		return c->rnr_retry != 7 && side->rnrs >= c->rnr_retry + 1;
	return false;
}

static void
reap_send_error(struct pair_side *side, struct pair_op *op, uint8_t status)
{
	struct pair *s = side->pair;

	if (side->flushed && status != QP_WC_WR_FLUSH_ERR)
		pair_fail(s, "REQ-10: qp %06x: WQE %ld ends in status %u behind a failed one",
			  side->qpn, (long)(op - side->op), status);
	if (!side->flushed && !reap_error_has_cause(side, op, status))
		pair_fail(s,
			  "CQE: qp %06x: WQE %ld ends in status %u without cause (fault %u, "
			  "NAKs %u, gaps %u, timeouts %lu, RNR %u)",
			  side->qpn, (long)(op - side->op), status, op->fault, side->naks,
			  side->gaps, (unsigned long)reap_timeouts(side), side->rnrs);
	side->flushed = true;
	op->state = OP_FAILED;
	op->status = status;
	side->local.tail = op->local_end;
	side->reaped++;
	s->stats.failed_wqes++;
	s->last_progress_ns = s->now_ns;
}

static bool
reap_cqe_fits(const struct pair_op *op, const struct uroce_cqe *cqe)
{
	static const uint8_t opcode[] = {
		[UROCE_WR_RDMA_WRITE] = UROCE_CQE_RDMA_WRITE,
		[UROCE_WR_RDMA_WRITE_IMM] = UROCE_CQE_RDMA_WRITE,
		[UROCE_WR_SEND] = UROCE_CQE_SEND,
		[UROCE_WR_SEND_IMM] = UROCE_CQE_SEND,
		[UROCE_WR_RDMA_READ] = UROCE_CQE_RDMA_READ,
		[UROCE_WR_ATOMIC_CMP_SWAP] = UROCE_CQE_COMP_SWAP,
		[UROCE_WR_ATOMIC_FETCH_ADD] = UROCE_CQE_FETCH_ADD,
	};

	return cqe->opcode == opcode[op->opcode] &&
	       (!pair_op_fetches(op) || cqe->byte_len == op->len);
}

static void
reap_send(struct pair_side *side, uint32_t index, const struct uroce_cqe *cqe)
{
	struct pair *s = side->pair;

	if (index < side->reaped || index >= side->posted) {
		pair_fail(s, "REQ-01: qp %06x: WQE %u completes %s", side->qpn, index,
			  index < side->reaped ? "twice" : "without having been posted");
		return;
	}
	while (side->reaped < index && !s->failed) {
		struct pair_op *op = &side->op[side->reaped];

		if ((op->flags & UROCE_WQE_SIGNALED) || side->qp->conn.sig_all || side->flushed)
			pair_fail(s, "REQ-01: qp %06x: WQE %u completes, WQE %u before it has not",
				  side->qpn, index, side->reaped);
		else
			pair_op_commit(side, op);
	}
	if (s->failed)
		return;
	if (cqe->status != QP_WC_SUCCESS) {
		reap_send_error(side, &side->op[index], cqe->status);
		return;
	}
	if (side->flushed ||
	    (!(side->op[index].flags & UROCE_WQE_SIGNALED) && !side->qp->conn.sig_all))
		pair_fail(s, "REQ-01: qp %06x: WQE %u: success that must not be", side->qpn, index);
	if (!reap_cqe_fits(&side->op[index], cqe))
		pair_fail(s, "CQE-01: qp %06x: WQE %u: wrong opcode or length in the completion",
			  side->qpn, index);
	pair_op_commit(side, &side->op[index]);
}

static void
reap_cqe(struct pair_node *n, struct pair_cq *cq, const struct uroce_cqe *cqe)
{
	struct pair_side *side = reap_side(n, cqe->qp_num);
	uint64_t id;

	n->cqes++;
	sim_digest_cqe(&n->pair->digest, cqe);
	if (side == NULL) {
		pair_fail(n->pair, "CQ-01: completion of unknown qp %06x", cqe->qp_num);
		return;
	}
	id = cqe->wr_id ^ (cq == side->rcq && n->pair->cfg.srq && cqe->qp_cookie == n->srq.cookie
				   ? n->srq.cookie
				   : side->wr_salt);
	pair_log(n->pair, "node %u qp %06x %s %u: status %u", n->idx, side->qpn,
		 id >> 32 == 1 ? "WQE" : "receive", (uint32_t)id, cqe->status);
	if (cqe->qp_cookie != (id >> 32 == 3 ? n->srq.cookie : side->cookie))
		pair_fail(n->pair, "CQ-01: qp %06x: wrong cookie", side->qpn);
	if (id >> 32 == 1 && cq == side->scq)
		reap_send(side, (uint32_t)id, cqe);
	else if (id >> 32 == 2 && cq == side->rcq)
		pair_recv_reap(side, (uint32_t)id, cqe);
	else if (id >> 32 == 3 && cq == side->rcq)
		pair_srq_reap(side, (uint32_t)id, cqe);
	else
		pair_fail(n->pair, "REQ-01: qp %06x: completion of no WQE (wr_id %lx)", side->qpn,
			  (unsigned long)cqe->wr_id);
}

/* Take up to max completions. True when the queue is empty then. */
static bool
reap_cq(struct pair_node *n, struct pair_cq *cq, uint32_t max)
{
	struct uroce_cqe *ring = (struct uroce_cqe *)((uint8_t *)cq->hdr + UROCE_CQ_HDR);
	uint32_t lap_bits = (uint32_t)__builtin_ctz(cq->entries);

	for (; max > 0 && !n->pair->failed; max--) {
		const struct uroce_cqe *slot = &ring[cq->cons & (cq->entries - 1)];
		struct uroce_cqe cqe;

		if (__atomic_load_n(&slot->phase, __ATOMIC_ACQUIRE) != (cq->cons >> lap_bits) + 1)
			return true;
		memcpy(&cqe, slot, sizeof(cqe));
		__atomic_store_n(&cq->hdr->cons, ++cq->cons, __ATOMIC_RELEASE);
		reap_cqe(n, cq, &cqe);
	}
	return false;
}

/* CQ-01: poll until empty, arm, poll once more; nothing may be lost between the two. */
static bool
reap_events(struct pair_node *n, struct pair_cq *cq)
{
	if (!cq->event)
		return true;
	cq->event = false;
	reap_cq(n, cq, UINT32_MAX);
	__atomic_store_n(&cq->hdr->arm, cq->arm, __ATOMIC_RELEASE);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return reap_cq(n, cq, UINT32_MAX);
}

/* Unsignaled WQEs that are retired, and whose success therefore no completion will show. */
static void
reap_silent(struct pair_node *n, const uint32_t *cons)
{
	struct pair *s = n->pair;
	uint32_t i;

	for (i = 0; i < s->nsides; i++) {
		struct pair_side *side = &s->side[i];

		while (side->node == n && side->reaped < cons[i] && !s->failed) {
			struct pair_op *op = &side->op[side->reaped];

			if ((op->flags & UROCE_WQE_SIGNALED) || side->qp->conn.sig_all ||
			    side->flushed)
				pair_fail(s, "REQ-01: qp %06x: WQE %u retired without completion",
					  side->qpn, side->reaped);
			else
				pair_op_commit(side, op);
		}
	}
}

bool
pair_client_poll(struct pair_node *n)
{
	struct pair *s = n->pair;
	uint32_t cons[PAIR_MAX_SIDES] = {0}, i;
	uint64_t had = n->cqes;
	bool empty = true;

	for (i = 0; i < s->nsides; i++)
		cons[i] = __atomic_load_n(&s->side[i].sq.hdr->cons, __ATOMIC_ACQUIRE);
	for (i = 0; i < PAIR_MAX_CQ; i++) {
		struct pair_cq *cq = &n->cq[i];

		if (cq->hdr->error)
			pair_fail(s, "EVT-08: node %u: CQ %u is dead", n->idx, i);
		if (s->cfg.cq_events != 0)
			empty &= reap_events(n, cq);
		else
			empty &= reap_cq(n, cq, sim_scale(&s->cli, 1, 64));
	}
	if (empty)
		reap_silent(n, cons);
	return n->cqes != had;
}

bool
pair_sends_done(const struct pair *s)
{
	uint32_t i;

	for (i = 0; i < s->nsides; i++) {
		if (s->side[i].reaped != s->side[i].nops)
			return false;
	}
	return true;
}
