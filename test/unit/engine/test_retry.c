/* SPDX-License-Identifier: BSD-3-Clause */
/* Time and counters: ACK timeout, sequence NAK, RNR (REQ-04 .. REQ-06, CQE-12, CQE-13, NAK-11). */
#include <string.h>
#include "harness.h"
#include "wire/psn.h"

#define SQ      0x001000u
#define TIMEOUT (4096ull << 14) /* conn_rc's */

static struct conn *
conn_with(void **state, uint32_t timeout, uint32_t retry_cnt, uint32_t rnr_retry)
{
	return conn_open(*state, CONN(cfg.timeout = timeout, cfg.retry_cnt = retry_cnt,
				      cfg.rnr_retry = rnr_retry));
}

/* Nothing until a nanosecond before, something then. */
static void
expect_resend_after(struct conn *c, uint64_t ns, uint32_t psn)
{
	bench_pass(c->b, ns - 1);
	pkt_none(c);
	bench_pass(c->b, 1);
	pkt_expect(c, WIRE_OP_SEND_ONLY, psn);
	pkt_none(c);
}

REQUIREMENT("REQ-04")
BENCH_TEST(timeout_is_4096ns_times_2_to_the_code)
{
	uint32_t code;

	for (code = 1; code <= 31; code += 6) {
		struct conn *c = conn_with(state, code, 7, 7);
		uint64_t t = 4096ull << code;

		client_sends(c, 1, 8);
		pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
		expect_resend_after(c, t, SQ);
		expect_resend_after(c, t, SQ);
		assert_int_equal(conn_to(c, QP_RESET), 0);
	}
}

REQUIREMENT("REQ-04")
BENCH_TEST(timeout_0_waits_forever)
{
	struct conn *c = conn_with(state, 0, 0, 0);

	client_sends(c, 1, 8);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
	bench_pass(c->b, 3600ull * 1000000000);
	pkt_none(c);
	cqe_none(c);
	state_expect(c, QP_RTS);
	peer_ack(c, SQ);
	send_cqe(c, 1, QP_WC_SUCCESS);
}

REQUIREMENT("REQ-04")
BENCH_TEST(timeout_retransmits_from_the_oldest_unacknowledged)
{
	struct conn *c = conn_with(state, 14, 3, 3);
	struct wire_pkt p;

	client_sends(c, 1, 8);
	client_sends(c, 2, 3000);
	client_sends(c, 3, 8);
	assert_int_equal(pkt_count(c), 5);
	peer_ack(c, SQ + 1); /* the first message, and a third of the second */
	send_cqe(c, 1, QP_WC_SUCCESS);
	bench_pass(c->b, TIMEOUT);
	p = pkt_expect(c, WIRE_OP_SEND_MIDDLE, SQ + 2);
	assert_memory_equal(p.payload, bench_bytes + 1024, 1024);
	assert_true(p.ackreq);
	pkt_none(c);
	peer_ack(c, SQ + 2);
	p = pkt_expect(c, WIRE_OP_SEND_LAST, SQ + 3);
	assert_memory_equal(p.payload, bench_bytes + 2048, 3000 - 2048);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 4);
	pkt_none(c);
	assert_int_equal(OBS(c, REQ_TIMEOUT), 1);
	assert_int_equal(OBS(c, REQ_RETRANS), 3);
}

REQUIREMENT("REQ-04")
BENCH_TEST(wqe_fails_after_retry_cnt_timeouts)
{
	uint32_t cnt, i;

	for (cnt = 0; cnt <= 7; cnt += cnt == 3 ? 4 : 1) {
		struct conn *c = conn_with(state, 14, cnt, 7);

		client_sends(c, 1, 8);
		client_sends(c, 2, 8);
		assert_int_equal(pkt_count(c), 2);
		for (i = 0; i < cnt; i++) {
			bench_pass(c->b, TIMEOUT);
			cqe_none(c);
			assert_int_equal(pkt_count(c), 1);
		}
		bench_pass(c->b, TIMEOUT - 1);
		cqe_none(c);
		bench_pass(c->b, 1);
		pkt_none(c);
		send_cqe(c, 1, QP_WC_RETRY_EXC_ERR);
		send_cqe(c, 2, QP_WC_WR_FLUSH_ERR);
		state_expect(c, QP_ERR);
	}
}

