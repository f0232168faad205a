/* SPDX-License-Identifier: BSD-3-Clause */
#include "cq/cq.h"

static uint32_t nobody; /* the waiter of CQs without a client; never written */

static void
ring_set(struct cq_ring *r, struct uroce_cq_hdr *hdr, uint32_t entries)
{
	r->hdr = hdr;
	r->entries = (struct uroce_cqe *)((uint8_t *)hdr + UROCE_CQ_HDR);
	r->mask = entries - 1;
	r->log2 = (uint32_t)__builtin_ctz(entries);
	r->prod = 0;
	r->cons = 0;
}

void
cq_init(struct cq *cq, struct uroce_cq_hdr *hdr, uint32_t entries)
{
	ring_set(&cq->both[0], hdr, entries);
	cq->ring = &cq->both[0];
	cq->dead = cq->watched = false;
	cq->waiter = &nobody;
}

static struct cq_ring *
ring_other(struct cq *cq)
{
	return cq->ring == &cq->both[0] ? &cq->both[1] : &cq->both[0];
}

void
cq_resize(struct cq *cq, struct uroce_cq_hdr *hdr, uint32_t entries)
{
	struct cq_ring *r = ring_other(cq);

	ring_set(r, hdr, entries);
	__atomic_store_n(&cq->ring, r, __ATOMIC_RELEASE);
}

void
cq_resized(struct cq *cq)
{
	uint32_t arm =
		__atomic_exchange_n(&ring_other(cq)->hdr->arm, UROCE_CQ_UNARMED, __ATOMIC_ACQ_REL);

	if (arm != UROCE_CQ_UNARMED)
		__atomic_store_n(&cq->ring->hdr->arm, arm, __ATOMIC_RELEASE);
}

/*
 * The client writes its index at every poll. The worker therefore reads that cache line once per
 * lap of the ring, not for every completion. A wrong index only harms the client's own completions.
 */
bool
cq_find_room(struct cq *cq, struct cq_ring *r, uint32_t i)
{
	uint32_t cons = __atomic_load_n(&r->hdr->cons, __ATOMIC_ACQUIRE);

	/* Partner: cq_post of other workers, which do not read hdr->cons themselves. */
	__atomic_store_n(&r->cons, cons, __ATOMIC_RELEASE);
	if (i - cons <= r->mask)
		return true;
	cq->dead = true;
	__atomic_store_n(&r->hdr->error, 1, __ATOMIC_RELEASE);
	return false;
}

bool
cq_take_arm(struct cq *cq, bool solicited)
{
	struct uroce_cq_hdr *hdr = __atomic_load_n(&cq->ring, __ATOMIC_ACQUIRE)->hdr;
	uint32_t arm = __atomic_load_n(&hdr->arm, __ATOMIC_RELAXED);

	if (arm != UROCE_CQ_ARM_ANY && !(arm == UROCE_CQ_ARM_SOLICITED && solicited))
		return false;
	return __atomic_exchange_n(&hdr->arm, UROCE_CQ_UNARMED, __ATOMIC_ACQ_REL) !=
	       UROCE_CQ_UNARMED;
}
