/* SPDX-License-Identifier: BSD-3-Clause */
/* Probes: what a requester retransmits before the ACK timeout (lib/qp/loss.h; REQ-04, REQ-08). */
#include "harness.h"
#include "probe.h"

#define SQ      0x001000u
#define RQ      0x555000u
#define MTU     1024u
#define TIMEOUT (4096ull << 14) /* conn_rc's */
#define FIRST   ((uint64_t)QP_PROBE_FORGOT_NS)
#define LEAST   ((uint64_t)QP_PROBE_MIN_NS)
#define US      1000u

/* The first unacknowledged packet is probed, each time after twice as long; no retry is used. */
REQUIREMENT("REQ-04")
BENCH_TEST(probes_back_off_and_use_no_retry)
{
	struct conn *c = conn_with(state, 14, 0);
	uint64_t wait;

	client_sends(c, 1, 8);
	client_sends(c, 2, 8);
	assert_int_equal(pkt_count(c), 2);
	for (wait = FIRST; wait <= 32 * FIRST; wait *= 2)
		expect_probe_after(c, wait, WIRE_OP_SEND_ONLY, SQ);
	assert_int_equal(OBS(c, REQ_PROBE), 6);
	assert_int_equal(OBS(c, REQ_TIMEOUT), 0);
	cqe_none(c);
	peer_ack(c, SQ + 1);
	send_cqe(c, 1, QP_WC_SUCCESS);
	send_cqe(c, 2, QP_WC_SUCCESS);
	pkt_none(c);
	bench_pass(c->b, 10 * TIMEOUT);
	pkt_none(c);
	state_expect(c, QP_RTS);
}

/* The ACK timeout is the user's, whatever was probed: retry_cnt times, then the error. */
REQUIREMENT("REQ-04", "CQE-12")
BENCH_TEST(probes_do_not_move_the_timeout)
{
	uint32_t cnt, i;

	for (cnt = 0; cnt <= 7; cnt += cnt == 1 ? 6 : 1) {
		struct conn *c = conn_with(state, 14, cnt);
		uint64_t was = OBS(c, REQ_TIMEOUT);

		client_sends(c, 1, 8);
		pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
		for (i = 0; i < cnt; i++) {
			bench_pass(c->b, TIMEOUT - 1);
			assert_int_equal(OBS(c, REQ_TIMEOUT), was + i);
			bench_pass(c->b, 1);
			assert_int_equal(OBS(c, REQ_TIMEOUT), was + i + 1);
		}
		bench_pass(c->b, TIMEOUT - 1);
		cqe_none(c);
		bench_pass(c->b, 1);
		send_cqe(c, 1, QP_WC_RETRY_EXC_ERR);
		state_expect(c, QP_ERR);
		/* 1, 2, 4 .. 32 ms, and then the timeout comes first. */
		assert_true(pkt_count(c) <= 6 + 2 * cnt);
	}
}

/* If the timeout is shorter than the wait for a probe, there is only the timeout. */
REQUIREMENT("REQ-04")
BENCH_TEST(short_timeout_has_no_probes)
{
	struct conn *c = conn_with(state, 4, 7);

	client_sends(c, 1, 8);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
	bench_pass(c->b, 100 * (4096ull << 4));
	send_cqe(c, 1, QP_WC_RETRY_EXC_ERR);
	assert_int_equal(pkt_count(c), 7);
	assert_int_equal(OBS(c, REQ_PROBE), 0);
	assert_int_equal(OBS(c, REQ_TIMEOUT), 8);
}

/* With timeout 0 nothing fails, and probes continue. */
REQUIREMENT("REQ-04")
BENCH_TEST(timeout_0_probes_and_never_fails)
{
	struct conn *c = conn_with(state, 0, 0);
	uint32_t n;

	client_sends(c, 1, 8);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
	bench_pass(c->b, 600ull * 1000000000);
	n = pkt_count(c);
	assert_in_range(n, 550, 620); /* one a second in the end */
	cqe_none(c);
	state_expect(c, QP_RTS);
	assert_int_equal(OBS(c, REQ_TIMEOUT), 0);
	peer_ack(c, SQ);
	send_cqe(c, 1, QP_WC_SUCCESS);
}

