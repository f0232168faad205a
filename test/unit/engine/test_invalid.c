/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Invalid requests: each cause that NAK-07 names, in its order, and the cases without a NAK. Frames
 * that are no request of the QP's service are dropped earlier (test_drops.c).
 */
#include <string.h>
#include "bend.h"

#define RQ  0x555000u
#define MTU 1024u

static struct conn *
conn_type(void **state, enum qp_type type, uint32_t access)
{
	struct conn *c = conn_open(*state, CONN(cfg.type = type, cfg.qkey = 0x11111111,
						cfg.access = access));

	memset(c->local->bytes, 0, BENCH_BYTES);
	return c;
}

static struct conn *
conn_next(void **state)
{
	return conn_type(state, QP_TYPE_RC, ALL_REMOTE | MEM_REMOTE_ATOMIC);
}

/* The request at psn was refused once; later packets are dropped. */
static void
expect_refused(struct conn *c, uint32_t psn)
{
	answer_expect(c, psn, NAK_SYN(INV_REQ));
	state_expect(c, QP_ERR);
	assert_int_equal(c->qp->conn.rcv.epsn, psn);
	assert_int_equal(OBS(c, RSP_FATAL_NAK), 1);
	peer_send(c, WIRE_OP_SEND_ONLY, psn, 0, 8);
	peer_send(c, WIRE_OP_SEND_ONLY, psn + 1, 0, 8);
	pkt_none(c);
	expect_untouched(c->local);
	expect_untouched(c->remote);
}

/* No receive was used: the event, and both receives (1 and 2) are flushed (NAK-09). */
static void
expect_told_by_event(struct conn *c, enum qp_event ev)
{
	event_expect(c->b, ev);
	event_none(c->b);
	recv_cqe(c, 1, QP_WC_WR_FLUSH_ERR);
	recv_cqe(c, 2, QP_WC_WR_FLUSH_ERR);
	cqe_none(c);
}

/* Receive 1 was the message's: it fails, with no event. */
static void
expect_told_by_cqe(struct conn *c, enum qp_wc_status status)
{
	recv_cqe(c, 1, status);
	recv_cqe(c, 2, QP_WC_WR_FLUSH_ERR);
	cqe_none(c);
	event_none(c->b);
}

static void
two_receives(struct conn *c, uint32_t len)
{
	recv_post(c, 1, 0, len);
	recv_post(c, 2, 0, len);
}

/* Reserved RC opcodes with headers and payload, as a future peer may send them. */
REQUIREMENT("NAK-07")
BENCH_TEST(reserved_opcode_is_refused)
{
	static const uint8_t ops[] = {0x15, 0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1d, 0x1e, 0x1f};
	uint32_t i;

	for (i = 0; i < sizeof(ops); i++) {
		struct conn *c = conn_next(state);

		two_receives(c, MTU);
		bend_put_reserved(c, ops[i], RQ);
		expect_refused(c, RQ);
		expect_told_by_event(c, QP_EVENT_QP_REQ_ERR);
		assert_int_equal(DROPS(c, BAD_OPCODE), 1);
		assert_int_equal(OBS(c, RX_ROCE), 0);
		next_bench(state);
	}
}

/* The frame ends after the BTH. */
REQUIREMENT("NAK-07")
BENCH_TEST(reserved_opcode_without_payload_is_refused)
{
	struct conn *c = conn_next(state);
	uint8_t frame[BEND_FRAME];
	uint32_t len = bend_request(c, WIRE_OP_SEND_ONLY, RQ, 0, frame);

	two_receives(c, MTU);
	bend_opcode(c, frame, 0x1f);
	bend_put(c, frame, len);
	expect_refused(c, RQ);
	expect_told_by_event(c, QP_EVENT_QP_REQ_ERR);
}

/* In the middle of a SEND: the message that it breaks had a receive. */
REQUIREMENT("NAK-07")
BENCH_TEST(reserved_opcode_inside_a_send_is_refused)
{
	struct conn *c = conn_next(state);

	two_receives(c, 8 * MTU);
	peer_send(c, WIRE_OP_SEND_FIRST, RQ, 0, MTU);
	ack_expect(c, RQ);
	memset(c->local->bytes, 0, MTU);
	bend_put_reserved(c, 0x15, RQ + 1);
	expect_refused(c, RQ + 1);
	expect_told_by_cqe(c, QP_WC_REM_INV_REQ_ERR);
}

