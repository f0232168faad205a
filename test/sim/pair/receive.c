/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receives of a client, of a QP's own queue or of an SRQ that all QPs of a node share: posted, and
 * their completions checked against the messages that they must receive (RSP-05, SRQ-01).
 */
#include <string.h>
#include <rte_common.h>
#include "pieces.h"
#include "receive.h"
#include "pair.h"

/* Writes one receive WQE. False: no memory for it now. */
static bool
recv_write(struct pair_side *side, struct pair_recv *r, struct pair_area *area,
	   struct sim_ring *ring, uint32_t max_sge, uint64_t wr_id)
{
	struct uroce_recv_wqe wqe = {.wr_id = wr_id};
	uint8_t *slot;

	if (!pair_pieces_cut(side->pair, area, r->cap, max_sge, r->seg, &r->nseg))
		return false;
	r->local_end = area->head;
	slot = sim_ring_slot(&side->pair->sim, ring, "receive queue of qp", side->qpn);
	wqe.num_sge = r->nseg;
	memcpy(slot, &wqe, sizeof(wqe));
	pair_pieces_sges(side, area, r->seg, r->nseg, r->bad_key ? FAULT_LKEY : FAULT_NONE,
			 slot + UROCE_RECV_WQE_HDR);
	r->state = SIM_OP_POSTED;
	return true;
}

void
pair_recv_post(struct pair_side *side, uint32_t max)
{
	uint32_t had = side->rposted;

	while (max-- > 0 && side->rposted < side->nrecvs &&
	       side->rposted - side->rreaped < side->cap.max_recv_wr &&
	       recv_write(side, &side->recv[side->rposted], &side->recvs, &side->rq,
			  side->cap.max_recv_sge, (side->rposted | 2ull << 32) ^ side->wr_salt))
		side->rposted++;
	if (side->rposted != had)
		sim_ring_publish(&side->sim_end, &side->rq);
}

bool
pair_srq_post(struct pair_node *n)
{
	struct pair *s = n->pair;
	struct pair_srq *q = &n->srq;
	uint32_t had = q->posted;

	if (!s->cfg.srq || s->by_hand || s->now_ns < q->recv_ns)
		return false;
	while (q->posted - q->oldest < q->max_wr) {
		struct pair_recv *r = &q->recv[q->posted % PAIR_MAX_RECVS];

		*r = (struct pair_recv){.cap = s->cfg.maxlen};
		if (!recv_write(&s->side[n->idx], r, &q->area, &q->ring, q->max_sge,
				(q->posted | 3ull << 32) ^ q->cookie))
			break;
		q->posted++;
	}
	__atomic_store_n(&q->ring.hdr->prod, q->ring.prod, __ATOMIC_RELEASE);
	if (s->cfg.recv_late && sim_chance(&s->cli, 300000))
		q->recv_ns = s->now_ns + sim_scale(&s->cli, 1000, 1000000);
	return q->posted != had;
}

/* The peer's message for receive index, or NULL. */
static struct pair_op *
recv_message(struct pair_side *peer, uint32_t index)
{
	uint32_t i;

	for (i = 0; i < peer->nops; i++) {
		if (peer->op[i].recv == index)
			return &peer->op[i];
	}
	return NULL;
}

/* RSP-05: the next message, whole, with its immediate data. */
static void
recv_success(struct pair_side *side, struct pair_recv *r, const struct uroce_cqe *cqe)
{
	struct pair *s = side->pair;
	uint32_t index = side->rreaped;
	struct pair_op *op = recv_message(side->peer, index);
	bool write, imm;

	if (op == NULL || op >= &side->peer->op[side->peer->posted] || op->fault != FAULT_NONE ||
	    op->first + op->npkts > side->peer->contig) {
		sim_fail(&s->sim, "RSP-05: qp %06x: receive %u completes, no message came for it",
			 side->qpn, index);
		return;
	}
	write = op->opcode == UROCE_WR_RDMA_WRITE_IMM;
	imm = write || op->opcode == UROCE_WR_SEND_IMM;
	if (cqe->opcode != (write ? UROCE_CQE_RECV_RDMA_WITH_IMM : UROCE_CQE_RECV) ||
	    cqe->byte_len != op->len || !(cqe->flags & UROCE_CQE_WITH_IMM) != !imm ||
	    !(cqe->flags & UROCE_CQE_SOLICITED) != !(op->flags & UROCE_WQE_SOLICITED) ||
	    (imm && cqe->imm != op->imm))
		sim_fail(&s->sim,
			 "RSP-05: qp %06x: receive %u: completion says opcode %u flags %x length "
			 "%u, message has %u bytes",
			 side->qpn, index, cqe->opcode, cqe->flags, cqe->byte_len, op->len);
	pair_check_pieces(side, r->seg, r->nseg, op->data, write ? 0 : op->len, "receive", index);
	if (write)
		pair_check_write(side->peer, op);
	r->state = SIM_OP_DONE;
}

