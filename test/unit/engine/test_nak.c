/* SPDX-License-Identifier: BSD-3-Clause */
/* Sequence and RNR NAKs, and their order after earlier requests (NAK-01 .. 05, NAK-10). */
#include <string.h>
#include "harness.h"

#define RQ  0x555000u
#define MTU 1024u

static struct conn *
conn_empty(void **state)
{
	struct conn *c = conn_open(*state, conn_rc);

	memset(c->local->bytes, 0, BENCH_BYTES);
	return c;
}

REQUIREMENT("NAK-04")
BENCH_TEST(each_gap_gets_one_sequence_nak)
{
	struct conn *c = conn_empty(state);
	struct uroce_cqe cqe;
	uint32_t i;

	recv_post(c, 1, 0, MTU);
	recv_post(c, 2, MTU, MTU);
	peer_send(c, WIRE_OP_SEND_ONLY, RQ + 1, 0, 8);
	answer_expect(c, RQ, NAK_SYN(PSN_SEQ));
	for (i = 2; i < 20; i++)
		peer_send(c, WIRE_OP_SEND_ONLY, RQ + i, 0, 8);
	peer_read(c, RQ + 20, REMOTE_VA, 8);
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ + 21, REMOTE_VA, 8, 0, 8);
	pkt_none(c);
	cqe_none(c);
	assert_int_equal(c->rq.hdr->cons, 0); /* no receive WQE was used */
	assert_int_equal(c->remote->bytes[0], 0);
	assert_int_equal(OBS(c, RSP_SEQ_NAK), 1);
	assert_int_equal(DROPS(c, OUT_OF_SEQ), 20);
	/* After the ePSN has arrived, the next gap gets another NAK. */
	peer_send(c, WIRE_OP_SEND_ONLY, RQ, 0, 8);
	cqe = recv_cqe(c, 1, QP_WC_SUCCESS);
	assert_int_equal(cqe.byte_len, 8);
	ack_expect(c, RQ);
	peer_send(c, WIRE_OP_SEND_ONLY, RQ + 5, 0, 8);
	answer_expect(c, RQ + 1, NAK_SYN(PSN_SEQ));
	state_expect(c, QP_RTS);
}

/* Packets that change places within a burst: the NAK of the first is void before it is sent. */
REQUIREMENT("NAK-04")
BENCH_TEST(nak_that_is_not_sent_is_not_counted)
{
	struct conn *c = conn_empty(state);

	recv_post(c, 1, 0, MTU);
	recv_post(c, 2, MTU, MTU);
	recv_post(c, 3, 2 * MTU, MTU);
	peer_send(c, WIRE_OP_SEND_ONLY, RQ + 1, 0, 8);
	peer_send(c, WIRE_OP_SEND_ONLY, RQ, 0, 8);
	answer_expect(c, RQ + 1, NAK_SYN(PSN_SEQ));
	pkt_none(c);
	recv_cqe(c, 1, QP_WC_SUCCESS);
	assert_int_equal(OBS(c, RSP_SEQ_NAK), 1);
	peer_send(c, WIRE_OP_SEND_ONLY, RQ + 1, 0, 8);
	ack_expect(c, RQ + 1);
	recv_cqe(c, 2, QP_WC_SUCCESS);
	/* With the first packet again at the end nothing is missing, and no NAK is sent. */
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ + 3, REMOTE_VA, 8, 0, 8);
	peer_send(c, WIRE_OP_SEND_ONLY, RQ + 2, 0, 8);
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ + 3, REMOTE_VA, 8, 0, 8);
	ack_expect(c, RQ + 3);
	pkt_none(c);
	recv_cqe(c, 3, QP_WC_SUCCESS);
	assert_int_equal(OBS(c, RSP_SEQ_NAK), 1);
}

