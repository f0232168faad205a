/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copied memory that is late, for a request on RC: the request waits and is tried again
 * (engine/rx_late.c). RNR NAKs are for peers that cannot wait longer.
 */
#include <errno.h>
#include "harness.h"

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

/* A request waits for its memory; the peer learns only that those behind it were dropped. */
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
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ + 1, REMOTE_VA, 100, 0, 100);
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ + 2, REMOTE_VA, 100, 0, 100);
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ + 3, REMOTE_VA, 100, 0, 100);
	pkt_none(c);
	bench_pass(c->b, RETRY_NS);
	answer_expect(c, RQ + 2, NAK_SYN(PSN_SEQ));
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ + 2, REMOTE_VA, 100, 0, 100);
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ + 3, REMOTE_VA, 100, 0, 100);
	ack_expect(c, RQ + 3);
	assert_int_equal(OBS(c, RSP_RNR_NAK), 0);
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
	assert_int_equal(DROPS(c, MEMORY_LATE), 1 + sizeof(code));
	assert_int_equal(OBS(c, RSP_SEQ_NAK), 0);
	c->remote->late = 0;
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ, REMOTE_VA, 100, 0, 100);
	ack_expect(c, RQ);
	assert_int_equal(c->remote->stores, 1);
	assert_memory_equal(c->remote->bytes, bench_bytes, 100);
	bench_pass(c->b, RETRY_NS); /* the one that waited is not executed again */
	assert_int_equal(c->remote->stores, 1);
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

	/* One that was held does not wait: the peer sends it again. */
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ + 3, REMOTE_VA, 100, 0, 100);
	pkt_expect(c, WIRE_OPCODE_SACK, RQ + 2);
	c->remote->good = 1;
	c->remote->error = -EAGAIN;
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ + 2, REMOTE_VA, 100, 0, 100);
	rnr_expect(c, RQ + 3, 12);
	c->remote->good = 1;
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ + 3, REMOTE_VA, 100, 0, 100);
	ack_expect(c, RQ + 3);
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
