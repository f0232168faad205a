/* SPDX-License-Identifier: BSD-3-Clause */
/* The flight recorder and the last fault of a QP (qp/recorder.h, qp/fault.h). */
#include <string.h>
#include "harness.h"
#include "qp/recorder.h"

#define SQ  0x001000u
#define RQ  0x555000u
#define MTU 1024u

/* The nth record from the end, 0: the last. */
static const struct qp_record *
last(const struct conn *c, uint32_t n)
{
	const struct qp_recorder *r = c->qp->bind.recorder;

	assert_true(r->count > n);
	return &r->record[(r->count - 1 - n) % QP_RECORDS];
}

static uint32_t
count(const struct conn *c)
{
	return c->qp->bind.recorder->count;
}

BENCH_TEST(in_order_packets_make_no_records)
{
	struct conn *c = conn_open(*state, conn_rc);
	uint32_t i, before = count(c);

	for (i = 0; i < 20; i++) {
		client_does(c, i, UROCE_WR_SEND, 2 * MTU);
		pkt_count(c);
		peer_ack(c, SQ + 2 * i + 1);
		send_cqe(c, i, QP_WC_SUCCESS);
		peer_write(c, WIRE_OP_WRITE_ONLY, RQ + i, REMOTE_VA, 8, 0, 8);
		ack_expect(c, RQ + i);
	}
	assert_int_equal(count(c), before);
}

BENCH_TEST(an_event_ends_the_runs_before_it)
{
	struct conn *c = conn_open(*state, conn_rc);
	uint32_t before;

	pkt_none(c);
	before = count(c);
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ, REMOTE_VA, 8, 0, 8);
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ + 1, REMOTE_VA, 8, 0, 8);
	ack_expect(c, RQ + 1);
	client_does(c, 1, UROCE_WR_SEND, 3 * MTU);
	client_does(c, 2, UROCE_WR_RDMA_WRITE, 8);
	pkt_count(c);
	peer_nak(c, SQ + 1, WIRE_SYN_NAK | WIRE_NAK_PSN_SEQ);
	assert_int_equal(pkt_count(c), 3); /* SQ + 1 .. SQ + 3 again */
	assert_int_equal(count(c), before + 5);
	assert_int_equal(last(c, 4)->kind, QP_RECORD_GOT);
	assert_int_equal(last(c, 4)->psn, RQ);
	assert_int_equal(last(c, 4)->n, 2);
	assert_true((last(c, 4)->arg | last(c, 4)->arg2 << 8) & WIRE_F_WRITE);
	assert_int_equal(last(c, 3)->kind, QP_RECORD_ANSWERED);
	assert_int_equal(last(c, 3)->psn, RQ + 1);
	assert_int_equal(last(c, 2)->kind, QP_RECORD_SENT);
	assert_int_equal(last(c, 2)->psn, SQ);
	assert_int_equal(last(c, 2)->n, 4);
	assert_int_equal(last(c, 2)->arg, 1 << UROCE_WR_SEND | 1 << UROCE_WR_RDMA_WRITE);
	assert_int_equal(last(c, 1)->kind, QP_RECORD_ACKED);
	assert_int_equal(last(c, 1)->psn, SQ);
	assert_int_equal(last(c, 0)->kind, QP_RECORD_NAK_GOT);
	assert_int_equal(last(c, 0)->psn, SQ + 1);
	/* The packets sent again are a run, which the next event ends. */
	peer_nak(c, SQ + 2, WIRE_SYN_NAK | WIRE_NAK_PSN_SEQ);
	pkt_count(c);
	assert_int_equal(last(c, 2)->kind, QP_RECORD_SENT_AGAIN);
	assert_int_equal(last(c, 2)->psn, SQ + 1);
	assert_int_equal(last(c, 2)->n, 3);
}

BENCH_TEST(repeated_duplicates_are_one_record)
{
	struct conn *c = conn_open(*state, conn_rc);
	uint32_t i, before;

	peer_write(c, WIRE_OP_WRITE_ONLY, RQ, REMOTE_VA, 8, 0, 8);
	ack_expect(c, RQ);
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ, REMOTE_VA, 8, 0, 8);
	pkt_count(c);
	before = count(c);
	for (i = 0; i < 99; i++) {
		peer_write(c, WIRE_OP_WRITE_ONLY, RQ, REMOTE_VA, 8, 0, 8);
		pkt_count(c);
	}
	assert_int_equal(count(c), before);
	assert_int_equal(last(c, 0)->kind, QP_RECORD_DUPLICATE);
	assert_int_equal(last(c, 0)->n, 100);
	assert_int_equal(last(c, 0)->psn, RQ);
}

BENCH_TEST(recorder_keeps_the_last_events_only)
{
	struct conn *c = conn_open(*state, conn_rc);
	uint8_t after[sizeof(struct qp_recorder)];
	uint32_t i;

	for (i = 0; i < 5 * QP_RECORDS; i++)
		qp_record(&c->b->engine.env, c->qp, QP_RECORD_MODIFIED, 0, 0, i);
	for (i = 0; i < QP_RECORDS; i++)
		assert_int_equal(last(c, i)->n, 5 * QP_RECORDS - 1 - i);
	qp_recorder_copy((struct qp_recorder *)(void *)after, c->qp->bind.recorder);
	assert_memory_equal(after, c->qp->bind.recorder, sizeof(after));
	assert_true(sizeof(struct qp_recorder) <= 1024 + 192);
}

