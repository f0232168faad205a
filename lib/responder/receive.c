/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receiving requests (RSP-01, RSP-05, NAK-04 .. NAK-10). The order (responder_parts.h) says which
 * request is executed next. It passes a chain of checks; the first that fails responds and ends the
 * chain. No payload is written and the ePSN does not advance before all checks have passed.
 */
#include <errno.h>
#include <rte_branch_prediction.h>
#include <rte_common.h>
#include "mem/explain.h"
#include "responder/responder_parts.h"
#include "wire/psn.h"

enum rx_step {
	RX_CHECK_SEQUENCE, /* place in the message */
	RX_CHECK_LENGTH,   /* payload against opcode and MTU */
	RX_CHECK_ENABLED,  /* QP allows the operation */
	RX_CHECK_TARGET,   /* R_Key, or space in the receive WQE */
	RX_TAKE_WQE,       /* start of SEND, end of WRITE with immediate */
	RX_EXECUTE,        /* write the payload */
	RX_INVALIDATE,     /* SEND with invalidate: invalidate the window */
	RX_COMPLETE,       /* advance, complete, acknowledge */
	RX_DONE,
};

/* Scatter over the SGEs of the current receive WQE. */

bool
rsp_recv_keys_good(struct qp_env *env, struct qp *qp, uint32_t off, uint32_t len)
{
	const struct uroce_sge *sge = qp->recv_sge;

	for (; len != 0; sge++) {
		uint32_t n;

		if (off >= sge->length) {
			off -= sge->length;
			continue;
		}
		n = RTE_MIN(sge->length - off, len);
		if (mr_lookup(env->mrs, sge->lkey, qp->bind.recv_pd, sge->addr + off, n,
			      MEM_LOCAL_WRITE) == NULL)
			return false;
		len -= n;
		off = 0;
	}
	return true;
}

int
rsp_recv_write(struct qp_env *env, struct qp *qp, const uint8_t *src, uint32_t off, uint32_t len)
{
	const struct uroce_sge *sge = qp->recv_sge;
	int rc;

	for (; len != 0; sge++) {
		struct mr *mr;
		uint32_t n;

		if (off >= sge->length) {
			off -= sge->length;
			continue;
		}
		n = RTE_MIN(sge->length - off, len);
		mr = mr_lookup(env->mrs, sge->lkey, qp->bind.recv_pd, sge->addr + off, n,
			       MEM_LOCAL_WRITE);
		rc = mr != NULL ? mr_write(mr, sge->addr + off, src, n) : -EFAULT;
		if (rc != 0)
			return rc;
		src += n;
		len -= n;
		off = 0;
	}
	return 0;
}

bool
rsp_recv_by_ops(struct qp_env *env, struct qp *qp, uint32_t off)
{
	const struct uroce_sge *sge = qp->recv_sge;
	const struct mr *mr;

	if (off >= qp->conn.rcv.cur.length)
		return false;
	for (; off >= sge->length; sge++)
		off -= sge->length;
	mr = mr_lookup(env->mrs, sge->lkey, qp->bind.recv_pd, sge->addr + off, 1, MEM_LOCAL_WRITE);
	return mr != NULL && mr->host == NULL;
}

/* Unreliable connections, receiving side (RSP-06). */

/*
 * A message that had a receive WQE was aborted, and the next message needs none. A WQE of the QP's
 * own RQ stays for the next message. A WQE of an SRQ would be withheld from the other QPs, forever
 * if this QP's peer falls silent, and cannot be returned because the client may have reused its
 * slot. It therefore completes with an error, and the QP continues (CQE-14).
 */
static void
abort_shared(struct qp_env *env, struct qp *qp)
{
	struct uroce_cqe cqe = {.opcode = UROCE_CQE_RECV, .vendor_err = UROCE_ERROR_MESSAGE_LOST};

	if (qp->bind.srq != NULL && qp->conn.rcv.cur.taken)
		qp_complete_recv(env, qp, QP_WC_REM_ABORT_ERR, &cqe);
}

/*
 * A request of UC. A gap or an unexpected packet ends the current message; the next
 * packet that starts a message is accepted (RSP-06).
 */
