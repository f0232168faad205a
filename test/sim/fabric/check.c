/* SPDX-License-Identifier: BSD-3-Clause */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <rte_mbuf.h>
#include "check.h"
#include "wire/psn.h"
#include "wire/sack.h"

/* The two marks of a packet in memory: its first and its last bytes. */
#define MARK sizeof(uint64_t)

static void __attribute__((format(printf, 2, 3))) broken(struct host *h, const char *fmt, ...)
{
	va_list ap;

	if (!h->broken) {
		fprintf(stderr, "uroce-fabric: host %u: ", h->idx);
		va_start(ap, fmt);
		vfprintf(stderr, fmt, ap);
		va_end(ap);
		fputc('\n', stderr);
	}
	h->broken = true;
}

/* The connection of h between its QP qpn and the peer's; NULL: there is none. */
static struct host_conn *
conn_of(struct host *h, uint32_t qpn)
{
	uint32_t i = qpn - RC_QPN_BASE;

	return i < h->nconns ? &h->conn[i] : NULL;
}

static bool
parse(const struct rte_mbuf *m, struct wire_pkt *pkt)
{
	return wire_parse(rte_pktmbuf_mtod(m, const uint8_t *), m->data_len, pkt) == WIRE_OK;
}

void
check_came(struct host *h, const struct rte_mbuf *m)
{
	struct host_conn *c;
	struct wire_pkt pkt;

	if (!parse(m, &pkt) || !(pkt.op->flags & WIRE_F_REQ) || (c = conn_of(h, pkt.qpn)) == NULL)
		return;
	c->came[pkt.psn % HOST_CAME] = pkt.psn + 1;
}

static void
check_sack(struct host *h, struct host_conn *c, const struct qp *qp, const struct wire_pkt *pkt)
{
	struct wire_sack s;

	if (qp->conn.sr.state != QP_SR_ON || !wire_sack_get(pkt, &s)) {
		broken(h, "SR-01: a SACK that is none, or was not agreed");
		return;
	}
	if (psn_lt(qp->conn.rcv.epsn, pkt->psn))
		broken(h, "SR-02: SACK of PSN %06x, ePSN is %06x", pkt->psn, qp->conn.rcv.epsn);
	for (uint32_t i = 0; i < QP_SR_WINDOW; i++) {
		uint32_t psn = psn_add(pkt->psn, i);

		if ((rte_le_to_cpu_64(s.held[i / 64]) >> (i % 64) & 1) &&
		    c->came[psn % HOST_CAME] != psn + 1 && !psn_lt(psn, qp->conn.rcv.epsn))
			broken(h, "SR-02: a SACK names PSN %06x, which has not arrived", psn);
	}
}

void
check_sent(struct host *h, const struct rte_mbuf *m)
{
	const struct host_conn *c;
	const struct qp *qp;
	struct wire_pkt pkt;
	int32_t ahead, most;
	uint32_t i;

	/* CNPs and responses name the peer's QP, too. */
	if (!parse(m, &pkt))
		broken(h, "a frame of a wrong form");
	for (i = 0; i < h->nconns; i++) {
		c = &h->conn[i];
		if (RC_QPN_BASE + c->peer_conn == pkt.qpn && c->peer->mac[5] == pkt.l2[5])
			break;
	}
	if (i == h->nconns) {
		broken(h, "a frame for QP %06x, which is nobody's peer", pkt.qpn);
		return;
	}
	qp = h->rc.conn[i].qp;
	if (pkt.op->flags & WIRE_F_SACK)
		check_sack(h, &h->conn[i], qp, &pkt);
	if (!(pkt.op->flags & WIRE_F_REQ) || c->flow == NULL || c->flow->read)
		return;
	ahead = psn_diff(pkt.psn, qp->conn.snd.una_psn);
	most = (int32_t)(h->sr == NULL ? CC_WINDOW_PKTS : QP_SR_WIDE);
	if (h->sr != NULL && qp->conn.cc_flow.param.policy == CC_FIXED)
		most = CC_WIDE_PKTS;
	if (ahead >= most)
		broken(h, "PSN %06x is sent %d PSNs ahead of the oldest one", pkt.psn, ahead);
}

/* The mark of message n. */
static uint64_t
mark_of(uint64_t n)
{
	return 0x5eed000000000000u + n;
}

static bool
marked(const struct flow *f)
{
	return f->depth <= HOST_PLACES; /* else a later message may be in the buffer */
}

void
check_post(struct host *h, uint32_t i, uint64_t n)
{
	const struct host_conn *c = &h->conn[i];
	struct host *src = c->flow->read ? c->peer : h;
	uint32_t src_conn = c->flow->read ? c->peer_conn : i;
	uint8_t *p = (uint8_t *)src->rc.mr.host + host_place(src_conn, n);
	uint64_t mark = mark_of(n);

	if (!marked(c->flow))
		return;
	for (uint32_t at = 0; at < c->flow->size; at += HOST_MTU) {
		memcpy(p + at, &mark, MARK);
		memcpy(p + at + HOST_MTU - MARK, &mark, MARK);
	}
}

void
check_complete(struct host *h, uint32_t i, uint64_t n)
{
	const struct host_conn *c = &h->conn[i];
	const struct host *dst = c->flow->read ? h : c->peer;
	uint32_t dst_conn = c->flow->read ? i : c->peer_conn;
	const uint8_t *p = (const uint8_t *)dst->rc.mr.host + host_place(dst_conn, n);
	uint64_t mark = mark_of(n);

	if (!marked(c->flow))
		return;
	for (uint32_t at = 0; at < c->flow->size; at += HOST_MTU) {
		if (memcmp(p + at, &mark, MARK) != 0 ||
		    memcmp(p + at + HOST_MTU - MARK, &mark, MARK) != 0)
			broken(h,
			       "message %" PRIu64 " of connection %u completed without its "
			       "packet %u",
			       n, i, at / HOST_MTU);
	}
}
