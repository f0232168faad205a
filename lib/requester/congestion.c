/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reports to a congestion policy that takes them (cc/cc.h): any but `fixed`, whose share of them is
 * where it happens. Packets and responses are reported only while the policy limits the QP
 * (snd.cc_active).
 */
#include <rte_common.h>
#include "qp/selective.h"
#include "requester/requester_parts.h"
#include "wire/psn.h"

void
req_cc_sent(struct qp_env *env, struct qp *qp, uint32_t psn, uint32_t requested_bytes)
{
	struct cc_flow *flow = &qp->conn.cc_flow;
	const struct qp_snd *snd = &qp->conn.snd;

	/* The pace may have held back the packet whose round trip is timed. */
	if ((snd->watch & QP_WATCH_RTT_PSN) && qp->conn.loss.rtt_psn == psn)
		qp->conn.loss.rtt_from_ns = env->now_ns;
	if (snd->since_ackreq == 0)
		flow->ackreq_ns = env->now_ns + snd->wait_ns / 4;
	cc_on_sent(&qp->conn.snd.cc, flow, env->now_ns,
		   env->tx[env->tx_n - 1]->pkt_len + requested_bytes);
}

uint32_t
req_cc_requested(const struct qp *qp, const struct qp_sq_entry *e, uint32_t k, uint32_t psn)
{
	uint32_t n = (uint32_t)psn_diff(qp->conn.snd.next_psn, psn), off = k * qp->conn.mtu;

	if (e->wqe.opcode != UROCE_WR_RDMA_READ || !cc_times(&qp->conn.cc_flow))
		return 0;
	return RTE_MIN(e->length - off, RTE_MIN(n, CC_WINDOW_PKTS) * qp->conn.mtu);
}

void
req_cc_response(struct qp *qp, const struct wire_pkt *pkt)
{
	if (pkt->becn || (pkt->tclass & WIRE_ECN_MASK) == WIRE_ECN_CE)
		qp->conn.cc_flow.ce = true;
}

uint32_t
req_cc_bytes(const struct qp *qp, const struct qp_sq_entry *e, uint32_t npkts)
{
	int32_t reported = psn_diff(qp->conn.cc_flow.una_psn, e->first_psn);
	uint32_t skip = reported > 0 ? (uint32_t)reported * qp->conn.mtu : 0;

	return RTE_MIN(npkts * qp->conn.mtu, e->length) - RTE_MIN(skip, e->length);
}

void
req_cc_progress(struct qp_env *env, struct qp *qp, uint32_t retired)
{
	struct cc_flow *flow = &qp->conn.cc_flow;
	const struct qp_snd *snd = &qp->conn.snd;
	struct cc_ack ack = {
		.bytes = retired,
		.rtt_ns = qp->conn.loss.srtt_ns,
		.ce = flow->ce,
	};

	/* A part of the oldest WQE, or all of a READ that is retired next. */
	if (snd->tail != snd->head) {
		const struct qp_sq_entry *e = qp_sq_entry(qp, snd->tail);

		ack.bytes += req_cc_bytes(qp, e, (snd->una_psn - e->first_psn) & WIRE_PSN_MASK);
	}
	flow->una_psn = snd->una_psn;
	flow->ce = false;
	cc_on_ack(&qp->conn.snd.cc, flow, env->now_ns, &ack);
	qp_cc_follow(env, qp);
}

bool
req_rx_cnp(struct qp_env *env, struct qp *qp)
{
	bool taken = qp->conn.type != QP_TYPE_UD &&
		     cc_on_cnp(&qp->conn.snd.cc, &qp->conn.cc_flow, env->now_ns);

	qp_cc_follow(env, qp);
	qp->conn.ecn.cnps_got++;
	env->counters->ctr[taken ? COUNTER_RP_CNP_HANDLED : COUNTER_RP_CNP_IGNORED]++;
	return taken;
}

bool
req_fetch_must_wait(const struct qp *qp, uint32_t n)
{
	const struct qp_snd *snd = &qp->conn.snd;
	uint32_t out = (uint32_t)psn_diff(snd->next_psn, snd->una_psn);
	bool sr = qp->conn.sr.state == QP_SR_ON;
	bool fixed = qp->conn.cc_flow.param.policy == CC_FIXED;
	uint32_t window = snd->cc.window_pkts, most;

	/* The peer's receive buffer does not matter: the responses come to ours. */
	if (fixed && window >= qp->conn.cc_flow.fixed.full_pkts)
		window = RTE_MAX(window, CC_WINDOW_PKTS);
	most = RTE_MIN(window, sr ? QP_SR_WINDOW : QP_READ_WINDOW_PKTS);
	/* READs without losses have no window; that of CC_RATE_PPS would not fill a long path. */
	if (sr && window > CC_WINDOW_PKTS)
		most = QP_SR_WINDOW;
	if (snd->resending || (!snd->rd_lossy && window >= CC_WINDOW_PKTS))
		return false;
	if (!fixed)
		return out != 0 && out + n > most;
	/*
	 * Responses that arrived behind a missing one are not in flight. There is memory for
	 * QP_SR_READ_WINDOW of them.
	 */
	if (sr && qp->bind.scoreboard != NULL && out + n <= QP_SR_READ_WINDOW)
		out -= RTE_MIN(out, qp->bind.scoreboard->reads.here.n);
	/* The second of two READs shows that the request for the first one was lost. */
	return out >= most && !(sr && snd->rd_out < 2 && most >= CC_WINDOW_PKTS);
}
