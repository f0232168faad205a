/* SPDX-License-Identifier: BSD-3-Clause */
#include "requester/requester.h"
#include "responder/responder.h"
#include <rte_common.h>
#include "engine/rx.h"
#include "engine/turn.h"

void
engine_wake(struct engine *e, struct qp *qp)
{
	run_list_ready(&e->run, qp);
}

uint64_t
engine_next_ns(const struct engine *e)
{
	uint64_t ns = run_list_next_ns(&e->run);

	return e->late.n != 0 ? RTE_MIN(ns, e->late.next_ns) : ns;
}

/* Returns true if qp, once it has sent its ACK, has nothing to do in a turn. */
static bool
has_no_more(const struct qp *qp)
{
	const struct qp_snd *snd = &qp->conn.snd;

	return qp->conn.state == QP_RTR ||
	       (qp->conn.state == QP_RTS && qp->bind.armed && snd->cur == snd->head);
}

void
turn_set_timer(struct engine *e, struct qp *qp)
{
	uint64_t at_ns = qp_deadline_earliest(&qp->conn);

	if (at_ns != 0 && (qp->bind.timer_at_ns == 0 || at_ns < qp->bind.timer_at_ns))
		e->ops->set_timer(e->ops_ctx, qp, at_ns);
}

void
turn_answers(struct engine *e)
{
	uint32_t i, before;

	for (i = 0; i < e->ack_pending_n && e->env.tx_n < e->env.tx_cap / 2; i++) {
		struct qp *qp = e->ack_pending[i];

		if (!qp->bind.on_run_list || qp->conn.state == QP_ERR || qp->conn.rcv.rdq_n != 0)
			continue;
		turn_begin(e, qp);
		before = e->env.tx_bytes;
		if (rsp_run(&e->env, qp, ENGINE_QUANTUM) == RSP_IDLE && has_no_more(qp))
			run_list_take(&e->run, qp);
		turn_count(e, qp, before);
	}
	e->ack_pending_n = 0;
}

void
engine_last_ack(struct engine *e, uint64_t now_ns, struct qp *qp)
{
	uint32_t before = e->env.tx_bytes;

	/* Behind READ responses the requester retries: their memory may be gone. */
	if (!qp->conn.rcv.ack_due || qp->conn.rcv.rdq_n != 0)
		return;
	e->env.now_ns = now_ns;
	turn_begin(e, qp);
	rsp_run(&e->env, qp, ENGINE_QUANTUM);
	turn_count(e, qp, before);
	qp_env_flush(&e->env);
}

void
engine_last_turn(struct engine *e, uint64_t now_ns, struct qp *qp)
{
	uint32_t before, bytes = e->env.tx_bytes;

	if (qp->conn.type == QP_TYPE_RC)
		engine_last_ack(e, now_ns, qp);
	if (qp->conn.type == QP_TYPE_RC || qp->conn.state != QP_RTS)
		return;
	e->env.now_ns = now_ns;
	turn_begin(e, qp);
	qp->bind.armed = false; /* its doorbell may not have been read yet */
	e->env.work = ENGINE_WORK;
	/* as many turns as necessary */
	do {
		before = e->env.tx_n;
	} while (req_run(&e->env, qp, e->env.tx_cap) == REQ_MORE && e->env.tx_n != before);
	turn_count(e, qp, bytes);
	qp_env_flush(&e->env);
}

void
engine_forget(struct engine *e, struct qp *qp)
{
	uint32_t i;

	for (i = 0; i < e->ack_pending_n; i++) {
		if (e->ack_pending[i] == qp)
			e->ack_pending[i--] = e->ack_pending[--e->ack_pending_n];
	}
	notify_forget(e, qp);
	run_list_forget(&e->run, qp);
	rx_late_forget(e, qp);
	mem_late_forget(&e->env.late_ops, &qp->bind.late_op.op);
	qp_sqes_drop(&qp->bind.sqes, e->env.sqes);
	qp_ahead_forget_qp(&e->ahead, qp);
	qp_sr_drop(e->env.sr, qp);
}

const char *
engine_may_give(const struct qp *qp)
{
	if (qp->bind.fixed)
		return "a UD QP, a QP with an SRQ, or one of an older client stays where it is";
	if (qp->conn.state == QP_ERR)
		return "it has failed";
	if (qp->bind.late_req.n != 0 || qp->bind.late_resp.n != 0 ||
	    qp->bind.late_op.op.state != MEM_LATE_NONE)
		return "memory that it uses is late";
	if (!qp_sr_is_idle(qp))
		return "packets were lost and are sent again";
	return NULL;
}

/* More than one worker completes to cq from now on. */
static void
share(struct cq *cq)
{
	__atomic_store_n(&cq->multi, true, __ATOMIC_RELAXED);
}

void
engine_leave(struct engine *e, uint32_t qpn, uint32_t to)
{
	e->leaving_qpn = qpn;
	if (qpn != 0)
		qp_table_own(e->qps, qpn, QP_TABLE_COMES | to);
}

void
engine_give(struct engine *e, struct qp *qp, void *wqes)
{
	const struct qp_snd *snd = &qp->conn.snd;

	share(qp->bind.send_cq);
	share(qp->bind.recv_cq);
	qp_sqes_save(&qp->bind.sqes, snd->tail, snd->head, wqes);
	engine_forget(e, qp);
	e->leaving_qpn = 0;
}

bool
engine_take(struct engine *e, struct qp *qp, const void *wqes, struct counter_block *counters)
{
	const struct qp_snd *snd = &qp->conn.snd;

	if (!qp_sqes_load(&qp->bind.sqes, e->env.sqes, snd->tail, snd->head, wqes))
		return false;
	qp->bind.counters = counters;
	qp->bind.timer_at_ns = 0;
	qp->bind.armed = false; /* a doorbell may be on its way to the other worker */
	__atomic_store_n(&qp->bind.sq.hdr->worker, e->worker, __ATOMIC_RELAXED);
	/* A client that finds the queue armed by this worker rings here. Partner: its exchange. */
	__atomic_thread_fence(__ATOMIC_RELEASE);
	qp_table_own(e->qps, qp->conn.qpn, e->worker);
	engine_wake(e, qp);
	return true;
}
