/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copied memory that is late, for a request on RC: the request waits and is tried again
 * (engine/rx_late.c). RNR NAKs are for peers that cannot wait longer.
 */
#include <errno.h>
#include "harness.h"
#include "wire/sack.h"

#define RQ          conn_rc.rq_psn
#define RETRY_NS    100000u  /* of engine/rx_late.c */
#define PATIENCE_NS 5000000u /* of engine/rx_late.c */

static struct conn *
conn_late(void **state)
{
	struct conn *c = conn_open(*state, conn_rc);

	region_by_ops(c->local, UINT32_MAX);
	region_by_ops(c->remote, UINT32_MAX);
	return c;
}

/* Expects an RNR NAK of psn with this timer code. */
static void
rnr_expect(struct conn *c, uint32_t psn, uint32_t code)
{
	answer_expect(c, psn, WIRE_SYN_RNR | code);
}

/* A request waits for its memory, and those behind it wait with it. */
REQUIREMENT("MEM-05", "NAK-04")
BENCH_TEST(late_write_is_tried_again)
{
	struct conn *c = conn_late(state);

	c->remote->late = 3;
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ, REMOTE_VA, 100, 0, 100);
	for (int left = 2; left != 0; left--) {
		bench_pass(c->b, RETRY_NS - 1);
		assert_int_equal(c->remote->late, left);
		bench_pass(c->b, 1);
		pkt_none(c);
	}
	assert_int_equal(c->remote->late, 0);
	bench_pass(c->b, RETRY_NS);
	ack_expect(c, RQ);
	assert_memory_equal(c->remote->bytes, bench_bytes, 100);
	assert_int_equal(DROPS(c, MEMORY_LATE), 0);
	c->remote->late = 1;
	for (uint32_t i = 1; i < 4; i++)
		peer_write(c, WIRE_OP_WRITE_ONLY, RQ + i, REMOTE_VA, 100, 100 * i, 100);
	pkt_none(c);
	assert_int_equal(c->b->engine.late.n, 3);
	bench_pass(c->b, RETRY_NS);
	ack_expect(c, RQ + 3);
	assert_memory_equal(c->remote->bytes, bench_bytes + 300, 100);
	assert_int_equal(DROPS(c, MEMORY_LATE), 0);
	assert_int_equal(OBS(c, RX_ROCE), 4);
	assert_int_equal(OBS(c, RSP_RNR_NAK), 0);
}

/* The peer has retransmitted all of them: copies take no places, and nothing is executed twice. */
REQUIREMENT("MEM-05", "RSP-01")
BENCH_TEST(retransmissions_of_requests_that_wait_are_dropped)
{
	struct conn *c = conn_late(state);

	c->remote->late = 2;
	for (uint32_t i = 0; i < 6; i++)
		peer_write(c, WIRE_OP_WRITE_ONLY, RQ + i % 3, REMOTE_VA + 100 * (i % 3), 100,
			   100 * (i % 3), 100);
	pkt_none(c);
	assert_int_equal(c->b->engine.late.n, 3);
	assert_int_equal(DROPS(c, MEMORY_LATE), 3);
	bench_pass(c->b, RETRY_NS);
	ack_expect(c, RQ + 2);
	assert_int_equal(c->remote->late, 0);
	assert_memory_equal(c->remote->bytes, bench_bytes, 300);
	assert_int_equal(c->qp->conn.rcv.msn, 3);
	/* Another time the memory answers to the first retransmission, before they are tried again.
	 */
	c->remote->late = 1;
	for (uint32_t i = 0; i < 3; i++)
		peer_write(c, WIRE_OP_WRITE_ONLY, RQ + 3 + i, REMOTE_VA, 100, 0, 100);
	pkt_none(c);
	for (uint32_t i = 0; i < 2; i++)
		peer_write(c, WIRE_OP_WRITE_ONLY, RQ + 3 + i, REMOTE_VA, 100, 0, 100);
	ack_expect(c, RQ + 4);
	bench_pass(c->b, RETRY_NS);
	ack_expect(c, RQ + 5);
	assert_int_equal(c->qp->conn.rcv.msn, 6);
	assert_int_equal(OBS(c, RSP_SEQ_NAK), 0);
}

/* A request that the network has lost is asked for once the memory has answered. */
REQUIREMENT("MEM-05", "NAK-04")
BENCH_TEST(gap_behind_a_late_request_is_asked_for)
{
	struct conn *c = conn_late(state);

	c->remote->late = 1;
	for (uint32_t i = 0; i < 5; i++) {
		if (i != 2)
			peer_write(c, WIRE_OP_WRITE_ONLY, RQ + i, REMOTE_VA, 100, 0, 100);
	}
	pkt_none(c);
	bench_pass(c->b, RETRY_NS);
	answer_expect(c, RQ + 2, NAK_SYN(PSN_SEQ));
	pkt_none(c);
	assert_int_equal(c->b->engine.late.n, 0);
	for (uint32_t i = 2; i < 5; i++)
		peer_write(c, WIRE_OP_WRITE_ONLY, RQ + i, REMOTE_VA, 100, 0, 100);
	ack_expect(c, RQ + 4);
}

