/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The notification point: packets that a switch has marked (CE) are counted, and a CNP tells the
 * QP that sent them, at most one per QP and interval (CC-01, CC-02). A CNP that finds no space is
 * not sent: the next mark leads to another one.
 */
#include <rte_mbuf.h>
#include "engine/engine.h"
#include "engine/turn.h"
#include "qp/emit.h"

void
engine_set_cnp(struct engine *e, uint16_t dev, uint64_t interval_ns, uint8_t dscp)
{
	e->dev[dev].cnp_ns = interval_ns;
	e->dev[dev].cnp_dscp = dscp;
}

/* May qp send a CNP now? UD has no connection to slow down; loopback has no switch. */
static bool
is_due(const struct engine *e, const struct qp *qp)
{
	return qp->conn.type != QP_TYPE_UD && qp->conn.state >= QP_RTR &&
	       qp->conn.state != QP_ERR && qp->conn.path_ok && !qp->conn.loopback &&
	       e->dev[qp->bind.port].cnp_ns != 0 && e->env.now_ns >= qp->conn.ecn.cnp_next_ns;
}

void
notify_mark(struct engine *e, struct qp *qp)
{
	qp->conn.ecn.marks++;
	qp->bind.counters->ctr[COUNTER_NP_MARKED]++;
	if (!is_due(e, qp) || e->marked_n == ENGINE_MARKED)
		return;
	if (e->marked_n == 0 || e->marked[e->marked_n - 1] != qp)
		e->marked[e->marked_n++] = qp;
}

static void
send_cnp(struct engine *e, struct qp *qp)
{
	static const struct wire_fields f = {.opcode = WIRE_OPCODE_CNP, .becn = true};
	const struct engine_dev *dev = &e->dev[qp->bind.port];
	struct rte_mbuf *m;
	uint32_t before = e->env.tx_bytes;
	struct wire_tmpl t;
	uint8_t *p;

	turn_begin(e, qp);
	m = e->env.tx_n < e->env.tx_cap ? qp_env_buf(&e->env) : NULL;
	if (m == NULL)
		return;
	wire_tmpl_cnp(&t, &qp->conn.tmpl, dev->cnp_dscp);
	p = rte_pktmbuf_mtod(m, uint8_t *);
	qp_emit(&e->env, qp, m, &t, wire_frame_close(p, wire_hdr_put(&t, &f, 0, p), 0), false);
	turn_count(e, qp, before);
	qp->conn.ecn.cnp_next_ns = e->env.now_ns + dev->cnp_ns;
	qp->conn.ecn.cnps_sent++;
	qp->bind.counters->ctr[COUNTER_NP_CNP_SENT]++;
}

void
notify_run(struct engine *e)
{
	for (uint32_t i = 0; i < e->marked_n; i++) {
		if (is_due(e, e->marked[i]))
			send_cnp(e, e->marked[i]);
	}
	e->marked_n = 0;
}

void
notify_forget(struct engine *e, const struct qp *qp)
{
	for (uint32_t i = 0; i < e->marked_n; i++) {
		if (e->marked[i] == qp)
			e->marked[i--] = e->marked[--e->marked_n];
	}
}
