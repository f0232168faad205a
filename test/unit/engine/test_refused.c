/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests that end the QP: access, operational (NAK-06, 08, 09, NAK-01, CQE-03, 04 and
 * CQE-07 at the responder, EVT-02, EVT-03, MEM-02). The other causes of NAK-07: test_invalid.c.
 */
#include <string.h>
#include "bend.h"

#define RQ  0x555000u
#define MTU 1024u

static struct conn *
conn_next(void **state, uint32_t access)
{
	struct conn *c = conn_open(*state, CONN(cfg.access = access));

	memset(c->local->bytes, 0, BENCH_BYTES);
	return c;
}

/* The last request sent is at psn: its NAK, and the QP is through with. */
static void
expect_fatal(struct conn *c, uint32_t psn, uint8_t syn)
{
	answer_expect(c, psn, syn);
	state_expect(c, QP_ERR);
	assert_int_equal(c->qp->conn.rcv.epsn, psn); /* not moved on */
	peer_send(c, WIRE_OP_SEND_ONLY, psn, 0, 8);
	peer_send(c, WIRE_OP_SEND_ONLY, psn + 1, 0, 8);
	pkt_none(c); /* later requests are dropped */
}

/* The last is 8 bytes from the top: a range that wraps. */
static void
check_no_access(void **state, uint8_t op, uint32_t which)
{
	uint32_t right = op == WIRE_OP_READ_REQ ? MEM_REMOTE_READ : MEM_REMOTE_WRITE;
	struct conn *c = conn_next(state, ALL_REMOTE);
	struct bench_region *less = region_add(c->b, 7, 0x9000, 64, ALL_REMOTE & ~right);
	struct bench_region *other = region_add(c->b, 8, REMOTE_VA, 64, ALL_REMOTE);
	struct bench_region *top = region_add(c->b, 7, UINT64_MAX - 63, 64, ALL_REMOTE);
	uint32_t key = c->remote->mr.key;
	const struct {
		uint64_t va;
		uint32_t key;
	} bad[] = {
		{REMOTE_VA - 1, key},           {REMOTE_VA + BENCH_BYTES - 7, key},
		{REMOTE_VA + BENCH_BYTES, key}, {REMOTE_VA, key ^ 0x800},
		{REMOTE_VA, key + 0x1000},      {REMOTE_VA, 0},
		{0x9000, less->mr.key},         {REMOTE_VA, other->mr.key},
		{UINT64_MAX - 6, top->mr.key},
	};
	struct wire_fields f = {
		.opcode = op, .psn = RQ, .va = bad[which].va, .rkey = bad[which].key, .dmalen = 8};

	recv_post(c, 1, 0, 64);
	peer_put(c, f, 0, op == WIRE_OP_READ_REQ ? 0 : 8);
	expect_fatal(c, RQ, NAK_SYN(REM_ACCESS));
	event_expect(c->b, QP_EVENT_QP_ACCESS_ERR);
	event_none(c->b);
	recv_cqe(c, 1, QP_WC_WR_FLUSH_ERR); /* no receive was used: all are flushed */
	cqe_none(c);
	expect_untouched(c->remote);
	expect_untouched(top);
}

REQUIREMENT("NAK-06", "MEM-02", "EVT-03")
BENCH_TEST(every_forbidden_access_is_refused)
{
	uint32_t i;

	for (i = 0; i < 18; i++) {
		check_no_access(state, i < 9 ? WIRE_OP_WRITE_ONLY : WIRE_OP_READ_REQ, i % 9);
		next_bench(state);
	}
}

/* The very edges are inside. */
REQUIREMENT("MEM-02")
BENCH_TEST(access_at_the_edges_of_a_region_is_checked)
{
	struct conn *c = conn_next(state, ALL_REMOTE);
	struct bench_region *top = region_add(*state, 7, UINT64_MAX - 63, 64, ALL_REMOTE);
	struct wire_fields f = {.opcode = WIRE_OP_WRITE_ONLY,
				.psn = RQ + 2,
				.ackreq = true,
				.va = UINT64_MAX - 63,
				.rkey = top->mr.key,
				.dmalen = 64};

	peer_write(c, WIRE_OP_WRITE_ONLY, RQ, REMOTE_VA, 8, 0, 8);
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ + 1, REMOTE_VA + BENCH_BYTES - 8, 8, 8, 8);
	peer_put(c, f, 16, 64);
	ack_expect(c, RQ + 2);
	assert_memory_equal(c->remote->bytes, bench_bytes, 8);
	assert_memory_equal(c->remote->bytes + BENCH_BYTES - 8, bench_bytes + 8, 8);
	assert_memory_equal(top->bytes, bench_bytes + 16, 64);
}