/* The wait is the round trip's, with a floor; packets that were sent twice are not measured. */
REQUIREMENT("REQ-04")
BENCH_TEST(probes_wait_for_the_measured_round_trip)
{
	struct conn *c = conn_with(state, 14, 7);
	uint32_t i, psn = SQ;

	round_trip(c, psn++, 2 * US);
	client_sends(c, 1, 8);
	pkt_expect(c, WIRE_OP_SEND_ONLY, psn);
	expect_probe_after(c, LEAST, WIRE_OP_SEND_ONLY, psn);
	expect_probe_after(c, 2 * LEAST, WIRE_OP_SEND_ONLY, psn);
	peer_ack(c, psn++);
	send_cqe(c, 1, QP_WC_SUCCESS);
	/* 300 us have passed, but the ACK may belong to any of the three */
	client_sends(c, 2, 8);
	pkt_expect(c, WIRE_OP_SEND_ONLY, psn);
	expect_probe_after(c, LEAST, WIRE_OP_SEND_ONLY, psn);
	peer_ack(c, psn++);
	send_cqe(c, 2, QP_WC_SUCCESS);
	assert_int_equal(c->qp->conn.loss.srtt_ns, 2 * US + 1);
	/* A long way: no probe on it, once it is known. */
	for (i = 0; i < 100; i++) {
		client_sends(c, 3, 8);
		bench_pass(c->b, 5000 * US);
		pkt_count(c);
		peer_ack(c, psn);
		peer_ack(c, psn++); /* the ACK of the probe, or a duplicate */
		send_cqe(c, 3, QP_WC_SUCCESS);
	}
	assert_true(c->qp->conn.loss.srtt_ns > 3000 * US);
	assert_true(OBS(c, REQ_PROBE_VAIN) > 0);
	i = (uint32_t)OBS(c, REQ_PROBE);
	round_trip(c, psn, 5000 * US);
	assert_int_equal(OBS(c, REQ_PROBE), i);
}

/* A message and its probe after ns, both acknowledged. */
static void
wait_is(struct conn *c, uint32_t psn, uint64_t ns)
{
	client_sends(c, 1, 8);
	pkt_expect(c, WIRE_OP_SEND_ONLY, psn);
	expect_probe_after(c, ns, WIRE_OP_SEND_ONLY, psn);
	peer_ack(c, psn);
	send_cqe(c, 1, QP_WC_SUCCESS);
}

/* A round trip that is measured; without this most are not. */
static void
timed_trip(struct conn *c, uint32_t psn, uint64_t ns)
{
	c->qp->conn.snd.watch |= QP_WATCH_RTT_FLIGHT;
	round_trip(c, psn, ns);
}

/*
 * The smoothed round trip plus four deviations as in RFC 6298: half the first sample, then gains of
 * an eighth and a quarter. A sample is a nanosecond more than the time it took.
 */
REQUIREMENT("REQ-04")
BENCH_TEST(probes_wait_longer_if_round_trips_vary)
{
	struct conn *c = conn_with(state, 14, 7);
	uint32_t psn = SQ;

	timed_trip(c, psn++, 900 * US);
	wait_is(c, psn++, 900001 + 4 * 450000);
	timed_trip(c, psn++, 900 * US);
	wait_is(c, psn++, 900001 + 4 * 337500);
	timed_trip(c, psn++, 1700 * US);
	wait_is(c, psn++, 1000001 + 4 * 453125);
	timed_trip(c, psn++, 200 * US);
	wait_is(c, psn++, 900001 + 4 * 539843);
}

