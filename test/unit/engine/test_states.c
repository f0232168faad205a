/* SPDX-License-Identifier: BSD-3-Clause */
/* What each state permits (QP-10 .. QP-21 without SQD, EVT-04). */
#include <errno.h>
#include <string.h>
#include "harness.h"

#define SQ 0x001000u /* first PSNs of conn_rc */
#define RQ 0x555000u

static struct conn_cfg
cfg_in(enum qp_state state)
{
	struct conn_cfg cfg = conn_rc;

	cfg.state = state;
	return cfg;
}

static void
peer_sends(struct conn *c, uint32_t psn)
{
	peer_send(c, WIRE_OP_SEND_ONLY, psn, 0, 16);
}

/* Requests and responses are dropped silently. */
static void
check_deaf(struct conn *c)
{
	uint64_t dropped = DROPS(c, QP_STATE);

	peer_sends(c, RQ);
	peer_sends(c, RQ + 1);
	peer_ack(c, SQ);
	pkt_none(c);
	cqe_none(c);
	event_none(c->b);
	assert_int_equal(DROPS(c, QP_STATE), dropped + 3);
}

REQUIREMENT("QP-10")
BENCH_TEST(qp_in_reset_sends_and_receives_nothing)
{
	struct conn *c = conn_open(*state, cfg_in(QP_RESET));

	check_deaf(c);
	client_sends(c, 1, 16);
	engine_doorbell(&c->b->engine, BENCH_QPN);
	pkt_none(c);
	cqe_none(c);
}

REQUIREMENT("QP-10")
BENCH_TEST(reset_discards_all_work)
{
	struct conn_cfg cfg = cfg_in(QP_RTS);
	struct conn *c = conn_open(*state, cfg);

	client_sends(c, 1, 16);
	recv_post(c, 2, 0, 4096);
	peer_put(c, (struct wire_fields){.opcode = WIRE_OP_SEND_FIRST, .psn = RQ}, 0, 1024);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
	recv_post(c, 3, 0, 64);
	client_sends(c, 4, 16);
	assert_int_equal(conn_to(c, QP_RESET), 0);
	state_expect(c, QP_RESET);
	pkt_none(c);
	cqe_none(c);
	bench_pass(c->b, 10000000000);
	pkt_none(c);
	cqe_none(c);
	assert_int_equal(c->sq.hdr->prod | c->sq.hdr->cons | c->rq.hdr->prod | c->rq.hdr->cons, 0);
}

/* The same QP works again after RESET: rings from 0, new PSNs, no old state. */
REQUIREMENT("QP-10")
BENCH_TEST(reset_qp_works_again)
{
	struct conn_cfg again = conn_rc;
	struct conn *c = conn_open(*state, conn_rc);

	client_sends(c, 1, 16);
	client_sends(c, 2, 16);
	recv_post(c, 7, 0, 64);
	peer_nak(c, SQ, NAK_SYN(REM_OP));
	send_cqe(c, 1, QP_WC_REM_OP_ERR);
	send_cqe(c, 2, QP_WC_WR_FLUSH_ERR);
	recv_cqe(c, 7, QP_WC_WR_FLUSH_ERR);
	pkt_count(c);
	assert_int_equal(conn_to(c, QP_RESET), 0);
	c->sq.prod = c->rq.prod = 0;
	again.sq_psn = 0x42;
	again.rq_psn = 0x99;
	conn_raise(c, &again);
	/* The old contents of the rings are gone. */
	peer_sends(c, 0x99);
	answer_expect(c, 0x99, WIRE_SYN_RNR | 12);
	recv_post(c, 3, 0, 64);
	peer_sends(c, 0x99);
	recv_cqe(c, 3, QP_WC_SUCCESS);
	ack_expect(c, 0x99);
	client_sends(c, 4, 16);
	pkt_expect(c, WIRE_OP_SEND_ONLY, 0x42);
	peer_ack(c, 0x42);
	send_cqe(c, 4, QP_WC_SUCCESS);
}

