/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion queues: entries, phases, arms, resize, overrun (CQ-01, CQ-02, CQE-01, EVT-08). */
#include <stdlib.h>
#include <string.h>
#include "harness.h"

#define SQ 0x001000u
#define RQ 0x555000u

static struct conn *
conn_with(void **state, uint32_t cq_entries, uint32_t wrs)
{
	struct conn_cfg cfg = conn_rc;

	cfg.cq_entries = cq_entries;
	cfg.sq_entries = cfg.rq_entries = wrs;
	return conn_open(*state, cfg);
}

static void
write_done(struct conn *c, uint64_t id, uint32_t psn)
{
	post(c, (struct wr){.id = id, .op = UROCE_WR_RDMA_WRITE, .flags = SIG, .len = 8});
	peer_ack(c, psn);
	bench_run(c->b);
}

static void
send_arrives(struct conn *c, uint32_t psn, bool solicited)
{
	recv_post(c, psn, 0, 64);
	peer_put(c,
		 (struct wire_fields){.opcode = WIRE_OP_SEND_ONLY,
				      .psn = psn,
				      .solicited = solicited},
		 0, 8);
	bench_run(c->b);
}

REQUIREMENT("CQE-01")
BENCH_TEST(send_completion_has_its_fields)
{
	struct conn *c = conn_with(state, 16, 16);
	struct uroce_cqe cqe;

	c->b->now = 123456789000;
	post(c, (struct wr){.id = 0x1122334455667788,
			    .op = UROCE_WR_SEND_IMM,
			    .flags = SIG,
			    .len = 100});
	peer_ack(c, SQ);
	cqe = send_cqe(c, 0x1122334455667788, QP_WC_SUCCESS);
	assert_int_equal(cqe.opcode, UROCE_CQE_SEND);
	assert_int_equal(cqe.vendor_err, 0);
	assert_true(cqe.timestamp_ns == 123456789000);
	assert_int_equal(OBS(c, CQE), 1);
	assert_int_equal(OBS(c, REQ_CQE_ERROR), 0);
}

REQUIREMENT("CQE-01")
BENCH_TEST(receive_completion_has_its_fields)
{
	static const uint16_t pkeys[UROCE_MAX_PKEYS] = {0x8001, 0, 0xffff};
	struct uroce_cqe cqe;
	struct conn *c = conn_open(*state, CONN(cfg.pkeys = pkeys, cfg.pkey_index = 2));

	recv_post(c, 77, 0, 64);
	peer_put(c,
		 (struct wire_fields){.opcode = WIRE_OP_SEND_ONLY_IMM,
				      .psn = RQ,
				      .imm = 0x0a0b0c0d,
				      .solicited = true},
		 0, 13);
	cqe = recv_cqe(c, 77, QP_WC_SUCCESS);
	assert_int_equal(cqe.opcode, UROCE_CQE_RECV);
	assert_int_equal(cqe.byte_len, 13);
	assert_int_equal(cqe.imm, 0x0a0b0c0d);
	assert_int_equal(cqe.flags, UROCE_CQE_WITH_IMM | UROCE_CQE_SOLICITED);
	assert_int_equal(cqe.src_qp, PEER_QPN);
	assert_int_equal(cqe.pkey_index, 2);
}

/* Over many laps of a small ring the phase of an old lap never counts as the current one. */
REQUIREMENT("CQ-01")
BENCH_TEST(phase_bit_holds_over_many_laps)
{
	struct conn *c = conn_with(state, 4, 4);
	struct uroce_cqe cqe;
	uint32_t i, n = 0;

	for (i = 0; i < 1000; i++) {
		uint32_t k, burst = 1 + i % 4;

		for (k = 0; k < burst; k++)
			post(c, (struct wr){.id = n + k, .op = UROCE_WR_SEND, .flags = SIG});
		pkt_count(c);
		peer_ack(c, (SQ + n + burst - 1) & 0xffffff);
		for (k = 0; k < burst; k++)
			send_cqe(c, n + k, QP_WC_SUCCESS);
		assert_false(cqe_poll(&c->scq, &cqe));
		n += burst;
	}
	assert_int_equal(c->scq.hdr->error, 0);
}

/* The free-running index itself wraps. */
REQUIREMENT("CQ-01")
BENCH_TEST(phase_bit_holds_when_the_index_wraps)
{
	struct conn *c = conn_with(state, 4, 4);
	uint32_t i;

	/* Starts as if 2^32 - 6 completions had been written and polled. */
	c->scq.cq.ring->prod = c->scq.cons = c->scq.hdr->cons = 0u - 6;
	for (i = 0; i < 20; i++) {
		write_done(c, i, SQ + i);
		send_cqe(c, i, QP_WC_SUCCESS);
		cqe_none(c);
	}
}

