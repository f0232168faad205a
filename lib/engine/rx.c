/* SPDX-License-Identifier: BSD-3-Clause */
/* Received frames, from bytes to the requester or responder of their QP. */
#include <stddef.h>
#include <string.h>
#include <rte_branch_prediction.h>
#include <rte_common.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_prefetch.h>
#include "engine/rx.h"
#include "engine/turn.h"
#include "net/net.h"
#include "qp/emit.h"
#include "qp/match.h"
#include "qp/migrate.h"
#include "qp/prefetch.h"
#include "requester/requester.h"
#include "responder/responder.h"
#include "wire/build.h"
#include "wire/icrc.h"
#include "wire/parse.h"

#define RX_LONG_BYTES   1024       /* 32 such frames fill an L1 cache of 32 KiB */
#define NO_QPN          0xff000000 /* before the first frame */
#define RX_NOT_ACCEPTED 0xff

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

/* Service bits of the opcodes of a QP type. */
static const uint8_t svc_of_type[] = {
	[QP_TYPE_RC] = WIRE_SVC_RC,
	[QP_TYPE_UC] = WIRE_SVC_UC,
	[QP_TYPE_UD] = WIRE_SVC_UD,
};

/* Packets for a QP that are neither requests nor responses of its service. */

/*
 * Returns why a packet whose opcode does not match the QP's type is dropped. DROP_CNP: it is a CNP
 * for the congestion policy of qp, a connected QP. DROP_SACK: it is a selective acknowledgement for
 * qp, an RC QP.
 */
static __rte_noinline enum drop_reason
rx_refuses_service(const struct qp *qp, const struct wire_pkt *pkt)
{
	bool sack = (pkt->op->flags & WIRE_F_SACK) != 0;

	if (sack ? qp->conn.type != QP_TYPE_RC
		 : !(pkt->op->flags & WIRE_F_CNP) || qp->conn.type == QP_TYPE_UD)
		return DROP_BAD_SERVICE;
	if (!rx_state_takes(qp->conn.state, pkt->op->flags))
		return DROP_QP_STATE;
	if (!qp_pkeys_match(pkt->pkey, qp->conn.pkey))
		return DROP_BAD_PKEY;
	if (!qp_gids_match(qp, pkt))
		return DROP_BAD_GID;
	return sack ? DROP_SACK : DROP_CNP;
}

/* Handles such a packet; why: the result. Returns true if qp has taken it. */
static __rte_noinline bool
rx_aside(struct engine *e, struct qp *qp, const struct wire_pkt *pkt, enum drop_reason why)
{
	if (why == DROP_CNP)
		return req_rx_cnp(&e->env, qp);
	if (why != DROP_SACK || !req_rx_sack(&e->env, qp, pkt))
		return false;
	turn_check_timer(e, qp);
	return true;
}

/* Frames for others than QPs: datagrams for QP1 to lib/control, other protocols to the kernel. */

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

/*
 * Passes m to the consumer of engine_set_consumer if its intact packet, whose QPN
 * has no QP, is a datagram for it; else drops m. form: the error of the packet's form; DROP_NUM:
 * none. Consumes m.
 */
static __rte_noinline void
rx_consume(struct engine *e, uint16_t dev, struct rte_mbuf *m, const struct wire_pkt *pkt,
	   enum drop_reason form)
{
	enum drop_reason why = consumer_refuses(e, dev, pkt, form);

