/* SPDX-License-Identifier: BSD-3-Clause */
/* What must hold at the end of a schedule. */
#include <string.h>
#include <rte_common.h>
#include "apm.h"
#include "receive.h"
#include "pair.h"

void
pair_either_pieces(struct pair_node *n, const struct pair_seg *seg, uint32_t nseg,
		   const uint8_t *data, uint32_t len)
{
	uint32_t i, k;

	for (i = 0; i < nseg && len > 0; i++) {
		k = RTE_MIN(len, seg[i].len);
		sim_either(&n->sim_node, seg[i].off, data, k);
		data += k;
		len -= k;
	}
}

/* A WQE with a fault must write nothing, except a SEND that is too long. */
static void
unfinished(struct pair_side *side, struct pair_op *op)
{
	struct pair_side *peer = side->peer;
	bool write = op->opcode == UROCE_WR_RDMA_WRITE || op->opcode == UROCE_WR_RDMA_WRITE_IMM;
	struct pair_recv *r =
		!side->pair->cfg.srq && op->recv < PAIR_MAX_RECVS ? &peer->recv[op->recv] : NULL;

	if (op->state != SIM_OP_FAILED || (op->fault != FAULT_NONE && op->fault != FAULT_LONG))
		return;
	if (sim_op_fetches(&op->sim_op) && op->opcode != UROCE_WR_RDMA_READ &&
	    op->fault == FAULT_NONE)
		sim_either(&peer->node->sim_node, peer->atoms.off + op->roff,
			   (const uint8_t *)&op->after, sizeof(op->after));
	if (sim_op_fetches(&op->sim_op))
		pair_either_pieces(side->node, op->seg, op->nseg, op->data, op->len);
	else if (write && !peer->window_gone)
		sim_either(&peer->node->sim_node, peer->window.off + op->roff, op->data, op->len);
	else if (write)
		return; /* the window is unchanged since it was deregistered */
	else if (r != NULL && r->state == SIM_OP_FAILED)
		pair_either_pieces(peer->node, r->seg, r->nseg, op->data, op->len);
}

static const char *
memory_name(const struct sim_node *node, uint32_t off)
{
	const struct pair_node *n = container_of(node, const struct pair_node, sim_node);
	const struct pair *s = n->pair;
	uint32_t i;

	if (s->cfg.srq && off >= n->srq.area.off && off < n->srq.area.off + n->srq.area.len)
		return "receive buffers of the SRQ";
	if (off >= n->idle.off && off < n->idle.off + n->idle.len)
		return "a region that nobody addressed";
	for (i = 0; i < s->nsides; i++) {
		const struct pair_side *side = &s->side[i];

		if (side->node != n)
			continue;
		if (off >= side->window.off && off < side->window.off + side->window.len)
			return "a window";
		if (off >= side->recvs.off && off < side->recvs.off + side->recvs.len)
			return "receive buffers";
		if (off >= side->local.off && off < side->local.off + side->local.len)
			return "local buffers";
		if (off >= side->readonly.off && off < side->readonly.off + side->readonly.len)
			return "a read-only region";
	}
	return "no region at all";
}

void
pair_check_memory(struct pair *s)
{
	uint32_t i, k;

	for (i = 0; i < s->nsides; i++) {
		for (k = 0; k < s->side[i].posted; k++)
			unfinished(&s->side[i], &s->side[i].op[k]);
	}
	for (i = 0; i < PAIR_NODES; i++)
		sim_check_memory(&s->node[i].sim_node, memory_name);
}

static void
check_side(struct pair *s, struct pair_side *side)
{
	uint32_t i, messages = 0;
	uint64_t bytes = 0;

	for (i = 0; i < side->nops; i++)
		bytes += side->op[i].len;
	for (i = 0; i < side->peer->nops; i++)
		messages += side->peer->op[i].recv != UINT32_MAX;
	if (side->comm_est > 1)
		sim_fail(&s->sim, "QP-13: qp %06x: COMM_EST %u times", side->qpn, side->comm_est);
	if (side->sq_drained > (side->sqd != 0))
		sim_fail(&s->sim, "QP-15: qp %06x: SQ_DRAINED %u times", side->qpn,
			 side->sq_drained);
	pair_apm_check(s, side);
	if (qp_deadline_earliest(&side->qp->conn) != 0)
		sim_fail(&s->sim, "qp %06x: a deadline is left, and nothing to wait for",
			 side->qpn);
	if (s->cfg.family != PAIR_MUST_SUCCEED)
		return;
	if (side->qp->conn.state != QP_RTS)
		sim_fail(&s->sim, "qp %06x: in state %s", side->qpn,
			 qp_state_name[side->qp->conn.state]);
	if (side->rreaped != messages)
		sim_fail(&s->sim, "RSP-05: qp %06x: %u receives completed, %u messages were sent",
			 side->qpn, side->rreaped, messages);
	if (side->async_errors > 0 || side->sent_fatal)
		sim_fail(&s->sim, "NAK-09: qp %06x: error event or NAK, and nothing was wrong",
			 side->qpn);
	if (s->cfg.pace != 0 && s->cfg.apm == 0 && sim_pace_acked(side->qp) != bytes)
		sim_fail(&s->sim, "qp %06x: %lu bytes were reported to its policy, %lu were sent",
			 side->qpn, (unsigned long)sim_pace_acked(side->qp), (unsigned long)bytes);
	if (side->acked != side->total || side->contig != side->total)
		sim_fail(&s->sim, "qp %06x: +%u acknowledged of +%u", side->qpn, side->acked,
			 side->total);
}

/* Compares the counters with what happened. */
static void
check_counters(struct pair *s, struct pair_node *n)
{
	const struct counter_block *o = &n->worker.counters;
	uint64_t drops = 0, i;

	if (o->ctr[COUNTER_CQE] != n->cqes)
		sim_fail(&s->sim, "node %u: counts %lu completions, %lu came", n->idx,
			 (unsigned long)o->ctr[COUNTER_CQE], (unsigned long)n->cqes);
	/* A frame in flight on a path that its receiver has left counts as another sender's. */
	if (s->cfg.apm != 0 || s->cfg.corrupt != 0 || s->cfg.noise != 0 || s->cfg.forge != 0)
		return;
	for (i = DROP_NOT_OURS; i <= DROP_BAD_QPN; i++)
		drops += o->drop[i];
	if (drops != 0 || o->drop[DROP_BAD_PKEY] != 0 || o->drop[DROP_BAD_GID] != 0)
		sim_fail(&s->sim, "node %u: drops good frames as bad ones", n->idx);
}

void
pair_check_end(struct pair *s)
{
	uint32_t i;

	for (i = 0; i < s->nsides; i++)
		check_side(s, &s->side[i]);
	for (i = 0; i < PAIR_NODES; i++) {
		struct pair_node *n = &s->node[i];

		if (run_list_first(&n->worker.eng.run) != NULL || n->worker.eng.run.parked != 0)
			sim_fail(&s->sim, "node %u: a QP is left on the run list", i);
		if (n->worker.eng.env.tx_n != 0 || n->rxq_n != 0)
			sim_fail(&s->sim, "node %u: frames are left", i);
		check_counters(s, n);
	}
}
