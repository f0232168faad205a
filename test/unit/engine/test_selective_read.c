/* SPDX-License-Identifier: BSD-3-Clause */
/* Selective repeat of READs: lost responses, and lost requests (doc/selective-repeat.md). */
#include <errno.h>
#include <string.h>
#include "harness.h"
#include "probe.h"
#include "wire/sack.h"

#define SQ  0x001000u
#define RQ  0x555000u
#define MTU 1024u

/* A READ of n packets, to a peer that has agreed. */
static struct conn *
reading(void **state, uint32_t n)
{
	struct conn *c = conn_with(state, 14, 7);

	c->b->engine.env.plain = 0;
	sr_in_order(c, QP_SR_ON);
	memset(c->local->bytes, 0, BENCH_BYTES);
	post(c, (struct wr){.id = 1, .op = UROCE_WR_RDMA_READ, .flags = SIG, .len = n * MTU});
	pkt_expect(c, WIRE_OP_READ_REQ, SQ);
	return c;
}

/* Responses from .. to - 1 to a request for n packets from PSN SQ + base on. */
static void
respond(struct conn *c, uint32_t base, uint32_t n, uint32_t from, uint32_t to)
{
	for (uint32_t k = from; k < to; k++) {
		uint8_t op =
			k == 0 ? (n == 1 ? WIRE_OP_READ_RESP_ONLY : WIRE_OP_READ_RESP_FIRST)
			       : (k + 1 == n ? WIRE_OP_READ_RESP_LAST : WIRE_OP_READ_RESP_MIDDLE);

		peer_read_resp(c, op, SQ + base + k, (base + k) * MTU, MTU);
	}
}

static void
expect_part(struct conn *c, uint32_t base, uint32_t n)
{
	struct wire_pkt p = pkt_expect(c, WIRE_OP_READ_REQ, SQ + base);

	assert_true(p.va == PEER_VA + base * MTU);
	assert_int_equal(p.dmalen, n * MTU);
}

static void
expect_done(struct conn *c, uint32_t n)
{
	send_cqe(c, 1, QP_WC_SUCCESS);
	assert_memory_equal(c->local->bytes, bench_bytes, n * MTU);
}

REQUIREMENT("SR-03")
BENCH_TEST(lost_response_is_requested_alone)
{
	struct conn *c = reading(state, 8);

	respond(c, 0, 8, 0, 2);
	respond(c, 0, 8, 3, 5);
	pkt_none(c); /* two behind the gap may be reordering */
	assert_false(c->qp->conn.snd.rd_lossy);
	respond(c, 0, 8, 5, 6);
	expect_part(c, 2, 1);
	assert_true(c->qp->conn.snd.rd_lossy);
	respond(c, 0, 8, 6, 8);
	pkt_none(c);
	cqe_none(c);
	respond(c, 2, 1, 0, 1);
	expect_done(c, 8);
	pkt_none(c);
	assert_int_equal(OBS(c, REQ_SELECTIVE), 1);
}

REQUIREMENT("SR-03")
BENCH_TEST(each_run_of_lost_responses_is_one_request)
{
	struct conn *c = reading(state, 10);

	respond(c, 0, 10, 0, 1);
	respond(c, 0, 10, 2, 3);
	respond(c, 0, 10, 9, 10);
	expect_part(c, 1, 1);
	expect_part(c, 3, 6);
	pkt_none(c);
	respond(c, 1, 1, 0, 1);
	respond(c, 3, 6, 0, 6);
	expect_done(c, 10);
}

REQUIREMENT("SR-05")
BENCH_TEST(late_responses_are_not_requested_again)
{
	struct conn *c = reading(state, 8);

	respond(c, 0, 8, 0, 1);
	respond(c, 0, 8, 2, 4);
	respond(c, 0, 8, 1, 2);
	respond(c, 0, 8, 4, 8);
	expect_done(c, 8);
	pkt_none(c);
	assert_int_equal(OBS(c, REQ_SELECTIVE), 0);
}