/* Requests that found no place are asked for, too, and leave places for other QPs of the user. */
REQUIREMENT("MEM-05", "NAK-04", "NAK-10")
BENCH_TEST(requests_without_a_place_are_asked_for)
{
	struct conn *c = conn_late(state), *other[3];

	c->remote->late = 1;
	for (uint32_t i = 0; i < RX_LATE_CAP / 2; i++)
		peer_write(c, WIRE_OP_WRITE_ONLY, RQ + i, REMOTE_VA, 100, 0, 100);
	pkt_none(c);
	assert_int_equal(c->b->engine.late.n, RX_LATE_CAP / 4);
	assert_int_equal(DROPS(c, MEMORY_LATE), RX_LATE_CAP / 4);
	for (uint32_t i = 0; i < 3; i++) {
		struct conn_cfg cfg = conn_rc;

		cfg.qpn = BENCH_QPN + 2 * (i + 1);
		other[i] = conn_open(*state, cfg);
		region_by_ops(other[i]->remote, UINT32_MAX);
		other[i]->remote->late = 1;
		for (uint32_t k = 0; k < RX_LATE_CAP / 4; k++)
			peer_write(other[i], WIRE_OP_WRITE_ONLY, RQ + k, REMOTE_VA, 100, 0, 100);
	}
	assert_in_range(c->b->engine.late.n, RX_LATE_CAP / 4 + 3, RX_LATE_CAP / 2 - 1);
	bench_pass(c->b, RETRY_NS);
	assert_int_equal(c->qp->conn.rcv.nak_psn, RQ + RX_LATE_CAP / 4);
	assert_int_equal(OBS(c, RSP_SEQ_NAK), 4); /* one for each QP */
	assert_int_equal(OBS(c, RSP_RNR_NAK), 0);
	assert_int_equal(c->b->engine.late.n, 0);
}

/* Their payload is written at once, except that of the one that was late. */
REQUIREMENT("MEM-05", "RSP-01")
BENCH_TEST(sends_that_wait_are_written_at_once)
{
	struct conn *c = conn_late(state);

	for (uint32_t i = 0; i < 8; i++)
		recv_post(c, i, 100 * i, 100);
	c->local->late = 1;
	for (uint32_t i = 0; i < 8; i++)
		peer_send(c, WIRE_OP_SEND_ONLY, RQ + i, 100 * i, 100);
	pkt_none(c);
	cqe_none(c);
	bench_pass(c->b, RETRY_NS);
	ack_expect(c, RQ + 7);
	for (uint32_t i = 0; i < 8; i++)
		recv_cqe(c, i, QP_WC_SUCCESS);
	assert_memory_equal(c->local->bytes, bench_bytes, 800);
	assert_int_equal(c->local->stores, 2);
}

/* A peer whose ACK timeout has expired gets RNR NAKs, with growing waits; it uses up no retries. */
REQUIREMENT("MEM-05", "NAK-10")
BENCH_TEST(peer_that_retransmits_is_answered_with_rnr)
{
	static const uint8_t code[] = {12, 16, 20, 24, 28, 0, 0};
	struct conn *c = conn_late(state);

	c->remote->late = 1000;
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ, REMOTE_VA, 100, 0, 100);
	bench_pass(c->b, PATIENCE_NS - 1);
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ, REMOTE_VA, 100, 0, 100);
	pkt_none(c);
	bench_pass(c->b, 1);
	for (uint32_t i = 0; i < sizeof(code); i++) {
		peer_write(c, WIRE_OP_WRITE_ONLY, RQ, REMOTE_VA, 100, 0, 100);
		peer_write(c, WIRE_OP_WRITE_ONLY, RQ + 1, REMOTE_VA, 100, 0, 100);
		rnr_expect(c, RQ, code[i]);
		peer_write(c, WIRE_OP_WRITE_ONLY, RQ + 1, REMOTE_VA, 100, 0, 100);
		pkt_none(c);
	}
	assert_int_equal(DROPS(c, MEMORY_LATE), 3 * sizeof(code)); /* RQ + 1 waits, too */
	assert_int_equal(OBS(c, RSP_SEQ_NAK), 0);
	c->remote->late = 0;
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ, REMOTE_VA, 100, 0, 100);
	ack_expect(c, RQ);
	assert_int_equal(c->remote->stores, 1);
	assert_memory_equal(c->remote->bytes, bench_bytes, 100);
	bench_pass(c->b, RETRY_NS); /* the one that waited first is not executed again */
	ack_expect(c, RQ + 1);
	assert_int_equal(c->remote->stores, 2);
	pkt_none(c);
}

