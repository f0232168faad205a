/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that is accessed by ops: the payload of several WRITEs of a burst, or of SENDs, is written
 * at once (responder/write_run.c).
 */
#include <string.h>
#include <rte_mbuf.h>
#include "harness.h"
#include "wire/sack.h"

#define RQ  conn_rc.rq_psn
#define MTU 1024

/* A packet of a WRITE to offset to of the remote region; its payload is at from of bench_bytes. */
struct piece {
	uint8_t op;
	uint32_t to, dmalen, from, len;
};

static void
burst(struct conn *c, uint32_t psn, const struct piece *p, uint32_t n)
{
	struct rte_mbuf *m[8];

	for (uint32_t i = 0; i < n; i++) {
		struct wire_fields f = {.opcode = p[i].op,
					.psn = psn + i,
					.ackreq = i + 1 == n,
					.va = REMOTE_VA + p[i].to,
					.rkey = c->remote->mr.key,
					.dmalen = p[i].dmalen};
		uint8_t frame[MTU + WIRE_MAX_OVERHEAD];
		uint32_t len = peer_frame(c, f, p[i].from, p[i].len, frame);

		m[i] = rte_pktmbuf_alloc(c->b->engine.env.pool);
		assert_non_null(m[i]);
		memcpy(rte_pktmbuf_append(m[i], (uint16_t)len), frame, len);
	}
	engine_rx(&c->b->engine, c->b->now, BENCH_DEV, m, n);
}

static const struct piece three_writes[] = {
	{WIRE_OP_WRITE_FIRST, 0, 2 * MTU - 9, 0, MTU},
	{WIRE_OP_WRITE_LAST, 0, 0, MTU, MTU - 9},
	{WIRE_OP_WRITE_ONLY, 8 * MTU, 40, 5 * MTU, 40},
	{WIRE_OP_WRITE_FIRST, 4 * MTU, 2 * MTU, 2 * MTU, MTU},
	{WIRE_OP_WRITE_LAST, 0, 0, 3 * MTU, MTU},
};

static void
three_writes_expect(struct conn *c)
{
	assert_memory_equal(c->remote->bytes, bench_bytes, 2 * MTU - 9);
	assert_memory_equal(c->remote->bytes + 8 * MTU, bench_bytes + 5 * MTU, 40);
	assert_memory_equal(c->remote->bytes + 4 * MTU, bench_bytes + 2 * MTU, 2 * MTU);
}

static struct conn *
conn_written(void **state)
{
	struct conn *c = conn_open(*state, conn_rc);

	region_by_ops(c->local, UINT32_MAX);
	region_by_ops(c->remote, UINT32_MAX);
	memset(c->remote->bytes, 7, BENCH_BYTES);
	return c;
}

REQUIREMENT("MEM-05", "RSP-01")
BENCH_TEST(writes_of_a_burst_are_written_at_once)
{
	struct conn *c = conn_written(state);

	burst(c, RQ, three_writes, 5);
	ack_expect(c, RQ + 4);
	assert_int_equal(c->remote->stores, 1);
	three_writes_expect(c);
	assert_int_equal(c->remote->bytes[2 * MTU - 9], 7);
	assert_int_equal(c->remote->bytes[8 * MTU + 40], 7);
}

/*
 * A program that polls its memory may deregister it when the last WRITE's data is there, before
 * that WRITE is executed. The peer's data has arrived, so that it gets an ACK.
 */
REQUIREMENT("MEM-05", "RSP-01")
BENCH_TEST(written_messages_need_no_region_any_more)
{
	struct conn *c = conn_written(state);

	c->remote->drop = c->b;
	burst(c, RQ, three_writes, 5);
	ack_expect(c, RQ + 4);
	assert_int_equal(c->remote->stores, 1);
	three_writes_expect(c);
	/* Later requests are refused. */
	burst(c, RQ + 5, three_writes + 2, 1);
	answer_expect(c, RQ + 5, NAK_SYN(REM_ACCESS));
}

/* An operation that was late and is repeated writes none of its messages twice. */
REQUIREMENT("MEM-05", "RSP-01")
BENCH_TEST(late_writes_of_a_burst_are_executed_once)
{
	struct conn *c = conn_written(state);

	c->remote->late = 1;
	c->remote->late_done = true;
	burst(c, RQ, three_writes, 5);
	pkt_none(c);
	assert_int_equal(c->remote->stores, 1);
	three_writes_expect(c);
	memset(c->remote->bytes, 9, BENCH_BYTES); /* the application has used the data */
	burst(c, RQ, three_writes, 5);
	ack_expect(c, RQ + 4);
	assert_int_equal(c->remote->stores, 1);
	for (uint32_t i = 0; i < BENCH_BYTES; i++)
		assert_int_equal(c->remote->bytes[i], 9);
	burst(c, RQ + 5, three_writes, 5);
	ack_expect(c, RQ + 9);
	assert_int_equal(c->remote->stores, 2);
	three_writes_expect(c);
}

