/* SPDX-License-Identifier: BSD-3-Clause */
/* From WQEs to request packets: window, READ credit, fence, go-back-N cursor. */
#include <string.h>
#include <rte_branch_prediction.h>
#include <rte_common.h>
#include <rte_mbuf.h>
#include "qp/ahead.h"
#include "qp/segs.h"
#include "requester/requester_parts.h"
#include "requester/selective.h"
#include "wire/icrc.h"
#include "wire/psn.h"

/* A message's packets: in its middle, the first of several, the last of them, the only one. */
#define OPS(op, end)                                                                               \
	{                                                                                          \
		WIRE_OP_##op##_MIDDLE, WIRE_OP_##op##_FIRST, WIRE_OP_##op##_LAST##end,             \
			WIRE_OP_##op##_ONLY##end                                                   \
	}
static const uint8_t data_ops[UROCE_WR_OPCODES][4] = {
	[UROCE_WR_RDMA_WRITE] = OPS(WRITE, ),  [UROCE_WR_RDMA_WRITE_IMM] = OPS(WRITE, _IMM),
	[UROCE_WR_SEND] = OPS(SEND, ),         [UROCE_WR_SEND_IMM] = OPS(SEND, _IMM),
	[UROCE_WR_SEND_INV] = OPS(SEND, _INV),
};

/*
 * RC frames whose payload stays in the client's memory until the port copies it. Three segments:
 * headers; payload in place; pad and ICRC. The client may change its memory after the CRC was
 * computed, though it should not: the frame is then lost like a corrupted one, and retransmitted as
 * a copy. Loopback frames have one segment and no CRC (qp/view.h).
 */

/* As req_zero_copy_source, for memory accessed by ops. */
static __rte_noinline const uint8_t *
view_read_ahead(const struct qp_env *env, const struct qp *qp, const struct qp_sq_entry *e,
		const struct mr *mr, uint64_t addr, uint32_t len)
{
	struct qp_ahead_part part = {.addr = addr, .len = len, .psn = e->first_psn};

	return qp_ahead_view(env->ahead, env->now_ns, qp, mr, &part);
}

/*
 * Address of len bytes at offset off of the WQE's data, if they are mapped contiguously, or were
 * read ahead, and the L_Key is valid for them; else NULL (req_gather returns the reason). Valid
 * until the end of the burst.
 */
static const uint8_t *
req_zero_copy_source(const struct qp_env *env, const struct qp *qp, struct qp_sq_entry *e,
		     uint32_t off, uint32_t len)
{
	const struct uroce_sge *sge = req_sges(e);
	const struct mr *mr;

	if ((e->wqe.flags & UROCE_WQE_INLINE) || sge->length < off || sge->length - off < len)
		return NULL;
	mr = mr_lookup(env->mrs, sge->lkey, qp->bind.pd, sge->addr + off, len, MEM_LOCAL_READ);
	if (likely(mr != NULL) && likely(mr->host != NULL))
		return mr->host + (sge->addr + off - mr->iova);
	return mr != NULL ? view_read_ahead(env, qp, e, mr, sge->addr + off, len) : NULL;
}

/* Sets the ICRC. state: CRC before the PSN, which is at psn_off in the headers. */
static void
view_seal(struct rte_mbuf *m, uint32_t state, uint32_t psn_off)
{
	const struct rte_mbuf *payload = m->next;
	struct rte_mbuf *tail = payload->next;
	uint32_t pad = tail->data_len - WIRE_ICRC_LEN;
	uint8_t *end = rte_pktmbuf_mtod(tail, uint8_t *);

	state = wire_icrc_update(state, rte_pktmbuf_mtod(m, uint8_t *) + psn_off,
				 m->data_len - psn_off);
	state = wire_icrc_update(state, rte_pktmbuf_mtod(payload, const uint8_t *),
				 payload->data_len);
	if (pad != 0)
		state = wire_icrc_update(state, end, pad);
	state = wire_icrc_final(state);
	memcpy(end + pad, &state, sizeof(state));
}

