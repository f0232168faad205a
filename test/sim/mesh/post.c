/* SPDX-License-Identifier: BSD-3-Clause */
/* Posts of clients: valid send WQEs, some with deliberate faults, and receives. */
#include <string.h>
#include <rte_common.h>
#include "qp/doorbell.h"
#include "mesh.h"

#define POST_WIN_READS (MESH_SLOTS / 2) /* the upper half of a window is only read */

bool
mesh_is_atomic(const struct mesh_op *op)
{
	return op->opcode == UROCE_WR_ATOMIC_CMP_SWAP || op->opcode == UROCE_WR_ATOMIC_FETCH_ADD;
}

bool
mesh_is_write(const struct mesh_op *op)
{
	return op->opcode == UROCE_WR_RDMA_WRITE || op->opcode == UROCE_WR_RDMA_WRITE_IMM;
}

bool
mesh_uses_recv(const struct mesh_op *op)
{
	return op->opcode == UROCE_WR_SEND || op->opcode == UROCE_WR_SEND_IMM ||
	       op->opcode == UROCE_WR_SEND_INV || op->opcode == UROCE_WR_RDMA_WRITE_IMM;
}

bool
mesh_is_local(const struct mesh_op *op)
{
	return op->opcode == UROCE_WR_LOCAL_INV || op->opcode == UROCE_WR_BIND_MW;
}

/* A critical length: 0, 1, and one more or less than whole packets. */
static uint32_t
post_length(struct mesh_side *side, uint32_t max)
{
	struct sim_rng *r = &side->m->load;
	uint32_t len;

	switch (sim_below(r, 6)) {
	case 0:
		return 0;
	case 1:
		return 1;
	case 2:
		len = side->mtu - 1 + sim_below(r, 3);
		break;
	case 3:
		len = sim_below(r, max / side->mtu + 1) * side->mtu + sim_below(r, 2);
		break;
	default:
		len = sim_scale(r, 1, max);
		break;
	}
	return RTE_MIN(len, max);
}

static void
post_data(struct mesh_side *side, struct mesh_op *op)
{
	op->data = side->m->table + sim_below(&side->m->load, SIM_TABLE_BYTES - op->len);
}

static void
post_rdma(struct mesh_side *side, struct mesh_op *op, const struct mesh_area *a, uint32_t off)
{
	op->at = a->off + off;
	op->va = a->told + off;
	op->rkey = a->mr.key;
}

static void
plan_atomic(struct mesh_side *side, struct mesh_op *op)
{
	struct mesh_side *peer = side->peer;
	struct sim_rng *r = &side->m->load;

	op->target = MESH_AT_WORD;
	op->len = 8;
	op->add = sim_rand(r);
	if (op->opcode == UROCE_WR_ATOMIC_FETCH_ADD && sim_chance(r, 500000)) {
		op->add = 1; /* the shared counter */
		op->compare = 1;
		post_rdma(side, op, &peer->node->counter, 0);
		return;
	}
	post_rdma(side, op, &peer->words, 0);
	op->orig = side->word;
	if (op->opcode == UROCE_WR_ATOMIC_FETCH_ADD) {
		op->compare = 0;
		side->word += op->add;
		return;
	}
	op->compare = sim_chance(r, 700000) ? side->word : sim_rand(r);
	if (op->compare == side->word)
		side->word = op->add;
}

/* An earlier WRITE whose slot is not overwritten while the READ is outstanding; or constants. */
static void
plan_read(struct mesh_side *side, struct mesh_op *op)
{
	struct mesh_side *peer = side->peer;
	struct sim_rng *r = &side->m->load;
	uint32_t i = side->posted - sim_between(r, 1, 12), max;

	if (i < side->posted && mesh_is_write(&side->op[i]) && side->op[i].target == MESH_AT_SLOT &&
	    side->op[i].fault == MESH_OK && !side->op[i].maybe && !peer->slots.gone) {
		op->target = MESH_AT_SLOT;
		op->len = sim_below(r, side->op[i].len + 1);
		op->data = side->op[i].data;
		post_rdma(side, op, &peer->slots, i % MESH_SLOTS * peer->slots.stride);
		return;
	}
	op->target = MESH_AT_CONST;
	max = RTE_MIN(side->m->cfg.maxlen, MESH_CONST_LEN + 0u);
	op->len = post_length(side, max);
	post_rdma(side, op, &peer->node->consts, sim_below(r, MESH_CONST_LEN - op->len + 1));
	op->data = peer->node->base + op->at;
}

