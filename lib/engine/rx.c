/* SPDX-License-Identifier: BSD-3-Clause */
/* Received frames, from bytes to the half of the QP that they are for. */
#include <string.h>
#include <rte_branch_prediction.h>
#include <rte_common.h>
#include <rte_mbuf.h>
#include <rte_prefetch.h>
#include "engine/rx.h"
#include "engine/turn.h"
#include "qp/match.h"
#include "qp/migrate.h"
#include "qp/emit.h"
#include "qp/prefetch.h"
#include "requester/requester.h"
#include "responder/responder.h"
#include "wire/icrc.h"
#include "wire/icrc_id.h"
#include "wire/parse.h"

#define RX_LONG_BYTES 1024       /* 32 frames of it fill a first cache of 32 KiB */
#define NO_QPN        0xff000000 /* of a frame before the first */

static const enum drop_reason drop_of_verdict[WIRE_VERDICTS] = {
	[WIRE_RUNT] = DROP_RUNT,
	[WIRE_BAD_IP] = DROP_BAD_IP,
	[WIRE_FRAGMENT] = DROP_FRAGMENT,
	[WIRE_BAD_UDP] = DROP_BAD_UDP,
	[WIRE_BAD_TVER] = DROP_BAD_TVER,
	[WIRE_BAD_OPCODE] = DROP_BAD_OPCODE,
	[WIRE_BAD_PAD] = DROP_BAD_PAD,
	[WIRE_BAD_LENGTH] = DROP_BAD_LENGTH,
	[WIRE_BAD_ICRC] = DROP_BAD_ICRC,
	[WIRE_STACKED_VLAN] = DROP_BAD_VLAN,
	[WIRE_ETHERTYPE] = DROP_ETHERTYPE,
	[WIRE_IP_PROTOCOL] = DROP_IP_PROTOCOL,
	[WIRE_IPV6_EXTENSION] = DROP_IPV6_EXTENSION,
	[WIRE_OTHER_PORT] = DROP_UDP_PORT,
};

/* Service bits of the opcodes that a QP type speaks. */
static const uint8_t svc_of_type[] = {
	[QP_TYPE_RC] = WIRE_SVC_RC,
	[QP_TYPE_UC] = WIRE_SVC_UC,
	[QP_TYPE_UD] = WIRE_SVC_UD,
};

/* Does a QP in this state take requests, or responses? */
static inline bool
state_takes(enum qp_state state, uint32_t op_flags)
{
	return likely(state == QP_RTS) || (state >= QP_RTR && state != QP_ERR &&
					   (state >= QP_RTS || !(op_flags & WIRE_F_RESP)));
}

/*
 * A packet whose opcode is not of the QP's type. DROP_CNP: a CNP that may reach the congestion
 * policy of qp, a connected QP.
 */
static enum drop_reason
refuses_service(struct engine *e, const struct qp *qp, const struct wire_pkt *pkt)
{
	if (!(pkt->op->flags & WIRE_F_CNP) || qp->conn.type == QP_TYPE_UD)
		return DROP_BAD_SERVICE;
	if (!state_takes(qp->conn.state, pkt->op->flags))
		return DROP_QP_STATE;
	if (!qp_pkeys_match(pkt->pkey, qp->conn.pkey))
		return DROP_BAD_PKEY;
	return qp_gids_match(qp, pkt) ? DROP_CNP : DROP_BAD_GID;
}

/* Why this QP must not see this packet, or DROP_NUM. */
static __rte_always_inline enum drop_reason
qp_refuses(struct engine *e, struct qp *qp, const struct wire_pkt *pkt, uint16_t dev)
{
	if (qp->bind.port != dev)
		return DROP_BAD_QPN;
	if (unlikely((pkt->opcode & WIRE_SVC_MASK) != svc_of_type[qp->conn.type]))
		return refuses_service(e, qp, pkt);
	if (!state_takes(qp->conn.state, pkt->op->flags))
		return DROP_QP_STATE;
	if (unlikely(qp->conn.mig != QP_MIG_MIGRATED))
		return qp_mig_rx(&e->env, qp, pkt);
	if (!qp_pkeys_match(pkt->pkey, qp->conn.pkey))
		return DROP_BAD_PKEY;
	if (qp->conn.type != QP_TYPE_UD && !qp_gids_match(qp, pkt))
		return DROP_BAD_GID;
	return DROP_NUM;
}

