/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef QP_RING_H
#define QP_RING_H

#include <stdint.h>
#include <uroce_abi/ring.h>

/* A shared-memory queue in the daemon: private geometry, shared contents. */
struct qp_ring {
	struct uroce_ring_hdr *hdr; /* shared */
	uint8_t *slots;             /* shared */
	uint32_t mask;              /* entries - 1; entries a power of two */
	uint32_t stride;
	uint16_t max_sge;
	uint16_t max_inline;
	uint32_t prod; /* the client's index, as last read and checked */
};

/*
 * Worker. The WQEs before cons are retired; wr_id: of the last one. Returns their slots to the
 * client. Called before their completion is posted, because the client may post right after polling
 * it.
 */
static inline void
qp_ring_retire(struct qp_ring *r, uint32_t cons, uint64_t wr_id)
{
	__atomic_store_n(&r->hdr->wr_id, wr_id, __ATOMIC_RELEASE);
	__atomic_store_n(&r->hdr->cons, cons, __ATOMIC_RELEASE);
}

/* Worker. The completions of all these WQEs are in the CQ (ring.h: CQE-15). */
static inline void
qp_ring_done(struct qp_ring *r, uint32_t cons)
{
	__atomic_store_n(&r->hdr->done, cons, __ATOMIC_RELEASE);
}

#endif