REQUIREMENT("CQE-12", "REQ-04")
BENCH_TEST(retry_exceeded_takes_retry_cnt_retransmissions)
{
	struct conn *c = conn_with(state, 14, 7, 7);

	client_sends(c, 1, 8);
	bench_pass(c->b, 100 * TIMEOUT);
	assert_int_equal(pkt_count(c), 1 + 7);
	send_cqe(c, 1, QP_WC_RETRY_EXC_ERR);
	assert_int_equal(OBS(c, REQ_RETRY_EXC), 1);
}

/* Progress of a single packet is progress: the counter and the timer start anew. */
REQUIREMENT("REQ-04")
BENCH_TEST(progress_reloads_the_retry_counters)
{
	struct conn *c = conn_with(state, 14, 1, 7);
	uint32_t i;

	client_sends(c, 1, 20 * 1024);
	assert_int_equal(pkt_count(c), 20);
	for (i = 0; i < 10; i += 2) {
		bench_pass(c->b, TIMEOUT); /* the one retry there is */
		assert_int_equal(pkt_count(c), 1);
		bench_pass(c->b, TIMEOUT - 1);
		peer_ack(c, SQ + i);
		assert_int_equal(pkt_count(c), 2);
		bench_pass(c->b, TIMEOUT - 1);
		pkt_none(c); /* the timer was set back */
		bench_pass(c->b, 1);
		assert_int_equal(pkt_count(c), 1);
		peer_ack(c, SQ + i - 1); /* stale: no progress, no reload */
		bench_pass(c->b, TIMEOUT - 1);
		cqe_none(c);
		state_expect(c, QP_RTS);
		peer_ack(c, SQ + i + 1);
		assert_int_equal(pkt_count(c), 2);
	}
	bench_pass(c->b, TIMEOUT);
	assert_int_equal(pkt_count(c), 1);
	peer_ack(c, SQ + i - 1);
	bench_pass(c->b, TIMEOUT);
	send_cqe(c, 1, QP_WC_RETRY_EXC_ERR);
}

/* One packet, then twice as many with each ACK; the last of each group requests it. */
REQUIREMENT("REQ-04")
BENCH_TEST(the_window_opens_again_after_a_timeout)
{
	struct conn *c = conn_with(state, 14, 7, 7);
	uint32_t at = 0, n, k;
	struct wire_pkt p;

	client_sends(c, 1, 40 * 1024);
	assert_int_equal(pkt_count(c), 40);
	bench_pass(c->b, TIMEOUT);
	for (n = 1; at < 40; n *= 2) {
		for (k = 0; k < n && at < 40; k++, at++) {
			assert_true(pkt_poll(c, &p));
			assert_int_equal(p.psn, SQ + at);
			assert_int_equal(p.ackreq, k + 1 == n || at == 39);
		}
		pkt_none(c);
		peer_ack(c, SQ + at - 1);
	}
	send_cqe(c, 1, QP_WC_SUCCESS);
}

/* A closed window permits one READ. */
REQUIREMENT("REQ-04")
BENCH_TEST(timeout_requests_one_read_again)
{
	struct conn *c = conn_with(state, 14, 7, 7);

	post(c, (struct wr){.id = 1, .op = UROCE_WR_RDMA_READ, .flags = SIG, .len = 8});
	post(c, (struct wr){.id = 2, .op = UROCE_WR_RDMA_READ, .flags = SIG, .len = 8});
	assert_int_equal(pkt_count(c), 2);
	bench_pass(c->b, TIMEOUT);
	pkt_expect(c, WIRE_OP_READ_REQ, SQ);
	pkt_none(c);
	peer_read_resp(c, WIRE_OP_READ_RESP_ONLY, SQ, 0, 8);
	send_cqe(c, 1, QP_WC_SUCCESS);
	pkt_expect(c, WIRE_OP_READ_REQ, SQ + 1);
	peer_read_resp(c, WIRE_OP_READ_RESP_ONLY, SQ + 1, 0, 8);
	send_cqe(c, 2, QP_WC_SUCCESS);
}

