/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Malformed packets (reserved opcode, wrong pad, unexpected payload): when the responder answers
 * them by NAK-07 and when not, and how the requester treats malformed responses.
 */
#include <string.h>
#include "bend.h"

#define SQ     0x001000u
#define RQ     0x555000u
#define MTU    1024u
#define UC(op) (WIRE_SVC_UC | WIRE_OP_##op)

static struct conn *
conn_with(void **state, enum qp_type type, enum qp_state to)
{
	struct conn *c =
		conn_open(*state, CONN(cfg.type = type, cfg.qkey = 0x11111111, cfg.state = to));

	memset(c->local->bytes, 0, BENCH_BYTES);
	return c;
}

/* Two malformed requests in a burst, followed by others: one NAK. */
REQUIREMENT("NAK-07")
BENCH_TEST(malformed_request_gets_one_nak)
{
	struct conn *c = conn_with(state, QP_TYPE_RC, QP_RTS);

	recv_post(c, 1, 0, MTU);
	bend_put_reserved(c, 0x1f, RQ);
	bend_put_reserved(c, 0x1f, RQ);
	peer_send(c, WIRE_OP_SEND_ONLY, RQ, 0, 8);
	bend_put_reserved(c, 0x1e, RQ + 1);
	answer_expect(c, RQ, NAK_SYN(INV_REQ));
	bend_put_reserved(c, 0x1f, RQ); /* retransmitted to a QP in error */
	pkt_none(c);
	event_expect(c->b, QP_EVENT_QP_REQ_ERR);
	event_none(c->b);
	recv_cqe(c, 1, QP_WC_WR_FLUSH_ERR);
	assert_int_equal(OBS(c, RSP_FATAL_NAK), 1);
	/* Each dropped under one reason. */
	assert_int_equal(DROPS(c, BAD_OPCODE), 3);
	assert_int_equal(DROPS(c, QP_STATE), 2);
	assert_int_equal(all_drops(c), 5);
}

/* NAK-02: earlier requests are executed and answered first. */
REQUIREMENT("NAK-07", "NAK-02")
BENCH_TEST(requests_before_a_malformed_one_are_answered_first)
{
	struct conn *c = conn_with(state, QP_TYPE_RC, QP_RTS);

	recv_post(c, 1, 0, MTU);
	peer_read(c, RQ, REMOTE_VA, 8);
	peer_send(c, WIRE_OP_SEND_ONLY, RQ + 1, 0, 8);
	bend_put_reserved(c, 0x1f, RQ + 2);
	pkt_expect(c, WIRE_OP_READ_RESP_ONLY, RQ);
	answer_expect(c, RQ + 2, NAK_SYN(INV_REQ));
	recv_cqe(c, 1, QP_WC_SUCCESS);
	event_expect(c->b, QP_EVENT_QP_REQ_ERR);
	state_expect(c, QP_ERR);
}

/*
 * Ahead of the ePSN it draws one sequence NAK per gap, like any request; at the ePSN it is refused.
 */
REQUIREMENT("NAK-07", "NAK-05")
BENCH_TEST(malformed_request_ahead_of_the_epsn_is_a_sequence_error)
{
	struct conn *c = conn_with(state, QP_TYPE_RC, QP_RTS);

	recv_post(c, 1, 0, MTU);
	bend_put_reserved(c, 0x1f, RQ + 1);
	answer_expect(c, RQ, NAK_SYN(PSN_SEQ));
	bend_put_reserved(c, 0x1f, RQ + 1);
	peer_send(c, WIRE_OP_SEND_ONLY, RQ + 2, 0, 8);
	pkt_none(c);
	state_expect(c, QP_RTS);
	event_none(c->b);
	assert_int_equal(DROPS(c, BAD_OPCODE), 2);
	assert_int_equal(all_drops(c), 3);
	peer_send(c, WIRE_OP_SEND_ONLY, RQ, 0, 8);
	ack_expect(c, RQ);
	recv_cqe(c, 1, QP_WC_SUCCESS);
	bend_put_reserved(c, 0x1f, RQ + 1);
	answer_expect(c, RQ + 1, NAK_SYN(INV_REQ));
	event_expect(c->b, QP_EVENT_QP_REQ_ERR);
	state_expect(c, QP_ERR);
}

