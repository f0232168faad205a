/* SPDX-License-Identifier: BSD-3-Clause */
#include "qp/congestion.h"
#include "qp/ring.h"

void
qp_cc_change(struct qp_env *env, struct qp *qp, const struct cc_param *p)
{
	struct qp_snd *snd = &qp->conn.snd;

	if (qp->conn.type == QP_TYPE_UD)
		return;
	qp->bind.cc = *p;
	qp_cc_ect(qp);
	if (qp->conn.state < QP_RTR || qp->conn.state == QP_ERR)
		return; /* it begins with RTR */
	for (uint32_t i = snd->tail; i != snd->head; i++)
		qp_sqes_at(&qp->bind.sqes, i)->fast = QP_WQE_GENERAL;
	qp_cc_begin(env, qp);
	env->ops->qp_wake(env->ops_ctx, qp);
}
