/* SPDX-License-Identifier: BSD-3-Clause */
/* From WQEs to packets: cutting, PSNs, order, READ credit, fence (REQ-01, REQ-02, WIRE-04 .. 06).
 */
#include <string.h>
#include "harness.h"

#define SQ  0x001000u
#define MTU 1024u

static void
client_posts(struct conn *c, uint64_t id, uint8_t op, uint8_t flags, uint32_t len)
{
	post(c, (struct wr){.id = id, .op = op, .flags = flags, .len = len, .imm = 0x11223344});
}

/* Checks opcode and headers of packet k of n of a message. */
static void
check_packet(struct conn *c, const struct wire_pkt *p, bool write, bool imm, uint32_t k, uint32_t n,
	     uint32_t len)
{
	uint32_t mtu = c->qp->conn.mtu, want = k + 1 < n ? mtu : len - k * mtu;
	static const uint8_t ops[2][2][4] = {
		/* first, middle, last, only; without and with immediate */
		{{0, 1, 2, 4}, {0, 1, 3, 5}},
		{{6, 7, 8, 10}, {6, 7, 9, 11}},
	};
	uint32_t place = n == 1 ? 3 : k == 0 ? 0 : k + 1 == n ? 2 : 1;

	assert_int_equal(p->opcode, ops[write][imm][place]);
	assert_int_equal(p->payload_len, want);
	assert_int_equal(p->pad_len, -want & 3);
	assert_memory_equal(p->payload, bench_bytes + k * mtu, want);
	if (k + 1 == n) {
		assert_true(p->ackreq);
		if (imm)
			assert_int_equal(p->imm, 0x11223344);
	}
	if (write && k == 0) {
		assert_true(p->va == PEER_VA);
		assert_int_equal(p->rkey, PEER_RKEY);
		assert_int_equal(p->dmalen, len);
	}
}

/* Every kind of message of every interesting length at every MTU. */
REQUIREMENT("WIRE-05")
BENCH_TEST(messages_are_cut_at_the_path_mtu)
{
	static const uint8_t ops[] = {UROCE_WR_SEND, UROCE_WR_SEND_IMM, UROCE_WR_RDMA_WRITE,
				      UROCE_WR_RDMA_WRITE_IMM};
	uint32_t code, i, j, k, psn, id = 0;

	for (code = 1; code <= 5; code++) {
		uint32_t mtu = 128u << code;
		uint32_t lens[] = {0,   1,       2,       3,       mtu - 1,
				   mtu, mtu + 1, 2 * mtu, 3 * mtu, 3 * mtu + 2};
		struct conn_cfg cfg = conn_rc;
		struct conn *c;

		cfg.mtu_code = code;
		cfg.v6 = code & 1;
		c = conn_open(*state, cfg);
		psn = SQ;
		for (i = 0; i < 4; i++) {
			for (j = 0; j < sizeof(lens) / sizeof(lens[0]); j++) {
				uint32_t n = lens[j] == 0 ? 1 : (lens[j] + mtu - 1) / mtu;

				client_posts(c, ++id, ops[i], SIG, lens[j]);
				for (k = 0; k < n; k++) {
					struct wire_pkt p;

					assert_true(pkt_poll(c, &p));
					assert_int_equal(p.psn, psn + k);
					check_packet(c, &p, i >= 2, i & 1, k, n, lens[j]);
				}
				psn += n;
				pkt_none(c);
				peer_ack(c, psn - 1);
				assert_int_equal(send_cqe(c, id, QP_WC_SUCCESS).byte_len, lens[j]);
			}
		}
	}
}

REQUIREMENT("WIRE-05")
BENCH_TEST(a_read_is_one_request)
{
	struct conn *c = conn_open(*state, conn_rc);
	struct wire_pkt p;

	client_posts(c, 1, UROCE_WR_RDMA_READ, SIG, 0);
	client_posts(c, 2, UROCE_WR_RDMA_READ, SIG, 3 * MTU + 1);
	client_posts(c, 3, UROCE_WR_RDMA_READ, SIG, 1);
	p = pkt_expect(c, WIRE_OP_READ_REQ, SQ);
	assert_int_equal(p.dmalen, 0);
	p = pkt_expect(c, WIRE_OP_READ_REQ, SQ + 1);
	assert_int_equal(p.dmalen, 3 * MTU + 1);
	assert_int_equal(p.payload_len, 0);
	assert_true(p.va == PEER_VA);
	assert_int_equal(p.rkey, PEER_RKEY);
	pkt_expect(c, WIRE_OP_READ_REQ, SQ + 5); /* the response before it takes four PSNs */
	pkt_none(c);
}

