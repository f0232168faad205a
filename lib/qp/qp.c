/* SPDX-License-Identifier: BSD-3-Clause */
/* Creating and freeing QPs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <rte_common.h>
#include <rte_malloc.h>
#include "qp/qp.h"
#include "qp/recorder.h"

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

/* Allocates zeroed memory for a QP. huge: as in struct qp_create. */
static struct qp *
qp_mem(size_t bytes, bool huge)
{
	struct qp *qp = NULL;
	void *mem;

	if (huge)
		qp = rte_zmalloc("qp", bytes, __alignof__(struct qp));
	if (qp != NULL) {
		qp->bind.in_eal = true;
		return qp;
	}
	if (posix_memalign(&mem, __alignof__(struct qp), bytes) != 0)
		return NULL;
	return memset(mem, 0, bytes);
}

/* Not in huge pages: only events that are rare use it. */
static struct qp_recorder *
recorder_make(void)
{
	void *mem;

	if (posix_memalign(&mem, 64, sizeof(struct qp_recorder)) != 0)
		return NULL;
	return memset(mem, 0, sizeof(struct qp_recorder));
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
	qp->conn.version = QP_CONN_VERSION;
	qp->conn.type = c->type;
	qp->bind.pkeys = c->pkeys;
	qp->conn.pkey = qp_pkey_at(qp, 0);
	qp->conn.state = QP_RESET;
	qp->bind.port = c->port;
	qp->bind.worker = c->worker;
	qp->bind.pd = c->pd;
	qp->bind.uid = c->uid;
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
