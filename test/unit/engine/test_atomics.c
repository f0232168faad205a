/* SPDX-License-Identifier: BSD-3-Clause */
/* Atomics, both sides (REQ-02, REQ-03, RSP-01, RSP-03, NAK-06, NAK-07, EVT-03). */
#include <errno.h>
#include <string.h>
#include "harness.h"

#define SQ 0x001000u
#define RQ 0x555000u

static struct conn *
conn_atomic(void **state)
{
	struct conn *c = conn_open(*state, CONN(cfg.access = ALL_REMOTE | MEM_REMOTE_ATOMIC));

	c->remote->mr.access = ALL_REMOTE | MEM_REMOTE_ATOMIC;
	return c;
}

static void
peer_atomic(struct conn *c, uint8_t op, uint32_t psn, uint64_t va, uint64_t swap_add,
	    uint64_t compare)
{
	peer_put(c,
		 (struct wire_fields){.opcode = op,
				      .psn = psn,
				      .ackreq = true,
				      .va = va,
				      .rkey = c->remote->mr.key,
				      .swap_add = swap_add,
				      .compare = compare},
		 0, 0);
}

static uint64_t
value(struct conn *c, uint32_t off)
{
	uint64_t v;

	memcpy(&v, c->remote->bytes + off, 8);
	return v;
}

REQUIREMENT("RSP-01")
BENCH_TEST(duplicate_atomic_is_not_executed_again)
{
	struct conn *c = conn_atomic(state);
	uint32_t i;

	peer_atomic(c, WIRE_OP_FETCH_ADD, RQ, REMOTE_VA, 5, 0);
	assert_true(pkt_expect(c, WIRE_OP_ATOMIC_ACK, RQ).orig == 0);
	peer_atomic(c, WIRE_OP_FETCH_ADD, RQ + 1, REMOTE_VA, UINT64_MAX, 0);
	assert_true(pkt_expect(c, WIRE_OP_ATOMIC_ACK, RQ + 1).orig == 5);
	assert_true(value(c, 0) == 4);
	peer_atomic(c, WIRE_OP_CMP_SWAP, RQ + 2, REMOTE_VA, 100, 4);
	assert_true(pkt_expect(c, WIRE_OP_ATOMIC_ACK, RQ + 2).orig == 4);
	peer_atomic(c, WIRE_OP_CMP_SWAP, RQ + 3, REMOTE_VA, 200, 4); /* not equal: no swap */
	assert_true(pkt_expect(c, WIRE_OP_ATOMIC_ACK, RQ + 3).orig == 100);
	assert_true(value(c, 0) == 100);
	/* Duplicates in any order get the original results; memory is unchanged. */
	for (i = 0; i < 4; i++) {
		static const uint64_t was[] = {0, 5, 4, 100};
		uint32_t k = i ^ 2;
		bool swap = k >= 2;

		peer_atomic(c, swap ? WIRE_OP_CMP_SWAP : WIRE_OP_FETCH_ADD, RQ + k, REMOTE_VA,
			    swap     ? 100 * (k - 1)
			    : k == 0 ? 5
				     : UINT64_MAX,
			    swap ? 4 : 0);
		assert_true(pkt_expect(c, WIRE_OP_ATOMIC_ACK, RQ + k).orig == was[k]);
		pkt_none(c);
		assert_true(value(c, 0) == 100);
	}
	peer_atomic(c, WIRE_OP_FETCH_ADD, RQ + 4, REMOTE_VA, 1, 0);
	assert_true(pkt_expect(c, WIRE_OP_ATOMIC_ACK, RQ + 4).orig == 100);
}

