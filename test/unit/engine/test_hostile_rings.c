/* SPDX-License-Identifier: BSD-3-Clause */
/* Garbage in the rings ends its own QP and affects no other (EVT-01, CQE-03). */
#include <string.h>
#include "harness.h"

#define SQ 0x001000u
#define RQ 0x555000u

static void
expect_lost(struct conn *c)
{
	event_expect(c->b, QP_EVENT_QP_FATAL);
	assert_ptr_equal(c->b->event[c->b->events_seen - 1].qp, c->qp);
	event_none(c->b);
	state_expect(c, QP_ERR);
	pkt_none(c);
	/* Later writes and doorbells of the client cause no loop and no second event. */
	c->sq.hdr->prod += 7;
	c->rq.hdr->prod += 7;
	engine_doorbell(&c->b->engine, c->qp->conn.qpn);
	pkt_none(c);
	event_none(c->b);
	peer_send(c, WIRE_OP_SEND_ONLY, RQ, 0, 8);
	peer_ack(c, SQ);
	pkt_none(c);
}

static void
expect_well(struct conn *c, uint32_t n)
{
	client_sends(c, 100 + n, 8);
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + n);
	peer_ack(c, SQ + n);
	send_cqe(c, 100 + n, QP_WC_SUCCESS);
	recv_post(c, 200 + n, 0, 8);
	peer_send(c, WIRE_OP_SEND_ONLY, RQ + n, 0, 8);
	recv_cqe(c, 200 + n, QP_WC_SUCCESS);
	pkt_expect(c, WIRE_OP_ACK, RQ + n);
}

REQUIREMENT("EVT-01")
BENCH_TEST(sq_producer_index_out_of_range_is_an_error)
{
	static const uint32_t prods[] = {65, 66, 1000, 0x7fffffff, 0x80000000, 0xffffffff};
	struct conn *well = conn_open(*state, conn_rc);
	uint32_t i;

	for (i = 0; i < sizeof(prods) / sizeof(prods[0]); i++) {
		struct conn *c = conn_open(*state, conn_rc);

		bench_run(c->b);
		c->sq.hdr->prod = prods[i];
		engine_doorbell(&c->b->engine, c->qp->conn.qpn);
		expect_lost(c);
		expect_well(well, i);
	}
}

/* Before the index that was already taken. */
REQUIREMENT("EVT-01")
BENCH_TEST(sq_producer_index_that_goes_back_is_an_error)
{
	struct conn *well = conn_open(*state, conn_rc), *c = conn_open(*state, conn_rc);
	uint32_t i;

	for (i = 0; i < 8; i++)
		client_sends(c, i, 8);
	assert_int_equal(pkt_count(c), 8);
	c->sq.hdr->prod = 5;
	engine_doorbell(&c->b->engine, c->qp->conn.qpn);
	expect_lost(c);
	expect_well(well, 0);
}

/* A full queue is accepted. */
REQUIREMENT("EVT-01")
BENCH_TEST(completely_full_sq_is_accepted)
{
	struct conn *c = conn_open(*state, conn_rc);
	uint32_t lap, i, psn = SQ;

	for (lap = 0; lap < 5; lap++) {
		for (i = 0; i < 64; i++)
			post_quiet(c, (struct wr){.id = i, .op = UROCE_WR_SEND, .flags = SIG});
		ring_doorbell(c);
		assert_int_equal(pkt_count(c), 64);
		psn += 64;
		peer_ack(c, psn - 1);
		for (i = 0; i < 64; i++)
			send_cqe(c, i, QP_WC_SUCCESS);
	}
	event_none(c->b);
}

REQUIREMENT("EVT-01")
BENCH_TEST(rq_producer_index_out_of_range_is_an_error)
{
	static const uint32_t prods[] = {65, 1000, 0x80000000, 0xffffffff};
	struct conn *well = conn_open(*state, conn_rc);
	uint32_t i;

	for (i = 0; i < sizeof(prods) / sizeof(prods[0]); i++) {
		struct conn *c = conn_open(*state, conn_rc);

		c->rq.hdr->prod = prods[i];
		if (i & 1)
			peer_send(c, WIRE_OP_SEND_ONLY, RQ, 0, 8);
		else
			peer_write(c, WIRE_OP_WRITE_ONLY_IMM, RQ, REMOTE_VA, 8, 0, 8);
		expect_lost(c);
		assert_int_equal(c->remote->bytes[0], 0);
		expect_well(well, i);
	}
}

