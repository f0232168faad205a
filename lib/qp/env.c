/* SPDX-License-Identifier: BSD-3-Clause */
#include "qp/env.h"
#include "qp/qp.h"

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
	uint32_t i;

	if (env->dirty_n == 0)
		return;
	/* Partner: the client's fence between storing arm and polling once more. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	for (i = 0; i < env->dirty_n; i++) {
		if (cq_take_arm(env->dirty[i].cq, env->dirty[i].solicited))
			env->ops->cq_event(env->ops_ctx, env->dirty[i].cq);
		if (cq_has_waiter(env->dirty[i].cq))
			env->ops->cq_waiter(env->ops_ctx, env->dirty[i].cq);
	}
	env->dirty_n = 0;
}
