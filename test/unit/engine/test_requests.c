/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Valid requests are executed once, answered in time and delivered whole (RSP-01 .. 07, WIRE-05,
 * 06).
 */
#include <string.h>
#include "harness.h"
#include "wire/psn.h"

#define RQ  0x555000u
#define MTU 1024u

static struct conn *
conn_at(void **state, uint32_t rq_psn, uint32_t mtu_code)
{
	struct conn *c = conn_open(*state, CONN(cfg.rq_psn = rq_psn, cfg.mtu_code = mtu_code));

	memset(c->local->bytes, 0, BENCH_BYTES);
	return c;
}

/* A whole message of len bytes, packet by packet; its number of packets. */
static uint32_t
message(struct conn *c, bool write, bool imm, uint32_t psn, uint32_t len)
{
	static const uint8_t ops[2][2][4] = {{{0, 1, 2, 4}, {0, 1, 3, 5}},
					     {{6, 7, 8, 10}, {6, 7, 9, 11}}};
	uint32_t mtu = c->qp->conn.mtu, n = len == 0 ? 1 : (len + mtu - 1) / mtu, k;

	for (k = 0; k < n; k++) {
		uint32_t place = n == 1 ? 3 : k == 0 ? 0 : k + 1 == n ? 2 : 1;
		struct wire_fields f = {.opcode = ops[write][imm][place],
					.psn = psn_add(psn, k),
					.ackreq = k + 1 == n,
					.va = REMOTE_VA,
					.rkey = c->remote->mr.key,
					.dmalen = len,
					.imm = 0xaabbccdd};

		peer_put(c, f, k * mtu, k + 1 < n ? mtu : len - k * mtu);
	}
	return n;
}

/* All kinds and lengths at all MTUs, with the PSN wrapping on the way. */
REQUIREMENT("WIRE-05")
BENCH_TEST(messages_arrive_whole)
{
	uint32_t code, i, j, psn, id = 0;

	for (code = 1; code <= 5; code++) {
		uint32_t mtu = 128u << code;
		uint32_t lens[] = {0, 1, 2, 3, mtu - 1, mtu, mtu + 1, 3 * mtu, 3 * mtu + 2};
		struct conn *c = conn_at(state, 0xfffff0, code);

		psn = 0xfffff0;
		for (i = 0; i < 4; i++) {
			bool write = i >= 2, imm = i & 1;

			for (j = 0; j < sizeof(lens) / sizeof(lens[0]); j++) {
				struct bench_region *to = write ? c->remote : c->local;

				memset(to->bytes, 0, BENCH_BYTES);
				if (!write || imm)
					recv_post(c, ++id, 0, write ? 0 : lens[j]);
				psn = psn_add(psn, message(c, write, imm, psn, lens[j]));
				if (!write || imm) {
					struct uroce_cqe cqe = recv_cqe(c, id, QP_WC_SUCCESS);

					assert_int_equal(cqe.byte_len, lens[j]);
					assert_int_equal(cqe.opcode,
							 write ? UROCE_CQE_RECV_RDMA_WITH_IMM
							       : UROCE_CQE_RECV);
					assert_int_equal(cqe.flags, imm ? UROCE_CQE_WITH_IMM : 0);
					assert_int_equal(cqe.src_qp, PEER_QPN);
					if (imm)
						assert_int_equal(cqe.imm, 0xaabbccdd);
				}
				cqe_none(c);
				assert_memory_equal(to->bytes, bench_bytes, lens[j]);
				assert_int_equal(to->bytes[lens[j]], 0);
				ack_expect(c, psn_add(psn, 0xffffff));
			}
		}
	}
}