REQUIREMENT("SR-04")
BENCH_TEST(lost_repeat_shows_when_a_later_one_arrives)
{
	struct conn *c = reading(state, 10);

	respond(c, 0, 10, 0, 1);
	respond(c, 0, 10, 2, 3);
	respond(c, 0, 10, 4, 10);
	expect_part(c, 1, 1);
	expect_part(c, 3, 1);
	respond(c, 3, 1, 0, 1);
	expect_part(c, 1, 1);
	pkt_none(c);
	respond(c, 1, 1, 0, 1);
	expect_done(c, 10);
}

/* The peer answers the repeat of 1 before that of 5, which waits there: 5 was not lost. */
REQUIREMENT("SR-05")
BENCH_TEST(repeat_that_is_answered_in_the_order_of_psns_is_not_lost)
{
	struct conn *c = reading(state, 12);

	respond(c, 0, 12, 0, 1);
	respond(c, 0, 12, 2, 3);
	respond(c, 0, 12, 4, 5);
	respond(c, 0, 12, 6, 12);
	expect_part(c, 1, 1);
	expect_part(c, 3, 1);
	expect_part(c, 5, 1);
	respond(c, 3, 1, 0, 1);
	expect_part(c, 1, 1); /* the repeat of 1 was lost */
	respond(c, 1, 1, 0, 1);
	pkt_none(c);
	respond(c, 5, 1, 0, 1);
	expect_done(c, 12);
}

/* The ACK of the SEND arrives while data of the READ before it is missing: it counts later. */
REQUIREMENT("SR-02")
BENCH_TEST(ack_behind_missing_data_is_remembered)
{
	struct conn *c = reading(state, 4);

	client_sends(c, 2, 8);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 4);
	respond(c, 0, 4, 0, 2);
	respond(c, 0, 4, 3, 4);
	peer_ack(c, SQ + 4); /* all that was sent: nothing else will show the loss */
	cqe_none(c);
	expect_part(c, 2, 1);
	respond(c, 2, 1, 0, 1);
	expect_done(c, 4);
	send_cqe(c, 2, QP_WC_SUCCESS);
	pkt_none(c);
}

REQUIREMENT("SR-04")
BENCH_TEST(lost_end_of_a_read_is_requested_by_the_probe)
{
	struct conn *c = reading(state, 8);

	respond(c, 0, 8, 0, 6);
	pkt_none(c);
	bench_pass(c->b, c->qp->conn.snd.wait_ns);
	expect_part(c, 6, 2);
	pkt_none(c);
	respond(c, 6, 2, 0, 2);
	expect_done(c, 8);
}

/* All from one response on are lost, and none shows it: one probe for all of them, not one for 64.
 */
REQUIREMENT("SR-04")
BENCH_TEST(lost_end_of_a_long_read_needs_one_probe)
{
	struct conn *c = reading(state, 120);

	respond(c, 0, 120, 0, 10);
	bench_pass(c->b, c->qp->conn.snd.wait_ns);
	expect_part(c, 10, 64);
	pkt_none(c);
	respond(c, 10, 64, 0, 63);
	pkt_none(c);
	respond(c, 10, 64, 63, 64);
	expect_part(c, 74, 46);
	pkt_none(c);
	respond(c, 74, 46, 0, 46);
	expect_done(c, 120);
	pkt_none(c);
}

/*
 * As before, but the responses were only late. The first 64 might be the answer to the probe, so
 * the rest is requested once more, which does no harm.
 */
REQUIREMENT("SR-04")
BENCH_TEST(late_end_of_a_long_read_is_requested_once_more)
{
	struct conn *c = reading(state, 120);

	respond(c, 0, 120, 0, 10);
	bench_pass(c->b, c->qp->conn.snd.wait_ns);
	expect_part(c, 10, 64);
	respond(c, 0, 120, 10, 120);
	expect_part(c, 74, 46);
	expect_done(c, 120);
	respond(c, 10, 64, 0, 64);
	respond(c, 74, 46, 0, 46);
	pkt_none(c);
	cqe_none(c);
}

