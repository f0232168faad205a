/* SPDX-License-Identifier: BSD-3-Clause */
/* Received frames whose payload is still in the sender's memory (qp/view.h). */
#include <rte_mbuf.h>
#include "engine/rx.h"

bool
rx_view_holds(const struct engine *e, const struct rte_mbuf *m)
{
	const struct qp *qp = qp_table_find(e->qps, qp_view_get(m).qpn);

	return qp != NULL && (qp->conn.state == QP_RTS || qp->conn.state == QP_SQD);
}

bool
engine_own(const struct engine *e, struct rte_mbuf *m)
{
	if (!qp_view_is(m))
		return true;
	if (!rx_view_holds(e, m)) {
		qp_view_lose(m);
		return false;
	}
	qp_view_own(m);
	return true;
}
