/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Slow peers: before a round trip is known no packet is sent twice early, and with probe=off none
 * ever is (QP_PLAIN_LETTER; lib/qp/loss.h; REQ-04, NAK-04).
 */
#include <errno.h>
#include <string.h>
#include "harness.h"
#include "probe.h"

#define SQ            0x001000u
#define RQ            0x555000u
#define MTU           1024u
#define TIMEOUT(code) (4096ull << (code))
#define US            1000u
#define MS            1000000ull

/* A connection whose round trip was never measured. */
static struct conn *
conn_new(void **state, uint32_t timeout, uint32_t retry_cnt)
{
	struct conn *c = conn_with(state, timeout, retry_cnt);

	conn_met(c, false);
	return c;
}

/* As conn_with, with probe=off. */
static struct conn *
conn_letter(void **state, uint32_t timeout, uint32_t retry_cnt)
{
	struct conn *c = conn_with(state, timeout, retry_cnt);

	assert_int_equal(qp_loss_set_plain(&c->b->engine.env, c->qp, QP_PLAIN_LETTER), 0);
	return c;
}

/* A peer that answers after 50 ms sees one frame, whatever ACK timeout is longer than that. */
REQUIREMENT("REQ-04")
BENCH_TEST(slow_peer_sees_one_frame)
{
	uint32_t code, letter, cnt;

	for (code = 14; code <= 20; code += 3) {
		for (letter = 0; letter < 2; letter++) {
			for (cnt = 0; cnt <= 7; cnt += 7) {
				struct conn *c = letter ? conn_letter(state, code, cnt)
							: conn_new(state, code, cnt);

				client_sends(c, 1, 8);
				pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
				bench_pass(c->b, 50 * MS);
				pkt_none(c);
				peer_ack(c, SQ);
				send_cqe(c, 1, QP_WC_SUCCESS);
				pkt_none(c);
			}
		}
	}
}

/* A silent peer sees one frame if retry_cnt is 0, and the QP fails at the end of the timeout. */
REQUIREMENT("REQ-04", "CQE-12")
BENCH_TEST(without_retries_there_is_one_frame)
{
	uint32_t code, letter;

	for (code = 8; code <= 20; code += 4) {
		for (letter = 0; letter < 2; letter++) {
			struct conn *c =
				letter ? conn_letter(state, code, 0) : conn_new(state, code, 0);

			client_sends(c, 1, 8);
			pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
			bench_pass(c->b, TIMEOUT(code) - 1);
			cqe_none(c);
			bench_pass(c->b, 1);
			send_cqe(c, 1, QP_WC_RETRY_EXC_ERR);
			pkt_none(c);
			state_expect(c, QP_ERR);
		}
	}
}

/* Before the first sample the ACK timeout says when to probe. With the sample a few round trips do.
 */
REQUIREMENT("REQ-04")
BENCH_TEST(first_probe_waits_for_a_part_of_the_timeout)
{
	static const struct {
		uint32_t timeout;
		uint64_t wait_ns;
	} v[] = {
		{14, TIMEOUT(14)}, /* 67 ms: no probe */
		{15, 100 * MS},        {17, 100 * MS}, {18, TIMEOUT(18) / 8},
		{20, TIMEOUT(20) / 8}, {0, 100 * MS},
	};
	uint32_t i;

	for (i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		struct conn *c = conn_new(state, v[i].timeout, 7);

		client_sends(c, 1, 8);
		pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
		expect_probe_after(c, v[i].wait_ns, WIRE_OP_SEND_ONLY, SQ);
		peer_ack(c, SQ);
		send_cqe(c, 1, QP_WC_SUCCESS);
		/* Not measured: the response may be to either copy. The second one after it is. */
		round_trip(c, SQ + 1, 10 * US);
		round_trip(c, SQ + 2, 10 * US);
		client_sends(c, 2, 8);
		pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 3);
		expect_probe_after(c, QP_PROBE_MIN_NS, WIRE_OP_SEND_ONLY, SQ + 3);
		peer_ack(c, SQ + 3);
		send_cqe(c, 2, QP_WC_SUCCESS);
	}
}

/* After an ACK timeout the packet is taken for lost: probes follow soon, as if the peer were known.
 */
REQUIREMENT("REQ-04")
BENCH_TEST(expired_timeout_ends_the_patience)
{
	struct conn *c = conn_new(state, 14, 7);
	uint64_t wait;

	client_sends(c, 1, 8);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
	expect_probe_after(c, TIMEOUT(14), WIRE_OP_SEND_ONLY, SQ);
	assert_int_equal(OBS(c, REQ_TIMEOUT), 1);
	for (wait = QP_PROBE_FORGOT_NS; wait <= 32 * MS; wait *= 2)
		expect_probe_after(c, wait, WIRE_OP_SEND_ONLY, SQ);
	assert_int_equal(OBS(c, REQ_TIMEOUT), 1);
	peer_ack(c, SQ);
	send_cqe(c, 1, QP_WC_SUCCESS);
}

