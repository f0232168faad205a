/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copied memory that is late, on UC and UD: the packets wait (engine/rx_late.c), because nobody
 * sends them again.
 */
#include <string.h>
#include "harness.h"

#define RQ     conn_rc.rq_psn
#define MTU    1024
#define MS     1000000ull
#define UC(op) (WIRE_SVC_UC | WIRE_OP_##op)

static struct conn *
conn_late_uc(void **state)
{
	struct conn *c = conn_open(*state, CONN(cfg.type = QP_TYPE_UC));

	region_by_ops(c->local, UINT32_MAX);
	region_by_ops(c->remote, UINT32_MAX);
	return c;
}

/* UC messages are not retransmitted: their packets wait for the memory, and those behind them, too.
 */
REQUIREMENT("MEM-05", "RSP-06")
BENCH_TEST(late_unreliable_message_waits)
{
	struct conn *c = conn_late_uc(state);

	recv_post(c, 1, 0, 2 * MTU);
	recv_post(c, 2, 2 * MTU, 100);
	c->local->late = 3;
	peer_send(c, UC(SEND_FIRST), RQ, 0, MTU);
	bench_run(c->b);
	peer_send(c, UC(SEND_LAST), RQ + 1, MTU, MTU);
	peer_send(c, UC(SEND_ONLY), RQ + 2, 2 * MTU, 100);
	cqe_none(c);
	assert_int_equal(OBS(c, RX_ROCE), 0);
	assert_true(engine_next_ns(&c->b->engine) <= c->b->now + MS);
	bench_pass(c->b, MS);
	recv_cqe(c, 1, QP_WC_SUCCESS);
	recv_cqe(c, 2, QP_WC_SUCCESS);
	cqe_none(c);
	assert_memory_equal(c->local->bytes, bench_bytes, 2 * MTU + 100);
	assert_int_equal(DROPS(c, MEMORY_LATE), 0);
	assert_int_equal(OBS(c, RX_ROCE), 3);
	assert_true(engine_next_ns(&c->b->engine) == UINT64_MAX);
	peer_send(c, UC(SEND_ONLY), RQ + 3, 0, 0);
	assert_int_equal(OBS(c, RSP_MSG_LOST), 0);
}

REQUIREMENT("MEM-05", "RSP-06")
BENCH_TEST(late_unreliable_write_is_executed_once)
{
	struct conn *c = conn_late_uc(state);

	c->remote->late = 1;
	c->remote->late_done = true;
	peer_write(c, UC(WRITE_FIRST), RQ, REMOTE_VA, MTU + 9, 0, MTU);
	peer_write(c, UC(WRITE_LAST), RQ + 1, 0, 0, MTU, 9);
	bench_run(c->b);
	memset(c->remote->bytes, 7, MTU); /* the program has seen it */
	bench_pass(c->b, MS);
	assert_int_equal(c->remote->stores, 2);
	assert_int_equal(c->remote->bytes[MTU - 1], 7);
	assert_memory_equal(c->remote->bytes + MTU, bench_bytes + MTU, 9);
}

/* After two seconds the message is lost, as if the network had dropped it. */
REQUIREMENT("MEM-05", "RSP-06")
BENCH_TEST(unreliable_message_is_lost_after_two_seconds)
{
	struct conn *c = conn_late_uc(state);

	recv_post(c, 1, 0, 2 * MTU);
	c->local->late = UINT32_MAX;
	peer_send(c, UC(SEND_FIRST), RQ, 0, MTU);
	peer_send(c, UC(SEND_LAST), RQ + 1, MTU, MTU);
	bench_pass(c->b, 1999 * MS);
	assert_int_equal(DROPS(c, MEMORY_LATE), 0);
	bench_pass(c->b, 2 * MS);
	assert_int_equal(DROPS(c, MEMORY_LATE), 1);
	assert_int_equal(DROPS(c, MSG_ABORTED), 1);
	cqe_none(c);
	c->local->late = 0;
	peer_send(c, UC(SEND_ONLY), RQ + 2, 0, 100);
	recv_cqe(c, 1, QP_WC_SUCCESS);
}

/* A QP keeps a limited number of packets, so that others have places left. */
REQUIREMENT("MEM-05", "RSP-06")
BENCH_TEST(packets_that_wait_are_limited_for_each_qp)
{
	struct conn *c = conn_late_uc(state), *other = conn_late_uc(state);

	c->local->late = other->local->late = UINT32_MAX;
	for (uint32_t i = 0; i < RX_LATE_CAP / 2; i++) {
		if (i < RX_LATE_CAP / 4)
			recv_post(c, i, 0, 100);
		peer_send(c, UC(SEND_ONLY), RQ + i, 0, 100);
		bench_run(c->b);
	}
	assert_int_equal(DROPS(c, MEMORY_LATE), RX_LATE_CAP / 4);
	recv_post(other, 9, 0, 100);
	peer_send(other, UC(SEND_ONLY), RQ, 0, 100);
	bench_run(c->b);
	assert_int_equal(DROPS(c, MEMORY_LATE), RX_LATE_CAP / 4);
	other->local->late = 0;
	bench_pass(c->b, MS);
	recv_cqe(other, 9, QP_WC_SUCCESS);
	c->local->late = 0;
	bench_pass(c->b, MS);
	for (uint32_t i = 0; i < RX_LATE_CAP / 4; i++)
		recv_cqe(c, i, QP_WC_SUCCESS);
	cqe_none(c);
}

