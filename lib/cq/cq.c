/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>
#include <uroce_abi/ring.h>
#include "cq/cq.h"

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
	cq->dead = false;
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
 * Look at the client's index again, which it writes at every poll: that line is fetched once in a
 * lap of the ring, and not for every completion. cons is the client's word: whatever it says, only
 * its own completions are at stake.
 */
static bool
ring_has_room(struct cq_ring *r, uint32_t i)
{
	uint32_t cons = __atomic_load_n(&r->hdr->cons, __ATOMIC_ACQUIRE);

	__atomic_store_n(&r->cons, cons, __ATOMIC_RELAXED);
	return i - cons <= r->mask;
}

bool
cq_post(struct cq *cq, const struct uroce_cqe *cqe, uint64_t *note, uint32_t wqe)
{
	struct cq_ring *r = __atomic_load_n(&cq->ring, __ATOMIC_ACQUIRE);
	struct uroce_cqe *slot;
	uint32_t i;

	i = cq->multi ? __atomic_fetch_add(&r->prod, 1, __ATOMIC_RELAXED) : r->prod++;
	if (i - __atomic_load_n(&r->cons, __ATOMIC_RELAXED) > r->mask && !ring_has_room(r, i)) {
		cq->dead = true;
		__atomic_store_n(&r->hdr->error, 1, __ATOMIC_RELEASE);
		return false;
	}
	__atomic_store_n(note, uroce_ring_entry(wqe, i), __ATOMIC_RELEASE);
	slot = &r->entries[i & r->mask];
	memcpy(slot, cqe, offsetof(struct uroce_cqe, phase));
	__atomic_store_n(&slot->phase, (i >> r->log2) + 1, __ATOMIC_RELEASE);
	return true;
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