static void
recv_error(struct pair_side *side, struct pair_recv *r, uint8_t status)
{
	struct pair *s = side->pair;
	uint32_t index = side->rreaped;
	struct pair_op *op = recv_message(side->peer, index);
	uint8_t fault = op != NULL ? op->fault : FAULT_NONE;
	bool good = false;

	if (status == QP_WC_WR_FLUSH_ERR)
		good = s->by_hand || s->cfg.family != PAIR_MUST_SUCCEED;
	else if (!side->rflushed)
		good = (status == QP_WC_LOC_LEN_ERR && fault == FAULT_LONG) ||
		       (status == QP_WC_LOC_PROT_ERR && fault == FAULT_RECV_KEY) ||
		       (status == QP_WC_LOC_ACCESS_ERR && fault >= FAULT_RKEY &&
			fault <= FAULT_RACCESS);
	if (status == QP_WC_LOC_ACCESS_ERR && side->window_gone && !side->rflushed)
		good = true;
	if (!good)
		sim_fail(&s->sim, "CQE: qp %06x: receive %u ends in status %u (fault %u)",
			 side->qpn, index, status, fault);
	side->rflushed = true;
	r->state = SIM_OP_FAILED;
	/* With an SRQ only the completion tells which message used it. */
	if (s->cfg.srq && op != NULL)
		pair_either_pieces(side->node, r->seg, r->nseg, op->data, op->len);
}

static void
recv_done(struct pair_side *side, struct pair_recv *r, const struct uroce_cqe *cqe)
{
	if (cqe->status != QP_WC_SUCCESS)
		recv_error(side, r, cqe->status);
	else if (side->rflushed)
		sim_fail(&side->pair->sim,
			 "QP-19: qp %06x: receive %u succeeds behind a flushed one", side->qpn,
			 side->rreaped);
	else
		recv_success(side, r, cqe);
	side->rreaped++;
	side->pair->last_progress_ns = side->pair->now_ns;
}

void
pair_recv_reap(struct pair_side *side, uint32_t index, const struct uroce_cqe *cqe)
{
	if (side->pair->cfg.srq || index != side->rreaped || index >= side->rposted) {
		sim_fail(&side->pair->sim,
			 "RSP-05: qp %06x: receive %u completes, %u of %u are expected", side->qpn,
			 index, side->rreaped, side->rposted);
		return;
	}
	recv_done(side, &side->recv[index], cqe);
	side->recvs.tail = side->recv[index].local_end;
}

void
pair_srq_reap(struct pair_side *side, uint32_t index, const struct uroce_cqe *cqe)
{
	struct pair_srq *q = &side->node->srq;
	struct pair_recv *r = &q->recv[index % PAIR_MAX_RECVS];

	if (index - q->oldest >= q->posted - q->oldest || r->state != SIM_OP_POSTED) {
		sim_fail(&side->pair->sim,
			 "SRQ-01: qp %06x: receive %u of the SRQ completes, but is not out",
			 side->qpn, index);
		return;
	}
	recv_done(side, r, cqe);
	q->reaped++;
	while (q->oldest != q->posted && q->recv[q->oldest % PAIR_MAX_RECVS].state != SIM_OP_POSTED)
		q->area.tail = q->recv[q->oldest++ % PAIR_MAX_RECVS].local_end;
}