REQUIREMENT("WIRE-05")
BENCH_TEST(read_responses_are_cut_at_the_path_mtu)
{
	uint32_t code, j, k, psn;

	for (code = 1; code <= 5; code++) {
		uint32_t mtu = 128u << code;
		uint32_t lens[] = {0, 1, 2, 3, mtu - 1, mtu, mtu + 1, 3 * mtu, 3 * mtu + 2};
		struct conn *c = conn_at(state, 0xfffffa, code);

		psn = 0xfffffa;
		memcpy(c->remote->bytes, bench_bytes, BENCH_BYTES);
		for (j = 0; j < sizeof(lens) / sizeof(lens[0]); j++) {
			uint32_t n = lens[j] == 0 ? 1 : (lens[j] + mtu - 1) / mtu;

			peer_read(c, psn, REMOTE_VA, lens[j]);
			for (k = 0; k < n; k++) {
				uint8_t op = n == 1      ? WIRE_OP_READ_RESP_ONLY
					     : k == 0    ? WIRE_OP_READ_RESP_FIRST
					     : k + 1 < n ? WIRE_OP_READ_RESP_MIDDLE
							 : WIRE_OP_READ_RESP_LAST;
				struct wire_pkt p = pkt_expect(c, op, psn + k);
				uint32_t want = k + 1 < n ? mtu : lens[j] - k * mtu;

				assert_int_equal(p.payload_len, want);
				assert_memory_equal(p.payload, bench_bytes + k * mtu, want);
				if (op != WIRE_OP_READ_RESP_MIDDLE) {
					assert_int_equal(p.syndrome, ACK_SYN);
					assert_int_equal(p.msn, j + 1);
				}
			}
			pkt_none(c);
			psn = psn_add(psn, n);
		}
		cqe_none(c);
	}
}

REQUIREMENT("RSP-01")
BENCH_TEST(duplicate_sends_and_writes_are_acked_not_executed)
{
	struct conn *c = conn_at(state, RQ, 3);

	recv_post(c, 1, 0, MTU);
	recv_post(c, 2, MTU, MTU);
	peer_send(c, WIRE_OP_SEND_ONLY, RQ, 0, 8);
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ + 1, REMOTE_VA, 8, 0, 8);
	recv_cqe(c, 1, QP_WC_SUCCESS);
	ack_expect(c, RQ + 1);
	memset(c->local->bytes, 0, MTU);
	memset(c->remote->bytes, 0, MTU);
	/* A duplicate is acknowledged up to the last executed request. */
	peer_send(c, WIRE_OP_SEND_ONLY, RQ, 0, 8);
	ack_expect(c, RQ + 1);
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ + 1, REMOTE_VA, 8, 0, 8);
	ack_expect(c, RQ + 1);
	cqe_none(c);
	assert_int_equal(c->local->bytes[0], 0);
	assert_int_equal(c->remote->bytes[0], 0);
	assert_int_equal(OBS(c, RSP_DUP), 2);
	peer_send(c, WIRE_OP_SEND_ONLY, RQ + 2, 100, 8);
	recv_cqe(c, 2, QP_WC_SUCCESS);
	assert_memory_equal(c->local->bytes + MTU, bench_bytes + 100, 8);
}

REQUIREMENT("RSP-01")
BENCH_TEST(duplicate_read_is_executed_again_from_its_psn)
{
	struct conn *c = conn_at(state, RQ, 3);
	struct wire_pkt p;

	memcpy(c->remote->bytes, bench_bytes, BENCH_BYTES);
	peer_read(c, RQ, REMOTE_VA, 3 * MTU + 8);
	assert_int_equal(pkt_count(c), 4);
	c->remote->bytes[2 * MTU] ^= 0xff; /* executed again, it reads this */
	peer_read(c, RQ + 2, REMOTE_VA + 2 * MTU, MTU + 8);
	p = pkt_expect(c, WIRE_OP_READ_RESP_FIRST, RQ + 2);
	assert_int_equal(p.payload[0], bench_bytes[2 * MTU] ^ 0xff);
	assert_int_equal(p.msn, 1);
	p = pkt_expect(c, WIRE_OP_READ_RESP_LAST, RQ + 3);
	assert_int_equal(p.payload_len, 8);
	pkt_none(c);
	peer_read(c, RQ, REMOTE_VA, 3 * MTU + 8);
	assert_int_equal(pkt_count(c), 4);
	/* It moved nothing on. */
	peer_read(c, RQ + 4, REMOTE_VA, 8);
	p = pkt_expect(c, WIRE_OP_READ_RESP_ONLY, RQ + 4);
	assert_int_equal(p.msn, 2);
	pkt_none(c);
}

#define SHORT 256u /* path MTU code 1 */

/* Expects the n responses, from byte off on, of a READ that was requested with PSN psn. */
static void
expect_responses(struct conn *c, uint32_t psn, uint32_t off, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		uint8_t op = i == 0 ? n == 1 ? WIRE_OP_READ_RESP_ONLY : WIRE_OP_READ_RESP_FIRST
			     : i + 1 == n ? WIRE_OP_READ_RESP_LAST
					  : WIRE_OP_READ_RESP_MIDDLE;
		struct wire_pkt p = pkt_expect(c, op, psn + i);

		assert_int_equal(p.payload_len, SHORT);
		assert_memory_equal(p.payload, bench_bytes + off + i * SHORT, SHORT);
	}
}

