/* SPDX-License-Identifier: BSD-3-Clause */
/* SQD: the drain, WQEs that it holds, and leaving it (QP-15, QP-16, EVT-05). */
#include <errno.h>
#include <string.h>
#include "harness.h"

#define SQ 0x001000u /* first PSNs of conn_rc */
#define RQ 0x555000u

static int
to_sqd(struct conn *c, bool notify)
{
	struct uroce_qp_attr a = {.qp_state = QP_SQD, .en_sqd_async_notify = 1};

	return conn_modify(c, QP_STATE | (notify ? QP_EN_SQD_ASYNC_NOTIFY : 0), &a);
}

static uint8_t
sq_draining(struct conn *c)
{
	struct uroce_qp_attr q;

	bench_run(c->b);
	qp_query(c->qp, &q);
	return q.sq_draining;
}

REQUIREMENT("QP-15")
BENCH_TEST(sqd_finishes_started_messages_and_holds_new_ones)
{
	struct conn *c = conn_open(*state, conn_rc);

	client_sends(c, 1, 16);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
	assert_int_equal(to_sqd(c, true), 0);
	client_sends(c, 2, 16); /* legal, and held */
	pkt_none(c);
	assert_int_equal(sq_draining(c), 1);
	event_none(c->b);
	/* Retries continue. */
	bench_pass(c->b, 70000000);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
	pkt_none(c);
	peer_ack(c, SQ);
	send_cqe(c, 1, QP_WC_SUCCESS);
	event_expect(c->b, QP_EVENT_SQ_DRAINED);
	event_none(c->b);
	assert_int_equal(sq_draining(c), 0);
	bench_pass(c->b, 1000000000);
	pkt_none(c);
	cqe_none(c);
	/* The responder half works on. */
	recv_post(c, 3, 0, 64);
	peer_send(c, WIRE_OP_SEND_ONLY, RQ, 0, 16);
	recv_cqe(c, 3, QP_WC_SUCCESS);
	ack_expect(c, RQ);
}

/* A message longer than the window may be fully acknowledged so far and still unfinished. */
REQUIREMENT("QP-15")
BENCH_TEST(drain_waits_for_the_end_of_a_message)
{
	uint32_t n, sent;
	struct conn *c = conn_open(*state, CONN(cfg.mtu_code = 1));

	post(c, (struct wr){.id = 1, .op = UROCE_WR_RDMA_WRITE, .flags = SIG, .len = 300 * 256});
	sent = pkt_count(c);
	assert_true(sent < 300);
	assert_int_equal(to_sqd(c, true), 0);
	client_sends(c, 2, 16);
	for (n = 0; sent < 300; n++) {
		peer_ack(c, SQ + sent - 1);
		if (sent < 300)
			event_none(c->b);
		assert_int_equal(sq_draining(c), 1);
		sent += pkt_count(c);
		assert_true(n < 300);
	}
	assert_int_equal(sent, 300);
	peer_ack(c, SQ + 299);
	send_cqe(c, 1, QP_WC_SUCCESS);
	event_expect(c->b, QP_EVENT_SQ_DRAINED);
	pkt_none(c);
}

REQUIREMENT("EVT-05")
BENCH_TEST(sq_drained_event_comes_only_if_requested)
{
	struct conn *c = conn_open(*state, conn_rc);

	assert_int_equal(to_sqd(c, true), 0);
	event_expect(c->b, QP_EVENT_SQ_DRAINED); /* nothing outstanding: at once */
	assert_int_equal(conn_to(c, QP_RTS), 0);
	assert_int_equal(to_sqd(c, false), 0);
	event_none(c->b);
	assert_int_equal(sq_draining(c), 0);
}

REQUIREMENT("QP-16")
BENCH_TEST(sqd_cannot_be_left_before_the_drain_ends)
{
	struct conn *c = conn_open(*state, conn_rc);

	client_sends(c, 1, 16);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
	assert_int_equal(to_sqd(c, false), 0);
	bench_run(c->b);
	assert_int_equal(conn_to(c, QP_RTS), EINVAL);
	assert_int_equal(conn_to(c, QP_SQD), EINVAL);
	state_expect(c, QP_SQD);
	client_sends(c, 2, 16);
	client_sends(c, 3, 16);
	peer_ack(c, SQ);
	send_cqe(c, 1, QP_WC_SUCCESS);
	pkt_none(c);
	assert_int_equal(conn_to(c, QP_SQD), 0);
	assert_int_equal(conn_to(c, QP_RTS), 0);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 1);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 2);
	pkt_none(c);
	peer_ack(c, SQ + 2);
	send_cqe(c, 2, QP_WC_SUCCESS);
	send_cqe(c, 3, QP_WC_SUCCESS);
}

