/* SPDX-License-Identifier: BSD-3-Clause */
/* Effects of responses on the requester (REQ-07 .. REQ-10, NAK-12, CQE-08 .. 11). */
#include <string.h>
#include "harness.h"

#define SQ  0x001000u
#define MTU 1024u

REQUIREMENT("REQ-07")
BENCH_TEST(read_response_acknowledges_earlier_requests)
{
	struct conn *c = conn_open(*state, conn_rc);

	client_does(c, 1, UROCE_WR_SEND, 8);
	client_does(c, 2, UROCE_WR_RDMA_WRITE, 8);
	client_does(c, 3, UROCE_WR_RDMA_READ, 2 * MTU);
	client_does(c, 4, UROCE_WR_SEND, 8);
	peer_read_resp(c, WIRE_OP_READ_RESP_FIRST, SQ + 2, 0, MTU);
	send_cqe(c, 1, QP_WC_SUCCESS);
	send_cqe(c, 2, QP_WC_SUCCESS);
	cqe_none(c);
	peer_read_resp(c, WIRE_OP_READ_RESP_LAST, SQ + 3, MTU, MTU);
	send_cqe(c, 3, QP_WC_SUCCESS);
	cqe_none(c);
	peer_ack(c, SQ + 4);
	send_cqe(c, 4, QP_WC_SUCCESS);
}

/* Every response to a PSN that is not in flight, of every kind, is dropped. */
REQUIREMENT("REQ-07")
BENCH_TEST(stale_and_unexpected_responses_are_dropped)
{
	static const uint8_t syn[] = {ACK_SYN,          WIRE_SYN_RNR | 1,    NAK_SYN(PSN_SEQ),
				      NAK_SYN(INV_REQ), NAK_SYN(REM_ACCESS), NAK_SYN(REM_OP)};
	static const uint32_t psn[] = {SQ - 1,        SQ, SQ + 1,  SQ + 4, SQ + 5, SQ + 0x7fffff,
				       SQ - 0x7fffff, 0,  0xffffff};
	struct conn *c = conn_open(*state, conn_rc);
	uint32_t i, j, n = 0;

	/* 0 and 1 are done, 2 and 3 in flight. */
	for (i = 0; i < 4; i++)
		client_does(c, i, UROCE_WR_SEND, 8);
	assert_int_equal(pkt_count(c), 4);
	peer_ack(c, SQ + 1);
	send_cqe(c, 0, QP_WC_SUCCESS);
	send_cqe(c, 1, QP_WC_SUCCESS);
	for (i = 0; i < sizeof(psn) / sizeof(psn[0]); i++) {
		for (j = 0; j < sizeof(syn); j++, n++)
			peer_nak(c, psn[i] & 0xffffff, syn[j]);
		peer_read_resp(c, WIRE_OP_READ_RESP_ONLY, psn[i] & 0xffffff, 0, 8);
		n++;
	}
	cqe_none(c);
	pkt_none(c);
	state_expect(c, QP_RTS);
	assert_int_equal(DROPS(c, STALE_RESP), n);
	peer_ack(c, SQ + 3);
	send_cqe(c, 2, QP_WC_SUCCESS);
	send_cqe(c, 3, QP_WC_SUCCESS);
}

REQUIREMENT("REQ-07")
BENCH_TEST(reserved_syndromes_are_dropped)
{
	struct conn *c = conn_open(*state, conn_rc);
	uint32_t syn, n = 0;

	client_does(c, 1, UROCE_WR_SEND, 8);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
	for (syn = 0; syn < 256; syn++) {
		if (syn < 0x40 || (syn >= 0x60 && syn <= 0x63))
			continue;
		peer_nak(c, SQ, (uint8_t)syn);
		n++;
	}
	cqe_none(c);
	pkt_none(c);
	assert_int_equal(DROPS(c, STALE_RESP), n);
	state_expect(c, QP_RTS);
}

