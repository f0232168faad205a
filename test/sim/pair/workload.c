/* SPDX-License-Identifier: BSD-3-Clause */
/* The WQEs that the QPs of a schedule post, and the faults of some of them. */
#include <rte_common.h>
#include "pair.h"

#define LOAD_SIDE_BYTES (256u << 10) /* beyond this, the messages of a side stay short */

static const uint8_t load_mixes[][8] = {
	{UROCE_WR_SEND, UROCE_WR_SEND_IMM, UROCE_WR_RDMA_WRITE, UROCE_WR_RDMA_WRITE_IMM,
	 UROCE_WR_RDMA_READ, UROCE_WR_RDMA_READ, UROCE_WR_ATOMIC_CMP_SWAP,
	 UROCE_WR_ATOMIC_FETCH_ADD},
	{UROCE_WR_SEND, UROCE_WR_SEND, UROCE_WR_SEND, UROCE_WR_SEND, UROCE_WR_SEND, UROCE_WR_SEND,
	 UROCE_WR_SEND, UROCE_WR_SEND_IMM},
	{UROCE_WR_RDMA_WRITE, UROCE_WR_RDMA_WRITE, UROCE_WR_RDMA_WRITE, UROCE_WR_RDMA_WRITE,
	 UROCE_WR_RDMA_WRITE, UROCE_WR_RDMA_WRITE, UROCE_WR_RDMA_WRITE, UROCE_WR_RDMA_WRITE_IMM},
	{UROCE_WR_RDMA_READ, UROCE_WR_RDMA_READ, UROCE_WR_RDMA_READ, UROCE_WR_RDMA_READ,
	 UROCE_WR_RDMA_READ, UROCE_WR_RDMA_READ, UROCE_WR_RDMA_READ, UROCE_WR_SEND},
	{UROCE_WR_RDMA_READ, UROCE_WR_RDMA_READ, UROCE_WR_RDMA_READ, UROCE_WR_RDMA_WRITE,
	 UROCE_WR_RDMA_WRITE, UROCE_WR_RDMA_WRITE, UROCE_WR_RDMA_WRITE_IMM, UROCE_WR_RDMA_READ},
	{UROCE_WR_SEND_IMM, UROCE_WR_RDMA_WRITE_IMM, UROCE_WR_SEND_IMM, UROCE_WR_RDMA_WRITE_IMM,
	 UROCE_WR_SEND_IMM, UROCE_WR_RDMA_WRITE_IMM, UROCE_WR_SEND, UROCE_WR_RDMA_WRITE_IMM},
	{UROCE_WR_ATOMIC_CMP_SWAP, UROCE_WR_ATOMIC_FETCH_ADD, UROCE_WR_ATOMIC_FETCH_ADD,
	 UROCE_WR_ATOMIC_CMP_SWAP, UROCE_WR_ATOMIC_FETCH_ADD, UROCE_WR_ATOMIC_FETCH_ADD,
	 UROCE_WR_RDMA_READ, UROCE_WR_SEND},
};

bool
pair_op_uses_recv(const struct pair_op *op)
{
	return op->opcode == UROCE_WR_SEND || op->opcode == UROCE_WR_SEND_IMM ||
	       op->opcode == UROCE_WR_RDMA_WRITE_IMM;
}

/* A critical length: 0, 1, and one more or less than whole packets. */
static uint32_t
load_length(struct pair *s, uint32_t mtu, uint32_t spent)
{
	uint32_t max = spent > LOAD_SIDE_BYTES ? RTE_MIN(2 * mtu, s->cfg.maxlen) : s->cfg.maxlen;
	uint32_t len;

	switch (sim_below(&s->load, 8)) {
	case 0:
		len = 0;
		break;
	case 1:
		len = 1;
		break;
	case 2:
		len = mtu - 1 + sim_below(&s->load, 3);
		break;
	case 3:
	case 4:
		len = sim_scale(&s->load, 1, RTE_MAX(max / mtu, 1u)) * mtu - 1 +
		      sim_below(&s->load, 3);
		break;
	default:
		len = sim_scale(&s->load, 1, max);
		break;
	}
	return RTE_MIN(len, max);
}

