/* SPDX-License-Identifier: BSD-3-Clause */
/* A context opened on the fake daemon, and the few objects that most tests need. */
#ifndef TEST_UNIT_VERBS_RIG_H
#define TEST_UNIT_VERBS_RIG_H

#include "../../kit/unit.h"
#include "fake.h"
#include "provider.h"

struct fixture {
	struct fake *f;
	struct verbs_device vdev;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq; /* 16 entries, on channel; fake's cq 0 */
	struct ibv_qp *qp; /* RC, 8 WRs, 2 SGEs, 64 bytes inline; fake's qp 0 */
};

/* cmocka setup and teardown: *state is a struct fixture with everything made. */
int fixture_setup(void **state);
int fixture_teardown(void **state);
#define FIXTURE_TEST(name) UNIT_TEST_IN(name, fixture_setup, fixture_teardown)

/* Opens a context on f; fixture_setup's first half, for tests of opening itself. NULL with errno.
 */
struct ibv_context *fixture_open(struct fixture *r);

/* One more QP on r's CQ, as fixture_setup's or with queues of another size. */
struct ibv_qp *fixture_create_qp(struct fixture *r, enum ibv_qp_type type);
struct ibv_qp *fixture_create_qp_of(struct fixture *r, enum ibv_qp_type type, uint32_t wrs);
/* Moves a QP to a state by as many modifies as it takes (the fake accepts them all). */
void fixture_qp_to(struct ibv_qp *qp, enum ibv_qp_state state);

#endif