/* Only an early timer requests a round-trip sample; progress after a READ gap does not. */
REQUIREMENT("REQ-04")
BENCH_TEST(retransmitted_read_measures_no_round_trip)
{
	struct conn *c = conn_with(state, 14, 7);

	timed_trip(c, SQ, 900 * US);
	assert_int_equal(c->qp->conn.loss.srtt_ns, 900001);
	post(c, (struct wr){.id = 1, .op = UROCE_WR_RDMA_READ, .flags = SIG, .len = 2 * MTU});
	pkt_expect(c, WIRE_OP_READ_REQ, SQ + 1);
	peer_read_resp(c, WIRE_OP_READ_RESP_LAST, SQ + 2, MTU, MTU);
	pkt_expect(c, WIRE_OP_READ_REQ, SQ + 1);
	peer_read_resp(c, WIRE_OP_READ_RESP_FIRST, SQ + 1, 0, MTU);
	peer_read_resp(c, WIRE_OP_READ_RESP_LAST, SQ + 2, MTU, MTU);
	send_cqe(c, 1, QP_WC_SUCCESS);
	assert_int_equal(c->qp->conn.snd.watch & QP_WATCH_RTT, 0);
	round_trip(c, SQ + 3, 300 * US);
	assert_int_equal(c->qp->conn.loss.srtt_ns, 900001);
}

/* A plain requester without an ACK timeout starts no timer when it retransmits a READ. */
REQUIREMENT("REQ-04", "REQ-08")
BENCH_TEST(no_timer_runs_without_a_wait)
{
	struct conn *c = conn_with(state, 0, 0);

	c->b->engine.env.plain = QP_PLAIN_REQUESTER;
	qp_loss_reset(&c->b->engine.env, c->qp);
	post(c, (struct wr){.id = 1, .op = UROCE_WR_RDMA_READ, .flags = SIG, .len = 2 * MTU});
	pkt_expect(c, WIRE_OP_READ_REQ, SQ);
	peer_read_resp(c, WIRE_OP_READ_RESP_LAST, SQ + 1, MTU, MTU);
	pkt_expect(c, WIRE_OP_READ_REQ, SQ);
	assert_int_equal(qp_deadline_earliest(&c->qp->conn), 0);
	bench_pass(c->b, 600ull * 1000000000);
	pkt_none(c);
	assert_int_equal(OBS(c, REQ_PROBE) + OBS(c, REQ_TIMEOUT), 0);
	peer_read_resp(c, WIRE_OP_READ_RESP_FIRST, SQ, 0, MTU);
	peer_read_resp(c, WIRE_OP_READ_RESP_LAST, SQ + 1, MTU, MTU);
	send_cqe(c, 1, QP_WC_SUCCESS);
}

/*
 * With widely varying round trips several probes fit into the timeout, but none is sent within a
 * round trip.
 */
REQUIREMENT("REQ-04")
BENCH_TEST(several_probes_fit_into_the_timeout)
{
	static const struct {
		uint32_t srtt_ns, rttvar_ns, timeout;
		uint64_t wait_ns;
	} v[] = {
		{2000000, 0, 14, 4000000},
		{2000000, 499999, 14, 4000000},
		{2000000, 500001, 14, 4000004},
		{2000000, 10000000, 14, TIMEOUT / QP_PROBES_LEAST},
		{5000000, 10000000, 14, 10000000},
		{50000000, 10000000, 14, TIMEOUT},
		{2000000, 10000000, 0, 42000000},
		{900000000, 400000000, 0, QP_PROBE_MAX_NS},
		{10000, 22500, 14, LEAST},
		{10000, 22501, 14, LEAST + 4},
		{0, 22501, 14, FIRST},
	};
	uint32_t i;

	for (i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		struct conn *c = conn_with(state, v[i].timeout, 7);

		c->qp->conn.loss.srtt_ns = v[i].srtt_ns;
		c->qp->conn.loss.rttvar_ns = v[i].rttvar_ns;
		qp_loss_rewait(&c->b->engine.env, c->qp);
		assert_int_equal(c->qp->conn.snd.wait_ns, v[i].wait_ns);
	}
}