/* READ data with a NAK or reserved syndrome does not complete the READ. */
REQUIREMENT("REQ-09")
BENCH_TEST(data_without_an_ack_syndrome_is_dropped)
{
	static const uint8_t op[] = {WIRE_OP_READ_RESP_ONLY, WIRE_OP_READ_RESP_FIRST,
				     WIRE_OP_READ_RESP_LAST, WIRE_OP_ATOMIC_ACK};
	uint32_t i, syn, n = 0;

	for (i = 0; i < sizeof(op); i++) {
		struct conn *c = conn_open(*state, conn_rc);
		bool only = i == 0, atomic = op[i] == WIRE_OP_ATOMIC_ACK;
		uint32_t len = atomic ? 8 : only ? 8 : 2 * MTU;
		uint32_t psn = op[i] == WIRE_OP_READ_RESP_LAST ? SQ + 1 : SQ;
		struct wire_fields f = {.opcode = op[i], .psn = psn};

		client_does(c, 1, atomic ? UROCE_WR_ATOMIC_FETCH_ADD : UROCE_WR_RDMA_READ, len);
		assert_int_equal(pkt_count(c), 1);
		memset(c->local->bytes, 0, 2 * MTU);
		if (psn != SQ)
			peer_read_resp(c, WIRE_OP_READ_RESP_FIRST, SQ, 0, MTU);
		for (syn = WIRE_SYN_RNR; syn < 256; syn++, n++) {
			f.syndrome = (uint8_t)syn;
			peer_put(c, f, 0, atomic ? 0 : only ? 8 : MTU);
		}
		cqe_none(c);
		state_expect(c, QP_RTS);
		assert_int_equal(DROPS(c, STALE_RESP), n);
		assert_int_equal(c->local->bytes[psn == SQ ? 0 : MTU], 0);
		/* The proper one completes it. */
		f.syndrome = ACK_SYN;
		peer_put(c, f, 0, atomic ? 0 : only ? 8 : MTU);
		if (op[i] == WIRE_OP_READ_RESP_FIRST)
			peer_read_resp(c, WIRE_OP_READ_RESP_LAST, SQ + 1, 0, MTU);
		send_cqe(c, 1, QP_WC_SUCCESS);
	}
}

/* After a rewind the ACK of packets sent before it may arrive. These are not sent again. */
REQUIREMENT("REQ-07")
BENCH_TEST(ack_that_arrives_after_a_rewind_completes_wqes)
{
	struct conn *c = conn_open(*state, conn_rc);
	uint32_t i;

	for (i = 0; i < 5; i++)
		client_does(c, i, UROCE_WR_SEND, 2 * MTU);
	assert_int_equal(pkt_count(c), 10);
	/* Both in one burst: the NAK's rewind, then the ACK. */
	peer_put(c,
		 (struct wire_fields){.opcode = WIRE_OP_ACK,
				      .psn = SQ,
				      .syndrome = NAK_SYN(PSN_SEQ)},
		 0, 0);
	peer_put(c, (struct wire_fields){.opcode = WIRE_OP_ACK, .psn = SQ + 6, .syndrome = ACK_SYN},
		 0, 0);
	for (i = 0; i < 3; i++)
		send_cqe(c, i, QP_WC_SUCCESS);
	cqe_none(c);
	pkt_expect(c, WIRE_OP_SEND_LAST, SQ + 7);
	pkt_expect(c, WIRE_OP_SEND_FIRST, SQ + 8);
	pkt_expect(c, WIRE_OP_SEND_LAST, SQ + 9);
	pkt_none(c);
	peer_ack(c, SQ + 9);
	send_cqe(c, 3, QP_WC_SUCCESS);
	send_cqe(c, 4, QP_WC_SUCCESS);
}

/* The same with unsignaled WQEs. */
REQUIREMENT("REQ-07")
BENCH_TEST(ack_after_a_rewind_completes_unsignaled_wqes)
{
	struct conn *c = conn_open(*state, conn_rc);
	uint32_t i;

	for (i = 0; i < 5; i++)
		post(c, (struct wr){.id = i, .op = UROCE_WR_RDMA_WRITE, .len = 8});
	assert_int_equal(pkt_count(c), 5);
	peer_put(c,
		 (struct wire_fields){.opcode = WIRE_OP_ACK,
				      .psn = SQ,
				      .syndrome = NAK_SYN(PSN_SEQ)},
		 0, 0);
	peer_put(c, (struct wire_fields){.opcode = WIRE_OP_ACK, .psn = SQ + 2, .syndrome = ACK_SYN},
		 0, 0);
	pkt_expect(c, WIRE_OP_WRITE_ONLY, SQ + 3);
	pkt_expect(c, WIRE_OP_WRITE_ONLY, SQ + 4);
	pkt_none(c);
	peer_ack(c, SQ + 4);
	cqe_none(c);
	assert_int_equal(c->sq.hdr->cons, 5);
}