/* NAK-05: duplicates get no NAK. */
REQUIREMENT("NAK-07", "NAK-05")
BENCH_TEST(malformed_duplicate_is_dropped)
{
	struct conn *c = conn_with(state, QP_TYPE_RC, QP_RTS);
	uint8_t frame[BEND_FRAME];
	uint32_t len;

	peer_read(c, RQ, REMOTE_VA, 8);
	pkt_expect(c, WIRE_OP_READ_RESP_ONLY, RQ);
	bend_put_reserved(c, 0x1f, RQ);
	bend_put_reserved(c, 0x1f, RQ - 5);
	len = bend_request(c, WIRE_OP_READ_REQ, RQ, 8, frame); /* the very READ, but for bytes */
	frame_rx(c->b, frame, len);
	pkt_none(c);
	event_none(c->b);
	state_expect(c, QP_RTS);
	assert_int_equal(DROPS(c, BAD_OPCODE), 2);
	assert_int_equal(DROPS(c, BAD_LENGTH), 1);
	peer_read(c, RQ, REMOTE_VA, 8);
	pkt_expect(c, WIRE_OP_READ_RESP_ONLY, RQ); /* the genuine duplicate is answered again */
}

/* RTR, RTS and SQD respond; other states drop. */
REQUIREMENT("NAK-07")
BENCH_TEST(malformed_request_is_answered_in_rtr_rts_and_sqd_only)
{
	static const struct {
		enum qp_state state;
		bool answers;
	} rows[] = {{QP_RESET, false}, {QP_INIT, false}, {QP_RTR, true},
		    {QP_RTS, true},    {QP_SQD, true},   {QP_ERR, false}};
	uint32_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		enum qp_state to = rows[i].state;
		struct conn *c = conn_with(state, QP_TYPE_RC, to < QP_RTS ? to : QP_RTS);

		if (to > QP_RTS)
			assert_int_equal(conn_to(c, to), 0);
		bend_put_reserved(c, 0x1f, RQ);
		if (rows[i].answers) {
			answer_expect(c, RQ, NAK_SYN(INV_REQ));
			if (to == QP_RTR)
				event_expect(c->b, QP_EVENT_COMM_EST); /* QP-13 */
			event_expect(c->b, QP_EVENT_QP_REQ_ERR);
			state_expect(c, QP_ERR);
			assert_int_equal(DROPS(c, BAD_OPCODE), 1);
		} else {
			pkt_none(c);
			state_expect(c, to);
			assert_int_equal(DROPS(c, QP_STATE), 1);
		}
		event_none(c->b);
		assert_int_equal(all_drops(c), 1);
		next_bench(state);
	}
}