/*
 * Emit a zero-copy frame: m has hdr_len bytes of headers, just built from qp's template; the
 * payload of len bytes stays at src (qp/env.h). Returns false, with m unchanged, if there are no
 * segments.
 */
static bool
req_zero_copy_attach(struct qp_env *env, struct qp *qp, struct rte_mbuf *m, uint32_t hdr_len,
		     const uint8_t *src, uint32_t len)
{
	struct wire_tmpl *t = &qp->conn.tmpl;
	uint32_t pad = -len & 3;
	struct rte_mbuf *payload;

	if (qp->conn.loopback) {
		qp_emit_view(env, qp, m, hdr_len, src, len);
		return true;
	}
	payload = env->segs != NULL ? qp_segs_lend(env->segs, src, len, pad + WIRE_ICRC_LEN) : NULL;
	if (payload == NULL)
		return false;
	memset(rte_pktmbuf_mtod(payload->next, uint8_t *), 0, 4);
	m->data_len = (uint16_t)hdr_len;
	m->pkt_len = hdr_len + len + pad + WIRE_ICRC_LEN;
	m->nb_segs = 3;
	m->next = payload;
	if (!t->icrc_known)
		wire_tmpl_know_icrc(t);
	view_seal(m, t->icrc, t->len - WIRE_BTH_PSN_LEN);
	qp_push(env, qp, m, QP_TX_WIRE);
	return true;
}

/* Recompute the ICRC of a frame that req_zero_copy_attach built from t: its PSN word changed. */
static void
req_zero_copy_reseal(struct rte_mbuf *m, const struct wire_tmpl *t)
{
	const uint8_t *ip = rte_pktmbuf_mtod(m, const uint8_t *) + t->ip_off;

	view_seal(m, wire_icrc_head(ip, t->is_v6), t->len - WIRE_BTH_PSN_LEN);
}

static inline uint8_t
data_opcode(const struct qp_sq_entry *e, bool first, bool last)
{
	return data_ops[e->wqe.opcode][first | last << 1];
}

uint8_t
req_opcode(const struct qp_sq_entry *e, uint32_t k)
{
	return data_opcode(e, k == 0, k + 1 == e->npkts);
}

/* Counts the last frame of env->tx, a retransmission. */
static __rte_noinline void
send_again(struct qp_env *env, struct qp *qp)
{
	env->counters->ctr[COUNTER_REQ_RETRANS]++;
	qp->conn.ecn.again_bytes += env->tx[env->tx_n - 1]->pkt_len;
	env->tx[env->tx_n - 1]->hash.fdir.hi |= QP_TX_AGAIN;
}

/* Advances cursor, high-water mark and timer after sending npsns PSNs. */
static inline void
send_advance(struct qp_env *env, struct qp *qp, uint32_t npsns)
{
	struct qp_snd *snd = &qp->conn.snd;
	uint32_t next = psn_add(snd->next_psn, npsns);

	/* Retransmitted packets, also READs (send_read), end where the original ones did. */
	if (likely(snd->next_psn == snd->high_psn))
		snd->high_psn = next;
	else
		send_again(env, qp);
	snd->next_psn = next;
	snd->cur_pkt += npsns;
	if (snd->probe_ns == 0 && snd->wait_ns != 0)
		snd->probe_ns = env->now_ns + snd->wait_ns;
}

/* The WQE at the cursor was sent completely. */
static inline void
send_next_wqe(struct qp_snd *snd)
{
	snd->cur++;
	snd->cur_pkt = 0;
}

/*
 * Should this packet request an ACK (RSP-02)? Every QP_ACKREQ_PKTS-th packet does, and the last of
 * a message unless a later message can request it. In that case an ACK is owed: see req_run.
 *
 * Within a message it is the one before: with 1024 bytes a packet a super-frame of the kernel's
 * sockets holds 62, so that an ACK of twice 31 lets the sender send a whole one, and one of 64
 * would let it send another one of 2.
 */
