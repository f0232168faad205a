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
	uint32_t max_sge;
	uint32_t max_inline;
};

#endif