/* A NAK leads to go-back-N, which forgets early data. */
REQUIREMENT("SR-02")
BENCH_TEST(nak_requests_everything_again)
{
	struct conn *c = reading(state, 8);

	respond(c, 0, 8, 0, 2);
	respond(c, 0, 8, 3, 5);
	peer_nak(c, SQ + 8, NAK_SYN(REM_ACCESS)); /* never sent: ignored */
	pkt_none(c);
	peer_nak(c, SQ + 2, NAK_SYN(PSN_SEQ));
	expect_part(c, 2, 6);
	pkt_none(c);
	respond(c, 2, 6, 0, 6);
	expect_done(c, 8);
}

/*
 * Round trips of 10 ms were those of many queued READs. After a NAK a few are requested at a time:
 * if the next request is lost, the probe comes as early as before any measurement.
 */
REQUIREMENT("REQ-08")
BENCH_TEST(nak_forgets_long_round_trips_of_reads)
{
	struct conn *c = reading(state, 8);

	qp_loss_sample(&c->b->engine.env, c->qp, 10000000);
	assert_true(c->qp->conn.snd.wait_ns > QP_PROBE_FORGOT_NS);
	peer_nak(c, SQ, NAK_SYN(PSN_SEQ));
	expect_part(c, 0, 8);
	bench_pass(c->b, QP_PROBE_FORGOT_NS - 1000);
	pkt_none(c);
	bench_pass(c->b, 2000);
	expect_part(c, 0, 8);
	pkt_none(c);
}

/* Short ones stay: they are as good as a guess. */
BENCH_TEST(nak_keeps_short_round_trips_of_reads)
{
	struct conn *c = reading(state, 8);

	qp_loss_sample(&c->b->engine.env, c->qp, 20000);
	peer_nak(c, SQ, NAK_SYN(PSN_SEQ));
	expect_part(c, 0, 8);
	assert_int_equal(c->qp->conn.loss.srtt_ns, 20001);
}

/* The region is deregistered while a response is missing: no early data is written to it. */
REQUIREMENT("SR-02", "REQ-08")
BENCH_TEST(early_data_for_deregistered_memory_is_not_stored)
{
	struct conn *c = reading(state, 8);

	respond(c, 0, 8, 0, 2);
	respond(c, 0, 8, 3, 4);
	region_drop(c->b, c->local);
	respond(c, 0, 8, 4, 8);
	assert_int_equal(c->qp->bind.scoreboard->reads.here.n, 1); /* response 3 */
	cqe_none(c); /* the error comes when the data is the oldest */
	respond(c, 0, 8, 2, 3);
	send_cqe(c, 1, QP_WC_LOC_PROT_ERR);
	state_expect(c, QP_ERR);
	assert_memory_equal(c->local->bytes, bench_bytes, 2 * MTU);
	assert_int_equal(c->local->bytes[2 * MTU], 0);
	assert_memory_equal(c->local->bytes + 3 * MTU, bench_bytes + 3 * MTU, MTU);
	assert_int_equal(c->local->bytes[4 * MTU], 0);
}

/* Early data that late memory does not accept is requested again, like a lost response. */
REQUIREMENT("SR-02", "SR-03")
BENCH_TEST(early_data_for_late_memory_is_requested_again)
{
	struct conn *c = reading(state, 10);

	region_by_ops(c->local, 2);
	c->local->error = -EAGAIN;
	respond(c, 0, 10, 0, 2);
	respond(c, 0, 10, 3, 5);
	pkt_none(c);
	c->local->good = 100;
	for (uint32_t k = 2; k < 5; k++) {
		respond(c, 0, 10, k + 3, k + 4);
		expect_part(c, k, 1);
	}
	respond(c, 0, 10, 8, 10);
	pkt_none(c);
	cqe_none(c);
	for (uint32_t k = 2; k < 5; k++)
		respond(c, k, 1, 0, 1);
	expect_done(c, 10);
}

/* The next frame: a SACK of requests behind psn. held: bit i is PSN psn + i. */
static void
expect_sack(struct conn *c, uint32_t psn, uint64_t held)
{
	struct wire_pkt p = pkt_expect(c, WIRE_OPCODE_SACK, psn);
	struct wire_sack s = {0};

	assert_true(wire_sack_get(&p, &s));
	assert_int_equal(rte_le_to_cpu_64(s.held[0]), held);
	assert_int_equal(s.held[1] | s.held[2] | s.held[3], 0);
}

