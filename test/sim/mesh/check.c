/* SPDX-License-Identifier: BSD-3-Clause */
/* Invariants at the end of a connection's life, from both ends, and at the end of the schedule. */
#include <string.h>
#include <rte_common.h>
#include <rte_mempool.h>
#include "mesh.h"

void
mesh_settle(struct mesh_side *side, struct mesh_op *op)
{
	/* A WQE with a fault must write nothing. */
	if (side->type != QP_TYPE_RC || op->state == SIM_OP_DONE || op->fault != MESH_OK)
		return;
	if (mesh_is_atomic(op))
		memcpy(side->node->base + op->loc, side->node->mem + op->loc, 8);
	else if (sim_op_fetches(&op->sim_op))
		sim_either(&side->node->sim_node, op->loc, op->data, op->len);
	else if (mesh_is_write(op))
		sim_either(&side->peer->node->sim_node, op->at, op->data, op->len);
}

static uint32_t
check_errors(const struct mesh_side *side)
{
	return side->access_errs + side->req_errs + side->fatals + side->recv_errs;
}

/* RC: compares what both ends have seen. */
static void
check_reliable(struct mesh_side *side)
{
	struct mesh_side *peer = side->peer;
	struct mesh *m = side->m;
	bool whole = true;
	uint32_t i;

	for (i = 0; i < side->posted; i++) {
		struct mesh_op *op = &side->op[i];

		whole &= op->state == SIM_OP_DONE;
		if (op->state == SIM_OP_DONE && mesh_uses_recv(op) && i >= peer->delivered &&
		    !peer->cut)
			sim_fail(&m->sim,
				 "REQ-07: qp %06x: WQE %u succeeded, its peer received nothing",
				 side->qpn, i);
		if (op->state != SIM_OP_DONE && op->opcode == UROCE_WR_ATOMIC_FETCH_ADD &&
		    op->compare == 1)
			peer->node->maybe_counted++;
	}
	if (whole && memcmp(peer->node->mem + peer->words.off, &side->word, 8) != 0)
		sim_fail(&m->sim, "RSP-04: qp %06x: its word is not what its atomics made it",
			 side->qpn);
	memcpy(peer->node->base + peer->words.off, peer->node->mem + peer->words.off, 8);
	if (side->flushed && !side->cut &&
	    (side->first_status == QP_WC_REM_ACCESS_ERR || side->first_status == QP_WC_REM_OP_ERR ||
	     side->first_status == QP_WC_REM_INV_REQ_ERR) &&
	    check_errors(peer) == 0 && !peer->cut)
		sim_fail(&m->sim,
			 "NAK-09: qp %06x fails with status %u, its peer has seen no error",
			 side->qpn, side->first_status);
	if (check_errors(peer) != 0 && whole && !side->cut)
		sim_fail(&m->sim, "NAK-06: qp %06x: all WQEs succeed, its peer has refused one",
			 side->qpn);
	if (check_errors(side) > 1)
		sim_fail(&m->sim, "NAK-09: qp %06x: %u errors as a responder", side->qpn,
			 check_errors(side));
	if (m->cfg.must && check_errors(side) != 0)
		sim_fail(&m->sim, "NAK-09: qp %06x: error event, and nothing was wrong", side->qpn);
}

/* An error of the send queue without a cause there must come from the receive side. */
static void
check_flushed(struct mesh_side *side)
{
	if (side->flushed && side->first_status == QP_WC_WR_FLUSH_ERR && !side->first_dead &&
	    check_errors(side) == 0)
		sim_fail(&side->m->sim, "REQ-10: qp %06x: flushed, and nothing was wrong",
			 side->qpn);
}

void
mesh_check_life(struct mesh_conn *c)
{
	uint32_t i;

	for (i = 0; i < c->nsides; i++) {
		struct mesh_side *side = c->side[i];

		if (side->comm_est > 1)
			sim_fail(&side->m->sim, "QP-13: qp %06x: COMM_EST %u times", side->qpn,
				 side->comm_est);
		if (side->sq_drained > (side->sqd != 0))
			sim_fail(&side->m->sim, "QP-15: qp %06x: SQ_DRAINED %u times", side->qpn,
				 side->sq_drained);
		if (side->srq != NULL && !side->cut && side->last_wqe != 1)
			sim_fail(&side->m->sim, "EVT-07: qp %06x: last WQE reached %u times",
				 side->qpn, side->last_wqe);
		if (side->srq == NULL && side->last_wqe != 0)
			sim_fail(&side->m->sim, "EVT-07: qp %06x has no SRQ", side->qpn);
		if (!side->cut)
			check_flushed(side);
		if (c->type == QP_TYPE_RC)
			check_reliable(side);
	}
}

