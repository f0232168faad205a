/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that is accessed by ops: payload of several messages is read ahead of its packets
 * (qp/ahead.h).
 */
#include <string.h>
#include "harness.h"

#define SQ      conn_rc.sq_psn
#define MTU     1024

#define LATE_NS 10000u /* LATE_LEAST of engine.c */

static struct conn *
conn_copied(void **state)
{
	struct conn *c = conn_open(*state, conn_rc);

	region_by_ops(c->local, UINT32_MAX);
	for (uint32_t i = 0; i < BENCH_BYTES; i++)
		c->local->bytes[i] = (uint8_t)(i * 7 + i / 256);
	return c;
}

/* A WRITE of len bytes at offset off of the local region, not published yet. */
static void
write_quiet(struct conn *c, uint64_t id, uint32_t off, uint32_t len)
{
	struct uroce_sge sge = {.addr = LOCAL_VA + off, .length = len, .lkey = c->local->mr.key};

	post_quiet(c, (struct wr){.id = id,
				  .op = UROCE_WR_RDMA_WRITE,
				  .flags = SIG,
				  .len = len,
				  .sge = &sge,
				  .nsge = 1});
}

/* Expects the packet whose payload is at offset off of the local region. */
static void
payload_expect(struct conn *c, uint8_t op, uint32_t psn, uint32_t off, uint32_t len)
{
	struct wire_pkt pkt = pkt_expect(c, op, psn);

	assert_int_equal(pkt.payload_len, len);
	assert_memory_equal(pkt.payload, c->local->bytes + off, len);
}

/* All posted messages are read by one operation, and each gets its own bytes. */
REQUIREMENT("MEM-05")
BENCH_TEST(posted_messages_are_read_at_once)
{
	struct conn *c = conn_copied(state);

	write_quiet(c, 1, 5 * MTU, 2 * MTU);
	write_quiet(c, 2, 100, MTU);
	write_quiet(c, 3, 3 * MTU, MTU + 7);
	c->local->good = 1;
	ring_doorbell(c);
	payload_expect(c, WIRE_OP_WRITE_FIRST, SQ, 5 * MTU, MTU);
	payload_expect(c, WIRE_OP_WRITE_LAST, SQ + 1, 6 * MTU, MTU);
	payload_expect(c, WIRE_OP_WRITE_ONLY, SQ + 2, 100, MTU);
	payload_expect(c, WIRE_OP_WRITE_FIRST, SQ + 3, 3 * MTU, MTU);
	payload_expect(c, WIRE_OP_WRITE_LAST, SQ + 4, 4 * MTU, 7);
	assert_int_equal(c->local->good, 0);
}

/* As zero-copy frames: all but the one whose packet made the engine read. */
REQUIREMENT("MEM-05")
BENCH_TEST(bytes_read_ahead_are_sent_where_they_are)
{
	struct conn *c = conn_copied(state);

	engine_set_zero_copy(&c->b->engine, BENCH_DEV, 500);
	write_quiet(c, 1, 0, 4 * MTU);
	write_quiet(c, 2, 5 * MTU, MTU);
	write_quiet(c, 3, 7 * MTU, 499);
	ring_doorbell(c);
	for (uint32_t k = 0; k < 4; k++)
		payload_expect(c,
			       k == 0   ? WIRE_OP_WRITE_FIRST
			       : k == 3 ? WIRE_OP_WRITE_LAST
					: WIRE_OP_WRITE_MIDDLE,
			       SQ + k, k * MTU, MTU);
	payload_expect(c, WIRE_OP_WRITE_ONLY, SQ + 4, 5 * MTU, MTU);
	payload_expect(c, WIRE_OP_WRITE_ONLY, SQ + 5, 7 * MTU, 499);
	assert_int_equal(c->b->lent, 4);
}

