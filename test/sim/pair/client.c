/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The client of a node: brings its QPs up, posts receives and sends at random times when there is
 * space, and rings doorbells by the rules of uroce_abi/ring.h. It reuses memory as soon as allowed.
 */
#include <stdlib.h>
#include <string.h>
#include <rte_common.h>
#include "pieces.h"
#include "qp/doorbell.h"
#include "receive.h"
#include "pair.h"

/* Copies the source bytes of op to its pieces: memory that the client has just written. */
static void
client_fill(struct pair_side *side, const struct pair_op *op)
{
	const uint8_t *from = op->data;
	uint32_t i;

	for (i = 0; i < op->nseg; i++) {
		memcpy(side->node->mem + op->seg[i].off, from, op->seg[i].len);
		memcpy(side->node->base + op->seg[i].off, from, op->seg[i].len);
		from += op->seg[i].len;
	}
}

/* The effect of an atomic on its word, and its expected result. */
static void
client_model_atomic(struct pair_side *side, struct pair_op *op)
{
	uint8_t *at = side->peer->node->model + side->peer->atoms.off + op->roff;
	uint64_t was, now;

	memcpy(&was, at, sizeof(was));
	if (op->opcode == UROCE_WR_ATOMIC_CMP_SWAP) {
		op->compare =
			sim_chance(&side->pair->cli, 500000) ? was : sim_rand(&side->pair->cli);
		now = op->compare == was ? op->swap_add : was;
	} else {
		now = was + op->swap_add;
	}
	op->after = now;
	memcpy(at, &now, sizeof(now));
	memcpy(op->snapshot, &was, sizeof(was));
}

/* The effect of op on the peer's memory, and the expected data of a READ or atomic. */
static void
client_model(struct pair_side *side, struct pair_op *op)
{
	struct pair_side *peer = side->peer;
	uint8_t *at = peer->node->model + peer->window.off + op->roff;
	struct pair_op *o;

	if (sim_op_fetches(&op->sim_op)) {
		op->snapshot = calloc(1, op->len + 1);
		op->data = op->snapshot;
	}
	if (op->fault != FAULT_NONE)
		return;
	if (op->opcode == UROCE_WR_RDMA_READ) {
		memcpy(op->snapshot, at, op->len);
		return;
	}
	if (sim_op_fetches(&op->sim_op)) {
		client_model_atomic(side, op);
		return;
	}
	if (op->opcode != UROCE_WR_RDMA_WRITE && op->opcode != UROCE_WR_RDMA_WRITE_IMM)
		return;
	/* An outstanding READ must not see this write: hence the fence (REQ-02). */
	for (o = &side->op[side->reaped]; o < op; o++) {
		if (o->opcode == UROCE_WR_RDMA_READ && o->roff < op->roff + op->len &&
		    op->roff < o->roff + o->len)
			op->flags |= UROCE_WQE_FENCE;
	}
	memcpy(at, op->data, op->len);
}

static bool
client_post_send(struct pair_side *side)
{
	struct pair_op *op = &side->op[side->posted];
	struct uroce_send_wqe wqe = {.wr_id = (side->posted | 1ull << 32) ^ side->wr_salt};
	uint8_t *slot;

	if (!(op->flags & UROCE_WQE_INLINE) &&
	    !pair_pieces_cut(side->pair, &side->local, op->len, side->cap.max_send_sge, op->seg,
			     &op->nseg))
		return false;
	op->local_end = side->local.head;
	client_model(side, op);
	if (!sim_op_fetches(&op->sim_op))
		client_fill(side, op);
	slot = sim_ring_slot(&side->pair->sim, &side->sq, "SQ of qp", side->qpn);
	wqe.opcode = op->fault == FAULT_OPCODE ? 77 : op->opcode;
	wqe.flags = op->flags;
	wqe.num = (uint16_t)(op->flags & UROCE_WQE_INLINE ? op->len : op->nseg);
	if (op->fault == FAULT_NSGE)
		wqe.num =
			(uint16_t)(side->cap.max_send_sge + 1 + sim_below(&side->pair->cli, 60000));
	wqe.imm = op->imm;
	wqe.rdma.remote_addr = op->va;
	wqe.rdma.rkey = op->rkey;
	wqe.rdma.compare_add = op->opcode == UROCE_WR_ATOMIC_CMP_SWAP ? op->compare : op->swap_add;
	wqe.rdma.swap = op->swap_add;
	memcpy(slot, &wqe, sizeof(wqe));
	if (op->flags & UROCE_WQE_INLINE)
		memcpy(slot + UROCE_SEND_WQE_HDR, op->data, op->len);
	else
		pair_pieces_sges(side, &side->local, op->seg, op->nseg, op->fault,
				 slot + UROCE_SEND_WQE_HDR);
	op->state = SIM_OP_POSTED;
	side->posted++;
	return true;
}

/* The engine has copied the WQEs that it took, so the slots may have any content now. */
static void
client_scribble(struct pair_side *side)
{
	struct pair *s = side->pair;
	uint32_t i;

	if (!s->cfg.scribble || !sim_chance(&s->cli, 300000))
		return;
	for (i = side->sq.hdr->cons; i != side->qp->conn.snd.head; i++)
		memset(side->sq.slots + (size_t)(i & (side->sq.entries - 1)) * side->sq.stride,
		       0xee, side->sq.stride);
	if (s->cfg.srq)
		return;
	for (i = side->rq.hdr->cons; i != side->qp->conn.rcv.head; i++)
		memset(side->rq.slots + (size_t)(i & (side->rq.entries - 1)) * side->rq.stride,
		       0xee, side->rq.stride);
}