/*
 * Another transport's opcode in any form: its PSN does not belong to this connection. Packet
 * validation drops it before any response (IBTA 9.6).
 */
REQUIREMENT("NAK-07")
BENCH_TEST(opcode_of_another_transport_is_dropped)
{
	struct conn *c = conn_next(state);
	uint32_t op, n = 0;

	two_receives(c, MTU);
	bench_run(c->b);
	for (op = 0x20; op < 0x100; op++) {
		bend_put_reserved(c, (uint8_t)op, RQ);
		bend_put_reserved(c, (uint8_t)op, RQ + 1);
		pkt_none(c);
		n += 2;
		assert_int_equal(all_drops(c), n);
	}
	assert_true(DROPS(c, BAD_SERVICE) > 0 && DROPS(c, BAD_OPCODE) > 0);
	state_expect(c, QP_RTS);
	expect_untouched(c->remote);
	event_none(c->b);
	cqe_none(c);
	peer_send(c, WIRE_OP_SEND_ONLY, RQ, 0, 8);
	ack_expect(c, RQ); /* it still waits for the same */
}

/* A request that is invalid for any memory. first: the request before it, if any. */
struct invalid {
	uint8_t first_op; /* 0xff: none */
	uint8_t op;
	uint32_t len, dmalen;
	uint32_t access;
};

#define NONE 0xff
#define ALL  (ALL_REMOTE | MEM_REMOTE_ATOMIC)

static void
check_invalid(void **state, const struct invalid *v)
{
	struct conn *c = conn_type(state, QP_TYPE_RC, v->access);
	uint32_t psn = RQ;
	bool in_send = v->first_op == WIRE_OP_SEND_FIRST;

	two_receives(c, 8 * MTU);
	if (v->first_op != NONE) {
		peer_write(c, v->first_op, psn, REMOTE_VA, 2 * MTU, 0, MTU);
		ack_expect(c, psn++);
		memset(c->local->bytes, 0, MTU);
		memset(c->remote->bytes, 0, MTU);
	}
	peer_write(c, v->op, psn, REMOTE_VA, v->dmalen, 0, v->len);
	expect_refused(c, psn);
	if (in_send)
		expect_told_by_cqe(c, QP_WC_REM_INV_REQ_ERR);
	else
		expect_told_by_event(c, QP_EVENT_QP_REQ_ERR);
}

static void
check_all(void **state, const struct invalid *v, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		print_message("  %u: %#x then %#x\n", i, v[i].first_op, v[i].op);
		check_invalid(state, &v[i]);
		next_bench(state);
	}
}
#define CHECK_ALL(state, v) check_all(state, v, sizeof(v) / sizeof((v)[0]))

REQUIREMENT("NAK-07")
BENCH_TEST(operation_that_is_not_enabled_is_refused)
{
	static const struct invalid v[] = {
		{NONE, WIRE_OP_WRITE_ONLY, 8, 8, ALL & ~MEM_REMOTE_WRITE},
		{NONE, WIRE_OP_WRITE_ONLY_IMM, 8, 8, ALL & ~MEM_REMOTE_WRITE},
		{NONE, WIRE_OP_WRITE_FIRST, MTU, 2 * MTU, ALL & ~MEM_REMOTE_WRITE},
		{NONE, WIRE_OP_WRITE_ONLY, 0, 0, ALL & ~MEM_REMOTE_WRITE},
		{NONE, WIRE_OP_READ_REQ, 0, 8, ALL & ~MEM_REMOTE_READ},
		{NONE, WIRE_OP_READ_REQ, 0, 0, ALL & ~MEM_REMOTE_READ},
		{NONE, WIRE_OP_CMP_SWAP, 0, 0, ALL & ~MEM_REMOTE_ATOMIC},
		{NONE, WIRE_OP_FETCH_ADD, 0, 0, ALL & ~MEM_REMOTE_ATOMIC},
	};

	CHECK_ALL(state, v);
}

