/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * UC and UD, frame by frame. A frame that is built must be the next of its QP's WQEs, byte for
 * byte. A frame that arrives must be executed at once, or wait behind others for memory that is
 * late. When it is executed, the model computes the required effect from the frame alone, so that
 * packets of an earlier life count as well: bytes of a WRITE are in base before the engine gets
 * them, and a message that arrived whole is due (RSP-06, WIRE-07, WIRE-08, WIRE-10). For RC the
 * model only records which WQEs have started.
 */
#include <string.h>
#include <rte_common.h>
#include "mesh.h"
#include "responder/responder.h"
#include "wire/icrc.h"
#include "wire/psn.h"

uint64_t
mesh_hash(uint64_t h, const uint8_t *p, uint32_t len)
{
	uint64_t v;

	for (; len >= 8; len -= 8, p += 8) {
		memcpy(&v, p, 8);
		h = (h ^ v) * 0x100000001b3u;
		h ^= h >> 29;
	}
	for (; len > 0; len--, p++)
		h = (h ^ *p ^ 0x100) * 0x100000001b3u;
	return h;
}

uint64_t
mesh_hash_pieces(const uint8_t *p, uint32_t len, uint32_t mtu)
{
	uint64_t h = MESH_HASH;
	uint32_t n;

	for (; len > 0; len -= n, p += n) {
		n = RTE_MIN(len, mtu);
		h = mesh_hash(h, p, n);
	}
	return h;
}

static void
model_begun(struct mesh_side *side, uint32_t op)
{
	if (op < side->begun)
		return;
	if (side->qp->conn.state == QP_SQD)
		sim_fail(&side->m->sim, "QP-15: qp %06x: WQE %u begun in SQD", side->qpn, op);
	side->begun = op + 1;
}

/* RC: the WQE that a PSN belongs to. */
static void
built_reliable(struct mesh_side *side, const struct wire_pkt *pkt)
{
	uint32_t rel = psn_diff(pkt->psn, side->attr.sq_psn) & WIRE_PSN_MASK, i;

	for (i = 0; i < side->posted; i++) {
		const struct mesh_op *op = &side->op[i];

		if (rel < op->npkts) {
			if (op->state == SIM_OP_DONE || op->state == SIM_OP_FAILED)
				sim_fail(&side->m->sim,
					 "REQ-10: qp %06x: WQE %u is over, sent again", side->qpn,
					 i);
			model_begun(side, i);
			return;
		}
		rel -= op->npkts;
	}
	sim_fail(&side->m->sim, "WIRE-06: qp %06x: request with a PSN of no WQE", side->qpn);
}

static const char *
built_wrong(const struct mesh_side *side, const struct mesh_op *op, const struct wire_pkt *pkt)
{
	uint32_t off = side->tx_k * side->mtu, flags = pkt->op->flags;
	bool first = side->tx_k == 0, last = side->tx_k + 1 == op->npkts;
	bool imm = op->opcode == UROCE_WR_SEND_IMM || op->opcode == UROCE_WR_RDMA_WRITE_IMM;

	if (pkt->psn != side->tx_psn)
		return "PSN (WIRE-06)";
	if (!(flags & WIRE_F_FIRST) != !first || !(flags & WIRE_F_LAST) != !last ||
	    !(flags & WIRE_F_WRITE) != !mesh_is_write(op) ||
	    !(flags & WIRE_F_IMM) != !(imm && last))
		return "opcode";
	if (pkt->payload_len != RTE_MIN(op->len - off, side->mtu) ||
	    memcmp(pkt->payload, op->data + off, pkt->payload_len) != 0)
		return "payload";
	if ((flags & WIRE_F_IMM) && pkt->imm != op->imm)
		return "immediate data";
	if ((flags & WIRE_F_RETH) &&
	    (pkt->rkey != op->rkey || pkt->va != op->va || pkt->dmalen != op->len))
		return "RETH";
	if (pkt->ackreq)
		return "AckReq";
	if (pkt->solicited !=
	    (last && (op->flags & UROCE_WQE_SOLICITED) && op->opcode != UROCE_WR_RDMA_WRITE))
		return "SE bit";
	if (side->type == QP_TYPE_UD &&
	    (pkt->qpn != op->to_qpn ||
	     pkt->qkey != (op->qkey & 0x80000000u ? side->attr.qkey : op->qkey)))
		return "QPN or Q_Key (WIRE-08)";
	return NULL;
}

