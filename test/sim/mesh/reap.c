/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completions: none too early, and errors with a cause only (../reap.c checks their order). Each
 * message that arrived whole completes once, with its bytes in the right place.
 */
#include <stdlib.h>
#include <string.h>
#include <rte_common.h>
#include "mesh.h"

static const uint8_t reap_fault[] = {
	[MESH_OK] = QP_WC_SUCCESS,
	[MESH_BAD_LKEY] = QP_WC_LOC_PROT_ERR,
	[MESH_BAD_RANGE] = QP_WC_LOC_PROT_ERR,
	[MESH_BAD_OPCODE] = QP_WC_LOC_QP_OP_ERR,
	[MESH_BAD_NSGE] = QP_WC_LOC_QP_OP_ERR,
	[MESH_BAD_AH] = QP_WC_LOC_QP_OP_ERR,
	[MESH_TOO_LONG] = QP_WC_LOC_LEN_ERR,
	[MESH_BAD_QKEY] = QP_WC_SUCCESS,
	[MESH_BAD_RKEY] = QP_WC_REM_ACCESS_ERR,
	[MESH_BAD_RRANGE] = QP_WC_REM_ACCESS_ERR,
	[MESH_STALE_WIN] = QP_WC_REM_ACCESS_ERR,
	[MESH_GONE] = QP_WC_REM_ACCESS_ERR,
	[MESH_BAD_BIND] = QP_WC_MW_BIND_ERR,
	[MESH_BAD_INV] = QP_WC_MW_BIND_ERR,
	[MESH_BAD_SENDINV] = QP_WC_REM_ACCESS_ERR,
};

/* A result of the shared counter: no other operation may have got it (RSP-04). */
static void
reap_counter(struct mesh_side *side, uint64_t was)
{
	struct mesh_node *n = side->peer->node;

	if (was >= sizeof(n->seen) || n->seen[was])
		sim_fail(&side->m->sim, "RSP-04: qp %06x: fetch-and-add brings %lu, %s", side->qpn,
			 (unsigned long)was,
			 was < sizeof(n->seen) ? "as another did" : "which it never was");
	else
		n->seen[was] = 1;
	n->counted++;
}

static void
reap_fetched(struct mesh_side *side, struct mesh_op *op)
{
	struct mesh_node *n = side->node;
	const uint8_t *want = op->data;
	uint64_t got;

	memcpy(&got, n->mem + op->loc, 8);
	if (op->opcode == UROCE_WR_ATOMIC_FETCH_ADD && op->compare == 1) {
		reap_counter(side, got);
		want = (const uint8_t *)&got;
	} else if (mesh_is_atomic(op)) {
		want = (const uint8_t *)&op->orig;
	}
	memcpy(n->base + op->loc, want, op->len);
	if (memcmp(n->base + op->loc, n->mem + op->loc, side->local.stride) != 0)
		sim_fail(&side->m->sim, "REQ-08: qp %06x: WQE %ld (%s) brings wrong bytes",
			 side->qpn, (long)(op - side->op), sim_op_name(op->opcode));
}

void
mesh_reap_commit(struct sim_end *end, struct sim_op *sop)
{
	struct mesh_side *side = container_of(end, struct mesh_side, sim_end);
	struct mesh_op *op = container_of(sop, struct mesh_op, sim_op);
	struct mesh *m = side->m;
	long index = (long)(op - side->op);
	bool rc = side->type == QP_TYPE_RC;

	if (op->fault != MESH_OK && (rc || (op->fault != MESH_GONE && op->fault != MESH_BAD_QKEY)))
		sim_fail(&m->sim, "REQ-03: qp %06x: WQE %ld succeeds, fault %u in it", side->qpn,
			 index, op->fault);
	if (!rc && side->tx_op <= (uint32_t)index)
		sim_fail(&m->sim, "REQ-01: qp %06x: WQE %ld is complete, not all of it was sent",
			 side->qpn, index);
	if (rc && sim_op_fetches(&op->sim_op))
		reap_fetched(side, op);
	if (rc && mesh_is_write(op)) {
		struct mesh_node *n = side->peer->node;

		memcpy(n->base + op->at, op->data, op->len);
		if (memcmp(n->mem + op->at, op->data, op->len) != 0)
			sim_fail(&m->sim,
				 "REQ-07: qp %06x: WRITE %ld is complete, its bytes are not "
				 "there",
				 side->qpn, index);
	}
	if (mesh_is_local(op))
		mesh_window_done(side, op);
	/* The client owns the memory again, and overwrites it. */
	if (!sim_op_fetches(&op->sim_op) && !mesh_is_local(op)) {
		const uint8_t *junk = m->table + sim_below(&m->cli, SIM_TABLE_BYTES - op->len);

		memcpy(side->node->mem + op->loc, junk, op->len);
		memcpy(side->node->base + op->loc, junk, op->len);
	}
}

