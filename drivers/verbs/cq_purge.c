/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The unpolled entries of a CQ when a QP is reset or destroyed (QP-10), or when the CQ moves to
 * another ring. This side owns the entries between cons and the last released one.
 */
#include "provider.h"

#include <stdlib.h>
#include <string.h>

/* Returns true if the daemon has released the entry at a free-running index. */
static bool
released(const struct prov_cq *cq, uint32_t index)
{
	return __atomic_load_n(&cq->slots[index & cq->mask].phase, __ATOMIC_ACQUIRE) ==
	       (index >> cq->shift) + 1;
}

/*
 * Moves the live entries before end, which have no gap, to the end of their range, so that the dead
 * ones in front return to the daemon: a QP created later finds the CQ's full size again.
 */
static void
cq_compact(struct prov_cq *cq, uint32_t end)
{
	uint32_t to = end;

	for (uint32_t from = end; from != cq->cons;) {
		struct uroce_cqe *cqe = &cq->slots[--from & cq->mask];

		if (cqe->opcode == UROCE_CQE_DEAD)
			continue;
		to--;
		/* The phase stays: it belongs to the slot's index, not to the entry. */
		if (to != from)
			memcpy(&cq->slots[to & cq->mask], cqe, offsetof(struct uroce_cqe, phase));
	}
	cq->cons = to;
	prov_cq_publish(cq);
}

static void
old_purge(struct prov_cq_old *old, uint32_t qpn)
{
	uint32_t keep = old->next;

	for (uint32_t i = old->next; i < old->n; i++) {
		if (old->cqe[i].qp_num != qpn)
			old->cqe[keep++] = old->cqe[i];
	}
	old->n = keep;
}

void
prov_cq_purge(struct prov_cq *cq, uint32_t qpn)
{
	bool gap = false;
	uint32_t end, i;

	/* In the child of a fork the ring is the parent's. */
	if (prov_context_of(cq->vcq.cq.context)->forked)
		return;
	prov_lock(&cq->lock);
	if (cq->old)
		old_purge(cq->old, qpn);
	end = cq->cons;
	/*
	 * Two workers that post to one CQ may release entries out of order. Released entries of
	 * this QP may follow an entry that another QP's worker is still writing, so check the whole
	 * ring.
	 */
	for (i = cq->cons; i != cq->cons + cq->mask + 1; i++) {
		struct uroce_cqe *cqe = &cq->slots[i & cq->mask];

		if (!released(cq, i)) {
			gap = true;
			continue;
		}
		if (!gap)
			end = i + 1;
		if (cqe->qp_num == qpn)
			cqe->opcode = UROCE_CQE_DEAD;
	}
	cq_compact(cq, end);
	prov_unlock(&cq->lock);
}

struct prov_cq_old *
prov_cq_old_alloc(struct prov_cq *cq)
{
	struct prov_cq_old *old;
	size_t n;

	prov_lock(&cq->lock);
	n = (size_t)cq->mask + 1;
	if (prov_cq_has_old(cq))
		n += cq->old->n - cq->old->next;
	prov_unlock(&cq->lock);
	old = malloc(sizeof(*old) + n * sizeof(old->cqe[0]));
	if (old)
		old->n = old->next = 0;
	return old;
}

void
prov_cq_save(const struct prov_cq *cq, struct prov_cq_old *to)
{
	if (prov_cq_has_old(cq)) {
		to->n = cq->old->n - cq->old->next;
		memcpy(to->cqe, &cq->old->cqe[cq->old->next], to->n * sizeof(to->cqe[0]));
	}
	for (uint32_t i = cq->cons; i != cq->cons + cq->mask + 1 && released(cq, i); i++) {
		const struct uroce_cqe *cqe = &cq->slots[i & cq->mask];

		if (cqe->opcode != UROCE_CQE_DEAD)
			to->cqe[to->n++] = *cqe;
	}
}