/* Packet validation fails first: the frame is dropped with that reason and without a response. */
REQUIREMENT("NAK-07")
BENCH_TEST(packet_validation_precedes_the_request_checks)
{
	struct conn *c = conn_with(state, QP_TYPE_RC, QP_RTS);
	struct wire_path other = c->peer_path;
	uint8_t frame[BEND_FRAME];
	uint32_t len;

	len = bend_request(c, WIRE_OP_WRITE_ONLY, RQ, 16, frame);
	bend_opcode(c, frame, 0x1f);
	frame_rx(c->b, frame, len); /* not sealed */
	assert_int_equal(DROPS(c, BAD_ICRC), 1);
	frame[c->peer.bth_off + 1] |= 1; /* transport version */
	bend_put(c, frame, len);
	assert_int_equal(DROPS(c, BAD_TVER), 1);
	wire_tmpl_init(&c->peer, &c->peer_path, c->qp->conn.qpn + 2, 0xffff);
	bend_put_reserved(c, 0x1f, RQ);
	assert_int_equal(DROPS(c, BAD_QPN), 1);
	wire_tmpl_init(&c->peer, &c->peer_path, c->qp->conn.qpn, 0x1234);
	bend_put_reserved(c, 0x1f, RQ);
	assert_int_equal(DROPS(c, BAD_PKEY), 1);
	other.sgid[15] ^= 8;
	wire_tmpl_init(&c->peer, &other, c->qp->conn.qpn, 0xffff);
	bend_put_reserved(c, 0x1f, RQ);
	assert_int_equal(DROPS(c, BAD_GID), 1);
	wire_tmpl_init(&c->peer, &c->peer_path, c->qp->conn.qpn, 0xffff);
	len = bend_request(c, WIRE_OP_WRITE_ONLY, RQ, 0, frame); /* its RETH cut off */
	len = bend_shorten(c, frame, len, 4);
	bend_put(c, frame, len);
	assert_int_equal(DROPS(c, RUNT), 1);
	pkt_none(c);
	event_none(c->b);
	state_expect(c, QP_RTS);
	assert_int_equal(all_drops(c), 6);
	assert_int_equal(OBS(c, RX_ROCE), 0);
}

/* The QPN belongs to another worker, which responds. */
REQUIREMENT("NAK-07")
BENCH_TEST(malformed_request_goes_to_the_worker_that_owns_the_qp)
{
	struct conn *c = conn_with(state, QP_TYPE_RC, QP_RTS);

	wire_tmpl_init(&c->peer, &c->peer_path, BENCH_QPN + 1, 0xffff);
	bend_put_reserved(c, 0x1f, RQ);
	assert_int_equal(c->b->handoffs, 1);
	assert_int_equal(all_drops(c), 0);
	pkt_none(c);
}

/* UC: dropped silently, together with its message (RSP-06). */
REQUIREMENT("NAK-07", "RSP-06")
BENCH_TEST(malformed_unreliable_message_is_dropped)
{
	static const uint8_t ops[] = {UC(READ_REQ), 0x3f, UC(SEND_MIDDLE)};
	uint8_t frame[BEND_FRAME];
	uint32_t i, len;

	for (i = 0; i < sizeof(ops); i++) {
		struct conn *c = conn_with(state, QP_TYPE_UC, QP_RTS);

		recv_post(c, 1, 0, 4 * MTU);
		peer_send(c, UC(SEND_FIRST), RQ, 0, MTU);
		len = bend_request(c, UC(SEND_MIDDLE), RQ + 1, MTU, frame);
		bend_opcode(c, frame, ops[i]);
		if (ops[i] == UC(SEND_MIDDLE))
			len = bend_shorten(c, frame, len, 2);
		bend_put(c, frame, len);
		assert_int_equal(DROPS(c, BAD_OPCODE) + DROPS(c, BAD_PAD), 1);
		peer_send(c, UC(SEND_LAST), RQ + 2, 0, 8);
		assert_int_equal(DROPS(c, MSG_ABORTED), 1);
		pkt_none(c);
		cqe_none(c);
		event_none(c->b);
		state_expect(c, QP_RTS);
		peer_send(c, UC(SEND_ONLY), RQ + 3, 77, 9); /* the next is whole */
		assert_int_equal(recv_cqe(c, 1, QP_WC_SUCCESS).byte_len, 9);
		next_bench(state);
	}
}

/* The same with a receive of an SRQ, which has others waiting for it (CQE-14). */
REQUIREMENT("NAK-07", "CQE-14")
BENCH_TEST(malformed_unreliable_message_returns_the_srq_wqe)
{
	struct bench_srq *s = srq_open(*state, 4);
	struct conn *c = conn_open(*state, CONN(cfg.type = QP_TYPE_UC, cfg.srq = &s->srq));

	srq_post(s, 1, 0, 4 * MTU);
	peer_send(c, UC(SEND_FIRST), RQ, 0, MTU);
	cqe_none(c);
	bend_put_reserved(c, 0x3f, RQ + 1);
	recv_cqe(c, 1, QP_WC_REM_ABORT_ERR);
	cqe_none(c);
	state_expect(c, QP_RTS);
	srq_close(s);
}