static void
built_unreliable(struct mesh_side *side, const struct wire_pkt *pkt)
{
	struct mesh_op *op = &side->op[side->tx_op];
	const char *wrong;

	if (side->tx_op >= side->posted ||
	    (op->fault != MESH_OK && op->fault != MESH_GONE && op->fault != MESH_BAD_QKEY)) {
		sim_fail(&side->m->sim,
			 "REQ-03: qp %06x: frame of WQE %u, which is none (fault %u)", side->qpn,
			 side->tx_op, op->fault);
		return;
	}
	wrong = built_wrong(side, op, pkt);
	if (wrong != NULL)
		sim_fail(&side->m->sim, "qp %06x: WQE %u packet %u: wrong %s", side->qpn,
			 side->tx_op, side->tx_k, wrong);
	if (side->tx_k == 0)
		model_begun(side, side->tx_op);
	side->tx_psn = psn_add(side->tx_psn, 1);
	if (++side->tx_k == op->npkts) {
		side->tx_k = 0;
		side->tx_op++;
	}
}

/* The QP that built pkt; NULL: it is already in RESET. */
static struct mesh_side *
built_by(struct mesh_worker *w, const struct wire_pkt *pkt)
{
	struct mesh *m = w->node->m;
	uint32_t i;

	if (pkt->op->flags & WIRE_F_DETH)
		return mesh_side_of(m, pkt->src_qpn);
	for (i = 0; i < m->nsides; i++) {
		struct mesh_side *side = &m->side[i];

		if (side->node == w->node && side->qp != NULL && side->type != QP_TYPE_UD &&
		    side->worker == w->idx && side->attr.dest_qp_num == pkt->qpn)
			return side;
	}
	return NULL;
}

void
mesh_built(struct mesh_worker *w, struct rte_mbuf *frame)
{
	struct mesh *m = w->node->m;
	struct mesh_side *side;
	struct wire_pkt pkt;

	if (wire_parse(rte_pktmbuf_mtod(frame, uint8_t *), frame->data_len, &pkt) != WIRE_OK) {
		sim_fail(&m->sim, "WIRE-01: node %u built a frame that is none", w->node->idx);
		return;
	}
	side = built_by(w, &pkt);
	if (m->verbose)
		sim_log(&m->sim, "node %u.%u qp %06x builds %s to %06x psn %06x %u bytes%s",
			w->node->idx, w->idx, side != NULL ? side->qpn : 0, pkt.op->name, pkt.qpn,
			pkt.psn, pkt.payload_len,
			frame->hash.usr == QP_TX_LOOPBACK ? " (loopback)" : "");
	if (side == NULL)
		sim_fail(&m->sim, "node %u built a frame of no QP, for %06x", w->node->idx,
			 pkt.qpn);
	else if (pkt.qpn == WIRE_MULTICAST_QPN && frame->hash.usr == QP_TX_LOOPBACK)
		return; /* the copy for this node's members */
	else if (side->type == QP_TYPE_RC && (pkt.op->flags & WIRE_F_REQ))
		built_reliable(side, &pkt);
	else if (side->type != QP_TYPE_RC)
		built_unreliable(side, &pkt);
}

/* Does the side hold a receive WQE, or can it take one? */
static bool
model_recv(const struct mesh_side *side)
{
	const struct sim_ring *r = side->srq != NULL ? &side->srq->ring : &side->rq;
	uint32_t head = side->srq != NULL ? side->srq->srq.head : side->qp->conn.rcv.head;

	return (side->qp->conn.rcv.cur.taken && !side->in.gave_up) || r->hdr->prod != head;
}

