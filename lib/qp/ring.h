/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef QP_RING_H
#define QP_RING_H

#include <stdint.h>
#include <uroce_abi/ring.h>

/* A shared-memory queue as the daemon sees it: its own geometry, the client's bytes. */
struct qp_ring {
	struct uroce_ring_hdr *hdr; /* shared */
	uint8_t *slots;             /* shared */
	uint32_t mask;              /* entries - 1; entries a power of two */
	uint32_t stride;
	uint16_t max_sge;
	uint16_t max_inline;
	uint32_t prod; /* the client's, as its taker last read and checked it */
};

/*
 * Worker. The WQEs before cons are retired, the last of them has this wr_id: their slots go back to
 * the client. Before the completion can be seen, since a poll may be followed by a post.
 */
static inline void
qp_ring_retire(struct qp_ring *r, uint32_t cons, uint64_t wr_id)
{
	__atomic_store_n(&r->hdr->wr_id, wr_id, __ATOMIC_RELEASE);
	__atomic_store_n(&r->hdr->cons, cons, __ATOMIC_RELEASE);
}

/* Worker. And the completions of all of them are in the CQ (ring.h: CQE-15). */
static inline void
qp_ring_done(struct qp_ring *r, uint32_t cons)
{
	__atomic_store_n(&r->hdr->done, cons, __ATOMIC_RELEASE);
}

#endif
