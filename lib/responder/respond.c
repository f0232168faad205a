/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sending responses (RSP-02, RSP-03, RSP-07). Received requests record what is due; it is sent once
 * per burst: READ responses first, in PSN order, then a NAK, then the coalesced ACK. A NAK
 * acknowledges everything before it, so an ACK that it covers is dropped.
 */
#include <errno.h>
#include <rte_branch_prediction.h>
#include <rte_mbuf.h>
#include "responder/reorder.h"
#include "responder/responder_parts.h"
#include "wire/psn.h"

void
rsp_ack(struct qp *qp, uint32_t psn)
{
	qp->conn.rcv.ack_due = true;
	qp->conn.rcv.ack_psn = psn;
}

void
rsp_nak_due(struct qp *qp, uint8_t syndrome)
{
	qp->conn.rcv.nak_due = true;
	qp->conn.rcv.nak_sent = true;
	qp->conn.rcv.nak_syndrome = syndrome;
	qp->conn.rcv.nak_psn = qp->conn.rcv.epsn;
}

void
rsp_nak_rnr(struct qp_env *env, struct qp *qp)
{
	rsp_nak_due(qp, WIRE_SYN_RNR | qp->conn.attr.min_rnr_timer);
}

/*
 * RNR timer codes for late memory: starting at 0.64 ms, four times as long each time, up to 655 ms.
 * Memory that is late for two seconds costs a peer with a limited rnr_retry at most seven retries.
 */
#define LATE_CODE_FIRST 12u
#define LATE_CODE_STEP  4u

uint8_t
rsp_late_code(const struct qp *qp, struct qp_late *late)
{
	uint32_t code, least = qp->conn.attr.min_rnr_timer;

	code = LATE_CODE_FIRST + LATE_CODE_STEP * late->naks++;
	if (code > WIRE_SYN_VALUE || least == 0)
		return 0; /* code 0: the longest time */
	return (uint8_t)(code > least ? code : least);
}

void
rsp_memory_late(struct qp_env *env, struct qp *qp)
{
	struct qp_rcv *rcv = &qp->conn.rcv;

	qp_env_drop(env, DROP_MEMORY_LATE);
	qp_record(env, qp, QP_RECORD_LATE, 0, rcv->epsn, 1);
	if (qp->conn.type != QP_TYPE_RC)
		return; /* the engine keeps the packet (engine/rx_late.c) */
	if (rcv->late.psn != rcv->epsn)
		rcv->late = (struct qp_late){.psn = rcv->epsn};
	if (rcv->holding || qp->conn.sr.state == QP_SR_ON)
		return; /* requests behind it are held */
	rcv->nak_sent = true;
	rcv->nak_syndrome = WIRE_SYN_RNR;
}

void
rsp_late_nak(struct qp_env *env, struct qp *qp, uint32_t psn)
{
	struct qp_rcv *rcv = &qp->conn.rcv;

	if (psn_lt(rcv->epsn, psn))
		rcv->early_psn = psn; /* asked for by a sequence NAK (rsp_order_late) */
	if (psn != rcv->epsn &&
	    !(psn_lt(psn, rcv->epsn) && rcv->holding && rcv->late.psn == rcv->epsn))
		return;
	rsp_reorder_discard(env, qp);
	rsp_nak_due(qp, WIRE_SYN_RNR | rsp_late_code(qp, &qp->conn.rcv.late));
}

static bool
late_is_of(const struct qp *qp, uint32_t rkey, bool atomic)
{
	const struct qp_late_op *l = &qp->bind.late_op;

	return l->op.state != MEM_LATE_NONE && l->psn == qp->conn.rcv.epsn && l->rkey == rkey &&
	       l->atomic == atomic;
}

enum mem_late_state
rsp_late_state(const struct qp *qp, uint32_t rkey, bool atomic, uint32_t len)
{
	const struct qp_late_op *l = &qp->bind.late_op;

	if (!late_is_of(qp, rkey, atomic) || l->op.rc != 0 || l->len < len)
		return MEM_LATE_NONE;
	return (enum mem_late_state)l->op.state;
}