static void
model_due(struct mesh_side *side, const struct mesh_due *due)
{
	if (side->due_tail - side->due_head == MESH_DUE) {
		sim_fail(&side->m->sim, "simulator: too many messages due");
		return;
	}
	side->due[side->due_tail++ % MESH_DUE] = *due;
	side->m->more.delivered++;
}

/* Target of a WRITE: offset in node memory, or false if its R_Key is invalid. */
static bool
model_target(const struct mesh_side *side, uint32_t len, uint32_t *off)
{
	const struct mesh_area *a = &side->slots;

	*off = a->off + (uint32_t)(side->in.va - a->mr.iova);
	return len == 0 || side->in.granted ||
	       (a->shown && !a->gone && side->in.rkey == a->mr.key && side->in.va >= a->mr.iova &&
		side->in.va - a->mr.iova + side->in.left <= a->len);
}

static bool
model_fits(struct mesh_side *side, const struct wire_pkt *pkt)
{
	uint32_t flags = pkt->op->flags;

	if (!(flags & WIRE_F_LAST) ? pkt->payload_len != side->qp->conn.mtu
				   : pkt->payload_len > side->qp->conn.mtu)
		return false;
	if ((flags & WIRE_F_LAST) && !(flags & WIRE_F_FIRST) && pkt->payload_len == 0)
		return false;
	if (flags & WIRE_F_SEND)
		return !(flags & WIRE_F_FIRST) || model_recv(side);
	return pkt->payload_len <= side->in.left &&
	       (!(flags & WIRE_F_LAST) || pkt->payload_len == side->in.left);
}

/*
 * Effect of a packet of a message that is complete so far. Returns false if it breaks the message.
 */
static bool
model_packet(struct mesh_side *side, const struct wire_pkt *pkt)
{
	uint32_t flags = pkt->op->flags, off;
	bool write = (flags & WIRE_F_WRITE) != 0;
	struct mesh_due due = {
		.opcode = write ? UROCE_CQE_RECV_RDMA_WITH_IMM : UROCE_CQE_RECV,
		.with_imm = (flags & WIRE_F_IMM) != 0,
		.imm = flags & WIRE_F_IMM ? pkt->imm : 0,
		.solicited = pkt->solicited,
	};

	if (side->in.send != !write || !model_fits(side, pkt))
		return false;
	if (!write && side->recvs.gone && side->srq == NULL && pkt->payload_len != 0)
		return false;
	if (write && (!model_target(side, side->in.left, &off) ||
		      ((flags & WIRE_F_IMM) && !model_recv(side))))
		return false;
	if (write) {
		memcpy(side->node->base + off, pkt->payload, pkt->payload_len);
		side->in.va += pkt->payload_len;
		side->in.left -= pkt->payload_len;
	} else {
		side->in.hash = mesh_hash(side->in.hash, pkt->payload, pkt->payload_len);
	}
	side->in.len += pkt->payload_len;
	due.hash = side->in.hash;
	due.len = side->in.len;
	if ((flags & WIRE_F_LAST) && (flags & WIRE_F_RWQE))
		model_due(side, &due);
	return true;
}

/* CQE-14: a message that held an SRQ's WQE broke off: it completes as aborted, once. */
static void
model_abort(struct mesh_side *side)
{
	struct mesh_due due = {.opcode = MESH_ABORTED};

	if (side->srq == NULL || !side->qp->conn.rcv.cur.taken || side->in.gave_up)
		return;
	side->in.gave_up = true;
	model_due(side, &due);
}

/* UC: the message in progress ends if pkt does not continue it, whether or not pkt's memory is
 * late. */
static void
breaks_off(struct mesh_side *side, const struct wire_pkt *pkt)
{
	bool first = (pkt->op->flags & WIRE_F_FIRST) != 0;
	bool send = (pkt->op->flags & WIRE_F_SEND) != 0;

	side->in.gave_up = false;
	if (side->in.open && (first || pkt->psn != side->in.epsn)) {
		side->in.open = false;
		if (!first || !send)
			model_abort(side);
	}
}

