/* SPDX-License-Identifier: BSD-3-Clause */
/* Lasting gaps: what requester and responder repeat, and how often (REQ-05, REQ-08, NAK-04). */
#include "harness.h"
#include "probe.h"

#define SQ      0x001000u
#define RQ      0x555000u
#define MTU     1024u
#define TIMEOUT (4096ull << 14) /* conn_rc's */
#define FIRST   ((uint64_t)QP_PROBE_FORGOT_NS)
#define US      1000u

/* The peer responds from the gap on, and the gap opens again: one request per pass. */
REQUIREMENT("REQ-08")
BENCH_TEST(lasting_gap_is_requested_again)
{
	struct conn *c = conn_with(state, 14, 0);
	uint32_t pass;

	round_trip(c, SQ, 10 * US);
	post(c, (struct wr){.id = 1, .op = UROCE_WR_RDMA_READ, .flags = SIG, .len = 4 * MTU});
	pkt_expect(c, WIRE_OP_READ_REQ, SQ + 1);
	for (pass = 1; pass < 8; pass++) {
		bench_pass(c->b, 20 * US);
		peer_read_resp(c, WIRE_OP_READ_RESP_MIDDLE, SQ + 2, MTU, MTU);
		pkt_expect(c, WIRE_OP_READ_REQ, SQ + 1);
		peer_read_resp(c, WIRE_OP_READ_RESP_MIDDLE, SQ + 3, 2 * MTU, MTU);
		pkt_none(c);
		assert_int_equal(OBS(c, REQ_READ_GAP), pass);
	}
	/* Sooner than a round trip it is two responses that have changed places. */
	peer_read_resp(c, WIRE_OP_READ_RESP_MIDDLE, SQ + 2, MTU, MTU);
	pkt_none(c);
	assert_int_equal(OBS(c, REQ_PROBE), 0);
	state_expect(c, QP_RTS);
}

/*
 * The packet that would close the gap is lost each time, for example on a link that carries the
 * longest MIDDLE but not a FIRST, which is 4 bytes longer. There are responses but no progress, so
 * the user's ACK timeout and retries apply.
 */
REQUIREMENT("REQ-04", "REQ-08", "CQE-12")
BENCH_TEST(gap_that_never_closes_ends_in_an_error)
{
	uint32_t cnt;

	for (cnt = 0; cnt <= 7; cnt += 7) {
		struct conn *c = conn_with(state, 14, cnt);
		uint64_t was = OBS(c, REQ_TIMEOUT), pass = 2000 * US, until;
		struct wire_pkt p;

		round_trip(c, SQ, 900 * US);
		post(c,
		     (struct wr){.id = 1, .op = UROCE_WR_RDMA_READ, .flags = SIG, .len = 4 * MTU});
		pkt_expect(c, WIRE_OP_READ_REQ, SQ + 1);
		/* The first response shows that the peer is there: the timeout begins with it. */
		until = c->b->now + pass + (cnt + 1) * TIMEOUT;
		while (c->b->now + pass < until) {
			bench_pass(c->b, pass);
			pkt_count(c);
			peer_read_resp(c, WIRE_OP_READ_RESP_MIDDLE, SQ + 2, MTU, MTU);
			assert_true(pkt_poll(c, &p));
			assert_int_equal(p.psn, SQ + 1);
			pkt_none(c);
			state_expect(c, QP_RTS);
		}
		assert_int_equal(OBS(c, REQ_TIMEOUT), was + cnt);
		assert_int_equal(OBS(c, REQ_PROBE), 0);
		cqe_none(c);
		bench_pass(c->b, pass);
		send_cqe(c, 1, QP_WC_RETRY_EXC_ERR);
		pkt_count(c);
	}
}

/* An ACK beyond a READ's data is an implied NAK: once, no retry, and with timeout 0 not forever.
 */
REQUIREMENT("REQ-08")
BENCH_TEST(implied_nak_is_handled_once_and_uses_no_retry)
{
	struct conn *c = conn_with(state, 0, 0);
	uint32_t i;

	post(c, (struct wr){.id = 1, .op = UROCE_WR_RDMA_READ, .flags = SIG, .len = 8});
	client_sends(c, 2, 8);
	assert_int_equal(pkt_count(c), 2);
	peer_ack(c, SQ + 1);
	pkt_expect(c, WIRE_OP_READ_REQ, SQ);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 1);
	for (i = 0; i < 20; i++) {
		peer_ack(c, SQ + 1);
		pkt_none(c);
	}
	assert_int_equal(OBS(c, REQ_READ_GAP), 1);
	/* That was lost, too. */
	bench_pass(c->b, FIRST - 1);
	pkt_none(c);
	bench_pass(c->b, 1);
	pkt_expect(c, WIRE_OP_READ_REQ, SQ);
	pkt_none(c);
	assert_int_equal(OBS(c, REQ_PROBE), 1);
	peer_ack(c, SQ + 1);
	pkt_expect(c, WIRE_OP_READ_REQ, SQ);
	pkt_count(c);
	state_expect(c, QP_RTS);
	peer_read_resp(c, WIRE_OP_READ_RESP_ONLY, SQ, 0, 8);
	send_cqe(c, 1, QP_WC_SUCCESS);
	peer_ack(c, SQ + 1);
	send_cqe(c, 2, QP_WC_SUCCESS);
}

