/* SPDX-License-Identifier: BSD-3-Clause */
/* Silence that uses up no retry: an unresolved path and stalled threads (REQ-04, CQE-12). */
#include <string.h>
#include "harness.h"
#include "probe.h"

#define SQ      0x001000u
#define TIMEOUT (4096ull << 14) /* conn_rc's */
#define FIRST   ((uint64_t)QP_PROBE_FORGOT_NS)

/* The next hop is not known: no packet was sent, so no retry is used up. */
REQUIREMENT("REQ-04")
BENCH_TEST(unresolved_path_uses_no_retry)
{
	struct conn *c = conn_with(state, 14, 3);

	c->qp->conn.path_ok = false;
	client_sends(c, 1, 8);
	bench_pass(c->b, 4 * TIMEOUT - 1);
	pkt_none(c);
	cqe_none(c);
	assert_int_equal(OBS(c, REQ_TIMEOUT) + OBS(c, REQ_PROBE), 0);
	assert_int_equal(c->qp->conn.snd.retry_left, 3);
	/* Resolved at the last moment: the timers begin with the packet. */
	qp_path_resolved(&c->b->engine.env, c->qp, c->path.wire.dmac);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
	expect_probe_after(c, FIRST, WIRE_OP_SEND_ONLY, SQ);
	peer_ack(c, SQ);
	send_cqe(c, 1, QP_WC_SUCCESS);
}

/* The QP fails after the time that all retries would have taken. */
REQUIREMENT("REQ-04", "CQE-12")
BENCH_TEST(unresolved_path_ends_in_an_error)
{
	uint32_t cnt;

	for (cnt = 0; cnt <= 7; cnt += 7) {
		struct conn *c = conn_with(state, 14, cnt);

		c->qp->conn.path_ok = false;
		client_sends(c, 1, 8);
		bench_pass(c->b, (cnt + 1) * TIMEOUT - 1);
		cqe_none(c);
		bench_pass(c->b, 1);
		send_cqe(c, 1, QP_WC_RETRY_EXC_ERR);
		pkt_none(c);
	}
}

/* The path is lost while packets are in flight: they stay sent, and the same wait follows. */
REQUIREMENT("REQ-04")
BENCH_TEST(packets_in_flight_when_the_path_is_lost_wait_as_usual)
{
	struct conn *c = conn_with(state, 14, 3);

	client_sends(c, 1, 8);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
	c->qp->conn.path_ok = false;
	bench_pass(c->b, FIRST + 4 * TIMEOUT - 1);
	pkt_none(c);
	cqe_none(c);
	assert_int_equal(c->qp->conn.snd.retry_left, 3);
	bench_pass(c->b, 1);
	send_cqe(c, 1, QP_WC_RETRY_EXC_ERR);
}

/* A late response ends the wait; the next one has all of its time. */
REQUIREMENT("REQ-04")
BENCH_TEST(progress_starts_the_wait_for_the_path_again)
{
	struct conn *c = conn_with(state, 14, 3);

	client_sends(c, 1, 8);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
	c->qp->conn.path_ok = false;
	client_sends(c, 2, 8);
	bench_pass(c->b, FIRST + TIMEOUT);
	peer_ack(c, SQ);
	send_cqe(c, 1, QP_WC_SUCCESS);
	bench_pass(c->b, 4 * TIMEOUT - 1);
	cqe_none(c);
	bench_pass(c->b, 1);
	pkt_none(c);
	send_cqe(c, 2, QP_WC_RETRY_EXC_ERR);
}

/* The worker's verdict on its threads, how often it was requested, and for which time. */
static struct {
	bool now;
	uint32_t asked;
	uint64_t since_ns;
} held;

static bool
on_held_up(void *ctx, const struct qp *qp, uint64_t since_ns)
{
	held.asked++;
	held.since_ns = since_ns;
	return held.now;
}

static struct conn *
conn_held_up(void **state, uint32_t retry_cnt, uint8_t plain)
{
	static struct engine_ops ops;
	struct bench *b = *state;
	struct conn *c = conn_with(state, 14, retry_cnt);

	ops = *b->engine.ops;
	ops.held_up = on_held_up;
	b->engine.ops = &ops;
	b->engine.env.plain = plain;
	qp_loss_reset(&b->engine.env, c->qp);
	conn_met(c, true);
	memset(&held, 0, sizeof(held));
	held.now = true;
	return c;
}

/* Threads that do not run put an ACK timeout off, but not beyond four times its value. */
REQUIREMENT("REQ-04", "CQE-12")
BENCH_TEST(timeout_is_excused_while_a_thread_is_stalled)
{
	static const uint8_t plain[] = {0, QP_PLAIN_REQUESTER};
	uint32_t i, k;

	for (k = 0; k < 2; k++) {
		struct conn *c = conn_held_up(state, 1, plain[k]);
		uint64_t t0 = OBS(c, REQ_TIMEOUT), x0 = OBS(c, REQ_EXCUSED), from = c->b->now;

		client_sends(c, 1, 8);
		for (i = 0; i < 8; i++) {
			bench_pass(c->b, TIMEOUT - 1);
			assert_int_equal(OBS(c, REQ_TIMEOUT), t0 + i / 4);
			assert_int_equal(OBS(c, REQ_EXCUSED), x0 + i - i / 4);
			assert_int_equal(held.asked, i - i / 4);
			cqe_none(c);
			bench_pass(c->b, 1);
			if (i % 4 != 3) /* requested for the timeout that has just passed */
				assert_int_equal(held.since_ns, from + i * TIMEOUT);
		}
		send_cqe(c, 1, QP_WC_RETRY_EXC_ERR);
		assert_int_equal(OBS(c, REQ_TIMEOUT), t0 + 2);
		assert_true(pkt_count(c) > 6);
	}
}

/* When they run again, the retransmitted packet has its full timeout. */
REQUIREMENT("REQ-04")
BENCH_TEST(excused_timeout_restarts)
{
	struct conn *c = conn_held_up(state, 0, 0);

	client_sends(c, 1, 8);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
	bench_pass(c->b, TIMEOUT - 1);
	pkt_count(c);
	bench_pass(c->b, 1);
	assert_true(pkt_expect(c, WIRE_OP_SEND_ONLY, SQ).ackreq);
	held.now = false;
	bench_pass(c->b, TIMEOUT - 1);
	cqe_none(c);
	bench_pass(c->b, 1);
	send_cqe(c, 1, QP_WC_RETRY_EXC_ERR);
	pkt_count(c);
}

/* After progress a timeout may be excused as often as before. */
REQUIREMENT("REQ-04")
BENCH_TEST(progress_resets_excused_timeouts)
{
	struct conn *c = conn_held_up(state, 0, 0);
	uint32_t i;

	for (i = 0; i < 3; i++) {
		client_sends(c, i, 8);
		bench_pass(c->b, 4 * TIMEOUT - 1);
		assert_int_equal(OBS(c, REQ_EXCUSED), 3 * (i + 1));
		assert_true(pkt_count(c) > 4);
		peer_ack(c, SQ + i);
		send_cqe(c, i, QP_WC_SUCCESS);
	}
	state_expect(c, QP_RTS);
}