	if (why != DROP_NUM) {
		rx_drop(e, e->env.counters, why, m);
		return;
	}
	why = e->ops->consumer(e->ops_ctx, dev, m, pkt);
	if (why == DROP_NUM)
		e->env.counters->ctr[COUNTER_SLOW_PATH]++;
	else
		e->env.counters->drop[why]++;
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

/*
 * Passes m, which is no frame for the transport (verdict v), to the kernel if it is
 * of a protocol that the device leaves to it (engine_set_hostif); else drops it as why. Consumes m.
 */
static __rte_noinline void
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

/* Returns true if m can go back to pool as it is: one segment, its own buffer, one reference. */
static inline bool
is_plain(const struct rte_mbuf *m, const struct rte_mempool *pool)
{
	return m->pool == pool && m->nb_segs == 1 && RTE_MBUF_DIRECT(m) &&
	       rte_mbuf_refcnt_read(m) == 1;
}

/*
 * Frees the frames of rx_done. As rte_pktmbuf_free_bulk, but it collects the frames that
 * need no more than to go back to the pool of the first, which are nearly all.
 */
static void
rx_free_done(struct engine *e)
{
	struct rte_mempool *pool = e->done_n != 0 ? e->done[0]->pool : NULL;
	uint32_t n = 0;

	for (uint32_t i = 0; i < e->done_n; i++) {
		if (likely(is_plain(e->done[i], pool)))
			e->done[n++] = e->done[i];
		else
			rte_pktmbuf_free(e->done[i]);
	}
	if (n != 0)
		rte_mempool_put_bulk(pool, (void *const *)e->done, n);
	e->done_n = 0;
}

/* Received frames for another thread: the worker that owns their QP, or the control thread. */

/*
 * Passes m to the worker that owns its QP, qpn, and consumes it. Frames between workers have an
 * ICRC. Returns false if m is for this worker after all: the QP leaves, and m was handed over
 * before the others knew (engine_leave).
 */
static __rte_noinline bool
rx_pass_owner(struct engine *e, uint16_t dev, struct rte_mbuf *m, uint32_t qpn)
{
	if (e->rx_handed && qpn == e->leaving_qpn)
		return false;
	if (e->rx_loopback) {
		if (!engine_own(e, m)) {
			rx_drop(e, e->dev[dev].counters, DROP_QP_STATE, m);
			return true;
		}
		wire_frame_seal_own(rte_pktmbuf_mtod(m, uint8_t *), m->data_len);
	}
	e->dev[dev].counters->ctr[COUNTER_RX_HANDOFF]++;
	m->port = dev;
	m->hash.usr = ENGINE_RX_FRAME;
	e->ops->handoff(e->ops_ctx, qp_table_owner(e->qps, qpn) & ~QP_TABLE_COMES, qpn, m);
	return true;
}

/* Passes m to the slow path, if that has space. Consumes m. */
static __rte_noinline void
rx_pass_control(struct engine *e, uint16_t dev, struct rte_mbuf *m)
{
	struct counter_block *counters = e->dev[dev].counters;

	if (e->ops->slow_path(e->ops_ctx, dev, m))
		counters->ctr[COUNTER_SLOW_PATH]++;
	else
		counters->drop[DROP_SLOW_PATH_FULL]++;
}

/* Which sources of a datagram are legal. A client responds to these; connected QPs know theirs. */

enum source { SOURCE_STATION, SOURCE_LOOPBACK, SOURCE_NO_STATION };

/* RFC 1122 3.2.1.3. */
static enum source
source_v4(const uint8_t ip[4])
{
	if (unlikely(ip[0] == 127))
		return SOURCE_LOOPBACK;
	return ip[0] != 0 && ip[0] < 224 ? SOURCE_STATION : SOURCE_NO_STATION;
}

/* RFC 4291 2.5.2, 2.5.3, 2.7. */
static enum source
source_v6(const uint8_t ip[16])
{
	static const uint8_t none[15];

	if (unlikely(memcmp(ip, none, sizeof(none)) == 0 && ip[15] <= 1))
		return ip[15] == 1 ? SOURCE_LOOPBACK : SOURCE_NO_STATION;
	return ip[0] != 0xff ? SOURCE_STATION : SOURCE_NO_STATION;
}

/* Is one of the device's addresses a loopback address? a: NULL if they are unknown. */
static __rte_noinline bool
device_is_loopback(const struct engine_addrs *a)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
	uint32_t i, n = a == NULL ? 0 : a->ngids;

	for (i = 0; i < n; i++) {
		const uint8_t *gid = a->gid[i];
		bool v4 = memcmp(gid, mapped, sizeof(mapped)) == 0;

		if ((v4 ? source_v4(gid + 12) : source_v6(gid)) == SOURCE_LOOPBACK)
			return true;
	}
	return false;
}

bool
rx_source_is_station(const struct engine_addrs *a, const struct wire_pkt *pkt)
{
	enum source source = pkt->is_v6 ? source_v6(pkt->ip + offsetof(struct wire_ipv6, src))
					: source_v4(pkt->ip + offsetof(struct wire_ipv4, src));

	if (likely(source == SOURCE_STATION))
		return true;
	return source == SOURCE_LOOPBACK && device_is_loopback(a);
}

/* Received frames whose payload is still in the sender's memory (qp/view.h). */

