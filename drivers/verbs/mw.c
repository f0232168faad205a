/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory windows: allocated by the daemon, bound through the send queue like any other WR. */
#include "provider.h"
#include "refusal.h"

#include <errno.h>
#include <stdlib.h>

struct ibv_mw *
prov_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct uroce_alloc_mw_req req = {.pd = pd->handle, .type = type};
	struct uroce_alloc_mw_rep rep;
	struct ibv_mw *mw = calloc(1, sizeof(*mw));

	if (!mw)
		return NULL;
	if (prov_call(pd->context, UROCE_CTRL_ALLOC_MW, &req, sizeof(req), &rep, sizeof(rep))) {
		free(mw);
		return NULL;
	}
	mw->context = pd->context;
	mw->pd = pd;
	mw->rkey = rep.rkey;
	mw->handle = rep.handle;
	mw->type = type;
	return mw;
}

int
prov_dealloc_mw(struct ibv_mw *mw)
{
	int rc = prov_call_destroy(mw->context, UROCE_CTRL_DEALLOC_MW, mw->handle);

	if (rc == 0)
		free(mw);
	return rc;
}

/* Binding by verb, type 1 only: the window's key changes with every bind. */
int
prov_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	struct ibv_send_wr *bad, wr = {
					 .wr_id = bind->wr_id,
					 .opcode = IBV_WR_BIND_MW,
					 .send_flags = bind->send_flags,
					 .bind_mw = {.mw = mw,
						     .rkey = ibv_inc_rkey(mw->rkey),
						     .bind_info = bind->bind_info},
				 };

	if (mw->type != IBV_MW_TYPE_1) {
		prov_refusal_print("ibv_bind_mw",
				   "the window is of type 2: post an IBV_WR_BIND_MW");
		return prov_fail(EINVAL);
	}
	if (bind->bind_info.mr && bind->bind_info.mr->pd != mw->pd) {
		prov_refusal_print("ibv_bind_mw", "window and region are of different PDs");
		return prov_fail(EINVAL);
	}
	return prov_post_send(qp, &wr, &bad);
}
