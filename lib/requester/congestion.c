/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reports to a congestion policy that takes them (cc/cc.h): any but `fixed`, whose share of them is
 * where it happens. A QP of such a policy has snd.cc_told.
 */
#include "requester/requester_parts.h"
#include "wire/psn.h"

#define ECN_MASK 3u
#define ECN_CE   3u /* of the traffic class: a switch marked the packet */

void
req_cc_response(struct qp *qp, const struct wire_pkt *pkt)
{
	if (pkt->becn || (pkt->tclass & ECN_MASK) == ECN_CE)
		qp->conn.cc_flow.ce = true;
}

void
req_cc_progress(struct qp_env *env, struct qp *qp)
{
	struct cc_flow *flow = &qp->conn.cc_flow;
	uint32_t una_psn = qp->conn.snd.una_psn;
	struct cc_ack ack = {
		.bytes = (uint32_t)psn_diff(una_psn, flow->una_psn) * qp->conn.mtu,
		.rtt_ns = qp->conn.loss.srtt_ns,
		.ce = flow->ce,
	};

	flow->una_psn = una_psn;
	flow->ce = false;
	cc_on_ack(&qp->conn.snd.cc, flow, env->now_ns, &ack);
}

bool
req_rx_cnp(struct qp_env *env, struct qp *qp)
{
	if (!cc_on_cnp(&qp->conn.snd.cc, &qp->conn.cc_flow, env->now_ns))
		return false;
	env->counters->ctr[COUNTER_REQ_CNP]++;
	return true;
}