REQUIREMENT("WIRE-04")
BENCH_TEST(solicited_bit_is_on_the_last_packet_only)
{
	struct conn *c = conn_open(*state, conn_rc);

	client_posts(c, 1, UROCE_WR_SEND, SIG | UROCE_WQE_SOLICITED, 2 * MTU + 1);
	client_posts(c, 2, UROCE_WR_RDMA_WRITE_IMM, SIG | UROCE_WQE_SOLICITED, 1);
	client_posts(c, 3, UROCE_WR_SEND, SIG, 1);
	assert_false(pkt_expect(c, WIRE_OP_SEND_FIRST, SQ).solicited);
	assert_false(pkt_expect(c, WIRE_OP_SEND_MIDDLE, SQ + 1).solicited);
	assert_true(pkt_expect(c, WIRE_OP_SEND_LAST, SQ + 2).solicited);
	assert_true(pkt_expect(c, WIRE_OP_WRITE_ONLY_IMM, SQ + 3).solicited);
	assert_false(pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 4).solicited);
}

REQUIREMENT("WIRE-06")
BENCH_TEST(psns_wrap_at_24_bits)
{
	struct conn *c = conn_open(*state, CONN(cfg.sq_psn = 0xfffffd));
	uint32_t k;

	client_posts(c, 1, UROCE_WR_SEND, SIG, 2 * MTU);
	client_posts(c, 2, UROCE_WR_SEND, SIG, 3 * MTU);
	client_posts(c, 3, UROCE_WR_RDMA_READ, SIG, 1);
	for (k = 0; k < 6; k++) {
		struct wire_pkt p;

		assert_true(pkt_poll(c, &p));
		assert_int_equal(p.psn, (0xfffffd + k) & 0xffffff);
	}
	peer_ack(c, 0xfffffe);
	send_cqe(c, 1, QP_WC_SUCCESS);
	cqe_none(c);
	peer_nak(c, 0x000000, NAK_SYN(PSN_SEQ));
	pkt_expect(c, WIRE_OP_SEND_MIDDLE, 0);
	pkt_expect(c, WIRE_OP_SEND_LAST, 1);
	pkt_expect(c, WIRE_OP_READ_REQ, 2);
	peer_read_resp(c, WIRE_OP_READ_RESP_ONLY, 2, 0, 1);
	send_cqe(c, 2, QP_WC_SUCCESS);
	send_cqe(c, 3, QP_WC_SUCCESS);
}

REQUIREMENT("REQ-01")
BENCH_TEST(wqes_in_flight_complete_in_order)
{
	struct conn *c = conn_open(*state, conn_rc);
	uint32_t i;

	for (i = 0; i < 40; i++)
		client_posts(c, i, i & 1 ? UROCE_WR_SEND : UROCE_WR_RDMA_WRITE, SIG, 100);
	assert_int_equal(pkt_count(c), 40);
	peer_ack(c, SQ + 20);
	for (i = 0; i <= 20; i++) {
		struct uroce_cqe cqe = send_cqe(c, i, QP_WC_SUCCESS);

		assert_int_equal(cqe.opcode, i & 1 ? UROCE_CQE_SEND : UROCE_CQE_RDMA_WRITE);
	}
	cqe_none(c);
	peer_ack(c, SQ + 39);
	for (; i < 40; i++)
		send_cqe(c, i, QP_WC_SUCCESS);
	cqe_none(c);
}

REQUIREMENT("REQ-01")
BENCH_TEST(unsignaled_wqes_complete_silently)
{
	struct conn *c = conn_open(*state, conn_rc);
	uint32_t i;

	for (i = 0; i < 10; i++)
		client_posts(c, i, UROCE_WR_SEND, i % 5 == 4 ? SIG : 0, 100);
	assert_int_equal(pkt_count(c), 10);
	peer_ack(c, SQ + 3);
	cqe_none(c);
	assert_int_equal(c->sq.hdr->cons, 4); /* their slots are free all the same */
	assert_int_equal(c->sq.hdr->done, 4);
	assert_int_equal(c->sq.hdr->wr_id, 3);
	peer_ack(c, SQ + 9);
	send_cqe(c, 4, QP_WC_SUCCESS);
	send_cqe(c, 9, QP_WC_SUCCESS);
	cqe_none(c);
	assert_int_equal(c->sq.hdr->cons, 10);
}