/* The responses to the peer's request for n packets, except the first one. */
static void
expect_rest(struct conn *c, uint32_t psn, uint32_t n)
{
	for (uint32_t k = 1; k + 1 < n; k++)
		pkt_expect(c, WIRE_OP_READ_RESP_MIDDLE, psn + k);
	pkt_expect(c, WIRE_OP_READ_RESP_LAST, psn + n - 1);
}

/*
 * The READ of PSN RQ + 8 is lost. The peer learns it before all responses to the one before it are
 * sent, so that its retransmission arrives while there is something to send. PSNs of executed
 * requests count as held.
 */
REQUIREMENT("SR-03")
BENCH_TEST(lost_request_is_told_before_responses)
{
	struct conn *c = conn_with(state, 14, 7);

	sr_in_order(c, QP_SR_ON);
	peer_read(c, RQ, REMOTE_VA, 8 * MTU);
	peer_read(c, RQ + 10, REMOTE_VA, 2 * MTU);
	pkt_expect(c, WIRE_OP_READ_RESP_FIRST, RQ);
	expect_sack(c, RQ + 1, 0x27e);
	expect_rest(c, RQ, 8);
	pkt_none(c);
	peer_read(c, RQ + 8, REMOTE_VA, 2 * MTU);
	for (uint32_t psn = RQ + 8; psn != RQ + 12; psn += 2) {
		pkt_expect(c, WIRE_OP_READ_RESP_FIRST, psn);
		expect_rest(c, psn, 2);
	}
	expect_sack(c, RQ + 12, 0);
	pkt_none(c);
}

/* Two READs of three packets, at SQ + 8 and SQ + 11. */
static void
post_two(struct conn *c)
{
	for (uint32_t i = 0; i < 2; i++) {
		post(c, (struct wr){.id = 2 + i,
				    .op = UROCE_WR_RDMA_READ,
				    .flags = SIG,
				    .len = 3 * MTU});
		pkt_expect(c, WIRE_OP_READ_REQ, SQ + 8 + 3 * i);
	}
}

static const struct wire_sack good = {.version = WIRE_SACK_VERSION};

/* A SACK of the requests behind a lost READ: only that READ is sent again, no response. */
BENCH_TEST(lost_request_is_repeated_while_responses_arrive)
{
	struct conn *c = reading(state, 8);

	post_two(c);
	peer_sack(c, SQ + 1, 0x47e, good);
	pkt_expect(c, WIRE_OP_READ_REQ, SQ + 8);
	pkt_none(c);
	respond(c, 0, 8, 0, 8);
	expect_done(c, 8);
	pkt_none(c);
	assert_int_equal(OBS(c, REQ_SELECTIVE), 1);
}

/* The same if an early response has shown that all of the first READ was executed. */
BENCH_TEST(lost_request_is_repeated_while_a_response_is_missing)
{
	struct conn *c = reading(state, 8);

	post_two(c);
	respond(c, 0, 8, 0, 1);
	respond(c, 0, 8, 2, 3);
	peer_sack(c, SQ + 3, 0x11e, good);
	pkt_expect(c, WIRE_OP_READ_REQ, SQ + 8);
	pkt_none(c);
	peer_sack(c, SQ + 3, 0x11e, good);
	pkt_none(c);
	respond(c, 0, 8, 3, 8);
	expect_part(c, 1, 1);
	respond(c, 1, 1, 0, 1);
	expect_done(c, 8);
	pkt_none(c);
}

/* After a READ of 8 packets. A round trip took 1 ms, the response to a repeated request 50 us. */
static struct conn *
repaired(void **state)
{
	struct conn *c = reading(state, 8);

	qp_loss_sample(&c->b->engine.env, c->qp, 1000000);
	respond(c, 0, 8, 0, 1);
	respond(c, 0, 8, 2, 8);
	expect_part(c, 1, 1);
	c->b->now += 50000;
	respond(c, 1, 1, 0, 1);
	expect_done(c, 8);
	return c;
}

/*
 * A repeated request is answered within 50 us, whereas a round trip with the queue of responses is
 * 1 ms: the next loss that nothing shows is probed after 100 us.
 */
