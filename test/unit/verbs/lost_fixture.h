/* SPDX-License-Identifier: BSD-3-Clause */
/* Work for a daemon that will be lost, and what must become of it. */
#ifndef TEST_UNIT_VERBS_LOST_RIG_H
#define TEST_UNIT_VERBS_LOST_RIG_H

#include "provider_fixture.h"

#define SENT     1000 /* wr_ids: of sends, of receives, of an SRQ's receives */
#define RECEIVED 2000
#define SHARED   3000

/* Signaled SENDs (receives, receives of an SRQ) with the wr_ids first, first + 1 .. */
void post_sends(struct ibv_qp *qp, uint64_t first, unsigned int n);
void post_recvs(struct ibv_qp *qp, uint64_t first, unsigned int n);
void post_srq(struct ibv_srq *srq, uint64_t first, unsigned int n);
void send_flags(struct ibv_qp *qp, uint64_t id, enum ibv_wr_opcode op, unsigned int flags);

/* The daemon dies, and the context knows it. */
void daemon_dies(struct fixture *r);

/* One poll that finds something; -EIO and the like fail the test. */
struct ibv_wc poll_one(struct ibv_cq *cq);
void wc_expect(struct ibv_cq *cq, uint64_t id, enum ibv_wc_status status);
/* n WRs from first on, the oldest of their queue in front. */
void left_expect(struct ibv_cq *cq, uint64_t first, unsigned int n);
/* Nothing more, ever. */
void end_expect(struct ibv_cq *cq);

struct ibv_srq *srq_of(struct fixture *r, uint32_t wrs);
/* A QP in RTS with 8 WRs each way, or with an SRQ. */
struct ibv_qp *qp_on(struct fixture *r, struct ibv_cq *cq, struct ibv_srq *srq);

#endif
