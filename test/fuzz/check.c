/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>
#include <rte_mbuf.h>
#include "requester/requester_parts.h"
#include "wire/icrc.h"
#include "wire/psn.h"
#include "wire/sack.h"
#include "world_parts.h"

/* Only received packets are acknowledged, and a NAK names a missing one. */
static void
check_response(const struct qp *qp, const struct wire_pkt *pkt)
{
	uint32_t kind = pkt->syndrome & WIRE_SYN_KIND;
	struct wire_sack s;

	if (pkt->op->flags & WIRE_F_SACK)
		CHECK(qp->conn.sr.state == QP_SR_ON && wire_sack_get(pkt, &s) &&
		      psn_le(pkt->psn, qp->conn.rcv.epsn));
	else if (!(pkt->op->flags & WIRE_F_ACK) || kind == WIRE_SYN_ACK)
		CHECK(psn_lt(pkt->psn, qp->conn.rcv.epsn));
	else if (pkt->syndrome == (WIRE_SYN_NAK | WIRE_NAK_PSN_SEQ))
		CHECK(pkt->psn == qp->conn.rcv.epsn);
	else /* RNR, or fatal: of a READ it may come late */
		CHECK((kind == WIRE_SYN_RNR || kind == WIRE_SYN_NAK) &&
		      psn_le(pkt->psn, qp->conn.rcv.epsn));
}

void
check_frame(const struct rte_mbuf *m)
{
	static uint8_t joined[WIRE_MAX_OVERHEAD + 4096];
	const struct qp *qp;
	struct wire_pkt pkt;
	uint32_t q;

	/* headers, payload, pad and ICRC */
	CHECK((m->nb_segs == 1 || m->nb_segs == 3) && m->port == WORLD_DEV &&
	      m->pkt_len <= sizeof(joined));
	CHECK(wire_parse(rte_pktmbuf_read(m, 0, m->pkt_len, joined), (uint16_t)m->pkt_len, &pkt) ==
	      WIRE_OK);
	CHECK(wire_icrc_check(&pkt));
	q = pkt.qpn - WORLD_PEER;
	if (world_hostile && (pkt.opcode & WIRE_SVC_MASK) == WIRE_SVC_UD)
		return; /* its WQE says where to */
	CHECK(q < WORLD_QPS);
	qp = world.side[q].qp;
	if (pkt.opcode == WIRE_OPCODE_CNP)
		return;
	CHECK((pkt.opcode & WIRE_SVC_MASK) == world.side[q].peer.svc ||
	      pkt.opcode == WIRE_OPCODE_SACK);
	CHECK(pkt.payload_len <= qp->conn.mtu || is_ud(q));
	if (pkt.op->flags & WIRE_F_RESP)
		check_response(qp, &pkt);
	else
		CHECK(psn_lt(pkt.psn, qp->conn.snd.high_psn));
	if (qp->conn.type == QP_TYPE_RC && (pkt.op->flags & WIRE_F_REQ) && qp->conn.state == QP_RTS)
		CHECK(psn_le(qp->conn.snd.una_psn, pkt.psn));
}

/* Messages that have started, are not acknowledged, and take a receive WQE of the peer. */
static uint32_t
receives_taken(const struct qp *qp)
{
	const struct qp_snd *s = &qp->conn.snd;
	uint32_t i, n = 0;

	for (i = s->tail; i != s->cur + (s->cur_pkt != 0); i++)
		n += req_takes_recv(qp_sq_entry(qp, i));
	return n;
}

static void
check_snd(const struct qp *qp)
{
	const struct qp_snd *s = &qp->conn.snd;

	CHECK(s->head - s->tail <= qp->bind.sqes.mask + 1u);
	CHECK(s->cur - s->tail <= s->head - s->tail);
	CHECK(s->rd_out <= QP_MAX_RD_ATOMIC);
	if (qp->conn.type != QP_TYPE_RC || qp->conn.state != QP_RTS)
		return;
	CHECK(psn_le(s->una_psn, s->next_psn) && psn_le(s->next_psn, s->high_psn) &&
	      psn_le(s->high_psn, s->alloc_psn));
	if (s->limited)
		CHECK(qp->conn.rq_out == receives_taken(qp));
	/* Who waits for an answer has a deadline, or sends again when its pace allows. */
	CHECK(s->una_psn == s->high_psn || qp_deadline_earliest(&qp->conn) != 0 ||
	      qp->bind.parked || qp->bind.late_resp.n != 0);
}

static void
check_qp(struct qp *qp)
{
	CHECK(qp_table_find(&world.qps, qp->conn.qpn) == qp);
	CHECK(qp->conn.state < QP_NSTATES);
	CHECK(!qp->bind.on_run_list || world.worker.engine.npaused != 0 || memory_is_late());
	CHECK(!qp->bind.parked || qp->conn.cc_flow.limits || qp->bind.tx_late_ns != 0);
	/* one that has moved sets it in its turn */
	CHECK(qp_deadline_earliest(&qp->conn) == 0 || qp->bind.timer_at_ns != 0 ||
	      qp->bind.on_run_list);
	CHECK(qp->conn.rcv.rdq_n <= QP_RD_QUEUE);
	CHECK(qp->conn.rcv.msg <= QP_MSG_WRITE);
	check_snd(qp);
}

void
check_step(void)
{
	uint32_t q;

	CHECK(run_list_first(&world.worker.engine.run) == NULL || memory_is_late());
	CHECK(world.worker.engine.env.tx_n == 0 && world.worker.engine.env.dirty_n == 0);
	for (q = 0; q < WORLD_QPS; q++)
		check_qp(world.side[q].qp);
}
