/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The work that a daemon left unfinished when it stopped, at whatever instruction. It is read from
 * the headers of the queues only (protocol: uroce_abi/ring.h). Pure functions of memory that no
 * longer changes.
 */
#ifndef UROCE_VERBS_UNFINISHED_H
#define UROCE_VERBS_UNFINISHED_H

#include <stdbool.h>
#include <stdint.h>
#include "uroce_abi/cqe.h"
#include "uroce_abi/ring.h"

/* A CQ's ring, with the client's copy of its size. */
struct unfinished_cq {
	const struct uroce_cqe *slots;
	uint32_t mask, shift;
};

/* Returns true if the entry of this free-running index has been released. */
static inline bool
unfinished_released(const struct unfinished_cq *cq, uint32_t index)
{
	return __atomic_load_n(&cq->slots[index & cq->mask].phase, __ATOMIC_ACQUIRE) ==
	       (index >> cq->shift) + 1;
}

/*
 * Returns true if entry is about WQE index and that completion was released. It may have been
 * polled since, and other workers may have used its slot for later laps.
 */
static inline bool
unfinished_completed(const struct unfinished_cq *cq, uint64_t entry, uint32_t index)
{
	uint32_t at = (uint32_t)entry, laps = UINT32_MAX >> cq->shift;
	uint32_t phase = __atomic_load_n(&cq->slots[at & cq->mask].phase, __ATOMIC_ACQUIRE);

	/* Lap numbers wrap around: the slot's lap is this one or up to half the range ahead. */
	return entry >> 32 == (uint32_t)(index + 1) &&
	       ((phase - (at >> cq->shift) - 1) & laps) <= laps / 2;
}

/*
 * For an SQ or RQ: returns true if the WQE before cons was retired without its completion. An
 * unsignaled send has no completion to check: it counts as unfinished, as do all WQEs from cons on.
 */
static inline bool
unfinished_retired(const struct uroce_ring_hdr *hdr, const struct unfinished_cq *cq)
{
	uint32_t done = __atomic_load_n(&hdr->done, __ATOMIC_ACQUIRE);

	return __atomic_load_n(&hdr->cons, __ATOMIC_ACQUIRE) != done &&
	       !unfinished_completed(cq, __atomic_load_n(&hdr->entry, __ATOMIC_ACQUIRE), done);
}

/* Returns true if a QP holds a WQE of its SRQ without its completion. srq_cons: the SRQ's cons. */
static inline bool
unfinished_held(const struct uroce_held *held, uint32_t srq_cons, const struct unfinished_cq *cq)
{
	uint32_t index = __atomic_load_n(&held->index, __ATOMIC_ACQUIRE);

	switch (__atomic_load_n(&held->state, __ATOMIC_ACQUIRE)) {
	case UROCE_HELD_TAKING:
		return srq_cons != index;
	case UROCE_HELD_TAKEN:
		return !unfinished_completed(cq, __atomic_load_n(&held->entry, __ATOMIC_ACQUIRE),
					     index);
	default:
		return false;
	}
}

#endif