/*
 * One ACK retires unsignaled WQEs, but not one that it acknowledges in part nor a READ without
 * data.
 */
REQUIREMENT("REQ-01")
BENCH_TEST(unsignaled_wqes_complete_only_when_acknowledged)
{
	struct conn *c = conn_open(*state, conn_rc);

	client_posts(c, 0, UROCE_WR_RDMA_WRITE, 0, 8);
	client_posts(c, 1, UROCE_WR_RDMA_WRITE, 0, 8);
	client_posts(c, 2, UROCE_WR_RDMA_WRITE, 0, 3 * c->qp->conn.mtu);
	assert_int_equal(pkt_count(c), 5);
	peer_ack(c, SQ + 3);
	assert_int_equal(c->sq.hdr->cons, 2);
	assert_int_equal(c->sq.hdr->wr_id, 1);
	peer_ack(c, SQ + 4);
	assert_int_equal(c->sq.hdr->cons, 3);

	client_posts(c, 3, UROCE_WR_RDMA_WRITE, 0, 8);
	client_posts(c, 4, UROCE_WR_RDMA_READ, 0, 8);
	client_posts(c, 5, UROCE_WR_RDMA_WRITE, 0, 8);
	peer_ack(c, SQ + 7);
	assert_int_equal(c->sq.hdr->cons, 4);
	assert_int_equal(c->sq.hdr->done, 4);
	assert_int_equal(c->sq.hdr->wr_id, 3);
	cqe_none(c);
}

REQUIREMENT("REQ-01")
BENCH_TEST(sq_sig_all_completes_every_wqe)
{
	struct conn *c = conn_open(*state, CONN(cfg.sig_all = true));

	client_posts(c, 1, UROCE_WR_SEND, 0, 100);
	client_posts(c, 2, UROCE_WR_RDMA_WRITE, 0, 100);
	peer_ack(c, SQ + 1);
	send_cqe(c, 1, QP_WC_SUCCESS);
	send_cqe(c, 2, QP_WC_SUCCESS);
}

/* More work than the private ring or the window holds continues as the peer acknowledges. */
REQUIREMENT("REQ-01")
BENCH_TEST(full_send_queue_drains)
{
	uint32_t i, sent, acked = 0;
	struct conn *c = conn_open(*state, CONN(cfg.sq_entries = 512, cfg.cq_entries = 1024));

	for (i = 0; i < 512; i++)
		post_quiet(c, (struct wr){.id = i, .op = UROCE_WR_SEND, .flags = SIG, .len = 8});
	ring_doorbell(c);
	for (sent = 0; acked < 512; acked = sent) {
		sent += pkt_count(c);
		assert_true(sent > acked);
		assert_true(sent - acked <= CC_WINDOW_PKTS);
		peer_ack(c, SQ + sent - 1);
	}
	for (i = 0; i < 512; i++)
		send_cqe(c, i, QP_WC_SUCCESS);
	cqe_none(c);
}

/* A busy SQ needs no doorbell; an idle one is armed first. */
REQUIREMENT("REQ-01")
BENCH_TEST(work_posted_to_a_busy_qp_is_sent)
{
	struct conn *c = conn_open(*state, conn_rc);

	bench_run(c->b);
	assert_int_equal(c->sq.hdr->armed, 1);
	client_posts(c, 1, UROCE_WR_SEND, SIG, 8);
	assert_int_equal(c->sq.hdr->armed, 0);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
	assert_int_equal(c->sq.hdr->armed, 1); /* the queue is empty: a doorbell is needed again */
	client_posts(c, 2, UROCE_WR_SEND, SIG, 8);
	client_posts(c, 3, UROCE_WR_SEND, SIG, 8);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 1);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 2);
}

/* A polled queue is never armed and takes no further turn when it is empty. */
REQUIREMENT("REQ-01")
BENCH_TEST(polled_empty_queue_takes_no_turn)
{
	struct conn *c = conn_open(*state, conn_rc);

	c->qp->bind.polled = true;
	client_does(c, 1, UROCE_WR_SEND, 8);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ); /* the bench fails where the engine never rests */
	assert_int_equal(c->sq.hdr->armed, 0);
	client_does(c, 2, UROCE_WR_SEND, 8);
	pkt_none(c);                       /* the client rang no doorbell */
	engine_wake(&c->b->engine, c->qp); /* as the polling worker does */
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 1);
}