/* Garbage comes while the QP is in the error state already. */
REQUIREMENT("EVT-01")
BENCH_TEST(garbage_posted_in_the_error_state_is_harmless)
{
	uint32_t i;

	for (i = 0; i < 2; i++) {
		struct conn *c = conn_open(*state, conn_rc);

		assert_int_equal(conn_to(c, QP_ERR), 0);
		bench_run(c->b);
		*(i == 0 ? &c->sq.hdr->prod : &c->rq.hdr->prod) = 0x12345678;
		engine_doorbell(&c->b->engine, c->qp->conn.qpn);
		expect_lost(c);
	}
}

/* Only the daemon writes cons and armed. A client's writes to them have no effect. */
REQUIREMENT("EVT-01")
BENCH_TEST(client_writes_to_the_daemons_fields_are_harmless)
{
	struct conn *c = conn_open(*state, conn_rc);
	uint32_t i;

	for (i = 0; i < 10; i++) {
		c->sq.hdr->cons = 0xdeadbeef * i;
		c->rq.hdr->cons = 0xdeadbeef * i;
		c->sq.hdr->armed = 77;
		client_sends(c, i, 8);
		engine_doorbell(&c->b->engine, c->qp->conn.qpn);
		pkt_expect(c, WIRE_OP_SEND_ONLY, SQ + i);
		peer_ack(c, SQ + i);
		send_cqe(c, i, QP_WC_SUCCESS);
		assert_int_equal(c->sq.hdr->cons, i + 1);
	}
	event_none(c->b);
}

/* Doorbells for anything: unknown QPNs, others' QPNs, nothing to do. */
REQUIREMENT("EVT-01")
BENCH_TEST(doorbells_for_unknown_queues_are_harmless)
{
	struct conn *c = conn_open(*state, conn_rc);
	uint32_t i;

	for (i = 0; i < 5000; i++)
		engine_doorbell(&c->b->engine, i * 0x9e3779b1);
	for (i = 0; i < 100; i++)
		engine_doorbell(&c->b->engine, c->qp->conn.qpn);
	pkt_none(c);
	cqe_none(c);
	event_none(c->b);
	expect_well(c, 0);
}

/* Every byte of a slot is the client's: any WQE is a completion or a packet, never a crash. */
REQUIREMENT("CQE-03")
BENCH_TEST(random_send_wqes_are_harmless)
{
	uint32_t round, i, x = 12345;

	for (round = 0; round < 400; round++) {
		struct bench *b = *state;
		struct conn *c = conn_open(b, conn_rc);
		uint8_t *slot = c->sq.slots;

		post_quiet(c, (struct wr){.id = 1, .op = UROCE_WR_SEND, .flags = SIG, .len = 8});
		for (i = 0; i < 1 + round % 40; i++) {
			x = x * 1664525 + 1013904223;
			slot[8 + (x >> 16) % (c->sq.stride - 8)] = (uint8_t)(x >> 8);
		}
		ring_doorbell(c);
		bench_run(b);
		assert_true(c->qp->conn.state == QP_RTS || c->qp->conn.state == QP_ERR);
		assert_true(c->qp->conn.state == QP_ERR || b->nframes != 0);
		assert_int_equal(bench_teardown(state), 0);
		bench_setup(state);
	}
}

REQUIREMENT("CQE-03")
BENCH_TEST(random_receive_wqes_are_harmless)
{
	uint32_t round, i, x = 54321;

	for (round = 0; round < 400; round++) {
		struct bench *b = *state;
		struct conn *c = conn_open(b, conn_rc);

		recv_post(c, 1, 0, 64);
		for (i = 0; i < 1 + round % 20; i++) {
			x = x * 1664525 + 1013904223;
			c->rq.slots[8 + (x >> 16) % (c->rq.stride - 8)] = (uint8_t)(x >> 8);
		}
		peer_send(c, WIRE_OP_SEND_FIRST, RQ, 0, 1024);
		peer_send(c, WIRE_OP_SEND_LAST, RQ + 1, 1024, 30);
		bench_run(b);
		assert_true(b->nframes != 0);
		assert_true(c->qp->conn.state == QP_RTS || c->qp->conn.state == QP_ERR);
		assert_int_equal(bench_teardown(state), 0);
		bench_setup(state);
	}
}
