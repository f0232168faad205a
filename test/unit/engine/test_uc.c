/* SPDX-License-Identifier: BSD-3-Clause */
/* Unreliable connections (RSP-06, QP-17, QP-18, CQE-14). */
#include <string.h>
#include "harness.h"

#define SQ     0x001000u
#define RQ     0x555000u
#define MTU    1024u
#define UC(op) (WIRE_SVC_UC | WIRE_OP_##op)

static struct conn *
conn_uc(void **state)
{
	struct conn *c = conn_open(*state, CONN(cfg.type = QP_TYPE_UC));

	memset(c->remote->bytes, 0, BENCH_BYTES);
	return c;
}

REQUIREMENT("WIRE-01")
BENCH_TEST(uc_messages_complete_when_sent)
{
	struct conn *c = conn_uc(state);
	struct wire_pkt p;

	client_does(c, 1, UROCE_WR_SEND, 2 * MTU + 5);
	client_does(c, 2, UROCE_WR_RDMA_WRITE_IMM, 5);
	pkt_expect(c, UC(SEND_FIRST), SQ);
	pkt_expect(c, UC(SEND_MIDDLE), SQ + 1);
	p = pkt_expect(c, UC(SEND_LAST), SQ + 2);
	assert_false(p.ackreq);
	assert_memory_equal(p.payload, bench_bytes + 2 * MTU, 5);
	p = pkt_expect(c, UC(WRITE_ONLY_IMM), SQ + 3);
	assert_int_equal(p.dmalen, 5);
	send_cqe(c, 1, QP_WC_SUCCESS);
	send_cqe(c, 2, QP_WC_SUCCESS);
	bench_pass(c->b, 60000000000);
	pkt_none(c); /* nothing is ever retransmitted */
	state_expect(c, QP_RTS);
}

/* Longer than any window of acknowledgements. */
REQUIREMENT("WIRE-05")
BENCH_TEST(uc_long_message_is_cut_at_the_path_mtu)
{
	struct conn *c = conn_uc(state);

	c->qp->conn.mtu = 256;
	client_does(c, 1, UROCE_WR_SEND, 400 * 256);
	assert_int_equal(pkt_count(c), 400);
	send_cqe(c, 1, QP_WC_SUCCESS);
}

REQUIREMENT("CQE-03")
BENCH_TEST(uc_refuses_reads)
{
	static const uint8_t ops[] = {UROCE_WR_RDMA_READ, UROCE_WR_ATOMIC_CMP_SWAP,
				      UROCE_WR_ATOMIC_FETCH_ADD};
	uint32_t i;

	for (i = 0; i < sizeof(ops); i++) {
		struct conn *c = conn_uc(state);

		client_does(c, 1, ops[i], 8);
		pkt_none(c);
		send_cqe(c, 1, QP_WC_LOC_QP_OP_ERR);
		state_expect(c, QP_SQE);
	}
}

REQUIREMENT("RSP-06")
BENCH_TEST(uc_messages_are_delivered_without_an_ack)
{
	struct conn *c = conn_uc(state);

	recv_post(c, 1, 0, 4 * MTU);
	memset(c->local->bytes, 0, BENCH_BYTES);
	peer_send(c, UC(SEND_FIRST), RQ, 0, MTU);
	peer_send(c, UC(SEND_MIDDLE), RQ + 1, MTU, MTU);
	peer_send(c, UC(SEND_LAST), RQ + 2, 2 * MTU, 9);
	peer_write(c, UC(WRITE_FIRST), RQ + 3, REMOTE_VA, MTU + 7, 0, MTU);
	peer_write(c, UC(WRITE_LAST), RQ + 4, 0, 0, MTU, 7);
	assert_int_equal(recv_cqe(c, 1, QP_WC_SUCCESS).byte_len, 2 * MTU + 9);
	assert_memory_equal(c->local->bytes, bench_bytes, 2 * MTU + 9);
	assert_memory_equal(c->remote->bytes, bench_bytes, MTU + 7);
	pkt_none(c);
	cqe_none(c);
}

