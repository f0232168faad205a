/* SPDX-License-Identifier: BSD-3-Clause */
#include "qp/congestion.h"
#include "qp/ring.h"

/* All WQEs taken from the SQ take the general path from now on. A rewind walks as many. */
static void
mark_taken(struct qp *qp)
{
	struct qp_snd *snd = &qp->conn.snd;

	for (uint32_t i = snd->tail; i != snd->head; i++)
		qp_sqes_at(&qp->bind.sqes, i)->fast = QP_WQE_GENERAL;
}

void
qp_cc_tell(const struct qp_env *env, struct qp *qp)
{
	struct qp_snd *snd = &qp->conn.snd;

	if (qp->conn.type == QP_TYPE_UD)
		return;
	snd->cc_told = qp->conn.cc_flow.limits;
	if (snd->cc_told) {
		qp->conn.cc_flow.una_psn = snd->una_psn;
		mark_taken(qp);
		return;
	}
	qp_deadline_clear(&qp->conn, QP_DEADLINE_PACE);
	env->ops->qp_wake(env->ops_ctx, qp); /* it may wait for its pace */
}

void
qp_cc_change(struct qp_env *env, struct qp *qp, const struct cc_param *p)
{
	if (qp->conn.type == QP_TYPE_UD)
		return;
	qp->bind.cc = *p;
	qp_cc_ect(qp);
	if (qp->conn.state < QP_RTR || qp->conn.state == QP_ERR)
		return; /* it begins with RTR */
	mark_taken(qp);
	qp_cc_begin(env, qp);
	env->ops->qp_wake(env->ops_ctx, qp);
}
