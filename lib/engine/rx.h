/* SPDX-License-Identifier: BSD-3-Clause */
/* Received frames: single (rx.c) and of groups (rx_group.c). Private to the engine. */
#ifndef ENGINE_RX_H
#define ENGINE_RX_H

#include <string.h>
#include <rte_branch_prediction.h>
#include "engine/engine.h"

/* Queues a received frame for freeing. Those of a burst are freed together. */
static inline void
rx_done(struct engine *e, struct rte_mbuf *m)
{
	e->done[e->done_n++] = m;
}

/* Drops m and counts it in counters as why. */
static inline void
rx_drop(struct engine *e, struct counter_block *counters, enum drop_reason why, struct rte_mbuf *m)
{
	counters->drop[why]++;
	rx_done(e, m);
}

/* Returns the device's addresses, valid until the end of the burst; NULL: unknown. */
static inline const struct engine_addrs *
rx_addrs(const struct engine *e, uint16_t dev)
{
	return __atomic_load_n(&e->dev[dev].addrs, __ATOMIC_ACQUIRE);
}

/* Returns true if gid is one of the addresses in a. */
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

/*
 * May the client, or the control thread, respond to the source of the datagram pkt? A
 * multicast source would multiply one datagram. A loopback address is legal only on a device that
 * has such an address itself: no frame from another host has one. a: the device's addresses; NULL:
 * unknown.
 */
bool rx_source_is_station(const struct engine_addrs *a, const struct wire_pkt *pkt);

/*
 * Returns the index of the first member in a that is not before qpn in the group gid; nmembers:
 * none. Clients decide how many members there are, so nothing but this searches them for a packet.
 */
static inline uint32_t
rx_member_from(const struct engine_addrs *a, const uint8_t gid[16], uint32_t qpn)
{
	struct engine_member key = {.qpn = qpn};
	uint32_t from = 0, to = a->nmembers;

	memcpy(key.gid, gid, 16);
	while (from != to) {
		uint32_t mid = from + (to - from) / 2;

		if (engine_member_cmp(&a->member[mid], &key) < 0)
			from = mid + 1;
		else
			to = mid;
	}
	return to;
}

/* Returns true if a QP in this state accepts requests, or responses. */
static inline bool
rx_state_takes(enum qp_state state, uint32_t op_flags)
{
	return likely(state == QP_RTS) || (state >= QP_RTR && state != QP_ERR &&
					   (state >= QP_RTS || !(op_flags & WIRE_F_RESP)));
}

/* Returns why qp does not get pkt, which came on dev, or DROP_NUM. */
enum drop_reason rx_refuses(struct engine *e, struct qp *qp, const struct wire_pkt *pkt,
			    uint16_t dev);

/*
 * Passes m, whose packet pkt is for a group, to every member except the QP that sent it (WIRE-10).
 * Consumes m.
 */
void rx_multicast(struct engine *e, uint16_t dev, struct rte_mbuf *m, const struct wire_pkt *pkt);

/*
 * rx_late.c: passes a request, which came on dev in m, to qp, a UC or UD QP that accepts it.
 * Returns false if the packet waits because the QP's memory is late: it is counted when its wait
 * ends. counted: it counts as received already. The caller frees m.
 */
bool rx_unreliable(struct engine *e, uint16_t dev, struct qp *qp, struct rte_mbuf *m,
		   const struct wire_pkt *pkt, bool counted);
/*
 * rx_late.c: a request in m, which came on dev, was not executed because the memory of qp, an RC
 * QP, is late, or that of one before it (DROP_MEMORY_LATE). Returns true if it is kept and tried
 * again: it is counted when its wait ends. Otherwise it is to be counted as dropped. If it had no
 * place, or has waited for long when the peer sends it again, the peer is asked for it by a NAK.
 * The caller frees m.
 */
bool rx_late_keep(struct engine *e, uint16_t dev, struct qp *qp, struct rte_mbuf *m,
		  const struct wire_pkt *pkt);
/*
 * rx_late.c: the same for a response, whose data waits for the memory of qp, and for those behind
 * it, ACKs included. Meanwhile the requester does not probe. Data that had no place is requested
 * again.
 */
bool rx_late_keep_response(struct engine *e, uint16_t dev, struct qp *qp, struct rte_mbuf *m,
			   const struct wire_pkt *pkt);
/* Tries again the packets that wait, if it is time to. */
void rx_late_run(struct engine *e);
/* Drops those of qp. */
void rx_late_forget(struct engine *e, struct qp *qp);

#endif
