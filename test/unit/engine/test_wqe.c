/* SPDX-License-Identifier: BSD-3-Clause */
/* Send WQEs that cannot be: found before anything is sent (REQ-03, CQE-02 .. 04, MEM-02). */
#include <string.h>
#include "harness.h"

#define SQ 0x001000u

/* wr is invalid: nothing of it is sent, it fails with status, and the QP goes to ERR. */
static void
check_refused(struct conn *c, struct wr wr, enum qp_wc_status status)
{
	post(c, (struct wr){.id = 1, .op = UROCE_WR_SEND, .flags = SIG, .len = 4});
	wr.id = 2; /* unsignaled: an error is reported anyway */
	post(c, wr);
	post(c, (struct wr){.id = 3, .op = UROCE_WR_SEND, .flags = SIG, .len = 4});
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
	pkt_none(c);
	cqe_none(c); /* in order: the one before it first */
	peer_ack(c, SQ);
	send_cqe(c, 1, QP_WC_SUCCESS);
	send_cqe(c, 2, status);
	send_cqe(c, 3, QP_WC_WR_FLUSH_ERR);
	cqe_none(c);
	pkt_none(c);
	state_expect(c, QP_ERR);
	assert_int_equal(conn_to(c, QP_RESET), 0);
}

REQUIREMENT("CQE-04", "REQ-03", "MEM-02")
BENCH_TEST(every_wrong_lkey_fails)
{
	struct bench_region *other = region_add(*state, 99, LOCAL_VA, 64, MEM_LOCAL_WRITE);
	uint32_t i;

	for (i = 0; i < 12; i++) {
		struct conn *c = conn_open(*state, conn_rc);
		uint32_t key = c->local->mr.key, nsge = 1 + i % 2;
		const struct uroce_sge bad[] = {
			{LOCAL_VA, 4, 0},                     /* never given out */
			{LOCAL_VA, 4, key ^ 1},               /* the varying part guessed wrong */
			{LOCAL_VA, 4, UINT32_MAX},            /* an index that no table has */
			{LOCAL_VA + BENCH_BYTES - 3, 4, key}, /* a byte too far */
			{LOCAL_VA - 1, 4, key},               /* a byte too early */
			{LOCAL_VA, 4, other->mr.key},         /* another protection domain's */
		};
		struct uroce_sge sge[2] = {{LOCAL_VA, 4, key}, {0}};

		sge[nsge - 1] = bad[i / 2];
		check_refused(c, (struct wr){.op = UROCE_WR_SEND, .sge = sge, .nsge = nsge},
			      QP_WC_LOC_PROT_ERR);
	}
}

/* The bad SGE is packets away from the start: not one of them goes. */
REQUIREMENT("REQ-03")
BENCH_TEST(message_with_a_bad_last_sge_is_not_sent)
{
	static const uint8_t ops[] = {UROCE_WR_SEND, UROCE_WR_RDMA_WRITE, UROCE_WR_RDMA_READ};
	uint32_t i;

	for (i = 0; i < sizeof(ops); i++) {
		struct conn *c = conn_open(*state, conn_rc);
		struct uroce_sge sge[2] = {{LOCAL_VA, 8192, c->local->mr.key},
					   {LOCAL_VA, 4, 0xbad}};

		check_refused(c, (struct wr){.op = ops[i], .sge = sge, .nsge = 2},
			      QP_WC_LOC_PROT_ERR);
	}
}

REQUIREMENT("CQE-04")
BENCH_TEST(key_of_deregistered_memory_fails)
{
	struct conn *c = conn_open(*state, conn_rc);

	region_drop(c->b, c->local);
	post(c, (struct wr){.id = 2, .op = UROCE_WR_SEND, .len = 4});
	pkt_none(c);
	send_cqe(c, 2, QP_WC_LOC_PROT_ERR);
}

REQUIREMENT("CQE-04", "REQ-03")
BENCH_TEST(read_into_read_only_memory_fails)
{
	struct conn *c = conn_open(*state, conn_rc);
	struct bench_region *ro = region_add(*state, 7, 0x5000, 64, MEM_REMOTE_READ);
	struct uroce_sge sge = {0x5000, 64, ro->mr.key};

	/* To read from it is always granted. */
	post(c, (struct wr){.id = 9, .op = UROCE_WR_SEND, .flags = SIG, .sge = &sge, .nsge = 1});
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
	peer_ack(c, SQ);
	send_cqe(c, 9, QP_WC_SUCCESS);
	post(c, (struct wr){.id = 10, .op = UROCE_WR_RDMA_READ, .sge = &sge, .nsge = 1});
	pkt_none(c);
	send_cqe(c, 10, QP_WC_LOC_PROT_ERR);
}