/* Returns false if the packet must have no effect. */
static bool
executes_uc(struct mesh_side *side, const struct wire_pkt *pkt)
{
	bool first = (pkt->op->flags & WIRE_F_FIRST) != 0;

	side->in.epsn = psn_add(pkt->psn, 1);
	if (!first && !side->in.open)
		return false;
	if (first) {
		side->in.open = true;
		side->in.send = (pkt->op->flags & WIRE_F_SEND) != 0;
		side->in.len = 0;
		side->in.hash = MESH_HASH;
		side->in.va = pkt->va;
		side->in.rkey = pkt->rkey;
		side->in.left = pkt->dmalen;
	}
	if (!model_packet(side, pkt)) {
		side->in.open = false;
		if (side->in.send) /* a WRITE that has a WQE fails with it */
			model_abort(side);
		return false;
	}
	if (pkt->op->flags & WIRE_F_LAST)
		side->in.open = false;
	return true;
}

static void
executes_ud(struct mesh_side *side, const struct wire_pkt *pkt)
{
	uint8_t grh[WIRE_GRH_LEN] = {0};
	struct mesh_due due = {
		.opcode = UROCE_CQE_RECV,
		.len = pkt->payload_len + WIRE_GRH_LEN,
		.src_qp = pkt->src_qpn,
		.with_imm = (pkt->op->flags & WIRE_F_IMM) != 0,
		.imm = pkt->op->flags & WIRE_F_IMM ? pkt->imm : 0,
		.solicited = pkt->solicited,
	};

	if (pkt->qkey != side->attr.qkey || pkt->payload_len > 4096 || !model_recv(side) ||
	    (side->recvs.gone && side->srq == NULL))
		return;
	if (pkt->is_v6)
		memcpy(grh, pkt->ip, WIRE_IPV6_LEN);
	else
		memcpy(grh + 20, pkt->ip, WIRE_IPV4_LEN);
	due.hash =
		mesh_hash(mesh_hash(MESH_HASH, grh, WIRE_GRH_LEN), pkt->payload, pkt->payload_len);
	side->m->more.datagrams++;
	model_due(side, &due);
}

/* A connected QP accepts packets only from its peer, at the addresses of this life. */
static bool
arrives_from_peer(const struct mesh_side *side, const struct wire_pkt *pkt)
{
	uint8_t src[16], dst[16];

	wire_src_gid(pkt, src);
	wire_dst_gid(pkt, dst);
	return memcmp(src, side->qp->conn.dgid, 16) == 0 &&
	       memcmp(dst, side->qp->conn.sgid, 16) == 0;
}

static void
arrives_at(struct mesh_worker *w, uint32_t qpn, const struct wire_pkt *pkt)
{
	static const uint8_t svc[] = {
		[QP_TYPE_RC] = WIRE_SVC_RC, [QP_TYPE_UC] = WIRE_SVC_UC, [QP_TYPE_UD] = WIRE_SVC_UD};
	struct mesh_side *side = mesh_side_of(w->node->m, qpn);

	if (side == NULL || side->node != w->node || side->qp->conn.state < QP_RTR ||
	    side->qp->conn.state == QP_ERR || (pkt->pkey & 0x7fff) != 0x7fff ||
	    (pkt->opcode & WIRE_SVC_MASK) != svc[side->type])
		return;
	if (side->type == QP_TYPE_RC || (side->type == QP_TYPE_UC && !arrives_from_peer(side, pkt)))
		return;
	if (side->nwaits == MESH_WAITS)
		sim_fail(&side->m->sim, "qp %06x: more than %u frames wait", side->qpn, MESH_WAITS);
	else
		side->wait[side->nwaits++] =
			(struct mesh_wait){.psn = pkt->psn, .opcode = pkt->opcode};
}

static void
wait_pop(struct mesh_side *side)
{
	memmove(side->wait, side->wait + 1, --side->nwaits * sizeof(side->wait[0]));
}