static void
rsp_unreliable_rx(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt)
{
	struct qp_rcv *rcv = &qp->conn.rcv;
	bool first = (pkt->op->flags & WIRE_F_FIRST) != 0;
	uint32_t next = psn_add(pkt->psn, 1);

	if (rcv->msg != QP_MSG_NONE && (first || pkt->psn != rcv->epsn)) {
		env->counters->ctr[COUNTER_RSP_MSG_LOST]++;
		qp_msg_end(rcv);
		if (!first || !(pkt->op->flags & WIRE_F_SEND))
			abort_shared(env, qp);
	}
	if (unlikely(pkt->psn != rcv->epsn))
		qp_record(env, qp, QP_RECORD_EARLY, 0, pkt->psn, 1);
	rcv->epsn = pkt->psn;
	if (first || rcv->msg != QP_MSG_NONE)
		rsp_execute(env, qp, pkt);
	else
		qp_env_drop(env, DROP_MSG_ABORTED);
	if (env->dropped == DROP_MEMORY_LATE)
		return; /* it is tried again, or is lost: rsp_rx_lost */
	/* Not executed: its message is aborted. */
	if (rcv->epsn != next)
		qp_msg_end(rcv);
	rcv->epsn = next;
	if (rcv->msg == QP_MSG_NONE)
		abort_shared(env, qp);
}

void
rsp_rx_lost(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt)
{
	struct qp_rcv *rcv = &qp->conn.rcv;

	if (qp->conn.type == QP_TYPE_RC)
		rsp_late_nak(env, qp, pkt->psn);
	else
		mem_late_forget(&env->late_ops, &qp->bind.late_op.op);
	if (qp->conn.type != QP_TYPE_UC)
		return;
	/* With it, the rest of its message is lost (RSP-06). */
	qp_msg_end(rcv);
	rcv->epsn = psn_add(pkt->psn, 1);
	abort_shared(env, qp);
}

void
rsp_invalid(struct qp_env *env, struct qp *qp, enum uroce_error why, const struct wire_pkt *pkt)
{
	if (qp->conn.type == QP_TYPE_UC) {
		rsp_note(env, qp, why, pkt);
		return;
	}
	rsp_fault(env, qp, why, pkt);
	rsp_nak_fatal(env, qp, WIRE_NAK_INV_REQ, QP_WC_REM_INV_REQ_ERR, QP_EVENT_QP_REQ_ERR);
}

static enum rx_step
invalid_request(struct qp_env *env, struct qp *qp, enum uroce_error why, const struct wire_pkt *pkt)
{
	rsp_invalid(env, qp, why, pkt);
	return RX_DONE;
}

static enum rx_step
check_sequence(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt, uint32_t flags)
{
	uint8_t msg = QP_MSG_NONE;

	if (!(flags & WIRE_F_FIRST))
		msg = flags & WIRE_F_SEND ? QP_MSG_SEND : QP_MSG_WRITE;
	if (unlikely(qp->conn.rcv.msg != msg))
		return invalid_request(env, qp, UROCE_ERROR_OPCODE_SEQUENCE, pkt);
	return RX_CHECK_LENGTH;
}

static enum rx_step
check_length(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt, uint32_t flags)
{
	if (!(flags & WIRE_F_PAYLOAD))
		return RX_CHECK_ENABLED;
	if (!(flags & WIRE_F_LAST) ? pkt->payload_len != qp->conn.mtu || pkt->pad_len != 0
				   : pkt->payload_len > qp->conn.mtu)
		return invalid_request(env, qp, UROCE_ERROR_PATH_MTU, pkt);
	if ((flags & WIRE_F_LAST) && !(flags & WIRE_F_FIRST) && pkt->payload_len == 0)
		return invalid_request(env, qp, UROCE_ERROR_EMPTY_PACKET, pkt);
	return RX_CHECK_ENABLED;
}