static void
plan_write(struct mesh_side *side, struct mesh_op *op)
{
	struct mesh_side *peer = side->peer;

	op->len = post_length(side, side->m->cfg.maxlen);
	post_data(side, op);
	post_rdma(side, op, &peer->slots, side->posted % MESH_SLOTS * peer->slots.stride);
	if (peer->slots.gone)
		op->fault = op->len != 0 ? MESH_GONE : MESH_OK;
}

/* Plans a WRITE or READ through a window of the peer, or a SEND that invalidates it. */
static bool
plan_through_window(struct mesh_side *side, struct mesh_op *op)
{
	struct mesh *m = side->m;
	uint32_t i = sim_below(&m->load, MESH_WINS), slot = side->posted % POST_WIN_READS;
	struct mesh_win *w = &side->peer->win[i];
	bool stale = w->state == MESH_WIN_FREE && w->gen > 1 && sim_chance(&m->load, m->cfg.faults);

	if (!w->known && !stale)
		return false;
	op->win = (uint8_t)i;
	op->gen = w->gen;
	op->rkey = w->key;
	if (i == 0 && w->state == MESH_WIN_BOUND && sim_chance(&m->load, 250000)) {
		op->opcode = UROCE_WR_SEND_INV;
		op->flags |= UROCE_WQE_FENCE; /* else READs before it lose the window */
		op->len = post_length(side, m->cfg.maxlen);
		op->imm = w->key;
		post_data(side, op);
		w->known = false;
		w->state = MESH_WIN_LEAVING;
		return true;
	}
	op->target = MESH_AT_WIN;
	op->opcode = sim_chance(&m->load, 600000) ? UROCE_WR_RDMA_WRITE : UROCE_WR_RDMA_READ;
	op->len = sim_between(&m->load, stale, RTE_MIN(m->cfg.maxlen, MESH_WIN_LEN + 0u));
	if (op->opcode == UROCE_WR_RDMA_READ)
		slot += POST_WIN_READS;
	op->at = w->off + slot * MESH_WIN_LEN;
	op->va = (w->zero_based ? 0 : w->iova) + slot * MESH_WIN_LEN;
	op->maybe = w->state != MESH_WIN_BOUND;
	op->fault = stale ? MESH_STALE_WIN : MESH_OK;
	if (op->opcode == UROCE_WR_RDMA_READ)
		op->data = side->peer->node->base + op->at;
	else
		post_data(side, op);
	return true;
}

/* The peer's WQEs through a window that will be invalidated may fail or succeed. */
static void
plan_window_leaves(struct mesh_side *side, struct mesh_win *w)
{
	uint32_t i, win = (uint32_t)(w - side->win);

	w->state = MESH_WIN_LEAVING;
	w->known = !side->m->cfg.must && sim_chance(&side->m->load, 300000);
	for (i = 0; i < side->peer->posted; i++) {
		if (side->peer->op[i].target == MESH_AT_WIN && side->peer->op[i].win == win)
			side->peer->op[i].maybe = true;
	}
	side->conn->trouble = true;
}

/* Plans a bind or an invalidation of an own window. */
static bool
plan_own_window(struct mesh_side *side, struct mesh_op *op)
{
	struct mesh *m = side->m;
	uint32_t i = sim_below(&m->load, MESH_WINS);
	struct mesh_win *w = &side->win[i];

	if (w->state == MESH_WIN_BINDING || w->state == MESH_WIN_LEAVING ||
	    (w->state == MESH_WIN_BOUND && (m->cfg.must || !sim_chance(&m->load, 200000))))
		return false;
	op->win = (uint8_t)i;
	op->gen = w->gen;
	op->imm = w->key;
	op->flags |= UROCE_WQE_SIGNALED;
	op->opcode = i == 0 && w->state == MESH_WIN_BOUND ? UROCE_WR_LOCAL_INV : UROCE_WR_BIND_MW;
	if (w->state == MESH_WIN_BOUND) {
		plan_window_leaves(side, w);
		op->rkey = w->key; /* the key does not change */
		return true;
	}
	w->state = MESH_WIN_BINDING;
	w->zero_based = sim_chance(&m->load, 300000);
	w->iova = side->wins.mr.iova + (w->off - side->wins.off);
	/* Avoids keys of an earlier bind that an op still uses. */
	w->key = (w->key & ~0xffu) | ((w->key + 1 + sim_below(&m->load, 8)) & 0xff);
	op->rkey = w->key;
	op->len = MESH_SLOTS * MESH_WIN_LEN;
	return true;
}