REQUIREMENT("REQ-04")
BENCH_TEST(no_timer_runs_when_all_is_acknowledged)
{
	struct conn *c = conn_with(state, 14, 0, 0);

	client_sends(c, 1, 8);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
	peer_ack(c, SQ);
	send_cqe(c, 1, QP_WC_SUCCESS);
	bench_pass(c->b, 100 * TIMEOUT);
	pkt_none(c);
	state_expect(c, QP_RTS);
	/* A later request has all of its time. */
	client_sends(c, 2, 8);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 1);
	bench_pass(c->b, TIMEOUT - 1);
	state_expect(c, QP_RTS);
}

/* The next hop does not respond: the requests are never sent, and fail in the end. */
REQUIREMENT("REQ-04")
BENCH_TEST(unknown_next_hop_runs_out_of_retries)
{
	struct conn_cfg cfg = conn_rc;
	struct conn *c;

	cfg.state = QP_RESET;
	c = conn_open(*state, cfg);
	c->path.path_ok = false;
	cfg.state = QP_RTS;
	conn_raise(c, &cfg);
	client_sends(c, 1, 8);
	bench_pass(c->b, TIMEOUT + 1);
	pkt_none(c);
	cqe_none(c);
	qp_path_resolved(&c->b->engine.env, c->qp, c->path.wire.dmac);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
	peer_ack(c, SQ);
	send_cqe(c, 1, QP_WC_SUCCESS);
	c->qp->conn.path_ok = false;
	client_sends(c, 2, 8);
	bench_pass(c->b, 20 * TIMEOUT);
	pkt_none(c);
	send_cqe(c, 2, QP_WC_RETRY_EXC_ERR);
}

REQUIREMENT("REQ-05")
BENCH_TEST(sequence_nak_rewinds_and_uses_a_retry)
{
	struct conn *c = conn_with(state, 14, 2, 7);
	uint32_t i;

	for (i = 0; i < 6; i++)
		client_sends(c, i, 8);
	assert_int_equal(pkt_count(c), 6);
	peer_nak(c, SQ + 2, NAK_SYN(PSN_SEQ)); /* acknowledges 0 and 1 */
	send_cqe(c, 0, QP_WC_SUCCESS);
	send_cqe(c, 1, QP_WC_SUCCESS);
	for (i = 2; i < 6; i++)
		pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + i);
	pkt_none(c); /* at once: no timer involved */
	peer_nak(c, SQ + 2, NAK_SYN(PSN_SEQ));
	assert_int_equal(pkt_count(c), 4);
	cqe_none(c);
	/* Two retries are used without progress. */
	peer_nak(c, SQ + 2, NAK_SYN(PSN_SEQ));
	send_cqe(c, 2, QP_WC_RETRY_EXC_ERR);
	for (i = 3; i < 6; i++)
		send_cqe(c, i, QP_WC_WR_FLUSH_ERR);
	assert_int_equal(OBS(c, REQ_SEQ_NAK), 3);
}

REQUIREMENT("REQ-05")
BENCH_TEST(sequence_naks_with_progress_never_end)
{
	struct conn *c = conn_with(state, 14, 1, 7);
	uint32_t i;

	client_sends(c, 1, 50 * 1024);
	assert_int_equal(pkt_count(c), 50);
	for (i = 1; i < 50; i++) {
		peer_nak(c, SQ + i, NAK_SYN(PSN_SEQ));
		assert_int_equal(pkt_count(c), 50 - i);
	}
	peer_ack(c, SQ + 49);
	send_cqe(c, 1, QP_WC_SUCCESS);
}