static void
load_op(struct pair *s, struct pair_side *side, struct pair_op *op, uint32_t spent)
{
	const struct pair_cfg *c = &s->cfg;
	uint32_t mix = c->mix < RTE_DIM(load_mixes) ? c->mix : 0;
	bool atomic;

	op->opcode = load_mixes[mix][sim_below(&s->load, 8)];
	atomic = sim_op_fetches(&op->sim_op) && op->opcode != UROCE_WR_RDMA_READ;
	op->len = atomic ? 8 : load_length(s, side->mtu, spent);
	op->npkts = RTE_MAX((op->len + side->mtu - 1) / side->mtu, 1u);
	op->recv = UINT32_MAX;
	op->imm = (uint32_t)sim_rand(&s->load);
	if (sim_chance(&s->load, mix == 4 ? 500000 : 150000))
		op->flags |= UROCE_WQE_FENCE;
	if (sim_chance(&s->load, 300000) || (c->cq_events == 2 && pair_op_uses_recv(op)))
		op->flags |= UROCE_WQE_SOLICITED;
	if (!sim_op_fetches(&op->sim_op) && op->len <= side->cap.max_inline &&
	    sim_chance(&s->load, 500000))
		op->flags |= UROCE_WQE_INLINE;
	op->data = s->table + sim_below(&s->load, SIM_TABLE_BYTES - op->len);
	if (atomic) {
		op->roff = 8 * sim_below(&s->load, PAIR_ATOMS);
		op->va = side->peer->atoms.mr.iova + op->roff;
		op->rkey = side->peer->atoms.mr.key;
		op->swap_add = sim_rand(&s->load);
		return;
	}
	op->roff = sim_below(&s->load, (uint32_t)side->peer->window.len - op->len + 1);
	op->va = side->peer->window.mr.iova + op->roff;
	op->rkey = side->peer->window.mr.key;
}

void
pair_plan_side(struct pair *s, struct pair_side *side)
{
	const struct pair_cfg *c = &s->cfg;
	uint32_t signaled = sim_below(&s->load, 3) * 500000, i, spent = 0, psn = 0;

	side->nops = c->oneway && (side->idx & 1) ? 0 : sim_between(&s->load, 1, c->ops);
	for (i = 0; i < side->nops; i++) {
		struct pair_op *op = &side->op[i];

		load_op(s, side, op, spent);
		/* The last completion shows that all are done; sometimes there is none. */
		if (sim_chance(&s->load, signaled) ||
		    (i + 1 == side->nops && sim_chance(&s->load, 750000)))
			op->flags |= UROCE_WQE_SIGNALED;
		op->first = psn;
		psn += op->npkts;
		spent += op->len;
	}
	side->total = psn;
	side->attr.sq_psn = (uint32_t)sim_rand(&s->load) & WIRE_PSN_MASK;
	if (c->wrap)
		side->attr.sq_psn = (WIRE_PSN_MASK - sim_below(&s->load, psn + 2)) & WIRE_PSN_MASK;
	side->rtr_ns = s->now_ns + (c->timeout == 0 ? 0 : sim_below(&s->load, 20000));
	side->rts_ns = side->rtr_ns + sim_below(&s->load, 20000);
	side->path_ns = c->late_path ? side->rtr_ns + sim_below(&s->load, 100000) : 0;
	side->recv_ns = c->recv_late ? s->now_ns + sim_scale(&s->load, 1000, 2000000) : 0;
	side->sqd_ns = c->sqd ? side->rts_ns + sim_scale(&s->load, 1000, 500000) : SIM_NEVER;
	side->progress_ns = side->rts_ns;
	side->dereg_ns = SIM_NEVER;
	if (c->dereg && sim_chance(&s->load, 500000))
		side->dereg_ns = side->rts_ns + sim_scale(&s->load, 1000, 300000);
}

/* Receives for the peer's messages, one each, and some spare ones. */
void
pair_plan_recvs(struct pair *s, struct pair_side *side)
{
	struct pair_side *peer = side->peer;
	uint32_t i, extra = sim_below(&s->load, 4);

	for (i = 0; i < peer->nops; i++) {
		struct pair_op *op = &peer->op[i];
		struct pair_recv *r;

		if (!pair_op_uses_recv(op))
			continue;
		op->recv = side->nrecvs;
		r = &side->recv[side->nrecvs++];
		r->cap = op->opcode == UROCE_WR_RDMA_WRITE_IMM ? sim_below(&s->load, 64) : op->len;
		if (op->fault == FAULT_LONG)
			r->cap -= 1 + sim_below(&s->load, r->cap);
		else if (sim_chance(&s->load, 500000))
			r->cap += sim_scale(&s->load, 1, 256);
		r->bad_key = op->fault == FAULT_RECV_KEY;
	}
	for (i = 0; i < extra; i++)
		side->recv[side->nrecvs++].cap = sim_below(&s->load, 256);
}

