/* SPDX-License-Identifier: BSD-3-Clause */
#include "requester/requester.h"
#include "responder/responder.h"
#include "engine/turn.h"

void
engine_wake(struct engine *e, struct qp *qp)
{
	if (qp->bind.on_run_list)
		return;
	qp->bind.on_run_list = true;
	TAILQ_INSERT_TAIL(&e->run, qp, bind.run);
}

static void
run_list_drop(struct engine *e, struct qp *qp)
{
	TAILQ_REMOVE(&e->run, qp, bind.run);
	qp->bind.on_run_list = false;
}

/* Is there nothing that qp could do with a turn, once it has answered? */
static bool
has_no_more(const struct qp *qp)
{
	const struct qp_snd *snd = &qp->conn.snd;

	return qp->conn.state == QP_RTR ||
	       (qp->conn.state == QP_RTS && qp->bind.armed && snd->cur == snd->head);
}

void
turn_answers(struct engine *e)
{
	uint32_t i;

	for (i = 0; i < e->asked_n && e->env.tx_n < e->env.tx_cap / 2; i++) {
		struct qp *qp = e->asked[i];

		if (!qp->bind.on_run_list || qp->conn.state == QP_ERR || qp->conn.rcv.rdq_n != 0)
			continue;
		turn_begin(e, qp);
		if (!rsp_run(&e->env, qp, ENGINE_QUANTUM) && has_no_more(qp))
			run_list_drop(e, qp);
	}
	e->asked_n = 0;
}

void
engine_last_turn(struct engine *e, uint64_t now_ns, struct qp *qp)
{
	uint32_t before;

	if (qp->conn.type == QP_TYPE_RC || qp->conn.state != QP_RTS)
		return;
	e->env.now_ns = now_ns;
	turn_begin(e, qp);
	qp->bind.armed = false; /* its doorbell may not have been looked at yet */
	e->env.work = ENGINE_WORK;
	/* as many turns as it takes */
	do {
		before = e->env.tx_n;
	} while (req_run(&e->env, qp, e->env.tx_cap) == REQ_MORE && e->env.tx_n != before);
	qp_env_flush(&e->env);
}

void
engine_forget(struct engine *e, struct qp *qp)
{
	uint32_t i;

	for (i = 0; i < e->asked_n; i++) {
		if (e->asked[i] == qp)
			e->asked[i--] = e->asked[--e->asked_n];
	}
	if (qp->bind.on_run_list)
		run_list_drop(e, qp);
	qp_sqes_drop(&qp->bind.sqes, e->env.sqes);
}