/* Is there a reason for the first error of a send queue? */
bool
mesh_reap_has_cause(struct sim_end *end, const struct sim_op *sop, uint8_t status)
{
	struct mesh_side *side = container_of(end, struct mesh_side, sim_end);
	const struct mesh_op *op = container_of(sop, const struct mesh_op, sim_op);
	const struct mesh_cfg *c = &side->m->cfg;
	const struct mesh_side *peer = side->peer;
	bool maybe = op->maybe || side->local.gone ||
		     (peer != NULL && (peer->recvs.gone || peer->slots.gone));

	if (status == QP_WC_WR_FLUSH_ERR)
		return side->dead || !c->must; /* see check.c for the rest */
	if (op->fault != MESH_OK && status == reap_fault[op->fault])
		return true;
	if (c->must)
		return false;
	if (maybe && status == QP_WC_LOC_PROT_ERR)
		return true;
	if (side->type != QP_TYPE_RC)
		return false;
	if (maybe && (status == QP_WC_REM_ACCESS_ERR || status == QP_WC_REM_OP_ERR))
		return true;
	return status == QP_WC_RETRY_EXC_ERR ||
	       (status == QP_WC_RNR_RETRY_EXC_ERR && c->rnr_retry != 7);
}

/* The buffer at off has len bytes of data, and nothing else changed there. */
static void
reap_buffer(struct mesh_side *side, uint32_t off, uint32_t stride, const uint8_t *data,
	    uint32_t len)
{
	struct mesh_node *n = side->node;

	if (memcmp(n->mem + off, data, len) != 0)
		sim_fail(&side->m->sim, "RSP-05: qp %06x: wrong bytes in a receive buffer",
			 side->qpn);
	memcpy(n->base + off, n->mem + off, len);
	/* Aborted messages may have left bytes behind it (RSP-06). */
	if (side->type == QP_TYPE_UC || side->srq != NULL)
		memcpy(n->base + off, n->mem + off, stride);
	else if (memcmp(n->base + off, n->mem + off, stride) != 0)
		sim_fail(&side->m->sim, "RSP-05: qp %06x: bytes behind a message", side->qpn);
}

/* RC: the next message, whole. */
static void
reap_reliable(struct mesh_side *side, uint32_t off, uint32_t stride, const struct uroce_cqe *cqe)
{
	struct mesh_side *peer = side->peer;
	uint32_t k = side->delivered;
	struct mesh_op *op;
	bool write, imm, inv;

	while (k < peer->posted && !mesh_uses_recv(&peer->op[k]))
		k++;
	op = &peer->op[k];
	if (k >= peer->posted || (op->fault != MESH_OK)) {
		sim_fail(&side->m->sim,
			 "RSP-05: qp %06x: receive completes, no message was sent for it",
			 side->qpn);
		return;
	}
	side->delivered = k + 1;
	side->m->more.delivered++;
	write = op->opcode == UROCE_WR_RDMA_WRITE_IMM;
	imm = write || op->opcode == UROCE_WR_SEND_IMM;
	inv = op->opcode == UROCE_WR_SEND_INV;
	if (cqe->opcode != (write ? UROCE_CQE_RECV_RDMA_WITH_IMM : UROCE_CQE_RECV) ||
	    cqe->byte_len != op->len || !(cqe->flags & UROCE_CQE_WITH_IMM) != !imm ||
	    !(cqe->flags & UROCE_CQE_WITH_INV) != !inv ||
	    !(cqe->flags & UROCE_CQE_SOLICITED) != !(op->flags & UROCE_WQE_SOLICITED) ||
	    ((imm || inv) && cqe->imm != op->imm))
		sim_fail(&side->m->sim, "RSP-05: qp %06x: completion of WQE %u says something else",
			 side->qpn, k);
	reap_buffer(side, off, stride, op->data, write ? 0 : op->len);
	/* If the client polls late, the WRITE after 31 others may have overwritten the slot. */
	if (write && peer->posted <= k + MESH_SLOTS &&
	    memcmp(side->node->mem + op->at, op->data, op->len) != 0)
		sim_fail(&side->m->sim,
			 "RSP-05: qp %06x: WRITE %u is announced, its bytes are not there",
			 side->qpn, k);
	if (inv && op->gen == side->win[op->win].gen)
		mesh_window_gone(side, &side->win[op->win]);
}

