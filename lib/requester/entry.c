/* SPDX-License-Identifier: BSD-3-Clause */
/* Finding a WQE in flight by a PSN. */
#include "requester/selective.h"
#include "wire/psn.h"

/*
 * Does WQE number i end more than ahead PSNs after una_psn? The WQEs taken may span more than half
 * of the circle, so psn_lt cannot compare their ends; they never span all of it.
 */
static inline bool
ends_behind(const struct qp *qp, uint32_t i, uint32_t ahead)
{
	const struct qp_sq_entry *e = qp_sq_entry(qp, i);

	return psn_ahead(psn_add(e->first_psn, e->npkts), qp->conn.snd.una_psn) > ahead;
}

/*
 * Does not walk the WQEs: the peer chooses the PSNs, and the client how many WQEs are in flight.
 * Doubles the step up to a WQE that ends behind psn, then halves the distance to the first one. A
 * WQE without a PSN ends where the one before it does, so it is never the first.
 */
struct qp_sq_entry *
req_entry_of(const struct qp *qp, uint32_t psn, uint32_t *i)
{
	const struct qp_snd *snd = &qp->conn.snd;
	uint32_t ahead = psn_ahead(psn, snd->una_psn), from = *i, to = snd->head, step;
	struct qp_sq_entry *e;

	for (step = 1; to - from >= step; step *= 2) {
		if (ends_behind(qp, from + step - 1, ahead)) {
			to = from + step - 1;
			break;
		}
		from += step;
	}
	while (from != to) {
		uint32_t mid = from + (to - from) / 2;

		if (ends_behind(qp, mid, ahead))
			to = mid;
		else
			from = mid + 1;
	}
	*i = to;
	if (to == snd->head)
		return NULL;
	e = qp_sq_entry(qp, to);
	return psn_ahead(psn, e->first_psn) < e->npkts ? e : NULL;
}