static enum rx_step
check_enabled(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt, uint32_t flags)
{
	if (flags & WIRE_F_SEND)
		return flags & WIRE_F_FIRST ? RX_TAKE_WQE : RX_CHECK_TARGET;
	if ((flags & WIRE_F_WRITE) && (qp->conn.access & MEM_REMOTE_WRITE))
		return RX_CHECK_TARGET;
	if ((flags & WIRE_F_READ) && (qp->conn.access & MEM_REMOTE_READ)) {
		rsp_read_new(env, qp, pkt);
		return RX_DONE;
	}
	if ((flags & WIRE_F_ATOMIC) && (qp->conn.access & MEM_REMOTE_ATOMIC)) {
		rsp_atomic_new(env, qp, pkt);
		return RX_DONE;
	}
	return invalid_request(env, qp, UROCE_ERROR_QP_ACCESS, pkt);
}

/* Takes the receive WQE that this message needs (RSP-05). */
static enum rx_step
take_wqe(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt, uint32_t flags)
{
	int rc = 0;

	/* UC reuses the WQE of a message that lost a packet (RSP-06). */
	if (!qp->conn.rcv.cur.taken)
		rc = qp_take_recv(env, qp);
	if (rc == -EAGAIN) {
		rsp_note(env, qp, UROCE_ERROR_NO_RECV, pkt);
		if (qp->conn.type == QP_TYPE_RC)
			rsp_nak_rnr(env, qp);
		else
			qp_env_drop(env, DROP_NO_RECV_WQE);
		return RX_DONE;
	}
	if (rc == -EPROTO)
		return RX_DONE;
	if (rc != 0) {
		rsp_fault(env, qp, UROCE_ERROR_RECV_SGES, pkt);
		rsp_nak_fatal(env, qp, WIRE_NAK_REM_OP, QP_WC_LOC_QP_OP_ERR, QP_EVENT_QP_FATAL);
		return RX_DONE;
	}
	return flags & WIRE_F_SEND ? RX_CHECK_TARGET : RX_EXECUTE;
}

/* Target of the payload if it is in one region. The lookup is valid for this packet only. */
struct rx_target {
	struct mr *mr;
	uint64_t addr;
};

static enum rx_step
check_send_target(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt,
		  struct rx_target *to)
{
	struct qp_rcv *rcv = &qp->conn.rcv;
	const struct uroce_sge *sge = qp->recv_sge;
	uint32_t off = rcv->msg_off;

	if (pkt->payload_len > rcv->cur.length - off) {
		rsp_fault(env, qp, UROCE_ERROR_RECV_TOO_SMALL, pkt);
		rsp_nak_fatal(env, qp, WIRE_NAK_INV_REQ, QP_WC_LOC_LEN_ERR, QP_EVENT_QP_REQ_ERR);
		return RX_DONE;
	}
	if (pkt->payload_len != 0 && off < sge->length && pkt->payload_len <= sge->length - off) {
		to->addr = sge->addr + off;
		to->mr = mr_lookup(env->mrs, sge->lkey, qp->bind.recv_pd, to->addr,
				   pkt->payload_len, MEM_LOCAL_WRITE);
	}
	if (to->mr == NULL && !rsp_recv_keys_good(env, qp, off, pkt->payload_len)) {
		rsp_fault_recv(env, qp, pkt, off, pkt->payload_len);
		rsp_nak_fatal(env, qp, WIRE_NAK_REM_OP, QP_WC_LOC_PROT_ERR, QP_EVENT_QP_FATAL);
		return RX_DONE;
	}
	return RX_EXECUTE;
}

/*
 * The R_Key of a WRITE gives no access. Returns true if pkt is not to be executed: it fails, or may
 * have been written by an attempt that was late and has not ended. False: it was.
 */
static __rte_noinline bool
write_refused(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt, uint32_t rkey)
{
	uint32_t flags = pkt->op->flags;

	switch (rsp_late_state(qp, rkey, false, pkt->payload_len)) {
	case MEM_LATE_DONE:
		return false;
	case MEM_LATE_PENDING:
		rsp_memory_late(env, qp);
		return true;
	case MEM_LATE_NONE:
		break;
	}
	if (rsp_key_guessed(env, qp, rkey))
		return true;
	/* A WRITE with immediate fails with the receive WQE that it would have used. */
	if ((flags & WIRE_F_IMM) && !qp->conn.rcv.cur.taken && qp_take_recv(env, qp) == -EPROTO)
		return true;
	rsp_fault_rkey(env, qp, pkt, MEM_REMOTE_WRITE);
	rsp_nak_fatal(env, qp, WIRE_NAK_REM_ACCESS,
		      flags & WIRE_F_RWQE ? QP_WC_LOC_ACCESS_ERR : QP_WC_SUCCESS,
		      QP_EVENT_QP_ACCESS_ERR);
	return true;
}

