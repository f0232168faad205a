/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared receive queues (SRQ-01, EVT-07, EVT-09, EVT-10, CQE-14). */
#include <string.h>
#include "harness.h"

#define SQ  0x001000u
#define RQ  0x555000u
#define MTU 1024u

static struct conn *
conn_on(struct bench *b, struct bench_srq *s, enum qp_type type)
{
	return conn_open(b, CONN(cfg.type = type, cfg.srq = &s->srq));
}

static void
peer_sends(struct conn *c, uint32_t psn, uint32_t off, uint32_t len)
{
	peer_send(c, WIRE_OP_SEND_ONLY, psn, off, len);
	bench_run(c->b);
}

REQUIREMENT("SRQ-01")
BENCH_TEST(wqes_are_taken_in_order_by_any_qp)
{
	struct bench *b = *state;
	struct bench_srq *s = srq_open(b, 8);
	struct conn *c[2] = {conn_on(b, s, QP_TYPE_RC), conn_on(b, s, QP_TYPE_RC)};
	uint32_t i;

	for (i = 0; i < 8; i++)
		srq_post(s, 100 + i, i * 64, 64);
	for (i = 0; i < 8; i++)
		peer_sends(c[i & 1], RQ + i / 2, 7 * i, 9);
	for (i = 0; i < 8; i++) {
		assert_int_equal(recv_cqe(c[i & 1], 100 + i, QP_WC_SUCCESS).byte_len, 9);
		assert_memory_equal(s->mem->bytes + i * 64, bench_bytes + 7 * i, 9);
	}
	assert_int_equal(s->ring.hdr->cons, 8);
	/* Empty: RNR; continues after a post. */
	peer_sends(c[0], RQ + 4, 0, 8);
	assert_int_equal(OBS(c[0], RSP_RNR_NAK), 1);
	srq_post(s, 200, 0, 64);
	peer_sends(c[0], RQ + 4, 0, 8);
	recv_cqe(c[0], 200, QP_WC_SUCCESS);
	srq_close(s);
}

/*
 * A WQE belongs to its QP from a message's first packet on, whatever other QPs receive meanwhile.
 */
REQUIREMENT("SRQ-01")
BENCH_TEST(messages_of_two_qps_interleave)
{
	struct bench *b = *state;
	struct bench_srq *s = srq_open(b, 8);
	struct conn *c1 = conn_on(b, s, QP_TYPE_RC), *c2 = conn_on(b, s, QP_TYPE_RC);

	srq_post(s, 1, 0, 4096);
	srq_post(s, 2, 8192, 4096);
	peer_send(c1, WIRE_OP_SEND_FIRST, RQ, 0, MTU);
	peer_send(c2, WIRE_OP_SEND_FIRST, RQ, 5000, MTU);
	peer_send(c1, WIRE_OP_SEND_LAST, RQ + 1, MTU, 10);
	peer_send(c2, WIRE_OP_SEND_LAST, RQ + 1, 5000 + MTU, 20);
	assert_int_equal(recv_cqe(c1, 1, QP_WC_SUCCESS).byte_len, MTU + 10);
	assert_int_equal(recv_cqe(c2, 2, QP_WC_SUCCESS).byte_len, MTU + 20);
	assert_memory_equal(s->mem->bytes, bench_bytes, MTU + 10);
	assert_memory_equal(s->mem->bytes + 8192, bench_bytes + 5000, MTU + 20);
	srq_close(s);
}

REQUIREMENT("SRQ-01")
BENCH_TEST(empty_srq_drops_uc_messages)
{
	struct bench *b = *state;
	struct bench_srq *s = srq_open(b, 8);
	struct conn *c = conn_on(b, s, QP_TYPE_UC);

	peer_send(c, WIRE_SVC_UC | WIRE_OP_SEND_ONLY, RQ, 0, 8);
	cqe_none(c);
	pkt_none(c);
	assert_int_equal(DROPS(c, NO_RECV_WQE), 1);
	state_expect(c, QP_RTS);
	srq_close(s);
}

#define UC(op) (WIRE_SVC_UC | WIRE_OP_##op)

/*
 * A UC message that holds an SRQ's WQE is aborted: the WQE completes in error instead of being kept
 * from other QPs, and the QP continues. Tests each position of the gap and each kind of packet
 * after it.
 */