/* Two QPs read ahead in turn within one burst: the first one's bytes stay until its frames left. */
REQUIREMENT("MEM-05")
BENCH_TEST(bytes_stay_until_the_burst_has_left)
{
	struct conn_cfg cfg = conn_rc;
	struct conn *c[2];

	c[0] = conn_copied(state);
	cfg.qpn = BENCH_QPN + 2;
	c[1] = conn_open(*state, cfg);
	region_by_ops(c[1]->local, UINT32_MAX);
	memset(c[1]->local->bytes, 0x3c, 4 * MTU);
	engine_set_zero_copy(&c[0]->b->engine, BENCH_DEV, 500);
	for (uint32_t i = 0; i < 2; i++) {
		write_quiet(c[i], 1, 0, 4 * MTU);
		ring_doorbell(c[i]);
	}
	bench_run_once(c[0]->b);
	assert_int_equal(c[0]->b->lent, 6);
	assert_int_equal(c[0]->b->engine.ahead.nold, 1);
	for (uint32_t i = 0; i < 2; i++) {
		for (uint32_t k = 0; k < 4; k++)
			payload_expect(c[i],
				       k == 0   ? WIRE_OP_WRITE_FIRST
				       : k == 3 ? WIRE_OP_WRITE_LAST
						: WIRE_OP_WRITE_MIDDLE,
				       SQ + k, k * MTU, MTU);
	}
	bench_run_once(c[0]->b);
	assert_int_equal(c[0]->b->engine.ahead.nold, 0);
}

/* What the next message sends from the same buffer is read when that message is sent. */
REQUIREMENT("MEM-05")
BENCH_TEST(completed_message_leaves_no_bytes)
{
	struct conn *c = conn_copied(state);

	for (uint32_t i = 0; i < 4; i++) {
		write_quiet(c, i, 0, 2 * MTU);
		ring_doorbell(c);
		payload_expect(c, WIRE_OP_WRITE_FIRST, SQ + 2 * i, 0, MTU);
		payload_expect(c, WIRE_OP_WRITE_LAST, SQ + 2 * i + 1, MTU, MTU);
		peer_ack(c, SQ + 2 * i + 1);
		send_cqe(c, i, QP_WC_SUCCESS);
		memset(c->local->bytes, (int)i, 2 * MTU);
	}
}

/* A client that changes a posted WQE after its payload was read ahead gets what the WQE says. */
REQUIREMENT("MEM-05", "REQ-03")
BENCH_TEST(changed_wqe_is_read_again)
{
	struct conn *c = conn_copied(state);

	write_quiet(c, 1, 0, 2 * MTU);
	write_quiet(c, 2, 2 * MTU, MTU);
	write_quiet(c, 3, 3 * MTU, MTU);
	c->b->engine.env.tx_cap = 1;
	ring_doorbell(c);
	c->sq.prod -= 2;
	write_quiet(c, 2, 7 * MTU, 2 * MTU);
	c->sq.prod++;
	c->b->engine.env.tx_cap = ENGINE_TX_CAP;
	payload_expect(c, WIRE_OP_WRITE_FIRST, SQ, 0, MTU);
	payload_expect(c, WIRE_OP_WRITE_LAST, SQ + 1, MTU, MTU);
	payload_expect(c, WIRE_OP_WRITE_FIRST, SQ + 2, 7 * MTU, MTU);
	payload_expect(c, WIRE_OP_WRITE_LAST, SQ + 3, 8 * MTU, MTU);
	payload_expect(c, WIRE_OP_WRITE_ONLY, SQ + 4, 3 * MTU, MTU);
}

/* A fenced message may send what an atomic before it fetches: it is read after that. */
REQUIREMENT("MEM-05", "REQ-02")
BENCH_TEST(fenced_message_is_not_read_ahead)
{
	struct conn *c = conn_copied(state);
	struct uroce_sge sge = {.addr = LOCAL_VA + 4 * MTU, .length = 8, .lkey = c->local->mr.key};

	post_quiet(c, (struct wr){.id = 1,
				  .op = UROCE_WR_ATOMIC_FETCH_ADD,
				  .flags = SIG,
				  .len = 8,
				  .sge = &sge,
				  .nsge = 1});
	write_quiet(c, 2, 0, MTU);
	post_quiet(c, (struct wr){.id = 3,
				  .op = UROCE_WR_RDMA_WRITE,
				  .flags = SIG | UROCE_WQE_FENCE,
				  .len = 8,
				  .sge = &sge,
				  .nsge = 1});
	ring_doorbell(c);
	(void)pkt_expect(c, WIRE_OP_FETCH_ADD, SQ);
	payload_expect(c, WIRE_OP_WRITE_ONLY, SQ + 1, 0, MTU);
	peer_put(c,
		 (struct wire_fields){
			 .opcode = WIRE_OP_ATOMIC_ACK, .psn = SQ, .syndrome = ACK_SYN, .orig = 77},
		 0, 0);
	payload_expect(c, WIRE_OP_WRITE_ONLY, SQ + 2, 4 * MTU, 8);
	assert_int_equal(c->local->bytes[4 * MTU], 77);
}

