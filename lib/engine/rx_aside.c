/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets for a QP that are neither requests nor responses of its service. */
#include "engine/rx.h"
#include "engine/turn.h"
#include "qp/match.h"
#include "requester/requester.h"

__rte_noinline enum drop_reason
rx_refuses_service(const struct qp *qp, const struct wire_pkt *pkt)
{
	bool sack = (pkt->op->flags & WIRE_F_SACK) != 0;

	if (sack ? qp->conn.type != QP_TYPE_RC
		 : !(pkt->op->flags & WIRE_F_CNP) || qp->conn.type == QP_TYPE_UD)
		return DROP_BAD_SERVICE;
	if (!rx_state_takes(qp->conn.state, pkt->op->flags))
		return DROP_QP_STATE;
	if (!qp_pkeys_match(pkt->pkey, qp->conn.pkey))
		return DROP_BAD_PKEY;
	if (!qp_gids_match(qp, pkt))
		return DROP_BAD_GID;
	return sack ? DROP_SACK : DROP_CNP;
}

__rte_noinline bool
rx_aside(struct engine *e, struct qp *qp, const struct wire_pkt *pkt, enum drop_reason why)
{
	if (why == DROP_CNP)
		return req_rx_cnp(&e->env, qp);
	if (why != DROP_SACK || !req_rx_sack(&e->env, qp, pkt))
		return false;
	turn_check_timer(e, qp);
	return true;
}
