/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>
#include "qp/srq.h"

bool
srq_look(const struct srq *srq, uint32_t *head, uint32_t *prod)
{
	*head = srq->head;
	*prod = __atomic_load_n(&srq->rq.hdr->prod, __ATOMIC_ACQUIRE);
	return !srq->dead && *prod - *head <= srq->rq.mask + 1;
}

void
srq_copy(const struct srq *srq, const struct qp_ring *to, uint32_t head, uint32_t prod)
{
	const struct qp_ring *from = &srq->rq;

	for (; head != prod; head++)
		memcpy(to->slots + (size_t)(head & to->mask) * to->stride,
		       from->slots + (size_t)(head & from->mask) * from->stride, to->stride);
}

void
srq_switch(struct srq *srq, const struct qp_ring *to, uint32_t prod)
{
	__atomic_store_n(&to->hdr->cons, srq->head, __ATOMIC_RELEASE);
	__atomic_store_n(&to->hdr->prod, prod, __ATOMIC_RELEASE);
	srq->rq = *to;
}