/* Looks up the R_Key for the rest of the message; repeated for each packet that is not written. */
static enum rx_step
check_target(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt, uint32_t flags,
	     struct rx_target *to)
{
	struct qp_rcv *rcv = &qp->conn.rcv;
	bool first = (flags & WIRE_F_FIRST) != 0;
	uint64_t va = first ? pkt->va : rcv->write_va;
	uint32_t left = first ? pkt->dmalen : rcv->write_left;
	uint32_t rkey = first ? pkt->rkey : rcv->write_rkey;

	if (flags & WIRE_F_SEND)
		return check_send_target(env, qp, pkt, to);
	if (left > QP_MAX_MSG_BYTES || pkt->payload_len > left ||
	    ((flags & WIRE_F_LAST) && pkt->payload_len != left))
		return invalid_request(env, qp, UROCE_ERROR_RETH_LENGTH, pkt);
	to->addr = va;
	if (left != 0)
		to->mr = mr_lookup_remote(env->mrs, rkey, qp->bind.pd, qp->conn.qpn, va, left,
					  MEM_REMOTE_WRITE, &env->window);
	if (left != 0 && to->mr == NULL && !rsp_written_ahead(qp) &&
	    write_refused(env, qp, pkt, rkey))
		return RX_DONE;
	return flags & WIRE_F_IMM ? RX_TAKE_WQE : RX_EXECUTE;
}

/* Advances the target of a WRITE past pkt, which is not its last packet. */
static inline void
write_advance(struct qp_rcv *rcv, const struct wire_pkt *pkt, uint32_t flags)
{
	if (flags & WIRE_F_FIRST) {
		rcv->write_va = pkt->va;
		rcv->write_rkey = pkt->rkey;
		rcv->write_left = pkt->dmalen;
	}
	rcv->write_va += pkt->payload_len;
	rcv->write_left -= pkt->payload_len;
}

/* Writes a WRITE's payload to memory that is accessed by ops; it must not be written twice. */
static int
write_once(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt,
	   const struct rx_target *to)
{
	bool first = (pkt->op->flags & WIRE_F_FIRST) != 0;
	uint32_t rkey = first ? pkt->rkey : qp->conn.rcv.write_rkey;
	const struct mr *mr = to->mr;
	int rc;

	if (pkt->payload_len == 0)
		return 0;
	rc = rsp_late_take(qp, rkey, false, pkt->payload_len, NULL);
	if (rc <= 0)
		return rc;
	if (mr == NULL)
		return 0; /* the last packet of a run (rsp_written_ahead, check_target) */
	if (qp->conn.type == QP_TYPE_RC)
		return rsp_write_run(env, qp, pkt, mr, to->addr, rkey);
	rc = mr->ops->write(mr->ops_ctx, mr->va + (to->addr - mr->iova), pkt->payload,
			    pkt->payload_len, rsp_late_new(env, qp));
	if (rc == -EAGAIN)
		rsp_late_note(env, qp, mr, rkey, false, pkt->payload_len, 1);
	return rc;
}

/*
 * Writes payload to memory that is not mapped or not contiguous. Returns false if that failed,
 * after handling the failure.
 */