/* NAK-11's table, in hundredths of a millisecond. */
REQUIREMENT("NAK-11", "REQ-06")
BENCH_TEST(rnr_wait_at_least_the_named_time)
{
	static const uint32_t table[32] = {65536, 1,    2,    3,     4,     6,     8,     12,
					   16,    24,   32,   48,    64,    96,    128,   192,
					   256,   384,  512,  768,   1024,  1536,  2048,  3072,
					   4096,  6144, 8192, 12288, 16384, 24576, 32768, 49152};
	struct conn *c = conn_with(state, 14, 0, 7);
	uint32_t code, psn = SQ;

	for (code = 0; code < 32; code++) {
		uint64_t ns = table[code] * 10000ull;

		client_sends(c, code, 8);
		pkt_expect(c, WIRE_OP_SEND_ONLY, psn);
		peer_nak(c, psn, WIRE_SYN_RNR | code);
		expect_resend_after(c, ns, psn);
		peer_ack(c, psn++);
		send_cqe(c, code, QP_WC_SUCCESS);
	}
}

REQUIREMENT("REQ-06")
BENCH_TEST(nothing_is_sent_during_the_rnr_wait)
{
	struct conn *c = conn_with(state, 1, 0, 1); /* an ACK timeout of 8 us must not matter */

	client_sends(c, 1, 8);
	client_sends(c, 2, 8);
	assert_int_equal(pkt_count(c), 2);
	peer_nak(c, SQ, WIRE_SYN_RNR | 20); /* 10.24 ms */
	client_sends(c, 3, 8);
	/* Responses to the later requests bring nothing new. */
	peer_nak(c, SQ, NAK_SYN(PSN_SEQ));
	peer_nak(c, SQ, WIRE_SYN_RNR | 1);
	bench_pass(c->b, 10239999);
	pkt_none(c);
	cqe_none(c);
	bench_pass(c->b, 1);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
	pkt_none(c);
	peer_ack(c, SQ);
	send_cqe(c, 1, QP_WC_SUCCESS);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 1);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 2);
	peer_ack(c, SQ + 2);
	send_cqe(c, 2, QP_WC_SUCCESS);
	send_cqe(c, 3, QP_WC_SUCCESS);
}

/* However much is posted, a peer without receives gets one packet for each wait. */
REQUIREMENT("REQ-06")
BENCH_TEST(rnr_wait_ends_with_one_packet)
{
	struct conn *c = conn_with(state, 14, 0, 7);
	struct wire_pkt p;
	uint32_t i, n;

	for (i = 0; i < 16; i++)
		client_sends(c, i, 3000);
	assert_int_equal(pkt_count(c), 48);
	for (i = 0; i < 50; i++) {
		peer_nak(c, SQ, WIRE_SYN_RNR | 1);
		bench_pass(c->b, 20000);
		p = pkt_expect(c, WIRE_OP_SEND_FIRST, SQ);
		assert_true(p.ackreq);
		pkt_none(c);
	}
	peer_ack(c, SQ);
	for (i = 1, n = 2; i + n <= 48; i += n, n *= 2) {
		assert_int_equal(pkt_count(c), n);
		peer_ack(c, SQ + i + n - 1);
	}
	assert_int_equal(pkt_count(c), 48 - i);
	peer_ack(c, SQ + 47);
	for (i = 0; i < 16; i++)
		send_cqe(c, i, QP_WC_SUCCESS);
}

REQUIREMENT("REQ-06", "CQE-13")
BENCH_TEST(wqe_fails_after_rnr_retry_naks)
{
	uint32_t cnt, i;

	for (cnt = 0; cnt <= 6; cnt += 2) {
		struct conn *c = conn_with(state, 14, 7, cnt);

		client_sends(c, 1, 8);
		client_sends(c, 2, 8);
		assert_int_equal(pkt_count(c), 2);
		for (i = 0; i < cnt; i++) {
			peer_nak(c, SQ, WIRE_SYN_RNR | 1);
			cqe_none(c);
			bench_pass(c->b, 20000);
			assert_int_equal(pkt_count(c), 1);
		}
		peer_nak(c, SQ, WIRE_SYN_RNR | 1);
		send_cqe(c, 1, QP_WC_RNR_RETRY_EXC_ERR);
		send_cqe(c, 2, QP_WC_WR_FLUSH_ERR);
		state_expect(c, QP_ERR);
	}
}