static inline bool
send_ackreq(const struct qp *qp, bool last)
{
	const struct qp_snd *snd = &qp->conn.snd;
	uint32_t silent = snd->since_ackreq + 1u;

	if (silent >= QP_ACKREQ_PKTS - (last ? 0u : 1u) || silent >= snd->cc.window_pkts)
		return true;
	return last && snd->cur + 1 == snd->head && qp->bind.sq.prod == snd->head &&
	       __atomic_load_n(&qp->bind.sq.hdr->prod, __ATOMIC_RELAXED) == snd->head;
}

/* Records a sent packet. last: of its message; ackreq: it requests an ACK. */
static inline void
send_note_ackreq(struct qp_snd *snd, bool last, bool ackreq)
{
	snd->since_ackreq = ackreq ? 0 : snd->since_ackreq + 1;
	snd->ack_owed = !ackreq && (last || snd->ack_owed);
}

/* An ACK is owed: lets the last packet of this turn request it. */
static void
send_owed_ackreq(struct qp_env *env, struct qp *qp)
{
	struct rte_mbuf *m = env->tx[env->tx_n - 1];
	uint8_t *frame = rte_pktmbuf_mtod(m, uint8_t *);
	struct wire_bth *bth = (struct wire_bth *)(frame + qp->conn.tmpl.bth_off);

	bth->a_psn |= rte_cpu_to_be_32(WIRE_BTH_ACKREQ);
	if (m->nb_segs != 1)
		req_zero_copy_reseal(m, &qp->conn.tmpl);
	else if (!qp->conn.loopback)
		wire_frame_seal_own(frame, m->data_len);
	send_note_ackreq(&qp->conn.snd, true, true);
}

void
req_sent_all(struct qp_env *env, struct qp *qp, const struct qp_sq_entry *e)
{
	struct qp_snd *snd = &qp->conn.snd;

	snd->una_psn = snd->next_psn;
	send_next_wqe(snd);
	qp_deadline_clear(&qp->conn, QP_DEADLINE_PATH);
	qp_retire_send(env, qp, e, QP_WC_SUCCESS);
}

/*
 * Address of the payload, len bytes at off of the WQE's data, if the frame may be zero-copy: the
 * payload is large and sent for the first time, and qp is RC. UC completes before the port has
 * copied the payload.
 */
static inline const uint8_t *
send_view(struct qp_env *env, struct qp *qp, struct qp_sq_entry *e, uint32_t off, uint32_t len)
{
	if (likely(len < env->zero_copy_bytes) || qp->conn.type != QP_TYPE_RC ||
	    psn_lt(qp->conn.snd.next_psn, qp->conn.snd.high_psn))
		return NULL;
	return req_zero_copy_source(env, qp, e, off, len);
}

/*
 * Packet number snd->cur_pkt of a SEND or WRITE. rc: whether qp is one; one_packet: whether e is
 * so; both known where this is used.
 */