/* Bytes that are gathered from several SGEs are read: no right to write them is needed. */
REQUIREMENT("REQ-03", "MEM-02")
BENCH_TEST(send_gathers_from_read_only_memory)
{
	struct conn *c = conn_open(*state, conn_rc);
	struct bench_region *ro = region_add(*state, 7, 0x5000, 64, MEM_REMOTE_READ);
	struct uroce_sge sge[2] = {{0x5020, 32, ro->mr.key}, {0x5000, 32, ro->mr.key}};
	struct wire_pkt p;

	memcpy(ro->bytes, bench_bytes, 64);
	post(c, (struct wr){.id = 9, .op = UROCE_WR_SEND, .flags = SIG, .sge = sge, .nsge = 2});
	p = pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
	assert_memory_equal(p.payload, bench_bytes + 32, 32);
	assert_memory_equal(p.payload + 32, bench_bytes, 32);
	peer_ack(c, SQ);
	send_cqe(c, 9, QP_WC_SUCCESS);
}

/* The right to write the memory is removed before the READ's data arrives. */
REQUIREMENT("REQ-03", "MEM-02")
BENCH_TEST(read_data_stays_out_of_memory_made_read_only)
{
	struct conn *c = conn_open(*state, conn_rc);
	struct uroce_sge sge[2] = {{LOCAL_VA, 32, c->local->mr.key},
				   {LOCAL_VA + 32, 32, c->local->mr.key}};

	memset(c->local->bytes, 0, 64);
	post(c, (struct wr){.id = 9, .op = UROCE_WR_RDMA_READ, .sge = sge, .nsge = 2});
	pkt_expect(c, WIRE_OP_READ_REQ, SQ);
	c->local->mr.access = MEM_REMOTE_READ;
	peer_read_resp(c, WIRE_OP_READ_RESP_ONLY, SQ, 1, 64);
	send_cqe(c, 9, QP_WC_LOC_PROT_ERR);
	assert_int_equal(c->local->bytes[0] | c->local->bytes[63], 0);
}

/* The range is checked without an overflowing sum. */
REQUIREMENT("MEM-02")
BENCH_TEST(sge_at_the_end_of_the_address_space_does_not_overflow)
{
	struct conn *c = conn_open(*state, conn_rc);
	struct bench_region *top = region_add(*state, 7, UINT64_MAX - 63, 64, MEM_LOCAL_WRITE);
	struct uroce_sge good = {UINT64_MAX - 63, 64, top->mr.key};
	struct uroce_sge bad = {UINT64_MAX - 7, 16, top->mr.key};

	memcpy(top->bytes, bench_bytes, 64);
	post(c, (struct wr){.id = 9, .op = UROCE_WR_SEND, .flags = SIG, .sge = &good, .nsge = 1});
	assert_memory_equal(pkt_expect(c, WIRE_OP_SEND_ONLY, SQ).payload, bench_bytes, 64);
	peer_ack(c, SQ);
	send_cqe(c, 9, QP_WC_SUCCESS);
	post(c, (struct wr){.id = 10, .op = UROCE_WR_SEND, .sge = &bad, .nsge = 1});
	pkt_none(c);
	send_cqe(c, 10, QP_WC_LOC_PROT_ERR);
}

/* An SGE of no bytes names no memory. */
REQUIREMENT("REQ-03")
BENCH_TEST(empty_sges_need_no_key)
{
	struct conn *c = conn_open(*state, conn_rc);
	struct uroce_sge sge[2] = {{0x1234, 0, 0xdead}, {UINT64_MAX, 0, 0}};

	for (uint32_t n = 0; n < 2; n++) {
		post(c, (struct wr){.id = n,
				    .op = UROCE_WR_SEND,
				    .flags = SIG,
				    .sge = sge,
				    .nsge = n + 1});
		assert_int_equal(pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + n).payload_len, 0);
		peer_ack(c, SQ + n);
		send_cqe(c, n, QP_WC_SUCCESS);
	}
}

REQUIREMENT("CQE-03", "REQ-03")
BENCH_TEST(opcodes_unknown_to_rc_fail)
{
	static const uint8_t ops[] = {UROCE_WR_OPCODES, 0x55, 0xff};
	uint32_t i;

	for (i = 0; i < sizeof(ops); i++)
		check_refused(conn_open(*state, conn_rc), (struct wr){.op = ops[i]},
			      QP_WC_LOC_QP_OP_ERR);
}