REQUIREMENT("REQ-06")
BENCH_TEST(rnr_retry_7_retries_forever)
{
	struct conn *c = conn_with(state, 14, 0, 7);
	uint32_t i;

	client_sends(c, 1, 8);
	for (i = 0; i < 100; i++) {
		pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
		peer_nak(c, SQ, WIRE_SYN_RNR | 1);
		bench_pass(c->b, 20000);
	}
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
	peer_ack(c, SQ);
	send_cqe(c, 1, QP_WC_SUCCESS);
}

/* rxe NAKs each packet after the one that met RNR; these NAKs may arrive after the wait. */
REQUIREMENT("REQ-06")
BENCH_TEST(late_sequence_naks_after_rnr_use_up_no_retries)
{
	struct conn *c = conn_with(state, 14, 2, 7);
	uint32_t i;

	client_sends(c, 1, 8);
	client_sends(c, 2, 8);
	for (i = 0; i < 20; i++) {
		assert_int_equal(pkt_count(c), i == 0 ? 2 : 1);
		peer_nak(c, SQ, WIRE_SYN_RNR | 1);
		bench_pass(c->b, 20000);
		pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
		pkt_none(c);
		peer_nak(c, SQ, NAK_SYN(PSN_SEQ));
		cqe_none(c);
	}
	assert_int_equal(pkt_count(c), 1);
	peer_ack(c, SQ);
	send_cqe(c, 1, QP_WC_SUCCESS);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 1);
	peer_ack(c, SQ + 1);
	send_cqe(c, 2, QP_WC_SUCCESS);
}

REQUIREMENT("REQ-06")
BENCH_TEST(response_reloads_the_rnr_counter)
{
	struct conn *c = conn_with(state, 14, 0, 1);
	uint32_t i;

	for (i = 0; i < 5; i++) {
		client_sends(c, i, 8);
		pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + i);
		peer_nak(c, SQ + i, WIRE_SYN_RNR | 1);
		bench_pass(c->b, 20000);
		pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + i);
		peer_ack(c, SQ + i);
		send_cqe(c, i, QP_WC_SUCCESS);
	}
}

/* An RNR NAK acknowledges earlier requests and does not change the timeout's counter. */
REQUIREMENT("REQ-06")
BENCH_TEST(rnr_nak_acknowledges_and_has_its_own_counter)
{
	struct conn *c = conn_with(state, 14, 0, 2);

	client_sends(c, 1, 8);
	client_sends(c, 2, 8);
	assert_int_equal(pkt_count(c), 2);
	peer_nak(c, SQ + 1, WIRE_SYN_RNR | 1);
	send_cqe(c, 1, QP_WC_SUCCESS);
	bench_pass(c->b, 20000);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 1);
	pkt_none(c);
	peer_nak(c, SQ + 1, WIRE_SYN_RNR | 1);
	bench_pass(c->b, 20000);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 1);
	bench_pass(c->b, 4 * TIMEOUT);
	send_cqe(c, 2, QP_WC_RETRY_EXC_ERR);
}

/* The error state ends an RNR wait: `urocectl show qp` must not report it any more. */
REQUIREMENT("QP-19", "REQ-06")
BENCH_TEST(error_state_ends_the_rnr_wait)
{
	struct conn *c = conn_with(state, 14, 0, 7);

	client_sends(c, 1, 8);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
	peer_nak(c, SQ, WIRE_SYN_RNR | 20);
	pkt_none(c);
	assert_true(qp_deadline_is_set(&c->qp->conn, QP_DEADLINE_RNR));
	assert_int_equal(conn_to(c, QP_ERR), 0);
	send_cqe(c, 1, QP_WC_WR_FLUSH_ERR);
	assert_false(qp_deadline_is_set(&c->qp->conn, QP_DEADLINE_RNR));
	assert_int_equal(qp_deadline_earliest(&c->qp->conn), 0);
}