static __rte_always_inline enum req_step
send_data(struct qp_env *env, struct qp *qp, struct qp_sq_entry *e, bool rc, bool one_packet)
{
	struct qp_snd *snd = &qp->conn.snd;
	uint32_t k = one_packet ? 0 : snd->cur_pkt, off = one_packet ? 0 : k * qp->conn.mtu;
	uint32_t len = one_packet ? e->length : RTE_MIN(e->length - off, qp->conn.mtu), hdr;
	bool last = one_packet || k + 1 == e->npkts;
	struct wire_fields f;
	const uint8_t *view;
	struct rte_mbuf *m;
	uint8_t *frame;
	int rc_mem;

	if (rc &&
	    (uint32_t)psn_diff(snd->next_psn, snd->una_psn) - snd->rd_psns >= snd->cc.window_pkts &&
	    !snd->resending && !req_window_wider(qp))
		return REQ_BLOCKED;
	m = qp_env_buf(env);
	if (m == NULL)
		return REQ_NO_ROOM;
	f.opcode = data_opcode(e, k == 0, last) | (rc ? WIRE_SVC_RC : WIRE_SVC_UC);
	f.solicited = last && (e->wqe.flags & UROCE_WQE_SOLICITED) &&
		      e->wqe.opcode != UROCE_WR_RDMA_WRITE; /* it causes no completion (WIRE-04) */
	f.ackreq = rc && send_ackreq(qp, last);
	f.becn = false;
	f.psn = snd->next_psn;
	f.va = e->wqe.rdma.remote_addr;
	f.rkey = e->wqe.rdma.rkey;
	f.dmalen = e->length;
	f.imm = e->wqe.imm;
	f.inv_rkey = e->wqe.imm;
	frame = rte_pktmbuf_mtod(m, uint8_t *);
	hdr = wire_hdr_put(&qp->conn.tmpl, &f, len, frame);
	view = send_view(env, qp, e, off, len);
	if (likely(view == NULL || !req_zero_copy_attach(env, qp, m, hdr, view, len))) {
		rc_mem = one_packet ? req_gather_one_packet(env, qp, e, frame + hdr)
				    : req_gather(env, qp, e, off, frame + hdr, len);
		if (unlikely(rc_mem != 0)) {
			req_not_gathered(e, m, rc_mem);
			return rc_mem == -EAGAIN ? REQ_WAITS : REQ_NEXT;
		}
		qp_emit(env, qp, m, &qp->conn.tmpl, wire_frame_close(frame, hdr, len),
			qp->conn.loopback);
	}
	if (rc)
		send_note_ackreq(snd, last, f.ackreq);
	send_advance(env, qp, 1);
	if (last) {
		if (rc)
			send_next_wqe(snd);
		else
			req_sent_all(env, qp, e);
	}
	return REQ_SENT;
}

/* Sends a READ or atomic request whose response has n PSNs; max_rd_atomic at a time (REQ-02). */
static enum req_step
send_request(struct qp_env *env, struct qp *qp, struct qp_sq_entry *e, const struct wire_fields *f,
	     uint32_t n)
{
	struct qp_snd *snd = &qp->conn.snd;
	struct rte_mbuf *m;
	uint32_t hdr;
	uint8_t *p;

	if (!e->rd_counted && snd->rd_out >= qp->conn.attr.max_rd_atomic)
		return REQ_BLOCKED;
	if (unlikely(snd->rd_lossy || snd->cc.window_pkts < CC_WINDOW_PKTS) &&
	    req_fetch_must_wait(qp, n))
		return REQ_BLOCKED;
	m = qp_env_buf(env);
	if (m == NULL)
		return REQ_NO_ROOM;
	p = rte_pktmbuf_mtod(m, uint8_t *);
	hdr = wire_hdr_put(&qp->conn.tmpl, f, 0, p);
	qp_emit(env, qp, m, &qp->conn.tmpl, wire_frame_close(p, hdr, 0), qp->conn.loopback);
	if (!e->rd_counted) {
		e->rd_counted = true;
		snd->rd_out++;
	}
	snd->rd_psns += n;
	send_note_ackreq(snd, true, true);
	send_advance(env, qp, n);
	if (snd->cur_pkt == e->npkts)
		send_next_wqe(snd);
	return REQ_SENT;
}

/* Requests n responses of a READ, from the cursor on. */
static enum req_step
send_read(struct qp_env *env, struct qp *qp, struct qp_sq_entry *e, uint32_t n)
{
	struct qp_snd *snd = &qp->conn.snd;
	uint32_t k = snd->cur_pkt, off = k * qp->conn.mtu;
	struct wire_fields f = {
		.opcode = WIRE_OP_READ_REQ,
		.ackreq = true,
		.psn = snd->next_psn,
		.va = e->wqe.rdma.remote_addr + off,
		.rkey = e->wqe.rdma.rkey,
		.dmalen = k + n == e->npkts ? e->length - off : n * qp->conn.mtu,
	};
	/* A part of a READ, after the first, that was never requested. */
	bool part = unlikely(k != 0) && snd->next_psn == snd->high_psn;
	enum req_step step;

	if (!snd->resending && snd->rd_psns != 0 && (snd->rd_psns + n > QP_READ_CHUNK_PKTS || part))
		return REQ_BLOCKED;
	step = send_request(env, qp, e, &f, n);
	if (unlikely(part) && step == REQ_SENT)
		qp->conn.loss.part_psn = f.psn | QP_PART_SENT;
	return step;
}