REQUIREMENT("CQE-16")
BENCH_TEST(refused_key_is_named_with_key_address_and_peer)
{
	struct conn *c = conn_open(*state, conn_rc);
	const struct qp_fault *f = &c->qp->bind.recorder->fault;

	recv_post(c, 7, 0, 64);
	peer_put(c,
		 (struct wire_fields){.opcode = WIRE_OP_WRITE_ONLY,
				      .psn = RQ,
				      .va = REMOTE_VA + 8,
				      .rkey = 0x12345678,
				      .dmalen = 8,
				      .ackreq = true},
		 0, 8);
	answer_expect(c, RQ, NAK_SYN(REM_ACCESS));
	assert_int_equal(f->reason, UROCE_ERROR_RKEY_UNKNOWN);
	assert_int_equal(f->side, QP_SIDE_RESPONDER);
	assert_int_equal(f->psn, RQ);
	assert_int_equal(f->key, 0x12345678);
	assert_true(f->addr == REMOTE_VA + 8);
	assert_int_equal(f->length, 8);
	assert_int_equal(f->peer_qpn, PEER_QPN);
	assert_memory_equal(f->peer, c->qp->conn.dgid, 16);
	assert_true(f->fatal);
	/* Its receives are flushed for the same reason. */
	assert_int_equal(recv_cqe(c, 7, QP_WC_WR_FLUSH_ERR).vendor_err, UROCE_ERROR_RKEY_UNKNOWN);
	event_expect(c->b, QP_EVENT_QP_ACCESS_ERR);
	assert_int_equal(last(c, 0)->kind, QP_RECORD_STATE);
	assert_int_equal(last(c, 0)->arg, QP_ERR);
}

BENCH_TEST(a_modify_is_recorded_with_its_attributes)
{
	struct conn *c = conn_open(*state, conn_rc);
	uint32_t before = count(c);
	struct uroce_qp_attr attr = {.min_rnr_timer = 7};

	assert_int_equal(conn_modify(c, QP_MIN_RNR_TIMER, &attr), 0);
	assert_int_equal(count(c), before + 1);
	assert_int_equal(last(c, 0)->kind, QP_RECORD_MODIFIED);
	assert_int_equal(last(c, 0)->n, QP_MIN_RNR_TIMER);
}

BENCH_TEST(refused_request_is_not_among_the_executed_ones)
{
	struct conn *c = conn_open(*state, conn_rc);

	recv_post(c, 7, 0, 64);
	peer_send(c, WIRE_OP_SEND_ONLY, RQ, 0, 8);
	recv_cqe(c, 7, QP_WC_SUCCESS);
	ack_expect(c, RQ);
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ + 1, REMOTE_VA - 8, 8, 0, 8);
	answer_expect(c, RQ + 1, NAK_SYN(REM_ACCESS));
	event_expect(c->b, QP_EVENT_QP_ACCESS_ERR);
	for (uint32_t i = 0; i < count(c); i++) {
		uint32_t ops = last(c, i)->arg | last(c, i)->arg2 << 8;

		if (last(c, i)->kind != QP_RECORD_GOT)
			continue;
		assert_true(ops & WIRE_F_SEND);
		assert_false(ops & WIRE_F_WRITE);
		assert_int_equal(last(c, i)->n, 1);
		return;
	}
	fail();
}

REQUIREMENT("CQE-16")
BENCH_TEST(first_fault_counts)
{
	struct conn *c = conn_open(*state, conn_rc);
	const struct qp_fault *f = &c->qp->bind.recorder->fault;

	client_does(c, 1, UROCE_WR_SEND, 8);
	client_does(c, 2, UROCE_WR_SEND, 8);
	pkt_count(c);
	peer_nak(c, SQ, WIRE_SYN_NAK | WIRE_NAK_REM_OP);
	assert_int_equal(send_cqe(c, 1, QP_WC_REM_OP_ERR).vendor_err,
			 UROCE_ERROR_NAK_REMOTE_OPERATION);
	assert_int_equal(send_cqe(c, 2, QP_WC_WR_FLUSH_ERR).vendor_err,
			 UROCE_ERROR_NAK_REMOTE_OPERATION);
	qp_fault_set(&c->b->engine.env, c->qp,
		     &(struct qp_fault){.reason = UROCE_ERROR_CQ_OVERRUN});
	assert_int_equal(f->reason, UROCE_ERROR_NAK_REMOTE_OPERATION);
	assert_int_equal(f->opcode, UROCE_WR_SEND);
	assert_int_equal(conn_to(c, QP_RESET), 0);
	assert_int_equal(c->qp->conn.why, 0);
	assert_int_equal(f->reason, UROCE_ERROR_NAK_REMOTE_OPERATION); /* kept to be read */
}

REQUIREMENT("CQE-05")
BENCH_TEST(flush_by_the_program_says_so)
{
	struct conn *c = conn_open(*state, conn_rc);

	recv_post(c, 7, 0, 64);
	assert_int_equal(conn_to(c, QP_ERR), 0);
	assert_int_equal(recv_cqe(c, 7, QP_WC_WR_FLUSH_ERR).vendor_err, UROCE_ERROR_MOVED);
	assert_int_equal(c->qp->bind.recorder->fault.reason, UROCE_ERROR_NONE);
}

UNIT_TEST(every_reason_has_word_sentence_and_remedy)
{
	uint32_t n = 0;

	for (uint32_t why = 1; why <= UINT16_MAX; why++) {
		if (uroce_error_word(why) == NULL)
			continue;
		n++;
		assert_true(*uroce_error_word(why) != '\0' && *uroce_error_sentence(why) != '\0' &&
			    *uroce_error_remedy(why) != '\0');
	}
	assert_true(n > 60);
	assert_null(uroce_error_word(0));
}
