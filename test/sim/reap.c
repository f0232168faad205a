/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client's polling, and the completions of its send WQEs: each WQE once, in order, with a status
 * that the schedule allows (REQ-01, REQ-10, CQE-01, CQ-01, CQ-02).
 */
#include <stdlib.h>
#include <string.h>
#include "sim.h"

static const uint8_t reap_opcode[UROCE_WR_OPCODES] = {
	[UROCE_WR_RDMA_WRITE] = UROCE_CQE_RDMA_WRITE,
	[UROCE_WR_RDMA_WRITE_IMM] = UROCE_CQE_RDMA_WRITE,
	[UROCE_WR_SEND] = UROCE_CQE_SEND,
	[UROCE_WR_SEND_IMM] = UROCE_CQE_SEND,
	[UROCE_WR_RDMA_READ] = UROCE_CQE_RDMA_READ,
	[UROCE_WR_ATOMIC_CMP_SWAP] = UROCE_CQE_COMP_SWAP,
	[UROCE_WR_ATOMIC_FETCH_ADD] = UROCE_CQE_FETCH_ADD,
	[UROCE_WR_LOCAL_INV] = UROCE_CQE_LOCAL_INV,
	[UROCE_WR_BIND_MW] = UROCE_CQE_BIND_MW,
	[UROCE_WR_SEND_INV] = UROCE_CQE_SEND,
};

bool
sim_op_fetches(const struct sim_op *op)
{
	return op->opcode == UROCE_WR_RDMA_READ || op->opcode == UROCE_WR_ATOMIC_CMP_SWAP ||
	       op->opcode == UROCE_WR_ATOMIC_FETCH_ADD;
}

const char *
sim_op_name(uint8_t opcode)
{
	static const char *const name[UROCE_WR_OPCODES] = {"WRITE",     "WRITE_IMM", "SEND",
							   "SEND_IMM",  "READ",      "CAS",
							   "FETCH_ADD", "LOCAL_INV", "BIND_MW",
							   "SEND_INV"};

	return name[opcode];
}

static void
reap_commit(struct sim_end *e, struct sim_op *op)
{
	struct sim *s = e->home->sim;

	op->state = SIM_OP_DONE;
	e->reaped++;
	s->last_progress_ns = s->now_ns;
	s->model->commit(e, op);
}

/* Does op always have its own completion? */
static bool
reap_loud(const struct sim_end *e, const struct sim_op *op)
{
	return (op->flags & UROCE_WQE_SIGNALED) || e->sig_all;
}

static void
reap_send_error(struct sim_end *e, struct sim_op *op, uint8_t status)
{
	struct sim *s = e->home->sim;

	if (e->flushed && status != QP_WC_WR_FLUSH_ERR)
		sim_fail(s, "REQ-10: qp %06x: WQE %u ends in status %u behind a failed one", e->qpn,
			 e->reaped, status);
	if (!e->flushed && !s->model->has_cause(e, op, status))
		sim_fail(s, "CQE: qp %06x: WQE %u (%s) ends in status %u without cause (fault %u)",
			 e->qpn, e->reaped, sim_op_name(op->opcode), status, op->fault);
	s->model->failing(e, op, status);
	e->flushed = true;
	op->state = SIM_OP_FAILED;
	op->status = status;
	e->reaped++;
	s->stats.failed_wqes++;
	s->last_progress_ns = s->now_ns;
}

void
sim_reap_send(struct sim_end *e, uint32_t index, const struct uroce_cqe *cqe)
{
	struct sim *s = e->home->sim;
	struct sim_op *op;

	if (index < e->reaped || index >= e->posted) {
		sim_fail(s, "REQ-01: qp %06x: WQE %u completes %s", e->qpn, index,
			 index < e->reaped ? "twice" : "without having been posted");
		return;
	}
	while (e->reaped < index && !s->failed) {
		op = s->model->op(e, e->reaped);
		if (reap_loud(e, op) || e->flushed)
			sim_fail(s, "REQ-01: qp %06x: WQE %u completes, WQE %u before it has not",
				 e->qpn, index, e->reaped);
		else
			reap_commit(e, op);
	}
	if (s->failed)
		return;
	op = s->model->op(e, index);
	if (cqe->status != QP_WC_SUCCESS) {
		reap_send_error(e, op, cqe->status);
		return;
	}
	if (e->flushed || !reap_loud(e, op))
		sim_fail(s, "REQ-01: qp %06x: WQE %u: success that must not be", e->qpn, index);
	if (cqe->opcode != reap_opcode[op->opcode] ||
	    (sim_op_fetches(op) && cqe->byte_len != op->len))
		sim_fail(s, "CQE-01: qp %06x: WQE %u: wrong opcode or length in the completion",
			 e->qpn, index);
	reap_commit(e, op);
}