/*
 * A UC QP that recovers from SQE gives the PSNs of flushed messages, which were read ahead, to
 * other messages. Those send what their buffers hold by then.
 */
REQUIREMENT("MEM-05", "QP-17")
BENCH_TEST(flushed_message_leaves_no_bytes)
{
	struct conn *c = conn_open(*state, CONN(cfg.type = QP_TYPE_UC));
	struct uroce_sge sge;

	region_by_ops(c->local, UINT32_MAX);
	sge = (struct uroce_sge){.addr = LOCAL_VA + 4 * MTU,
				 .length = MTU,
				 .lkey = c->local->mr.key};
	write_quiet(c, 1, 0, MTU);
	post_quiet(c, (struct wr){.id = 2,
				  .op = UROCE_WR_SEND_INV, /* not for UC */
				  .flags = SIG,
				  .len = MTU,
				  .sge = &sge,
				  .nsge = 1});
	write_quiet(c, 3, 4 * MTU, MTU);
	ring_doorbell(c);
	payload_expect(c, WIRE_SVC_UC | WIRE_OP_WRITE_ONLY, SQ, 0, MTU);
	send_cqe(c, 1, QP_WC_SUCCESS);
	send_cqe(c, 2, QP_WC_LOC_QP_OP_ERR);
	send_cqe(c, 3, QP_WC_WR_FLUSH_ERR);
	assert_int_equal(conn_to(c, QP_RTS), 0);
	for (uint32_t i = 1; i < 3; i++) {
		memset(c->local->bytes + 4 * MTU, (int)i, MTU);
		write_quiet(c, 3 + i, 4 * MTU, MTU);
		ring_doorbell(c);
		payload_expect(c, WIRE_SVC_UC | WIRE_OP_WRITE_ONLY, SQ + i, 4 * MTU, MTU);
		send_cqe(c, 3 + i, QP_WC_SUCCESS);
	}
}

/* Sends the first of two messages, when both were read. The second one is at 4 * MTU. */
static struct conn *
conn_half_sent(void **state)
{
	struct conn *c = conn_copied(state);

	write_quiet(c, 1, 0, MTU);
	write_quiet(c, 2, 4 * MTU, MTU);
	c->b->engine.env.tx_cap = 1;
	c->local->good = 1;
	ring_doorbell(c);
	bench_run_once(c->b);
	c->b->engine.env.tx_cap = ENGINE_TX_CAP;
	assert_int_equal(c->local->good, 0);
	c->local->good = UINT32_MAX;
	return c;
}

/* The key is checked for each packet, also if its payload was read before. */
REQUIREMENT("MEM-05", "MEM-03")
BENCH_TEST(deregistered_memory_is_not_sent)
{
	struct conn *c = conn_half_sent(state);

	region_drop(c->b, c->local);
	payload_expect(c, WIRE_OP_WRITE_ONLY, SQ, 0, MTU);
	pkt_none(c);
	peer_ack(c, SQ);
	send_cqe(c, 1, QP_WC_SUCCESS);
	send_cqe(c, 2, QP_WC_LOC_PROT_ERR);
}

/* A region that is registered again, by other memory, keeps its key. */
REQUIREMENT("MEM-05", "MEM-04")
BENCH_TEST(reregistered_memory_is_read_again)
{
	struct conn *c = conn_half_sent(state);
	struct bench_region *other = region_add(c->b, conn_rc.pd, 0, BENCH_BYTES, ALL_REMOTE);

	region_by_ops(other, UINT32_MAX);
	memset(other->bytes, 5, BENCH_BYTES);
	c->local->mr.ops_ctx = other;
	payload_expect(c, WIRE_OP_WRITE_ONLY, SQ, 0, MTU);
	memset(c->local->bytes, 5, BENCH_BYTES);
	payload_expect(c, WIRE_OP_WRITE_ONLY, SQ + 1, 4 * MTU, MTU);
}

