/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks every response that an engine builds: it must belong to a received request (NAK-02,
 * NAK-05), be in order (RSP-03), and carry the data of the READ or atomic.
 */
#include <string.h>
#include <rte_common.h>
#include "pair.h"
#include "trace.h"
#include "wire/psn.h"
#include "wire/sack.h"

/* Responses to a READ start where a request begins (RSP-01). */
static bool
answer_unasked(struct pair_op *op, uint32_t k)
{
	uint32_t i;

	if (op->opcode != UROCE_WR_RDMA_READ || op->nasked == PAIR_MAX_ASKED ||
	    (k == op->resp_next && op->resp_sent > 0))
		return false;
	for (i = 0; i < op->nasked; i++) {
		if (op->asked[i] == k) {
			op->asked[i] = op->asked[--op->nasked];
			return false;
		}
	}
	return k != op->resp_next;
}

/* Responses to READs and atomics follow the order of the requests without gaps (RSP-03). */
static void
answer_in_order(struct pair_side *side, struct pair_op *op, uint32_t k, struct pair_view *v)
{
	struct pair_op *o;

	for (o = side->peer->op; o < op; o++) {
		if (sim_op_fetches(&o->sim_op) && o->resp_sent < o->npkts)
			sim_fail(&side->pair->sim,
				 "RSP-03: qp %06x: answer +%u before those to +%u", side->qpn,
				 v->psn, o->first);
	}
	if (answer_unasked(op, k))
		sim_fail(&side->pair->sim, "RSP-01: qp %06x: response +%u again without a request",
			 side->qpn, v->psn);
	/* An interrupted response continues where it stopped. */
	if (k != op->resp_next && op->nasked < PAIR_MAX_ASKED)
		op->asked[op->nasked++] = op->resp_next;
	op->resp_next = k + 1;
	if (k > op->resp_sent)
		sim_fail(&side->pair->sim, "RSP-03: qp %06x: answer +%u, +%u was never sent",
			 side->qpn, v->psn, op->first + op->resp_sent);
	if (k == op->resp_sent) {
		op->resp_sent++;
		v->fresh = true;
	}
}

/* May a part of the READ be legal although all of it is not? */
static bool
part_is_legal(const struct pair_side *side, const struct pair_op *op)
{
	return pair_cfg_parts(&side->pair->cfg) && op->npkts > 1 && !pair_fault_is_local(op->fault);
}

static void
answer_read(struct pair_side *side, const struct wire_pkt *pkt, struct pair_view *v)
{
	struct pair_side *asker = side->peer;
	uint32_t rel = v->psn;
	struct pair_op *op = trace_op(asker, rel);
	uint32_t k, off;
	bool ends = (pkt->op->flags & WIRE_F_LAST) != 0, part;

	if (op == NULL || op->opcode != UROCE_WR_RDMA_READ ||
	    (op->fault != FAULT_NONE && !part_is_legal(side, op)) || rel >= asker->contig) {
		sim_fail(&side->pair->sim,
			 "RSP-01: qp %06x: READ response +%u to no READ that came", side->qpn, rel);
		return;
	}
	k = rel - op->first;
	off = k * side->mtu;
	/* A part of a READ that was requested again ends in a last or only response, too. */
	part = ends &&
	       ((k + 1) % QP_READ_AGAIN_PKTS == 0 || side->pair->cfg.sr != 0 ||
		(k != 0 && (pkt->op->flags & WIRE_F_FIRST)) || pair_cfg_parts(&side->pair->cfg));
	if ((ends != (k + 1 == op->npkts) && !part) ||
	    pkt->payload_len != RTE_MIN(op->len - off, side->mtu))
		sim_fail(&side->pair->sim,
			 "RSP-01: qp %06x: READ response +%u: wrong opcode or length", side->qpn,
			 rel);
	/* The response to a late duplicate may have newer bytes, which the requester ignores. */
	if (op->fault == FAULT_NONE && k >= op->resp_got &&
	    memcmp(pkt->payload, op->data + off, pkt->payload_len) != 0)
		sim_fail(&side->pair->sim, "RSP-01: qp %06x: READ response +%u: wrong payload",
			 side->qpn, rel);
	answer_in_order(side, op, k, v);
}

/* An atomic is executed once; every response to it is the same (RSP-01). */
static void
answer_atomic(struct pair_side *side, const struct wire_pkt *pkt, struct pair_view *v)
{
	struct pair_op *op = trace_op(side->peer, v->psn);

	if (op == NULL || !sim_op_fetches(&op->sim_op) || op->opcode == UROCE_WR_RDMA_READ ||
	    op->fault != FAULT_NONE || v->psn >= side->peer->contig) {
		sim_fail(&side->pair->sim,
			 "RSP-01: qp %06x: atomic ACK +%u to no atomic that came (fault %d)",
			 side->qpn, v->psn, op != NULL ? op->fault : -1);
		return;
	}
	if (memcmp(&pkt->orig, op->data, sizeof(pkt->orig)) != 0)
		sim_fail(&side->pair->sim, "RSP-01: qp %06x: atomic ACK +%u: wrong value",
			 side->qpn, v->psn);
	answer_in_order(side, op, 0, v);
}

