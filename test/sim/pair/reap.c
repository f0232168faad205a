/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completions: none too early, and errors with a cause only (REQ-04, REQ-06, REQ-07, CQE-01 ..
 * CQE-13). ../reap.c checks their order.
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
		sim_fail(&side->pair->sim,
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
			sim_fail(&side->pair->sim, "qp %06x: %s %ld: wrong bytes in piece %u of %u",
				 side->qpn, what, index, i, nseg);
	}
}

/* The client owns the memory again, and overwrites it. */
static void
reap_reuse(struct pair_side *side, struct pair_op *op)
{
	struct pair_node *n = side->node;
	uint32_t i;

	side->local.tail = op->local_end;
	for (i = 0; i < op->nseg && !sim_op_fetches(&op->sim_op); i++) {
		const uint8_t *junk = side->pair->table +
				      sim_below(&side->pair->cli, SIM_TABLE_BYTES - op->seg[i].len);

		memcpy(n->mem + op->seg[i].off, junk, op->seg[i].len);
		memcpy(n->base + op->seg[i].off, junk, op->seg[i].len);
	}
}

void
pair_reap_commit(struct sim_end *end, struct sim_op *sop)
{
	struct pair_side *side = container_of(end, struct pair_side, sim_end);
	struct pair_op *op = container_of(sop, struct pair_op, sim_op);
	struct pair_side *peer = side->peer;

	pair_trace_sync(side);
	if (side->acked < op->first + op->npkts)
		sim_fail(&side->pair->sim,
			 "REQ-07: qp %06x: WQE %ld is complete, but nothing acknowledged it",
			 side->qpn, (long)(op - side->op));
	if (op->fault != FAULT_NONE)
		sim_fail(&side->pair->sim, "REQ-03: qp %06x: WQE %ld succeeds, fault %u in it",
			 side->qpn, (long)(op - side->op), op->fault);
	if (sim_op_fetches(sop) && op->opcode != UROCE_WR_RDMA_READ)
		memcpy(peer->node->base + peer->atoms.off + op->roff, &op->after,
		       sizeof(op->after));
	if (sim_op_fetches(sop))
		pair_check_pieces(side, op->seg, op->nseg, op->data, op->len, "READ",
				  op - side->op);
	if (op->opcode == UROCE_WR_RDMA_WRITE || op->opcode == UROCE_WR_RDMA_WRITE_IMM) {
		if (!peer->window_gone)
			memcpy(peer->node->base + peer->window.off + op->roff, op->data, op->len);
		pair_check_write(side, op);
	}
	reap_reuse(side, op);
}

static uint64_t
reap_timeouts(const struct pair_side *side)
{
	uint64_t t = side->qp->conn.loss.timeout_ns;

	return t == 0 ? 0 : (side->pair->now_ns - side->progress_ns) / t;
}

/* Is there a reason for the first error of a send queue? */
bool
pair_reap_has_cause(struct sim_end *end, const struct sim_op *sop, uint8_t status)
{
	struct pair_side *side = container_of(end, struct pair_side, sim_end);
	const struct pair_op *op = container_of(sop, const struct pair_op, sim_op);
	const struct pair_cfg *c = &side->pair->cfg;

	pair_trace_sync(side);
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

void
pair_reap_cqe(struct sim_node *node, struct sim_cq *cq, const struct uroce_cqe *cqe)
{
	struct pair_node *n = container_of(node, struct pair_node, sim_node);
	struct pair_side *side = reap_side(n, cqe->qp_num);
	uint64_t id;

	if (side == NULL) {
		sim_fail(&n->pair->sim, "CQ-01: completion of unknown qp %06x", cqe->qp_num);
		return;
	}
	id = cqe->wr_id ^ (cq == side->rcq && n->pair->cfg.srq && cqe->qp_cookie == n->srq.cookie
				   ? n->srq.cookie
				   : side->wr_salt);
	sim_log(&n->pair->sim, "node %u qp %06x %s %u: status %u", n->idx, side->qpn,
		id >> 32 == 1 ? "WQE" : "receive", (uint32_t)id, cqe->status);
	if (cqe->qp_cookie != (id >> 32 == 3 ? n->srq.cookie : side->cookie))
		sim_fail(&n->pair->sim, "CQ-01: qp %06x: wrong cookie", side->qpn);
	if (id >> 32 == 1 && cq == side->scq)
		sim_reap_send(&side->sim_end, (uint32_t)id, cqe);
	else if (id >> 32 == 2 && cq == side->rcq)
		pair_recv_reap(side, (uint32_t)id, cqe);
	else if (id >> 32 == 3 && cq == side->rcq)
		pair_srq_reap(side, (uint32_t)id, cqe);
	else
		sim_fail(&n->pair->sim, "REQ-01: qp %06x: completion of no WQE (wr_id %lx)",
			 side->qpn, (unsigned long)cqe->wr_id);
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
