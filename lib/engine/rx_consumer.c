/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames for others than QPs: datagrams for QP1 to lib/control, other protocols to the kernel. */
#include <rte_mbuf.h>
#include "engine/rx.h"

/* Returns why the consumer does not get pkt, which is for a QPN without a QP, or DROP_NUM. */
static enum drop_reason
consumer_refuses(const struct engine *e, uint16_t dev, const struct wire_pkt *pkt,
		 enum drop_reason form)
{
	const struct engine_addrs *a = rx_addrs(e, dev);
	uint8_t gid[16];

	if (e->ops->consumer == NULL || pkt->qpn == 0 ||
	    pkt->qpn != __atomic_load_n(&e->consumer_qpn, __ATOMIC_RELAXED))
		return DROP_BAD_QPN;
	if (form != DROP_NUM)
		return form;
	if ((pkt->opcode & WIRE_SVC_MASK) != WIRE_SVC_UD)
		return DROP_BAD_SERVICE;
	if (!rx_source_is_station(a, pkt))
		return DROP_BAD_GID;
	wire_dst_gid(pkt, gid);
	return a == NULL || rx_gid_in(a, gid) ? DROP_NUM : DROP_NOT_OURS;
}

void
rx_consume(struct engine *e, uint16_t dev, struct rte_mbuf *m, const struct wire_pkt *pkt,
	   enum drop_reason form)
{
	enum drop_reason why = consumer_refuses(e, dev, pkt, form);

	if (why != DROP_NUM)
		rx_drop(e, e->env.counters, why, m);
	else if (e->ops->consumer(e->ops_ctx, dev, m))
		e->env.counters->ctr[COUNTER_SLOW_PATH]++;
	else
		e->env.counters->drop[DROP_SLOW_PATH_FULL]++;
}

/*
 * Is the frame one of the kernel's? A fragment may be of any UDP datagram: RoCE is never
 * fragmented. Damaged frames and 802.1ad are nobody's.
 */
static bool
for_kernel(enum wire_verdict v)
{
	return v == WIRE_ETHERTYPE || v == WIRE_IP_PROTOCOL || v == WIRE_IPV6_EXTENSION ||
	       v == WIRE_OTHER_PORT || v == WIRE_FRAGMENT;
}

void
rx_refused(struct engine *e, uint16_t dev, struct rte_mbuf *m, enum wire_verdict v,
	   enum drop_reason why)
{
	struct counter_block *counters = e->dev[dev].counters;

	if (!e->dev[dev].hostif || e->ops->host == NULL || !for_kernel(v))
		rx_drop(e, counters, why, m);
	else if (e->ops->host(e->ops_ctx, dev, m))
		counters->ctr[COUNTER_SLOW_PATH]++;
	else
		counters->drop[DROP_SLOW_PATH_FULL]++;
}