/* side has acknowledged all requests before PSN upto, so READs among them must be complete. */
static void
answer_covers(struct pair_side *side, uint32_t upto, uint32_t msn)
{
	struct pair_side *asker = side->peer;
	uint32_t i, least = 0, most = 0;

	if (upto > asker->contig) {
		sim_fail(&side->pair->sim, "NAK-02: qp %06x: acknowledges +%u, but only +%u came",
			 side->qpn, upto, asker->contig);
		return;
	}
	for (i = 0; i < asker->nops; i++) {
		struct pair_op *op = &asker->op[i];

		least += op->first + op->npkts <= upto;
		/* The responder counts each part of a READ that it has not seen. */
		if (op->first < asker->contig)
			most += pair_cfg_parts(&side->pair->cfg) ? RTE_MAX(op->requests, 1u) : 1;
		if (sim_op_fetches(&op->sim_op) && op->first < upto &&
		    op->resp_sent < RTE_MIN(op->npkts, upto - op->first))
			sim_fail(&side->pair->sim,
				 "RSP-03: qp %06x: acknowledges +%u before READ +%u is "
				 "answered",
				 side->qpn, upto, op->first);
	}
	if (msn < least || msn > most)
		sim_fail(&side->pair->sim,
			 "RSP-07: qp %06x: MSN %u in an answer to +%u: %u .. %u is possible",
			 side->qpn, msn, upto, least, most);
}

static void
answer_fatal_nak(struct pair_side *side, uint32_t rel)
{
	struct pair_op *op = trace_op(side->peer, rel);

	side->sent_fatal = true;
	if (op == NULL ||
	    (!side->window_gone && (op->fault == FAULT_NONE || pair_fault_is_local(op->fault))))
		sim_fail(&side->pair->sim, "NAK-05: qp %06x: NAK +%u for nothing", side->qpn, rel);
	if (rel >= side->peer->contig)
		sim_fail(&side->pair->sim, "NAK-05: qp %06x: NAK +%u, which never came", side->qpn,
			 rel);
}

/* NAK-04, NAK-10: of the ePSN; one for a gap. */
static void
answer_nak(struct pair_side *side, const struct wire_pkt *pkt, bool rnr)
{
	if (pkt->psn != side->qp->conn.rcv.epsn)
		sim_fail(&side->pair->sim, "NAK-04: qp %06x: NAK of PSN %06x, ePSN is %06x",
			 side->qpn, pkt->psn, side->qp->conn.rcv.epsn);
	if (side->naked && !rnr)
		sim_fail(&side->pair->sim, "NAK-04: qp %06x: PSN %06x is NAKed twice", side->qpn,
			 pkt->psn);
	side->naked = true;
	side->rnr_naked = rnr;
	side->gap = false;
}

/*
 * A selective acknowledgement names the ePSN, or the next response of a READ, and behind it only
 * requests that came (SR-02). In the second case it names all of those that were executed.
 */
static void
answer_sack(struct pair_side *side, const struct wire_pkt *pkt, uint32_t rel)
{
	struct pair_side *asker = side->peer;
	struct wire_sack s;
	uint32_t i, epsn = psn_add(rel, psn_diff(side->qp->conn.rcv.epsn, pkt->psn));
	struct pair_op *op = trace_op(asker, rel);
	bool early = rel != epsn;

	if (side->pair->cfg.sr == 0 || !wire_sack_get(pkt, &s)) {
		sim_fail(&side->pair->sim, "SR-01: qp %06x: a SACK that is none, or not agreed",
			 side->qpn);
		return;
	}
	if (early &&
	    (rel > epsn || op == NULL || op->opcode != UROCE_WR_RDMA_READ || rel == op->first))
		sim_fail(&side->pair->sim, "SR-02: qp %06x: SACK of PSN %06x, ePSN is %06x",
			 side->qpn, pkt->psn, side->qp->conn.rcv.epsn);
	for (i = 0; i < QP_SR_WINDOW; i++) {
		uint32_t at = rel + i;
		bool held = (s.held[i / 64] >> (i % 64) & 1) != 0;

		if (early && i != 0 && at <= epsn) {
			if (held != (at < epsn))
				sim_fail(&side->pair->sim, "SR-02: qp %06x: SACK +%u: +%u is wrong",
					 side->qpn, rel, at);
		} else if (held && !(asker->came[at / 64] >> (at % 64) & 1))
			sim_fail(&side->pair->sim,
				 "SR-02: qp %06x: says that it holds +%u, which never came",
				 side->qpn, at);
	}
	side->gap = false;
	side->pair->more.sacks++;
	answer_covers(side, rel, pkt->msn);
}

static void
answer_ack(struct pair_side *side, const struct wire_pkt *pkt, uint32_t rel)
{
	uint8_t kind = pkt->syndrome & WIRE_SYN_KIND, value = pkt->syndrome & WIRE_SYN_VALUE;

	side->pair->more.naks += kind == WIRE_SYN_NAK;
	side->pair->more.rnrs += kind == WIRE_SYN_RNR;
	if (kind == WIRE_SYN_RNR && value != side->attr.min_rnr_timer)
		sim_fail(&side->pair->sim, "NAK-10: qp %06x: timer code %u, not %u", side->qpn,
			 value, side->attr.min_rnr_timer);
	if (kind == WIRE_SYN_NAK && value != WIRE_NAK_PSN_SEQ)
		answer_fatal_nak(side, rel);
	else if (kind != WIRE_SYN_ACK)
		answer_nak(side, pkt, kind == WIRE_SYN_RNR);
	answer_covers(side, kind == WIRE_SYN_ACK ? psn_add(rel, 1) : rel, pkt->msn);
}

void
trace_answer(struct pair_side *side, const struct wire_pkt *pkt, struct pair_view *v)
{
	if (v->flags & WIRE_F_READ)
		answer_read(side, pkt, v);
	else if (v->flags & WIRE_F_ATOMIC)
		answer_atomic(side, pkt, v);
	else if (v->flags & WIRE_F_SACK)
		answer_sack(side, pkt, v->psn);
	else
		answer_ack(side, pkt, v->psn);
}