/* Too long by its last packet, by its first, or by one byte. */
REQUIREMENT("NAK-07", "CQE-02")
BENCH_TEST(send_longer_than_its_receive_is_refused)
{
	static const uint32_t lens[] = {0, 7, MTU - 1, MTU + 7};
	uint32_t i;

	for (i = 0; i < 4; i++) {
		struct conn *c = conn_next(state);
		bool two = lens[i] >= MTU - 1;
		uint32_t psn = lens[i] > MTU ? RQ + 1 : RQ;

		two_receives(c, lens[i]);
		peer_send(c, two ? WIRE_OP_SEND_FIRST : WIRE_OP_SEND_ONLY, RQ, 0, two ? MTU : 8);
		if (psn != RQ) {
			ack_expect(c, RQ);
			peer_send(c, WIRE_OP_SEND_LAST, psn, 0, 8);
			memset(c->local->bytes, 0, MTU);
		}
		expect_refused(c, psn);
		expect_told_by_cqe(c, QP_WC_LOC_LEN_ERR);
		next_bench(state);
	}
}

REQUIREMENT("NAK-07")
BENCH_TEST(wrong_sequence_of_opcodes_is_refused)
{
	static const struct invalid v[] = {
		/* nothing begun */
		{NONE, WIRE_OP_SEND_MIDDLE, MTU, 0, ALL},
		{NONE, WIRE_OP_SEND_LAST, 8, 0, ALL},
		{NONE, WIRE_OP_SEND_LAST_IMM, 8, 0, ALL},
		{NONE, WIRE_OP_SEND_LAST_INV, 8, 0, ALL},
		{NONE, WIRE_OP_WRITE_MIDDLE, MTU, 0, ALL},
		{NONE, WIRE_OP_WRITE_LAST, 8, 0, ALL},
		{NONE, WIRE_OP_WRITE_LAST_IMM, 8, 0, ALL},
		/* something else begun */
		{WIRE_OP_SEND_FIRST, WIRE_OP_SEND_FIRST, MTU, 0, ALL},
		{WIRE_OP_SEND_FIRST, WIRE_OP_SEND_ONLY, 8, 0, ALL},
		{WIRE_OP_SEND_FIRST, WIRE_OP_SEND_ONLY_INV, 8, 0, ALL},
		{WIRE_OP_SEND_FIRST, WIRE_OP_WRITE_FIRST, MTU, 2 * MTU, ALL},
		{WIRE_OP_SEND_FIRST, WIRE_OP_WRITE_MIDDLE, MTU, 0, ALL},
		{WIRE_OP_SEND_FIRST, WIRE_OP_WRITE_LAST, 8, 0, ALL},
		{WIRE_OP_SEND_FIRST, WIRE_OP_WRITE_ONLY, 8, 8, ALL},
		{WIRE_OP_SEND_FIRST, WIRE_OP_READ_REQ, 0, 8, ALL},
		{WIRE_OP_SEND_FIRST, WIRE_OP_FETCH_ADD, 0, 0, ALL},
		{WIRE_OP_WRITE_FIRST, WIRE_OP_SEND_MIDDLE, MTU, 0, ALL},
		{WIRE_OP_WRITE_FIRST, WIRE_OP_SEND_LAST, 8, 0, ALL},
		{WIRE_OP_WRITE_FIRST, WIRE_OP_SEND_ONLY, 8, 0, ALL},
		{WIRE_OP_WRITE_FIRST, WIRE_OP_WRITE_FIRST, MTU, 2 * MTU, ALL},
		{WIRE_OP_WRITE_FIRST, WIRE_OP_WRITE_ONLY, 8, 8, ALL},
		{WIRE_OP_WRITE_FIRST, WIRE_OP_READ_REQ, 0, 8, ALL},
		{WIRE_OP_WRITE_FIRST, WIRE_OP_CMP_SWAP, 0, 0, ALL},
	};

	CHECK_ALL(state, v);
}