/* The WQEs that can have each fault, and the status that must follow. */
static const struct {
	uint8_t status; /* at the requester */
	bool local;     /* found before anything is sent */
	bool send, write, read, atomic;
	bool keys; /* needs SGEs, so no inline data */
} load_faults[FAULT_KINDS] = {
	[FAULT_NONE] = {QP_WC_SUCCESS, false, false, false, false, false, false},
	[FAULT_LKEY] = {QP_WC_LOC_PROT_ERR, true, true, true, true, true, true},
	[FAULT_LRANGE] = {QP_WC_LOC_PROT_ERR, true, true, true, true, true, true},
	[FAULT_LPD] = {QP_WC_LOC_PROT_ERR, true, true, true, true, true, true},
	[FAULT_LACCESS] = {QP_WC_LOC_PROT_ERR, true, false, false, true, true, true},
	[FAULT_OPCODE] = {QP_WC_LOC_QP_OP_ERR, true, true, true, true, true, false},
	[FAULT_NSGE] = {QP_WC_LOC_QP_OP_ERR, true, true, true, true, true, true},
	[FAULT_RKEY] = {QP_WC_REM_ACCESS_ERR, false, false, true, true, true, false},
	[FAULT_RRANGE] = {QP_WC_REM_ACCESS_ERR, false, false, true, true, true, false},
	[FAULT_RWRAP] = {QP_WC_REM_ACCESS_ERR, false, false, true, true, false, false},
	[FAULT_RPD] = {QP_WC_REM_ACCESS_ERR, false, false, true, true, true, false},
	[FAULT_RACCESS] = {QP_WC_REM_ACCESS_ERR, false, false, true, true, true, false},
	[FAULT_ALIGN] = {QP_WC_REM_INV_REQ_ERR, false, false, false, false, true, false},
	[FAULT_LONG] = {QP_WC_REM_INV_REQ_ERR, false, true, false, false, false, false},
	[FAULT_RECV_KEY] = {QP_WC_REM_OP_ERR, false, true, false, false, false, false},
};

uint8_t
pair_fault_status(uint8_t fault)
{
	return load_faults[fault].status;
}

bool
pair_fault_is_local(uint8_t fault)
{
	return load_faults[fault].local;
}

static bool
load_fault_fits(const struct pair_op *op, uint8_t fault, bool srq)
{
	bool read = op->opcode == UROCE_WR_RDMA_READ;
	bool write = op->opcode == UROCE_WR_RDMA_WRITE || op->opcode == UROCE_WR_RDMA_WRITE_IMM;

	if (srq && (fault == FAULT_LONG || fault == FAULT_RECV_KEY))
		return false; /* the owner of the receive is not known */
	if (op->len < 2 || ((op->flags & UROCE_WQE_INLINE) && load_faults[fault].keys) ||
	    (fault == FAULT_LACCESS && op->len > 4096))
		return false;
	if (sim_op_fetches(&op->sim_op) && !read)
		return load_faults[fault].atomic;
	return read    ? load_faults[fault].read
	       : write ? load_faults[fault].write
		       : load_faults[fault].send;
}

static void
load_fault_apply(struct pair_side *side, struct pair_op *op, uint8_t fault)
{
	struct pair_side *peer = side->peer;

	op->fault = fault;
	switch (fault) {
	case FAULT_RKEY:
		op->rkey ^= 1u << sim_below(&side->pair->load, 32);
		break;
	case FAULT_RRANGE:
		if (op->rkey == peer->atoms.mr.key)
			op->va = peer->atoms.mr.iova + peer->atoms.len;
		else
			op->va = peer->window.mr.iova + peer->window.len - op->len + 1;
		break;
	case FAULT_ALIGN:
		op->va += 1 + sim_below(&side->pair->load, 7);
		break;
	case FAULT_RWRAP:
		op->va = UINT64_MAX;
		break;
	case FAULT_RPD:
		op->rkey = peer->node->idle.mr.key;
		op->va = (peer->node->idle.mr.iova + 7) & ~7ull;
		break;
	case FAULT_RACCESS:
		op->rkey = peer->local.mr.key;
		op->va = (peer->local.mr.iova + 7) & ~7ull;
		break;
	default:
		break; /* the WQE is corrupted when it is posted */
	}
}

void
pair_plan_faults(struct pair *s)
{
	uint32_t n = sim_between(&s->load, 1, s->nsides / 2), tries;

	for (tries = 0; tries < 64 && n > 0; tries++) {
		struct pair_side *side = &s->side[sim_below(&s->load, s->nsides)];
		uint8_t fault = (uint8_t)sim_between(&s->load, 1, FAULT_KINDS - 1);
		struct pair_op *op;

		if (side->nops == 0)
			continue;
		op = &side->op[sim_below(&s->load, side->nops)];
		if (op->fault != FAULT_NONE || !load_fault_fits(op, fault, s->cfg.srq))
			continue;
		load_fault_apply(side, op, fault);
		n--;
	}
}