REQUIREMENT("NAK-04")
BENCH_TEST(duplicates_during_a_gap_are_answered)
{
	struct conn *c = conn_empty(state);

	recv_post(c, 1, 0, MTU);
	peer_send(c, WIRE_OP_SEND_ONLY, RQ, 0, 8);
	peer_read(c, RQ + 1, REMOTE_VA, 8);
	pkt_expect(c, WIRE_OP_READ_RESP_ONLY, RQ + 1);
	peer_send(c, WIRE_OP_SEND_ONLY, RQ + 5, 0, 8);
	answer_expect(c, RQ + 2, NAK_SYN(PSN_SEQ));
	peer_send(c, WIRE_OP_SEND_ONLY, RQ, 0, 8);
	ack_expect(c, RQ + 1);
	peer_read(c, RQ + 1, REMOTE_VA, 8);
	pkt_expect(c, WIRE_OP_READ_RESP_ONLY, RQ + 1);
	pkt_none(c);
	/* They end no gap. */
	peer_send(c, WIRE_OP_SEND_ONLY, RQ + 6, 0, 8);
	pkt_none(c);
}

/* A gap in the middle of a message: the received part stays and is continued. */
REQUIREMENT("NAK-04")
BENCH_TEST(gap_within_a_message_keeps_the_received_part)
{
	struct conn *c = conn_empty(state);

	recv_post(c, 1, 0, 4 * MTU);
	peer_send(c, WIRE_OP_SEND_FIRST, RQ, 0, MTU);
	ack_expect(c, RQ);
	peer_send(c, WIRE_OP_SEND_LAST, RQ + 2, 2 * MTU, 5);
	answer_expect(c, RQ + 1, NAK_SYN(PSN_SEQ));
	peer_send(c, WIRE_OP_SEND_MIDDLE, RQ + 1, MTU, MTU);
	peer_send(c, WIRE_OP_SEND_LAST, RQ + 2, 2 * MTU, 5);
	assert_int_equal(recv_cqe(c, 1, QP_WC_SUCCESS).byte_len, 2 * MTU + 5);
	assert_memory_equal(c->local->bytes, bench_bytes, 2 * MTU + 5);
	ack_expect(c, RQ + 2);
}

/* Over the wrap a packet of after it is after, one of before it a duplicate. */
REQUIREMENT("NAK-04", "WIRE-06")
BENCH_TEST(sequence_check_holds_over_the_psn_wrap)
{
	struct conn *c = conn_open(*state, CONN(cfg.rq_psn = 0xffffff));

	peer_write(c, WIRE_OP_WRITE_ONLY, 0, REMOTE_VA, 8, 0, 8);
	answer_expect(c, 0xffffff, NAK_SYN(PSN_SEQ));
	peer_write(c, WIRE_OP_WRITE_ONLY, 0xffffff, REMOTE_VA, 8, 0, 8);
	ack_expect(c, 0xffffff);
	peer_write(c, WIRE_OP_WRITE_ONLY, 0, REMOTE_VA, 8, 0, 8);
	ack_expect(c, 0);
	peer_write(c, WIRE_OP_WRITE_ONLY, 0xffffff, REMOTE_VA, 8, 0, 8);
	ack_expect(c, 0);
	assert_int_equal(OBS(c, RSP_DUP), 1);
}

REQUIREMENT("NAK-10")
BENCH_TEST(send_without_a_receive_gets_rnr_nak)
{
	static const uint8_t ops[] = {WIRE_OP_SEND_ONLY, WIRE_OP_SEND_FIRST, WIRE_OP_SEND_ONLY_IMM,
				      WIRE_OP_WRITE_ONLY_IMM};
	struct conn *c = conn_empty(state);
	uint32_t i;

	for (i = 0; i < sizeof(ops); i++) {
		bool first = ops[i] == WIRE_OP_SEND_FIRST;

		peer_write(c, ops[i], RQ, REMOTE_VA, 8, 0, first ? MTU : 8);
		answer_expect(c, RQ, WIRE_SYN_RNR | 12); /* the QP's min_rnr_timer */
		/* The next packet is not the ePSN and gets no response. */
		peer_send(c, first ? WIRE_OP_SEND_LAST : WIRE_OP_SEND_ONLY, RQ + 1, 0, 8);
		pkt_none(c);
	}
	cqe_none(c);
	assert_int_equal(c->remote->bytes[0], 0);
	assert_int_equal(OBS(c, RSP_RNR_NAK), 4);
	state_expect(c, QP_RTS);
	/* A receive is posted, then the request is retransmitted. */
	recv_post(c, 1, 0, MTU);
	pkt_none(c);
	peer_send(c, WIRE_OP_SEND_ONLY, RQ, 0, 8);
	recv_cqe(c, 1, QP_WC_SUCCESS);
	ack_expect(c, RQ);
}