/* A READ of NREAD packets, some of which were sent and more of which are due. */
#define NREAD 400u
static struct conn *
conn_half_answered(void **state, uint32_t *sent)
{
	struct conn *c = conn_at(state, RQ, 1);
	struct bench *b = *state;

	memcpy(c->remote->bytes, bench_bytes, BENCH_BYTES);
	peer_read(c, RQ, REMOTE_VA, NREAD * SHORT);
	bench_run_once(b);
	*sent = b->nframes - b->frames_seen;
	assert_in_range(*sent, 4, NREAD - 4);
	return c;
}

static void
skip_frames(struct conn *c, uint32_t n)
{
	struct wire_pkt p;

	while (n-- != 0)
		assert_true(pkt_poll(c, &p));
}

REQUIREMENT("RSP-01")
BENCH_TEST(duplicate_of_an_active_read_restarts_with_first)
{
	uint32_t from[] = {0, 1, 0, 0, NREAD - 1}, sent, i;

	for (i = 0; i < RTE_DIM(from); i++) {
		struct conn *c = conn_half_answered(state, &sent);

		from[2] = sent;     /* the next that is due */
		from[3] = sent + 1; /* past it: earlier responses have arrived */
		peer_read(c, RQ + from[i], REMOTE_VA + from[i] * SHORT, (NREAD - from[i]) * SHORT);
		skip_frames(c, sent);
		expect_responses(c, RQ + from[i], from[i] * SHORT, NREAD - from[i]);
		pkt_none(c);
		/* The request was executed once, and the next one is. */
		peer_read(c, RQ + NREAD, REMOTE_VA, SHORT);
		assert_int_equal(pkt_expect(c, WIRE_OP_READ_RESP_ONLY, RQ + NREAD).msn, 2);
		pkt_none(c);
	}
}

/* A requester that retransmits a part of a READ gets that part, then the rest of the READ. */
REQUIREMENT("RSP-01")
BENCH_TEST(duplicate_of_a_part_of_an_active_read_is_answered)
{
	uint32_t sent, i;
	struct conn *c = conn_half_answered(state, &sent);

	peer_read(c, RQ + 1, REMOTE_VA + SHORT, 2 * SHORT);
	skip_frames(c, sent);
	expect_responses(c, RQ + 1, SHORT, 2);
	for (i = sent; i + 1 < NREAD; i++)
		pkt_expect(c, WIRE_OP_READ_RESP_MIDDLE, RQ + i);
	pkt_expect(c, WIRE_OP_READ_RESP_LAST, RQ + NREAD - 1);
	pkt_none(c);
}

/* A duplicate is executed again, so the QP must still allow it. */
REQUIREMENT("RSP-01", "MEM-02")
BENCH_TEST(duplicate_read_after_the_right_was_removed_is_ignored)
{
	struct uroce_qp_attr attr = {.qp_access_flags = MEM_REMOTE_WRITE};
	struct conn *c = conn_at(state, RQ, 3);

	peer_read(c, RQ, REMOTE_VA, 2 * MTU);
	assert_int_equal(pkt_count(c), 2);
	assert_int_equal(conn_modify(c, QP_ACCESS_FLAGS, &attr), 0);
	peer_read(c, RQ, REMOTE_VA, 2 * MTU);
	pkt_none(c);
	assert_int_equal(DROPS(c, DUP_IGNORED), 1);
	state_expect(c, QP_RTS);
}

/* An old PSN that never requested these bytes is not a duplicate. */
REQUIREMENT("RSP-01")
BENCH_TEST(duplicate_of_an_unknown_read_is_ignored)
{
	struct conn *c = conn_at(state, RQ, 3);

	peer_read(c, RQ, REMOTE_VA, 2 * MTU);
	assert_int_equal(pkt_count(c), 2);
	peer_read(c, RQ, REMOTE_VA + 1, 2 * MTU);
	peer_read(c, RQ, REMOTE_VA, 2 * MTU + 1);
	peer_read(c, RQ + 1, REMOTE_VA, MTU);
	peer_read(c, RQ - 1, REMOTE_VA, MTU);
	pkt_none(c);
	assert_int_equal(DROPS(c, DUP_IGNORED), 4);
	state_expect(c, QP_RTS);
}