/*
 * Requests as many responses of a READ with several as the policy permits, and as fit a socket that
 * was full (qp_env.read_bytes).
 */
static __rte_noinline enum req_step
send_long_read(struct qp_env *env, struct qp *qp, struct qp_sq_entry *e)
{
	struct qp_snd *snd = &qp->conn.snd;
	uint32_t n = req_read_most(qp, e), most;

	if (unlikely(env->now_ns < env->read_limit_ns)) {
		most = RTE_MAX(env->read_bytes / qp->conn.mtu, 1u);
		if (snd->next_psn == snd->high_psn)
			n = RTE_MIN(n, most);
		if (!snd->resending && snd->rd_psns != 0 && snd->rd_psns + n > most)
			return REQ_BLOCKED;
	}
	return send_read(env, qp, e, n);
}

static enum req_step
send_atomic(struct qp_env *env, struct qp *qp, struct qp_sq_entry *e)
{
	struct qp_snd *snd = &qp->conn.snd;
	bool swap = e->wqe.opcode == UROCE_WR_ATOMIC_CMP_SWAP;
	struct wire_fields f = {
		.opcode = swap ? WIRE_OP_CMP_SWAP : WIRE_OP_FETCH_ADD,
		.ackreq = true,
		.psn = snd->next_psn,
		.va = e->wqe.rdma.remote_addr,
		.rkey = e->wqe.rdma.rkey,
		.swap_add = swap ? e->wqe.rdma.swap : e->wqe.rdma.compare_add,
		.compare = swap ? e->wqe.rdma.compare_add : 0,
	};

	return send_request(env, qp, e, &f, 1);
}

/*
 * Sends packets to a peer with end-to-end credits. It has rq_credits receive WQEs. One more message
 * may be sent, whose ACK or RNR NAK shows if there are more by now (9.7.7.2).
 */
static __rte_noinline enum req_step
send_limited(struct qp_env *env, struct qp *qp, struct qp_sq_entry *e)
{
	bool starts = qp->conn.snd.cur_pkt == 0 && req_takes_recv(e);
	enum req_step step;

	if (starts && qp->conn.rq_out > qp->conn.rq_credits)
		return REQ_BLOCKED;
	step = send_data(env, qp, e, true, false);
	qp->conn.rq_out += starts && step == REQ_SENT;
	return step;
}

/* A step of a WQE that is not on the fast path. */
static __rte_noinline enum req_step
send_slow(struct qp_env *env, struct qp *qp, struct qp_sq_entry *e)
{
	struct qp_snd *snd = &qp->conn.snd;

	if (e->status != QP_WC_SUCCESS) {
		/* Its error completion waits for the WQEs before it (REQ-01). */
		if (snd->cur == snd->tail) {
			req_fault_wqe(env, qp, e);
			qp_send_error(env, qp, e->status);
		}
		return REQ_BLOCKED;
	}
	if (snd->cur_pkt == e->npkts && (e->npkts != 0 || e->done)) {
		snd->cur++;
		snd->cur_pkt = 0;
		req_local_retire(env, qp);
		return REQ_NEXT;
	}
	if (snd->cur_pkt == 0 && (e->wqe.flags & UROCE_WQE_FENCE) && snd->rd_out != 0)
		return REQ_BLOCKED; /* REQ-02 */
	if (req_is_local(e)) {
		req_local_run(env, qp, e);
		return REQ_NEXT;
	}
	if (qp->conn.type == QP_TYPE_UD)
		return req_send_datagram(env, qp, e);
	if (e->wqe.opcode == UROCE_WR_RDMA_READ)
		return e->npkts == 1 ? send_read(env, qp, e, 1) : send_long_read(env, qp, e);
	if (req_fetches(e))
		return send_atomic(env, qp, e);
	if (snd->limited)
		return send_limited(env, qp, e);
	return send_data(env, qp, e, qp->conn.type == QP_TYPE_RC, false);
}