/* Each packet of a message in turn is lost: nothing of it is delivered, the next message is. */
REQUIREMENT("RSP-06")
BENCH_TEST(lost_packet_drops_the_message)
{
	static const uint8_t ops[] = {UC(SEND_FIRST), UC(SEND_MIDDLE), UC(SEND_MIDDLE),
				      UC(SEND_LAST)};
	static const uint32_t aborted[] = {3, 5, 6, 6};
	uint32_t lost, k;

	for (lost = 0; lost < 4; lost++) {
		struct conn *c = conn_uc(state);

		recv_post(c, 1, 0, 4 * MTU);
		recv_post(c, 2, 4 * MTU, 4 * MTU);
		for (k = 0; k < 4; k++) {
			if (k != lost)
				peer_send(c, ops[k], RQ + k, k * MTU, MTU);
		}
		cqe_none(c);
		/* The receive that it had is the next message's. */
		peer_send(c, UC(SEND_ONLY), RQ + 4, 77, 9);
		assert_int_equal(recv_cqe(c, 1, QP_WC_SUCCESS).byte_len, 9);
		assert_memory_equal(c->local->bytes, bench_bytes + 77, 9);
		peer_send(c, UC(SEND_ONLY), RQ + 5, 77, 9);
		recv_cqe(c, 2, QP_WC_SUCCESS);
		cqe_none(c);
		pkt_none(c);
		event_none(c->b);
		state_expect(c, QP_RTS);
		/* Counted over all rounds. */
		assert_int_equal(OBS(c, RSP_MSG_LOST), lost);
		assert_int_equal(DROPS(c, MSG_ABORTED), aborted[lost]);
	}
}

/* A WRITE without immediate between the broken SEND and the next: it takes nothing from it. */
REQUIREMENT("RSP-06")
BENCH_TEST(write_does_not_take_a_kept_receive)
{
	struct conn *c = conn_uc(state);

	recv_post(c, 1, 0, 4 * MTU);
	peer_send(c, UC(SEND_FIRST), RQ, 0, MTU);
	peer_write(c, UC(WRITE_ONLY), RQ + 7, REMOTE_VA, 8, 0, 8);
	cqe_none(c);
	assert_memory_equal(c->remote->bytes, bench_bytes, 8);
	peer_write(c, UC(WRITE_ONLY_IMM), RQ + 8, REMOTE_VA, 8, 0, 8);
	assert_int_equal(recv_cqe(c, 1, QP_WC_SUCCESS).opcode, UROCE_CQE_RECV_RDMA_WITH_IMM);
}

/* The same with a refused WRITE: it used no receive, so an event reports it. */
REQUIREMENT("NAK-09", "RSP-06")
BENCH_TEST(kept_receive_is_flushed)
{
	struct conn *c = conn_uc(state);

	recv_post(c, 1, 0, 4 * MTU);
	peer_send(c, UC(SEND_FIRST), RQ, 0, MTU);
	peer_write(c, UC(WRITE_ONLY), RQ + 1, REMOTE_VA - 1, 8, 0, 8);
	event_expect(c->b, QP_EVENT_QP_ACCESS_ERR);
	recv_cqe(c, 1, QP_WC_WR_FLUSH_ERR);
	cqe_none(c);
	state_expect(c, QP_ERR);
	pkt_none(c);
}

/* The same with a WRITE whose target cannot be written. */
REQUIREMENT("NAK-08", "RSP-06")
BENCH_TEST(failed_write_does_not_take_a_kept_receive)
{
	struct conn *c = conn_uc(state);

	recv_post(c, 1, 0, 4 * MTU);
	peer_send(c, UC(SEND_FIRST), RQ, 0, MTU);
	region_by_ops(c->remote, 0);
	peer_write(c, UC(WRITE_ONLY), RQ + 1, REMOTE_VA, 8, 0, 8);
	event_expect(c->b, QP_EVENT_QP_FATAL);
	recv_cqe(c, 1, QP_WC_WR_FLUSH_ERR);
	cqe_none(c);
	state_expect(c, QP_ERR);
	pkt_none(c);
}

REQUIREMENT("RSP-06")
BENCH_TEST(uc_send_without_a_receive_is_dropped)
{
	struct conn *c = conn_uc(state);

	peer_send(c, UC(SEND_FIRST), RQ, 0, MTU);
	recv_post(c, 1, 0, 4 * MTU);
	peer_send(c, UC(SEND_LAST), RQ + 1, MTU, 8); /* its beginning is gone */
	cqe_none(c);
	assert_int_equal(DROPS(c, NO_RECV_WQE), 1);
	peer_send(c, UC(SEND_ONLY), RQ + 2, 0, 8);
	recv_cqe(c, 1, QP_WC_SUCCESS);
	pkt_none(c);
	state_expect(c, QP_RTS);
}