enum drop_reason
rx_refuses(struct engine *e, struct qp *qp, const struct wire_pkt *pkt, uint16_t dev)
{
	return qp_refuses(e, qp, pkt, dev);
}

/*
 * Is the packet's destination address one of the device's, or a group's that the QP listens to? The
 * latter is a copy that another worker has made for it. A connected QP knows its own.
 */
static bool
dst_is_ours(const struct engine_addrs *a, const struct wire_pkt *pkt)
{
	uint8_t gid[16];
	uint32_t i;

	if (a == NULL)
		return true;
	wire_dst_gid(pkt, gid);
	for (i = 0; i < a->nmembers; i++) {
		if (a->member[i].qpn == pkt->qpn && memcmp(a->member[i].gid, gid, 16) == 0)
			return true;
	}
	return rx_gid_in(a, gid);
}

/*
 * A packet of bad form for a QP that takes packets like it: dropped, whatever else is due. A
 * reserved opcode counts as a request.
 */
static void
rx_malformed(struct engine *e, struct qp *qp, const struct wire_pkt *pkt)
{
	if (qp->conn.type == QP_TYPE_UD)
		return;
	if (pkt->op->flags & WIRE_F_RESP)
		req_rx_malformed(&e->env, qp, pkt);
	else
		rsp_rx_malformed(&e->env, qp, pkt);
	turn_check_timer(e, qp);
}

enum rx_icrc { RX_ICRC_BAD, RX_ICRC_GOOD, RX_ICRC_UNKNOWN, RX_VIEW };

/* A received RoCE frame on its way through engine_rx. */
struct rx_frame {
	struct wire_pkt pkt;
	struct rte_mbuf *m;
	struct qp *qp;       /* of its QPN, or NULL */
	enum wire_verdict v; /* WIRE_OK, or what is bad about its form */
	enum rx_icrc icrc;
};

/* The packet was given to its QP. True: it took it. */
static inline bool
count_given(struct engine *e)
{
	if (likely(e->env.dropped == DROP_NUM)) {
		e->env.counters->ctr[COUNTER_RX_ROCE]++;
		return true;
	}
	e->env.counters->drop[e->env.dropped]++;
	e->env.dropped = DROP_NUM;
	return false;
}

/* Addresses that are not those of a connected QP: a group's have a reason of their own. */
static enum drop_reason
why_not_gid(const struct wire_pkt *pkt)
{
	return wire_dst_is_group(pkt) ? DROP_BAD_MULTICAST : DROP_BAD_GID;
}

/* An intact packet for a QPN of this worker. */
static void
rx_roce(struct engine *e, uint16_t dev, const struct rx_frame *f)
{
	struct counter_block *counters = e->env.counters;
	const struct wire_pkt *pkt = &f->pkt;
	enum wire_verdict v = f->v;
	struct rte_mbuf *m = f->m;
	struct qp *qp = f->qp;
	enum drop_reason why;

	if (qp == NULL) {
		rx_consume(e, dev, m, pkt, v == WIRE_OK ? DROP_NUM : drop_of_verdict[v]);
		return;
	}
	why = qp_refuses(e, qp, pkt, dev);
	if (why == DROP_NUM && qp->conn.type == QP_TYPE_UD && !dst_is_ours(rx_addrs(e, dev), pkt))
		why = DROP_NOT_OURS;
	if (v != WIRE_OK) {
		if (why == DROP_NUM)
			rx_malformed(e, qp, pkt);
		e->env.dropped = DROP_NUM;
		if (why == DROP_NUM || why == DROP_BAD_SERVICE)
			why = drop_of_verdict[v];
	}
	if (why == DROP_CNP && req_rx_cnp(&e->env, qp)) {
		count_given(e);
		rx_done(e, m);
		return;
	}
	if (why != DROP_NUM) {
		rx_drop(e, counters, why == DROP_BAD_GID ? why_not_gid(pkt) : why, m);
		return;
	}
	if (qp->conn.type == QP_TYPE_UD) {
		rsp_rx_datagram(&e->env, qp, pkt);
	} else if (pkt->op->flags & WIRE_F_REQ) {
		rsp_rx(&e->env, qp, pkt, m);
		turn_asked(e, qp);
	} else {
		req_rx(&e->env, qp, pkt);
		turn_check_timer(e, qp);
	}
	count_given(e);
	rx_done(e, m);
}