/* Receives and gets n datagrams, whose memory never answers. Returns how many of them wait. */
static uint32_t
late_packets(struct conn *c, uint32_t n)
{
	uint64_t before = DROPS(c, MEMORY_LATE);

	c->local->late = UINT32_MAX;
	for (uint32_t i = 0; i < n; i++) {
		recv_post(c, i, 0, 100);
		peer_send(c, UC(SEND_ONLY), RQ + i, 0, 100);
		bench_run(c->b);
	}
	return n - (uint32_t)(DROPS(c, MEMORY_LATE) - before);
}

/* However many QPs a user has, packets of the next user find places. */
REQUIREMENT("MEM-05", "RSP-06")
BENCH_TEST(packets_that_wait_are_limited_for_each_user)
{
	struct conn_cfg cfg = conn_rc;
	uint32_t of_first = 0;

	cfg.type = QP_TYPE_UC;
	cfg.rq_entries = RX_LATE_CAP;
	cfg.uid = 1000;
	for (uint32_t i = 0; i < 8; i++) {
		struct conn *c = conn_open(*state, cfg);

		region_by_ops(c->local, UINT32_MAX);
		of_first += late_packets(c, RX_LATE_CAP / 4);
	}
	assert_int_equal(of_first, RX_LATE_CAP / 2);
	for (uint32_t places = RX_LATE_CAP / 4; places > 1; places /= 2) {
		struct conn *c;

		cfg.uid++;
		c = conn_open(*state, cfg);
		region_by_ops(c->local, UINT32_MAX);
		assert_int_equal(late_packets(c, RX_LATE_CAP / 4 + 1), places);
	}
}

/* Nothing of an earlier connection reaches the next one, nor stays when the QP is destroyed. */
REQUIREMENT("MEM-05", "QP-18")
BENCH_TEST(reset_drops_packets_that_wait)
{
	struct conn_cfg cfg = conn_rc;
	struct conn *c = conn_late_uc(state);

	cfg.type = QP_TYPE_UC;
	recv_post(c, 1, 0, 100);
	c->local->late = UINT32_MAX;
	peer_send(c, UC(SEND_ONLY), RQ, 0, 100);
	bench_run(c->b);
	conn_to(c, QP_RESET);
	c->sq.prod = c->rq.prod = 0;
	conn_raise(c, &cfg);
	recv_post(c, 2, 0, 100);
	peer_send(c, UC(SEND_ONLY), RQ, 200, 50);
	bench_run(c->b);
	c->local->late = 0;
	bench_pass(c->b, MS);
	assert_int_equal(recv_cqe(c, 2, QP_WC_SUCCESS).byte_len, 50);
	cqe_none(c);
	assert_int_equal(DROPS(c, QP_STATE), 1);
	/* The QP is destroyed while one waits. */
	c->local->late = UINT32_MAX;
	recv_post(c, 3, 0, 100);
	peer_send(c, UC(SEND_ONLY), RQ + 1, 0, 100);
	bench_run(c->b);
}

REQUIREMENT("MEM-05", "WIRE-07")
BENCH_TEST(late_datagram_waits)
{
	struct conn_cfg cfg = conn_rc;
	struct conn *c;

	cfg.type = QP_TYPE_UD;
	c = conn_open(*state, cfg);
	region_by_ops(c->local, UINT32_MAX);
	recv_post(c, 1, 0, 100 + WIRE_GRH_LEN);
	recv_post(c, 2, 200, 100 + WIRE_GRH_LEN);
	c->local->late = 2;
	for (uint32_t i = 0; i < 2; i++)
		peer_put(c,
			 (struct wire_fields){.opcode = WIRE_SVC_UD | WIRE_OP_SEND_ONLY,
					      .psn = RQ,
					      .qkey = cfg.qkey,
					      .src_qpn = 5},
			 100 * i, 100);
	cqe_none(c);
	bench_pass(c->b, MS);
	recv_cqe(c, 1, QP_WC_SUCCESS);
	recv_cqe(c, 2, QP_WC_SUCCESS);
	assert_memory_equal(c->local->bytes + WIRE_GRH_LEN, bench_bytes, 100);
	assert_memory_equal(c->local->bytes + 200 + WIRE_GRH_LEN, bench_bytes + 100, 100);
	assert_int_equal(DROPS(c, MEMORY_LATE), 0);
}