/* UC, UD: the next message that arrived whole. */
static void
reap_due(struct mesh_side *side, uint32_t off, uint32_t stride, const struct uroce_cqe *cqe)
{
	const struct mesh_due *d = &side->due[side->due_head % MESH_DUE];
	uint32_t len = d->opcode == UROCE_CQE_RECV ? d->len : 0;

	if (side->due_head == side->due_tail) {
		sim_fail(&side->m->sim, "RSP-06: qp %06x: receive completes, no whole message came",
			 side->qpn);
		return;
	}
	side->due_head++;
	if (cqe->opcode != d->opcode || cqe->byte_len != d->len ||
	    !(cqe->flags & UROCE_CQE_WITH_IMM) != !d->with_imm ||
	    !(cqe->flags & UROCE_CQE_SOLICITED) != !d->solicited ||
	    !(cqe->flags & UROCE_CQE_GRH) != (side->type != QP_TYPE_UD) ||
	    (d->with_imm && cqe->imm != d->imm) ||
	    (side->type == QP_TYPE_UD && cqe->src_qp != d->src_qp))
		sim_fail(&side->m->sim,
			 "WIRE-07: qp %06x: completion (opcode %u, %u bytes) is not of "
			 "the message that came (opcode %u, %u bytes)",
			 side->qpn, cqe->opcode, cqe->byte_len, d->opcode, d->len);
	else if (len != 0 && mesh_hash(MESH_HASH, side->node->mem + off, len) != d->hash &&
		 side->type == QP_TYPE_UD)
		sim_fail(&side->m->sim, "WIRE-07: qp %06x: wrong bytes of a datagram", side->qpn);
	else if (len != 0 && side->type == QP_TYPE_UC &&
		 mesh_hash_pieces(side->node->mem + off, len, side->mtu) != d->hash)
		sim_fail(&side->m->sim, "RSP-06: qp %06x: wrong bytes of a message", side->qpn);
	reap_buffer(side, off, stride, side->node->mem + off, len);
}

static void
reap_recv_error(struct mesh_side *side, uint32_t off, uint32_t stride, uint8_t status)
{
	struct mesh *m = side->m;
	struct mesh_node *n = side->node;
	bool good = false;

	if (status == QP_WC_REM_ABORT_ERR && side->due_head != side->due_tail &&
	    side->due[side->due_head % MESH_DUE].opcode == MESH_ABORTED) {
		side->due_head++;
		memcpy(n->base + off, n->mem + off, stride); /* CQE-14 */
		return;
	}
	if (status == QP_WC_WR_FLUSH_ERR)
		good = side->dead || !m->cfg.must;
	else if (!side->rflushed && !m->cfg.must)
		good = (status == QP_WC_LOC_PROT_ERR && side->recvs.gone) ||
		       status == QP_WC_LOC_ACCESS_ERR;
	if (!good)
		sim_fail(&m->sim, "CQE: qp %06x: a receive ends in status %u", side->qpn, status);
	side->recv_errs += status != QP_WC_WR_FLUSH_ERR;
	/* The message in progress may have written part of the first receive. */
	if (!side->rflushed || side->type == QP_TYPE_UC)
		memcpy(n->base + off, n->mem + off, stride);
	side->rflushed = true;
}

static void
reap_recv_done(struct mesh_side *side, uint32_t off, uint32_t stride, const struct uroce_cqe *cqe)
{
	side->m->last_progress_ns = side->m->now_ns;
	if (cqe->status != QP_WC_SUCCESS)
		reap_recv_error(side, off, stride, cqe->status);
	else if (side->rflushed)
		sim_fail(&side->m->sim, "QP-19: qp %06x: a receive succeeds behind a flushed one",
			 side->qpn);
	else if (side->type == QP_TYPE_RC)
		reap_reliable(side, off, stride, cqe);
	else
		reap_due(side, off, stride, cqe);
}

static void
reap_recv(struct mesh_side *side, uint32_t index, const struct uroce_cqe *cqe)
{
	if (index != side->rreaped || index >= side->rposted) {
		sim_fail(&side->m->sim,
			 "RSP-05: qp %06x: receive %u completes, %u of %u are expected", side->qpn,
			 index, side->rreaped, side->rposted);
		return;
	}
	reap_recv_done(side, side->recv[index % MESH_SLOTS].off, side->recvs.stride, cqe);
	side->rreaped++;
}