REQUIREMENT("NAK-07")
BENCH_TEST(malformed_datagram_is_dropped)
{
	struct conn *c = conn_with(state, QP_TYPE_UD, QP_RTS);
	struct wire_fields f = {.opcode = WIRE_SVC_UD | WIRE_OP_SEND_ONLY,
				.psn = RQ,
				.qkey = 0x11111111,
				.src_qpn = 5};
	uint8_t frame[BEND_FRAME];
	uint32_t len = peer_frame(c, f, 0, 8, frame);

	recv_post(c, 1, 0, MTU);
	bend_opcode(c, frame, WIRE_SVC_UD | WIRE_OP_SEND_FIRST);
	bend_put(c, frame, len);
	bend_opcode(c, frame, f.opcode);
	len = bend_shorten(c, frame, len, 1);
	bend_put(c, frame, len);
	pkt_none(c);
	cqe_none(c);
	event_none(c->b);
	state_expect(c, QP_RTS);
	assert_int_equal(DROPS(c, BAD_OPCODE), 1);
	assert_int_equal(DROPS(c, BAD_PAD), 1);
	peer_put(c, f, 0, 8);
	recv_cqe(c, 1, QP_WC_SUCCESS);
}

/* A response with payload or pad that does not belong: byte for byte one, but for that. */
static void
put_bad_response(struct conn *c, uint8_t op, uint32_t psn)
{
	struct wire_fields f = {.opcode = op, .psn = psn, .syndrome = ACK_SYN};
	bool read = wire_op_table[op].flags & WIRE_F_PAYLOAD;
	uint8_t frame[BEND_FRAME];
	uint32_t len = peer_frame(c, f, 0, 8, frame);

	bench_run(c->b);
	if (read)
		len = bend_shorten(c, frame, len, 1);
	bend_put(c, frame, len);
}

/*
 * Instead of the expected response: earlier WQEs complete, the WQE fails, later ones are flushed.
 */
REQUIREMENT("REQ-09")
BENCH_TEST(malformed_response_ends_the_wqe)
{
	static const struct {
		uint8_t resp, wr;
	} rows[] = {{WIRE_OP_READ_RESP_ONLY, UROCE_WR_RDMA_READ},
		    {WIRE_OP_READ_RESP_ONLY, UROCE_WR_SEND}};
	uint32_t i;

	for (i = 0; i < 2; i++) {
		struct conn *c = conn_with(state, QP_TYPE_RC, QP_RTS);

		post(c, (struct wr){.id = 1, .op = UROCE_WR_SEND, .flags = SIG, .len = 8});
		post(c, (struct wr){.id = 2, .op = rows[i].wr, .flags = SIG, .len = 8});
		post(c, (struct wr){.id = 3, .op = UROCE_WR_SEND, .flags = SIG, .len = 8});
		assert_int_equal(pkt_count(c), 3);
		put_bad_response(c, rows[i].resp, SQ + 1);
		send_cqe(c, 1, QP_WC_SUCCESS);
		send_cqe(c, 2, QP_WC_BAD_RESP_ERR);
		send_cqe(c, 3, QP_WC_WR_FLUSH_ERR);
		state_expect(c, QP_ERR);
		pkt_none(c);
		expect_untouched(c->local);
		assert_int_equal(DROPS(c, BAD_LENGTH) + DROPS(c, BAD_PAD), 1);
		next_bench(state);
	}
}