REQUIREMENT("CQE-14", "RSP-06")
BENCH_TEST(broken_uc_message_returns_the_srq_wqe)
{
	static const struct {
		uint8_t op;
		uint32_t psn;
	} after[] = {{UC(SEND_MIDDLE), 2}, {UC(SEND_LAST), 3}, {UC(WRITE_ONLY), 4}};
	struct bench *b = *state;
	uint32_t i;

	for (i = 0; i < 3; i++) {
		struct bench_srq *s = srq_open(b, 8);
		struct conn *c = conn_on(b, s, QP_TYPE_UC), *other = conn_on(b, s, QP_TYPE_UC);

		srq_post(s, 1, 0, 4 * MTU);
		srq_post(s, 2, 0, 4 * MTU);
		peer_send(c, UC(SEND_FIRST), RQ, 0, MTU);
		cqe_none(c);
		if (after[i].op == UC(WRITE_ONLY))
			peer_write(c, after[i].op, RQ + after[i].psn, REMOTE_VA, 8, 0, 8);
		else
			peer_send(c, after[i].op, RQ + after[i].psn, 0, MTU);
		assert_int_equal(recv_cqe(c, 1, QP_WC_REM_ABORT_ERR).opcode, UROCE_CQE_RECV);
		cqe_none(c);
		event_none(b);
		pkt_none(c);
		state_expect(c, QP_RTS);
		peer_send(other, UC(SEND_ONLY), RQ, 0, 8);
		recv_cqe(other, 2, QP_WC_SUCCESS);
		/* and as before after a receive is posted */
		srq_post(s, 3, 0, 4 * MTU);
		peer_send(c, UC(SEND_ONLY), RQ + 9, 0, 8);
		recv_cqe(c, 3, QP_WC_SUCCESS);
		cqe_none(c);
		srq_close(s);
	}
}

/* A WRITE of several packets follows instead of the rest: it does not take the WQE. */
REQUIREMENT("CQE-14")
BENCH_TEST(long_write_aborts_a_message_and_returns_its_wqe)
{
	struct bench *b = *state;
	struct bench_srq *s = srq_open(b, 8);
	struct conn *c = conn_on(b, s, QP_TYPE_UC);

	srq_post(s, 1, 0, 4 * MTU);
	srq_post(s, 2, 0, 4 * MTU);
	peer_send(c, UC(SEND_FIRST), RQ, 0, MTU);
	peer_write(c, UC(WRITE_FIRST), RQ + 1, REMOTE_VA, MTU + 8, 0, MTU);
	recv_cqe(c, 1, QP_WC_REM_ABORT_ERR);
	peer_write(c, UC(WRITE_LAST_IMM), RQ + 2, 0, 0, MTU, 8);
	assert_int_equal(recv_cqe(c, 2, QP_WC_SUCCESS).opcode, UROCE_CQE_RECV_RDMA_WITH_IMM);
	cqe_none(c);
	srq_close(s);
}

/* Where a SEND follows at once the WQE is its: nothing has to be reported. */
REQUIREMENT("RSP-06")
BENCH_TEST(next_send_takes_the_wqe_of_an_aborted_message)
{
	struct bench *b = *state;
	struct bench_srq *s = srq_open(b, 8);
	struct conn *c = conn_on(b, s, QP_TYPE_UC);

	srq_post(s, 1, 0, 4 * MTU);
	peer_send(c, UC(SEND_FIRST), RQ, 0, MTU);
	peer_send(c, UC(SEND_FIRST), RQ + 5, 100, MTU);
	cqe_none(c);
	peer_send(c, UC(SEND_LAST), RQ + 6, 100 + MTU, 9);
	assert_int_equal(recv_cqe(c, 1, QP_WC_SUCCESS).byte_len, MTU + 9);
	assert_memory_equal(s->mem->bytes, bench_bytes + 100, MTU + 9);
	cqe_none(c);
	srq_close(s);
}

/* No packet is missing, but one is invalid: a MIDDLE that is too short, or a FIRST. */
REQUIREMENT("CQE-14")
BENCH_TEST(bad_packet_aborts_a_message_and_returns_its_wqe)
{
	static const uint8_t op[] = {UC(SEND_MIDDLE), UC(SEND_FIRST), UC(WRITE_LAST)};
	struct bench *b = *state;
	uint32_t i;

	for (i = 0; i < sizeof(op); i++) {
		struct bench_srq *s = srq_open(b, 8);
		struct conn *c = conn_on(b, s, QP_TYPE_UC);

		srq_post(s, 1, 0, 4 * MTU);
		peer_send(c, UC(SEND_FIRST), RQ, 0, MTU);
		peer_send(c, op[i], RQ + 1, 0, MTU - 4);
		recv_cqe(c, 1, QP_WC_REM_ABORT_ERR);
		cqe_none(c);
		event_none(b);
		state_expect(c, QP_RTS);
		srq_close(s);
	}
}

/* If the QP ends instead, its WQE is flushed. */
REQUIREMENT("CQE-14")
BENCH_TEST(wqe_of_an_unfinished_message_is_flushed_with_the_qp)
{
	struct bench *b = *state;
	struct bench_srq *s = srq_open(b, 8);
	struct conn *c = conn_on(b, s, QP_TYPE_UC);

	srq_post(s, 1, 0, 4 * MTU);
	peer_send(c, UC(SEND_FIRST), RQ, 0, MTU);
	bench_run(b);
	assert_int_equal(conn_to(c, QP_ERR), 0);
	recv_cqe(c, 1, QP_WC_WR_FLUSH_ERR);
	cqe_none(c);
	srq_close(s);
}