/* Posts what fits, a few at a time. True if anything was posted. */
static bool
client_post(struct pair_side *side)
{
	struct pair *s = side->pair;
	uint32_t n, had = side->sq.prod, rhad = side->rq.prod;

	if (!s->cfg.srq && s->now_ns >= side->recv_ns)
		pair_recv_post(side, sim_between(&s->cli, 1, 16));
	if (side->qp->conn.state != QP_RTS && side->qp->conn.state != QP_SQD &&
	    side->qp->conn.state != QP_ERR)
		return side->rq.prod != rhad;
	for (n = sim_between(&s->cli, 1, 16);
	     n > 0 && side->posted < side->nops &&
	     side->posted - side->reaped < side->cap.max_send_wr && client_post_send(side);
	     n--)
		;
	if (side->sq.prod != had)
		sim_ring_publish(&side->sim_end, &side->sq);
	client_scribble(side);
	return side->sq.prod != had || side->rq.prod != rhad;
}

/* Receives run out from time to time: the next ones are late, and the peer gets RNR NAKs. */
static void
client_delay_recvs(struct pair_side *side)
{
	struct pair *s = side->pair;

	if (s->cfg.recv_late && s->now_ns >= side->recv_ns && sim_chance(&s->cli, 300000))
		side->recv_ns = s->now_ns + sim_scale(&s->cli, 1000, 1000000);
}

/* MEM-03: the contents of the window are final. */
static void
client_dereg(struct pair_side *side)
{
	struct pair_node *n = side->node;

	mr_table_del(&n->mrs, &side->window.mr);
	side->window_gone = true;
	memcpy(n->base + side->window.off, n->mem + side->window.off, side->window.len);
	sim_log(&side->pair->sim, "node %u qp %06x: window deregistered", n->idx, side->qpn);
}

/* Moves the QP through its states over time. True if it moved. */
static bool
client_states(struct pair_side *side)
{
	uint64_t now = side->pair->now_ns;
	uint8_t state = side->qp->conn.state;

	if (state == QP_INIT && now >= side->rtr_ns)
		pair_side_modify(side, QP_RTR);
	else if (state == QP_RTR && now >= side->rts_ns)
		pair_side_modify(side, QP_RTS);
	else if (now >= side->dereg_ns && !side->window_gone)
		client_dereg(side);
	else if (state == QP_RTS && now >= side->sqd_ns && side->sqd == 0) {
		pair_side_modify(side, QP_SQD);
		side->sqd = 1;
	} else if (state == QP_SQD && side->sq_drained > 0) {
		side->sqd = 2;
		pair_side_modify(side, QP_RTS);
	} else if (side->path_ns != 0 && now >= side->path_ns && state >= QP_RTR)
		pair_side_resolve(side);
	else
		return false;
	return true;
}

/* Does this client have anything left to do, or to see? */
static bool
client_waits(const struct pair_node *n)
{
	const struct pair *s = n->pair;
	uint32_t i;

	if (!pair_sends_done(s) || s->nfree_pkt != PAIR_MAX_PKTS)
		return true;
	for (i = 0; i < PAIR_NODES; i++) {
		if (s->node[i].worker.poll_at != SIM_NEVER)
			return true;
	}
	for (i = 0; i < SIM_CQS; i++) {
		if (n->cq[i].ring.cons != n->cq[i].cq.ring->prod)
			return true;
	}
	for (i = 0; i < s->nsides; i++) {
		const struct pair_side *side = &s->side[i];

		if (side->timer_ns != 0 || side->bell_ns != 0)
			return true;
		if (!s->by_hand && side->qp->conn.state != QP_RTS && side->qp->conn.state != QP_ERR)
			return true;
	}
	return false;
}

void
pair_client_step(struct sim_node *node)
{
	struct pair_node *n = container_of(node, struct pair_node, sim_node);
	struct pair *s = n->pair;
	bool busy = sim_reap(node);
	uint32_t i;

	busy |= pair_srq_post(n);
	for (i = 0; i < s->nsides && !s->failed; i++) {
		struct pair_side *side = &s->side[i];

		if (side->node != n)
			continue;
		busy |= client_states(side);
		client_delay_recvs(side);
		busy |= client_post(side);
	}
	if (!client_waits(n))
		return;
	sim_step_again(node, busy, s->cfg.step_ns);
}

/* Another thread of the client posts while the engine accesses this memory. */
void
pair_client_race(struct sim_node *node)
{
	struct pair_node *n = container_of(node, struct pair_node, sim_node);
	struct pair *s = n->pair;
	struct pair_side *side;

	if (!sim_chance(&s->cli, s->cfg.race))
		return;
	side = &s->side[sim_below(&s->cli, s->nsides)];
	if (side->node == n && !s->by_hand)
		client_post(side);
}

void
pair_client_post_dead(struct pair_side *side)
{
	struct pair *s = side->pair;
	struct pair_op *op = &side->op[side->nops];

	memset(op, 0, sizeof(*op));
	op->opcode = UROCE_WR_SEND;
	op->recv = UINT32_MAX;
	op->data = side->pair->table;
	op->first = side->total;
	if (side->posted == side->nops && side->posted - side->reaped < side->cap.max_send_wr &&
	    client_post_send(side)) {
		side->nops++;
		sim_ring_publish(&side->sim_end, &side->sq);
	}
	if (s->cfg.srq || side->rposted != side->nrecvs ||
	    side->rposted - side->rreaped >= side->cap.max_recv_wr)
		return;
	side->recv[side->nrecvs++] = (struct pair_recv){0};
	pair_recv_post(side, 1);
}