/*
 * Returns true if the memory that the zero-copy frame m refers to still holds what was sent. When a
 * QP flushes, its client gets that memory back, even if the message has not arrived yet; such a
 * frame is dropped.
 */
static bool
rx_view_holds(const struct engine *e, const struct rte_mbuf *m)
{
	const struct qp *qp = qp_table_find(e->qps, qp_view_get(m).qpn);

	return qp != NULL && (qp->conn.state == QP_RTS || qp->conn.state == QP_SQD);
}

bool
engine_own(const struct engine *e, struct rte_mbuf *m)
{
	if (!qp_view_is(m))
		return true;
	if (!rx_view_holds(e, m)) {
		qp_view_lose(m);
		return false;
	}
	qp_view_own(m);
	return true;
}

/* Returns why the QP does not get this packet, or DROP_NUM. */
static __rte_always_inline enum drop_reason
qp_refuses(struct engine *e, struct qp *qp, const struct wire_pkt *pkt, uint16_t dev)
{
	if (qp->bind.port != dev)
		return DROP_BAD_QPN;
	if (unlikely((pkt->opcode & WIRE_SVC_MASK) != svc_of_type[qp->conn.type]))
		return rx_refuses_service(qp, pkt);
	if (!rx_state_takes(qp->conn.state, pkt->op->flags))
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
 * Returns true if the packet's destination is an address of the device, or of a group that the QP
 * has joined (a copy that another worker has made for it). A connected QP checks its own.
 */
static bool
dst_is_ours(const struct engine_addrs *a, const struct wire_pkt *pkt)
{
	uint8_t gid[16];
	uint32_t i;

	if (a == NULL)
		return true;
	wire_dst_gid(pkt, gid);
	if (likely(!wire_dst_is_group(pkt)))
		return rx_gid_in(a, gid);
	i = rx_member_from(a, gid, pkt->qpn);
	return i < a->nmembers && a->member[i].qpn == pkt->qpn &&
	       memcmp(a->member[i].gid, gid, 16) == 0;
}

/* Drops a malformed packet that its QP accepts otherwise. A reserved opcode counts as a request. */
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

/* A received RoCE frame in engine_rx. */
struct rx_frame {
	struct wire_pkt pkt;
	struct rte_mbuf *m;
	struct qp *qp;       /* of its QPN, or NULL */
	enum wire_verdict v; /* WIRE_OK, or the error of its form */
	enum rx_icrc icrc;
	bool repeats;        /* all bytes before the PSN are those of the frame before */
	uint8_t accepted_in; /* the QP's state when it accepted the frame; RX_NOT_ACCEPTED */
};

/* Counts a packet that its QP got, and consumes m unless the QP keeps it. */
static inline void
rx_given(struct engine *e, struct rte_mbuf *m)
{
	if (likely(e->env.dropped == DROP_NUM)) {
		e->env.counters->ctr[COUNTER_RX_ROCE]++;
	} else if (e->env.dropped == QP_ENV_KEPT) {
		e->env.dropped = DROP_NUM;
		e->env.counters->ctr[COUNTER_RX_ROCE]++;
		return;
	} else {
		e->env.counters->drop[e->env.dropped]++;
		e->env.dropped = DROP_NUM;
	}
	rx_done(e, m);
}

/* Returns the drop reason for addresses that are not a connected QP's. */
static enum drop_reason
why_not_gid(const struct wire_pkt *pkt)
{
	return wire_dst_is_group(pkt) ? DROP_BAD_MULTICAST : DROP_BAD_GID;
}

/*
 * As qp_refuses. A frame that repeats the header of an accepted one passes the same checks while
 * its QP keeps its state and path: P_Keys and addresses change between bursts only.
 */
static __rte_always_inline enum drop_reason
frame_refused(struct engine *e, struct rx_frame *f, uint16_t dev)
{
	struct qp *qp = f->qp;
	enum drop_reason why;

	if (f->repeats && f[-1].accepted_in == qp->conn.state &&
	    likely(qp->conn.mig == QP_MIG_MIGRATED)) {
		f->accepted_in = f[-1].accepted_in;
		return DROP_NUM;
	}
	why = qp_refuses(e, qp, &f->pkt, dev);
	if (why == DROP_NUM)
		f->accepted_in = (uint8_t)qp->conn.state;
	return why;
}

/*
 * From now on, packets like f are handled for its QP, if it has one. Returns false if they must not
 * be: the QP's user is paused. If their payload is in their sender's memory, which may be another
 * user's, nobody knows whose memory is waited for.
 */
static __rte_noinline bool
rx_serve(struct engine *e, const struct rx_frame *f)
{
	const struct qp *qp = f->qp, *sender;
	uint8_t user;

	if (qp == NULL)
		return true;
	user = qp->bind.run_user;
	if (engine_is_paused(e, user))
		return false;
	if (f->icrc == RX_VIEW) {
		sender = qp_table_find(e->qps, qp_view_get(f->m).qpn);
		user = sender != NULL && sender->bind.run_user == user ? user : 0;
	}
	qp_env_serve(&e->env, user);
	return true;
}

/* Handles an intact packet for a QPN of this worker. */
static __rte_always_inline void
rx_roce(struct engine *e, uint16_t dev, struct rx_frame *f)
{
	struct counter_block *counters = e->env.counters;
	const struct wire_pkt *pkt = &f->pkt;
	enum wire_verdict v = f->v;
	struct rte_mbuf *m = f->m;
	struct qp *qp = f->qp;
	enum drop_reason why;
	bool waits = false;

	if (qp == NULL) {
		rx_consume(e, dev, m, pkt, v == WIRE_OK ? DROP_NUM : drop_of_verdict[v]);
		return;
	}
	why = frame_refused(e, f, dev);
	if (why == DROP_NUM && qp->conn.type == QP_TYPE_UD && !dst_is_ours(rx_addrs(e, dev), pkt))
		why = DROP_NOT_OURS;
	if (v != WIRE_OK) {
		if (why == DROP_NUM)
			rx_malformed(e, qp, pkt);
		e->env.dropped = DROP_NUM;
		if (why == DROP_NUM || why == DROP_BAD_SERVICE || why == DROP_CNP ||
		    why == DROP_SACK)
			why = drop_of_verdict[v];
	}
	if (unlikely(why != DROP_NUM)) {
		if (rx_aside(e, qp, pkt, why)) {
			rx_given(e, m);
			return;
		}
		rx_drop(e, counters, why == DROP_BAD_GID ? why_not_gid(pkt) : why, m);
		return;
	}
	qp->conn.rx_bytes += m->pkt_len;
	if (qp->conn.type != QP_TYPE_RC) {
		waits = !rx_unreliable(e, dev, qp, m, pkt, e->rx_extra);
	} else if (pkt->op->flags & WIRE_F_REQ) {
		rsp_rx(&e->env, qp, pkt, m);
		turn_ack_pending(e, qp);
		if (unlikely(e->env.dropped == DROP_MEMORY_LATE))
			waits = rx_late_keep(e, dev, qp, m, pkt);
	} else {
		req_rx(&e->env, qp, pkt);
		if (unlikely(e->env.dropped == DROP_MEMORY_LATE))
			waits = rx_late_keep_response(e, dev, qp, m, pkt);
		turn_check_timer(e, qp);
	}
	if (unlikely(waits))
		rx_done(e, m);
	else
		rx_given(e, m);
}

/* Returns true if the frame is sent to the device's own MAC. */
static inline bool
frame_is_ours(const uint8_t *frame, uint64_t mac)
{
	uint64_t first;

	memcpy(&first, frame, sizeof(first)); /* at least 14 bytes are present */
	return (first & rte_cpu_to_le_64(0xffffffffffff)) == mac;
}

/*
 * Returns true if the RoCE packet may come to a group MAC: a datagram to an IP group. A connected
 * QP has one peer, which never sends a broadcast frame to its address.
 */
static bool
may_be_group(const struct wire_pkt *pkt)
{
	return (pkt->opcode & WIRE_SVC_MASK) == WIRE_SVC_UD && wire_dst_is_group(pkt);
}

/* Returns true if f, read up to its BTH, came to a MAC that it must not come to. */
static bool
bad_group(const struct rx_frame *f)
{
	return (f->v == WIRE_OK || wire_bad_form(f->v)) && !may_be_group(&f->pkt);
}

/* Returns true if f, read up to its BTH, came from a host that the device does not accept. */
static __rte_noinline bool
refused_peer(const struct engine *e, uint16_t dev, const struct rx_frame *f)
{
	const struct engine_peers *p = e->dev[dev].peers;
	uint8_t gid[16];
	uint32_t i = 0;

	if (e->rx_loopback || (f->v != WIRE_OK && !wire_bad_form(f->v)))
		return false;
	wire_src_gid(&f->pkt, gid);
	while (i < p->n && !net_gid_same_prefix(p->of[i].gid, gid, p->of[i].bits))
		i++;
	return i == p->n;
}

/* Parses any frame. Those that loop back have no CRC that the header cache could save. */
static __rte_noinline enum wire_verdict
rx_parse_new(struct engine *e, const uint8_t *frame, uint32_t len, struct wire_pkt *pkt)
{
	enum wire_verdict v;

	if (e->rx_loopback)
		return wire_parse(frame, len, pkt);
	v = wire_parse_with(frame, len, &e->memo, pkt);
	if (v == WIRE_OK && unlikely((pkt->tclass & WIRE_ECN_MASK) == WIRE_ECN_CE))
		e->rx_marked = true;
	return v;
}

/*
 * Returns true and fills in f if m repeats the header of the frame before, which rx_sort accepted:
 * all checks have the same result. If the header's CRC state is unknown, the header cache learns
 * it.
 */
static __rte_always_inline bool
rx_repeats(const struct engine *e, const struct rte_mbuf *m, struct rx_frame *f)
{
	uint32_t len = e->rx_loopback ? m->pkt_len : m->data_len;

	if (f[-1].v != WIRE_OK || unlikely(m->nb_segs != 1) ||
	    (f[-1].pkt.icrc_head == 0 && !e->rx_loopback) ||
	    !wire_parse_like(rte_pktmbuf_mtod(m, const uint8_t *), len, &f[-1].pkt, &f->pkt))
		return false;
	f->v = WIRE_OK;
	return true;
}

/*
 * Returns true and fills in f if m is RoCE, well formed up to its BTH, and for a QP of this worker
 * or a group. Otherwise consumes m.
 */
static inline bool
rx_sort_new(struct engine *e, uint16_t dev, struct rte_mbuf *m, struct rx_frame *f)
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
	f->v = rx_parse_new(e, frame, e->rx_loopback ? m->pkt_len : m->data_len, &f->pkt);
	if (unlikely(((f->pkt.vlan_tci ^ e->dev[dev].vid) & WIRE_VID_MASK) != 0)) {
		rx_drop(e, counters, DROP_BAD_VLAN, m);
		return false;
	}
	if (f->v == WIRE_NOT_ROCE) {
		rx_pass_control(e, dev, m);
		return false;
	}
	if (unlikely(group) && bad_group(f)) {
		rx_drop(e, counters, DROP_BAD_MULTICAST, m);
		return false;
	}
	if (unlikely(e->dev[dev].peers != NULL) && refused_peer(e, dev, f)) {
		rx_drop(e, counters, DROP_REFUSED_PEER, m);
		return false;
	}
	/* The QP handles bad form (NAK-07); a group's packet has no single QP. */
	if (f->v != WIRE_OK && (!wire_bad_form(f->v) || f->pkt.qpn == WIRE_MULTICAST_QPN)) {
		rx_refused(e, dev, m, f->v, drop_of_verdict[f->v]);
		return false;
	}
	/* f[-1] has passed: another frame for its QPN needs no table look-up. */
	if (f->pkt.qpn != f[-1].pkt.qpn) {
		if (f->pkt.qpn != WIRE_MULTICAST_QPN &&
		    qp_table_owner(e->qps, f->pkt.qpn) != e->worker &&
		    rx_pass_owner(e, dev, m, f->pkt.qpn))
			return false;
		qp_table_prefetch(e->qps, f->pkt.qpn);
	}
	return true;
}