/* A malformed ACK, NAK or atomic ACK changes nothing; the good one after it is accepted. */
REQUIREMENT("REQ-09", "REQ-07")
BENCH_TEST(malformed_ack_is_dropped)
{
	static const struct {
		uint8_t resp, wr;
	} rows[] = {{WIRE_OP_ACK, UROCE_WR_SEND}, {WIRE_OP_ATOMIC_ACK, UROCE_WR_ATOMIC_FETCH_ADD}};
	uint32_t i;

	for (i = 0; i < 2; i++) {
		struct conn *c = conn_with(state, QP_TYPE_RC, QP_RTS);
		struct wire_fields good = {.opcode = rows[i].resp,
					   .psn = SQ + 1,
					   .syndrome = ACK_SYN};
		struct qp_snd was;

		post(c, (struct wr){.id = 1, .op = UROCE_WR_SEND, .flags = SIG, .len = 8});
		post(c, (struct wr){.id = 2, .op = rows[i].wr, .flags = SIG, .len = 8});
		assert_int_equal(pkt_count(c), 2);
		bench_run(c->b);
		was = c->qp->conn.snd;
		put_bad_response(c, rows[i].resp, SQ);
		put_bad_response(c, rows[i].resp, SQ + 1);
		cqe_none(c);
		pkt_none(c);
		state_expect(c, QP_RTS);
		assert_memory_equal(&c->qp->conn.snd, &was, sizeof(was));
		assert_int_equal(DROPS(c, BAD_LENGTH) + DROPS(c, BAD_PAD), 2);
		assert_int_equal(OBS(c, RX_ROCE), 0);
		peer_put(c, good, 0, 0);
		send_cqe(c, 1, QP_WC_SUCCESS);
		send_cqe(c, 2, QP_WC_SUCCESS);
		next_bench(state);
	}
}

/* A response to no outstanding request is dropped. */
REQUIREMENT("REQ-09", "REQ-07")
BENCH_TEST(malformed_unexpected_response_is_dropped)
{
	struct conn *c = conn_with(state, QP_TYPE_RC, QP_RTS);

	post(c, (struct wr){.id = 1, .op = UROCE_WR_SEND, .flags = SIG, .len = 8});
	post(c, (struct wr){.id = 2, .op = UROCE_WR_SEND, .flags = SIG, .len = 8});
	assert_int_equal(pkt_count(c), 2);
	peer_ack(c, SQ);
	send_cqe(c, 1, QP_WC_SUCCESS);
	put_bad_response(c, WIRE_OP_ACK, SQ);
	put_bad_response(c, WIRE_OP_READ_RESP_ONLY, SQ + 2);
	put_bad_response(c, WIRE_OP_ATOMIC_ACK, SQ - 100);
	cqe_none(c);
	state_expect(c, QP_RTS);
	assert_int_equal(DROPS(c, BAD_LENGTH), 2);
	assert_int_equal(DROPS(c, BAD_PAD), 1);
	peer_ack(c, SQ + 1);
	send_cqe(c, 2, QP_WC_SUCCESS);
}

/* An earlier READ still lacks data: it is retransmitted, and the malformed response is ignored. */
REQUIREMENT("REQ-09", "REQ-08")
BENCH_TEST(malformed_response_after_a_gap_requests_the_gap_only)
{
	struct conn *c = conn_with(state, QP_TYPE_RC, QP_RTS);

	post(c, (struct wr){.id = 1, .op = UROCE_WR_RDMA_READ, .flags = SIG, .len = 8});
	post(c, (struct wr){.id = 2, .op = UROCE_WR_SEND, .flags = SIG, .len = 8});
	assert_int_equal(pkt_count(c), 2);
	put_bad_response(c, WIRE_OP_READ_RESP_ONLY, SQ + 1);
	pkt_expect(c, WIRE_OP_READ_REQ, SQ);
	cqe_none(c);
	state_expect(c, QP_RTS);
}

/* A QP that does not send yet expects no responses. */
REQUIREMENT("REQ-09")
BENCH_TEST(malformed_response_in_rtr_is_dropped)
{
	struct conn *c = conn_with(state, QP_TYPE_RC, QP_RTR);

	put_bad_response(c, WIRE_OP_ACK, SQ);
	event_none(c->b);
	state_expect(c, QP_RTR);
	assert_int_equal(DROPS(c, QP_STATE), 1);
}