REQUIREMENT("NAK-10")
BENCH_TEST(write_with_immediate_gets_rnr_nak_at_its_last_packet)
{
	struct conn *c = conn_empty(state);

	peer_write(c, WIRE_OP_WRITE_FIRST, RQ, REMOTE_VA, MTU + 8, 0, MTU);
	ack_expect(c, RQ);
	peer_write(c, WIRE_OP_WRITE_LAST_IMM, RQ + 1, 0, 0, MTU, 8);
	answer_expect(c, RQ + 1, WIRE_SYN_RNR | 12);
	assert_int_equal(c->remote->bytes[MTU], 0); /* not executed yet */
	recv_post(c, 1, 0, 0);
	peer_write(c, WIRE_OP_WRITE_LAST_IMM, RQ + 1, 0, 0, MTU, 8);
	assert_int_equal(recv_cqe(c, 1, QP_WC_SUCCESS).byte_len, MTU + 8);
	assert_memory_equal(c->remote->bytes, bench_bytes, MTU + 8);
	ack_expect(c, RQ + 1);
}

REQUIREMENT("NAK-10")
BENCH_TEST(rnr_nak_carries_every_timer_code)
{
	struct conn *c = conn_empty(state);
	struct uroce_qp_attr a = {0};
	uint32_t code;

	for (code = 0; code < 32; code++) {
		a.min_rnr_timer = (uint8_t)code;
		assert_int_equal(conn_modify(c, QP_MIN_RNR_TIMER, &a), 0);
		peer_send(c, WIRE_OP_SEND_ONLY, RQ, 0, 8);
		answer_expect(c, RQ, WIRE_SYN_RNR | code);
	}
}

/* All in one burst: requests before the invalid one are executed and answered or acknowledged. */
REQUIREMENT("NAK-02", "NAK-03")
BENCH_TEST(requests_before_the_refused_one_complete_first)
{
	struct conn *c = conn_empty(state);

	recv_post(c, 1, 0, MTU);
	memcpy(c->remote->bytes, bench_bytes, BENCH_BYTES);
	peer_send(c, WIRE_OP_SEND_ONLY, RQ, 0, 8);
	peer_read(c, RQ + 1, REMOTE_VA, 2 * MTU);
	peer_read(c, RQ + 3, REMOTE_VA - 1, 8);
	peer_send(c, WIRE_OP_SEND_ONLY, RQ + 4, 0, 8); /* later: dropped */
	recv_cqe(c, 1, QP_WC_SUCCESS);
	pkt_expect(c, WIRE_OP_READ_RESP_FIRST, RQ + 1);
	pkt_expect(c, WIRE_OP_READ_RESP_LAST, RQ + 2);
	/* NAK-03: the NAK replaces the response and has its PSN; nothing follows. */
	answer_expect(c, RQ + 3, NAK_SYN(REM_ACCESS));
	state_expect(c, QP_ERR);
	cqe_none(c);
}

REQUIREMENT("NAK-02")
BENCH_TEST(nak_acknowledges_earlier_requests)
{
	struct conn *c = conn_empty(state);

	peer_write(c, WIRE_OP_WRITE_ONLY, RQ, REMOTE_VA, 8, 0, 8);
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ + 2, REMOTE_VA, 8, 0, 8);
	answer_expect(c, RQ + 1, NAK_SYN(PSN_SEQ)); /* and no ACK beside it */
}

/* The region goes away between the request and the last of its responses. */
REQUIREMENT("NAK-03")
BENCH_TEST(read_whose_memory_is_deregistered_gets_nak)
{
	struct conn *c = conn_empty(state);
	struct wire_pkt p;

	region_by_ops(c->remote, UINT32_MAX);
	peer_read(c, RQ, REMOTE_VA, 3 * MTU);
	region_drop(c->b, c->remote);
	assert_true(pkt_poll(c, &p));
	assert_int_equal(p.opcode, WIRE_OP_ACK);
	assert_int_equal(p.syndrome, NAK_SYN(REM_ACCESS));
	assert_int_equal(p.psn, RQ);
	pkt_none(c);
	event_expect(c->b, QP_EVENT_QP_ACCESS_ERR);
	state_expect(c, QP_ERR);
}

