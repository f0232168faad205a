/* SPDX-License-Identifier: BSD-3-Clause */
/* The daemon is lost: completion of the WRs of shared receive queues (CQE-15). */
#include <errno.h>
#include "lost_fixture.h"

/* An SRQ's WRs: complete, taken by one QP or the other, and not taken. */
REQUIREMENT("CQE-15")
UNIT_TEST(outstanding_wqes_of_an_srq_complete)
{
	static const enum fake_stop stops[] = {FAKE_WHOLE, FAKE_AT_TAKING, FAKE_AT_CONS,
					       FAKE_AT_TAKEN};
	struct fixture *r;

	for (unsigned int i = 0; i < sizeof(stops) / sizeof(stops[0]); i++) {
		bool second_has = stops[i] == FAKE_WHOLE || stops[i] == FAKE_AT_TAKEN;
		struct ibv_srq *srq;
		struct ibv_qp *qp[2];
		struct ibv_wc wc;

		fixture_setup(state);
		r = *state;
		srq = srq_of(r, 8);
		qp[0] = qp_on(r, r->cq, srq); /* fake's 1 and 2 */
		qp[1] = qp_on(r, r->cq, srq);
		post_srq(srq, SHARED, 5);
		fake_srq_take(r->f, 0, 1, FAKE_WHOLE);
		fake_srq_complete(r->f, 1, 0, FAKE_WHOLE);
		fake_srq_take(r->f, 0, 1, FAKE_WHOLE);
		fake_srq_take(r->f, 0, 2, stops[i]);
		daemon_dies(r);
		wc_expect(r->cq, SHARED, IBV_WC_SUCCESS);
		wc = poll_one(r->cq);
		assert_int_equal(wc.wr_id, SHARED + 1);
		assert_int_equal(wc.status, IBV_WC_FATAL_ERR);
		assert_int_equal(wc.qp_num, qp[0]->qp_num);
		left_expect(r->cq, SHARED + 2 + second_has, 3 - second_has);
		if (second_has) {
			wc = poll_one(r->cq);
			assert_int_equal(wc.wr_id, SHARED + 2);
			assert_int_equal(wc.status, IBV_WC_FATAL_ERR);
			assert_int_equal(wc.qp_num, qp[1]->qp_num);
		}
		end_expect(r->cq);
		assert_int_equal(ibv_destroy_srq(srq), EBUSY);
		assert_int_equal(ibv_destroy_qp(qp[0]), 0);
		assert_int_equal(ibv_destroy_qp(qp[1]), 0);
		assert_int_equal(ibv_destroy_srq(srq), 0);
		fixture_teardown(state);
	}
}

REQUIREMENT("CQE-15")
UNIT_TEST(srq_of_a_daemon_stopped_while_completing_loses_no_wqe)
{
	for (enum fake_stop stop = FAKE_AT_ENTRY; stop < FAKE_STOPS; stop++) {
		struct ibv_srq *srq;
		struct ibv_qp *qp;
		struct fixture *r;

		fixture_setup(state);
		r = *state;
		srq = srq_of(r, 8);
		qp = qp_on(r, r->cq, srq);
		post_srq(srq, SHARED, 3);
		fake_srq_take(r->f, 0, 1, FAKE_WHOLE);
		fake_srq_complete(r->f, 1, 0, FAKE_WHOLE);
		fake_srq_take(r->f, 0, 1, FAKE_WHOLE);
		fake_srq_complete(r->f, 1, 0, stop);
		daemon_dies(r);
		wc_expect(r->cq, SHARED, IBV_WC_SUCCESS);
		wc_expect(r->cq, SHARED + 1,
			  stop == FAKE_AT_DONE ? IBV_WC_SUCCESS : IBV_WC_FATAL_ERR);
		left_expect(r->cq, SHARED + 2, 1);
		end_expect(r->cq);
		ibv_destroy_qp(qp);
		ibv_destroy_srq(srq);
		fixture_teardown(state);
	}
}

/* WRs that no QP took complete in one CQ only. */
REQUIREMENT("CQE-15")
FIXTURE_TEST(srq_wqes_of_two_cqs_complete_once)
{
	struct fixture *r = *state;
	struct ibv_cq *second = ibv_create_cq(r->ctx, 8, NULL, NULL, 0);
	struct ibv_srq *srq = srq_of(r, 8);
	struct ibv_qp *qp[2] = {qp_on(r, r->cq, srq), qp_on(r, second, srq)};

	post_srq(srq, SHARED, 4);
	fake_srq_take(r->f, 0, 1, FAKE_WHOLE);
	fake_srq_take(r->f, 0, 2, FAKE_WHOLE);
	daemon_dies(r);
	left_expect(second, SHARED + 1, 1);
	left_expect(second, SHARED + 2, 2);
	end_expect(second);
	left_expect(r->cq, SHARED, 1);
	end_expect(r->cq);
	ibv_destroy_qp(qp[0]);
	ibv_destroy_qp(qp[1]);
	ibv_destroy_srq(srq);
	ibv_destroy_cq(second);
}
