/* SPDX-License-Identifier: BSD-3-Clause */
/* Making and freeing QPs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <rte_common.h>
#include <rte_malloc.h>
#include "qp/qp.h"

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
	/* What the stride leaves anyway is given as inline room. */
	room = uroce_sq_stride(grant->max_send_sge, want->max_inline) - UROCE_SEND_WQE_HDR;
	grant->max_inline = RTE_MIN(room, (uint32_t)QP_MAX_INLINE);
	return 0;
}

/* Zeroed memory for a QP. huge: as in struct qp_create. */
static struct qp *
qp_mem(size_t bytes, bool huge)
{
	struct qp *qp = NULL;
	void *mem;

	if (huge)
		qp = rte_zmalloc("qp", bytes, __alignof__(struct qp));
	if (qp != NULL) {
		qp->in_eal = true;
		return qp;
	}
	if (posix_memalign(&mem, __alignof__(struct qp), bytes) != 0)
		return NULL;
	return memset(mem, 0, bytes);
}

struct qp *
qp_create(const struct qp_create *c)
{
	uint32_t max_sge = c->srq != NULL ? c->srq->rq.max_sge : c->rq.max_sge;
	size_t bytes = offsetof(struct qp, recv_sge) + max_sge * sizeof(struct uroce_sge);
	struct qp *qp = qp_mem(bytes, c->huge);

	if (qp == NULL)
		return NULL;
	qp->qpn = c->qpn;
	qp->type = c->type;
	qp->pkeys = c->pkeys;
	qp->pkey = qp_pkey_at(qp, 0);
	qp->state = QP_RESET;
	qp->port = c->port;
	qp->worker = c->worker;
	qp->pd = c->pd;
	qp->recv_pd = c->srq != NULL ? c->srq->pd : c->pd;
	qp->send_cq = c->send_cq;
	qp->recv_cq = c->recv_cq;
	qp->sig_all = c->sig_all;
	qp->user_handle = c->user_handle;
	qp->cap = c->cap;
	qp->obs = c->obs;
	qp->srq = c->srq;
	qp->ahs = c->ahs;
	/* UD has no path MTU of its own; connected types set theirs on the way to RTR. */
	qp->dev_mtu = c->dev_mtu;
	qp->snd.sq = c->sq;
	qp->rcv.rq = c->rq;
	qp->rcv.cur.sge = qp->recv_sge;
	if (qp_sqes_init(&qp->snd.sqes, &c->sq) != 0) {
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
	qp_sqes_fini(&qp->snd.sqes);
	if (qp->in_eal)
		rte_free(qp);
	else
		free(qp);
}

uint8_t
qp_mtu_code(uint32_t link_mtu)
{
	uint8_t code;

	/* 80 bytes for headers, as in the kernel's rxe (RXE_MAX_HDR_LENGTH). */
	for (code = 5; code > 0; code--) {
		if ((128u << code) + 80 <= link_mtu)
			return code;
	}
	return 0;
}