/* To the device's own MAC? */
static inline bool
frame_is_ours(const uint8_t *frame, uint64_t mac)
{
	uint64_t first;

	memcpy(&first, frame, sizeof(first)); /* 14 bytes are there */
	return (first & rte_cpu_to_le_64(0xffffffffffff)) == mac;
}

/*
 * Is the RoCE packet one that may come to a MAC of a group: a datagram to a group of IP? A
 * connected QP has one peer, and a frame to all that names its address is nothing that its peer has
 * sent.
 */
static bool
may_be_group(const struct wire_pkt *pkt)
{
	return (pkt->opcode & WIRE_SVC_MASK) == WIRE_SVC_UD && wire_dst_is_group(pkt);
}

/* Does f, read up to its BTH, come to a MAC that it may not come to? */
static bool
bad_group(const struct rx_frame *f)
{
	return (f->v == WIRE_OK || wire_bad_form(f->v)) && !may_be_group(&f->pkt);
}

/*
 * Is the payload of the view m still what was sent? A QP that has flushed has told its client that
 * the memory is its own again, also of messages that had not come; those are lost then.
 */
static bool
view_holds(const struct engine *e, const struct rte_mbuf *m)
{
	const struct qp *qp = qp_table_find(e->qps, qp_view_get(m).qpn);

	return qp != NULL && (qp->conn.state == QP_RTS || qp->conn.state == QP_SQD);
}

bool
engine_own(const struct engine *e, struct rte_mbuf *m)
{
	if (!qp_view_is(m))
		return true;
	if (!view_holds(e, m)) {
		qp_view_lose(m);
		return false;
	}
	qp_view_own(m);
	return true;
}

/* The frame m is for a QP of another worker. Between workers a frame has an ICRC. */
static void
rx_handoff(struct engine *e, uint16_t dev, struct rte_mbuf *m, uint32_t qpn)
{
	if (e->rx_loopback) {
		if (!engine_own(e, m)) {
			rx_drop(e, e->dev[dev].counters, DROP_QP_STATE, m);
			return;
		}
		wire_frame_seal_own(rte_pktmbuf_mtod(m, uint8_t *), m->data_len);
	}
	e->dev[dev].counters->ctr[COUNTER_RX_HANDOFF]++;
	m->port = dev;
	m->hash.usr = ENGINE_RX_FRAME;
	e->ops->handoff(e->ops_ctx, qp_table_owner(e->qps, qpn), m);
}

/*
 * A frame with another head than the one before it. Those that loop back are not for the memo,
 * whose entries save a CRC that they have not.
 */
static __rte_noinline enum wire_verdict
rx_parse_new(struct engine *e, const uint8_t *frame, uint32_t len, struct wire_pkt *pkt)
{
	if (e->rx_loopback)
		return wire_parse(frame, len, pkt);
	return wire_parse_with(frame, len, &e->memo, pkt);
}

/*
 * What is m, a frame? Most come behind one of the same flow and kind; but a head whose CRC state is
 * not known is for the memo to learn, where frames have an ICRC.
 */