REQUIREMENT("REQ-01")
BENCH_TEST(inline_data_is_copied_when_posted)
{
	struct conn *c = conn_open(*state, conn_rc);
	struct wire_pkt p;
	char data[64];

	memset(data, 'a', sizeof(data));
	post_inline(c, (struct wr){.id = 1, .op = UROCE_WR_SEND, .flags = SIG}, data, 64);
	post_inline(c, (struct wr){.id = 2, .op = UROCE_WR_RDMA_WRITE, .flags = SIG}, data, 0);
	p = pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
	assert_int_equal(p.payload_len, 64);
	assert_memory_equal(p.payload, data, 64);
	p = pkt_expect(c, WIRE_OP_WRITE_ONLY, SQ + 1);
	assert_int_equal(p.payload_len, 0);
	/* A retransmission sends the WQE as posted, whatever the slot holds now. */
	memset(c->sq.slots, 'x', c->sq.stride);
	bench_pass(c->b, 70000000);
	p = pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
	assert_memory_equal(p.payload, data, 64);
}

REQUIREMENT("REQ-01")
BENCH_TEST(send_gathers_over_sges)
{
	struct conn *c = conn_open(*state, conn_rc);
	uint32_t key = c->local->mr.key;
	struct uroce_sge sge[] = {
		{LOCAL_VA + 5000, 700, key},
		{LOCAL_VA, 0, 0},
		{LOCAL_VA + 9, 1, key},
		{LOCAL_VA + BENCH_BYTES - 400, 400, key},
	};
	uint8_t want[1101];
	struct wire_pkt p;

	memcpy(want, bench_bytes + 5000, 700);
	want[700] = bench_bytes[9];
	memcpy(want + 701, bench_bytes + BENCH_BYTES - 400, 400);
	post(c, (struct wr){.id = 1, .op = UROCE_WR_SEND, .flags = SIG, .sge = sge, .nsge = 4});
	p = pkt_expect(c, WIRE_OP_SEND_FIRST, SQ);
	assert_memory_equal(p.payload, want, MTU);
	p = pkt_expect(c, WIRE_OP_SEND_LAST, SQ + 1);
	assert_int_equal(p.payload_len, 1101 - MTU);
	assert_memory_equal(p.payload, want + MTU, 1101 - MTU);
}

/* A peer that responds only to AckReq must never leave the window full. */
REQUIREMENT("RSP-02")
BENCH_TEST(long_messages_request_acks_midway)
{
	uint32_t n = 0, quiet = 0;
	struct wire_pkt p;
	struct conn *c = conn_open(*state, CONN(cfg.mtu_code = 1));

	client_posts(c, 1, UROCE_WR_SEND, SIG, 400 * 256);
	while (n < 400) {
		uint32_t asked = UINT32_MAX;

		while (pkt_poll(c, &p)) {
			n++;
			quiet = p.ackreq ? 0 : quiet + 1;
			asked = p.ackreq ? p.psn : asked;
			assert_true(quiet < CC_WINDOW_PKTS / 2);
		}
		assert_int_not_equal(asked, UINT32_MAX);
		peer_ack(c, asked);
	}
	send_cqe(c, 1, QP_WC_SUCCESS);
}

/*
 * Consecutive messages share one AckReq: it is set in the last message, in the last of each turn,
 * and in every 32nd. room: packets after which a turn ends.
 */
static void
in_a_row(struct bench *b, uint32_t room, uint32_t every)
{
	static const uint32_t counts[] = {1, 2, 16, 17, 31, 32, 33, 48};
	struct conn_cfg cfg = conn_rc;
	uint32_t i, n, k, asked;
	struct wire_pkt p;
	struct conn *c;

	cfg.sq_entries = cfg.cq_entries = 64;
	b->engine.env.tx_cap = room;
	for (i = 0; i < RTE_DIM(counts); i++) {
		n = counts[i];
		c = conn_open(b, cfg);
		for (k = 0; k < n; k++)
			client_posts(c, k, UROCE_WR_SEND, SIG, 8);
		for (k = 0, asked = 0; pkt_poll(c, &p); k++) {
			assert_int_equal(p.opcode, WIRE_OP_SEND_ONLY);
			assert_int_equal(p.ackreq, k + 1 == n || (k + 1) % every == 0);
			asked += p.ackreq;
		}
		assert_int_equal(k, n);
		assert_int_equal(asked, (n + every - 1) / every);
		peer_ack(c, SQ + n - 1);
		for (k = 0; k < n; k++)
			send_cqe(c, k, QP_WC_SUCCESS);
	}
}

