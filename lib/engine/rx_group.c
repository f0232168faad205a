/* SPDX-License-Identifier: BSD-3-Clause */
/* Received datagrams for groups: delivers them to every member, on any worker. */
#include <string.h>
#include <rte_common.h>
#include <rte_mbuf.h>
#include "engine/rx.h"
#include "responder/responder.h"
#include "wire/icrc.h"
#include "wire/parse.h"

/* Copies a group's packet for one QP, with its QPN in the BTH and a matching ICRC. */
static struct rte_mbuf *
copy_for(struct engine *e, uint16_t dev, const struct rte_mbuf *m, const struct wire_pkt *pkt,
	 uint32_t qpn)
{
	struct rte_mbuf *c = rte_pktmbuf_alloc(e->dev[dev].pool);
	uint32_t bth = (uint32_t)(pkt->bth - pkt->l2), ip = (uint32_t)(pkt->ip - pkt->l2);
	uint32_t end = (uint32_t)(pkt->payload - pkt->l2) + pkt->payload_len + pkt->pad_len;
	uint32_t icrc;
	uint8_t *p;

	if (c == NULL || rte_pktmbuf_tailroom(c) < m->data_len) {
		rte_pktmbuf_free(c);
		return NULL;
	}
	p = rte_pktmbuf_mtod(c, uint8_t *);
	memcpy(p, pkt->l2, m->data_len);
	((struct wire_bth *)(p + bth))->fb_qpn = rte_cpu_to_be_32(qpn);
	icrc = wire_icrc_start(p + ip, pkt->is_v6);
	icrc = wire_icrc_update(icrc, p + bth + WIRE_BTH_LEN, end - bth - WIRE_BTH_LEN);
	icrc = wire_icrc_final(icrc);
	memcpy(p + end, &icrc, sizeof(icrc));
	c->data_len = m->data_len;
	c->pkt_len = m->data_len;
	c->port = dev;
	return c;
}

/*
 * Sends the group's packet to a member that another worker owns. extra: the receiver does not count
 * the copy as a frame.
 */
static enum drop_reason
rx_member_away(struct engine *e, uint16_t dev, const struct rte_mbuf *m, const struct wire_pkt *pkt,
	       uint32_t qpn, bool extra)
{
	struct rte_mbuf *c = copy_for(e, dev, m, pkt, qpn);

	if (c == NULL)
		return DROP_NO_MBUF;
	c->hash.usr = extra ? ENGINE_RX_EXTRA : ENGINE_RX_FRAME;
	e->ops->handoff(e->ops_ctx, qp_table_owner(e->qps, qpn), qpn, c);
	return DROP_NUM;
}

/* Delivers the packet to a member of this worker. Returns DROP_NUM if it accepted it. */
static enum drop_reason
rx_member_here(struct engine *e, uint16_t dev, struct rte_mbuf *m, const struct wire_pkt *pkt,
	       uint32_t qpn)
{
	struct qp *qp = qp_table_find(e->qps, qpn);
	enum drop_reason why;

	if (qp == NULL)
		return DROP_BAD_QPN; /* destroyed since the list was made */
	if (engine_is_paused(e, qp->bind.run_user))
		return DROP_PAUSED;
	qp_env_serve(&e->env, qp_view_is(m) ? 0 : qp->bind.run_user);
	why = rx_refuses(e, qp, pkt, dev);
	if (why != DROP_NUM)
		return why;
	qp->conn.rx_bytes += m->pkt_len;
	/* One that waits counts as accepted. */
	(void)rx_unreliable(e, dev, qp, m, pkt, true);
	why = e->env.dropped;
	e->env.dropped = DROP_NUM;
	return why;
}

/* Result of a group's packet. */
struct rx_group {
	const struct engine_addrs *addrs; /* one list for all members */
	uint32_t members, taken, refused, bad_pkey;
	enum drop_reason why; /* of the last refusal */
};

/* Counts a member's result. */
static void
rx_group_count(struct rx_group *g, enum drop_reason why)
{
	g->taken += why == DROP_NUM;
	g->refused += why != DROP_NUM;
	g->bad_pkey += why == DROP_BAD_PKEY;
	if (why != DROP_NUM)
		g->why = why;
}

/*
 * Delivers the packet to the members of this worker (here), or to all others, except the QP that
 * sent it. The first copy to another worker counts as the frame, unless a member here accepted it.
 */
static void
rx_members(struct engine *e, uint16_t dev, struct rte_mbuf *m, const struct wire_pkt *pkt,
	   bool here, struct rx_group *g)
{
	const struct engine_addrs *a = g->addrs;
	uint8_t dst[16], src[16];
	bool own;
	uint32_t i;

	wire_dst_gid(pkt, dst);
	wire_src_gid(pkt, src);
	own = rx_gid_in(a, src);
	for (i = rx_member_from(a, dst, 0);
	     i < a->nmembers && memcmp(a->member[i].gid, dst, 16) == 0; i++) {
		uint32_t qpn = a->member[i].qpn;

		if ((qp_table_owner(e->qps, qpn) == e->worker) != here)
			continue;
		g->members++;
		if (own && qpn == pkt->src_qpn)
			continue;
		rx_group_count(g, here ? rx_member_here(e, dev, m, pkt, qpn)
				       : rx_member_away(e, dev, m, pkt, qpn, g->taken != 0));
	}
}

void
rx_multicast(struct engine *e, uint16_t dev, struct rte_mbuf *m, const struct wire_pkt *pkt)
{
	struct rx_group g = {.addrs = rx_addrs(e, dev), .why = DROP_BAD_QPN};
	struct counter_block *counters = e->env.counters;
	uint32_t here = 0;

	if (g.addrs != NULL) {
		rx_members(e, dev, m, pkt, true, &g);
		here = g.taken;
		rx_members(e, dev, m, pkt, false, &g);
	}
	/* Accepted by nobody here but passed to another worker: that worker counts it. */
	if (here != 0 || (g.members != 0 && g.taken + g.refused == 0)) {
		counters->ctr[COUNTER_RX_ROCE]++;
	} else if (g.taken == 0) {
		counters->drop[g.why]++;
		g.refused -= g.refused != 0;
		g.bad_pkey -= g.why == DROP_BAD_PKEY;
	} else {
		counters->ctr[COUNTER_RX_HANDOFF]++;
	}
	counters->ctr[COUNTER_MCAST_REFUSED] += g.refused;
	counters->ctr[COUNTER_MCAST_BAD_PKEY] += g.bad_pkey;
	rx_done(e, m);
}

void
engine_rx_extra(struct engine *e, uint64_t now_ns, uint16_t dev, struct rte_mbuf *m)
{
	struct counter_block *counters = e->dev[dev].counters, own = {0};
	uint32_t i;

	/* Count what its QP does, but not its arrival. */
	e->dev[dev].counters = &own;
	e->rx_extra = true;
	engine_rx(e, now_ns, dev, &m, 1);
	e->rx_extra = false;
	e->dev[dev].counters = e->env.counters = counters;
	own.ctr[COUNTER_RX_ROCE] = 0;
	for (i = 0; i < COUNTER_NUM; i++)
		counters->ctr[i] += own.ctr[i];
	for (i = 0; i < DROP_NUM; i++)
		counters->ctr[COUNTER_MCAST_REFUSED] += own.drop[i];
	counters->ctr[COUNTER_MCAST_BAD_PKEY] += own.drop[DROP_BAD_PKEY];
}