REQUIREMENT("CQE-03")
BENCH_TEST(unknown_flags_fail)
{
	static const uint8_t ops[] = {UROCE_WR_SEND, UROCE_WR_RDMA_WRITE, UROCE_WR_RDMA_READ,
				      UROCE_WR_ATOMIC_FETCH_ADD, UROCE_WR_LOCAL_INV};
	uint32_t i;

	for (i = 0; i < sizeof(ops); i++)
		check_refused(conn_open(*state, conn_rc),
			      (struct wr){.op = ops[i],
					  .flags = (uint8_t)(0x10 << i % 4),
					  .len = 8},
			      QP_WC_LOC_QP_OP_ERR);
}

REQUIREMENT("CQE-03")
BENCH_TEST(more_sges_than_a_slot_holds_fail)
{
	struct conn *c = conn_open(*state, conn_rc);
	struct uroce_send_wqe *w;

	post_quiet(c, (struct wr){.id = 1, .op = UROCE_WR_SEND, .len = 4});
	w = (struct uroce_send_wqe *)c->sq.slots;
	w->num = 5;
	ring_doorbell(c);
	pkt_none(c);
	send_cqe(c, 1, QP_WC_LOC_QP_OP_ERR);
}

REQUIREMENT("CQE-03")
BENCH_TEST(inline_data_longer_than_granted_fails)
{
	struct conn *c = conn_open(*state, conn_rc);
	struct uroce_send_wqe *w;

	post_quiet(c, (struct wr){.id = 1, .op = UROCE_WR_SEND, .flags = UROCE_WQE_INLINE});
	w = (struct uroce_send_wqe *)c->sq.slots;
	w->num = 65;
	ring_doorbell(c);
	pkt_none(c);
	send_cqe(c, 1, QP_WC_LOC_QP_OP_ERR);
}

/* Not taken for one SGE, whatever the copy's place held before. */
BENCH_TEST(one_byte_is_sent_inline)
{
	struct conn *c = conn_open(*state, conn_rc);
	struct wire_pkt pkt;
	uint32_t i;

	for (i = 0; i < conn_rc.sq_entries; i++)
		post(c, (struct wr){.id = i, .op = UROCE_WR_SEND, .flags = SIG, .len = 100});
	assert_int_equal(pkt_count(c), i);
	peer_ack(c, SQ + i - 1);
	for (i = 0; i < conn_rc.sq_entries; i++)
		send_cqe(c, i, QP_WC_SUCCESS);
	post_inline(c, (struct wr){.id = 99, .op = UROCE_WR_SEND, .flags = SIG}, "x", 1);
	pkt = pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + i);
	assert_int_equal(pkt.payload_len, 1);
	assert_int_equal(pkt.payload[0], 'x');
}

REQUIREMENT("CQE-03")
BENCH_TEST(inline_read_fails)
{
	struct conn *c = conn_open(*state, conn_rc);

	post_inline(c, (struct wr){.id = 1, .op = UROCE_WR_RDMA_READ}, "abcd", 4);
	pkt_none(c);
	send_cqe(c, 1, QP_WC_LOC_QP_OP_ERR);
}

REQUIREMENT("CQE-03")
BENCH_TEST(read_without_read_depth_fails)
{
	struct conn *c = conn_open(*state, CONN(cfg.max_rd_atomic = 0));

	post(c, (struct wr){.id = 1, .op = UROCE_WR_RDMA_READ, .len = 4});
	pkt_none(c);
	send_cqe(c, 1, QP_WC_LOC_QP_OP_ERR);
}

REQUIREMENT("CQE-02", "REQ-03")
BENCH_TEST(message_over_2_to_the_31_fails)
{
	static const uint8_t ops[] = {UROCE_WR_SEND, UROCE_WR_RDMA_WRITE, UROCE_WR_RDMA_READ};
	uint32_t i;

	for (i = 0; i < sizeof(ops); i++) {
		struct conn *c = conn_open(*state, conn_rc);
		struct uroce_sge sge[3] = {{LOCAL_VA, 1u << 31, c->local->mr.key},
					   {LOCAL_VA, 1, c->local->mr.key}};

		check_refused(c, (struct wr){.op = ops[i], .sge = sge, .nsge = 2},
			      QP_WC_LOC_LEN_ERR);
		/* A sum that wraps in 32 bits is not a small one. */
		c = conn_open(*state, conn_rc);
		sge[0] = sge[1] = (struct uroce_sge){LOCAL_VA, 1u << 31, c->local->mr.key};
		check_refused(c, (struct wr){.op = ops[i], .sge = sge, .nsge = 2},
			      QP_WC_LOC_LEN_ERR);
	}
}