/* After a reset, PSNs begin anew. */
REQUIREMENT("MEM-05", "QP-10")
BENCH_TEST(reset_leaves_no_bytes)
{
	struct conn *c = conn_half_sent(state);

	payload_expect(c, WIRE_OP_WRITE_ONLY, SQ, 0, MTU);
	payload_expect(c, WIRE_OP_WRITE_ONLY, SQ + 1, 4 * MTU, MTU);
	assert_int_equal(conn_to(c, QP_RESET), 0);
	c->sq.prod = c->rq.prod = 0;
	conn_raise(c, &conn_rc);
	memset(c->local->bytes, 5, 8 * MTU);
	write_quiet(c, 3, 0, MTU);
	write_quiet(c, 4, 4 * MTU, MTU);
	ring_doorbell(c);
	payload_expect(c, WIRE_OP_WRITE_ONLY, SQ, 0, MTU);
	payload_expect(c, WIRE_OP_WRITE_ONLY, SQ + 1, 4 * MTU, MTU);
}

/* If the memory of a later message is gone, only that message fails. */
REQUIREMENT("MEM-05", "REQ-03")
BENCH_TEST(later_message_fails_alone)
{
	struct conn *c = conn_copied(state);

	write_quiet(c, 1, 0, 2 * MTU);
	write_quiet(c, 2, 4 * MTU, 2 * MTU);
	c->local->edge = 5 * MTU;
	ring_doorbell(c);
	payload_expect(c, WIRE_OP_WRITE_FIRST, SQ, 0, MTU);
	payload_expect(c, WIRE_OP_WRITE_LAST, SQ + 1, MTU, MTU);
	payload_expect(c, WIRE_OP_WRITE_FIRST, SQ + 2, 4 * MTU, MTU);
	peer_ack(c, SQ + 1);
	send_cqe(c, 1, QP_WC_SUCCESS);
	send_cqe(c, 2, QP_WC_LOC_PROT_ERR);
}

/* After a late operation one packet is read, which needs less of the memory. */
REQUIREMENT("MEM-05")
BENCH_TEST(late_operation_is_repeated_for_one_packet)
{
	struct conn *c = conn_copied(state);

	write_quiet(c, 1, 0, MTU);
	write_quiet(c, 2, 4 * MTU, MTU);
	c->local->late = 1;
	c->local->good = 2;
	ring_doorbell(c);
	pkt_none(c);
	bench_pass(c->b, LATE_NS);
	payload_expect(c, WIRE_OP_WRITE_ONLY, SQ, 0, MTU);
	assert_int_equal(c->local->late, 0);
	payload_expect(c, WIRE_OP_WRITE_ONLY, SQ + 1, 4 * MTU, MTU);
	assert_int_equal(c->local->good, 0);
}

/* Only the messages before an unusual one, such as one of two SGEs, are read ahead. */
REQUIREMENT("MEM-05")
BENCH_TEST(reading_ahead_ends_at_an_unusual_message)
{
	struct conn *c = conn_copied(state);
	struct uroce_sge two[] = {
		{.addr = LOCAL_VA + 9 * MTU, .length = 5, .lkey = c->local->mr.key},
		{.addr = LOCAL_VA + 9 * MTU + 5, .length = MTU - 5, .lkey = c->local->mr.key}};

	write_quiet(c, 1, 0, MTU);
	post_quiet(c, (struct wr){.id = 2,
				  .op = UROCE_WR_RDMA_WRITE,
				  .flags = SIG,
				  .len = MTU,
				  .sge = two,
				  .nsge = 2});
	write_quiet(c, 3, 2 * MTU, MTU);
	write_quiet(c, 4, 1 * MTU, MTU);
	c->local->good = 4;
	ring_doorbell(c);
	payload_expect(c, WIRE_OP_WRITE_ONLY, SQ, 0, MTU);
	payload_expect(c, WIRE_OP_WRITE_ONLY, SQ + 1, 9 * MTU, MTU);
	payload_expect(c, WIRE_OP_WRITE_ONLY, SQ + 2, 2 * MTU, MTU);
	payload_expect(c, WIRE_OP_WRITE_ONLY, SQ + 3, 1 * MTU, MTU);
	assert_int_equal(c->local->good, 0);
}