/* Any credit count in an ACK is accepted. */
REQUIREMENT("REQ-07")
BENCH_TEST(ack_with_any_credit_count_acknowledges)
{
	struct conn *c = conn_open(*state, conn_rc);
	uint32_t i;

	for (i = 0; i < 32; i++) {
		client_does(c, i, UROCE_WR_SEND, 8);
		peer_nak(c, SQ + i, (uint8_t)i);
		send_cqe(c, i, QP_WC_SUCCESS);
	}
}

struct bad_resp {
	uint8_t wr_op, resp_op;
	uint32_t psn, len;
};

REQUIREMENT("REQ-09", "CQE-08")
BENCH_TEST(response_of_wrong_kind_or_length_ends_the_wqe)
{
	/* The request reads or writes 2 1/2 MTU. */
	static const struct bad_resp bad[] = {
		{UROCE_WR_SEND, WIRE_OP_READ_RESP_ONLY, 0, 8},
		{UROCE_WR_SEND, WIRE_OP_ATOMIC_ACK, 0, 0},
		{UROCE_WR_RDMA_WRITE, WIRE_OP_READ_RESP_FIRST, 0, MTU},
		{UROCE_WR_RDMA_READ, WIRE_OP_ATOMIC_ACK, 0, 0},
		{UROCE_WR_RDMA_READ, WIRE_OP_READ_RESP_ONLY, 0, MTU},
		{UROCE_WR_RDMA_READ, WIRE_OP_READ_RESP_LAST, 0, MTU},
		{UROCE_WR_RDMA_READ, WIRE_OP_READ_RESP_FIRST, 0, MTU - 4},
		{UROCE_WR_RDMA_READ, WIRE_OP_READ_RESP_FIRST, 0, MTU + 4},
		{UROCE_WR_RDMA_READ, WIRE_OP_READ_RESP_FIRST, 0, 0},
		{UROCE_WR_RDMA_READ, WIRE_OP_READ_RESP_ONLY, 0, MTU / 2},
		{UROCE_WR_RDMA_READ, WIRE_OP_READ_RESP_MIDDLE, 2, MTU / 2},
		{UROCE_WR_RDMA_READ, WIRE_OP_READ_RESP_LAST, 2, MTU / 2 - 1},
		{UROCE_WR_RDMA_READ, WIRE_OP_READ_RESP_LAST, 2, MTU / 2 + 1},
		{UROCE_WR_RDMA_READ, WIRE_OP_READ_RESP_LAST, 2, MTU},
	};
	uint32_t i, k;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct conn *c = conn_open(*state, conn_rc);

		memset(c->local->bytes, 0, BENCH_BYTES);
		client_does(c, 1, bad[i].wr_op, 2 * MTU + MTU / 2);
		client_does(c, 2, UROCE_WR_SEND, 8);
		for (k = 0; k < bad[i].psn; k++)
			peer_read_resp(c,
				       k == 0 ? WIRE_OP_READ_RESP_FIRST : WIRE_OP_READ_RESP_MIDDLE,
				       SQ + k, 0, MTU);
		pkt_count(c);
		peer_read_resp(c, bad[i].resp_op, SQ + bad[i].psn, 1, bad[i].len);
		send_cqe(c, 1, QP_WC_BAD_RESP_ERR);
		send_cqe(c, 2, QP_WC_WR_FLUSH_ERR);
		state_expect(c, QP_ERR);
		/* Nothing of it was written. */
		for (k = bad[i].psn * MTU; k < 4 * MTU; k++)
			assert_int_equal(c->local->bytes[k], 0);
	}
}

REQUIREMENT("CQE-08", "REQ-09")
BENCH_TEST(bad_response_is_reported_to_the_client)
{
	struct conn *c = conn_open(*state, conn_rc);

	recv_post(c, 9, 0, 8);
	client_does(c, 1, UROCE_WR_RDMA_READ, 8);
	peer_read_resp(c, WIRE_OP_READ_RESP_ONLY, SQ, 0, 7);
	send_cqe(c, 1, QP_WC_BAD_RESP_ERR);
	recv_cqe(c, 9, QP_WC_WR_FLUSH_ERR);
	cqe_none(c);
}

