/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion queues: decoding, order, arming, and purging of a QP's completions. */
#include <errno.h>
#include <string.h>
#include "provider_fixture.h"

static void
complete(struct fixture *r, uint64_t wr_id, uint32_t qpn)
{
	fake_complete(r->f, 0, (struct uroce_cqe){.wr_id = wr_id, .qp_num = qpn});
}

static uint64_t
poll_id(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	return ibv_poll_cq(cq, 1, &wc) == 1 ? wc.wr_id : UINT64_MAX;
}

FIXTURE_TEST(completions_are_decoded)
{
	struct fixture *r = *state;
	struct ibv_wc wc;

	memset(&wc, 0xff, sizeof(wc));
	assert_int_equal(ibv_poll_cq(r->cq, 1, &wc), 0);
	fake_complete(r->f, 0,
		      (struct uroce_cqe){
			      .wr_id = 42,
			      .status = IBV_WC_REM_ACCESS_ERR,
			      .opcode = UROCE_CQE_RECV_RDMA_WITH_IMM,
			      .flags = UROCE_CQE_WITH_IMM | UROCE_CQE_GRH | UROCE_CQE_SOLICITED,
			      .byte_len = 1u << 31,
			      .imm = 0x01020304,
			      .qp_num = 0x100,
			      .src_qp = 0x200,
			      .vendor_err = 17,
			      .sl = 3,
		      });
	assert_int_equal(ibv_poll_cq(r->cq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, 42);
	assert_int_equal(wc.status, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(wc.wc_flags, IBV_WC_WITH_IMM | IBV_WC_GRH);
	assert_int_equal(wc.byte_len, 1u << 31);
	assert_int_equal(wc.imm_data, 0x01020304);
	assert_int_equal(wc.qp_num, 0x100);
	assert_int_equal(wc.src_qp, 0x200);
	assert_int_equal(wc.vendor_err, 17);
	assert_int_equal(wc.sl, 3);
	assert_int_equal(r->f->cq[0].hdr->cons, 1);
}

REQUIREMENT("CQ-01")
FIXTURE_TEST(completions_keep_order_over_many_laps)
{
	struct fixture *r = *state;
	struct ibv_wc wc[16];
	uint64_t in = 0, out = 0;

	/* bursts of changing size, so that the ring wraps at every position of a burst */
	for (unsigned int burst = 0; in < 500; burst++) {
		unsigned int n = burst % 16 + 1;
		int got;

		for (unsigned int i = 0; i < n; i++)
			complete(r, in++, 0x100);
		got = ibv_poll_cq(r->cq, 16, wc);
		assert_int_equal(got, n);
		for (int i = 0; i < got; i++)
			assert_int_equal(wc[i].wr_id, out++);
		assert_int_equal(ibv_poll_cq(r->cq, 16, wc), 0);
	}
}

REQUIREMENT("QP-10")
FIXTURE_TEST(purge_keeps_completions_of_other_qps)
{
	struct fixture *r = *state;
	struct ibv_qp *other = fixture_create_qp(r, IBV_QPT_RC);

	/* an odd start, so that the ring wraps within the purged entries */
	for (unsigned int i = 0; i < 10; i++) {
		complete(r, 0, 0x101);
		assert_int_equal(poll_id(r->cq), 0);
	}
	for (unsigned int i = 0; i < 16; i++)
		complete(r, i, i % 3 ? 0x100 : 0x101);
	fixture_qp_to(r->qp, IBV_QPS_RESET);
	for (unsigned int i = 0; i < 16; i += 3)
		assert_int_equal(poll_id(r->cq), i);
	assert_int_equal(poll_id(r->cq), UINT64_MAX);
	assert_int_equal(r->f->cq[0].hdr->cons, 26);
	/* all entries are free: purged completions take none */
	for (unsigned int i = 0; i < 16; i++)
		complete(r, 100 + i, 0x101);
	for (unsigned int i = 0; i < 16; i++)
		assert_int_equal(poll_id(r->cq), 100 + i);
	ibv_destroy_qp(other);
}

FIXTURE_TEST(purge_frees_entries_at_once)
{
	struct fixture *r = *state;

	complete(r, 1, 0x101);
	for (unsigned int i = 0; i < 10; i++)
		complete(r, 2, 0x100);
	fixture_qp_to(r->qp, IBV_QPS_RESET);
	assert_int_equal(r->f->cq[0].hdr->cons, 10);
	assert_int_equal(poll_id(r->cq), 1);
}

FIXTURE_TEST(purge_works_after_a_gap)
{
	struct fixture *r = *state;
	struct fake_cq *c = &r->f->cq[0];

	/* another worker has taken slot 1 but not released it yet */
	complete(r, 1, 0x101);
	complete(r, 2, 0x101);
	complete(r, 3, 0x100);
	complete(r, 4, 0x101);
	c->ring[1].phase = 0;
	fixture_qp_to(r->qp, IBV_QPS_RESET);
	assert_int_equal(poll_id(r->cq), 1);
	assert_int_equal(poll_id(r->cq), UINT64_MAX);
	c->ring[1].phase = 1;
	assert_int_equal(poll_id(r->cq), 2);
	assert_int_equal(poll_id(r->cq), 4);
}

REQUIREMENT("CQ-01")
FIXTURE_TEST(arm_raises_one_event)
{
	struct fixture *r = *state;
	struct uroce_cq_hdr *h = r->f->cq[0].hdr;

	assert_int_equal(h->arm, UROCE_CQ_UNARMED);
	assert_int_equal(ibv_req_notify_cq(r->cq, 1), 0);
	assert_int_equal(h->arm, UROCE_CQ_ARM_SOLICITED);
	assert_int_equal(ibv_req_notify_cq(r->cq, 0), 0);
	assert_int_equal(h->arm, UROCE_CQ_ARM_ANY);
	assert_int_equal(ibv_req_notify_cq(r->cq, 1), 0);
	assert_int_equal(h->arm, UROCE_CQ_ARM_ANY);
	h->arm = UROCE_CQ_UNARMED;
	assert_int_equal(ibv_req_notify_cq(r->cq, 1), 0);
	assert_int_equal(h->arm, UROCE_CQ_ARM_SOLICITED);
}

REQUIREMENT("CQ-02")
FIXTURE_TEST(resize_keeps_the_completions)
{
	struct fixture *r = *state;

	for (unsigned int i = 0; i < 5; i++)
		complete(r, i, 0x100 + i % 2);
	assert_int_equal(poll_id(r->cq), 0);
	assert_int_equal(ibv_resize_cq(r->cq, 64), 0);
	assert_int_equal(r->cq->cqe, 64);
	complete(r, 5, 0x100);
	/* and again before the first old ring is drained; then one QP is destroyed */
	assert_int_equal(ibv_resize_cq(r->cq, 8), 0);
	complete(r, 6, 0x100);
	complete(r, 7, 0x101);
	fixture_qp_to(r->qp, IBV_QPS_RESET);
	assert_int_equal(poll_id(r->cq), 1);
	assert_int_equal(poll_id(r->cq), 3);
	assert_int_equal(poll_id(r->cq), 7);
	assert_int_equal(poll_id(r->cq), UINT64_MAX);
	complete(r, 8, 0x100);
	assert_int_equal(poll_id(r->cq), 8);
}

REQUIREMENT("CQ-02")
FIXTURE_TEST(extended_poll_returns_the_same_completions)
{
	struct fixture *r = *state;
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 4,
		.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP,
	};
	struct ibv_poll_cq_attr none = {0};
	struct ibv_cq_ex *ex = prov_create_cq_ex(r->ctx, &attr);
	struct ibv_cq *cq = ibv_cq_ex_to_cq(ex);

	assert_non_null(ex);
	cq->context = r->ctx;
	pthread_mutex_init(&cq->mutex, NULL);
	pthread_cond_init(&cq->cond, NULL);
	assert_int_equal(ibv_start_poll(ex, &none), ENOENT);
	for (unsigned int i = 0; i < 3; i++)
		fake_complete(r->f, 1,
			      (struct uroce_cqe){
				      .wr_id = i,
				      .opcode = UROCE_CQE_RDMA_READ,
				      .byte_len = 10 * i,
				      .timestamp_ns = 1000 + i,
			      });
	assert_int_equal(ibv_start_poll(ex, &none), 0);
	assert_int_equal(ex->wr_id, 0);
	assert_int_equal(ibv_next_poll(ex), 0);
	assert_int_equal(ex->wr_id, 1);
	assert_int_equal(ex->status, IBV_WC_SUCCESS);
	assert_int_equal(ibv_wc_read_opcode(ex), IBV_WC_RDMA_READ);
	assert_int_equal(ibv_wc_read_byte_len(ex), 10);
	assert_int_equal(ibv_wc_read_completion_ts(ex), 1001);
	ibv_end_poll(ex); /* takes the one that was read */
	assert_int_equal(r->f->cq[1].hdr->cons, 2);
	assert_int_equal(ibv_start_poll(ex, &none), 0);
	assert_int_equal(ex->wr_id, 2);
	assert_int_equal(ibv_next_poll(ex), ENOENT);
	ibv_end_poll(ex);
	assert_int_equal(r->f->cq[1].hdr->cons, 3);
	assert_int_equal(ibv_start_poll(ex, &none), ENOENT);
	assert_int_equal(prov_destroy_cq(cq), 0);
	attr.wc_flags = IBV_WC_EX_WITH_CVLAN;
	assert_null(prov_create_cq_ex(r->ctx, &attr));
	assert_int_equal(errno, EOPNOTSUPP);
}

REQUIREMENT("EVT-08")
FIXTURE_TEST(dead_cq_fails_when_drained)
{
	struct fixture *r = *state;
	struct ibv_wc wc;

	complete(r, 1, 0x100);
	r->f->cq[0].hdr->error = 1;
	assert_int_equal(poll_id(r->cq), 1);
	assert_true(ibv_poll_cq(r->cq, 1, &wc) < 0);
}
