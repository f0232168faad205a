/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>
#include <rte_common.h>
#include "qp/fault.h"
#include "qp/qp.h"
#include "qp/recorder.h"
#include "wire/psn.h"

static void
put(struct qp_recorder *r, uint64_t at_ns, enum qp_record_kind kind, uint32_t args, uint32_t psn,
    uint32_t n)
{
	uint32_t i = r->count;

	/* Partner: qp_recorder_copy. A thread that sees a part of this record sees the last count.
	 */
	__atomic_thread_fence(__ATOMIC_RELEASE);
	r->record[QP_RECORDER ? i % QP_RECORDS : 0] = (struct qp_record){
		.at = at_ns / QP_RECORD_TICK_NS,
		.kind = kind,
		.arg = (uint8_t)args,
		.arg2 = (uint8_t)(args >> 8),
		.psn = psn & WIRE_PSN_MASK,
		.n = n,
	};
	/* Partner: qp_recorder_copy. */
	__atomic_store_n(&r->count, i + 1, __ATOMIC_RELEASE);
}

/* Records the runs of packets since the last record. */
static void
put_runs(struct qp *qp, uint64_t now_ns)
{
	struct qp_recorder *r = qp->bind.recorder;
	struct qp_conn *c = &qp->conn;

	if (c->got_ops != 0) {
		uint32_t n = (uint32_t)psn_diff(c->rcv.epsn, r->got_psn) & WIRE_PSN_MASK;

		if (n != 0)
			put(r, r->got_ns, QP_RECORD_GOT, c->got_ops, r->got_psn, n);
		c->got_ops = 0;
	}
	if (!c->rcv.ack_due && c->rcv.ack_psn != r->ack_psn) {
		r->ack_psn = c->rcv.ack_psn;
		put(r, now_ns, QP_RECORD_ANSWERED, 0, r->ack_psn, 1);
	}
	if (c->sent_ops != 0) {
		uint32_t n = (uint32_t)psn_diff(c->snd.next_psn, r->sent_psn) & WIRE_PSN_MASK;

		if (n != 0)
			put(r, r->sent_ns, r->sent_again ? QP_RECORD_SENT_AGAIN : QP_RECORD_SENT,
			    c->sent_ops, r->sent_psn, n);
		c->sent_ops = 0;
	}
	/* UC and UD get no responses. */
	if (c->type == QP_TYPE_RC && c->snd.una_psn != r->una_psn)
		put(r, now_ns, QP_RECORD_ACKED, 0, psn_add(c->snd.una_psn, WIRE_PSN_MASK),
		    (uint32_t)psn_diff(c->snd.una_psn, r->una_psn) & WIRE_PSN_MASK);
	r->una_psn = c->snd.una_psn;
}

/* Events that often come many times, of which the first PSN and the number say enough. */
static bool
counted(enum qp_record_kind kind)
{
	return kind == QP_RECORD_DUPLICATE || kind == QP_RECORD_EARLY || kind == QP_RECORD_PROBE ||
	       kind == QP_RECORD_LATE || kind == QP_RECORD_AGAIN;
}

void
qp_recorder_cut(const struct qp_env *env, struct qp *qp)
{
	if (QP_RECORDER && qp->bind.recorder != NULL)
		put_runs(qp, env->now_ns);
}

void
qp_recorder_continue(const struct qp_env *env, struct qp *qp)
{
	const struct qp_snd *snd = &qp->conn.snd;
	uint32_t opcode;

	if (!QP_RECORDER || snd->cur == snd->head || qp->conn.sent_ops != 0)
		return;
	opcode = qp_sq_entry(qp, snd->cur)->wqe.opcode;
	qp_sent_begin(env, qp);
	qp->conn.sent_ops = (uint16_t)(1u << (opcode & 31));
}

static __rte_noinline void
record_new(struct qp_env *env, struct qp *qp, enum qp_record_kind kind, uint32_t arg, uint32_t psn,
	   uint32_t n)
{
	struct qp_recorder *r = qp->bind.recorder;
	struct qp_record *last;

	put_runs(qp, env->now_ns);
	last = &r->record[(r->count - 1) % QP_RECORDS];
	if (kind == QP_RECORD_REFUSED && r->count != 0 && last->kind == kind && last->n == n)
		return; /* the same again: a stranger may cause it at will */
	if (counted(kind) && r->count != 0 && last->kind == kind)
		last->n += n;
	else
		put(r, env->now_ns, kind, arg, psn, n);
	qp_recorder_continue(env, qp);
}