static void
plan_datagram(struct mesh_side *side, struct mesh_op *op)
{
	struct mesh *m = side->m;
	struct mesh_side *to;

	op->opcode = sim_chance(&m->load, 500000) ? UROCE_WR_SEND : UROCE_WR_SEND_IMM;
	op->len = post_length(side, RTE_MIN(m->cfg.maxlen, 4096u));
	post_data(side, op);
	do
		to = &m->side[sim_below(&m->load, m->nsides)];
	while (to->type != QP_TYPE_UD);
	op->to = to;
	op->to_qpn = to->qpn;
	op->group = -1;
	op->ah = (int8_t)(2 * to->node->idx + sim_below(&m->load, 2));
	op->qkey = sim_chance(&m->load, 300000) ? 0x80000000u : side->attr.qkey;
	if (sim_chance(&m->load, m->cfg.mcast)) {
		op->group = (int8_t)sim_below(&m->load, MESH_GROUPS);
		op->ah = (int8_t)(2 * m->cfg.nodes + (uint32_t)op->group);
		op->to_qpn = WIRE_MULTICAST_QPN;
	}
}

static void
plan_connected(struct mesh_side *side, struct mesh_op *op)
{
	static const uint8_t rc[] = {UROCE_WR_SEND,
				     UROCE_WR_SEND_IMM,
				     UROCE_WR_RDMA_WRITE,
				     UROCE_WR_RDMA_WRITE_IMM,
				     UROCE_WR_RDMA_READ,
				     UROCE_WR_RDMA_READ,
				     UROCE_WR_ATOMIC_CMP_SWAP,
				     UROCE_WR_ATOMIC_FETCH_ADD};
	struct mesh *m = side->m;

	if (side->type == QP_TYPE_RC && sim_chance(&m->load, m->cfg.windows) &&
	    (sim_chance(&m->load, 400000) ? plan_own_window(side, op)
					  : plan_through_window(side, op)))
		return;
	op->opcode = rc[sim_below(&m->load, side->type == QP_TYPE_RC ? 8 : 4)];
	if (mesh_is_atomic(op)) {
		plan_atomic(side, op);
	} else if (op->opcode == UROCE_WR_RDMA_READ) {
		plan_read(side, op);
	} else if (mesh_is_write(op)) {
		plan_write(side, op);
	} else {
		op->len = post_length(side, m->cfg.maxlen);
		post_data(side, op);
	}
}