/* Counters that SQD>RTS sets hold from there on. */
REQUIREMENT("QP-16")
BENCH_TEST(new_retry_counts_hold_after_resume)
{
	struct conn_cfg cfg = conn_rc;
	struct uroce_qp_attr a = {.qp_state = QP_RTS, .rnr_retry = 1, .retry_cnt = 1};
	struct conn *c;

	cfg.rnr_retry = cfg.retry_cnt = 0;
	c = conn_open(*state, cfg);
	assert_int_equal(to_sqd(c, false), 0);
	bench_run(c->b);
	assert_int_equal(conn_modify(c, QP_STATE | QP_RNR_RETRY | QP_RETRY_CNT, &a), 0);
	client_sends(c, 1, 16);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
	peer_nak(c, SQ, WIRE_SYN_RNR | 1);
	bench_pass(c->b, 10000);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
	peer_nak(c, SQ, NAK_SYN(PSN_SEQ));
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
	peer_nak(c, SQ, WIRE_SYN_RNR | 1);
	send_cqe(c, 1, QP_WC_RNR_RETRY_EXC_ERR);
}

/* Taken from the SQ and held back by a fence: it has not started, and does not now. */
REQUIREMENT("QP-15")
BENCH_TEST(wqe_held_by_a_fence_waits_in_sqd)
{
	struct conn *c = conn_open(*state, conn_rc);

	post(c, (struct wr){.id = 1, .op = UROCE_WR_RDMA_READ, .flags = SIG, .len = 8});
	post(c,
	     (struct wr){.id = 2, .op = UROCE_WR_SEND, .flags = SIG | UROCE_WQE_FENCE, .len = 8});
	pkt_expect(c, WIRE_OP_READ_REQ, SQ);
	assert_int_equal(to_sqd(c, true), 0);
	peer_read_resp(c, WIRE_OP_READ_RESP_ONLY, SQ, 0, 8);
	send_cqe(c, 1, QP_WC_SUCCESS);
	event_expect(c->b, QP_EVENT_SQ_DRAINED);
	pkt_none(c);
	assert_int_equal(conn_to(c, QP_RTS), 0);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + 1);
	peer_ack(c, SQ + 1);
	send_cqe(c, 2, QP_WC_SUCCESS);
}

/* A WQE that is bad starts as little as a good one. */
REQUIREMENT("QP-15")
BENCH_TEST(bad_wqe_waits_in_sqd)
{
	struct conn *c = conn_open(*state, conn_rc);

	client_sends(c, 1, 16);
	post(c, (struct wr){.id = 2, .op = 0x55, .flags = SIG});
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
	assert_int_equal(to_sqd(c, true), 0);
	peer_ack(c, SQ);
	send_cqe(c, 1, QP_WC_SUCCESS);
	event_expect(c->b, QP_EVENT_SQ_DRAINED);
	cqe_none(c);
	state_expect(c, QP_SQD);
	assert_int_equal(conn_to(c, QP_RTS), 0);
	send_cqe(c, 2, QP_WC_LOC_QP_OP_ERR);
	state_expect(c, QP_ERR);
}

/* An error ends the drain without an SQ_DRAINED event. */
REQUIREMENT("QP-15", "QP-19")
BENCH_TEST(error_ends_the_drain)
{
	struct conn *c = conn_open(*state, conn_rc);

	client_sends(c, 1, 16);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
	assert_int_equal(to_sqd(c, true), 0);
	assert_int_equal(sq_draining(c), 1);
	assert_int_equal(conn_to(c, QP_ERR), 0);
	send_cqe(c, 1, QP_WC_WR_FLUSH_ERR);
	assert_int_equal(sq_draining(c), 0);
	event_none(c->b);
}

/* Nothing is outstanding: an unknown next hop does not delay the SQ_DRAINED event. */
BENCH_TEST(drain_ends_without_a_next_hop)
{
	struct conn *c = conn_open(*state, conn_rc);
	uint8_t mac[6] = {2, 9, 9, 9, 9, 9};

	c->qp->conn.path_ok = false;
	assert_int_equal(to_sqd(c, true), 0);
	client_sends(c, 1, 16);
	bench_run(c->b);
	event_expect(c->b, QP_EVENT_SQ_DRAINED);
	assert_int_equal(sq_draining(c), 0);
	pkt_none(c);
	memcpy(c->path.wire.dmac, mac, 6);
	qp_path_resolved(&c->b->engine.env, c->qp, mac);
	pkt_none(c);
	assert_int_equal(conn_to(c, QP_RTS), 0);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
}