/* The same if the program saw all of them and has deregistered the region. */
REQUIREMENT("MEM-05", "RSP-01")
BENCH_TEST(late_writes_of_a_burst_need_no_region_any_more)
{
	struct conn *c = conn_written(state);

	c->remote->late = 1;
	c->remote->late_done = true;
	c->remote->drop = c->b;
	burst(c, RQ, three_writes, 5);
	pkt_none(c);
	assert_int_equal(c->remote->stores, 1);
	burst(c, RQ, three_writes, 5);
	ack_expect(c, RQ + 4);
	assert_int_equal(c->remote->stores, 1);
	three_writes_expect(c);
	burst(c, RQ + 5, three_writes + 2, 1);
	answer_expect(c, RQ + 5, NAK_SYN(REM_ACCESS));
}

/*
 * The first attempt, for three messages, is not executed; the second, for one packet, is executed
 * but late. Only that packet counts as written.
 */
REQUIREMENT("MEM-05", "RSP-01")
BENCH_TEST(late_write_of_a_packet_writes_no_others)
{
	struct conn *c = conn_written(state);

	c->remote->late = 1;
	burst(c, RQ, three_writes, 5);
	pkt_none(c);
	assert_int_equal(c->remote->stores, 0);
	c->remote->late = 1;
	c->remote->late_done = true;
	burst(c, RQ, three_writes, 1);
	pkt_none(c);
	assert_int_equal(c->remote->stores, 1);
	burst(c, RQ, three_writes, 5);
	ack_expect(c, RQ + 4);
	three_writes_expect(c);
}

/* A packet that closes a gap is written alone. It is not written again, and the others are. */
REQUIREMENT("MEM-05", "SR-02")
BENCH_TEST(late_write_of_a_held_packet_writes_no_others)
{
	struct conn *c = conn_written(state);

	qp_sr_set(c->b->engine.env.sr, c->qp, QP_SR_ON);
	burst(c, RQ + 1, three_writes + 1, 4);
	(void)pkt_expect(c, WIRE_OPCODE_SACK, RQ);
	c->remote->late = 1;
	c->remote->late_done = true;
	burst(c, RQ, three_writes, 1);
	pkt_none(c);
	assert_int_equal(c->remote->stores, 1);
	memset(c->remote->bytes, 9, MTU); /* the application has used the data */
	burst(c, RQ, three_writes, 5);
	(void)pkt_expect(c, WIRE_OPCODE_SACK, RQ + 5);
	for (uint32_t i = 0; i < MTU; i++)
		assert_int_equal(c->remote->bytes[i], 9);
	memcpy(c->remote->bytes, bench_bytes, MTU);
	three_writes_expect(c);
}

/* If the memory of the second message is gone, the first one succeeds. */
REQUIREMENT("MEM-05", "NAK-09")
BENCH_TEST(later_write_fails_alone)
{
	struct conn *c = conn_written(state);

	c->remote->edge = 5 * MTU;
	burst(c, RQ, three_writes, 5);
	answer_expect(c, RQ + 2, NAK_SYN(REM_OP));
	assert_memory_equal(c->remote->bytes, bench_bytes, 2 * MTU - 9);
	assert_int_equal(c->remote->bytes[4 * MTU], 7);
}

/* A SEND without payload writes nothing; those behind it are written at once. */
REQUIREMENT("MEM-05", "RSP-05")
BENCH_TEST(empty_send_of_a_burst_writes_nothing)
{
	static const struct piece sends[] = {
		{WIRE_OP_SEND_ONLY, 0, 0, 0, 0},
		{WIRE_OP_SEND_ONLY, 0, 0, 100, 40},
		{WIRE_OP_SEND_ONLY, 0, 0, 200, 30},
	};
	struct conn *c = conn_written(state);

	for (uint32_t i = 0; i < 3; i++)
		recv_post(c, i, i * MTU, 64);
	burst(c, RQ, sends, 3);
	ack_expect(c, RQ + 2);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(recv_cqe(c, i, QP_WC_SUCCESS).byte_len, sends[i].len);
		assert_memory_equal(c->local->bytes + i * MTU, bench_bytes + sends[i].from,
				    sends[i].len);
	}
	assert_int_equal(c->local->stores, 1);
}

/* The target of a later message is checked before it is written. */
REQUIREMENT("MEM-05", "MEM-02", "NAK-08")
BENCH_TEST(later_write_without_rights_is_not_written)
{
	static const struct piece outside[] = {
		{WIRE_OP_WRITE_ONLY, 0, MTU, 0, MTU},
		{WIRE_OP_WRITE_ONLY, BENCH_BYTES - MTU + 1, MTU, 0, MTU},
	};
	struct conn *c = conn_written(state);

	burst(c, RQ, outside, 2);
	answer_expect(c, RQ + 1, NAK_SYN(REM_ACCESS));
	assert_int_equal(c->remote->stores, 1);
	assert_memory_equal(c->remote->bytes, bench_bytes, MTU);
	assert_int_equal(c->remote->bytes[BENCH_BYTES - MTU + 1], 7);
}