REQUIREMENT("RSP-02")
BENCH_TEST(acks_of_a_burst_are_coalesced)
{
	struct conn *c = conn_at(state, RQ, 3);
	uint32_t i;

	for (i = 0; i < 20; i++)
		peer_write(c, WIRE_OP_WRITE_ONLY, RQ + i, REMOTE_VA, 8, 0, 8);
	ack_expect(c, RQ + 19);
	assert_int_equal(OBS(c, RSP_ACK), 1);
}

REQUIREMENT("RSP-02")
BENCH_TEST(every_ackreq_is_answered_at_once)
{
	struct conn *c = conn_at(state, RQ, 3);
	struct wire_fields quiet = {.opcode = WIRE_OP_WRITE_MIDDLE, .psn = RQ + 1};

	/* Also in the middle of a message, without waiting for its end. */
	peer_write(c, WIRE_OP_WRITE_FIRST, RQ, REMOTE_VA, 3 * MTU, 0, MTU);
	ack_expect(c, RQ);
	peer_put(c, quiet, MTU, MTU);
	pkt_none(c); /* not asked for */
	peer_write(c, WIRE_OP_WRITE_LAST, RQ + 2, REMOTE_VA, 0, 2 * MTU, MTU);
	ack_expect(c, RQ + 2);
}

REQUIREMENT("RSP-03")
BENCH_TEST(responses_keep_psn_order_with_acks)
{
	struct conn *c = conn_at(state, RQ, 3);

	recv_post(c, 1, 0, MTU);
	recv_post(c, 2, 0, MTU);
	peer_send(c, WIRE_OP_SEND_ONLY, RQ, 0, 8);
	peer_read(c, RQ + 1, REMOTE_VA, 2 * MTU);
	peer_read(c, RQ + 3, REMOTE_VA, 8);
	peer_send(c, WIRE_OP_SEND_ONLY, RQ + 4, 0, 8);
	pkt_expect(c, WIRE_OP_READ_RESP_FIRST, RQ + 1); /* which acknowledges the SEND before */
	pkt_expect(c, WIRE_OP_READ_RESP_LAST, RQ + 2);
	pkt_expect(c, WIRE_OP_READ_RESP_ONLY, RQ + 3);
	ack_expect(c, RQ + 4);
}

REQUIREMENT("RSP-03")
BENCH_TEST(max_dest_rd_atomic_reads_are_answered_at_once)
{
	struct conn *c = conn_at(state, RQ, 3);
	uint32_t i;

	for (i = 0; i < 4; i++)
		peer_read(c, RQ + i, REMOTE_VA, 8);
	for (i = 0; i < 4; i++)
		pkt_expect(c, WIRE_OP_READ_RESP_ONLY, RQ + i);
	pkt_none(c);
	/* Answered READs free their slots: four more. */
	for (i = 4; i < 8; i++)
		peer_read(c, RQ + i, REMOTE_VA, 8);
	assert_int_equal(pkt_count(c), 4);
	state_expect(c, QP_RTS);
}

REQUIREMENT("RSP-05")
BENCH_TEST(sends_take_receives_in_order)
{
	struct conn *c = conn_at(state, RQ, 3);
	uint32_t i;

	for (i = 0; i < 4; i++)
		recv_post(c, 100 + i, i * MTU, MTU);
	peer_send(c, WIRE_OP_SEND_ONLY, RQ, 0, 10);
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ + 1, REMOTE_VA, 8, 0, 8); /* takes none */
	peer_send(c, WIRE_OP_SEND_ONLY, RQ + 2, 10, 20);
	peer_write(c, WIRE_OP_WRITE_ONLY_IMM, RQ + 3, REMOTE_VA, 8, 0, 8); /* takes one */
	peer_send(c, WIRE_OP_SEND_ONLY, RQ + 4, 30, 40);
	assert_int_equal(recv_cqe(c, 100, QP_WC_SUCCESS).byte_len, 10);
	assert_int_equal(recv_cqe(c, 101, QP_WC_SUCCESS).byte_len, 20);
	assert_int_equal(recv_cqe(c, 102, QP_WC_SUCCESS).opcode, UROCE_CQE_RECV_RDMA_WITH_IMM);
	assert_int_equal(recv_cqe(c, 103, QP_WC_SUCCESS).byte_len, 40);
	assert_memory_equal(c->local->bytes, bench_bytes, 10);
	assert_memory_equal(c->local->bytes + MTU, bench_bytes + 10, 20);
	assert_int_equal(c->local->bytes[2 * MTU], 0); /* an immediate brings no data there */
	assert_memory_equal(c->local->bytes + 3 * MTU, bench_bytes + 30, 40);
	assert_int_equal(c->rq.hdr->cons, 4);
}