int
rsp_late_take(struct qp *qp, uint32_t rkey, bool atomic, uint32_t len, uint64_t *orig)
{
	struct qp_late_op *l = &qp->bind.late_op;
	struct qp_late *late = &qp->conn.rcv.late;

	if (!late_is_of(qp, rkey, atomic))
		return 1;
	if (l->op.state == MEM_LATE_PENDING)
		return l->op.rc != 0 ? l->op.rc : -EAGAIN;
	l->op.state = MEM_LATE_NONE;
	if (l->len < len)
		return 1;
	if (atomic)
		*orig = l->op.orig;
	else
		*late = (struct qp_late){.psn = l->psn, .ahead = l->pkts};
	return 0;
}

struct mem_late *
rsp_late_new(struct qp_env *env, struct qp *qp)
{
	mem_late_forget(&env->late_ops, &qp->bind.late_op.op);
	return &qp->bind.late_op.op;
}

void
rsp_late_note(struct qp_env *env, struct qp *qp, const struct mr *mr, uint32_t rkey, bool atomic,
	      uint32_t len, uint32_t pkts)
{
	struct qp_late_op *l = &qp->bind.late_op;

	if (l->op.state != MEM_LATE_PENDING)
		return; /* not begun */
	l->psn = qp->conn.rcv.epsn;
	l->rkey = rkey;
	l->len = len;
	l->pkts = (uint16_t)pkts;
	l->atomic = atomic;
	mem_late_add(&env->late_ops, mr->ops, &l->op);
}

void
rsp_nak_fatal(struct qp_env *env, struct qp *qp, enum wire_nak code, enum qp_wc_status status,
	      enum qp_event ev)
{
	if (qp->conn.rcv.cur.taken && status != QP_WC_SUCCESS) {
		struct uroce_cqe cqe = {.opcode = UROCE_CQE_RECV};

		qp_complete_recv(env, qp, status, &cqe);
	} else {
		env->ops->async_event(env->ops_ctx, ev, qp, NULL);
	}
	if (qp->conn.type != QP_TYPE_RC) {
		qp_error(env, qp, QP_WC_SUCCESS);
		return;
	}
	rsp_nak_due(qp, WIRE_SYN_NAK | code);
	qp->conn.rcv.fatal = true;
}

bool
rsp_key_count(struct qp_env *env, struct qp *qp, uint32_t rkey)
{
	struct qp_wrong_keys *w = &qp->conn.wrong_keys;

	if (mr_key_known(env->mrs, rkey, qp->bind.pd))
		return false;
	env->counters->ctr[COUNTER_RSP_WRONG_KEY]++;
	__atomic_store_n(&w->total, w->total + 1, __ATOMIC_RELAXED);
	if (w->count == 0 || env->now_ns - w->since_ns >= QP_WRONG_KEY_NS) {
		w->since_ns = env->now_ns;
		w->count = 0;
	}
	if (++w->count <= QP_WRONG_KEYS)
		return false;
	w->until_ns = env->now_ns + QP_WRONG_KEY_NS;
	qp->conn.rcv.key_pause = true;
	return true;
}

bool
rsp_key_guessed(struct qp_env *env, struct qp *qp, uint32_t rkey)
{
	bool guessed = rsp_key_count(env, qp, rkey);

	if (guessed)
		qp_env_drop(env, DROP_KEY_PAUSE);
	return guessed;
}

bool
rsp_client_gone(struct qp_env *env, struct qp *qp, int rc)
{
	if (rc != -ESRCH)
		return false;
	rsp_fault(env, qp, UROCE_ERROR_CLIENT_GONE, NULL);
	qp_error(env, qp, QP_WC_SUCCESS);
	return true;
}

struct rte_mbuf *
rsp_frame(struct qp_env *env)
{
	return env->tx_n < env->tx_cap ? qp_env_buf(env) : NULL;
}

void
rsp_emit(struct qp_env *env, struct qp *qp, struct rte_mbuf *m, uint32_t hdr_len,
	 uint32_t payload_len)
{
	uint8_t *p = rte_pktmbuf_mtod(m, uint8_t *);

	qp_emit(env, qp, m, &qp->conn.tmpl, wire_frame_close(p, hdr_len, payload_len),
		qp->conn.loopback);
}