REQUIREMENT("RSP-02")
BENCH_TEST(consecutive_messages_request_one_ack)
{
	in_a_row(*state, ENGINE_TX_CAP, 32);
	in_a_row(*state, 16, 16);
}

/* Also if the next WQE must wait: a READ beyond the depth, a fence. */
REQUIREMENT("RSP-02")
BENCH_TEST(wqe_that_fails_leaves_no_pending_ack_request)
{
	struct wire_pkt p;
	struct conn *c = conn_open(*state, CONN(cfg.max_rd_atomic = 1));

	client_posts(c, 0, UROCE_WR_RDMA_READ, SIG, 8);
	client_posts(c, 1, UROCE_WR_SEND, SIG, 8);
	client_posts(c, 2, UROCE_WR_RDMA_READ, SIG, 8);
	pkt_expect(c, WIRE_OP_READ_REQ, SQ);
	assert_true(pkt_poll(c, &p));
	assert_int_equal(p.psn, SQ + 1);
	assert_true(p.ackreq);
	pkt_none(c);
}

REQUIREMENT("REQ-02")
BENCH_TEST(at_most_max_rd_atomic_outstanding)
{
	struct conn *c = conn_open(*state, CONN(cfg.max_rd_atomic = 2));
	uint32_t i;

	for (i = 0; i < 5; i++)
		client_posts(c, i, UROCE_WR_RDMA_READ, SIG, 8);
	client_posts(c, 5, UROCE_WR_SEND, SIG, 8);
	pkt_expect(c, WIRE_OP_READ_REQ, SQ);
	pkt_expect(c, WIRE_OP_READ_REQ, SQ + 1);
	pkt_none(c);
	for (i = 0; i < 5; i++) {
		peer_read_resp(c, WIRE_OP_READ_RESP_ONLY, SQ + i, 0, 8);
		send_cqe(c, i, QP_WC_SUCCESS);
		if (i < 3)
			pkt_expect(c, WIRE_OP_READ_REQ, SQ + i + 2);
		if (i == 2)
			pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 5);
		pkt_none(c);
	}
}

REQUIREMENT("REQ-02")
BENCH_TEST(fence_waits_for_reads)
{
	struct conn *c = conn_open(*state, conn_rc);

	client_posts(c, 1, UROCE_WR_RDMA_READ, SIG, 8);
	client_posts(c, 2, UROCE_WR_SEND, SIG, 8); /* no fence: goes past */
	client_posts(c, 3, UROCE_WR_RDMA_READ, SIG, 8);
	client_posts(c, 4, UROCE_WR_SEND, SIG | UROCE_WQE_FENCE, 8);
	client_posts(c, 5, UROCE_WR_SEND, SIG, 8);
	pkt_expect(c, WIRE_OP_READ_REQ, SQ);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 1);
	pkt_expect(c, WIRE_OP_READ_REQ, SQ + 2);
	pkt_none(c);
	peer_read_resp(c, WIRE_OP_READ_RESP_ONLY, SQ, 0, 8);
	pkt_none(c);
	peer_read_resp(c, WIRE_OP_READ_RESP_ONLY, SQ + 2, 0, 8);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 3);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 4);
}

/* Not for SENDs and WRITEs. */
REQUIREMENT("REQ-02")
BENCH_TEST(fence_does_not_wait_for_others)
{
	struct conn *c = conn_open(*state, conn_rc);

	client_posts(c, 1, UROCE_WR_SEND, SIG, 8);
	client_posts(c, 2, UROCE_WR_RDMA_WRITE, SIG | UROCE_WQE_FENCE, 8);
	client_posts(c, 3, UROCE_WR_RDMA_READ, SIG | UROCE_WQE_FENCE, 8);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
	pkt_expect(c, WIRE_OP_WRITE_ONLY, SQ + 1);
	pkt_expect(c, WIRE_OP_READ_REQ, SQ + 2);
}