/* Half of a WRITE is in when its region goes. */
REQUIREMENT("NAK-06")
BENCH_TEST(region_deregistered_within_a_message_is_refused)
{
	struct conn *c = conn_next(state, ALL_REMOTE);

	peer_write(c, WIRE_OP_WRITE_FIRST, RQ, REMOTE_VA, 2 * MTU, 0, MTU);
	ack_expect(c, RQ);
	region_drop(c->b, c->remote);
	peer_write(c, WIRE_OP_WRITE_LAST, RQ + 1, 0, 0, MTU, MTU);
	expect_fatal(c, RQ + 1, NAK_SYN(REM_ACCESS));
	event_expect(c->b, QP_EVENT_QP_ACCESS_ERR);
	assert_int_equal(c->remote->bytes[MTU], 0);
}

/* No bytes, no key: IBTA does not have it checked, and rxe sends such. */
REQUIREMENT("MEM-02")
BENCH_TEST(zero_length_needs_no_key)
{
	struct conn *c = conn_next(state, ALL_REMOTE);
	struct wire_fields f = {.opcode = WIRE_OP_WRITE_ONLY,
				.psn = RQ,
				.ackreq = true,
				.va = 0x1234,
				.rkey = 0xdeadbeef};

	peer_put(c, f, 0, 0);
	ack_expect(c, RQ);
	f.opcode = WIRE_OP_READ_REQ;
	f.psn++;
	peer_put(c, f, 0, 0);
	pkt_expect(c, WIRE_OP_READ_RESP_ONLY, RQ + 1);
}

REQUIREMENT("EVT-02", "NAK-09")
BENCH_TEST(invalid_request_event_names_the_qp)
{
	struct conn *c = conn_next(state, ALL_REMOTE);

	peer_write(c, WIRE_OP_WRITE_LAST, RQ, 0, 0, 0, 8);
	event_expect(c->b, QP_EVENT_QP_REQ_ERR);
	assert_ptr_equal(c->b->event[0].qp, c->qp);
	assert_null(c->b->event[0].cq);
}

/* The network has doubled it, in one burst: it is refused once, and takes no second receive. */
REQUIREMENT("NAK-07", "NAK-09")
BENCH_TEST(refused_request_gets_one_nak)
{
	struct conn *c = conn_next(state, ALL_REMOTE);

	recv_post(c, 1, 0, 4);
	recv_post(c, 2, 0, MTU);
	peer_send(c, WIRE_OP_SEND_ONLY, RQ, 0, 8);
	peer_send(c, WIRE_OP_SEND_ONLY, RQ, 0, 8);
	peer_read(c, RQ, REMOTE_VA, 8);
	answer_expect(c, RQ, NAK_SYN(INV_REQ));
	recv_cqe(c, 1, QP_WC_LOC_LEN_ERR);
	recv_cqe(c, 2, QP_WC_WR_FLUSH_ERR);
	event_none(c->b);
	assert_int_equal(DROPS(c, QP_STATE), 2);
}

/* NAK-08: the error is the receiver's. */
REQUIREMENT("CQE-04", "NAK-08")
BENCH_TEST(bad_lkey_in_a_receive_is_an_operation_error)
{
	struct bench_region *ro = region_add(*state, 7, 0x9000, 64, MEM_REMOTE_WRITE);
	struct bench_region *other = region_add(*state, 8, LOCAL_VA, 64, MEM_LOCAL_WRITE);
	uint32_t i;

	for (i = 0; i < 5; i++) {
		struct conn *c = conn_next(state, ALL_REMOTE);
		uint32_t key = c->local->mr.key;
		struct uroce_sge sge[2] = {{LOCAL_VA, 4, key}, {0}};
		const struct uroce_sge bad[] = {
			{LOCAL_VA, 8, key ^ 1},   {LOCAL_VA + BENCH_BYTES - 3, 8, key},
			{0x9000, 8, ro->mr.key},  {LOCAL_VA, 8, other->mr.key},
			{UINT64_MAX - 2, 8, key},
		};

		sge[1] = bad[i];
		recv_post_sges(c, 1, sge, 2);
		recv_post(c, 2, 0, MTU);
		peer_send(c, WIRE_OP_SEND_ONLY, RQ, 0, 8);
		expect_fatal(c, RQ, NAK_SYN(REM_OP));
		recv_cqe(c, 1, QP_WC_LOC_PROT_ERR);
		recv_cqe(c, 2, QP_WC_WR_FLUSH_ERR);
		event_none(c->b);
		expect_untouched(c->local); /* not even the good part */
	}
}