/* The same; most frames repeat the header of the one before. */
static __rte_always_inline bool
rx_sort(struct engine *e, uint16_t dev, struct rte_mbuf *m, struct rx_frame *f)
{
	f->m = m;
	f->accepted_in = RX_NOT_ACCEPTED;
	f->repeats = rx_repeats(e, m, f);
	if (!f->repeats && !rx_sort_new(e, dev, m, f))
		return false;
	if (e->rx_loopback && qp_view_is(m))
		f->pkt.payload = qp_view_get(m).payload;
	return true;
}

/* Prefetches f's QP, and rx_fetch_queue its queue, unless the previous frame has the same QP. */
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

/* Checks the ICRC of f ahead of its turn, as far as possible. */
static enum rx_icrc
rx_check(struct engine *e, const struct rx_frame *f)
{
	if (e->rx_loopback)
		return likely(!qp_view_is(f->m)) ? RX_ICRC_GOOD : RX_VIEW;
	if (f->m->data_len > RX_LONG_BYTES)
		return RX_ICRC_UNKNOWN;
	return wire_icrc_check(&f->pkt) ? RX_ICRC_GOOD : RX_ICRC_BAD;
}

/* Returns true if f, at its turn, has a right ICRC, or its payload is still valid. */
static inline bool
rx_intact(const struct engine *e, const struct rx_frame *f)
{
	if (likely(f->icrc == RX_ICRC_GOOD))
		return true;
	return f->icrc == RX_VIEW ? rx_view_holds(e, f->m)
				  : f->icrc == RX_ICRC_UNKNOWN && wire_icrc_check(&f->pkt);
}