REQUIREMENT("QP-11")
BENCH_TEST(init_keeps_posted_receives)
{
	struct conn *c = conn_open(*state, cfg_in(QP_INIT));
	struct uroce_qp_attr a = {.qp_state = QP_RTR,
				  .path_mtu = 3,
				  .dest_qp_num = PEER_QPN,
				  .rq_psn = RQ,
				  .ah = {.is_global = 1, .port_num = 1}};

	recv_post(c, 1, 0, 64);
	check_deaf(c);
	client_sends(c, 9, 16);
	engine_doorbell(&c->b->engine, BENCH_QPN);
	pkt_none(c);
	assert_int_equal(conn_modify(c,
				     1 | QP_AV | QP_PATH_MTU | QP_DEST_QPN | QP_RQ_PSN |
					     QP_MAX_DEST_RD_ATOMIC | QP_MIN_RNR_TIMER,
				     &a),
			 0);
	peer_sends(c, RQ);
	recv_cqe(c, 1, QP_WC_SUCCESS);
}

REQUIREMENT("QP-12")
BENCH_TEST(rtr_responds_and_sends_no_requests)
{
	struct conn *c = conn_open(*state, cfg_in(QP_RTR));
	struct wire_pkt p;

	recv_post(c, 1, 0, 64);
	client_sends(c, 9, 16); /* a library refuses this, but a hostile client can do it */
	engine_doorbell(&c->b->engine, BENCH_QPN);
	pkt_none(c);
	peer_sends(c, RQ);
	recv_cqe(c, 1, QP_WC_SUCCESS);
	ack_expect(c, RQ);
	peer_put(c,
		 (struct wire_fields){.opcode = WIRE_OP_READ_REQ,
				      .psn = RQ + 1,
				      .va = REMOTE_VA,
				      .rkey = c->remote->mr.key,
				      .dmalen = 8},
		 0, 0);
	p = pkt_expect(c, WIRE_OP_READ_RESP_ONLY, RQ + 1);
	assert_int_equal(p.payload_len, 8);
	peer_sends(c, RQ + 2);
	answer_expect(c, RQ + 2, WIRE_SYN_RNR | 12);
	/* A response has no business in RTR. */
	peer_ack(c, SQ);
	assert_int_equal(DROPS(c, QP_STATE), 1);
	pkt_none(c);
	state_expect(c, QP_RTR);
}

REQUIREMENT("QP-13", "EVT-04")
BENCH_TEST(comm_est_is_raised_once_in_rtr)
{
	struct conn *c = conn_open(*state, cfg_in(QP_RTR));

	event_none(c->b);
	recv_post(c, 1, 0, 64);
	recv_post(c, 2, 0, 64);
	peer_sends(c, RQ);
	event_expect(c->b, QP_EVENT_COMM_EST);
	assert_ptr_equal(c->b->event[0].qp, c->qp);
	peer_sends(c, RQ + 1);
	event_none(c->b);
}

/* Any operation counts, also a WRITE or READ. */
REQUIREMENT("EVT-04")
BENCH_TEST(any_operation_raises_comm_est)
{
	static const uint8_t ops[] = {WIRE_OP_WRITE_ONLY, WIRE_OP_READ_REQ, WIRE_OP_SEND_ONLY};
	uint32_t i;

	for (i = 0; i < 3; i++) {
		struct conn_cfg cfg = cfg_in(QP_RTR);
		struct conn *c;

		c = conn_open(*state, cfg);
		peer_put(c,
			 (struct wire_fields){.opcode = ops[i],
					      .psn = RQ,
					      .va = REMOTE_VA,
					      .rkey = c->remote->mr.key},
			 0, 0);
		event_expect(c->b, QP_EVENT_COMM_EST);
		event_none(c->b);
	}
}

REQUIREMENT("EVT-04")
BENCH_TEST(comm_est_is_not_raised_in_rts)
{
	struct conn *c = conn_open(*state, cfg_in(QP_RTS));

	recv_post(c, 1, 0, 64);
	peer_sends(c, RQ);
	recv_cqe(c, 1, QP_WC_SUCCESS);
	event_none(c->b);
}