static void
reap_srq(struct mesh_side *side, uint32_t index, const struct uroce_cqe *cqe)
{
	struct mesh_srq *q = side->srq;
	struct mesh_recv *r = &q->recv[index % MESH_SLOTS];

	if (index >= q->posted || index + MESH_SLOTS < q->posted || r->state != SIM_OP_POSTED) {
		sim_fail(&side->m->sim,
			 "SRQ-01: qp %06x: receive %u of the SRQ completes, is not out", side->qpn,
			 index);
		return;
	}
	r->state = SIM_OP_DONE;
	q->completed++;
	reap_recv_done(side, r->off, q->area.stride, cqe);
}

void
mesh_reap_cqe(struct sim_node *node, struct sim_cq *cq, const struct uroce_cqe *cqe)
{
	struct mesh_node *n = container_of(node, struct mesh_node, sim_node);
	struct mesh *m = n->m;
	uint32_t kind = cqe->wr_id >> 56, index = (uint32_t)cqe->wr_id;
	struct mesh_side *side = mesh_side_of(m, cqe->qp_num);

	if (cqe->opcode == UROCE_CQE_DEAD)
		return;
	if (m->verbose)
		sim_log(&m->sim, "node %u qp %06x %s %u: status %u, %u bytes", n->idx, cqe->qp_num,
			kind == 1 ? "WQE" : "receive", index, cqe->status, cqe->byte_len);
	if (side == NULL || side->node != n) {
		sim_fail(&m->sim, "QP-22: node %u: completion of qp %06x, which is gone", n->idx,
			 cqe->qp_num);
		return;
	}
	if (side->cut || side->qp->conn.state == QP_RESET ||
	    (kind != 3 && (cqe->wr_id >> 32 & 0xffff) != side->idx) ||
	    (kind != 3 && (cqe->wr_id >> 48 & 0xff) != side->conn->life))
		sim_fail(&m->sim, "QP-10: qp %06x: completion of a life that is over", side->qpn);
	else if (cqe->qp_cookie !=
		 (kind == 1 || side->srq == NULL ? side->cookie : side->srq->cookie))
		sim_fail(&m->sim, "CQ-01: qp %06x: wrong cookie", side->qpn);
	else if (kind == 1 && cq == side->scq)
		sim_reap_send(&side->sim_end, index, cqe);
	else if (kind == 2 && cq == side->rcq && side->srq == NULL)
		reap_recv(side, index, cqe);
	else if (kind == 3 && cq == side->rcq && side->srq != NULL)
		reap_srq(side, index, cqe);
	else
		sim_fail(&m->sim, "REQ-01: qp %06x: completion of no WQE (wr_id %lx)", side->qpn,
			 (unsigned long)cqe->wr_id);
}

void
mesh_poll_rest(struct mesh_node *n)
{
	uint32_t i;

	for (i = 0; i < MESH_CQS; i++)
		sim_reap_cq(&n->sim_node, &n->cq[i], UINT32_MAX);
}

static bool
reap_left(const struct mesh_side *side, const struct sim_cqring *r)
{
	const struct uroce_cqe *slot;
	uint32_t at;

	for (at = r->cons; r->hdr != NULL && (slot = sim_cqring_slot(r, at)) != NULL; at++) {
		if (slot->qp_num == side->qpn && slot->opcode != UROCE_CQE_DEAD)
			return true;
	}
	return false;
}

bool
mesh_cqes_left(const struct mesh_side *side)
{
	return reap_left(side, &side->rcq->old) || reap_left(side, &side->rcq->ring);
}

static void
reap_void(struct mesh_side *side, struct sim_cqring *r)
{
	struct uroce_cqe *slot;
	uint32_t at;

	for (at = r->cons; r->hdr != NULL && (slot = sim_cqring_slot(r, at)) != NULL; at++) {
		struct mesh_recv *recv;

		if (slot->qp_num != side->qpn || slot->opcode == UROCE_CQE_DEAD)
			continue;
		slot->opcode = UROCE_CQE_DEAD;
		if (slot->wr_id >> 56 == 2) {
			recv = &side->recv[(uint32_t)slot->wr_id % MESH_SLOTS];
			memcpy(side->node->base + recv->off, side->node->mem + recv->off,
			       side->recvs.stride);
		}
		if (slot->wr_id >> 56 != 3)
			continue;
		recv = &side->srq->recv[(uint32_t)slot->wr_id % MESH_SLOTS];
		recv->state = SIM_OP_DONE;
		side->srq->completed++;
		memcpy(side->node->base + recv->off, side->node->mem + recv->off,
		       side->srq->area.stride);
	}
}

void
mesh_forget_cqes(struct mesh_side *side)
{
	struct sim_cq *cq[] = {side->scq, side->rcq};
	uint32_t i;

	for (i = 0; i < 2; i++) {
		reap_void(side, &cq[i]->old);
		reap_void(side, &cq[i]->ring);
	}
}