/* PSNs wrap after 2^24: a duplicate gets the result of the newest atomic with its PSN. */
REQUIREMENT("RSP-01", "WIRE-06")
BENCH_TEST(duplicate_atomic_after_psn_wrap_gets_the_newest_result)
{
	struct conn *c = conn_atomic(state);
	uint32_t round;

	for (round = 0; round < 20; round++) {
		peer_atomic(c, WIRE_OP_FETCH_ADD, RQ, REMOTE_VA, 1, 0);
		assert_true(pkt_expect(c, WIRE_OP_ATOMIC_ACK, RQ).orig == round);
		peer_atomic(c, WIRE_OP_FETCH_ADD, RQ, REMOTE_VA, 1, 0);
		assert_true(pkt_expect(c, WIRE_OP_ATOMIC_ACK, RQ).orig == round);
		assert_true(value(c, 0) == round + 1);
		c->qp->conn.rcv.epsn = RQ; /* 2^24 - 1 packets of SENDs */
	}
}

REQUIREMENT("RSP-03")
BENCH_TEST(atomics_and_reads_keep_order)
{
	struct conn *c = conn_atomic(state);

	peer_read(c, RQ, REMOTE_VA + 64, 8);
	peer_atomic(c, WIRE_OP_FETCH_ADD, RQ + 1, REMOTE_VA, 1, 0);
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ + 2, REMOTE_VA + 128, 8, 0, 8);
	peer_atomic(c, WIRE_OP_FETCH_ADD, RQ + 3, REMOTE_VA, 1, 0);
	pkt_expect(c, WIRE_OP_READ_RESP_ONLY, RQ);
	assert_int_equal(pkt_expect(c, WIRE_OP_ATOMIC_ACK, RQ + 1).msn, 2);
	assert_true(pkt_expect(c, WIRE_OP_ATOMIC_ACK, RQ + 3).orig == 1);
	pkt_none(c);
}

REQUIREMENT("NAK-07", "EVT-03")
BENCH_TEST(misaligned_atomic_is_refused)
{
	uint32_t off;

	for (off = 1; off < 8; off++) {
		struct conn *c = conn_atomic(state);

		peer_atomic(c, WIRE_OP_FETCH_ADD, RQ, REMOTE_VA + off, 1, 0);
		answer_expect(c, RQ, NAK_SYN(INV_REQ));
		event_expect(c->b, QP_EVENT_QP_ACCESS_ERR);
		state_expect(c, QP_ERR);
		assert_true(value(c, 0) == 0 && value(c, 8) == 0);
	}
}

REQUIREMENT("NAK-07")
BENCH_TEST(atomics_beyond_the_depth_are_refused)
{
	struct conn *c = conn_atomic(state);
	uint32_t i;

	for (i = 0; i < 5; i++)
		peer_atomic(c, WIRE_OP_FETCH_ADD, RQ + i, REMOTE_VA, 1, 0);
	for (i = 0; i < 4; i++)
		pkt_expect(c, WIRE_OP_ATOMIC_ACK, RQ + i);
	answer_expect(c, RQ + 4, NAK_SYN(INV_REQ));
	event_expect(c->b, QP_EVENT_QP_ACCESS_ERR);
	assert_true(value(c, 0) == 4);
}

REQUIREMENT("NAK-06")
BENCH_TEST(atomic_without_the_access_right_is_refused)
{
	struct conn *c = conn_atomic(state);

	c->remote->mr.access = ALL_REMOTE;
	peer_atomic(c, WIRE_OP_FETCH_ADD, RQ, REMOTE_VA, 1, 0);
	answer_expect(c, RQ, NAK_SYN(REM_ACCESS));
	event_expect(c->b, QP_EVENT_QP_ACCESS_ERR);
	assert_true(value(c, 0) == 0);
}

static void
client_atomic(struct conn *c, uint64_t id, uint8_t op, uint64_t compare_add, uint64_t swap,
	      uint32_t len)
{
	struct uroce_send_wqe *w =
		(struct uroce_send_wqe *)(c->sq.slots + (c->sq.prod & 63) * c->sq.stride);

	post_quiet(c, (struct wr){.id = id, .op = op, .flags = SIG, .len = len});
	w->rdma.compare_add = compare_add;
	w->rdma.swap = swap;
	ring_doorbell(c);
}