/* The peer has only the probed packet: the next packets follow at once, few at first, then more. */
REQUIREMENT("REQ-05")
BENCH_TEST(answered_probe_closes_the_gap)
{
	struct conn *c = conn_with(state, 14, 0);
	uint32_t at = 1, n;

	client_sends(c, 1, 40 * MTU);
	assert_int_equal(pkt_count(c), 40);
	expect_probe_after(c, FIRST, WIRE_OP_SEND_FIRST, SQ);
	peer_ack(c, SQ);
	for (n = 2; at < 40; n *= 2) {
		uint32_t k = pkt_count(c);

		assert_int_equal(k, n < 40 - at ? n : 40 - at);
		at += k;
		peer_ack(c, SQ + at - 1);
	}
	send_cqe(c, 1, QP_WC_SUCCESS);
	assert_int_equal(OBS(c, REQ_TIMEOUT), 0);
}

/* The peer had everything and its ACK was lost or late: the window stays as it was. */
REQUIREMENT("REQ-04")
BENCH_TEST(probe_for_a_lost_ack_keeps_the_window_open)
{
	struct conn *c = conn_with(state, 14, 0);

	client_sends(c, 1, 40 * MTU);
	assert_int_equal(pkt_count(c), 40);
	expect_probe_after(c, FIRST, WIRE_OP_SEND_FIRST, SQ);
	peer_ack(c, SQ + 39);
	send_cqe(c, 1, QP_WC_SUCCESS);
	pkt_none(c);
	client_sends(c, 2, 40 * MTU);
	assert_int_equal(pkt_count(c), 40);
}

/* A READ of n packets; its first response arrives, and then nothing for LEAST: the probe is p. */
static struct conn *
read_probed(void **state, uint32_t n, struct wire_pkt *p)
{
	struct conn *c = conn_with(state, 14, 0);

	round_trip(c, SQ, 2 * US);
	post(c, (struct wr){.id = 2, .op = UROCE_WR_RDMA_READ, .flags = SIG, .len = n * MTU});
	pkt_expect(c, WIRE_OP_READ_REQ, SQ + 1);
	peer_read_resp(c, WIRE_OP_READ_RESP_FIRST, SQ + 1, 0, MTU);
	bench_pass(c->b, LEAST);
	*p = pkt_expect(c, WIRE_OP_READ_REQ, SQ + 2);
	pkt_none(c);
	return c;
}

/*
 * The probe requests one missing response. If its response comes first, it has overtaken the
 * original ones: the rest is requested again.
 */
REQUIREMENT("REQ-08")
BENCH_TEST(probe_requests_one_missing_read_response)
{
	struct wire_pkt p;
	struct conn *c = read_probed(state, 4, &p);

	assert_int_equal(p.dmalen, MTU);
	assert_true(p.va == PEER_VA + MTU);
	peer_read_resp(c, WIRE_OP_READ_RESP_ONLY, SQ + 2, MTU, MTU);
	assert_int_equal(OBS(c, REQ_READ_GAP), 1);
	p = pkt_expect(c, WIRE_OP_READ_REQ, SQ + 3);
	assert_int_equal(p.dmalen, 2 * MTU);
	pkt_none(c);
	peer_read_resp(c, WIRE_OP_READ_RESP_FIRST, SQ + 3, 2 * MTU, MTU);
	peer_read_resp(c, WIRE_OP_READ_RESP_LAST, SQ + 4, 3 * MTU, MTU);
	send_cqe(c, 2, QP_WC_SUCCESS);
	pkt_none(c);
}

/*
 * The original responses were late: nothing else is requested again, and the duplicate, which
 * comes last, shows how long the round trip is.
 */