REQUIREMENT("CQE-02")
BENCH_TEST(uc_receive_that_is_too_short_fails)
{
	struct conn *c = conn_uc(state);

	recv_post(c, 1, 0, 7);
	recv_post(c, 2, 0, 7);
	peer_send(c, UC(SEND_ONLY), RQ, 0, 8);
	recv_cqe(c, 1, QP_WC_LOC_LEN_ERR);
	recv_cqe(c, 2, QP_WC_WR_FLUSH_ERR);
	state_expect(c, QP_ERR);
	pkt_none(c);
}

REQUIREMENT("QP-17")
BENCH_TEST(send_error_stops_the_send_queue_only)
{
	struct conn *c = conn_uc(state);
	struct uroce_sge bad = {LOCAL_VA, 8, 0xbad};

	recv_post(c, 11, 0, 64);
	post_quiet(c, (struct wr){.id = 1, .op = UROCE_WR_SEND, .flags = SIG, .len = 8});
	post_quiet(c, (struct wr){.id = 2, .op = UROCE_WR_SEND, .sge = &bad, .nsge = 1});
	post_quiet(c, (struct wr){.id = 3, .op = UROCE_WR_SEND, .len = 8});
	ring_doorbell(c);
	pkt_expect(c, UC(SEND_ONLY), SQ);
	send_cqe(c, 1, QP_WC_SUCCESS);
	send_cqe(c, 2, QP_WC_LOC_PROT_ERR);
	send_cqe(c, 3, QP_WC_WR_FLUSH_ERR);
	state_expect(c, QP_SQE);
	assert_int_equal(qp_deadline_earliest(&c->qp->conn), 0); /* and no timer runs */
	client_does(c, 4, UROCE_WR_SEND, 8);
	send_cqe(c, 4, QP_WC_WR_FLUSH_ERR);
	pkt_none(c);
	/* Receives of before and after alike. */
	recv_post(c, 12, 64, 64);
	peer_send(c, UC(SEND_ONLY), RQ, 0, 8);
	peer_send(c, UC(SEND_ONLY), RQ + 1, 0, 8);
	recv_cqe(c, 11, QP_WC_SUCCESS);
	recv_cqe(c, 12, QP_WC_SUCCESS);
	state_expect(c, QP_SQE);
	/* And on again. */
	assert_int_equal(conn_to(c, QP_RTS), 0);
	client_does(c, 5, UROCE_WR_SEND, 8);
	pkt_expect(c, UC(SEND_ONLY), SQ + 1);
	send_cqe(c, 5, QP_WC_SUCCESS);
	pkt_none(c); /* of the receives posted here, and no others */
	cqe_none(c);
}

/* The message was aborted half sent: nothing of it is outstanding when the QP continues. */
REQUIREMENT("QP-17", "QP-15")
BENCH_TEST(uc_resumes_after_half_a_message)
{
	struct uroce_qp_attr a = {.qp_state = QP_SQD, .en_sqd_async_notify = 1};
	struct conn *c = conn_uc(state);

	region_by_ops(c->local, UINT32_MAX);
	c->local->edge = 2 * MTU;
	client_does(c, 1, UROCE_WR_SEND, 4 * MTU);
	pkt_expect(c, UC(SEND_FIRST), SQ);
	pkt_expect(c, UC(SEND_MIDDLE), SQ + 1);
	pkt_none(c);
	send_cqe(c, 1, QP_WC_LOC_PROT_ERR);
	state_expect(c, QP_SQE);
	assert_int_equal(conn_to(c, QP_RTS), 0);
	assert_int_equal(conn_modify(c, QP_STATE | QP_EN_SQD_ASYNC_NOTIFY, &a), 0);
	event_expect(c->b, QP_EVENT_SQ_DRAINED);
	assert_int_equal(conn_to(c, QP_RTS), 0);
	c->local->edge = 0;
	client_does(c, 2, UROCE_WR_SEND, 8);
	pkt_expect(c, UC(SEND_ONLY), SQ + 2);
	send_cqe(c, 2, QP_WC_SUCCESS);
}

REQUIREMENT("QP-18")
BENCH_TEST(receive_error_in_sqe_goes_to_err)
{
	struct conn *c = conn_uc(state);

	client_does(c, 1, UROCE_WR_RDMA_READ, 8);
	send_cqe(c, 1, QP_WC_LOC_QP_OP_ERR);
	state_expect(c, QP_SQE);
	recv_post(c, 2, 0, 4);
	peer_send(c, UC(SEND_ONLY), RQ, 0, 8);
	recv_cqe(c, 2, QP_WC_LOC_LEN_ERR);
	state_expect(c, QP_ERR);
}
