/* SPDX-License-Identifier: BSD-3-Clause */
/* Received frames, one by one (rx.c) and for groups (rx_group.c). Private to the engine. */
#ifndef ENGINE_RX_H
#define ENGINE_RX_H

#include <string.h>
#include "engine/engine.h"

/* A received frame is not needed any more. Those of a burst are freed together. */
static inline void
rx_done(struct engine *e, struct rte_mbuf *m)
{
	e->done[e->done_n++] = m;
}

/* Drop m, counted in counters as why. */
static inline void
rx_drop(struct engine *e, struct counter_block *counters, enum drop_reason why, struct rte_mbuf *m)
{
	counters->drop[why]++;
	rx_done(e, m);
}

/* The device's addresses, until the end of the burst; NULL: unknown. */
static inline const struct engine_addrs *
rx_addrs(const struct engine *e, uint16_t dev)
{
	return __atomic_load_n(&e->dev[dev].addrs, __ATOMIC_ACQUIRE);
}

/* Is gid one of the addresses in a? */
static inline bool
rx_gid_in(const struct engine_addrs *a, const uint8_t gid[16])
{
	uint32_t i;

	for (i = 0; i < a->ngids; i++) {
		if (memcmp(a->gid[i], gid, 16) == 0)
			return true;
	}
	return false;
}

/* Why qp must not see pkt, which came on dev, or DROP_NUM. */
enum drop_reason rx_refuses(struct engine *e, struct qp *qp, const struct wire_pkt *pkt,
			    uint16_t dev);

/*
 * m, whose packet pkt is for a group: every member gets it, but for the QP that sent it (WIRE-10).
 * Consumes m.
 */
void rx_multicast(struct engine *e, uint16_t dev, struct rte_mbuf *m, const struct wire_pkt *pkt);

/*
 * rx_consumer.c: an intact packet whose QPN is no QP's. The consumer of engine_set_consumer gets
 * m if the packet is a datagram for it; else m is dropped. form: what is wrong with the packet's
 * form; DROP_NUM: nothing. Consumes m.
 */
void rx_consume(struct engine *e, uint16_t dev, struct rte_mbuf *m, const struct wire_pkt *pkt,
		enum drop_reason form);

#endif
