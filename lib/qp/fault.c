/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>
#include "qp/fault.h"
#include "qp/qp.h"
#include "qp/recorder.h"

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