REQUIREMENT("EVT-10")
BENCH_TEST(limit_event_comes_once_below_the_limit)
{
	struct bench *b = *state;
	struct bench_srq *s = srq_open(b, 8);
	struct conn *c = conn_on(b, s, QP_TYPE_RC);
	uint32_t i;

	s->srq.limit = 3;
	for (i = 0; i < 5; i++)
		srq_post(s, i, 0, 64);
	peer_sends(c, RQ, 0, 8);
	peer_sends(c, RQ + 1, 0, 8); /* three are left: not below three */
	event_none(b);
	peer_sends(c, RQ + 2, 0, 8);
	event_expect(b, QP_EVENT_SRQ_LIMIT_REACHED);
	peer_sends(c, RQ + 3, 0, 8);
	event_none(b); /* disarmed itself */
	s->srq.limit = 1;
	peer_sends(c, RQ + 4, 0, 8);
	event_expect(b, QP_EVENT_SRQ_LIMIT_REACHED);
	srq_close(s);
}

/* QP-19: the end of a QP flushes the SRQ WQEs it has taken, not those in the SRQ. */
REQUIREMENT("EVT-07", "QP-19")
BENCH_TEST(last_wqe_reached_event_is_raised)
{
	struct bench *b = *state;
	struct bench_srq *s = srq_open(b, 8);
	struct conn *c = conn_on(b, s, QP_TYPE_RC), *other = conn_on(b, s, QP_TYPE_RC);

	srq_post(s, 1, 0, 4096);
	srq_post(s, 2, 0, 4096);
	peer_send(c, WIRE_OP_SEND_FIRST, RQ, 0, MTU);
	assert_int_equal(conn_to(c, QP_ERR), 0);
	recv_cqe(c, 1, QP_WC_WR_FLUSH_ERR);
	event_expect(b, QP_EVENT_QP_LAST_WQE_REACHED);
	assert_ptr_equal(b->event[0].qp, c->qp);
	event_none(b);
	cqe_none(c);
	peer_sends(other, RQ, 0, 8);
	recv_cqe(other, 2, QP_WC_SUCCESS);
	srq_close(s);
}

/* Garbage in its ring ends the SRQ, and its QPs when they use it; other QPs are not affected. */
REQUIREMENT("EVT-09")
BENCH_TEST(corrupt_ring_ends_its_srq_and_no_other_qp)
{
	struct bench *b = *state;
	struct bench_srq *s = srq_open(b, 8);
	struct conn *c1 = conn_on(b, s, QP_TYPE_RC), *c2 = conn_on(b, s, QP_TYPE_RC);
	struct conn *well = conn_open(b, (struct conn_cfg){.type = QP_TYPE_RC,
							   .state = QP_RTS,
							   .qpn = 0x200,
							   .pd = 3,
							   .mtu_code = 3,
							   .rq_psn = RQ,
							   .sq_entries = 8,
							   .rq_entries = 8,
							   .cq_entries = 8,
							   .max_sge = 1});

	s->ring.hdr->prod = 9;
	peer_sends(c1, RQ, 0, 8);
	event_expect(b, QP_EVENT_SRQ_ERR);
	event_expect(b, QP_EVENT_QP_FATAL);
	state_expect(c1, QP_ERR);
	s->ring.hdr->prod = 0; /* it stays dead */
	srq_post(s, 1, 0, 64);
	peer_sends(c2, RQ, 0, 8);
	event_expect(b, QP_EVENT_QP_FATAL);
	event_none(b); /* SRQ_ERR came once */
	state_expect(c2, QP_ERR);
	recv_post(well, 7, 0, 64);
	peer_sends(well, RQ, 0, 8);
	recv_cqe(well, 7, QP_WC_SUCCESS);
	srq_close(s);
}

REQUIREMENT("CQE-03")
BENCH_TEST(malformed_srq_wqe_is_an_error)
{
	struct bench *b = *state;
	struct bench_srq *s = srq_open(b, 8);
	struct conn *c = conn_on(b, s, QP_TYPE_RC);

	srq_post(s, 1, 0, 64);
	((struct uroce_recv_wqe *)s->ring.slots)->num_sge = 2;
	peer_send(c, WIRE_OP_SEND_ONLY, RQ, 0, 8);
	answer_expect(c, RQ, NAK_SYN(REM_OP));
	recv_cqe(c, 1, QP_WC_LOC_QP_OP_ERR);
	state_expect(c, QP_ERR);
	srq_close(s);
}

/* A WRITE without immediate takes no WQE from the SRQ, even if it is refused. */
REQUIREMENT("RSP-05", "NAK-09")
BENCH_TEST(write_with_a_bad_rkey_takes_no_wqe)
{
	struct bench *b = *state;
	struct bench_srq *s = srq_open(b, 8);
	struct conn *c = conn_on(b, s, QP_TYPE_RC), *other = conn_on(b, s, QP_TYPE_RC);

	srq_post(s, 1, 0, 64);
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ, REMOTE_VA + BENCH_BYTES, 8, 0, 8);
	answer_expect(c, RQ, NAK_SYN(REM_ACCESS));
	event_expect(b, QP_EVENT_QP_ACCESS_ERR);
	state_expect(c, QP_ERR);
	cqe_none(c);
	assert_int_equal(s->ring.hdr->cons, 0);
	peer_sends(other, RQ, 0, 8);
	recv_cqe(other, 1, QP_WC_SUCCESS);
	srq_close(s);
}