REQUIREMENT("SR-04")
BENCH_TEST(wait_for_a_probe_is_that_of_a_repair)
{
	struct conn *c = repaired(state);
	struct bench *b = c->b;

	post(c, (struct wr){.id = 2, .op = UROCE_WR_RDMA_READ, .flags = SIG, .len = MTU});
	pkt_expect(c, WIRE_OP_READ_REQ, SQ + 8);
	bench_pass(b, 90000);
	pkt_none(c);
	bench_pass(b, 20000);
	pkt_expect(c, WIRE_OP_READ_REQ, SQ + 8);
	pkt_none(c);
	/* It was not lost: the peer answers both. This is how long an answer takes. */
	bench_pass(b, 60000);
	peer_read_resp(c, WIRE_OP_READ_RESP_ONLY, SQ + 8, 0, MTU);
	peer_read_resp(c, WIRE_OP_READ_RESP_ONLY, SQ + 8, 0, MTU);
	assert_true(c->qp->conn.loss.repair_ns >= 160000);
}

/*
 * All round trips had losses, so that none gave a sample: the wait is that of a repair, and not the
 * one before anything is known.
 */
REQUIREMENT("SR-04")
BENCH_TEST(wait_for_a_probe_without_a_round_trip_is_that_of_a_repair)
{
	struct conn *c = repaired(state);

	c->qp->conn.loss.srtt_ns = c->qp->conn.loss.rttvar_ns = 0;
	qp_loss_rewait(&c->b->engine.env, c->qp);
	post(c, (struct wr){.id = 2, .op = UROCE_WR_RDMA_READ, .flags = SIG, .len = MTU});
	pkt_expect(c, WIRE_OP_READ_REQ, SQ + 8);
	bench_pass(c->b, 90000);
	pkt_none(c);
	bench_pass(c->b, 20000);
	pkt_expect(c, WIRE_OP_READ_REQ, SQ + 8);
	pkt_none(c);
}

/* Go-back-N requests everything again, so that it waits for whole round trips. */
REQUIREMENT("SR-01")
BENCH_TEST(wait_for_a_probe_of_go_back_n_is_a_round_trip)
{
	struct conn *c = repaired(state);
	struct bench *b = c->b;

	sr_in_order(c, QP_SR_CAN);
	qp_loss_rewait(&b->engine.env, c->qp);
	post(c, (struct wr){.id = 2, .op = UROCE_WR_RDMA_READ, .flags = SIG, .len = MTU});
	pkt_expect(c, WIRE_OP_READ_REQ, SQ + 8);
	bench_pass(b, 900000);
	pkt_none(c);
	bench_pass(b, 3000000);
	pkt_expect(c, WIRE_OP_READ_REQ, SQ + 8);
}

static void
post_read(struct conn *c, uint64_t id, uint32_t n)
{
	post(c, (struct wr){.id = id, .op = UROCE_WR_RDMA_READ, .flags = SIG, .len = n * MTU});
	bench_run(c->b);
}

/* Responses behind a missing one do not count against the window of READs. */
BENCH_TEST(early_responses_make_room_for_another_read)
{
	struct conn *c = reading(state, 8);

	respond(c, 0, 8, 0, 1);
	respond(c, 0, 8, 2, 6);
	expect_part(c, 1, 1);
	c->qp->conn.snd.cc.window_pkts = 4;
	post_read(c, 2, 1); /* 7 PSNs are outstanding, 4 of these have arrived */
	pkt_expect(c, WIRE_OP_READ_REQ, SQ + 8);
	post_read(c, 3, 1);
	pkt_none(c); /* 8 and 4 */
	respond(c, 1, 1, 0, 1);
	pkt_expect(c, WIRE_OP_READ_REQ, SQ + 9);
	pkt_none(c);
}

/* An early response lets a READ go that waits for the window. */
BENCH_TEST(early_response_sends_a_waiting_read)
{
	struct conn *c = reading(state, 8);

	respond(c, 0, 8, 0, 1);
	respond(c, 0, 8, 2, 6);
	expect_part(c, 1, 1);
	c->qp->conn.snd.cc.window_pkts = 4;
	post_read(c, 2, 1);
	pkt_expect(c, WIRE_OP_READ_REQ, SQ + 8);
	post_read(c, 3, 1);
	pkt_none(c);
	respond(c, 0, 8, 6, 7);
	pkt_expect(c, WIRE_OP_READ_REQ, SQ + 9);
	pkt_none(c);
}