/* One NAK code: no retry, the status, state ERR, later WQEs flushed, earlier ones complete. */
static void
check_fatal_nak(void **state, uint8_t syn, enum qp_wc_status status)
{
	static const uint8_t ops[] = {UROCE_WR_SEND, UROCE_WR_RDMA_WRITE_IMM, UROCE_WR_RDMA_READ};
	uint32_t i;

	for (i = 0; i < sizeof(ops); i++) {
		struct conn *c = conn_open(*state, conn_rc);

		recv_post(c, 7, 0, 8);
		client_does(c, 1, UROCE_WR_SEND, 8);
		client_does(c, 2, ops[i], 3 * MTU);
		client_does(c, 3, UROCE_WR_SEND, 8);
		client_does(c, 4, UROCE_WR_RDMA_READ, 8);
		pkt_count(c);
		peer_nak(c, SQ + 1, syn);
		send_cqe(c, 1, QP_WC_SUCCESS);
		send_cqe(c, 2, status);
		send_cqe(c, 3, QP_WC_WR_FLUSH_ERR);
		send_cqe(c, 4, QP_WC_WR_FLUSH_ERR);
		recv_cqe(c, 7, QP_WC_WR_FLUSH_ERR);
		cqe_none(c);
		pkt_none(c);
		event_none(c->b); /* the completion reported it */
		state_expect(c, QP_ERR);
		assert_int_equal(OBS(c, REQ_FATAL_NAK), i + 1);
	}
}

REQUIREMENT("CQE-09", "NAK-12")
BENCH_TEST(nak_invalid_request_ends_the_wqe)
{
	check_fatal_nak(state, NAK_SYN(INV_REQ), QP_WC_REM_INV_REQ_ERR);
}

REQUIREMENT("CQE-10", "NAK-12")
BENCH_TEST(nak_remote_access_ends_the_wqe)
{
	check_fatal_nak(state, NAK_SYN(REM_ACCESS), QP_WC_REM_ACCESS_ERR);
}

REQUIREMENT("CQE-11", "NAK-12")
BENCH_TEST(nak_remote_operation_ends_the_wqe)
{
	check_fatal_nak(state, NAK_SYN(REM_OP), QP_WC_REM_OP_ERR);
}

/* A NAK in the middle of a message fails that message and flushes the next. */
REQUIREMENT("NAK-12")
BENCH_TEST(nak_in_the_middle_of_a_message_ends_it)
{
	struct conn *c = conn_open(*state, conn_rc);

	client_does(c, 1, UROCE_WR_SEND, 3 * MTU);
	client_does(c, 2, UROCE_WR_SEND, 8);
	assert_int_equal(pkt_count(c), 4);
	peer_nak(c, SQ + 1, NAK_SYN(INV_REQ));
	send_cqe(c, 1, QP_WC_REM_INV_REQ_ERR);
	send_cqe(c, 2, QP_WC_WR_FLUSH_ERR);
}

/*
 * A NAK follows a READ whose data is lost: the READ is retransmitted before the error is reported.
 */
REQUIREMENT("NAK-12")
BENCH_TEST(nak_waits_for_the_data_of_an_earlier_read)
{
	struct conn *c = conn_open(*state, conn_rc);

	client_does(c, 1, UROCE_WR_RDMA_READ, 8);
	client_does(c, 2, UROCE_WR_SEND, 8);
	assert_int_equal(pkt_count(c), 2);
	peer_nak(c, SQ + 1, NAK_SYN(REM_ACCESS));
	cqe_none(c);
	pkt_expect(c, WIRE_OP_READ_REQ, SQ);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 1);
	peer_read_resp(c, WIRE_OP_READ_RESP_ONLY, SQ, 0, 8);
	send_cqe(c, 1, QP_WC_SUCCESS);
	peer_nak(c, SQ + 1, NAK_SYN(REM_ACCESS));
	send_cqe(c, 2, QP_WC_REM_ACCESS_ERR);
}

REQUIREMENT("REQ-10", "CQE-05")
BENCH_TEST(wqes_after_the_failed_one_are_flushed_in_order)
{
	struct conn *c = conn_open(*state, conn_rc);
	uint32_t i;

	/* Some sent, some taken, some only posted; signaled or not. */
	for (i = 0; i < 30; i++)
		post(c, (struct wr){.id = i,
				    .op = i % 3 ? UROCE_WR_SEND : UROCE_WR_RDMA_READ,
				    .flags = i & 1 ? SIG : 0,
				    .len = 8});
	pkt_count(c);
	for (; i < 40; i++)
		post_quiet(c, (struct wr){.id = i, .op = UROCE_WR_SEND, .len = 8});
	c->sq.hdr->prod = c->sq.prod; /* without a doorbell */
	peer_nak(c, SQ, NAK_SYN(REM_OP));
	send_cqe(c, 0, QP_WC_REM_OP_ERR);
	for (i = 1; i < 40; i++)
		send_cqe(c, i, QP_WC_WR_FLUSH_ERR);
	cqe_none(c);
	assert_int_equal(c->sq.hdr->cons, 40);
}