/* The same while a later SEND is half received: its receive did not fail and is flushed. */
REQUIREMENT("NAK-09")
BENCH_TEST(failed_read_flushes_the_receive_of_a_later_send)
{
	struct conn *c = conn_empty(state);

	recv_post(c, 1, 0, 4 * MTU);
	peer_read(c, RQ, REMOTE_VA, MTU);
	peer_send(c, WIRE_OP_SEND_FIRST, RQ + 1, 0, MTU);
	region_drop(c->b, c->remote);
	answer_expect(c, RQ, NAK_SYN(REM_ACCESS));
	event_expect(c->b, QP_EVENT_QP_ACCESS_ERR);
	recv_cqe(c, 1, QP_WC_WR_FLUSH_ERR);
	cqe_none(c);
}

/* A duplicate that fails is ignored. */
REQUIREMENT("NAK-05")
BENCH_TEST(duplicates_get_no_nak)
{
	struct conn *c = conn_empty(state);

	recv_post(c, 1, 0, MTU);
	peer_send(c, WIRE_OP_SEND_ONLY, RQ, 0, 8);
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ + 1, REMOTE_VA, 8, 0, 8);
	peer_read(c, RQ + 2, REMOTE_VA, 8);
	recv_cqe(c, 1, QP_WC_SUCCESS);
	pkt_count(c);
	region_drop(c->b, c->remote);
	peer_read(c, RQ + 2, REMOTE_VA, 8);
	pkt_none(c);
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ + 1, REMOTE_VA, 8, 0, 8);
	ack_expect(c, RQ + 2);
	peer_send(c, WIRE_OP_SEND_ONLY, RQ, 0, 8); /* no receive is posted, and none is needed */
	ack_expect(c, RQ + 2);
	peer_write(c, WIRE_OP_WRITE_MIDDLE, RQ, 0, 0, 0, 3); /* out of every order */
	ack_expect(c, RQ + 2);
	state_expect(c, QP_RTS);
	event_none(c->b);
}

/*
 * The region is deregistered while a duplicate READ is answered: no NAK, and the QP stays in RTS.
 */
REQUIREMENT("NAK-05")
BENCH_TEST(failed_replay_gets_no_nak)
{
	struct conn *c = conn_empty(state);

	peer_read(c, RQ, REMOTE_VA, 8);
	pkt_expect(c, WIRE_OP_READ_RESP_ONLY, RQ);
	peer_read(c, RQ, REMOTE_VA, 8);
	region_drop(c->b, c->remote);
	pkt_none(c);
	state_expect(c, QP_RTS);
	event_none(c->b);
	recv_post(c, 1, 0, MTU);
	peer_send(c, WIRE_OP_SEND_ONLY, RQ + 1, 0, 8);
	ack_expect(c, RQ + 1);
}

/* Each of the five, by its number on the wire. */
REQUIREMENT("NAK-01")
BENCH_TEST(all_five_nak_codes_are_sent)
{
	struct conn_cfg cfg = conn_rc;
	uint32_t i;

	for (i = 0; i < 5; i++) {
		static const uint8_t syndrome[] = {0x60, 0x61, 0x62, 0x63, 0x20 | 12};
		struct conn *c;

		c = conn_open(*state, cfg);
		switch (i) {
		case 0:
			peer_send(c, WIRE_OP_SEND_ONLY, RQ + 1, 0, 8);
			break;
		case 1:
			peer_send(c, WIRE_OP_SEND_LAST, RQ, 0, 8);
			break;
		case 2:
			peer_write(c, WIRE_OP_WRITE_ONLY, RQ, REMOTE_VA - 1, 8, 0, 8);
			break;
		case 3:
			recv_post(c, 1, BENCH_BYTES, 8);
			peer_send(c, WIRE_OP_SEND_ONLY, RQ, 0, 8);
			break;
		case 4:
			peer_send(c, WIRE_OP_SEND_ONLY, RQ, 0, 8);
			break;
		}
		answer_expect(c, RQ, syndrome[i]);
		state_expect(c, i == 0 || i == 4 ? QP_RTS : QP_ERR);
	}
}
