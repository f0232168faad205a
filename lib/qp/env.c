/* SPDX-License-Identifier: BSD-3-Clause */
#include "qp/env.h"
#include "qp/qp.h"

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

/*
 * The views of a worker are freed by itself, and share one count that is always 1: freeing one
 * makes it 0 and calls this.
 */
static void
view_freed(void *addr, void *env)
{
	rte_mbuf_ext_refcnt_set(&((struct qp_env *)env)->view_info, 1);
}

void
qp_env_init_views(struct qp_env *env)
{
	env->view_bytes = UINT32_MAX;
	env->view_info.free_cb = view_freed;
	env->view_info.fcb_opaque = env;
	rte_mbuf_ext_refcnt_set(&env->view_info, 1);
}

void
qp_env_flush(struct qp_env *env)
{
	uint32_t i;

	if (env->dirty_n == 0)
		return;
	/* Partner: the client's fence between storing arm and polling once more. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	for (i = 0; i < env->dirty_n; i++) {
		if (cq_take_arm(env->dirty[i].cq, env->dirty[i].solicited))
			env->ops->cq_event(env->ops_ctx, env->dirty[i].cq);
	}
	env->dirty_n = 0;
}