REQUIREMENT("RSP-05")
BENCH_TEST(send_scatters_over_the_receive_sges)
{
	struct conn *c = conn_at(state, RQ, 3);
	uint32_t key = c->local->mr.key;
	struct uroce_sge sge[] = {{LOCAL_VA + 1, 3, key},
				  {0, 0, 0},
				  {LOCAL_VA + 100, 1500, key},
				  {LOCAL_VA + 5000, 3000, key}};

	recv_post_sges(c, 1, sge, 4);
	message(c, false, false, RQ, 2 * MTU + 5);
	assert_int_equal(recv_cqe(c, 1, QP_WC_SUCCESS).byte_len, 2 * MTU + 5);
	assert_int_equal(c->local->bytes[0], 0);
	assert_memory_equal(c->local->bytes + 1, bench_bytes, 3);
	assert_int_equal(c->local->bytes[4], 0);
	assert_memory_equal(c->local->bytes + 100, bench_bytes + 3, 1500);
	assert_int_equal(c->local->bytes[1600], 0);
	assert_memory_equal(c->local->bytes + 5000, bench_bytes + 1503, 2053 - 1503);
	assert_int_equal(c->local->bytes[5000 + 550], 0);
}

/* The R_Key is checked first: with a bad one the RQ is not polled for an RNR NAK. */
REQUIREMENT("RSP-05")
BENCH_TEST(write_imm_checks_the_rkey_first)
{
	struct conn *c = conn_at(state, RQ, 3);

	peer_write(c, WIRE_OP_WRITE_ONLY_IMM, RQ, REMOTE_VA - 1, 8, 0, 8);
	answer_expect(c, RQ, NAK_SYN(REM_ACCESS));
	event_expect(c->b, QP_EVENT_QP_ACCESS_ERR);
}

REQUIREMENT("RSP-07")
BENCH_TEST(msn_counts_messages)
{
	struct conn *c = conn_at(state, RQ, 3);
	struct wire_pkt p;

	recv_post(c, 1, 0, 4 * MTU);
	message(c, false, false, RQ, 3 * MTU);
	assert_int_equal(pkt_expect(c, WIRE_OP_ACK, RQ + 2).msn, 1);
	peer_write(c, WIRE_OP_WRITE_FIRST, RQ + 3, REMOTE_VA, 2 * MTU, 0, MTU);
	assert_int_equal(pkt_expect(c, WIRE_OP_ACK, RQ + 3).msn, 1); /* not complete yet */
	peer_write(c, WIRE_OP_WRITE_LAST, RQ + 4, 0, 0, MTU, MTU);
	assert_int_equal(pkt_expect(c, WIRE_OP_ACK, RQ + 4).msn, 2);
	peer_read(c, RQ + 5, REMOTE_VA, 8);
	assert_int_equal(pkt_expect(c, WIRE_OP_READ_RESP_ONLY, RQ + 5).msn, 3);
	peer_send(c, WIRE_OP_SEND_ONLY, RQ + 7, 0, 8); /* a NAK says it too */
	p = pkt_expect(c, WIRE_OP_ACK, RQ + 6);
	assert_int_equal(p.syndrome, NAK_SYN(PSN_SEQ));
	assert_int_equal(p.msn, 3);
}

/* A WRITE or READ of 2^31 bytes is valid. */
REQUIREMENT("WIRE-05")
BENCH_TEST(requests_of_2_to_the_31_bytes_are_accepted)
{
	struct conn *c = conn_at(state, RQ, 3);
	struct bench_region *big = region_add(*state, 7, 1ull << 40, 1 << 20, ALL_REMOTE);
	struct wire_fields f = {.opcode = WIRE_OP_WRITE_FIRST,
				.psn = RQ,
				.ackreq = true,
				.va = 1ull << 40,
				.rkey = big->mr.key,
				.dmalen = 1u << 31};

	big->mr.len = 1ull << 31; /* only its first bytes are reached */
	memset(big->bytes, 0, MTU);
	peer_put(c, f, 0, MTU);
	ack_expect(c, RQ);
	assert_memory_equal(big->bytes, bench_bytes, MTU);
	c = conn_at(state, RQ, 3);
	f.opcode = WIRE_OP_READ_REQ;
	peer_put(c, f, 0, 0);
	bench_run_once(c->b);
	region_drop(c->b, big); /* before its end is reached */
	pkt_expect(c, WIRE_OP_READ_RESP_FIRST, RQ);
	pkt_count(c);
	state_expect(c, QP_ERR);
}