REQUIREMENT("NAK-07", "EVT-03")
BENCH_TEST(misaligned_atomic_raises_the_access_event)
{
	uint32_t off;

	for (off = 1; off < 16; off++) {
		struct conn *c = conn_next(state);
		struct wire_fields f = {.opcode = off & 1 ? WIRE_OP_FETCH_ADD : WIRE_OP_CMP_SWAP,
					.psn = RQ,
					.va = REMOTE_VA + off,
					.swap_add = 1};

		if (off == 8)
			continue;
		c->remote->mr.access |= MEM_REMOTE_ATOMIC;
		f.rkey = c->remote->mr.key;
		two_receives(c, MTU);
		peer_put(c, f, 0, 0);
		expect_refused(c, RQ);
		expect_told_by_event(c, QP_EVENT_QP_ACCESS_ERR);
		next_bench(state);
	}
}

/* A pad count in a first or middle packet; of as many bytes as the MTU, or of fewer. */
REQUIREMENT("NAK-07")
BENCH_TEST(pad_in_first_or_middle_packet_is_refused)
{
	static const uint8_t ops[] = {WIRE_OP_SEND_FIRST, WIRE_OP_SEND_MIDDLE, WIRE_OP_WRITE_FIRST,
				      WIRE_OP_WRITE_MIDDLE};
	uint8_t frame[BEND_FRAME];
	uint32_t i, pad, len, psn;

	for (i = 0; i < 4 * 3; i++) {
		struct conn *c = conn_next(state);
		uint8_t op = ops[i / 3], first = op & WIRE_OP_SEND_MIDDLE ? op - 1 : NONE;

		pad = 1 + i % 3;
		psn = RQ;
		two_receives(c, 8 * MTU);
		if (first != NONE) {
			peer_write(c, first, psn, REMOTE_VA, 3 * MTU, 0, MTU);
			ack_expect(c, psn++);
			memset(c->local->bytes, 0, MTU);
			memset(c->remote->bytes, 0, MTU);
		}
		len = bend_request(c, op, psn, MTU, frame);
		bend_pad(c, frame, pad);
		bend_put(c, frame, len);
		expect_refused(c, psn);
		if (first == WIRE_OP_SEND_FIRST)
			expect_told_by_cqe(c, QP_WC_REM_INV_REQ_ERR);
		else
			expect_told_by_event(c, QP_EVENT_QP_REQ_ERR);
		next_bench(state);
	}
}

/* More pad than there is payload; a payload that its pad does not make whole words. */
REQUIREMENT("NAK-07")
BENCH_TEST(pad_that_does_not_match_the_length_is_refused)
{
	static const uint8_t ops[] = {WIRE_OP_SEND_ONLY, WIRE_OP_SEND_ONLY_IMM, WIRE_OP_WRITE_ONLY,
				      WIRE_OP_READ_REQ, WIRE_OP_FETCH_ADD};
	uint8_t frame[BEND_FRAME];
	uint32_t i, k, len;

	for (i = 0; i < sizeof(ops); i++) {
		for (k = 1; k < 4; k++) {
			struct conn *c = conn_next(state);
			bool header_only = !(wire_op_table[ops[i]].flags & WIRE_F_PAYLOAD);

			two_receives(c, MTU);
			len = bend_request(c, ops[i], RQ, header_only || (k & 1) ? 0 : 8, frame);
			if (header_only || (k & 1))
				bend_pad(c, frame, k);
			else
				len = bend_shorten(c, frame, len, k);
			bend_put(c, frame, len);
			expect_refused(c, RQ);
			expect_told_by_event(c, QP_EVENT_QP_REQ_ERR);
			assert_int_equal(DROPS(c, BAD_PAD), 1);
			next_bench(state);
		}
	}
}

REQUIREMENT("NAK-07")
BENCH_TEST(unexpected_payload_is_refused)
{
	static const uint8_t ops[] = {WIRE_OP_READ_REQ, WIRE_OP_CMP_SWAP, WIRE_OP_FETCH_ADD};
	uint32_t i;

	for (i = 0; i < sizeof(ops); i++) {
		struct conn *c = conn_next(state);
		uint8_t frame[BEND_FRAME];

		c->remote->mr.access |= MEM_REMOTE_ATOMIC;
		two_receives(c, MTU);
		frame_rx(c->b, frame, bend_request(c, ops[i], RQ, 4 + 4 * i, frame));
		expect_refused(c, RQ);
		expect_told_by_event(c, QP_EVENT_QP_REQ_ERR);
		assert_int_equal(DROPS(c, BAD_LENGTH), 1);
		next_bench(state);
	}
}