REQUIREMENT("QP-14")
BENCH_TEST(rts_serves_both_queues)
{
	struct conn *c = conn_open(*state, cfg_in(QP_RTS));

	recv_post(c, 1, 0, 64);
	client_sends(c, 2, 16);
	peer_sends(c, RQ);
	recv_cqe(c, 1, QP_WC_SUCCESS);
	pkt_expect(c, WIRE_OP_ACK, RQ);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
	peer_ack(c, SQ);
	send_cqe(c, 2, QP_WC_SUCCESS);
}

REQUIREMENT("QP-19", "CQE-05")
BENCH_TEST(error_flushes_both_queues_in_order)
{
	struct conn *c = conn_open(*state, cfg_in(QP_RTS));
	uint32_t i;

	for (i = 1; i <= 4; i++)
		post(c, (struct wr){.id = i, .op = UROCE_WR_SEND, .len = 16}); /* none signaled */
	for (i = 11; i <= 13; i++)
		recv_post(c, i, 0, 64);
	assert_int_equal(pkt_count(c), 4);
	peer_ack(c, SQ);
	peer_nak(c, SQ + 1, NAK_SYN(REM_ACCESS));
	send_cqe(c, 2, QP_WC_REM_ACCESS_ERR);
	send_cqe(c, 3, QP_WC_WR_FLUSH_ERR);
	send_cqe(c, 4, QP_WC_WR_FLUSH_ERR);
	for (i = 11; i <= 13; i++)
		recv_cqe(c, i, QP_WC_WR_FLUSH_ERR);
	cqe_none(c);
	state_expect(c, QP_ERR);
	check_deaf(c);
	bench_pass(c->b, 10000000000);
	pkt_none(c);
}

REQUIREMENT("QP-19", "CQE-05")
BENCH_TEST(work_posted_in_error_is_flushed_at_once)
{
	struct conn *c = conn_open(*state, cfg_in(QP_RTS));
	uint32_t lap;

	assert_int_equal(conn_to(c, QP_ERR), 0);
	cqe_none(c);
	for (lap = 0; lap < 200; lap++) {
		client_sends(c, 2 * lap, 16);
		send_cqe(c, 2 * lap, QP_WC_WR_FLUSH_ERR);
		recv_post(c, 2 * lap + 1, 0, 8);
		recv_cqe(c, 2 * lap + 1, QP_WC_WR_FLUSH_ERR);
	}
	cqe_none(c);
	pkt_none(c);
	assert_int_equal(conn_to(c, QP_INIT), EINVAL);
	assert_int_equal(conn_to(c, QP_RTS), EINVAL);
	assert_int_equal(conn_to(c, QP_RESET), 0);
}

REQUIREMENT("QP-20", "CQE-12")
BENCH_TEST(rc_goes_to_err_instead_of_sqe)
{
	struct conn_cfg cfg = cfg_in(QP_RTS);
	struct conn *c;

	cfg.retry_cnt = 0;
	c = conn_open(*state, cfg);
	client_sends(c, 1, 16);
	bench_pass(c->b, 100000000);
	send_cqe(c, 1, QP_WC_RETRY_EXC_ERR);
	state_expect(c, QP_ERR);
}

REQUIREMENT("QP-21", "CQE-05")
BENCH_TEST(modify_to_error_flushes)
{
	static const enum qp_state from[] = {QP_RTR, QP_RTS, QP_SQD};
	uint32_t i;

	for (i = 0; i < 3; i++) {
		struct conn_cfg cfg = cfg_in(from[i] == QP_SQD ? QP_RTS : from[i]);
		struct conn *c;

		c = conn_open(*state, cfg);
		recv_post(c, 5, 0, 64);
		if (from[i] != QP_RTR) {
			client_sends(c, 1, 16);
			client_sends(c, 2, 16);
			pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
			pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 1);
		}
		if (from[i] == QP_SQD)
			assert_int_equal(conn_to(c, QP_SQD), 0);
		assert_int_equal(conn_to(c, QP_ERR), 0);
		if (from[i] != QP_RTR) {
			send_cqe(c, 1, QP_WC_WR_FLUSH_ERR);
			send_cqe(c, 2, QP_WC_WR_FLUSH_ERR);
		}
		recv_cqe(c, 5, QP_WC_WR_FLUSH_ERR);
		event_none(c->b);
		check_deaf(c);
	}
}
