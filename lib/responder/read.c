/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RDMA READ, responder side. rdq queues the responses to send, in PSN order. hist keeps the last
 * READs executed, to tell duplicates from invalid requests (RSP-01). A duplicate READ is executed
 * again from its PSN; it uses no responder resource and its errors are silent (NAK-05).
 */
#include <errno.h>
#include <string.h>
#include <rte_branch_prediction.h>
#include <rte_common.h>
#include <rte_mbuf.h>
#include "qp/ahead.h"
#include "responder/responder_parts.h"
#include "wire/psn.h"
#include "wire/timer.h"

static uint32_t
read_npkts(const struct qp *qp, uint32_t len)
{
	return RTE_MAX(len / qp->conn.mtu + (len % qp->conn.mtu != 0), 1u);
}

static bool
read_allowed(struct qp_env *env, struct qp *qp, uint32_t rkey, uint64_t va, uint32_t len)
{
	if (!(qp->conn.access & MEM_REMOTE_READ))
		return false; /* for a duplicate: revoked since the original */
	return len == 0 || mr_lookup_remote(env->mrs, rkey, qp->bind.pd, qp->conn.qpn, va, len,
					    MEM_REMOTE_READ, &env->window) != NULL;
}

static void
read_remove(struct qp_rcv *rcv, uint32_t i)
{
	rcv->rdq_n--;
	memmove(&rcv->rdq[i], &rcv->rdq[i + 1], (rcv->rdq_n - i) * sizeof(rcv->rdq[0]));
}

/*
 * A new request replaces a replay, whose requester will retransmit. A full queue has at most
 * QP_MAX_RD_ATOMIC entries that are not replays, so there is one to drop.
 */
static void
drop_replay(struct qp_rcv *rcv)
{
	uint32_t i = rcv->rdq_n;

	while (i-- > 0) {
		if (rcv->rdq[i].replay) {
			read_remove(rcv, i);
			return;
		}
	}
}

bool
rsp_rd_room(const struct qp *qp)
{
	const struct qp_rcv *rcv = &qp->conn.rcv;
	uint32_t i, busy = 0;

	for (i = 0; i < rcv->rdq_n; i++)
		busy += !rcv->rdq[i].replay;
	return busy < qp->conn.attr.max_dest_rd_atomic;
}

void
rsp_rd_add(struct qp *qp, struct qp_rd_op *op)
{
	struct qp_rcv *rcv = &qp->conn.rcv;

	if (rcv->rdq_n == QP_RD_QUEUE)
		drop_replay(rcv);
	rcv->msn = (rcv->msn + 1) & WIRE_PSN_MASK;
	op->msn = rcv->msn;
	rcv->rdq[rcv->rdq_n++] = *op;
	rcv->epsn = psn_add(rcv->epsn, op->npkts);
	rcv->hist[rcv->hist_next] = *op;
	rcv->hist_next = (rcv->hist_next + 1) % QP_MAX_RD_ATOMIC;
}

void
rsp_read_new(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt)
{
	struct qp_rd_op op = {
		.va = pkt->va,
		.rkey = pkt->rkey,
		.len = pkt->dmalen,
		.psn = pkt->psn,
		.npkts = read_npkts(qp, pkt->dmalen),
	};

	if (pkt->dmalen > QP_MAX_MSG_BYTES) {
		rsp_fault(env, qp, UROCE_ERROR_RETH_LENGTH, pkt);
		rsp_nak_fatal(env, qp, WIRE_NAK_INV_REQ, QP_WC_REM_INV_REQ_ERR,
			      QP_EVENT_QP_REQ_ERR);
		return;
	}
	if (!rsp_rd_room(qp)) {
		rsp_fault(env, qp, UROCE_ERROR_READ_DEPTH, pkt);
		rsp_nak_fatal(env, qp, WIRE_NAK_INV_REQ, QP_WC_REM_INV_REQ_ERR,
			      QP_EVENT_QP_ACCESS_ERR);
		return;
	}
	if (!read_allowed(env, qp, pkt->rkey, pkt->va, pkt->dmalen)) {
		if (rsp_key_guessed(env, qp, pkt->rkey))
			return;
		rsp_fault_rkey(env, qp, pkt, MEM_REMOTE_READ);
		rsp_nak_fatal(env, qp, WIRE_NAK_REM_ACCESS, QP_WC_REM_ACCESS_ERR,
			      QP_EVENT_QP_ACCESS_ERR);
		return;
	}
	qp_got(env, qp, WIRE_F_READ);
	rsp_rd_add(qp, &op);
}