REQUIREMENT("REQ-03")
BENCH_TEST(atomic_requests_carry_their_operands)
{
	struct conn *c = conn_atomic(state);
	struct wire_fields f = {.opcode = WIRE_OP_ATOMIC_ACK, .syndrome = ACK_SYN};
	struct uroce_cqe cqe;
	struct wire_pkt p;
	uint64_t v;

	client_atomic(c, 1, UROCE_WR_ATOMIC_CMP_SWAP, 11, 22, 8);
	client_atomic(c, 2, UROCE_WR_ATOMIC_FETCH_ADD, 33, 0, 8);
	p = pkt_expect(c, WIRE_OP_CMP_SWAP, SQ);
	assert_true(p.compare == 11 && p.swap_add == 22 && p.va == PEER_VA && p.rkey == PEER_RKEY);
	p = pkt_expect(c, WIRE_OP_FETCH_ADD, SQ + 1);
	assert_true(p.swap_add == 33);
	f.psn = SQ;
	f.orig = 0x0123456789abcdef;
	peer_put(c, f, 0, 0);
	cqe = send_cqe(c, 1, QP_WC_SUCCESS);
	assert_int_equal(cqe.opcode, UROCE_CQE_COMP_SWAP);
	assert_int_equal(cqe.byte_len, 8);
	memcpy(&v, c->local->bytes, 8);
	assert_true(v == 0x0123456789abcdef);
	f.psn = SQ + 1;
	peer_put(c, f, 0, 0);
	assert_int_equal(send_cqe(c, 2, QP_WC_SUCCESS).opcode, UROCE_CQE_FETCH_ADD);
}

REQUIREMENT("CQE-02")
BENCH_TEST(atomic_of_a_length_other_than_8_is_refused)
{
	static const uint32_t lens[] = {0, 4, 16};
	uint32_t i;

	for (i = 0; i < 3; i++) {
		struct conn *c = conn_atomic(state);

		client_atomic(c, 1, UROCE_WR_ATOMIC_FETCH_ADD, 1, 0, lens[i]);
		pkt_none(c);
		send_cqe(c, 1, QP_WC_LOC_LEN_ERR);
	}
}

/* A plain ACK carries no value: the requester retransmits the atomic. */
REQUIREMENT("REQ-08")
BENCH_TEST(lost_atomic_response_is_requested_again)
{
	struct conn *c = conn_atomic(state);

	client_atomic(c, 1, UROCE_WR_ATOMIC_FETCH_ADD, 1, 0, 8);
	post(c, (struct wr){.id = 2, .op = UROCE_WR_SEND, .flags = SIG, .len = 8});
	assert_int_equal(pkt_count(c), 2);
	peer_ack(c, SQ + 1);
	cqe_none(c);
	pkt_expect(c, WIRE_OP_FETCH_ADD, SQ);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 1);
}

/*
 * Copied memory that is gone fails the request; if its process is gone too, there is no response.
 */
REQUIREMENT("NAK-08")
BENCH_TEST(atomic_on_memory_that_fails_is_refused)
{
	struct conn *c = conn_atomic(state);

	region_by_ops(c->remote, 0);
	peer_atomic(c, WIRE_OP_FETCH_ADD, RQ, REMOTE_VA, 5, 0);
	answer_expect(c, RQ, NAK_SYN(REM_OP));
	event_expect(c->b, QP_EVENT_QP_FATAL);
	state_expect(c, QP_ERR);

	c = conn_atomic(state);
	region_by_ops(c->remote, 0);
	c->remote->error = -ESRCH;
	peer_atomic(c, WIRE_OP_CMP_SWAP, RQ, REMOTE_VA, 5, 0);
	pkt_none(c);
	event_none(c->b);
	state_expect(c, QP_ERR);
}