/* Adds a fault, if the operation can have one. */
static void
plan_fault(struct mesh_side *side, struct mesh_op *op)
{
	struct sim_rng *r = &side->m->load;
	bool keys = !(op->flags & UROCE_WQE_INLINE) && op->len != 0;
	uint8_t f = (uint8_t)sim_between(r, MESH_BAD_LKEY, MESH_BAD_SENDINV);

	if (op->fault != MESH_OK || op->maybe || op->target == MESH_AT_WIN ||
	    op->opcode == UROCE_WR_SEND_INV || mesh_is_atomic(op) ||
	    !sim_chance(r, side->m->cfg.faults))
		return;
	if (mesh_is_local(op)) {
		if (op->opcode == UROCE_WR_BIND_MW && op->len != 0)
			op->fault = MESH_BAD_BIND;
		return;
	}
	if (f <= MESH_BAD_RANGE ? keys : f <= MESH_BAD_NSGE)
		op->fault = f;
	else if (f >= MESH_BAD_AH && f <= MESH_BAD_QKEY && side->type == QP_TYPE_UD)
		op->fault = f == MESH_TOO_LONG && (!keys || side->local.len <= 4096) ? MESH_OK : f;
	else if ((f == MESH_BAD_RKEY || f == MESH_BAD_RRANGE) && op->len != 0 &&
		 side->type == QP_TYPE_RC && (mesh_is_write(op) || sim_op_fetches(&op->sim_op)))
		op->fault = f;
	else if (f == MESH_BAD_INV && side->type == QP_TYPE_RC && op->opcode == UROCE_WR_SEND)
		op->fault = f;
	else if (f == MESH_BAD_SENDINV && side->type == QP_TYPE_RC && op->opcode == UROCE_WR_SEND)
		op->fault = f;
	if (op->fault == MESH_BAD_INV) {
		op->opcode = UROCE_WR_LOCAL_INV;
		op->flags &= (uint8_t)~UROCE_WQE_INLINE;
		op->len = 0;
		op->imm = side->win[1].key; /* of a type 1 window: cannot be invalidated (MEM-04) */
	} else if (op->fault == MESH_BAD_SENDINV) {
		op->opcode = UROCE_WR_SEND_INV;
		op->imm = side->peer->slots.mr.key;
	} else if (op->fault == MESH_BAD_RKEY) {
		op->rkey ^= 1u << sim_below(r, SIM_KEY_LOW_BITS);
	} else if (op->fault == MESH_BAD_RRANGE) {
		op->va = op->rkey == side->peer->slots.mr.key
				 ? side->peer->slots.mr.iova + side->peer->slots.len - op->len + 1
				 : op->va + MESH_CONST_LEN;
	} else if (op->fault == MESH_BAD_QKEY) {
		op->qkey = 0x12;
	}
}

static void
post_plan(struct mesh_side *side, struct mesh_op *op)
{
	struct sim_rng *r = &side->m->load;

	memset(op, 0, sizeof(*op));
	op->group = -1;
	op->imm = (uint32_t)sim_rand(r);
	if (sim_chance(r, 150000))
		op->flags |= UROCE_WQE_FENCE;
	if (sim_chance(r, 600000))
		op->flags |= UROCE_WQE_SIGNALED;
	if (sim_chance(r, 300000))
		op->flags |= UROCE_WQE_SOLICITED;
	if (side->type == QP_TYPE_UD)
		plan_datagram(side, op);
	else
		plan_connected(side, op);
	if (!sim_op_fetches(&op->sim_op) && !mesh_is_local(op) && op->len <= side->cap.max_inline &&
	    sim_chance(r, 500000))
		op->flags |= UROCE_WQE_INLINE;
	plan_fault(side, op);
	if (side->local.gone && op->fault == MESH_OK && op->len != 0 && !mesh_is_local(op) &&
	    !(op->flags & UROCE_WQE_INLINE))
		op->fault = MESH_BAD_LKEY;
	op->npkts = mesh_is_local(op) ? 0 : RTE_MAX((op->len + side->mtu - 1) / side->mtu, 1u);
	op->loc = side->local.off + side->posted % MESH_SLOTS * side->local.stride;
	op->state = SIM_OP_POSTED;
}

/* Cuts len bytes at offset off of area a into up to max pieces. Returns their number. */
static uint32_t
post_sges(struct mesh *m, const struct mesh_area *a, uint32_t off, uint32_t len, uint32_t max,
	  uint8_t fault, uint8_t *out)
{
	struct sim_rng *r = &m->cli;
	uint32_t n = len == 0 ? sim_below(r, 2) : sim_between(r, 1, max), i;
	bool spoil = fault == MESH_BAD_LKEY || fault == MESH_BAD_RANGE;

	for (i = 0; i < n; i++) {
		struct uroce_sge sge = {.addr = a->mr.iova + off, .lkey = a->mr.key};

		sge.length = i + 1 == n ? len : sim_below(r, len + 1);
		off += sge.length;
		len -= sge.length;
		if (spoil && sge.length != 0) {
			if (fault == MESH_BAD_LKEY && !a->gone)
				sge.lkey ^= 1u << sim_below(r, SIM_KEY_LOW_BITS);
			if (fault == MESH_BAD_RANGE)
				sge.addr = a->mr.iova + a->mr.len - sge.length + 1;
			spoil = false;
		}
		memcpy(out + i * sizeof(sge), &sge, sizeof(sge));
	}
	return n;
}