static const char *
check_area(const struct sim_node *node, uint32_t off)
{
	const struct mesh_node *n = container_of(node, const struct mesh_node, sim_node);
	static const char *const name[] = {"send buffers", "receive buffers", "WRITE slots",
					   "atomics' word", "windows"};
	const struct mesh *m = n->m;
	uint32_t i, k;

	for (i = 0; i < m->nsides; i++) {
		const struct mesh_side *s = &m->side[i];
		const struct mesh_area *a[] = {&s->local, &s->recvs, &s->slots, &s->words,
					       &s->wins};

		for (k = 0; k < RTE_DIM(a) && s->node == n; k++) {
			if (off >= a[k]->off && off < a[k]->off + a[k]->len)
				return name[k];
		}
	}
	return "no region of a QP";
}

/* Every key in the table belongs to an existing region or window (MEM-01). */
static void
check_keys(struct mesh_node *n)
{
	struct mesh *m = n->m;
	uint32_t keys = 3 + m->cfg.workers, i, k;

	for (i = 0; i < m->nsides; i++) {
		struct mesh_side *s = &m->side[i];
		const struct mesh_area *a[] = {&s->local, &s->recvs, &s->slots, &s->words,
					       &s->wins};

		for (k = 0; k < RTE_DIM(a) && s->node == n; k++)
			keys += a[k]->shown;
		if (s->node == n && s->type == QP_TYPE_RC)
			keys += MESH_WINS;
	}
	if (n->mrs.used != keys)
		sim_fail(&m->sim, "MEM-01: node %u: %u keys in use, %u regions and windows", n->idx,
			 n->mrs.used, keys);
}

static void
check_node(struct mesh_node *n)
{
	struct mesh *m = n->m;
	uint64_t cqes = 0, counter;
	uint32_t i;

	mesh_poll_rest(n);
	memcpy(&counter, n->mem + n->counter.off, 8);
	memcpy(n->base + n->counter.off, &counter, 8);
	if (counter < n->counted || counter > n->counted + n->maybe_counted)
		sim_fail(&m->sim, "RSP-04: node %u: counter at %lu, %u were done, %u perhaps",
			 n->idx, (unsigned long)counter, n->counted, n->maybe_counted);
	for (i = 0; i < m->cfg.workers; i++) {
		struct mesh_worker *w = &n->worker[i];
		struct mesh_srq *q = &w->srq;

		cqes += w->counters.ctr[COUNTER_CQE];
		if (run_list_first(&w->eng.run) != NULL)
			sim_fail(&m->sim, "node %u: a QP is left on the run list", n->idx);
		if (w->eng.env.tx_n != 0 || w->rx_n != 0 || w->in_n != 0)
			sim_fail(&m->sim, "node %u: frames are left", n->idx);
		if (q->completed + q->lost != q->srq.head)
			sim_fail(&m->sim,
				 "SRQ-01: node %u: %u receives taken, %u completed, %u lost",
				 n->idx, q->srq.head, q->completed, q->lost);
		if (q->armed != 0 && q->posted - q->srq.head < q->armed)
			sim_fail(&m->sim, "EVT-10: node %u: below the limit, and no event", n->idx);
	}
	if (cqes != n->cqes)
		sim_fail(&m->sim, "CQ-01: node %u: %lu completions were counted, %lu came", n->idx,
			 (unsigned long)cqes, (unsigned long)n->cqes);
	check_keys(n);
	sim_check_memory(&n->sim_node, check_area);
}

void
mesh_check_end(struct mesh *m)
{
	uint32_t i;

	for (i = 0; i < m->nsides && !m->failed; i++) {
		if (m->side[i].type == QP_TYPE_RC)
			mesh_windows_renew(&m->side[i]);
	}
	for (i = 0; i < m->cfg.nodes && !m->failed; i++)
		check_node(&m->node[i]);
}
