/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks every frame that an engine builds against the workload: PSN, opcode, addresses, payload,
 * and whether it may be sent at all. A request must match its WQE byte for byte, first and
 * retransmitted (REQ-04, REQ-05, REQ-08). answers.c checks the responses.
 */
#include <string.h>
#include <rte_common.h>
#include "apm.h"
#include "pair.h"
#include "trace.h"
#include "wire/icrc.h"
#include "wire/psn.h"
#include "wire/timer.h"

const char *
pair_op_text(uint8_t opcode)
{
	return wire_op_table[opcode].name != NULL ? wire_op_table[opcode].name : "?";
}

struct pair_op *
trace_op(struct pair_side *side, uint32_t rel)
{
	uint32_t lo = 0, hi = side->nops;

	while (lo < hi) {
		uint32_t mid = (lo + hi) / 2;

		if (side->op[mid].first + side->op[mid].npkts <= rel)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < side->nops ? &side->op[lo] : NULL;
}

/* First PSN whose READ response has not arrived; total if there is none. */
static uint32_t
trace_missing(struct pair_side *side)
{
	while (side->read_op < side->nops) {
		struct pair_op *op = &side->op[side->read_op];

		if (sim_op_fetches(&op->sim_op) && op->resp_got < op->npkts)
			return op->first + op->resp_got;
		side->read_op++;
	}
	return side->total;
}

static uint8_t
trace_opcode(const struct pair_op *op, uint32_t k)
{
	static const uint8_t ops[2][2][4] = {
		/* SEND, WRITE: middle, first, last, only; without and with immediate */
		{{WIRE_OP_SEND_MIDDLE, WIRE_OP_SEND_FIRST, WIRE_OP_SEND_LAST, WIRE_OP_SEND_ONLY},
		 {WIRE_OP_SEND_MIDDLE, WIRE_OP_SEND_FIRST, WIRE_OP_SEND_LAST_IMM,
		  WIRE_OP_SEND_ONLY_IMM}},
		{{WIRE_OP_WRITE_MIDDLE, WIRE_OP_WRITE_FIRST, WIRE_OP_WRITE_LAST,
		  WIRE_OP_WRITE_ONLY},
		 {WIRE_OP_WRITE_MIDDLE, WIRE_OP_WRITE_FIRST, WIRE_OP_WRITE_LAST_IMM,
		  WIRE_OP_WRITE_ONLY_IMM}},
	};
	bool write = op->opcode == UROCE_WR_RDMA_WRITE || op->opcode == UROCE_WR_RDMA_WRITE_IMM;
	bool imm = op->opcode == UROCE_WR_SEND_IMM || op->opcode == UROCE_WR_RDMA_WRITE_IMM;

	if (op->opcode == UROCE_WR_RDMA_READ)
		return WIRE_OP_READ_REQ;
	if (op->opcode == UROCE_WR_ATOMIC_CMP_SWAP)
		return WIRE_OP_CMP_SWAP;
	if (op->opcode == UROCE_WR_ATOMIC_FETCH_ADD)
		return WIRE_OP_FETCH_ADD;
	return ops[write][imm][(k == 0) + 2 * (k + 1 == op->npkts)];
}

/*
 * PSNs of the request pkt, which begins with packet k of op. The rest of a READ is requested again
 * in parts of QP_READ_AGAIN_PKTS responses, or by a probe for one of them. With selective repeat
 * any part of a READ that the peer has received may be requested again.
 */
static uint32_t
trace_request_psns(const struct pair_side *side, const struct pair_op *op, uint32_t k,
		   const struct wire_pkt *pkt)
{
	uint32_t rest = op->npkts - k, n;

	if (op->opcode != UROCE_WR_RDMA_READ)
		return 1;
	n = (pkt->dmalen + side->mtu - 1) / side->mtu;
	if (side->pair->cfg.sr != 0 && op->first < side->contig && n >= 1 &&
	    n <= RTE_MIN(rest, QP_READ_AGAIN_PKTS))
		return n;
	if (k != 0 && n == 1 && op->first < side->contig)
		return n;
	if (pair_cfg_parts(&side->pair->cfg) && n >= 1 && n <= rest)
		return n;
	return k != 0 ? RTE_MIN(rest, QP_READ_AGAIN_PKTS - k % QP_READ_AGAIN_PKTS) : rest;
}

/* Checks the contents of a request packet, except its PSN. NULL: right; else the error. */
static const char *
trace_request_wrong(const struct pair_side *side, const struct pair_op *op, uint32_t k,
		    uint32_t npsns, const struct wire_pkt *pkt)
{
	uint32_t off = k * side->mtu, flags = pkt->op->flags;
	bool read = op->opcode == UROCE_WR_RDMA_READ, last = k + 1 == op->npkts;

	if (pkt->opcode != trace_opcode(op, k))
		return "opcode";
	if (flags & WIRE_F_RETH) {
		if (pkt->rkey != op->rkey)
			return "R_Key";
		if (pkt->va != op->va + (read ? off : 0))
			return "address";
		if (pkt->dmalen != (read ? RTE_MIN(op->len - off, npsns * side->mtu) : op->len))
			return "DMA length";
	}
	if (flags & WIRE_F_ATOMICETH) {
		if (pkt->rkey != op->rkey || pkt->va != op->va)
			return "R_Key or address";
		if (pkt->swap_add != op->swap_add ||
		    ((op->opcode == UROCE_WR_ATOMIC_CMP_SWAP) && pkt->compare != op->compare))
			return "operands";
	}
	if ((flags & WIRE_F_IMM) && pkt->imm != op->imm)
		return "immediate data";
	if (pkt->solicited !=
	    (last && pair_op_uses_recv(op) && (op->flags & UROCE_WQE_SOLICITED) != 0))
		return "SE bit (WIRE-04)";
	if (sim_op_fetches(&op->sim_op))
		return NULL;
	if (pkt->payload_len != RTE_MIN(op->len - off, side->mtu))
		return "payload length";
	if (memcmp(pkt->payload, op->data + off, pkt->payload_len) != 0)
		return "payload";
	return NULL;
}

/* A WQE starts: may it (REQ-02, QP-15)? */
static void
trace_begun(struct pair_side *side, struct pair_op *op)
{
	struct pair_op *o;
	uint32_t reads = 0;

	for (o = side->op; o < op; o++) {
		if (sim_op_fetches(&o->sim_op) && o->resp_got < o->npkts)
			reads++;
	}
	if ((op->flags & UROCE_WQE_FENCE) && reads > 0)
		sim_fail(&side->pair->sim,
			 "REQ-02: qp %06x: fenced WQE %ld sent before %u earlier READs", side->qpn,
			 (long)(op - side->op), reads);
	if (sim_op_fetches(&op->sim_op) && reads >= side->pair->cfg.rd_atomic)
		sim_fail(&side->pair->sim, "REQ-02: qp %06x: %u READs outstanding, %u allowed",
			 side->qpn, reads + 1, side->pair->cfg.rd_atomic);
	if (side->sqd == 1)
		sim_fail(&side->pair->sim, "QP-15: qp %06x: WQE %ld begun in SQD", side->qpn,
			 (long)(op - side->op));
}

/* Checks the limit of request packets in flight, READs excluded. */
static void
trace_window(struct pair_side *side, uint32_t upto)
{
	uint32_t most = side->pair->cfg.sr != 0 ? CC_WIDE_PKTS : CC_WINDOW_PKTS;
	uint32_t done = RTE_MAX(side->acked, side->told), i, n = 0;

	for (i = 0; i < side->nops && side->op[i].first < upto; i++) {
		const struct pair_op *op = &side->op[i];
		uint32_t from = RTE_MAX(op->first, done);
		uint32_t to = RTE_MIN(op->first + op->npkts, upto);

		if (!sim_op_fetches(&op->sim_op) && from < to)
			n += to - from;
	}
	if (n > most)
		sim_fail(&side->pair->sim, "qp %06x: %u packets sent and not acknowledged",
			 side->qpn, n);
}

static void
trace_request(struct pair_side *side, const struct wire_pkt *pkt, struct pair_view *v)
{
	struct pair *s = side->pair;
	struct pair_op *op = trace_op(side, v->psn);
	const char *wrong;
	uint32_t k;

	pair_trace_sync(side);
	if (op == NULL || op >= &side->op[side->posted] || v->psn > side->high) {
		sim_fail(&s->sim,
			 "WIRE-06: qp %06x: request with PSN +%u, next to use is +%u of +%u",
			 side->qpn, v->psn, side->high, side->total);
		return;
	}
	k = v->psn - op->first;
	op->requests++;
	v->npkts = trace_request_psns(side, op, k, pkt);
	wrong = trace_request_wrong(side, op, k, v->npkts, pkt);
	if (wrong != NULL)
		sim_fail(&s->sim, "qp %06x: %s, PSN +%u of WQE %ld: wrong %s", side->qpn,
			 pair_op_text(pkt->opcode), v->psn, (long)(op - side->op), wrong);
	if (op->state != SIM_OP_POSTED || side->flushed || side->fatal_naks > 0)
		sim_fail(&s->sim, "REQ-10: qp %06x: request of WQE %ld, which is over", side->qpn,
			 (long)(op - side->op));
	if (s->now_ns < side->rnr_until_ns)
		sim_fail(&s->sim, "REQ-06: qp %06x: request %lu ns before the RNR wait is over",
			 side->qpn, (unsigned long)(side->rnr_until_ns - s->now_ns));
	if (v->psn == side->high) {
		/* While the next hop is unknown the timeout runs, and nothing is sent. */
		if (side->acked == side->high && !s->cfg.late_path)
			side->progress_ns = s->now_ns;
		if (k == 0)
			trace_begun(side, op);
		side->high += v->npkts;
		v->fresh = true;
	}
	trace_window(side, v->psn + 1);
}

/* The bytes of m, including the payload of a zero-copy frame (qp/view.h). */
static const uint8_t *
trace_bytes(struct pair *s, struct rte_mbuf *m)
{
	struct qp_view v;

	if (m->hash.usr != QP_TX_LOOPBACK || !qp_view_is(m))
		return rte_pktmbuf_read(m, 0, m->pkt_len, s->scratch);
	v = qp_view_get(m);
	memset(s->scratch, 0, m->pkt_len);
	memcpy(s->scratch, rte_pktmbuf_mtod(m, uint8_t *), m->data_len);
	memcpy(s->scratch + m->data_len, v.payload, v.len);
	return s->scratch;
}

/* Finds the two sides of a frame; false, after a failure, if the frame is invalid. */
static bool
trace_frame(struct pair_node *n, struct rte_mbuf *m, struct wire_pkt *pkt, struct pair_view *v)
{
	struct pair *s = n->pair;
	const uint8_t *bytes = trace_bytes(s, m);
	uint32_t i;

	if (bytes == NULL || wire_parse(bytes, m->pkt_len, pkt) != WIRE_OK ||
	    (m->hash.usr == QP_TX_WIRE && !wire_icrc_check(pkt))) {
		sim_fail(&s->sim, "WIRE-01: node %u built a frame that is none", n->idx);
		return false;
	}
	for (i = 0; i < s->nsides && s->side[i].qpn != pkt->qpn; i++)
		;
	if (i == s->nsides || s->side[i].peer->node != n) {
		sim_fail(&s->sim, "node %u built a frame for qp %06x", n->idx, pkt->qpn);
		return false;
	}
	v->to = &s->side[i];
	v->from = v->to->peer;
	if (m->port != n->dev || memcmp(bytes, v->to->node->mac, 6) != 0 ||
	    m->hash.usr != (v->to->node == n ? QP_TX_LOOPBACK : QP_TX_WIRE)) {
		sim_fail(&s->sim, "qp %06x: frame to the wrong device or address", v->from->qpn);
		return false;
	}
	return true;
}

void
pair_trace_built(struct pair_node *n, struct rte_mbuf *m, struct pair_view *v)
{
	struct wire_pkt pkt;
	uint32_t base;

	memset(v, 0, sizeof(*v));
	if (!trace_frame(n, m, &pkt, v))
		return;
	v->flags = pkt.op->flags;
	v->opcode = pkt.opcode;
	v->syndrome = pkt.syndrome;
	pair_apm_built(v->from, &pkt, v);
	base = (v->flags & WIRE_F_REQ ? v->from : v->to)->attr.sq_psn;
	v->psn = (pkt.psn - base) & WIRE_PSN_MASK;
	if (v->flags & WIRE_F_REQ)
		trace_request(v->from, &pkt, v);
	else
		trace_answer(v->from, &pkt, v);
}

static void
trace_acked(struct pair_side *side, uint32_t upto, uint64_t at_ns)
{
	if (upto <= side->acked)
		return;
	side->acked = upto;
	side->naks = side->gaps = side->rnrs = 0;
	side->progress_ns = at_ns;
	side->pair->last_progress_ns = side->pair->now_ns;
}

/*
 * With selective repeat the requester may store data that comes early, or have it sent again. What
 * it counts must have come.
 */
void
pair_trace_sync(struct pair_side *side)
{
	uint32_t una = (side->qp->conn.snd.una_psn - side->attr.sq_psn) & WIRE_PSN_MASK;
	uint32_t missing = trace_missing(side);

	if (side->pair->cfg.sr == 0 || side->qp->conn.state < QP_RTS || una > side->high)
		return;
	for (; missing < una; missing = trace_missing(side)) {
		if (!(side->data_came[missing / 64] >> (missing % 64) & 1))
			sim_fail(&side->pair->sim, "SR-02: qp %06x: data +%u never came", side->qpn,
				 missing);
		side->op[side->read_op].resp_got++;
	}
	trace_acked(side, RTE_MIN(side->told, missing), side->answered_ns);
}

/* asker has received response v: records what it acknowledges, and its cost. */
static void
trace_answered(struct pair_side *asker, const struct pair_view *v)
{
	struct pair *s = asker->pair;
	uint32_t missing, upto = v->psn;
	uint8_t kind = v->syndrome & WIRE_SYN_KIND;

	if (v->psn >= asker->high + ((v->flags & WIRE_F_SACK) != 0))
		return;
	pair_trace_sync(asker);
	missing = trace_missing(asker);
	if (kind == WIRE_SYN_ACK && !(v->flags & (WIRE_F_SACK | WIRE_F_READ | WIRE_F_ATOMIC)))
		upto++;
	if (v->flags & (WIRE_F_READ | WIRE_F_ATOMIC)) {
		asker->data_came[v->psn / 64] |= UINT64_C(1) << (v->psn % 64);
		if (v->psn == missing) {
			asker->op[asker->read_op].resp_got++;
			upto++;
		} else if (v->psn > missing) {
			asker->gaps++;
		}
	}
	if (s->cfg.sr != 0) {
		if (v->flags & (WIRE_F_READ | WIRE_F_ATOMIC))
			upto = v->psn + 1; /* as far as no data is missing */
		upto = asker->told = RTE_MAX(asker->told, upto);
	}
	trace_acked(asker, RTE_MIN(upto, trace_missing(asker)), s->now_ns);
	asker->answered_ns = s->now_ns;
	if ((v->flags & (WIRE_F_READ | WIRE_F_ATOMIC | WIRE_F_SACK)) || v->psn < asker->acked)
		return;
	if (kind == WIRE_SYN_NAK && v->syndrome != (WIRE_SYN_NAK | WIRE_NAK_PSN_SEQ))
		asker->fatal_naks += v->psn == asker->acked;
	asker->naks += kind == WIRE_SYN_NAK;
	asker->gaps += kind != WIRE_SYN_NAK;
	asker->rnrs += kind == WIRE_SYN_RNR;
}

/* A request has arrived at side: does it leave a gap that needs a NAK (NAK-04)? */
static void
trace_came(struct pair_side *side, const struct pair_view *v)
{
	uint32_t psn = psn_add(side->peer->attr.sq_psn, v->psn);
	int32_t d = psn_diff(psn, side->qp->conn.rcv.epsn);
	struct pair_op *op = trace_op(side->peer, v->psn);
	bool again;

	if (op != NULL && op->opcode == UROCE_WR_RDMA_READ && op->nasked < PAIR_MAX_ASKED)
		op->asked[op->nasked++] = v->psn - op->first;

	if (d == 0) {
		/* A NAK that was due is void; an early packet may still leave a gap behind. */
		side->naked = false;
		side->gap = side->gap && side->qp->conn.rcv.nak_due &&
			    side->qp->conn.rcv.nak_syndrome == (WIRE_SYN_NAK | WIRE_NAK_PSN_SEQ) &&
			    side->early >= v->psn + v->npkts;
		side->opened = side->early;
		side->told_again = 0;
	}
	/*
	 * The requester went back, and the gap is still there: the NAK is sent again, at most
	 * thrice. With selective repeat the packet that opened the gap may have been held before
	 * the one that led to the NAK; the responder remembers the latter.
	 */
	again = side->pair->cfg.sr != 0 ? psn == side->qp->conn.rcv.gap_psn
					: v->psn == side->opened;
	if (d > 0 && side->naked && !side->rnr_naked && again && side->told_again < 3) {
		side->naked = false;
		side->told_again++;
	}
	if (d > 0 && !side->naked && !side->gap && !side->sent_fatal) {
		side->gap = true;
		side->opened = v->psn;
	}
	if (d > 0)
		side->early = v->psn;
}

/*
 * A request of side has arrived. With selective repeat it may be held, so contig is what may have
 * been executed.
 */
static void
trace_contig(struct pair_side *side, const struct pair_view *v)
{
	struct pair *s = side->pair;
	uint32_t was = side->contig;
	struct pair_op *op;

	if (s->cfg.sr == 0) {
		side->contig += v->psn == side->contig ? v->npkts : 0;
	} else if (v->psn < RTE_DIM(side->came) * 64) {
		side->came[v->psn / 64] |= UINT64_C(1) << (v->psn % 64);
		while (side->contig < RTE_DIM(side->came) * 64 &&
		       side->came[side->contig / 64] >> (side->contig % 64) & 1) {
			op = trace_op(side, side->contig);
			side->contig += op->opcode == UROCE_WR_RDMA_READ ? op->npkts : 1;
		}
	}
	if (side->contig != was)
		s->last_progress_ns = s->now_ns;
}

void
pair_trace_arriving(struct pair *s, const struct pair_pkt *p)
{
	const struct pair_view *v = &p->view;

	if (v->to == NULL || !p->intact || pair_apm_stranger(v))
		return;
	v->to->rnr_waited = qp_deadline_is_set(&v->to->qp->conn, QP_DEADLINE_RNR);
	if ((v->flags & WIRE_F_REQ) && v->to->qp->conn.state >= QP_RTR &&
	    v->to->qp->conn.state != QP_ERR) {
		trace_came(v->to, v);
		trace_contig(v->from, v);
	}
	if (!(v->flags & WIRE_F_REQ) && v->to->qp->conn.state >= QP_RTS &&
	    v->to->qp->conn.state != QP_ERR)
		trace_answered(v->to, v);
}

void
pair_trace_taken(struct pair *s, const struct pair_pkt *p)
{
	const struct pair_view *v = &p->view;

	/* The length of the wait comes from the frame, not from the engine (NAK-11). */
	if (v->to != NULL && p->intact && qp_deadline_is_set(&v->to->qp->conn, QP_DEADLINE_RNR) &&
	    !v->to->rnr_waited)
		v->to->rnr_until_ns = s->now_ns + wire_rnr_timer_ns(v->syndrome);
}

/* Do answers wait behind READ responses, which wait for their time? */
static bool
answers_are_held(const struct qp *qp)
{
	const struct qp_rcv *rcv = &qp->conn.rcv;

	return qp->bind.parked && rcv->rdq_n != 0 && qp->conn.snd.cc_active &&
	       (rcv->nak_due || rcv->sack_due);
}

void
pair_trace_idle(struct pair_node *n)
{
	struct pair *s = n->pair;
	uint32_t i;

	for (i = 0; i < s->nsides; i++) {
		struct pair_side *side = &s->side[i];

		if (side->node != n || side->qp->conn.state == QP_ERR || s->by_hand)
			continue;
		if (side->gap && side->qp->conn.path_ok && !answers_are_held(side->qp))
			sim_fail(&s->sim,
				 "NAK-04: qp %06x: a packet came too early, and no NAK went out",
				 side->qpn);
		if (side->sent_fatal)
			sim_fail(&s->sim, "NAK-06: qp %06x: in state %s after a fatal NAK",
				 side->qpn, qp_state_name[side->qp->conn.state]);
	}
}