/* Fills the fields of each kind into the WQE. */
static void
post_fill(struct mesh_side *side, const struct mesh_op *op, struct uroce_send_wqe *w)
{
	const struct mesh_win *win = &side->win[op->win];
	bool swap = op->opcode == UROCE_WR_ATOMIC_CMP_SWAP;

	w->imm = op->imm;
	if (op->opcode == UROCE_WR_BIND_MW) {
		w->bind.addr = side->wins.mr.iova + (win->off - side->wins.off);
		w->bind.length = op->len;
		w->bind.mr_lkey =
			op->fault == MESH_BAD_BIND ? side->slots.mr.key : side->wins.mr.key;
		w->bind.mw_rkey = op->imm;
		w->bind.new_rkey = op->rkey;
		w->bind.access =
			MEM_REMOTE_WRITE | MEM_REMOTE_READ | (win->zero_based ? MEM_ZERO_BASED : 0);
	} else if (side->type == QP_TYPE_UD) {
		w->ud.ah = op->fault == MESH_BAD_AH ? MESH_AHS - 1 : (uint32_t)op->ah;
		w->ud.remote_qpn = op->to_qpn;
		w->ud.remote_qkey = op->qkey;
	} else if (!mesh_is_local(op)) {
		w->rdma.remote_addr = op->va;
		w->rdma.rkey = op->rkey;
		w->rdma.compare_add = swap ? op->compare : op->add;
		w->rdma.swap = op->add;
	}
}

static void
post_send(struct mesh_side *side)
{
	struct mesh *m = side->m;
	struct mesh_op *op = &side->op[side->posted];
	struct uroce_send_wqe w = {0};
	uint8_t *slot = sim_ring_slot(&m->sim, &side->sq, "SQ of qp", side->qpn);
	bool whole = op->fault == MESH_TOO_LONG; /* the whole region in one datagram */

	w.wr_id = 1ull << 56 | (uint64_t)(side->conn->life & 0xff) << 48 |
		  (uint64_t)side->idx << 32 | side->posted;
	w.opcode = op->fault == MESH_BAD_OPCODE ? 99 : op->opcode;
	w.flags = op->flags;
	post_fill(side, op, &w);
	if (!sim_op_fetches(&op->sim_op) && !mesh_is_local(op) && !(op->flags & UROCE_WQE_INLINE) &&
	    op->len != 0) {
		memcpy(side->node->mem + op->loc, op->data, op->len);
		memcpy(side->node->base + op->loc, op->data, op->len);
	}
	if (op->flags & UROCE_WQE_INLINE) {
		w.num = (uint16_t)op->len;
		memcpy(slot + UROCE_SEND_WQE_HDR, op->data, op->len);
	} else if (!mesh_is_local(op)) {
		w.num = (uint16_t)post_sges(m, &side->local, whole ? 0 : op->loc - side->local.off,
					    whole ? side->local.len : op->len,
					    side->cap.max_send_sge, op->fault,
					    slot + UROCE_SEND_WQE_HDR);
	}
	if (op->fault == MESH_BAD_NSGE)
		w.num = (uint16_t)(RTE_MAX(side->cap.max_send_sge, side->cap.max_inline) + 1);
	memcpy(slot, &w, sizeof(w));
	sim_log(&m->sim, "node %u qp %06x posts WQE %u: %s %u bytes flags %x fault %u win %u%s",
		side->node->idx, side->qpn, side->posted, sim_op_name(op->opcode), op->len,
		op->flags, op->fault, op->win, op->maybe ? " (may fail)" : "");
	side->posted++;
}

