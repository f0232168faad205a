/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <rte_common.h>
#include "qp/congestion.h"
#include "qp/deadline.h"
#include "qp/loss.h"
#include "qp/qp.h"

/* Longest wait of this QP. */
static uint64_t
wait_most(const struct qp *qp)
{
	return qp->conn.loss.timeout_ns != 0 ? qp->conn.loss.timeout_ns : QP_PROBE_MAX_NS;
}

/* Wait before the first sample: what the ACK timeout says of the peer. */
static uint64_t
wait_unknown(const struct qp *qp)
{
	uint64_t timeout_ns = qp->conn.loss.timeout_ns;

	if (timeout_ns != 0 && qp->conn.retry_cnt == 0)
		return timeout_ns;
	return RTE_MAX(timeout_ns / QP_PROBES_LEAST, (uint64_t)QP_PROBE_UNKNOWN_NS);
}

/* Wait derived from the measurements, if there were any. */
static uint64_t
wait_measured(const struct qp *qp)
{
	const struct qp_loss *l = &qp->conn.loss;
	uint64_t srtt_ns = l->srtt_ns, ns = srtt_ns + RTE_MAX(4ull * l->rttvar_ns, srtt_ns);
	bool sr = qp->conn.sr.state == QP_SR_ON;

	if (srtt_ns == 0)
		ns = l->eager || sr ? QP_PROBE_FORGOT_NS : wait_unknown(qp);
	/* If the round trip varies widely: still send several probes per ACK timeout. */
	else if (l->timeout_ns != 0)
		ns = RTE_MIN(ns, RTE_MAX(l->timeout_ns / QP_PROBES_LEAST, 2 * srtt_ns));
	if (!sr)
		return RTE_MAX(ns, (uint64_t)QP_PROBE_MIN_NS);
	if (l->repair_ns != 0)
		ns = RTE_MIN(ns, 2ull * l->repair_ns);
	return RTE_MAX(ns, (uint64_t)QP_PROBE_SR_NS);
}

/* Is probe_ns wait_ns after the last progress, or after the first packet sent? */
static bool
probe_is_wait(const struct qp *qp)
{
	const struct qp_snd *snd = &qp->conn.snd;

	return snd->probe_ns != 0 && snd->wait_ns != 0 &&
	       !qp_deadline_is_set(&qp->conn, QP_DEADLINE_ACK);
}

void
qp_loss_rewait(const struct qp_env *env, struct qp *qp)
{
	const struct qp_loss *l = &qp->conn.loss;
	uint64_t ns = RTE_MIN(wait_measured(qp), wait_most(qp));

	if (qp_is_plain(env, qp, QP_PLAIN_REQUESTER | QP_PLAIN_TIMERS))
		ns = l->timeout_ns;
	ns = qp->conn.type == QP_TYPE_RC ? ns : 0;
	if (probe_is_wait(qp))
		qp->conn.snd.probe_ns += ns - qp->conn.snd.wait_ns;
	qp->conn.snd.wait_ns = ns;
}

void
qp_loss_forget_rtt(const struct qp_env *env, struct qp *qp)
{
	qp->conn.loss.srtt_ns = qp->conn.loss.rttvar_ns = 0;
	qp_loss_rewait(env, qp);
}

void
qp_loss_reset(const struct qp_env *env, struct qp *qp)
{
	qp->conn.loss.srtt_ns = qp->conn.loss.rttvar_ns = qp->conn.loss.repair_ns = 0;
	qp->conn.loss.eager = false;
	qp_deadline_clear(&qp->conn, QP_DEADLINE_ACK);
	qp_deadline_clear(&qp->conn, QP_DEADLINE_PATH);
	qp->conn.snd.watch &= QP_WATCH_CAPPED; /* the congestion policy's, not a measurement */
	qp->conn.snd.watch |= qp->conn.snd.next_psn == qp->conn.snd.una_psn ? QP_WATCH_RTT_FLIGHT
									    : QP_WATCH_RTT_WANT;
	qp_loss_rewait(env, qp);
}

void
qp_loss_sample(const struct qp_env *env, struct qp *qp, uint64_t ns)
{
	struct qp_loss *l = &qp->conn.loss;
	int64_t off, sample = (int64_t)RTE_MIN(ns, (uint64_t)QP_PROBE_MAX_NS) + 1;

	l->eager = true;
	if (l->srtt_ns == 0) {
		l->srtt_ns = (uint32_t)sample;
		l->rttvar_ns = (uint32_t)sample / 2;
	} else {
		off = sample - (int64_t)l->srtt_ns;
		l->srtt_ns = (uint32_t)((int64_t)l->srtt_ns + off / 8);
		off = (off < 0 ? -off : off) - (int64_t)l->rttvar_ns;
		l->rttvar_ns = (uint32_t)((int64_t)l->rttvar_ns + off / 4);
	}
	qp_loss_rewait(env, qp);
	cc_on_rtt(&qp->conn.snd.cc, &qp->conn.cc_flow, env->now_ns, (uint32_t)sample);
	qp_cc_follow(env, qp);
}

void
qp_loss_repaired(const struct qp_env *env, struct qp *qp, uint64_t ns)
{
	struct qp_loss *l = &qp->conn.loss;
	uint32_t sample = (uint32_t)RTE_MIN(ns, (uint64_t)QP_PROBE_MAX_NS);

	if (l->repair_ns < sample)
		l->repair_ns = sample;
	else
		l->repair_ns -= (l->repair_ns - sample) / 8;
	if (!(qp->conn.snd.watch & QP_WATCH_PROBED))
		qp_loss_rewait(env, qp);
}

void
qp_loss_back_off(struct qp *qp)
{
	qp->conn.snd.wait_ns = RTE_MIN(2 * qp->conn.snd.wait_ns, wait_most(qp));
}

bool
qp_loss_may_probe(const struct qp_env *env, const struct qp *qp)
{
	const struct qp_loss *l = &qp->conn.loss;

	return !qp_is_plain(env, qp, QP_PLAIN_TIMERS) &&
	       (l->eager || qp->conn.retry_cnt != 0 || l->timeout_ns == 0);
}

int
qp_loss_set_plain(struct qp_env *env, struct qp *qp, uint8_t plain)
{
	if ((plain & QP_PLAIN_TIMERS) && qp->conn.sr.state == QP_SR_ON)
		return -EBUSY;
	if ((plain & QP_PLAIN_TIMERS) && qp->conn.sr.state == QP_SR_CAN)
		qp->conn.sr.state = QP_SR_OFF;
	qp->bind.plain = plain;
	qp_loss_rewait(env, qp);
	env->ops->qp_wake(env->ops_ctx, qp); /* its timer may be due earlier */
	return 0;
}