/* Without a place to wait a request is dropped with an RNR NAK at once. */
REQUIREMENT("MEM-05", "NAK-10")
BENCH_TEST(late_write_without_a_place_is_answered_with_rnr)
{
	struct conn *c = conn_late(state);

	c->b->engine.late.n = RX_LATE_CAP;
	c->remote->late = 1;
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ, REMOTE_VA, 100, 0, 100);
	c->b->engine.late.n = 0;
	rnr_expect(c, RQ, 12);
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ, REMOTE_VA, 100, 0, 100);
	ack_expect(c, RQ);
	/* The next that is late begins with the shortest wait. */
	c->b->engine.late.n = RX_LATE_CAP;
	c->remote->late = 1;
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ + 1, REMOTE_VA, 100, 0, 100);
	c->b->engine.late.n = 0;
	rnr_expect(c, RQ + 1, 12);
}

/* With selective repeat the requests behind it are held. */
REQUIREMENT("MEM-05", "SR-02")
BENCH_TEST(requests_behind_it_are_held)
{
	struct conn *c = conn_late(state);

	qp_sr_set(c->b->engine.env.sr, c->qp, QP_SR_ON);
	c->remote->late = 2;
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ, REMOTE_VA, 100, 0, 100);
	pkt_none(c);
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ + 1, REMOTE_VA + 100, 100, 100, 100);
	pkt_expect(c, WIRE_OPCODE_SACK, RQ);
	bench_pass(c->b, RETRY_NS);
	pkt_none(c); /* the peer is not told again while it is late */
	bench_pass(c->b, RETRY_NS);
	pkt_expect(c, WIRE_OPCODE_SACK, RQ + 2);
	pkt_none(c);
	assert_memory_equal(c->remote->bytes, bench_bytes, 200);
	assert_int_equal(c->remote->stores, 2);
	assert_int_equal(OBS(c, RSP_HELD), 1);
}

/* One that was held and is late stays held. The one that closed the gap is not executed again. */
REQUIREMENT("MEM-05", "SR-02", "RSP-01")
BENCH_TEST(held_request_whose_memory_is_late_waits)
{
	struct conn *c = conn_late(state);
	struct wire_pkt sack;

	qp_sr_set(c->b->engine.env.sr, c->qp, QP_SR_ON);
	for (uint32_t i = 1; i < 4; i++) {
		peer_write(c, WIRE_OP_WRITE_ONLY, RQ + i, REMOTE_VA, 100, 100 * i, 100);
		pkt_expect(c, WIRE_OPCODE_SACK, RQ);
	}
	c->remote->good = 2;
	c->remote->error = -EAGAIN;
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ, REMOTE_VA, 100, 0, 100);
	ack_expect(c, RQ + 1);
	/* Its retransmission and a later request change nothing. The SACK has no bit of the ePSN.
	 */
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ + 2, REMOTE_VA, 100, 200, 100);
	pkt_none(c);
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ + 4, REMOTE_VA, 100, 400, 100);
	sack = pkt_expect(c, WIRE_OPCODE_SACK, RQ + 2);
	assert_int_equal(sack.payload[WIRE_SACK_LEN(0)] & 7, 6);
	pkt_none(c);
	assert_int_equal(c->remote->stores, 2);
	c->remote->good = UINT32_MAX;
	bench_pass(c->b, RETRY_NS);
	pkt_expect(c, WIRE_OPCODE_SACK, RQ + 5);
	pkt_none(c);
	assert_memory_equal(c->remote->bytes, bench_bytes + 400, 100);
	assert_int_equal(c->remote->stores, 5);
	assert_int_equal(c->qp->conn.rcv.msn, 5);
	assert_false(c->qp->conn.rcv.holding);
	assert_int_equal(c->b->engine.late.n, 0);
	assert_int_equal(OBS(c, RSP_RNR_NAK), 0);
}

/* Without a place for the one that closed the gap the peer is asked for the late one. */
REQUIREMENT("MEM-05", "SR-02", "NAK-10")
BENCH_TEST(held_request_without_a_place_is_answered_with_rnr)
{
	struct conn *c = conn_late(state);

	qp_sr_set(c->b->engine.env.sr, c->qp, QP_SR_ON);
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ + 1, REMOTE_VA, 100, 0, 100);
	pkt_expect(c, WIRE_OPCODE_SACK, RQ);
	c->b->engine.late.n = RX_LATE_CAP;
	c->remote->good = 1;
	c->remote->error = -EAGAIN;
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ, REMOTE_VA, 100, 0, 100);
	c->b->engine.late.n = 0;
	rnr_expect(c, RQ + 1, 12);
	c->remote->good = 1;
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ + 1, REMOTE_VA, 100, 0, 100);
	ack_expect(c, RQ + 1);
}

/* The QP may fail while a request waits. */
REQUIREMENT("MEM-05")
BENCH_TEST(error_forgets_the_request_that_waits)
{
	struct conn *c = conn_late(state);

	c->remote->late = 1;
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ, REMOTE_VA, 100, 0, 100);
	conn_to(c, QP_ERR);
	bench_pass(c->b, RETRY_NS);
	pkt_none(c);
	assert_int_equal(c->remote->stores, 0);
	assert_int_equal(c->b->engine.late.n, 0);
}