static inline enum wire_verdict
rx_parse(struct engine *e, const struct rte_mbuf *m, struct rx_frame *f)
{
	const uint8_t *frame = rte_pktmbuf_mtod(m, const uint8_t *);
	uint32_t len = e->rx_loopback ? m->pkt_len : m->data_len;

	if (f[-1].v == WIRE_OK && (e->rx_loopback || f[-1].pkt.icrc_head != 0) &&
	    wire_parse_like(frame, len, &f[-1].pkt, &f->pkt))
		return WIRE_OK;
	return rx_parse_new(e, frame, len, &f->pkt);
}

/* The slow path takes what it has room for. */
static void
rx_slow_path(struct engine *e, uint16_t dev, struct rte_mbuf *m)
{
	struct counter_block *counters = e->dev[dev].counters;

	if (e->ops->slow_path(e->ops_ctx, dev, m))
		counters->ctr[COUNTER_SLOW_PATH]++;
	else
		counters->drop[DROP_SLOW_PATH_FULL]++;
}

/*
 * Is the frame m RoCE, well formed up to its BTH, and for a QP of this worker or for a group? Then
 * into f with it, else it goes its way.
 */
static __rte_always_inline bool
rx_sort(struct engine *e, uint16_t dev, struct rte_mbuf *m, struct rx_frame *f)
{
	struct counter_block *counters = e->dev[dev].counters;
	const uint8_t *frame;
	bool group = false;

	if (m->nb_segs != 1 && rte_pktmbuf_linearize(m) != 0) {
		rx_drop(e, counters, DROP_BAD_LENGTH, m);
		return false;
	}
	frame = rte_pktmbuf_mtod(m, const uint8_t *);
	if (m->data_len < WIRE_ETH_LEN) {
		rx_drop(e, counters, DROP_RUNT, m);
		return false;
	}
	if (unlikely(!frame_is_ours(frame, e->dev[dev].mac))) {
		group = frame[0] & 1;
		if (!group) {
			rx_drop(e, counters, DROP_NOT_OURS, m);
			return false;
		}
	}
	f->m = m;
	f->v = rx_parse(e, m, f);
	if (unlikely(((f->pkt.vlan_tci ^ e->dev[dev].vid) & WIRE_VID_MASK) != 0)) {
		rx_drop(e, counters, DROP_BAD_VLAN, m);
		return false;
	}
	if (f->v == WIRE_NOT_ROCE) {
		rx_slow_path(e, dev, m);
		return false;
	}
	if (unlikely(group) && bad_group(f)) {
		rx_drop(e, counters, DROP_BAD_MULTICAST, m);
		return false;
	}
	/* Bad form is for the QP to answer (NAK-07); a group's packet has no one QP. */
	if (f->v != WIRE_OK && (!wire_bad_form(f->v) || f->pkt.qpn == WIRE_MULTICAST_QPN)) {
		rx_drop(e, counters, drop_of_verdict[f->v], m);
		return false;
	}
	/* f[-1] has passed: another frame for its QPN needs no second look at the table. */
	if (f->pkt.qpn != f[-1].pkt.qpn) {
		if (f->pkt.qpn != WIRE_MULTICAST_QPN &&
		    qp_table_owner(e->qps, f->pkt.qpn) != e->worker) {
			rx_handoff(e, dev, m, f->pkt.qpn);
			return false;
		}
		qp_table_prefetch(e->qps, f->pkt.qpn);
	}
	if (e->rx_loopback && qp_view_is(m))
		f->pkt.payload = qp_view_get(m).payload;
	return true;
}

/* Ahead of f's turn, unless its QP is that of the frame before: the QP; and its queue. */
static inline void
rx_fetch_qp(struct engine *e, const struct rx_frame *f)
{
	if (f->pkt.qpn != f[-1].pkt.qpn)
		qp_table_prefetch_qp(e->qps, f->pkt.qpn, !(f->pkt.op->flags & WIRE_F_RESP));
}

