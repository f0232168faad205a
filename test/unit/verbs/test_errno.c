/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How failures are reported: every operation of the provider's table is made to fail, and its
 * result and errno must be those of a kernel provider. A function that returns a number returns the
 * errno; libibverbs' own exceptions (rereg, poll) are in the table below.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "errno_fixture.h"
#include "mr_adopt.h"

/* --- the errno_fixture
 * ------------------------------------------------------------------------------------
 */

static void
errno_queues(struct errno_fixture *b)
{
	struct ibv_srq_init_attr sattr = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_qp_init_attr qattr = {
		.send_cq = b->r->cq,
		.recv_cq = b->r->cq,
		.cap = {.max_send_wr = 8, .max_send_sge = 1},
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp_init_attr_ex xattr = {
		.send_cq = b->r->cq,
		.recv_cq = b->r->cq,
		.cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = b->r->pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
	};
	struct ibv_cq_init_attr_ex cattr = {.cqe = 8};

	b->cq_ex = prov_create_cq_ex(b->r->ctx, &cattr);
	assert_non_null(b->cq_ex);
	b->cq_ex->context = b->r->ctx; /* libibverbs' part, which knows no device here */
	b->srq = ibv_create_srq(b->r->pd, &sattr);
	assert_non_null(b->srq);
	qattr.srq = b->srq;
	b->qp_srq = ibv_create_qp(b->r->pd, &qattr);
	b->qp_wr = ibv_create_qp_ex(b->r->ctx, &xattr);
	assert_true(b->qp_srq && b->qp_wr);
	b->qp_ex = ibv_qp_to_qp_ex(b->qp_wr);
	fixture_qp_to(b->qp_srq, IBV_QPS_RTS);
	fixture_qp_to(b->qp_wr, IBV_QPS_RTS);
}

static int
errno_setup(void **state)
{
	struct errno_fixture *b = calloc(1, sizeof(*b));
	struct ibv_td_init_attr tattr = {0};
	struct ibv_parent_domain_init_attr pattr;

	fixture_setup((void **)&b->r);
	b->td = ibv_alloc_td(b->r->ctx, &tattr);
	pattr = (struct ibv_parent_domain_init_attr){.pd = b->r->pd, .td = b->td};
	b->domain = ibv_alloc_parent_domain(b->r->ctx, &pattr);
	b->mr = ibv_reg_mr(b->r->pd, errno_memory, sizeof(errno_memory), 0);
	assert_true(b->td && b->domain && b->mr);
	b->mw = (struct ibv_mw){.context = b->r->ctx, .pd = b->r->pd, .type = IBV_MW_TYPE_1};
	b->ah = (struct ibv_ah){.context = b->r->ctx, .pd = b->r->pd};
	errno_queues(b);
	*state = b;
	return 0;
}

static int
errno_teardown(void **state)
{
	struct errno_fixture *b = *state;
	int rc;

	ibv_destroy_qp(b->qp_wr);
	ibv_destroy_qp(b->qp_srq);
	ibv_destroy_srq(b->srq);
	ibv_destroy_cq(ibv_cq_ex_to_cq(b->cq_ex));
	ibv_dereg_mr(b->mr);
	ibv_dealloc_pd(b->domain);
	ibv_dealloc_td(b->td);
	rc = fixture_teardown((void **)&b->r);
	free(b);
	return rc;
}

/* --- tests --------------------------------------------------------------------------------------
 */

#define TEST(name) UNIT_TEST_IN(name, errno_setup, errno_teardown)

TEST(failures_return_errno_and_do_not_set_it)
{
	struct errno_fixture *b = *state;

	for (size_t i = 0; i < nfailures; i++) {
		const struct failure *f = &failures[i];
		int rc, err;

		if (f->refuse)
			b->r->f->refuse[f->refuse] = (uint32_t)f->error;
		errno = STALE;
		rc = f->call(b);
		err = errno;
		if ((rc != f->error && rc != IS_NULL) || err != f->error)
			fail_msg("%s (row %zu): returned %d, errno %d; expected %d", f->op, i, rc,
				 err, f->error);
	}
}

static bool
covered(size_t slot)
{
	for (size_t i = 0; i < nfailures; i++) {
		if (failures[i].slot == slot)
			return true;
	}
	for (size_t i = 0; i < ninfallible; i++) {
		if (infallible[i] == slot)
			return true;
	}
	return false;
}

/* A new operation needs a row here. */
UNIT_TEST(every_operation_is_in_the_table)
{
	void (*const *op)(void) = (void (*const *)(void)) & prov_context_ops;

	for (size_t i = 0; i < sizeof(prov_context_ops) / sizeof(op[0]); i++) {
		if (op[i] && !covered(i * sizeof(op[0])))
			fail_msg("operation %zu of verbs_context_ops is in no row", i);
	}
}

/* Without a daemon: posts, polls and arms fail on this side, requests on the way. */
REQUIREMENT("EVT-14")
TEST(calls_without_a_daemon_fail)
{
	struct errno_fixture *b = *state;
	struct ibv_recv_wr rwr = {0}, *rbad = NULL;
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad = NULL;
	struct ibv_port_attr port;
	struct ibv_wc wc;
	int rc;

	fake_die(b->r->f);
#define FAILS_WITH(call, error)                                                                    \
	do {                                                                                       \
		errno = STALE;                                                                     \
		rc = (call);                                                                       \
		assert_int_equal(errno, error);                                                    \
		assert_int_equal(rc, error);                                                       \
	} while (0)
	FAILS_WITH(ibv_query_port(b->r->ctx, 1, &port), EIO);
	FAILS_WITH(ibv_post_send(b->qp_wr, &wr, &bad), EIO);
	assert_ptr_equal(bad, &wr);
	FAILS_WITH(ibv_post_recv(b->qp_wr, &rwr, &rbad), EIO);
	assert_ptr_equal(rbad, &rwr);
	rbad = NULL;
	FAILS_WITH(ibv_post_srq_recv(b->srq, &rwr, &rbad), EIO);
	assert_ptr_equal(rbad, &rwr);
	ibv_wr_start(b->qp_ex);
	ibv_wr_send(b->qp_ex);
	FAILS_WITH(ibv_wr_complete(b->qp_ex), EIO);
	while (ibv_poll_cq(b->r->cq, 1, &wc) > 0)
		;
	errno = STALE;
	assert_true(ibv_poll_cq(b->r->cq, 1, &wc) < 0);
	assert_int_equal(errno, EIO);
	FAILS_WITH(ibv_req_notify_cq(b->r->cq, 0), EIO);
	/* in use by a QP, which the daemon would report */
	FAILS_WITH(ibv_destroy_srq(b->srq), EBUSY);
	FAILS_WITH(ibv_destroy_cq(b->r->cq), EBUSY);
	FAILS_WITH(ibv_dealloc_pd(b->r->pd), EBUSY);
}

int
main(void)
{
	int failed = unit_run();

	/*
	 * LeakSanitizer stops all threads, and waits forever for one that moves pages: its mremap
	 * waits for another thread, which may be stopped already.
	 */
	mr_pieces_settle();
	return failed;
}
