/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that is accessed by ops: payload of several messages is read ahead of its packets
 * (qp/ahead.h), and that of received WRITEs is written at once (responder/write_run.h).
 */
#include <errno.h>
#include <string.h>
#include <rte_mbuf.h>
#include "harness.h"
#include "wire/sack.h"
#include "../../kit/requirement.h"

#define SQ  conn_rc.sq_psn
#define RQ  conn_rc.rq_psn
#define MTU 1024

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
static void
posted_messages_are_read_at_once(void **state)
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

/* What the next message sends from the same buffer is read when that message is sent. */
REQUIREMENT("MEM-05")
static void
completed_message_leaves_no_bytes(void **state)
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
static void
changed_wqe_is_read_again(void **state)
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
static void
fenced_message_is_not_read_ahead(void **state)
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
static void
flushed_message_leaves_no_bytes(void **state)
{
	struct conn_cfg cfg = conn_rc;
	struct conn *c;
	struct uroce_sge sge;

	cfg.type = QP_TYPE_UC;
	c = conn_open(*state, cfg);
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

/* If the memory of a later message is gone, only that message fails. */
REQUIREMENT("MEM-05", "REQ-03")
static void
later_message_fails_alone(void **state)
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
static void
late_operation_is_repeated_for_one_packet(void **state)
{
	struct conn *c = conn_copied(state);

	write_quiet(c, 1, 0, MTU);
	write_quiet(c, 2, 4 * MTU, MTU);
	c->local->late = 1;
	c->local->good = 2;
	ring_doorbell(c);
	payload_expect(c, WIRE_OP_WRITE_ONLY, SQ, 0, MTU);
	assert_int_equal(c->local->late, 0);
	payload_expect(c, WIRE_OP_WRITE_ONLY, SQ + 1, 4 * MTU, MTU);
	assert_int_equal(c->local->good, 0);
}

/* Only the messages before an unusual one, such as one of two SGEs, are read ahead. */
REQUIREMENT("MEM-05")
static void
reading_ahead_ends_at_an_unusual_message(void **state)
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
	struct conn *c = conn_copied(state);

	region_by_ops(c->remote, UINT32_MAX);
	memset(c->remote->bytes, 7, BENCH_BYTES);
	return c;
}

REQUIREMENT("MEM-05", "RSP-01")
static void
writes_of_a_burst_are_written_at_once(void **state)
{
	struct conn *c = conn_written(state);

	burst(c, RQ, three_writes, 5);
	ack_expect(c, RQ + 4);
	assert_int_equal(c->remote->stores, 1);
	three_writes_expect(c);
	assert_int_equal(c->remote->bytes[2 * MTU - 9], 7);
	assert_int_equal(c->remote->bytes[8 * MTU + 40], 7);
}

/* An operation that was late and is repeated writes none of its messages twice. */
REQUIREMENT("MEM-05", "RSP-01")
static void
late_writes_of_a_burst_are_executed_once(void **state)
{
	struct conn *c = conn_written(state);

	c->remote->late = 1;
	c->remote->late_done = true;
	burst(c, RQ, three_writes, 5);
	assert_int_equal(pkt_expect(c, WIRE_OP_ACK, RQ).syndrome, WIRE_SYN_RNR | 12);
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

/*
 * The first attempt, for three messages, is not executed; the second, for one packet, is executed
 * but late. Only that packet counts as written.
 */
REQUIREMENT("MEM-05", "RSP-01")
static void
late_write_of_a_packet_writes_no_others(void **state)
{
	struct conn *c = conn_written(state);

	c->remote->late = 1;
	burst(c, RQ, three_writes, 5);
	assert_int_equal(pkt_expect(c, WIRE_OP_ACK, RQ).syndrome, WIRE_SYN_RNR | 12);
	assert_int_equal(c->remote->stores, 0);
	c->remote->late = 1;
	c->remote->late_done = true;
	burst(c, RQ, three_writes, 1);
	assert_int_equal(pkt_expect(c, WIRE_OP_ACK, RQ).syndrome, WIRE_SYN_RNR | 16);
	assert_int_equal(c->remote->stores, 1);
	burst(c, RQ, three_writes, 5);
	ack_expect(c, RQ + 4);
	three_writes_expect(c);
}

/* A packet that closes a gap is written alone. It is not written again, and the others are. */
REQUIREMENT("MEM-05", "SR-02")
static void
late_write_of_a_held_packet_writes_no_others(void **state)
{
	struct conn *c = conn_written(state);

	qp_sr_set(c->b->engine.env.sr, c->qp, QP_SR_ON);
	burst(c, RQ + 1, three_writes + 1, 4);
	(void)pkt_expect(c, WIRE_OPCODE_SACK, RQ);
	c->remote->late = 1;
	c->remote->late_done = true;
	burst(c, RQ, three_writes, 1);
	assert_int_equal(pkt_expect(c, WIRE_OP_ACK, RQ).syndrome, WIRE_SYN_RNR | 12);
	assert_int_equal(c->remote->stores, 1);
	memset(c->remote->bytes, 9, MTU); /* the application has used the data */
	burst(c, RQ, three_writes, 5);
	ack_expect(c, RQ + 4);
	for (uint32_t i = 0; i < MTU; i++)
		assert_int_equal(c->remote->bytes[i], 9);
	memcpy(c->remote->bytes, bench_bytes, MTU);
	three_writes_expect(c);
}

/* If the memory of the second message is gone, the first one succeeds. */
REQUIREMENT("MEM-05", "NAK-09")
static void
later_write_fails_alone(void **state)
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
static void
empty_send_of_a_burst_writes_nothing(void **state)
{
	static const struct piece sends[] = {
		{WIRE_OP_SEND_ONLY, 0, 0, 0, 0},
		{WIRE_OP_SEND_ONLY, 0, 0, 100, 40},
		{WIRE_OP_SEND_ONLY, 0, 0, 200, 30},
	};
	struct conn *c = conn_copied(state);

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
static void
later_write_without_rights_is_not_written(void **state)
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

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		bench_test(posted_messages_are_read_at_once),
		bench_test(completed_message_leaves_no_bytes),
		bench_test(changed_wqe_is_read_again),
		bench_test(fenced_message_is_not_read_ahead),
		bench_test(flushed_message_leaves_no_bytes),
		bench_test(later_message_fails_alone),
		bench_test(late_operation_is_repeated_for_one_packet),
		bench_test(reading_ahead_ends_at_an_unusual_message),
		bench_test(writes_of_a_burst_are_written_at_once),
		bench_test(late_writes_of_a_burst_are_executed_once),
		bench_test(late_write_of_a_packet_writes_no_others),
		bench_test(late_write_of_a_held_packet_writes_no_others),
		bench_test(later_write_fails_alone),
		bench_test(empty_send_of_a_burst_writes_nothing),
		bench_test(later_write_without_rights_is_not_written),
	};

	return cmocka_run_group_tests(tests, bench_group_setup, NULL);
}