/*
 * Returns why a frame that is not rx_intact is dropped, or DROP_NUM: its ICRC may be right for the
 * identification on the wire, which differs from the frame's.
 */
static __rte_noinline enum drop_reason
rx_damage(const struct engine *e, uint16_t dev, const struct rx_frame *f)
{
	if (f->icrc == RX_VIEW)
		return DROP_QP_STATE;
	if (!e->dev[dev].unknown_id || !wire_icrc_check_any_id(&f->pkt))
		return DROP_BAD_ICRC;
	return e->dev[dev].strict ? DROP_INEXACT_ICRC : DROP_NUM;
}

/*
 * A frame of the burst has CE: counts such frames by QP, if the QP will accept them (CC-01). Frames
 * without CE cost nothing here: a frame's header is compared with the one of the frame before, and
 * only new headers are looked at.
 */
static __rte_noinline void
rx_marks(struct engine *e, uint16_t dev, const struct rx_frame *f, const struct rx_frame *end)
{
	e->rx_marked = false;
	for (; f < end; f++) {
		if (f->v == WIRE_OK && (f->pkt.tclass & WIRE_ECN_MASK) == WIRE_ECN_CE &&
		    f->qp != NULL && (rx_intact(e, f) || rx_damage(e, dev, f) == DROP_NUM) &&
		    rx_refuses(e, f->qp, &f->pkt, dev) == DROP_NUM)
			notify_mark(e, f->qp);
	}
}