static __rte_noinline bool
write_slowly(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt, uint32_t off,
	     const struct rx_target *to)
{
	uint32_t flags = pkt->op->flags;
	bool in_runs = qp->conn.type == QP_TYPE_RC;
	int rc = 0;

	if (in_runs && (flags & (WIRE_F_FIRST | WIRE_F_SEND)) == (WIRE_F_FIRST | WIRE_F_SEND)) {
		if (rsp_send_prewritten(env, qp, to->mr, to->addr))
			return true;
	} else if (in_runs && rsp_written_ahead(qp)) {
		return true;
	}
	if (flags & WIRE_F_SEND)
		rc = in_runs ? rsp_send_write(env, qp, pkt, off)
			     : rsp_recv_write(env, qp, pkt->payload, off, pkt->payload_len);
	else
		rc = write_once(env, qp, pkt, to);
	if (rc == 0)
		return true;
	if (rc == -EAGAIN) {
		rsp_memory_late(env, qp);
	} else if (!rsp_client_gone(env, qp, rc)) {
		rsp_fault(env, qp, UROCE_ERROR_MEMORY_GONE, pkt);
		rsp_nak_fatal(env, qp, WIRE_NAK_REM_OP,
			      flags & WIRE_F_RWQE ? QP_WC_LOC_PROT_ERR : QP_WC_SUCCESS,
			      QP_EVENT_QP_FATAL);
	}
	return false;
}

static enum rx_step
execute(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt, uint32_t flags,
	const struct rx_target *to)
{
	struct qp_rcv *rcv = &qp->conn.rcv;
	bool send = (flags & WIRE_F_SEND) != 0;

	if (likely(to->mr != NULL) && likely(to->mr->host != NULL)) {
		rcv->msg_off += mr_store_of(to->mr, to->addr, pkt->payload, &pkt->payload_len);
	} else {
		if (!write_slowly(env, qp, pkt, rcv->msg_off, to))
			return RX_DONE;
		rcv->msg_off += pkt->payload_len;
	}
	if (!send && !(flags & WIRE_F_LAST))
		write_advance(rcv, pkt, flags);
	return flags & WIRE_F_IETH ? RX_INVALIDATE : RX_COMPLETE;
}

/* SEND with invalidate: the window must be this QP's; invalidate it before completing (MEM-04). */
static enum rx_step
invalidate(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt)
{
	if (mw_invalidate(env->mrs, pkt->inv_rkey, qp->bind.pd, qp->conn.qpn))
		return RX_COMPLETE;
	/* Its payload was written, so it always gets a response. */
	rsp_fault(env, qp,
		  mw_explain_invalidate(env->mrs, pkt->inv_rkey, qp->bind.pd, qp->conn.qpn), pkt);
	rsp_key_count(env, qp, pkt->inv_rkey);
	rsp_nak_fatal(env, qp, WIRE_NAK_REM_ACCESS, QP_WC_LOC_ACCESS_ERR, QP_EVENT_QP_ACCESS_ERR);
	return RX_DONE;
}

static enum rx_step
complete(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt, uint32_t flags)
{
	struct qp_rcv *rcv = &qp->conn.rcv;
	uint32_t bytes = rcv->msg_off;

	qp_got(env, qp, flags);
	rcv->epsn = psn_add(rcv->epsn, 1);
	if (flags & WIRE_F_LAST) {
		qp_msg_end(rcv);
		rcv->msn = (rcv->msn + 1) & WIRE_PSN_MASK;
	} else {
		rcv->msg = flags & WIRE_F_SEND ? QP_MSG_SEND : QP_MSG_WRITE;
	}
	if ((flags & WIRE_F_LAST) && (flags & WIRE_F_RWQE)) {
		struct uroce_cqe cqe = {
			.opcode =
				flags & WIRE_F_SEND ? UROCE_CQE_RECV : UROCE_CQE_RECV_RDMA_WITH_IMM,
			.flags = (flags & WIRE_F_IMM ? UROCE_CQE_WITH_IMM : 0) |
				 (flags & WIRE_F_IETH ? UROCE_CQE_WITH_INV : 0) |
				 (pkt->solicited ? UROCE_CQE_SOLICITED : 0),
			.byte_len = bytes,
			.imm = flags & WIRE_F_IMM    ? pkt->imm
			       : flags & WIRE_F_IETH ? pkt->inv_rkey
						     : 0,
			.pkey_index = qp->conn.pkey_index,
		};

		qp_complete_recv(env, qp, QP_WC_SUCCESS, &cqe);
	}
	if (pkt->ackreq && qp->conn.type == QP_TYPE_RC)
		rsp_ack(qp, pkt->psn);
	return RX_DONE;
}