/* A sequence NAK after missing READ data shows progress of the peer, so it uses no retry. */
REQUIREMENT("REQ-05", "REQ-08")
BENCH_TEST(naks_that_show_progress_use_no_retry)
{
	struct conn *c = conn_with(state, 14, 1);
	uint32_t i;

	post(c, (struct wr){.id = 1, .op = UROCE_WR_RDMA_READ, .flags = SIG, .len = 8});
	client_sends(c, 2, 20 * MTU);
	assert_int_equal(pkt_count(c), 21);
	for (i = 1; i < 10; i++) {
		peer_nak(c, SQ + i, NAK_SYN(PSN_SEQ));
		pkt_expect(c, WIRE_OP_READ_REQ, SQ);
		pkt_count(c);
		cqe_none(c);
	}
	state_expect(c, QP_RTS);
	/* It does not any more. */
	peer_nak(c, SQ + 9, NAK_SYN(PSN_SEQ));
	pkt_count(c);
	peer_nak(c, SQ + 9, NAK_SYN(PSN_SEQ));
	send_cqe(c, 1, QP_WC_RETRY_EXC_ERR);
}

/* After a NAK few packets, then more. */
REQUIREMENT("REQ-05")
BENCH_TEST(the_window_is_small_after_a_nak)
{
	struct conn *c = conn_with(state, 14, 3);

	client_sends(c, 1, 100 * MTU);
	assert_int_equal(pkt_count(c), 100);
	peer_nak(c, SQ, NAK_SYN(PSN_SEQ));
	assert_int_equal(pkt_count(c), CC_AGAIN_PKTS);
	peer_ack(c, SQ + CC_AGAIN_PKTS - 1);
	assert_int_equal(pkt_count(c), 2 * CC_AGAIN_PKTS);
	peer_ack(c, SQ + 3 * CC_AGAIN_PKTS - 1);
	assert_int_equal(pkt_count(c), 100 - 3 * CC_AGAIN_PKTS);
}

/*
 * The requester has rewound to the NAKed packet, which is lost again. The packet that opened the
 * gap draws another NAK when it arrives a second time. Other packets do not, because they may be
 * reordered: one NAK per pass.
 */
REQUIREMENT("NAK-04")
BENCH_TEST(gap_in_a_second_pass_gets_another_nak)
{
	struct conn *c = conn_with(state, 14, 3);
	uint32_t pass;

	recv_post(c, 1, 0, MTU);
	for (pass = 1; pass <= 4; pass++) {
		peer_write(c, WIRE_OP_WRITE_ONLY, RQ + 2, REMOTE_VA, 8, 0, 8);
		answer_expect(c, RQ, NAK_SYN(PSN_SEQ));
		peer_write(c, WIRE_OP_WRITE_ONLY, RQ + 3, REMOTE_VA, 8, 0, 8);
		peer_write(c, WIRE_OP_WRITE_ONLY, RQ + 4, REMOTE_VA, 8, 0, 8);
		pkt_none(c);
		assert_int_equal(OBS(c, RSP_SEQ_NAK), pass);
	}
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ + 4, REMOTE_VA, 8, 0, 8);
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ + 1, REMOTE_VA, 8, 0, 8);
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ + 3, REMOTE_VA, 8, 0, 8);
	pkt_none(c);
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ, REMOTE_VA, 8, 0, 8);
	ack_expect(c, RQ);
}

/*
 * An attacker that knows addresses and QPN but no PSN can send packets with PSNs ahead of the ePSN.
 * Each NAK costs the peer a retry: forged packets must not use up all of them.
 */
REQUIREMENT("NAK-04", "REQ-05")
BENCH_TEST(forged_packets_use_up_few_of_the_peers_retries)
{
	struct conn *c = conn_with(state, 14, 3);
	uint32_t i, psn;

	for (psn = RQ; psn < RQ + 3; psn++) {
		uint64_t was = OBS(c, RSP_SEQ_NAK);

		for (i = 0; i < 50; i++) {
			peer_write(c, WIRE_OP_WRITE_ONLY, RQ + 0x400000, REMOTE_VA, 8, 0, 8);
			pkt_count(c);
		}
		assert_int_equal(OBS(c, RSP_SEQ_NAK) - was, 4);
		peer_write(c, WIRE_OP_WRITE_ONLY, psn, REMOTE_VA, 8, 0, 8);
		ack_expect(c, psn);
	}
}

/* A plain responder sends no second NAK, and later packets do not repeat an RNR NAK. */
REQUIREMENT("NAK-04", "NAK-10")
BENCH_TEST(rnr_nak_is_not_followed_by_a_sequence_nak)
{
	struct conn *c = conn_with(state, 14, 3);
	uint32_t i;

	peer_send(c, WIRE_OP_SEND_ONLY, RQ, 0, 8);
	answer_expect(c, RQ, WIRE_SYN_RNR | 12);
	for (i = 0; i < 3; i++)
		peer_send(c, WIRE_OP_SEND_ONLY, RQ + 1, 0, 8);
	pkt_none(c);
	assert_int_equal(OBS(c, RSP_SEQ_NAK), 0);
}