/* env->rx_next. pkt is in the burst that ends at e->rx_end. */
static const struct wire_pkt *
rx_next(struct qp_env *env, const struct wire_pkt *pkt)
{
	struct engine *e = container_of(env, struct engine, env);
	struct rx_frame *f = container_of((struct wire_pkt *)(uintptr_t)pkt, struct rx_frame, pkt);
	struct qp *qp = f->qp;

	if (++f == e->rx_end || f->qp != qp || f->v != WIRE_OK || !rx_intact(e, f) ||
	    qp_refuses(e, qp, &f->pkt, e->rx_dev) != DROP_NUM)
		return NULL;
	if (f->icrc == RX_ICRC_UNKNOWN)
		f->icrc = RX_ICRC_GOOD;
	return &f->pkt;
}

/*
 * Takes each step for the whole burst, so that the CRC of one frame need not wait for another. A
 * burst of long frames exceeds the L1 cache: their CRC is computed right before their bytes are
 * copied.
 */
static void
rx_burst(struct engine *e, uint16_t dev, struct rte_mbuf **m, uint32_t n)
{
	struct rx_frame frame[1 + ENGINE_DONE_CAP], *f, *end = frame + 1;
	const struct qp *served = NULL;
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
	e->env.rx_next = rx_next;
	e->env.stored_qp = NULL;
	e->rx_end = end;
	e->rx_dev = dev;
	if (unlikely(e->rx_marked))
		rx_marks(e, dev, frame + 1, end);
	for (f = frame + 1; f < end; f++) {
		enum drop_reason why = likely(rx_intact(e, f)) ? DROP_NUM : rx_damage(e, dev, f);

		if (f->qp != served) {
			served = f->qp;
			if (!rx_serve(e, f)) {
				served = NULL; /* the next one asks again */
				why = why == DROP_NUM ? DROP_PAUSED : why;
			}
		}
		if (unlikely(why != DROP_NUM))
			rx_drop(e, e->env.counters, why, f->m);
		else if (unlikely(f->pkt.qpn == WIRE_MULTICAST_QPN))
			rx_multicast(e, dev, f->m, &f->pkt);
		else
			rx_roce(e, dev, f);
	}
	e->env.rx_next = NULL;
	rx_free_done(e);
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
