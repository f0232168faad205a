/* SPDX-License-Identifier: BSD-3-Clause */
/* Local operations: LOCAL_INV and BIND_MW (MEM-04, CQE-06). */
#include "requester/requester_parts.h"

void
req_bind_of(const struct qp *qp, const struct uroce_send_wqe *w, struct mw_bind *b)
{
	*b = (struct mw_bind){
		.key = w->bind.mw_rkey,
		.new_key = w->bind.new_rkey,
		.lkey = w->bind.mr_lkey,
		.access = w->bind.access,
		.pd = qp->bind.pd,
		.qpn = qp->conn.qpn,
		.addr = w->bind.addr,
		.len = w->bind.length,
	};
}

static bool
local_bind(struct qp_env *env, struct qp *qp, const struct uroce_send_wqe *w)
{
	struct mw_bind b;

	req_bind_of(qp, w, &b);
	return mw_bind(env->mrs, &b);
}

void
req_local_run(struct qp_env *env, struct qp *qp, struct qp_sq_entry *e)
{
	bool ok = e->wqe.opcode == UROCE_WR_BIND_MW
			  ? local_bind(env, qp, &e->wqe)
			  : mw_invalidate(env->mrs, e->wqe.imm, qp->bind.pd, qp->conn.qpn);

	if (ok)
		e->done = true;
	else
		e->status = QP_WC_MW_BIND_ERR;
}

void
req_local_retire(struct qp_env *env, struct qp *qp)
{
	struct qp_snd *snd = &qp->conn.snd;
	const struct qp_sq_entry *e;

	while (snd->tail != snd->head && (e = qp_sq_entry(qp, snd->tail))->done) {
		/* After a rewind the cursor may be here: a response to an earlier packet came. */
		if (snd->cur == snd->tail)
			snd->cur++;
		qp_retire_send(env, qp, e, QP_WC_SUCCESS);
	}
}