/* Finds the executed READ that had this PSN among its responses and requested these bytes. */
static const struct qp_rd_op *
read_find_executed(const struct qp *qp, const struct wire_pkt *pkt)
{
	const struct qp_rcv *rcv = &qp->conn.rcv;
	uint32_t i;

	for (i = 0; i < QP_MAX_RD_ATOMIC; i++) {
		const struct qp_rd_op *h = rsp_rd_past(rcv, i);
		uint32_t k = psn_diff(pkt->psn, h->psn) & WIRE_PSN_MASK;

		if (k < h->npkts && !h->atomic && pkt->rkey == h->rkey &&
		    pkt->va == h->va + (uint64_t)k * qp->conn.mtu &&
		    pkt->dmalen <= h->len - RTE_MIN(h->len, k * qp->conn.mtu))
			return h;
	}
	return NULL;
}

/*
 * Replaces cur, whose responses are not all sent yet, by op, a duplicate of cur or of its last
 * part. op is a separate request, so its first response is a FIRST or ONLY (RSP-01). It takes over
 * cur's queue entry and resource. Returns false if op ends before cur does: both then get
 * responses.
 */
static bool
read_restart(struct qp_rd_op *cur, const struct qp_rd_op *op)
{
	uint32_t msn = cur->msn;
	bool replay = cur->replay;

	if (cur->atomic)
		return true; /* its response is not sent yet */
	if (psn_add(op->psn, op->npkts) != psn_add(cur->psn, cur->npkts))
		return false;
	*cur = *op;
	cur->pos = 0;
	cur->msn = msn;
	cur->replay = replay;
	return true;
}

void
rsp_rd_replay(struct qp_env *env, struct qp *qp, struct qp_rd_op *op)
{
	struct qp_rcv *rcv = &qp->conn.rcv;
	bool selective = qp->conn.sr.state == QP_SR_ON;
	uint32_t at;

	/*
	 * Find the first that ends behind the start of op; with selective repeat, also behind those
	 * that still have responses before op to send, because the requester may lack these.
	 */
	for (at = 0; at < rcv->rdq_n; at++) {
		const struct qp_rd_op *cur = &rcv->rdq[at];
		uint32_t end = psn_add(cur->psn, cur->npkts);

		if (!psn_lt(op->psn, end))
			continue;
		if (likely(!selective) || cur->atomic ||
		    !psn_lt(psn_add(cur->psn, cur->pos), op->psn))
			break;
		if (psn_le(psn_add(op->psn, op->npkts), end))
			return; /* these responses are still to be sent */
	}
	if (at < rcv->rdq_n && psn_le(rcv->rdq[at].psn, op->psn) && read_restart(&rcv->rdq[at], op))
		return;
	/* The last entry is reserved for new requests. */
	if (rcv->rdq_n >= QP_RD_QUEUE - 1) {
		qp_env_drop(env, DROP_DUP_IGNORED);
		return;
	}
	memmove(&rcv->rdq[at + 1], &rcv->rdq[at], (rcv->rdq_n - at) * sizeof(rcv->rdq[0]));
	rcv->rdq_n++;
	if (!op->atomic)
		op->pos = 0;
	op->replay = true;
	rcv->rdq[at] = *op;
}

void
rsp_read_dup(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt)
{
	const struct qp_rd_op *h = read_find_executed(qp, pkt);
	struct qp_rd_op op = {
		.va = pkt->va,
		.rkey = pkt->rkey,
		.len = pkt->dmalen,
		.psn = pkt->psn,
		.npkts = read_npkts(qp, pkt->dmalen),
	};

	if (h == NULL || !read_allowed(env, qp, pkt->rkey, pkt->va, pkt->dmalen)) {
		qp_env_drop(env, DROP_DUP_IGNORED);
		return;
	}
	op.msn = h->msn;
	rsp_rd_replay(env, qp, &op);
}

/* The region is gone: NAK instead of responding (NAK-03), or drop a replay silently. */
static void
read_lost(struct qp_env *env, struct qp *qp, struct qp_rd_op *op)
{
	uint32_t psn = psn_add(op->psn, op->pos);

	if (op->replay) {
		read_remove(&qp->conn.rcv, 0);
		return;
	}
	rsp_fault_read(env, qp, op, psn);
	qp->conn.rcv.rdq_n = 0;
	qp->conn.rcv.ack_due = false;
	/* A message that is being received did not fail: its receive WQE is flushed. */
	rsp_nak_fatal(env, qp, WIRE_NAK_REM_ACCESS, QP_WC_SUCCESS, QP_EVENT_QP_ACCESS_ERR);
	qp->conn.rcv.nak_psn = psn;
}