/* Exactly 2^31 bytes are legal: such a READ is sent. */
REQUIREMENT("WIRE-05")
BENCH_TEST(message_of_2_to_the_31_is_sent)
{
	struct bench_region *big;
	struct uroce_sge sge;
	struct wire_pkt p;
	struct conn *c = conn_open(*state, CONN(cfg.mtu_code = 5));

	big = region_add(*state, 7, 1ull << 40, 4096, MEM_LOCAL_WRITE);
	big->mr.len = 1ull << 31; /* never accessed, only requested */
	sge = (struct uroce_sge){1ull << 40, 1u << 31, big->mr.key};
	post(c,
	     (struct wr){.id = 1, .op = UROCE_WR_RDMA_READ, .flags = SIG, .sge = &sge, .nsge = 1});
	p = pkt_expect(c, WIRE_OP_READ_REQ, SQ);
	assert_int_equal(p.dmalen, 1u << 31);
	pkt_none(c);
	cqe_none(c);
	big->mr.len = 4096;
}

/* A key is invalidated while its message is being sent: no further byte of its memory is sent. */
REQUIREMENT("REQ-03")
BENCH_TEST(memory_deregistered_within_a_message_fails)
{
	struct conn *c = conn_open(*state, CONN(cfg.mtu_code = 1));
	uint32_t sent;

	post(c, (struct wr){.id = 1, .op = UROCE_WR_SEND, .flags = SIG, .len = 300 * 256});
	post(c, (struct wr){.id = 2, .op = UROCE_WR_SEND, .flags = SIG, .len = 4});
	sent = pkt_count(c);
	assert_true(sent < 300);
	region_drop(c->b, c->local);
	peer_ack(c, SQ + sent - 1);
	pkt_none(c);
	send_cqe(c, 1, QP_WC_LOC_PROT_ERR);
	send_cqe(c, 2, QP_WC_WR_FLUSH_ERR);
	state_expect(c, QP_ERR);
}

/* Memory reached by copying: a client that has unmapped it gets its own error. */
REQUIREMENT("REQ-03")
BENCH_TEST(failed_copies_fail_the_wqe)
{
	struct conn *c = conn_open(*state, conn_rc);

	region_by_ops(c->local, UINT32_MAX);
	post(c, (struct wr){.id = 1, .op = UROCE_WR_SEND, .flags = SIG, .len = 100});
	assert_memory_equal(pkt_expect(c, WIRE_OP_SEND_ONLY, SQ).payload, bench_bytes, 100);
	c->local->good = 0;
	post(c, (struct wr){.id = 2, .op = UROCE_WR_SEND, .flags = SIG, .len = 100});
	pkt_none(c);
	peer_ack(c, SQ);
	send_cqe(c, 1, QP_WC_SUCCESS);
	send_cqe(c, 2, QP_WC_LOC_PROT_ERR);
}

/* The WQE is checked and used from one copy: later writes of the client have no effect. */
REQUIREMENT("REQ-03")
BENCH_TEST(wqe_slot_is_read_once)
{
	struct conn *c = conn_open(*state, conn_rc);
	struct uroce_sge *sge = (struct uroce_sge *)(c->sq.slots + UROCE_SEND_WQE_HDR);
	struct wire_pkt p;

	post(c, (struct wr){.id = 1, .op = UROCE_WR_RDMA_WRITE, .flags = SIG, .len = 2048});
	assert_int_equal(pkt_count(c), 2);
	*sge = (struct uroce_sge){0, 0xffffffff, 0};
	memset(c->sq.slots, 0xff, UROCE_SEND_WQE_HDR);
	peer_nak(c, SQ, NAK_SYN(PSN_SEQ));
	p = pkt_expect(c, WIRE_OP_WRITE_FIRST, SQ);
	assert_true(p.va == PEER_VA);
	assert_memory_equal(p.payload, bench_bytes, 1024);
	pkt_expect(c, WIRE_OP_WRITE_LAST, SQ + 1);
	peer_ack(c, SQ + 1);
	send_cqe(c, 1, QP_WC_SUCCESS);
}