/* A key that the message does not reach is not checked. */
REQUIREMENT("CQE-04")
BENCH_TEST(only_the_used_part_of_a_receive_is_checked)
{
	struct conn *c = conn_next(state, ALL_REMOTE);
	struct uroce_sge sge[2] = {{LOCAL_VA, 8, c->local->mr.key}, {0x1234, 8, 0xbad}};

	recv_post_sges(c, 1, sge, 2);
	peer_send(c, WIRE_OP_SEND_ONLY, RQ, 0, 8);
	recv_cqe(c, 1, QP_WC_SUCCESS);
	ack_expect(c, RQ);
}

REQUIREMENT("CQE-03", "NAK-08")
BENCH_TEST(malformed_receive_is_an_operation_error)
{
	struct conn *c = conn_next(state, ALL_REMOTE);

	recv_post(c, 1, 0, MTU);
	((struct uroce_recv_wqe *)c->rq.slots)->num_sge = 5; /* the queue has 4 */
	recv_post(c, 2, 0, MTU);
	peer_send(c, WIRE_OP_SEND_ONLY, RQ, 0, 8);
	expect_fatal(c, RQ, NAK_SYN(REM_OP));
	recv_cqe(c, 1, QP_WC_LOC_QP_OP_ERR);
	recv_cqe(c, 2, QP_WC_WR_FLUSH_ERR);
}

REQUIREMENT("CQE-07", "NAK-06")
BENCH_TEST(write_imm_with_a_bad_rkey_completes_the_receive_in_error)
{
	struct conn *c = conn_next(state, ALL_REMOTE);

	recv_post(c, 1, 0, MTU);
	recv_post(c, 2, 0, MTU);
	peer_write(c, WIRE_OP_WRITE_ONLY_IMM, RQ, REMOTE_VA + BENCH_BYTES, 8, 0, 8);
	expect_fatal(c, RQ, NAK_SYN(REM_ACCESS));
	recv_cqe(c, 1, QP_WC_LOC_ACCESS_ERR);
	recv_cqe(c, 2, QP_WC_WR_FLUSH_ERR);
	event_none(c->b); /* one or the other, never both */
}

/* Found in the first packet it is not known yet that an immediate will come: the event. */
REQUIREMENT("EVT-03")
BENCH_TEST(write_imm_refused_at_its_first_packet)
{
	struct conn *c = conn_next(state, ALL_REMOTE);

	recv_post(c, 1, 0, MTU);
	peer_write(c, WIRE_OP_WRITE_FIRST, RQ, REMOTE_VA + BENCH_BYTES - MTU, 2 * MTU, 0, MTU);
	expect_fatal(c, RQ, NAK_SYN(REM_ACCESS));
	event_expect(c->b, QP_EVENT_QP_ACCESS_ERR);
	recv_cqe(c, 1, QP_WC_WR_FLUSH_ERR);
	expect_untouched(c->remote); /* the whole range is checked before a byte of it */
}

REQUIREMENT("NAK-08", "CQE-04")
BENCH_TEST(failed_copy_into_client_memory_is_an_operation_error)
{
	struct conn *c = conn_next(state, ALL_REMOTE);

	region_by_ops(c->local, UINT32_MAX);
	recv_post(c, 1, 0, MTU);
	peer_send(c, WIRE_OP_SEND_ONLY, RQ, 0, 8);
	recv_cqe(c, 1, QP_WC_SUCCESS);
	ack_expect(c, RQ);
	assert_memory_equal(c->local->bytes, bench_bytes, 8);
	c->local->good = 0;
	recv_post(c, 2, 0, MTU);
	peer_send(c, WIRE_OP_SEND_ONLY, RQ + 1, 0, 8);
	expect_fatal(c, RQ + 1, NAK_SYN(REM_OP));
	recv_cqe(c, 2, QP_WC_LOC_PROT_ERR);
}