REQUIREMENT("CQ-01")
BENCH_TEST(arm_raises_one_event_only)
{
	struct conn *c = conn_with(state, 16, 16);

	write_done(c, 1, SQ);
	assert_int_equal(c->scq.channel, 0); /* not armed */
	c->scq.hdr->arm = UROCE_CQ_ARM_ANY;
	bench_run(c->b);
	assert_int_equal(c->scq.channel, 0); /* for later completions, not for present ones */
	write_done(c, 2, SQ + 1);
	assert_int_equal(c->scq.channel, 1);
	assert_int_equal(c->scq.hdr->arm, UROCE_CQ_UNARMED);
	write_done(c, 3, SQ + 2);
	assert_int_equal(c->scq.channel, 1);
	c->scq.hdr->arm = UROCE_CQ_ARM_ANY;
	write_done(c, 4, SQ + 3);
	assert_int_equal(c->scq.channel, 2);
	assert_int_equal(c->rcq.channel, 0); /* the other queue's business */
	assert_int_equal(OBS(c, CQ_EVENTS), 2);
}

/* Each of several resizes moves the arm and later completions to the new ring. */
REQUIREMENT("CQ-02", "CQ-01")
BENCH_TEST(arm_is_kept_over_each_resize)
{
	struct conn *c = conn_with(state, 16, 16);
	struct bench_cq *cq = &c->scq;
	uint32_t i;

	for (i = 0; i < 3; i++) {
		uint32_t entries = 32 << i;
		struct uroce_cq_hdr *old = cq->hdr,
				    *hdr = calloc(1, UROCE_CQ_HDR +
							     entries * sizeof(struct uroce_cqe));

		assert_non_null(hdr);
		old->arm = UROCE_CQ_ARM_ANY;
		cq_resize(&cq->cq, hdr, entries);
		cq_resized(&cq->cq);
		assert_int_equal(old->arm, UROCE_CQ_UNARMED);
		assert_int_equal(hdr->arm, UROCE_CQ_ARM_ANY);
		free(old);
		cq->hdr = hdr;
		cq->entries = entries;
		cq->cons = 0;
		write_done(c, i, SQ + i);
		assert_int_equal(cq->channel, i + 1);
		send_cqe(c, i, QP_WC_SUCCESS);
	}
}

REQUIREMENT("CQ-01")
BENCH_TEST(burst_of_completions_raises_one_event)
{
	struct conn *c = conn_with(state, 16, 16);
	uint32_t i;

	for (i = 0; i < 8; i++)
		post(c, (struct wr){.id = i, .op = UROCE_WR_SEND, .flags = SIG});
	c->scq.hdr->arm = UROCE_CQ_ARM_ANY;
	peer_ack(c, SQ + 7);
	bench_run(c->b);
	assert_int_equal(c->scq.channel, 1);
}

REQUIREMENT("CQ-01")
BENCH_TEST(solicited_arm_ignores_unsolicited_completions)
{
	struct conn *c = conn_with(state, 16, 16);

	c->rcq.hdr->arm = c->scq.hdr->arm = UROCE_CQ_ARM_SOLICITED;
	send_arrives(c, RQ, false);
	write_done(c, 1, SQ);
	assert_int_equal(c->rcq.channel, 0);
	assert_int_equal(c->scq.channel, 0); /* a send's completion is never solicited */
	assert_int_equal(c->rcq.hdr->arm, UROCE_CQ_ARM_SOLICITED);
	send_arrives(c, RQ + 1, true);
	assert_int_equal(c->rcq.channel, 1);
	assert_int_equal(c->rcq.hdr->arm, UROCE_CQ_UNARMED);
	/* An arm for any completion is also triggered by a solicited one. */
	c->rcq.hdr->arm = UROCE_CQ_ARM_ANY;
	send_arrives(c, RQ + 2, true);
	assert_int_equal(c->rcq.channel, 2);
}

/* Solicited first, not solicited after it, in one burst: it was among them. */
REQUIREMENT("CQ-01")
BENCH_TEST(solicited_completion_within_a_burst_raises_the_event)
{
	struct conn *c = conn_with(state, 16, 16);

	c->rcq.hdr->arm = UROCE_CQ_ARM_SOLICITED;
	recv_post(c, 1, 0, 8);
	recv_post(c, 2, 0, 8);
	peer_put(c, (struct wire_fields){.opcode = WIRE_OP_SEND_ONLY, .psn = RQ, .solicited = true},
		 0, 8);
	peer_put(c, (struct wire_fields){.opcode = WIRE_OP_SEND_ONLY, .psn = RQ + 1}, 0, 8);
	bench_run(c->b);
	assert_int_equal(c->rcq.channel, 1);
}