/*
 * Is the round trip of the packet psn timed, which is sent next? Its ACK must not wait for that of
 * a later packet: the time between packets would count as delay, at a low rate more than the
 * network's.
 */
static bool
send_is_timed(const struct qp *qp, uint32_t psn)
{
	const struct qp_snd *snd = &qp->conn.snd;

	return (snd->watch & QP_WATCH_RTT_PSN)
		       ? psn == qp->conn.loss.rtt_psn
		       : (snd->watch & QP_WATCH_RTT_FLIGHT) && psn == snd->una_psn;
}

/*
 * As send_slow, for a QP with snd.cc_active. Sends no packet before the congestion policy allows
 * it, and reports each packet to the policy. Steps that send no packet are not held back.
 */
static __rte_noinline enum req_step
send_paced(struct qp_env *env, struct qp *qp, struct qp_sq_entry *e)
{
	const struct cc_flow *flow = &qp->conn.cc_flow;
	uint32_t psn = qp->conn.snd.next_psn, k = qp->conn.snd.cur_pkt;
	enum req_step step;

	if (flow->next_send_ns > env->now_ns && e->status == QP_WC_SUCCESS &&
	    qp->conn.snd.cur_pkt != e->npkts) {
		qp_deadline_set(&qp->conn, QP_DEADLINE_PACE, flow->next_send_ns);
		return REQ_HELD;
	}
	qp_deadline_clear(&qp->conn, QP_DEADLINE_PACE);
	/*
	 * At a low rate QP_ACKREQ_PKTS packets take longer than the wait for a probe. Packets that
	 * are far apart therefore each request an ACK.
	 */
	if (flow->ackreq_ns <= env->now_ns || send_is_timed(qp, psn))
		qp->conn.snd.since_ackreq = QP_ACKREQ_PKTS;
	step = send_slow(env, qp, e);
	if (step == REQ_SENT)
		req_cc_sent(env, qp, psn, req_cc_requested(qp, e, k, psn));
	return step;
}

enum req_step
req_send_again(struct qp_env *env, struct qp *qp, struct qp_sq_entry *e, uint32_t n)
{
	struct cc_flow *flow = &qp->conn.cc_flow;
	enum req_step step;

	if (e->status != QP_WC_SUCCESS)
		return REQ_BLOCKED;
	if (qp->conn.snd.cc_active && flow->next_send_ns > env->now_ns) {
		qp_deadline_set(&qp->conn, QP_DEADLINE_PACE, flow->next_send_ns);
		return REQ_HELD;
	}
	if (req_sends(e))
		step = send_data(env, qp, e, true, false);
	else if (e->wqe.opcode == UROCE_WR_RDMA_READ)
		step = send_read(env, qp, e, n != 0 ? n : req_read_most(qp, e));
	else
		step = send_atomic(env, qp, e);
	if (step == REQ_SENT && qp->conn.snd.cc_active)
		cc_on_sent(&qp->conn.snd.cc, flow, env->now_ns, env->tx[env->tx_n - 1]->pkt_len);
	return step;
}

/* Sends packets of a QP_WQE_PACKETS WQE, as many as possible. */
static __rte_noinline enum req_step
send_fast(struct qp_env *env, struct qp *qp, struct qp_sq_entry *e, struct qp_turn turn)
{
	enum req_step step;

	do {
		step = send_data(env, qp, e, true, false);
	} while (step == REQ_SENT && qp->conn.snd.cur_pkt != 0 && !qp_turn_over(env, turn));
	return step;
}