/* A known peer is not waited for so long, a peer of another connection is. */
REQUIREMENT("REQ-04")
BENCH_TEST(new_connection_knows_no_peer)
{
	struct conn *c = conn_new(state, 18, 7);

	round_trip(c, SQ, 10 * US);
	assert_int_equal(c->qp->conn.snd.wait_ns, QP_PROBE_MIN_NS);
	qp_loss_forget_rtt(&c->b->engine.env, c->qp);
	assert_int_equal(c->qp->conn.snd.wait_ns, QP_PROBE_FORGOT_NS);
	qp_loss_reset(&c->b->engine.env, c->qp);
	assert_int_equal(c->qp->conn.snd.wait_ns, TIMEOUT(18) / 8);
}

/* With probe=off a packet is sent again when the ACK timeout ends, retry_cnt times: REQ-04 exactly.
 */
REQUIREMENT("REQ-04", "CQE-12")
BENCH_TEST(letter_resends_at_the_timeout_only)
{
	struct conn *c = conn_letter(state, 14, 3);
	uint32_t i, psn = SQ;

	round_trip(c, psn++, 2 * US);
	for (i = 0; i < 10; i++)
		round_trip(c, psn++, 40 * MS);
	client_sends(c, 1, 8);
	pkt_expect(c, WIRE_OP_SEND_ONLY, psn);
	for (i = 0; i < 3; i++)
		expect_probe_after(c, TIMEOUT(14), WIRE_OP_SEND_ONLY, psn);
	assert_int_equal(OBS(c, REQ_TIMEOUT), 3);
	bench_pass(c->b, TIMEOUT(14) - 1);
	cqe_none(c);
	bench_pass(c->b, 1);
	send_cqe(c, 1, QP_WC_RETRY_EXC_ERR);
	pkt_none(c);
	assert_int_equal(OBS(c, REQ_PROBE), 0);
}

/* No ACK timeout, no retransmission. */
REQUIREMENT("REQ-04")
BENCH_TEST(letter_without_a_timeout_waits_for_ever)
{
	struct conn *c = conn_letter(state, 0, 7);

	client_sends(c, 1, 8);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
	bench_pass(c->b, 600 * 1000 * MS);
	pkt_none(c);
	peer_ack(c, SQ);
	send_cqe(c, 1, QP_WC_SUCCESS);
}

/* Later packets do not move the timeout of the first, and progress begins it anew. */
REQUIREMENT("REQ-04")
BENCH_TEST(letter_counts_from_the_last_progress)
{
	struct conn *c = conn_letter(state, 14, 1);

	client_sends(c, 1, 8);
	bench_pass(c->b, 40 * MS);
	client_sends(c, 2, 8);
	assert_int_equal(pkt_count(c), 2);
	peer_ack(c, SQ);
	send_cqe(c, 1, QP_WC_SUCCESS);
	expect_probe_after(c, TIMEOUT(14), WIRE_OP_SEND_ONLY, SQ + 1);
	peer_ack(c, SQ + 1);
	send_cqe(c, 2, QP_WC_SUCCESS);
	assert_int_equal(OBS(c, REQ_TIMEOUT), 1);
}

static bool
always_held_up(void *ctx, const struct qp *qp, uint64_t since_ns)
{
	return true;
}

/* A timeout that is put off because threads did not run resends nothing either. */
REQUIREMENT("REQ-04")
BENCH_TEST(excused_timeout_of_a_patient_qp_resends_nothing)
{
	uint32_t letter;

	for (letter = 0; letter < 2; letter++) {
		struct conn *c = letter ? conn_letter(state, 14, 0) : conn_new(state, 14, 0);
		struct engine_ops ops = *c->b->engine.ops;
		const struct engine_ops *was = c->b->engine.ops;

		ops.held_up = always_held_up;
		c->b->engine.ops = &ops;
		client_sends(c, 1, 8);
		pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
		bench_pass(c->b, QP_TIMEOUTS_MOST * TIMEOUT(14) - 1);
		pkt_none(c);
		cqe_none(c);
		bench_pass(c->b, 1);
		send_cqe(c, 1, QP_WC_RETRY_EXC_ERR);
		pkt_none(c);
		c->b->engine.ops = was;
	}
}

/* A response after an excused timeout is no sample of the time since. */
REQUIREMENT("REQ-04")
BENCH_TEST(excused_timeout_measures_no_round_trip)
{
	struct conn *c = conn_new(state, 14, 0);
	struct engine_ops ops = *c->b->engine.ops;
	const struct engine_ops *was = c->b->engine.ops;

	ops.held_up = always_held_up;
	c->b->engine.ops = &ops;
	client_sends(c, 1, 8);
	bench_pass(c->b, TIMEOUT(14));
	client_sends(c, 2, 8);
	assert_int_equal(pkt_count(c), 2);
	bench_pass(c->b, 10 * US);
	peer_ack(c, SQ);
	assert_int_equal(c->qp->conn.loss.srtt_ns, 0);
	peer_ack(c, SQ + 1);
	send_cqe(c, 1, QP_WC_SUCCESS);
	send_cqe(c, 2, QP_WC_SUCCESS);
	c->b->engine.ops = was;
}