/* A failed completion triggers an arm for solicited ones. */
REQUIREMENT("CQ-01")
BENCH_TEST(errors_count_as_solicited)
{
	struct conn *c = conn_with(state, 16, 16);

	c->scq.hdr->arm = c->rcq.hdr->arm = UROCE_CQ_ARM_SOLICITED;
	recv_post(c, 2, 0, 8);
	post(c, (struct wr){.id = 1, .op = UROCE_WR_SEND, .flags = SIG});
	peer_nak(c, SQ, NAK_SYN(REM_OP));
	bench_run(c->b);
	assert_int_equal(c->scq.channel, 1);
	assert_int_equal(c->rcq.channel, 1);
}

/* Garbage in the arm word raises no event and does no harm. */
REQUIREMENT("CQ-01")
BENCH_TEST(garbage_in_the_arm_word_is_harmless)
{
	struct conn *c = conn_with(state, 16, 16);

	c->scq.hdr->arm = 0xdeadbeef;
	write_done(c, 1, SQ);
	assert_int_equal(c->scq.channel, 0);
	send_cqe(c, 1, QP_WC_SUCCESS);
}

/* One CQ serves both queues of two QPs: each entry names its QP, and entries keep their order. */
REQUIREMENT("CQ-01")
BENCH_TEST(several_qps_share_a_cq)
{
	struct conn *a = conn_with(state, 16, 16), *b = conn_with(state, 16, 16);
	struct bench_cq *cq = &a->scq;

	a->qp->bind.recv_cq = b->qp->bind.send_cq = b->qp->bind.recv_cq = &cq->cq;
	write_done(a, 1, SQ);
	send_arrives(b, RQ, false);
	write_done(b, 2, SQ);
	recv_post(a, 3, 0, 8);
	assert_int_equal(conn_to(b, QP_ERR), 0);
	write_done(a, 4, SQ + 1);
	send_cqe(a, 1, QP_WC_SUCCESS);
	cqe_expect_at(b, cq, RQ, QP_WC_SUCCESS, __FILE__, __LINE__);
	cqe_expect_at(b, cq, 2, QP_WC_SUCCESS, __FILE__, __LINE__);
	send_cqe(a, 4, QP_WC_SUCCESS);
	cqe_none(a);
	/* RESET writes no completions; the client purges unpolled completions of b. */
	write_done(a, 5, SQ + 2);
	assert_int_equal(conn_to(b, QP_RESET), 0);
	send_cqe(a, 5, QP_WC_SUCCESS);
	cqe_none(a);
}

REQUIREMENT("EVT-08")
BENCH_TEST(overrun_puts_the_cq_into_error)
{
	struct conn *c = conn_with(state, 4, 16);
	struct conn *other = conn_with(state, 4, 16);
	struct uroce_cqe last, ring[4];
	uint32_t i;

	for (i = 0; i < 4; i++)
		write_done(c, i, SQ + i);
	event_none(c->b);
	assert_int_equal(c->scq.hdr->error, 0);
	memcpy(&last, (uint8_t *)c->scq.hdr + UROCE_CQ_HDR, sizeof(last));
	write_done(c, 4, SQ + 4);
	event_expect(c->b, QP_EVENT_CQ_ERR);
	assert_ptr_equal(c->b->event[0].cq, &c->scq.cq);
	assert_null(c->b->event[0].qp);
	assert_int_equal(c->scq.hdr->error, 1);
	/* Nothing that was not polled has been written over. */
	assert_memory_equal(&last, (uint8_t *)c->scq.hdr + UROCE_CQ_HDR, sizeof(last));
	memcpy(ring, (uint8_t *)c->scq.hdr + UROCE_CQ_HDR, sizeof(ring));
	/* The CQ stays in error: polling frees no space, and the event came once. */
	for (i = 0; i < 4; i++)
		send_cqe(c, i, QP_WC_SUCCESS);
	write_done(c, 5, SQ + 5);
	cqe_none(c);
	assert_memory_equal(ring, (uint8_t *)c->scq.hdr + UROCE_CQ_HDR, sizeof(ring));
	event_none(c->b);
	/* Other QPs are not affected. */
	write_done(other, 9, SQ);
	send_cqe(other, 9, QP_WC_SUCCESS);
	event_none(c->b);
}

/* A wrong consumer index puts only its own CQ into error. */
REQUIREMENT("EVT-08")
BENCH_TEST(wrong_consumer_index_ends_its_own_cq_only)
{
	struct conn *c = conn_with(state, 4, 16);

	c->scq.hdr->cons = 1000;
	/* it is read only when the ring seems full */
	for (uint32_t i = 0; i < 4; i++)
		write_done(c, i, SQ + i);
	event_none(c->b);
	write_done(c, 4, SQ + 4);
	event_expect(c->b, QP_EVENT_CQ_ERR);
	assert_int_equal(c->scq.hdr->error, 1);
}