/* What was written for frames that had no effect in the end is not known. */
static void
waits_unsure(struct mesh_side *side)
{
	const struct mesh_area *a = side->srq != NULL ? &side->srq->area : &side->recvs;
	const struct mesh_recv *recv = side->srq != NULL ? side->srq->recv : side->recv;
	const struct qp_recv_wqe *cur = &side->qp->conn.rcv.cur;
	struct mesh_node *n = side->node;

	memcpy(n->base + side->slots.off, n->mem + side->slots.off, side->slots.len);
	recv += cur->wqe.wr_id % MESH_SLOTS;
	if (cur->taken)
		memcpy(n->base + recv->off, n->mem + recv->off, a->stride);
}

void
mesh_waits_forget(struct mesh_side *side)
{
	if (side->nwaits != 0)
		waits_unsure(side);
	side->nwaits = 0;
}

/* The engine executes pkt, unless memory is late again. */
static void
model_executes(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt,
	       void (*executes)(struct qp_env *, struct qp *, const struct wire_pkt *))
{
	const struct engine *e = container_of(env, struct engine, env);
	struct mesh_side *side = NULL;
	struct mesh_stats stats;
	struct mesh_in in;
	uint32_t due;
	bool effect = true;

	if (e->ops == &mesh_engine_ops)
		side = mesh_side_of(((struct mesh_worker *)e->ops_ctx)->node->m, qp->conn.qpn);
	if (side == NULL || side->type == QP_TYPE_RC) {
		executes(env, qp, pkt);
		return;
	}
	if (side->nwaits == 0 || side->wait[0].psn != pkt->psn ||
	    side->wait[0].opcode != pkt->opcode) {
		sim_fail(&side->m->sim, "RSP-06: qp %06x: executes PSN %06x out of turn", side->qpn,
			 pkt->psn);
		return;
	}
	if (side->type == QP_TYPE_UC)
		breaks_off(side, pkt);
	side->in.granted = side->wait[0].granted;
	in = side->in;
	due = side->due_tail;
	stats = side->m->more;
	if (side->type == QP_TYPE_UC)
		effect = executes_uc(side, pkt);
	else
		executes_ud(side, pkt);
	executes(env, qp, pkt);
	if (env->dropped == DROP_MEMORY_LATE) {
		side->in = in;
		side->due_tail = due;
		side->m->more = stats;
		side->wait[0].tried = true;
		side->wait[0].granted = effect;
		side->wait[0].took = qp->conn.rcv.cur.taken;
		return;
	}
	if (in.granted && effect && qp->conn.state == QP_ERR) { /* not executed before */
		side->in = in;
		side->in.open = false;
		side->due_tail = due;
		side->m->more = stats;
		effect = false;
	}
	if (side->due_tail != due)
		sim_log(&side->m->sim, "qp %06x: a message of %u bytes is due", side->qpn,
			side->due[due % MESH_DUE].len);
	if (side->wait[0].tried && !effect)
		waits_unsure(side);
	wait_pop(side);
}

/* The linker puts these in front of the engine's calls (test/sim/meson.build). */
void __real_rsp_rx_late(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt);
void __wrap_rsp_rx_late(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt);
void __real_rsp_rx_datagram(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt);
void __wrap_rsp_rx_datagram(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt);

void
__wrap_rsp_rx_late(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt)
{
	model_executes(env, qp, pkt, __real_rsp_rx_late);
}

void
__wrap_rsp_rx_datagram(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt)
{
	model_executes(env, qp, pkt, __real_rsp_rx_datagram);
}

/* The engine had no place for the frame that came last. */
static void
wait_lost(struct mesh_side *side)
{
	const struct mesh_wait *lost = &side->wait[--side->nwaits];

	if (!lost->tried)
		return; /* behind others: a gap for those that follow */
	waits_unsure(side);
	if (side->type != QP_TYPE_UC)
		return;
	side->in.open = false;
	side->in.epsn = psn_add(lost->psn, 1);
	if (side->srq != NULL && lost->took)
		model_due(side, &(struct mesh_due){.opcode = MESH_ABORTED});
}