/* One sequence NAK for a gap, also if the packet that opened it comes again. */
REQUIREMENT("NAK-04")
BENCH_TEST(letter_sends_one_nak_for_a_gap)
{
	struct conn *c = conn_letter(state, 14, 3);
	uint32_t i, psn;

	for (psn = RQ; psn < RQ + 4; psn += 2) {
		for (i = 0; i < 5; i++) {
			peer_write(c, WIRE_OP_WRITE_ONLY, psn + 1, REMOTE_VA, 8, 0, 8);
			if (i == 0)
				answer_expect(c, psn, NAK_SYN(PSN_SEQ));
			pkt_none(c);
		}
		peer_write(c, WIRE_OP_WRITE_ONLY, psn, REMOTE_VA, 8, 0, 8);
		ack_expect(c, psn);
		peer_write(c, WIRE_OP_WRITE_ONLY, psn + 1, REMOTE_VA, 8, 0, 8);
		ack_expect(c, psn + 1);
	}
	assert_int_equal(OBS(c, RSP_SEQ_NAK), 2);
}

/* READ data is requested again once per gap; the rest is the timeout's. */
REQUIREMENT("REQ-08")
BENCH_TEST(letter_requests_read_data_once_per_gap)
{
	struct conn *c = conn_letter(state, 14, 7);
	uint32_t pass;

	round_trip(c, SQ, 10 * US);
	post(c, (struct wr){.id = 1, .op = UROCE_WR_RDMA_READ, .flags = SIG, .len = 3 * MTU});
	pkt_expect(c, WIRE_OP_READ_REQ, SQ + 1);
	for (pass = 0; pass < 4; pass++) {
		bench_pass(c->b, 20 * US);
		peer_read_resp(c, WIRE_OP_READ_RESP_MIDDLE, SQ + 2, MTU, MTU);
		if (pass == 0)
			pkt_expect(c, WIRE_OP_READ_REQ, SQ + 1);
		pkt_none(c);
	}
	bench_pass(c->b, TIMEOUT(14));
	pkt_expect(c, WIRE_OP_READ_REQ, SQ + 1);
	pkt_none(c);
	assert_int_equal(OBS(c, REQ_TIMEOUT), 1);
}

/* Switched while a packet is in flight: no probe follows, or the next one is due in time. */
REQUIREMENT("REQ-04")
BENCH_TEST(probes_are_switched_while_packets_are_in_flight)
{
	struct conn *c = conn_with(state, 14, 7);
	struct qp_env *env = &c->b->engine.env;

	round_trip(c, SQ, 10 * US);
	client_sends(c, 1, 8);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 1);
	expect_probe_after(c, QP_PROBE_MIN_NS, WIRE_OP_SEND_ONLY, SQ + 1);
	assert_int_equal(qp_loss_set_plain(env, c->qp, QP_PLAIN_LETTER), 0);
	bench_run(c->b);
	bench_pass(c->b, TIMEOUT(14) - QP_PROBE_MIN_NS - 1);
	pkt_none(c);
	bench_pass(c->b, 1);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 1);
	assert_int_equal(OBS(c, REQ_TIMEOUT), 1);
	peer_ack(c, SQ + 1);
	send_cqe(c, 1, QP_WC_SUCCESS);
	client_sends(c, 2, 8);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 2);
	assert_int_equal(qp_loss_set_plain(env, c->qp, 0), 0);
	bench_run(c->b);
	expect_probe_after(c, QP_PROBE_MIN_NS, WIRE_OP_SEND_ONLY, SQ + 2);
}

/* A peer that agrees late is probed at once as one that has agreed: it is no stranger. */
REQUIREMENT("SR-01", "SR-04")
BENCH_TEST(peer_that_agrees_is_probed_soon)
{
	struct conn *c = conn_sr(state, QP_SR_CAN);

	conn_met(c, false);
	client_sends(c, 1, 8);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
	qp_sr_agree(&c->b->engine.env, c->qp);
	bench_run(c->b);
	assert_int_equal(c->qp->conn.sr.state, QP_SR_ON);
	expect_probe_after(c, QP_PROBE_FORGOT_NS, WIRE_OP_SEND_ONLY, SQ);
	peer_ack(c, SQ);
	send_cqe(c, 1, QP_WC_SUCCESS);
}

/* Selective repeat needs probes: one of the two is refused, or not agreed. */
REQUIREMENT("REQ-04", "SR-01")
BENCH_TEST(letter_and_selective_repeat_exclude_each_other)
{
	struct conn *c = conn_sr(state, QP_SR_ON);
	struct qp_env *env = &c->b->engine.env;

	assert_int_equal(qp_loss_set_plain(env, c->qp, QP_PLAIN_LETTER), -EBUSY);
	assert_int_equal(c->qp->bind.plain, 0);
	assert_int_equal(qp_loss_set_plain(env, c->qp, 0), 0);
	c = conn_sr(state, QP_SR_CAN);
	assert_int_equal(qp_loss_set_plain(env, c->qp, QP_PLAIN_LETTER), 0);
	assert_int_equal(c->qp->conn.sr.state, QP_SR_OFF);
}
