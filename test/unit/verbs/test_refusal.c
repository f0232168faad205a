/* SPDX-License-Identifier: BSD-3-Clause */
/* Why a post was refused, as the provider prints it (refusal.h). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "provider_fixture.h"

static int
post(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad = NULL;
	int rc = ibv_post_send(qp, wr, &bad);

	if (rc)
		assert_ptr_equal(bad, wr);
	return rc;
}

/* The reasons that the provider has printed. */
static char printed[4096];

void __wrap_prov_refusal_print(const char *who, const char *why);
void
__wrap_prov_refusal_print(const char *who, const char *why)
{
	size_t n = strlen(printed);

	snprintf(printed + n, sizeof(printed) - n, "%s: %s\n", who, why);
}

/* Only this was printed since the last call. */
static void
expect_printed(const char *text)
{
	assert_string_equal(printed, text);
	printed[0] = '\0';
}

REQUIREMENT("IMM-01", "IMM-02", "IMM-03")
FIXTURE_TEST(a_refused_post_prints_the_reason)
{
	struct fixture *r = *state;
	struct ibv_srq_init_attr sattr = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(r->pd, &sattr);
	struct ibv_sge sge = {.addr = (uintptr_t)printed, .length = 65};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_INLINE};
	struct ibv_recv_wr rwr = {.num_sge = -1}, *rbad;

	assert_non_null(srq);
	printed[0] = '\0';
	assert_int_equal(ibv_post_recv(r->qp, &rwr, &rbad), EINVAL);
	expect_printed("ibv_post_recv: QP 256: receive WRs need state INIT, and it is in RESET\n");
	fixture_qp_to(r->qp, IBV_QPS_INIT);
	assert_int_equal(post(r->qp, &wr), EINVAL);
	expect_printed("ibv_post_send: QP 256: send WRs need state RTS (or SQD, SQE, ERR), and it "
		       "is in INIT\n");
	fixture_qp_to(r->qp, IBV_QPS_RTS);
	assert_int_equal(post(r->qp, &wr), EINVAL);
	expect_printed("ibv_post_send: QP 256: 65 bytes with IBV_SEND_INLINE, but max_inline_data "
		       "is 64: request more when the QP is created\n");
	wr.opcode = IBV_WR_RDMA_READ;
	assert_int_equal(post(r->qp, &wr), EINVAL);
	expect_printed("ibv_post_send: QP 256: IBV_SEND_INLINE is not possible with opcode "
		       "RDMA_READ\n");
	wr.num_sge = 3;
	assert_int_equal(post(r->qp, &wr), EINVAL);
	expect_printed("ibv_post_send: QP 256: num_sge is 3, not in 0 .. 2 (max_send_sge)\n");
	wr.opcode = IBV_WR_TSO;
	assert_int_equal(post(r->qp, &wr), EINVAL);
	expect_printed("ibv_post_send: QP 256: opcode unknown (10) is not possible on a QP of type "
		       "RC\n");
	wr = (struct ibv_send_wr){.opcode = IBV_WR_BIND_MW};
	assert_int_equal(post(r->qp, &wr), EINVAL);
	expect_printed("ibv_post_send: QP 256: bind_mw.mw of a BIND_MW is NULL\n");
	assert_int_equal(ibv_post_recv(r->qp, &rwr, &rbad), EINVAL);
	expect_printed("ibv_post_recv: QP 256: num_sge is -1, not in 0 .. 2 (max_recv_sge)\n");
	assert_int_equal(ibv_post_srq_recv(srq, &rwr, &rbad), EINVAL);
	assert_non_null(strstr(printed, "ibv_post_srq_recv: SRQ "));
	assert_non_null(strstr(printed, ": num_sge is -1, not in 0 .. 1 (max_sge)\n"));
	printed[0] = '\0';
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

static struct ibv_qp_ex *
create_ex(struct fixture *r)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = r->cq,
		.recv_cq = r->cq,
		.cap = {.max_send_wr = 4, .max_send_sge = 2, .max_inline_data = 32},
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = r->pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_READ,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(r->ctx, &attr);

	return qp ? ibv_qp_to_qp_ex(qp) : NULL;
}

/* A list of builders is explained when it is completed; its first error counts. */
REQUIREMENT("IMM-01", "IMM-03")
FIXTURE_TEST(a_refused_list_prints_the_reason)
{
	struct fixture *r = *state;
	struct ibv_qp_ex *ex = create_ex(r);
	char big[33] = {0};

	assert_non_null(ex);
	printed[0] = '\0';
	ibv_wr_start(ex);
	assert_int_equal(ibv_wr_complete(ex), EINVAL);
	expect_printed("ibv_wr_complete: QP 257: send WRs need state RTS (or SQD, SQE, ERR), and "
		       "it is in RESET\n");
	fixture_qp_to(&ex->qp_base, IBV_QPS_RTS);
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_set_inline_data(ex, big, sizeof(big));
	ibv_wr_rdma_read(ex, 1, 2);
	ibv_wr_set_inline_data(ex, big, 1);
	assert_int_equal(ibv_wr_complete(ex), EINVAL);
	expect_printed("ibv_wr_complete: QP 257, type RC, max_send_sge 2, max_inline_data 32: more "
		       "inline data than max_inline_data\n");
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_set_inline_data(ex, big, 32);
	assert_int_equal(ibv_wr_complete(ex), 0);
	expect_printed("");
	ibv_destroy_qp(&ex->qp_base);
}

/* Some programs post until the queue is full: no reason then, unless they ask. */
REQUIREMENT("IMM-03")
FIXTURE_TEST(a_full_queue_is_explained_on_request)
{
	struct fixture *r = *state;
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};

	fixture_qp_to(r->qp, IBV_QPS_RTS);
	for (unsigned int i = 0; i < 8; i++)
		assert_int_equal(post(r->qp, &wr), 0);
	printed[0] = '\0';
	assert_int_equal(post(r->qp, &wr), ENOMEM);
	expect_printed("");
	setenv("UROCE_VERBOSE", "1", 1);
	assert_int_equal(post(r->qp, &wr), ENOMEM);
	unsetenv("UROCE_VERBOSE");
	expect_printed("ibv_post_send: QP 256: the queue is full: 8 WRs are outstanding\n");
}
