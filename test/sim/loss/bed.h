/* SPDX-License-Identifier: BSD-3-Clause */
/* The two ends: node 0 requests, node 1 responds. See link.h. */
#ifndef LOSS_BED_H
#define LOSS_BED_H

#include "link.h"
#include "engine/engine.h"

#define BED_DEPTH  64
#define BED_PLACES 4 /* messages are moved from and to so many places in turn */
#define BED_CQ     1024

enum bed_op { BED_WRITE, BED_SEND, BED_READ, BED_OPS };

struct bed_ring {
	struct uroce_ring_hdr *hdr;
	uint8_t *slots;
	uint32_t stride, prod;
};

struct bed_node {
	struct engine eng;
	struct obs_block obs;
	struct mr_table mrs;
	struct qp_table qps;
	struct qp_sqe_pool *sqes;
	struct mr mr;
	struct cq cq;
	struct uroce_cq_hdr *cq_hdr;
	uint32_t cq_cons;
	struct bed_ring sq, rq;
	struct qp *qp;
	uint8_t mac[6];
	uint64_t poll_ns; /* when the worker comes round next */
};

struct bed_run { /* what is to be moved, and how */
	enum bed_op op;
	uint32_t size, messages;
	uint32_t loss_ppm[2]; /* of frames from node 0 and from node 1 */
	uint8_t plain[2];     /* QP_PLAIN_ of the nodes */
	uint64_t seed;
	uint64_t most_ns; /* of virtual time */
};

struct bed_result {
	double gbps;
	uint32_t done;
	bool failed; /* a message failed, or bytes differ */
	uint64_t probes, timeouts, naks, gaps, resent, spurious;
};

/* Once: EAL and frames. */
void bed_open(void);
struct bed_result bed_measure(const struct bed_run *r);

#endif