static uint8_t
read_opcode(const struct qp_rd_op *op)
{
	bool first = op->pos == 0, last = op->pos + 1 == op->npkts;

	if (first)
		return last ? WIRE_OP_READ_RESP_ONLY : WIRE_OP_READ_RESP_FIRST;
	return last ? WIRE_OP_READ_RESP_LAST : WIRE_OP_READ_RESP_MIDDLE;
}

/* How long a READ's memory may be late before the peer gets an RNR NAK, and after an RNR wait. */
#define LATE_NS 20000000u

/*
 * The memory of op's next response is late: retry later. In time for the peer's ACK timeout, an RNR
 * NAK is sent in place of the response, so that the peer uses up no retries; the peer retransmits
 * the request unless the response arrives first. A duplicate gets no NAK (NAK-05). m: an unused
 * frame. Returns RSP_LATE, as read_respond.
 */
static __rte_noinline enum rsp_more
read_late(struct qp_env *env, struct qp *qp, const struct qp_rd_op *op, struct rte_mbuf *m)
{
	struct qp_late *late = &qp->conn.rcv.rd_late;
	struct wire_fields f = {.opcode = WIRE_OP_ACK,
				.psn = psn_add(op->psn, op->pos),
				.msn = (op->msn - 1) & WIRE_PSN_MASK};
	uint32_t code;

	if (late->due_ns == 0 || late->psn != f.psn)
		*late = (struct qp_late){.psn = f.psn, .due_ns = env->now_ns + LATE_NS};
	if (op->replay || env->now_ns < late->due_ns) {
		rte_pktmbuf_free(m);
		return RSP_LATE;
	}
	code = rsp_late_code(qp, late);
	late->due_ns = env->now_ns + wire_rnr_timer_ns(code) + LATE_NS;
	f.syndrome = (uint8_t)(WIRE_SYN_RNR | code);
	rsp_emit(env, qp, m, wire_hdr_put(&qp->conn.tmpl, &f, 0, rte_pktmbuf_mtod(m, uint8_t *)),
		 0);
	env->counters->ctr[COUNTER_RSP_RNR_NAK]++;
	qp_record(env, qp, QP_RECORD_NAK_SENT, f.syndrome, f.psn, 0);
	return RSP_LATE;
}

/*
 * Copies len bytes at offset off of op, which are in mr, a region that is accessed by ops. May read
 * more at once (qp/ahead.h). Returns as mr_read.
 */
static __rte_noinline int
read_ahead(struct qp_env *env, const struct qp *qp, const struct mr *mr, const struct qp_rd_op *op,
	   uint32_t off, uint8_t *dst, uint32_t len)
{
	uint32_t most = env->crowded || qp->conn.snd.cc_active ? QP_AHEAD_SHORT : QP_AHEAD_BYTES;
	struct qp_ahead_part part = {.addr = op->va + off, .len = len, .psn = op->psn};
	uint64_t room = mr->iova + mr->len - part.addr;
	const uint8_t *bytes = qp_ahead_get(env->ahead, env->now_ns, NULL, mr, &part);

	if (bytes != NULL) {
		memcpy(dst, bytes, len);
		return 0;
	}
	part.len = (uint32_t)RTE_MIN((uint64_t)RTE_MIN(op->len - off, RTE_MAX(most, len)), room);
	return qp_ahead_read(env->ahead, env->now_ns, NULL, mr, &part, 1, dst, len);
}

/* Drops queued READs that end at PSN end, or earlier. */
static __rte_noinline void
read_drop_until(struct qp_rcv *rcv, uint32_t end)
{
	uint32_t i = 0;

	while (i < rcv->rdq_n && psn_lt(rcv->rdq[i].psn, end)) {
		const struct qp_rd_op *op = &rcv->rdq[i];

		if (!op->atomic && psn_le(psn_add(op->psn, op->npkts), end))
			read_remove(rcv, i);
		else
			i++;
	}
}

/*
 * The last response of the first entry was sent. The requester asked from the entry's first PSN on,
 * so it has all responses before that, and now gets the rest: READs that end no later are not
 * needed any more, and the requester may take their resources for new ones. It requests lost
 * responses again.
 */