REQUIREMENT("NAK-07")
BENCH_TEST(first_or_middle_packet_of_wrong_length_is_refused)
{
	static const struct invalid v[] = {
		{NONE, WIRE_OP_SEND_FIRST, MTU - 4, 0, ALL},
		{NONE, WIRE_OP_SEND_FIRST, MTU - 1, 0, ALL}, /* with a pad */
		{NONE, WIRE_OP_SEND_FIRST, 0, 0, ALL},
		{NONE, WIRE_OP_SEND_FIRST, MTU + 4, 0, ALL},
		{NONE, WIRE_OP_WRITE_FIRST, MTU - 4, 2 * MTU, ALL},
		{NONE, WIRE_OP_WRITE_FIRST, MTU + 4, 2 * MTU, ALL},
		{WIRE_OP_SEND_FIRST, WIRE_OP_SEND_MIDDLE, MTU - 4, 0, ALL},
		{WIRE_OP_SEND_FIRST, WIRE_OP_SEND_MIDDLE, MTU + 4, 0, ALL},
		{WIRE_OP_WRITE_FIRST, WIRE_OP_WRITE_MIDDLE, 512, 0, ALL},
	};

	CHECK_ALL(state, v);
}

REQUIREMENT("NAK-07")
BENCH_TEST(last_packet_of_wrong_length_is_refused)
{
	static const struct invalid v[] = {
		{WIRE_OP_SEND_FIRST, WIRE_OP_SEND_LAST, 0, 0, ALL},
		{WIRE_OP_SEND_FIRST, WIRE_OP_SEND_LAST_IMM, 0, 0, ALL},
		{WIRE_OP_SEND_FIRST, WIRE_OP_SEND_LAST, MTU + 4, 0, ALL},
		{WIRE_OP_SEND_FIRST, WIRE_OP_SEND_LAST_INV, MTU + 1, 0, ALL},
		{WIRE_OP_WRITE_FIRST, WIRE_OP_WRITE_LAST, 0, 0, ALL},
		{WIRE_OP_WRITE_FIRST, WIRE_OP_WRITE_LAST, MTU + 4, 0, ALL},
	};

	CHECK_ALL(state, v);
}

REQUIREMENT("NAK-07")
BENCH_TEST(only_packet_over_the_mtu_is_refused)
{
	static const struct invalid v[] = {
		{NONE, WIRE_OP_SEND_ONLY, MTU + 1, 0, ALL},
		{NONE, WIRE_OP_SEND_ONLY_INV, MTU + 4, 0, ALL},
		{NONE, WIRE_OP_WRITE_ONLY, MTU + 4, MTU + 4, ALL},
		{NONE, WIRE_OP_WRITE_ONLY_IMM, 2 * MTU, 2 * MTU, ALL},
	};

	CHECK_ALL(state, v);
}

/* One more than the depth (4), while the others are unanswered; these are answered (NAK-02). */
REQUIREMENT("NAK-07", "EVT-03")
BENCH_TEST(more_reads_and_atomics_than_the_depth_are_refused)
{
	uint32_t i, kind;

	for (kind = 0; kind < 2; kind++) {
		struct conn *c = conn_next(state);

		c->remote->mr.access |= MEM_REMOTE_ATOMIC;
		two_receives(c, MTU);
		for (i = 0; i < 5; i++)
			peer_write(c, (i + kind) & 1 ? WIRE_OP_FETCH_ADD : WIRE_OP_READ_REQ, RQ + i,
				   REMOTE_VA, 8, 0, 0);
		for (i = 0; i < 4; i++)
			pkt_expect(c, (i + kind) & 1 ? WIRE_OP_ATOMIC_ACK : WIRE_OP_READ_RESP_ONLY,
				   RQ + i);
		expect_refused(c, RQ + 4);
		expect_told_by_event(c, QP_EVENT_QP_ACCESS_ERR);
		next_bench(state);
	}
}