void
qp_record(struct qp_env *env, struct qp *qp, enum qp_record_kind kind, uint32_t arg, uint32_t psn,
	  uint32_t n)
{
	struct qp_recorder *r = qp->bind.recorder;
	struct qp_record *last;

	if (!QP_RECORDER || r == NULL)
		return;
	last = &r->record[(r->count - 1) % QP_RECORDS];
	/* Behind a gap most packets are early: they continue one record. */
	if (counted(kind) && last->kind == kind && qp->conn.got_ops == 0 && qp->conn.sent_ops == 0)
		last->n += n;
	else
		record_new(env, qp, kind, arg, psn, n);
}

void
qp_recorder_sync(struct qp *qp)
{
	struct qp_recorder *r = qp->bind.recorder;

	if (r == NULL)
		return;
	r->sent_psn = qp->conn.snd.next_psn;
	r->una_psn = qp->conn.snd.una_psn;
	r->got_psn = qp->conn.rcv.epsn;
	r->ack_psn = qp->conn.rcv.ack_psn;
}

void
qp_recorder_close(struct qp *qp, uint64_t now_ns)
{
	if (QP_RECORDER && qp->bind.recorder != NULL)
		put_runs(qp, now_ns);
}

void
qp_sent_begin(const struct qp_env *env, struct qp *qp)
{
	struct qp_recorder *r = qp->bind.recorder;

	if (r == NULL)
		return;
	r->sent_psn = qp->conn.snd.next_psn;
	r->sent_ns = env->now_ns;
	r->sent_again = psn_lt(qp->conn.snd.next_psn, qp->conn.snd.high_psn);
}

void
qp_got_begin(const struct qp_env *env, struct qp *qp)
{
	struct qp_recorder *r = qp->bind.recorder;

	if (r == NULL)
		return;
	r->got_psn = qp->conn.rcv.epsn;
	r->got_ns = env->now_ns;
}

/* Each word is right by itself. Told to ThreadSanitizer, because the worker's writes are plain. */
static __attribute__((no_sanitize_thread, noinline)) void
copy_words(uint64_t *to, const uint64_t *from, size_t words)
{
	for (size_t i = 0; i < words; i++)
		to[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
}

void
qp_recorder_copy(struct qp_recorder *to, const struct qp_recorder *from)
{
	_Static_assert(sizeof(*to) % sizeof(uint64_t) == 0, "whole words");
	for (int i = 0; i < 3; i++) {
		uint32_t count = __atomic_load_n(&from->count, __ATOMIC_ACQUIRE);

		copy_words((uint64_t *)(void *)to, (const uint64_t *)(const void *)from,
			   sizeof(*to) / sizeof(uint64_t));
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (__atomic_load_n(&from->count, __ATOMIC_RELAXED) == count)
			return;
	}
}

/* Stores f as the QP's last fault. */
static void
keep(const struct qp_env *env, struct qp *qp, const struct qp_fault *f, bool fatal)
{
	struct qp_fault *to = &qp->bind.recorder->fault;

	*to = *f;
	to->at_ns = env->now_ns;
	to->fatal = fatal;
	if (qp->conn.type == QP_TYPE_UD)
		return; /* each datagram has another peer */
	to->peer_qpn = qp->conn.dest_qpn;
	memcpy(to->peer, qp->conn.dgid, sizeof(to->peer));
}

void
qp_fault_set(struct qp_env *env, struct qp *qp, const struct qp_fault *f)
{
	if (qp->conn.state == QP_ERR || qp->conn.rcv.fatal)
		return;
	qp->conn.why = f->reason;
	if (qp->bind.recorder == NULL)
		return;
	keep(env, qp, f, true);
	qp_record(env, qp, QP_RECORD_FAILED, f->side, f->psn, f->reason);
	env->ops->failed(env->ops_ctx, qp);
}

void
qp_fault_note(struct qp_env *env, struct qp *qp, const struct qp_fault *f)
{
	if (qp->bind.recorder == NULL || qp->conn.why != 0)
		return;
	keep(env, qp, f, false);
	qp_record(env, qp, QP_RECORD_REFUSED, f->side, f->psn, f->reason);
}
