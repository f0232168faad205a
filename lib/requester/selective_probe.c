/* SPDX-License-Identifier: BSD-3-Clause */
/* Probes of selective repeat: the oldest packet, and the last one that the peer lacks. */
#include <rte_branch_prediction.h>
#include <rte_common.h>
#include "requester/recovery.h"
#include "requester/selective.h"
#include "wire/psn.h"

__rte_noinline bool
req_probe_selective(struct qp_env *env, struct qp *qp)
{
	struct qp_snd *snd = &qp->conn.snd;
	struct qp_sq_entry *e;
	struct qp_mend *m;

	if (qp->conn.sr.state != QP_SR_ON || env->sr == NULL || qp->conn.loopback ||
	    snd->tail == snd->head || !psn_lt(snd->una_psn, snd->next_psn))
		return false;
	e = qp_sq_entry(qp, snd->tail);
	if (snd->next_psn != snd->high_psn && !req_fetches(e))
		return false; /* on the way back to what follows it */
	m = qp_mend_take(env->sr, qp);
	if (m == NULL)
		return false;
	if (psn_lt(m->base_psn, snd->una_psn))
		req_mend_advance(qp, m, snd->una_psn);
	if (req_fetches(e) && m->base_psn == snd->una_psn && e->first_psn != snd->una_psn &&
	    req_read_unknown(qp, e, snd->una_psn))
		return false; /* a part, which must be requested whole */
	if (req_fetches(e) && (m->base_psn != snd->una_psn || e->first_psn != snd->una_psn)) {
		req_reads_lose_all(qp, m); /* the peer has executed it */
		return true;
	}
	if (m->base_psn != snd->una_psn)
		return false; /* the peer has executed it, but its ACK was of no use */
	req_lose(qp, m, snd->una_psn);
	return true;
}

void
req_probe_tail(struct qp_env *env, struct qp *qp)
{
	const struct qp_snd *snd = &qp->conn.snd;
	struct qp_mend *m = qp->bind.mend;
	const struct qp_sq_entry *e;
	uint32_t k, i = snd->tail;
	struct qp_psns got;

	if (qp->conn.sr.state != QP_SR_ON || m == NULL || req_resent_of(m, m->base_psn) == NULL)
		return;
	got = qp_psns_from(&m->got, m->base_psn);
	for (k = 1; k < QP_SR_WINDOW && qp_psns_has(&got, k);)
		k++;
	if (snd->una_psn != psn_add(m->base_psn, k))
		return; /* an ACK of the packets that were sent before the probe */
	req_mend_advance(qp, m, snd->una_psn);
	got = qp_psns_from(&m->got, m->base_psn);
	k = RTE_MIN((uint32_t)psn_diff(snd->high_psn, m->base_psn), QP_SR_WINDOW) - 1;
	while (k != 0 && qp_psns_has(&got, k))
		k--;
	if (k == 0)
		return; /* the oldest, of the next probe */
	e = req_entry_of(qp, psn_add(m->base_psn, k), &i);
	if (e == NULL || req_fetches(e))
		return;
	env->counters->ctr[COUNTER_REQ_PROBE]++;
	m->tail_psn = psn_add(m->base_psn, k);
	m->tail_probe = true;
	req_lose(qp, m, m->tail_psn);
	env->ops->qp_wake(env->ops_ctx, qp);
}
