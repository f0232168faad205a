/* SPDX-License-Identifier: BSD-3-Clause */
/* The congestion policy of a QP (cc/cc.h) when its connection, or the path of it, begins. */
#ifndef QP_CONGESTION_H
#define QP_CONGESTION_H

#include "qp/env.h"
#include "qp/qp.h"

/* Worker. Set ECT in the QP's data packets if its policy wants marks (CC-01). */
static inline void
qp_cc_ect(struct qp *qp)
{
	uint32_t policy = qp->conn.cc_flow.param.policy;

	policy = policy == CC_TEST ? policy : qp->bind.cc.policy;
	wire_tmpl_set_ect(&qp->conn.tmpl, cc_policies[policy]->ect);
}

/*
 * Returns the window that the peer takes. Only a peer that has agreed to selective repeat is known
 * to take a wide one, and only such a connection does not pay for a loss with the window. Three
 * quarters of the receive buffer that it has told may be in flight, because the kernel counts its
 * own overhead in it, too.
 */
static inline uint32_t
qp_cc_wide(const struct qp *qp)
{
	uint32_t most = qp->conn.sr.state == QP_SR_ON ? CC_WIDE_PKTS : CC_WINDOW_PKTS;
	uint32_t buffer = qp->conn.peer_buffer * QP_PEER_BUFFER_BYTES;
	uint32_t pkts = buffer / 4 * 3 / (qp->conn.mtu + QP_PEER_BUFFER_HDRS);

	return buffer == 0 || pkts > most ? most : pkts;
}

/* Owner worker. Lets `fixed` have the window that the peer takes. */
static inline void
qp_cc_allow(struct qp *qp)
{
	struct qp_snd *snd = &qp->conn.snd;
	uint32_t wide = qp_cc_wide(qp);

	if (qp->conn.cc_flow.param.policy != CC_FIXED)
		return;
	cc_fixed_allow(&snd->cc, &qp->conn.cc_flow, wide);
	if (wide > CC_WINDOW_PKTS && !(snd->watch & QP_WATCH_RTT))
		snd->watch |= QP_WATCH_RTT_WANT;
}

/*
 * Owner worker. Starts the policy bind.cc, or CC_TEST if a test program has set it, without any
 * history of the path. The policy may differ from the previous one only while no send WQE is taken
 * from the SQ (else use qp_cc_change): while a policy limits the QP, each WQE is marked when it is
 * taken (qp_sq_entry.fast).
 */
static inline void
qp_cc_begin(const struct qp_env *env, struct qp *qp)
{
	struct qp_snd *snd = &qp->conn.snd;
	bool test = qp->conn.cc_flow.param.policy == CC_TEST;

	qp->conn.cc_flow = (struct cc_flow){.una_psn = snd->una_psn, .param = qp->bind.cc};
	qp->conn.cc_flow.param.mtu = qp->conn.mtu;
	if (test)
		qp->conn.cc_flow.param.policy = CC_TEST;
	qp_deadline_clear(&qp->conn, QP_DEADLINE_PACE);
	qp_cc_ect(qp);
	cc_init(&snd->cc, &qp->conn.cc_flow, env->now_ns);
	qp_cc_allow(qp);
	snd->cc_active = qp->conn.cc_flow.limits && qp->conn.type != QP_TYPE_UD;
}

/*
 * Owner worker. Sets snd.cc_active to cc_flow.limits, which differs. WQEs taken from the SQ take
 * the general path if the policy limits qp now; else qp is woken, because it may wait for its pace.
 */
void qp_cc_tell(const struct qp_env *env, struct qp *qp);

/*
 * Owner worker. To be called after the policy handled an event, because it may limit qp from now
 * on, or not any more. After packets are sent, at the end of the turn.
 */
static inline void
qp_cc_follow(const struct qp_env *env, struct qp *qp)
{
	if (unlikely(qp->conn.cc_flow.limits != qp->conn.snd.cc_active))
		qp_cc_tell(env, qp);
}

/*
 * Owner worker. Make p (filled; cc/param.h) the policy of qp: now if it is connected, and of later
 * connections. Send WQEs in flight continue; those taken from the SQ take the general path from now
 * on. UD has no policy: nothing changes.
 */
void qp_cc_change(struct qp_env *env, struct qp *qp, const struct cc_param *p);

#endif