REQUIREMENT("NAK-07")
BENCH_TEST(reth_length_over_2_31_is_refused)
{
	static const struct invalid v[] = {
		{NONE, WIRE_OP_WRITE_FIRST, MTU, (1u << 31) + 1, ALL},
		{NONE, WIRE_OP_WRITE_FIRST, MTU, UINT32_MAX, ALL},
		{NONE, WIRE_OP_WRITE_ONLY, 8, (1u << 31) + 8, ALL},
		{NONE, WIRE_OP_READ_REQ, 0, (1u << 31) + 1, ALL},
		{NONE, WIRE_OP_READ_REQ, 0, UINT32_MAX, ALL},
	};

	CHECK_ALL(state, v);
}

/* A FIRST, if there is one, announces 2 MTU. */
REQUIREMENT("NAK-07")
BENCH_TEST(payloads_that_miss_the_reth_length_are_refused)
{
	static const struct invalid v[] = {
		{NONE, WIRE_OP_WRITE_ONLY, 8, 9, ALL},
		{NONE, WIRE_OP_WRITE_ONLY, 8, 4, ALL},
		{NONE, WIRE_OP_WRITE_ONLY, 0, 4, ALL},
		{NONE, WIRE_OP_WRITE_ONLY, 8, 0, ALL},
		{NONE, WIRE_OP_WRITE_ONLY_IMM, 8, 7, ALL},
		{NONE, WIRE_OP_WRITE_FIRST, MTU, MTU - 1, ALL},
		{WIRE_OP_WRITE_FIRST, WIRE_OP_WRITE_LAST, MTU - 4, 0, ALL},
		{WIRE_OP_WRITE_FIRST, WIRE_OP_WRITE_LAST_IMM, MTU - 1, 0, ALL},
	};

	CHECK_ALL(state, v);
}

/* One that would come after all bytes were there, and one that goes beyond them. */
REQUIREMENT("NAK-07")
BENCH_TEST(packets_beyond_the_reth_length_are_refused)
{
	static const uint8_t ops[] = {WIRE_OP_WRITE_MIDDLE, WIRE_OP_WRITE_LAST};
	uint32_t i;

	for (i = 0; i < 2; i++) {
		struct conn *c = conn_next(state);

		two_receives(c, MTU);
		peer_write(c, WIRE_OP_WRITE_FIRST, RQ, REMOTE_VA, MTU + 8, 0, MTU);
		ack_expect(c, RQ);
		memset(c->remote->bytes, 0, MTU);
		peer_write(c, ops[i], RQ + 1, 0, 0, 0, i == 0 ? MTU : 12);
		expect_refused(c, RQ + 1);
		expect_told_by_event(c, QP_EVENT_QP_REQ_ERR);
		next_bench(state);
	}
}

/*
 * What rxe of Linux 6.1 sends if it counts a WRITE of 4 packets twice (doc/interop.md): an empty
 * WRITE for the one before, and the packets again, each with the PSN behind its own. Duplicates do
 * not change the message that is being received, so its last packet is one too many.
 */
REQUIREMENT("NAK-07")
BENCH_TEST(write_repeated_with_shifted_psns_is_refused)
{
	struct conn *c = conn_next(state);
	uint32_t i;

	two_receives(c, MTU);
	peer_write(c, WIRE_OP_WRITE_FIRST, RQ, REMOTE_VA, 4 * MTU, 0, MTU);
	peer_write(c, WIRE_OP_WRITE_MIDDLE, RQ + 1, 0, 0, MTU, MTU);
	ack_expect(c, RQ + 1);
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ, REMOTE_VA, 0, 0, 0);
	peer_write(c, WIRE_OP_WRITE_FIRST, RQ + 1, REMOTE_VA, 4 * MTU, 0, MTU);
	ack_expect(c, RQ + 1);
	for (i = 2; i < 4; i++)
		peer_write(c, WIRE_OP_WRITE_MIDDLE, RQ + i, 0, 0, (i - 1) * MTU, MTU);
	ack_expect(c, RQ + 3);
	memset(c->remote->bytes, 0, 4 * MTU);
	peer_write(c, WIRE_OP_WRITE_LAST, RQ + 4, 0, 0, 3 * MTU, MTU);
	assert_int_equal(OBS(c, RSP_DUP), 2);
	expect_refused(c, RQ + 4);
	expect_told_by_event(c, QP_EVENT_QP_REQ_ERR);
}
