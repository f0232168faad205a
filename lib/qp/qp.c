/* SPDX-License-Identifier: BSD-3-Clause */
/* Creating and freeing QPs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <rte_common.h>
#include <rte_malloc.h>
#include "qp/deadline.h"
#include "qp/env.h"
#include "qp/lines.h"
#include "qp/qp.h"
#include "qp/recorder.h"
#include "qp/srq.h"
#include "qp/view.h"

int
qp_cap_grant(const struct uroce_qp_cap *want, struct uroce_qp_cap *grant)
{
	uint32_t room;

	if (want->max_send_wr > QP_MAX_WR || want->max_recv_wr > QP_MAX_WR ||
	    want->max_send_sge > QP_MAX_SGE || want->max_recv_sge > QP_MAX_SGE ||
	    want->max_inline > QP_MAX_INLINE)
		return EINVAL;
	grant->max_send_wr = rte_align32pow2(RTE_MAX(want->max_send_wr, 1u));
	grant->max_recv_wr = rte_align32pow2(RTE_MAX(want->max_recv_wr, 1u));
	grant->max_send_sge = RTE_MAX(want->max_send_sge, 1u);
	grant->max_recv_sge = RTE_MAX(want->max_recv_sge, 1u);
	/* Grant the rest of the stride as inline data. */
	room = uroce_sq_stride(grant->max_send_sge, want->max_inline) - UROCE_SEND_WQE_HDR;
	grant->max_inline = RTE_MIN(room, (uint32_t)QP_MAX_INLINE);
	return 0;
}

_Static_assert(__alignof__(struct qp) <= QP_LINE_BYTES, "qp_lines_zalloc aligns it");

/* Allocates zeroed memory for a QP. huge: as in struct qp_create. */
static struct qp *
qp_mem(size_t bytes, bool huge)
{
	struct qp *qp = NULL;

	if (huge)
		qp = rte_zmalloc("qp", bytes, __alignof__(struct qp));
	if (qp != NULL) {
		qp->bind.in_eal = true;
		return qp;
	}
	return qp_lines_zalloc(bytes);
}

/* Not in huge pages: only events that are rare use it. */
static struct qp_recorder *
recorder_make(void)
{
	return qp_lines_zalloc(sizeof(struct qp_recorder));
}

struct qp *
qp_create(const struct qp_create *c)
{
	uint32_t max_sge = c->srq != NULL ? c->srq->rq.max_sge : c->rq.max_sge;
	size_t bytes = offsetof(struct qp, recv_sge) + max_sge * sizeof(struct uroce_sge);
	struct qp *qp = qp_mem(bytes, c->huge);

	if (qp == NULL)
		return NULL;
	qp->conn.qpn = c->qpn;
	qp->conn.type = c->type;
	qp->bind.pkeys = c->pkeys;
	qp->conn.pkey = qp_pkey_at(qp, 0);
	qp->conn.state = QP_RESET;
	qp->bind.port = c->port;
	qp->bind.worker = c->worker;
	qp->bind.fixed = c->fixed || c->type == QP_TYPE_UD || c->srq != NULL;
	qp->bind.pd = c->pd;
	qp->bind.run_user = qp_user_place(c->uid);
	qp->bind.recv_pd = c->srq != NULL ? c->srq->pd : c->pd;
	qp->bind.send_cq = c->send_cq;
	qp->bind.recv_cq = c->recv_cq;
	qp->conn.sig_all = c->sig_all;
	qp->bind.user_handle = c->user_handle;
	qp->conn.cap = c->cap;
	qp->bind.counters = c->counters;
	if (c->cc != NULL && c->type != QP_TYPE_UD)
		qp->bind.cc = *c->cc;
	qp->bind.plain = c->plain;
	qp->bind.srq = c->srq;
	qp->bind.ahs = c->ahs;
	/* UD uses the device's path MTU; connected types set theirs on the way to RTR. */
	qp->conn.dev_mtu = c->dev_mtu;
	qp->bind.sq = c->sq;
	qp->bind.rq = c->rq;
	qp->bind.recorder = recorder_make();
	if (qp->bind.recorder == NULL || qp_sqes_init(&qp->bind.sqes, &c->sq) != 0) {
		qp_free(qp);
		return NULL;
	}
	return qp;
}

void
qp_free(struct qp *qp)
{
	if (qp == NULL)
		return;
	qp_sqes_fini(&qp->bind.sqes);
	free(qp->bind.recorder);
	if (qp->bind.in_eal)
		rte_free(qp);
	else
		free(qp);
}

uint8_t
qp_mtu_code(uint32_t link_mtu)
{
	uint8_t code;

	for (code = 5; code > 0; code--) {
		if ((128u << code) + WIRE_IP_OVERHEAD <= link_mtu)
			return code;
	}
	return 0;
}