/* No READ is sent whose data could not be stored early. */
BENCH_TEST(read_beyond_early_data_waits)
{
	const uint32_t mtu = 256, n = BENCH_BYTES / mtu;
	struct conn *c = conn_with(state, 14, 7);
	uint32_t base, k;

	assert_int_equal(QP_SR_READ_WINDOW % n, 0);
	c->b->engine.env.plain = 0;
	c->qp->conn.mtu = mtu;
	c->qp->conn.attr.max_rd_atomic = 2 * QP_MAX_RD_ATOMIC; /* not the limit here */
	sr_in_order(c, QP_SR_ON);
	for (base = 0; base < QP_SR_READ_WINDOW; base += n) {
		post(c, (struct wr){.op = UROCE_WR_RDMA_READ, .flags = SIG, .len = BENCH_BYTES});
		pkt_expect(c, WIRE_OP_READ_REQ, SQ + base);
		for (k = 0; k < n; k++) {
			if (base + k == 1)
				continue; /* lost */
			peer_read_resp(c,
				       k == 0       ? WIRE_OP_READ_RESP_FIRST
				       : k + 1 == n ? WIRE_OP_READ_RESP_LAST
						    : WIRE_OP_READ_RESP_MIDDLE,
				       SQ + base + k, k * mtu, mtu);
		}
		/* Each READ overtakes the last repeat of the request. */
		pkt_expect(c, WIRE_OP_READ_REQ, SQ + 1);
	}
	post(c, (struct wr){.op = UROCE_WR_RDMA_READ, .flags = SIG, .len = mtu});
	pkt_expect(c, WIRE_OP_READ_REQ, SQ + base);
	peer_read_resp(c, WIRE_OP_READ_RESP_ONLY, SQ + base, 0, mtu);
	post(c, (struct wr){.op = UROCE_WR_RDMA_READ, .flags = SIG, .len = mtu});
	pkt_none(c);
	peer_read_resp(c, WIRE_OP_READ_RESP_ONLY, SQ + 1, mtu, mtu);
	pkt_expect(c, WIRE_OP_READ_REQ, SQ + base + 1);
}

/* The request behind a READ larger than the window shows that the READ was lost. */
BENCH_TEST(second_read_is_sent_whatever_the_first_expects)
{
	struct conn *c = reading(state, CC_WINDOW_PKTS);

	c->qp->conn.snd.rd_lossy = true;
	post_read(c, 2, 1);
	pkt_expect(c, WIRE_OP_READ_REQ, SQ + CC_WINDOW_PKTS);
	post_read(c, 3, 1);
	pkt_none(c);
}

/* A READ takes PSNs of requests that a wrong peer has sent, too: these are not executed later. */
REQUIREMENT("SR-02")
BENCH_TEST(held_request_within_the_longest_read_is_discarded)
{
	const uint32_t npkts = 1u << 23, end = RQ + npkts;
	struct conn_cfg cfg = conn_rc;
	struct conn *c;

	cfg.mtu_code = 1; /* 256 */
	c = conn_open(*state, cfg);
	sr_in_order(c, QP_SR_ON);
	c->remote->mr.len = 256ull * npkts;
	recv_post(c, 1, 0, 64);
	peer_send(c, WIRE_OP_SEND_ONLY, RQ + 1, 0, 8);
	pkt_expect(c, WIRE_OPCODE_SACK, RQ);
	peer_read(c, RQ, REMOTE_VA, 256u * npkts);
	c->qp->conn.rcv.rdq_n = 0; /* without its responses */
	assert_int_equal(OBS(c, RSP_HELD_LOST), 1);
	peer_send(c, WIRE_OP_SEND_ONLY, end, 8, 8);
	recv_cqe(c, 1, QP_WC_SUCCESS);
	assert_int_equal(c->qp->conn.rcv.epsn, end + 1);
}