/* One step of the WQE at the cursor. */
static inline enum req_step
send_step(struct qp_env *env, struct qp *qp, struct qp_turn turn)
{
	struct qp_snd *snd = &qp->conn.snd;
	struct qp_sq_entry *e;

	e = snd->cur == snd->head ? req_fetch(env, qp) : qp_sq_entry(qp, snd->cur);
	if (e == NULL)
		return REQ_BLOCKED;
	if (unlikely(!qp->conn.path_ok) && qp->conn.type != QP_TYPE_UD)
		return req_wait_path(env, qp);
	if (qp->conn.state == QP_SQD && snd->cur_pkt == 0 && !psn_lt(snd->next_psn, snd->high_psn))
		return REQ_BLOCKED; /* QP-15: not started before the drain, valid or not */
	if (likely(e->fast == QP_WQE_ONE_PACKET))
		return send_data(env, qp, e, true, true);
	if (e->fast)
		return send_fast(env, qp, e, turn);
	return likely(!snd->cc_active) ? send_slow(env, qp, e) : send_paced(env, qp, e);
}

/* Arms the doorbell. Returns true if a WQE was posted meanwhile without a doorbell. */
static __rte_noinline bool
send_arm(struct qp *qp)
{
	struct qp_snd *snd = &qp->conn.snd;

	qp->bind.armed = qp_doorbell_arm(qp->bind.sq.hdr, snd->head);
	if (!qp->bind.armed)
		qp_doorbell_disarm(qp->bind.sq.hdr);
	return !qp->bind.armed;
}

/*
 * At the end of a turn: is there more to take? An armed queue is not polled until its client rings.
 * Without space for another WQE the queue is not armed: when a WQE is retired, the QP gets another
 * turn.
 */
static bool
send_more(const struct qp_env *env, struct qp *qp)
{
	struct qp_snd *snd = &qp->conn.snd;

	if (snd->cur != snd->head || qp->bind.armed || !qp_sq_room(env, qp))
		return false;
	if (!qp->bind.polled)
		return send_arm(qp);
	return __atomic_load_n(&qp->bind.sq.hdr->prod, __ATOMIC_ACQUIRE) != snd->head;
}

enum req_more
req_run(struct qp_env *env, struct qp *qp, uint32_t budget)
{
	struct qp_snd *snd = &qp->conn.snd;
	enum req_step step = REQ_NEXT;
	struct qp_turn turn = qp_turn_begin(env, budget);
	uint32_t rest; /* of env->work, for the other QPs */

	if (qp->conn.state == QP_SQE)
		qp_flush(env, qp);
	if (qp->conn.state != QP_RTS && qp->conn.state != QP_SQD)
		return REQ_IDLE;
	if (unlikely(snd->first) && snd->flushing && qp_flush_rest(env, qp))
		return REQ_MORE;
	if (unlikely(env->work == 0))
		return REQ_MORE;
	rest = env->work - qp_turn_steps(env);
	if (unlikely(snd->resend))
		step = req_resend(env, qp, turn);
	while (!(snd->deadlines & QP_DEADLINE_BIT(QP_DEADLINE_RNR)) &&
	       (step == REQ_SENT || step == REQ_NEXT)) {
		if (qp_turn_over(env, turn)) {
			step = REQ_NO_ROOM;
			break;
		}
		step = send_step(env, qp, turn);
		if (unlikely(step == REQ_NEXT) && --env->work == rest)
			step = REQ_NO_ROOM;
	}
	if (snd->ack_owed)
		send_owed_ackreq(env, qp);
	if (step >= REQ_HELD)
		return step == REQ_NO_ROOM ? REQ_MORE : step == REQ_HELD ? REQ_PACED : REQ_LATE;
	req_drain_check(env, qp);
	if (qp->conn.state == QP_RTS && send_more(env, qp))
		return REQ_MORE;
	return REQ_IDLE;
}