struct uroce_cqe *
sim_cqring_slot(const struct sim_cqring *r, uint32_t at)
{
	struct uroce_cqe *slot =
		(struct uroce_cqe *)((uint8_t *)r->hdr + UROCE_CQ_HDR) + (at & (r->entries - 1));
	uint32_t lap = (at >> __builtin_ctz(r->entries)) + 1;

	return __atomic_load_n(&slot->phase, __ATOMIC_ACQUIRE) == lap ? slot : NULL;
}

static bool
reap_ring(struct sim_node *n, struct sim_cq *cq, struct sim_cqring *r, uint32_t max)
{
	const struct uroce_cqe *slot;
	struct uroce_cqe cqe;

	for (; max > 0 && !n->sim->failed; max--) {
		slot = sim_cqring_slot(r, r->cons);
		if (slot == NULL)
			return true;
		memcpy(&cqe, slot, sizeof(cqe));
		__atomic_store_n(&r->hdr->cons, ++r->cons, __ATOMIC_RELEASE);
		n->cqes++;
		sim_digest_cqe(&n->sim->digest, &cqe);
		n->sim->model->cqe(n, cq, &cqe);
	}
	return false;
}

/* Entries left by a resize are read first (CQ-02). */
bool
sim_reap_cq(struct sim_node *n, struct sim_cq *cq, uint32_t max)
{
	if (cq->old.hdr != NULL) {
		if (!reap_ring(n, cq, &cq->old, max))
			return false;
		free(cq->old.hdr);
		cq->old.hdr = NULL;
	}
	return reap_ring(n, cq, &cq->ring, max);
}

/* CQ-01: poll until empty, arm, poll once more; nothing may be lost between the two. */
static bool
reap_event(struct sim_node *n, struct sim_cq *cq)
{
	if (!cq->event)
		return true;
	cq->event = false;
	sim_reap_cq(n, cq, UINT32_MAX);
	__atomic_store_n(&cq->ring.hdr->arm, cq->arm, __ATOMIC_RELEASE);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return sim_reap_cq(n, cq, UINT32_MAX);
}

/* Unsignaled WQEs that are retired: no later completion will show their success. */
static void
reap_silent(struct sim_node *n, const uint32_t *cons)
{
	struct sim *s = n->sim;
	uint32_t i;

	for (i = 0; i < s->nsides; i++) {
		struct sim_end *e = s->end_at[i];

		while (e->home == n && e->reaped < cons[i] && !e->cut && !s->failed) {
			struct sim_op *op = s->model->op(e, e->reaped);

			if (reap_loud(e, op) || e->flushed)
				sim_fail(s, "REQ-01: qp %06x: WQE %u retired without completion",
					 e->qpn, e->reaped);
			else
				reap_commit(e, op);
		}
	}
}

bool
sim_reap(struct sim_node *n)
{
	struct sim *s = n->sim;
	uint32_t cons[SIM_ENDS] = {0}, i;
	uint64_t had = n->cqes;
	bool empty = true;

	for (i = 0; i < s->nsides; i++) {
		if (s->end_at[i]->sq.hdr != NULL)
			cons[i] = __atomic_load_n(&s->end_at[i]->sq.hdr->cons, __ATOMIC_ACQUIRE);
	}
	for (i = 0; i < n->ncqs; i++) {
		struct sim_cq *cq = &n->cq[i];

		if (cq->ring.hdr->error)
			sim_fail(s, "EVT-08: node %u: CQ %u is dead", n->idx, i);
		if (cq->arm != 0)
			empty &= reap_event(n, cq);
		else
			empty &= sim_reap_cq(n, cq, sim_scale(&s->cli, 1, 64));
	}
	if (empty)
		reap_silent(n, cons);
	return n->cqes != had;
}