static bool
send_ack(struct qp_env *env, struct qp *qp, uint8_t syndrome, uint32_t psn)
{
	struct wire_fields f = {.opcode = WIRE_OP_ACK,
				.psn = psn,
				.syndrome = syndrome,
				.msn = qp->conn.rcv.msn};
	struct rte_mbuf *m = rsp_frame(env);

	if (m == NULL)
		return false;
	rsp_emit(env, qp, m, wire_hdr_put(&qp->conn.tmpl, &f, 0, rte_pktmbuf_mtod(m, uint8_t *)),
		 0);
	return true;
}

/* Counter of a sent NAK. Not counted when it becomes due, because it may be voided before. */
static enum counter
nak_counter(uint8_t syndrome)
{
	if ((syndrome & WIRE_SYN_KIND) == WIRE_SYN_RNR)
		return COUNTER_RSP_RNR_NAK;
	return (syndrome & WIRE_SYN_VALUE) == WIRE_NAK_PSN_SEQ ? COUNTER_RSP_SEQ_NAK
							       : COUNTER_RSP_FATAL_NAK;
}

/* Returns true if nothing more is due. */
static bool
send_nak_and_ack(struct qp_env *env, struct qp *qp)
{
	struct qp_rcv *rcv = &qp->conn.rcv;

	if (rcv->nak_due || rcv->sack_due) {
		if (!rcv->nak_due)
			return rsp_sack_send(env, qp);
		if (!send_ack(env, qp, rcv->nak_syndrome, rcv->nak_psn))
			return false;
		env->counters->ctr[nak_counter(rcv->nak_syndrome)]++;
		if (rcv->nak_syndrome == (WIRE_SYN_NAK | WIRE_NAK_REM_ACCESS))
			env->counters->ctr[COUNTER_RSP_REM_ACCESS]++;
		qp_record(env, qp, QP_RECORD_NAK_SENT, rcv->nak_syndrome, rcv->nak_psn, 0);
		rcv->nak_due = rcv->sack_due = false;
		if (rcv->ack_due && psn_lt(rcv->ack_psn, rcv->nak_psn))
			rcv->ack_due = false;
		if (rcv->fatal) {
			qp_error(env, qp, QP_WC_SUCCESS);
			return true;
		}
	}
	if (rcv->ack_due) {
		if (!send_ack(env, qp, WIRE_SYN_ACK | WIRE_SYN_NO_CREDITS, rcv->ack_psn))
			return false;
		rcv->ack_due = false;
		env->acks++;
		env->counters->ctr[COUNTER_RSP_ACK]++;
		if (unlikely(rcv->sr_acks))
			rsp_ack_sent(env, qp);
	}
	return true;
}

/* A SACK is due while READ responses are queued: sends it behind a response of several. */
static __rte_noinline void
sack_early(struct qp_env *env, struct qp *qp)
{
	const struct qp_rcv *rcv = &qp->conn.rcv;

	if (!rcv->holding)
		return; /* the gap is closed: nothing waits for the SACK */
	if (rcv->rdq[0].pos != 0 || (rsp_read_run(env, qp, 1) & (RSP_MORE | RSP_LATE)) != 0)
		rsp_sack_send_early(env, qp);
}

enum rsp_more
rsp_run(struct qp_env *env, struct qp *qp, uint32_t budget)
{
	enum rsp_more more;

	if (qp->conn.state < QP_RTR || qp->conn.state == QP_ERR || qp->conn.type != QP_TYPE_RC)
		return RSP_IDLE;
	if (!qp->conn.path_ok) {
		/* Responses cannot be sent yet: the requester will retransmit. */
		return RSP_IDLE;
	}
	if (unlikely(qp->conn.rcv.sack_due && qp->conn.rcv.rdq_n != 0))
		sack_early(env, qp);
	more = rsp_read_run(env, qp, budget);
	if (more != RSP_IDLE)
		return qp->conn.state != QP_ERR ? more : RSP_IDLE;
	return send_nak_and_ack(env, qp) ? RSP_IDLE : RSP_MORE;
}