static inline void
rx_fetch_queue(struct engine *e, struct rx_frame *f)
{
	const struct qp *qp;

	if (f->pkt.qpn == f[-1].pkt.qpn) {
		f->qp = f[-1].qp;
		return;
	}
	qp = f->qp = qp_table_find(e->qps, f->pkt.qpn);
	if (qp == NULL || f->v != WIRE_OK)
		return;
	if (f->pkt.op->flags & WIRE_F_RESP)
		qp_prefetch_oldest(qp);
	else if (f->pkt.op->flags & WIRE_F_RWQE)
		qp_prefetch_rq(qp);
}

/* What is known of the ICRC of f before its turn. */
static enum rx_icrc
rx_check(struct engine *e, const struct rx_frame *f)
{
	if (e->rx_loopback)
		return likely(!qp_view_is(f->m)) ? RX_ICRC_GOOD : RX_VIEW;
	if (f->m->data_len > RX_LONG_BYTES)
		return RX_ICRC_UNKNOWN;
	return wire_icrc_check(&f->pkt) ? RX_ICRC_GOOD : RX_ICRC_BAD;
}

/* When it is f's turn: is its ICRC right, or its payload there? */
static inline bool
rx_intact(const struct engine *e, const struct rx_frame *f)
{
	if (likely(f->icrc == RX_ICRC_GOOD))
		return true;
	return f->icrc == RX_VIEW ? view_holds(e, f->m)
				  : f->icrc == RX_ICRC_UNKNOWN && wire_icrc_check(&f->pkt);
}

/* An ICRC that is wrong for the identification in the frame, which may not be that of the wire. */
static __rte_noinline bool
rx_intact_but_id(const struct engine *e, uint16_t dev, const struct rx_frame *f)
{
	return e->dev[dev].unknown_id && f->icrc != RX_VIEW && wire_icrc_check_any_id(&f->pkt);
}

/*
 * All of a burst in each step: the CRC of one frame need not wait for that of another. Long frames
 * of a burst are more than the first cache holds: their CRC is taken right before their bytes are
 * copied.
 */
static void
rx_burst(struct engine *e, uint16_t dev, struct rte_mbuf **m, uint32_t n)
{
	struct rx_frame frame[1 + ENGINE_DONE_CAP], *f, *end = frame + 1;
	uint32_t i;

	frame[0].pkt.qpn = NO_QPN;
	frame[0].v = WIRE_RUNT;
	for (i = 0; i < n; i++)
		rte_prefetch0(rte_pktmbuf_mtod(m[i], void *));
	for (i = 0; i < n; i++)
		end += rx_sort(e, dev, m[i], end);
	for (f = frame + 1; f < end; f++) {
		rx_fetch_qp(e, f);
		f->icrc = rx_check(e, f);
	}
	for (f = frame + 1; f < end; f++)
		rx_fetch_queue(e, f);
	e->env.counters = e->dev[dev].counters;
	for (f = frame + 1; f < end; f++) {
		if (unlikely(!rx_intact(e, f)) && !rx_intact_but_id(e, dev, f))
			rx_drop(e, e->env.counters,
				f->icrc == RX_VIEW ? DROP_QP_STATE : DROP_BAD_ICRC, f->m);
		else if (unlikely(f->pkt.qpn == WIRE_MULTICAST_QPN))
			rx_multicast(e, dev, f->m, &f->pkt);
		else
			rx_roce(e, dev, f);
	}
	rte_pktmbuf_free_bulk(e->done, e->done_n);
	e->done_n = 0;
}

void
engine_rx(struct engine *e, uint64_t now_ns, uint16_t dev, struct rte_mbuf **m, uint32_t n)
{
	e->env.now_ns = now_ns;
	for (; n > ENGINE_DONE_CAP; m += ENGINE_DONE_CAP, n -= ENGINE_DONE_CAP)
		rx_burst(e, dev, m, ENGINE_DONE_CAP);
	rx_burst(e, dev, m, n);
}

void
engine_rx_loopback(struct engine *e, uint64_t now_ns, uint16_t dev, struct rte_mbuf **m, uint32_t n)
{
	e->rx_loopback = true;
	engine_rx(e, now_ns, dev, m, n);
	e->rx_loopback = false;
}