void
qp_deadline_clear_all(struct qp_conn *conn)
{
	conn->snd.probe_ns = 0;
	conn->snd.deadlines = 0;
	memset(conn->deadline_ns, 0, sizeof(conn->deadline_ns));
}

uint64_t
qp_deadline_earliest_set(const struct qp_conn *conn)
{
	uint64_t at_ns = UINT64_MAX;

	for (enum qp_deadline d = 0; d < QP_DEADLINES; d++) {
		if (d != QP_DEADLINE_PACE && qp_deadline_is_set(conn, d))
			at_ns = RTE_MIN(at_ns, qp_deadline_get(conn, d));
	}
	return at_ns == UINT64_MAX ? 0 : at_ns;
}

uint32_t
qp_deadline_passed(const struct qp_conn *conn, uint64_t now_ns)
{
	uint32_t passed = 0;

	for (enum qp_deadline d = 0; d < QP_DEADLINES; d++) {
		if (d != QP_DEADLINE_PACE && qp_deadline_is_set(conn, d) &&
		    qp_deadline_get(conn, d) <= now_ns)
			passed |= QP_DEADLINE_BIT(d);
	}
	return passed;
}

void
qp_env_count_error(struct qp_env *env, uint8_t opcode, uint8_t status)
{
	bool recv = opcode >= UROCE_CQE_RECV;
	uint64_t *ctr = env->counters->ctr;

	ctr[recv ? COUNTER_RSP_CQE_ERROR : COUNTER_REQ_CQE_ERROR]++;
	if (status == QP_WC_WR_FLUSH_ERR)
		ctr[recv ? COUNTER_RSP_CQE_FLUSH : COUNTER_REQ_CQE_FLUSH]++;
	else if (recv && status == QP_WC_LOC_LEN_ERR)
		ctr[COUNTER_RSP_LOCAL_LENGTH]++;
	else if (!recv && status == QP_WC_REM_ACCESS_ERR)
		ctr[COUNTER_REQ_REM_ACCESS]++;
	else if (!recv && status == QP_WC_REM_INV_REQ_ERR)
		ctr[COUNTER_REQ_REM_INVALID]++;
}

void
qp_env_dirty(struct qp_env *env, struct cq *cq, bool solicited)
{
	uint32_t i;

	for (i = env->dirty_n; i-- != 0;) {
		if (env->dirty[i].cq == cq) {
			env->dirty[i].solicited |= solicited;
			return;
		}
	}
	if (env->dirty_n == QP_ENV_MAX_DIRTY)
		qp_env_flush(env);
	env->dirty[env->dirty_n].cq = cq;
	env->dirty[env->dirty_n++].solicited = solicited;
}

void
qp_env_flush(struct qp_env *env)
{
	uint8_t served = env->serves;
	uint32_t i;

	if (env->dirty_n == 0)
		return;
	/* Partner: the client's fence between storing arm and polling once more. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	for (i = 0; i < env->dirty_n; i++) {
		qp_env_serve(env, env->dirty[i].cq->user);
		if (cq_take_arm(env->dirty[i].cq, env->dirty[i].solicited))
			env->ops->cq_event(env->ops_ctx, env->dirty[i].cq);
		if (cq_has_waiter(env->dirty[i].cq))
			env->ops->cq_waiter(env->ops_ctx, env->dirty[i].cq);
	}
	qp_env_serve(env, served);
	env->dirty_n = 0;
}

void
qp_view_own(struct rte_mbuf *m)
{
	uint8_t *end = rte_pktmbuf_mtod_offset(m, uint8_t *, m->data_len);
	uint32_t rest = m->pkt_len - m->data_len;
	struct qp_view v;

	if (!qp_view_is(m))
		return;
	v = qp_view_get(m);
	memcpy(end, v.payload, v.len);
	memset(end + v.len, 0, rest - v.len);
	m->data_len = (uint16_t)m->pkt_len;
}

bool
srq_look(const struct srq *srq, uint32_t *head, uint32_t *prod)
{
	*head = srq->head;
	*prod = __atomic_load_n(&srq->rq.hdr->prod, __ATOMIC_ACQUIRE);
	return !srq->dead && *prod - *head <= srq->rq.mask + 1;
}

void
srq_copy(const struct srq *srq, const struct qp_ring *to, uint32_t head, uint32_t prod)
{
	const struct qp_ring *from = &srq->rq;

	for (; head != prod; head++)
		memcpy(to->slots + (size_t)(head & to->mask) * to->stride,
		       from->slots + (size_t)(head & from->mask) * from->stride, to->stride);
}

void
srq_switch(struct srq *srq, const struct qp_ring *to, uint32_t prod)
{
	__atomic_store_n(&to->hdr->cons, srq->head, __ATOMIC_RELEASE);
	__atomic_store_n(&to->hdr->prod, prod, __ATOMIC_RELEASE);
	srq->rq = *to;
}