static inline void
read_done(struct qp_rcv *rcv)
{
	uint32_t end = psn_add(rcv->rdq[0].psn, rcv->rdq[0].npkts);

	read_remove(rcv, 0);
	if (unlikely(rcv->rdq_n != 0 && psn_lt(rcv->rdq[0].psn, end)))
		read_drop_until(rcv, end);
}

/* Sends one response of op, or a NAK. RSP_IDLE: done. RSP_MORE: no space. RSP_LATE: not now. */
static __rte_always_inline enum rsp_more
read_respond(struct qp_env *env, struct qp *qp, struct qp_rd_op *op)
{
	uint32_t off = op->pos * qp->conn.mtu, len = RTE_MIN(op->len - off, (uint32_t)qp->conn.mtu),
		 hdr;
	struct wire_fields f = {
		.opcode = read_opcode(op),
		.psn = psn_add(op->psn, op->pos),
		.syndrome = WIRE_SYN_ACK | WIRE_SYN_NO_CREDITS,
		.msn = op->msn,
	};
	struct mr *mr = NULL;
	struct rte_mbuf *m;
	uint8_t *p;
	int rc;

	if (len != 0) {
		mr = mr_lookup_remote(env->mrs, op->rkey, qp->bind.pd, qp->conn.qpn, op->va + off,
				      len, MEM_REMOTE_READ, &env->window);
		if (mr == NULL) {
			read_lost(env, qp, op);
			return RSP_IDLE;
		}
	}
	m = rsp_frame(env);
	if (m == NULL)
		return RSP_MORE;
	p = rte_pktmbuf_mtod(m, uint8_t *);
	hdr = wire_hdr_put(&qp->conn.tmpl, &f, len, p);
	if (len == 0)
		rc = 0;
	else if (likely(mr->host != NULL))
		rc = mr_load(mr, op->va + off, p + hdr, len);
	else
		rc = read_ahead(env, qp, mr, op, off, p + hdr, len);
	if (unlikely(rc == -EAGAIN))
		return read_late(env, qp, op, m);
	if (rc != 0) {
		rte_pktmbuf_free(m);
		if (!rsp_client_gone(env, qp, rc))
			read_lost(env, qp, op);
		return RSP_IDLE;
	}
	rsp_emit(env, qp, m, hdr, len);
	env->counters->ctr[COUNTER_RSP_READ_PKTS]++;
	if (++op->pos == op->npkts) {
		read_done(&qp->conn.rcv);
		qp_ahead_forget(env->ahead);
	}
	return RSP_IDLE;
}

/* As read_respond, for a QP with snd.cc_active: reports the response to the congestion policy. */
static __rte_noinline enum rsp_more
read_respond_cc(struct qp_env *env, struct qp *qp, struct qp_rd_op *op)
{
	uint32_t before = env->tx_n;
	uint64_t sent = env->counters->ctr[COUNTER_RSP_READ_PKTS];
	enum rsp_more more = read_respond(env, qp, op);

	/* A NAK in place of the response is not reported. */
	if (env->tx_n != before && env->counters->ctr[COUNTER_RSP_READ_PKTS] != sent)
		cc_on_sent(&qp->conn.snd.cc, &qp->conn.cc_flow, env->now_ns,
			   env->tx[env->tx_n - 1]->pkt_len);
	return more;
}

enum rsp_more
rsp_read_run(struct qp_env *env, struct qp *qp, uint32_t budget)
{
	struct qp_rcv *rcv = &qp->conn.rcv;
	struct qp_turn turn = qp_turn_begin(env, budget);
	enum rsp_more more;

	if (rcv->rdq_n != 0)
		qp_ahead_forget(env->ahead);
	while (rcv->rdq_n != 0) {
		/* A response acknowledges all before it, so an older ACK is redundant. */
		if (rcv->ack_due && psn_lt(rcv->ack_psn, rcv->rdq[0].psn))
			rcv->ack_due = false;
		if (qp_turn_over(env, turn))
			return RSP_MORE;
		if (rcv->rdq[0].atomic) {
			if (!rsp_atomic_respond(env, qp, &rcv->rdq[0]))
				return RSP_MORE;
			read_remove(rcv, 0);
			continue;
		}
		if (likely(!qp->conn.snd.cc_active))
			more = read_respond(env, qp, &rcv->rdq[0]);
		else if (qp->conn.cc_flow.next_send_ns > env->now_ns)
			more = RSP_PACED;
		else
			more = read_respond_cc(env, qp, &rcv->rdq[0]);
		if (unlikely(more != RSP_IDLE))
			return more;
	}
	return RSP_IDLE;
}