void
rsp_execute(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt)
{
	struct rx_target to = {.mr = NULL};
	uint32_t flags = pkt->op->flags;
	enum rx_step step = RX_CHECK_SEQUENCE;

	while (step != RX_DONE) {
		switch (step) {
		case RX_CHECK_SEQUENCE:
			step = check_sequence(env, qp, pkt, flags);
			break;
		case RX_CHECK_LENGTH:
			step = check_length(env, qp, pkt, flags);
			break;
		case RX_CHECK_ENABLED:
			step = check_enabled(env, qp, pkt, flags);
			break;
		case RX_CHECK_TARGET:
			step = check_target(env, qp, pkt, flags, &to);
			break;
		case RX_TAKE_WQE:
			step = take_wqe(env, qp, pkt, flags);
			break;
		case RX_EXECUTE:
			step = execute(env, qp, pkt, flags, &to);
			break;
		case RX_INVALIDATE:
			step = invalidate(env, qp, pkt);
			break;
		case RX_COMPLETE:
			step = complete(env, qp, pkt, flags);
			break;
		case RX_DONE:
			break;
		}
	}
}

void
rsp_duplicate(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt)
{
	env->counters->ctr[COUNTER_RSP_DUP]++;
	qp_record(env, qp, QP_RECORD_DUPLICATE, 0, pkt->psn, 1);
	if (pkt->op->flags & (WIRE_F_SEND | WIRE_F_WRITE))
		rsp_ack(qp, psn_add(qp->conn.rcv.epsn, WIRE_PSN_MASK)); /* all executed requests */
	else if (pkt->op->flags & WIRE_F_READ)
		rsp_read_dup(env, qp, pkt);
	else
		rsp_atomic_dup(env, qp, pkt);
}

/* QP-13: raised by the first request in RTR, of any kind. */
static void
comm_est(struct qp_env *env, struct qp *qp)
{
	if (qp->conn.state != QP_RTR || qp->conn.rcv.comm_est)
		return;
	qp->conn.rcv.comm_est = true;
	env->ops->async_event(env->ops_ctx, QP_EVENT_COMM_EST, qp, NULL);
}

/* Are requests refused because the QP is about to fail or its peer tried too many keys? */
static bool
rx_stopped(struct qp_env *env, struct qp *qp)
{
	if (qp->conn.rcv.fatal) {
		qp_env_drop(env, DROP_QP_STATE);
		return true;
	}
	if (env->now_ns < qp->conn.wrong_keys.until_ns) {
		qp_env_drop(env, DROP_KEY_PAUSE);
		return true;
	}
	qp->conn.rcv.key_pause = false;
	return false;
}

void
rsp_rx(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt, struct rte_mbuf *m)
{
	struct qp_rcv *rcv = &qp->conn.rcv;

	if (unlikely(rcv->fatal || rcv->key_pause) && rx_stopped(env, qp))
		return;
	comm_est(env, qp);
	if (qp->conn.type == QP_TYPE_UC) {
		rsp_unreliable_rx(env, qp, pkt);
		return;
	}
	rsp_order_rx(env, qp, pkt, m);
	qp_wake(env, qp);
}

void
rsp_rx_late(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt)
{
	struct qp_rcv *rcv = &qp->conn.rcv;

	if ((rcv->fatal || rcv->key_pause) && rx_stopped(env, qp))
		return;
	if (qp->conn.type == QP_TYPE_RC)
		rsp_order_late(env, qp, pkt);
	else
		rsp_unreliable_rx(env, qp, pkt);
}

void
rsp_rx_malformed(struct qp_env *env, struct qp *qp, const struct wire_pkt *pkt)
{
	struct qp_rcv *rcv = &qp->conn.rcv;

	if (rcv->fatal || rcv->key_pause)
		return;
	comm_est(env, qp);
	if (qp->conn.type == QP_TYPE_UC) {
		rsp_rx_lost(env, qp, pkt);
		return;
	}
	rsp_order_rx_malformed(env, qp, pkt);
	qp_wake(env, qp);
}