REQUIREMENT("REQ-08")
BENCH_TEST(probe_of_a_late_read_repeats_nothing_else)
{
	struct wire_pkt p;
	struct conn *c = read_probed(state, 4, &p);
	uint32_t was = c->qp->conn.loss.srtt_ns, k;

	bench_pass(c->b, 150 * US);
	for (k = 1; k < 3; k++)
		peer_read_resp(c, WIRE_OP_READ_RESP_MIDDLE, SQ + 1 + k, k * MTU, MTU);
	pkt_none(c);
	peer_read_resp(c, WIRE_OP_READ_RESP_ONLY, SQ + 2, MTU, MTU);
	assert_int_equal(OBS(c, REQ_READ_GAP), 0);
	assert_int_equal(OBS(c, REQ_PROBE_VAIN), 1);
	assert_true(c->qp->conn.loss.srtt_ns > was + 20 * US);
	peer_read_resp(c, WIRE_OP_READ_RESP_LAST, SQ + 4, 3 * MTU, MTU);
	send_cqe(c, 2, QP_WC_SUCCESS);
	pkt_none(c);
}

/* The peer may not know a READ whose first response is missing: the probe requests all of it. */
REQUIREMENT("REQ-08")
BENCH_TEST(probe_of_an_unanswered_read_requests_all_of_it)
{
	struct conn *c = conn_with(state, 14, 0);
	uint32_t k;

	post(c, (struct wr){.id = 1, .op = UROCE_WR_RDMA_READ, .flags = SIG, .len = 3 * MTU});
	client_sends(c, 2, 8);
	assert_int_equal(pkt_count(c), 2);
	bench_pass(c->b, FIRST);
	assert_int_equal(pkt_expect(c, WIRE_OP_READ_REQ, SQ).dmalen, 3 * MTU);
	pkt_none(c);
	for (k = 0; k < 3; k++)
		peer_read_resp(c,
			       k == 0   ? WIRE_OP_READ_RESP_FIRST
			       : k == 1 ? WIRE_OP_READ_RESP_MIDDLE
					: WIRE_OP_READ_RESP_LAST,
			       SQ + k, k * MTU, MTU);
	send_cqe(c, 1, QP_WC_SUCCESS);
	/* The SEND was lost, too: its own probe. */
	pkt_none(c);
	bench_pass(c->b, FIRST);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 3);
	peer_ack(c, SQ + 3);
	send_cqe(c, 2, QP_WC_SUCCESS);
	pkt_none(c);
}

/* A response that ends within the READ and that no request asked for is still refused. */
REQUIREMENT("REQ-09")
BENCH_TEST(another_read_response_may_not_end_like_that_of_a_probe)
{
	struct wire_pkt p;
	struct conn *c = read_probed(state, 4, &p);

	peer_read_resp(c, WIRE_OP_READ_RESP_MIDDLE, SQ + 2, MTU, MTU);
	peer_read_resp(c, WIRE_OP_READ_RESP_ONLY, SQ + 3, 2 * MTU, MTU);
	send_cqe(c, 2, QP_WC_BAD_RESP_ERR);
	state_expect(c, QP_ERR);
}

/*
 * A second ACK shows that the round trip is longer than estimated. The ACK timeout of outstanding
 * packets still counts from when they were sent.
 */
REQUIREMENT("REQ-04")
BENCH_TEST(longer_round_trip_does_not_shorten_the_timeout)
{
	struct conn *c = conn_with(state, 14, 0);
	uint32_t i;

	round_trip(c, SQ, 10 * US);
	for (i = 1; i <= 4; i++) {
		client_sends(c, i, 8);
		bench_pass(c->b, TIMEOUT - 1);
		assert_true(pkt_count(c) > 2);
		peer_ack(c, SQ + i);
		send_cqe(c, i, QP_WC_SUCCESS);
		client_sends(c, 10 + i, 8);
		peer_ack(c, SQ + i);
		bench_pass(c->b, TIMEOUT - 1);
		cqe_none(c);
		peer_ack(c, SQ + ++i);
		send_cqe(c, 9 + i, QP_WC_SUCCESS);
		pkt_count(c);
	}
	assert_int_equal(OBS(c, REQ_TIMEOUT), 0);
	assert_true(OBS(c, REQ_PROBE_VAIN) > 0);
}