void
mesh_waits_check(struct mesh_worker *w)
{
	struct mesh *m = w->node->m;
	uint64_t lost = w->counters.drop[DROP_MEMORY_LATE] + w->counters.ctr[COUNTER_MCAST_REFUSED];
	uint32_t i;

	for (i = 0; i < m->nsides && !m->failed; i++) {
		struct mesh_side *side = &m->side[i];

		if (side->node != w->node || side->qp == NULL || side->worker != w->idx)
			continue;
		if (side->qp->conn.state == QP_ERR)
			mesh_waits_forget(side);
		else if (side->nwaits == side->qp->bind.late_req.n + 1u && lost > w->late_lost)
			wait_lost(side);
		if (side->type != QP_TYPE_RC && side->qp->conn.state != QP_ERR &&
		    side->nwaits != side->qp->bind.late_req.n)
			sim_fail(&m->sim, "RSP-06: qp %06x: %u frames wait, not %u", side->qpn,
				 side->qp->bind.late_req.n, side->nwaits);
	}
	w->late_lost = lost;
}

/* WIRE-10: each member of the group except the sender. Other workers get it handed over. */
static uint32_t
arrives_group(struct mesh_worker *w, const struct wire_pkt *pkt)
{
	struct mesh_node *n = w->node;
	uint32_t mask = n->m->cfg.workers - 1, others = 0, i;
	uint8_t dst[16], src[16];

	wire_dst_gid(pkt, dst);
	wire_src_gid(pkt, src);
	for (i = 0; i < n->addrs.nmembers; i++) {
		uint32_t qpn = n->member[i].qpn;
		bool own = memcmp(src, n->gid[0], 16) == 0 || memcmp(src, n->gid[1], 16) == 0;

		if (memcmp(n->member[i].gid, dst, 16) != 0 || (own && qpn == pkt->src_qpn))
			continue;
		if ((qpn & mask) == w->idx)
			arrives_at(w, qpn, pkt);
		else
			others++;
	}
	return others;
}

void
mesh_arriving(struct mesh_worker *w, struct rte_mbuf *frame)
{
	struct mesh_node *n = w->node;
	const uint8_t *p = rte_pktmbuf_mtod(frame, const uint8_t *);
	struct wire_pkt pkt;

	w->handed = 0;
	w->group = false;
	w->expected = MESH_ANY;
	if (frame->data_len < WIRE_ETH_LEN || (!(p[0] & 1) && memcmp(p, n->mac, 6) != 0) ||
	    wire_parse(p, frame->data_len, &pkt) != WIRE_OK)
		return; /* malformed: its QP may respond but never executes it */
	w->expected = 0;
	if ((pkt.vlan_tci & WIRE_VID_MASK) != 0 ||
	    ((p[0] & 1) &&
	     ((pkt.opcode & WIRE_SVC_MASK) != WIRE_SVC_UD || !wire_dst_is_group(&pkt))))
		return; /* another VLAN, or a multicast MAC on a unicast packet */
	if (pkt.qpn != WIRE_MULTICAST_QPN && qp_table_owner(&n->qps, pkt.qpn) != w->idx) {
		w->expected = 1; /* unchanged, valid or not */
		return;
	}
	if (frame->hash.usr != QP_TX_LOOPBACK && !wire_icrc_check(&pkt))
		return;
	if (n->m->verbose)
		sim_log(&n->m->sim, "node %u.%u gets %s for %06x psn %06x", n->idx, w->idx,
			pkt.op->name, pkt.qpn, pkt.psn);
	w->group = pkt.qpn == WIRE_MULTICAST_QPN;
	if (w->group)
		w->expected = arrives_group(w, &pkt);
	else
		arrives_at(w, pkt.qpn, &pkt);
}

void
mesh_taken(struct mesh_worker *w)
{
	struct mesh *m = w->node->m;

	if (w->handed != w->expected && w->expected != MESH_ANY &&
	    !(m->cfg.small_pool && w->handed < w->expected))
		sim_fail(&m->sim, "WIRE-10: node %u: worker %u handed %u frames over, had to %u",
			 w->node->idx, w->idx, w->handed, w->expected);
	mesh_waits_check(w);
}