static bool
post_recvs(struct mesh_side *side)
{
	struct mesh *m = side->m;
	uint32_t had = side->rposted, n = sim_between(&m->cli, 1, 16);

	for (; n > 0 && side->rposted - side->rreaped < side->cap.max_recv_wr; n--) {
		uint32_t i = side->rposted % MESH_SLOTS;
		uint8_t *slot = sim_ring_slot(&m->sim, &side->rq, "receive queue of qp", side->qpn);
		struct uroce_recv_wqe w = {.wr_id = 2ull << 56 |
						    (uint64_t)(side->conn->life & 0xff) << 48 |
						    (uint64_t)side->idx << 32 | side->rposted};

		side->recv[i].off = side->recvs.off + i * side->recvs.stride;
		side->recv[i].state = SIM_OP_POSTED;
		w.num_sge = post_sges(m, &side->recvs, i * side->recvs.stride,
				      m->cfg.maxlen + WIRE_GRH_LEN, side->cap.max_recv_sge, MESH_OK,
				      slot + UROCE_RECV_WQE_HDR);
		memcpy(slot, &w, sizeof(w));
		side->rposted++;
	}
	if (side->rposted == had)
		return false;
	sim_ring_publish(&side->sim_end, &side->rq);
	return true;
}

bool
mesh_post(struct mesh_side *side)
{
	struct mesh *m = side->m;
	uint32_t had = side->posted, n;
	bool busy = false;

	if (side->qp != NULL && side->qp->conn.state != QP_RESET && !side->dead &&
	    side->srq == NULL && m->now_ns >= side->recv_ns)
		busy = post_recvs(side);
	if (sim_chance(&m->cli, m->cfg.recv_late) && m->now_ns >= side->recv_ns)
		side->recv_ns = m->now_ns + sim_scale(&m->cli, 1000, 1000000);
	if (!mesh_may_post(side))
		return busy;
	for (n = sim_between(&m->cli, 1, 8); n > 0 && side->posted < side->nops &&
					     side->posted - side->reaped < side->cap.max_send_wr;
	     n--) {
		/* In SQE only a few posts, to show that they are flushed (QP-17). */
		if (side->qp->conn.state == QP_SQE && !sim_chance(&m->cli, 300000))
			break;
		post_plan(side, &side->op[side->posted]);
		post_send(side);
	}
	if (side->posted != had)
		sim_ring_publish(&side->sim_end, &side->sq);
	return busy || side->posted != had;
}

void
mesh_post_dead(struct mesh_side *side)
{
	struct mesh_op *op = &side->op[side->posted];

	if (side->posted - side->reaped < side->cap.max_send_wr && side->posted < MESH_OPS) {
		memset(op, 0, sizeof(*op));
		op->opcode = UROCE_WR_SEND;
		op->group = -1;
		op->data = side->m->table;
		op->npkts = 1;
		op->state = SIM_OP_POSTED;
		post_send(side);
		sim_ring_publish(&side->sim_end, &side->sq);
	}
	if (side->srq == NULL)
		post_recvs(side);
}

bool
mesh_srq_post(struct mesh_node *n)
{
	struct mesh *m = n->m;
	bool busy = false;
	uint32_t i, k;

	for (i = 0; i < m->cfg.workers; i++) {
		struct mesh_srq *q = &n->worker[i].srq;
		uint32_t had = q->posted;

		while (q->next.hdr == NULL && q->posted - q->srq.head < q->ring.entries &&
		       !sim_chance(&m->cli, 100000)) {
			struct mesh_recv *r = &q->recv[q->posted % MESH_SLOTS];
			struct uroce_recv_wqe w = {.wr_id = 3ull << 56 | (uint64_t)i << 32 |
							    q->posted};
			uint8_t *slot;

			if (r->state == SIM_OP_POSTED)
				break;
			slot = sim_ring_slot(&m->sim, &q->ring, "SRQ of node", n->idx);
			k = q->posted % MESH_SLOTS * q->area.stride;
			r->off = q->area.off + k;
			r->state = SIM_OP_POSTED;
			w.num_sge = post_sges(m, &q->area, k, m->cfg.maxlen + WIRE_GRH_LEN, 2,
					      MESH_OK, slot + UROCE_RECV_WQE_HDR);
			memcpy(slot, &w, sizeof(w));
			q->posted++;
		}
		__atomic_store_n(&q->ring.hdr->prod, q->ring.prod, __ATOMIC_RELEASE);
		busy |= q->posted != had;
	}
	return busy;
}
