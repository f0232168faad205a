/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies of send WQEs come from a shared pool: how many each QP gets, and that all return. */
#include <rte_mbuf.h>
#include "harness.h"

#define PER_CHUNK (QP_CHUNK_BYTES / (sizeof(struct qp_sq_entry) + sizeof(struct uroce_sge)))

/* The bench with no more than `more` chunks beyond one a QP. */
static struct bench *
bench_with(void **state, uint32_t more)
{
	struct bench *b = *state;

	qp_sqe_pool_free(b->sqes);
	b->sqes = qp_sqe_pool_create(BENCH_CONNS, more);
	assert_non_null(b->sqes);
	b->engine.env.sqes = b->sqes;
	return b;
}

/* A QP with 64 SENDs posted; only the copies limit how many are in flight. */
static struct conn *
sender(struct bench *b, uint32_t qpn)
{
	struct conn *c = conn_open(b, CONN(cfg.qpn = qpn, cfg.max_sge = 1, cfg.max_inline = 0,
					   cfg.sq_entries = 64, cfg.cq_entries = 256));

	for (uint32_t i = 0; i < 64; i++)
		post_quiet(c, (struct wr){.id = i, .op = UROCE_WR_SEND, .flags = SIG, .len = 8});
	ring_doorbell(c);
	bench_run(b);
	return c;
}

static uint32_t
taken(const struct conn *c)
{
	return c->qp->conn.snd.head - c->qp->conn.snd.tail;
}

/* Everything before index n of the SENDs is acknowledged. */
static void
ack(struct conn *c, uint32_t n)
{
	peer_ack(c, conn_rc.sq_psn + n - 1);
	bench_run(c->b);
}

BENCH_TEST(every_qp_has_reserved_copies)
{
	struct bench *b = bench_with(state, 1);
	struct conn *first = sender(b, BENCH_QPN), *second = sender(b, BENCH_QPN + 2);

	assert_int_equal(taken(first), 2 * PER_CHUNK); /* its own, and the one for all */
	assert_int_equal(taken(second), PER_CHUNK);
	pkt_count(first);
	/*
	 * Half a chunk frees nothing. The other half goes to the next QP that continues: this one.
	 */
	ack(first, PER_CHUNK / 2);
	assert_int_equal(taken(first), 3 * PER_CHUNK / 2);
	ack(first, PER_CHUNK);
	assert_int_equal(taken(first), 2 * PER_CHUNK);
	ack(first, 3 * PER_CHUNK);
	ack(first, 64);
	assert_int_equal(taken(first), 0);
	for (uint32_t i = 0; i < 64; i++)
		send_cqe(first, i, QP_WC_SUCCESS);
	/* The second QP takes the freed copies with its next step. */
	ack(second, 1);
	assert_int_equal(taken(second), 2 * PER_CHUNK - 1);
	ack(second, 2 * PER_CHUNK);
	ack(second, 64);
	for (uint32_t i = 0; i < 64; i++)
		send_cqe(second, i, QP_WC_SUCCESS);
	assert_true(qp_sqe_pool_whole(b->sqes));
}

/* A QP without copies is not polled: it continues when its own copies return. */
BENCH_TEST(qp_without_free_copies_leaves_the_run_list)
{
	struct bench *b = bench_with(state, 0);
	struct conn *c = sender(b, BENCH_QPN);

	assert_int_equal(taken(c), PER_CHUNK);
	assert_false(engine_run(&b->engine, b->now));
	assert_false(c->qp->bind.on_run_list);
	pkt_count(c);
	for (uint32_t n = PER_CHUNK; n <= 64; n += PER_CHUNK)
		ack(c, n);
	assert_int_equal(taken(c), 0);
	assert_int_equal(c->qp->conn.snd.head, 64);
}

/* At any position in a chunk where the queue becomes empty, over many laps. */
BENCH_TEST(copies_return_when_the_queue_is_empty)
{
	struct bench *b = bench_with(state, 4);
	uint32_t psn = conn_rc.sq_psn, n;
	struct conn *c = conn_open(b, CONN(cfg.sq_entries = 32, cfg.cq_entries = 1024));

	for (uint32_t round = 0; round < 64; round++) {
		n = 1 + round % 31;
		for (uint32_t i = 0; i < n; i++)
			post(c, (struct wr){.id = i, .op = UROCE_WR_SEND, .flags = SIG, .len = 8});
		assert_int_equal(pkt_count(c), n);
		assert_false(qp_sqe_pool_whole(b->sqes));
		psn += n;
		peer_ack(c, psn - 1);
		for (uint32_t i = 0; i < n; i++)
			send_cqe(c, i, QP_WC_SUCCESS);
		assert_true(qp_sqe_pool_whole(b->sqes));
	}
}

BENCH_TEST(copies_return_on_reset_error_and_destroy)
{
	struct bench *b = bench_with(state, 4);
	struct conn *c = sender(b, BENCH_QPN);

	pkt_count(c);
	assert_false(qp_sqe_pool_whole(b->sqes));
	conn_to(c, QP_ERR);
	assert_true(qp_sqe_pool_whole(b->sqes));

	c = sender(b, BENCH_QPN + 2);
	pkt_count(c);
	conn_to(c, QP_RESET);
	assert_true(qp_sqe_pool_whole(b->sqes));

	c = sender(b, BENCH_QPN + 4);
	pkt_count(c);
	assert_false(qp_sqe_pool_whole(b->sqes));
	engine_forget(&b->engine, c->qp);
	assert_true(qp_sqe_pool_whole(b->sqes));
}

/* The largest entries: each has a chunk to itself. */
BENCH_TEST(inline_data_is_copied)
{
	struct bench *b = bench_with(state, 31);
	uint8_t data[QP_MAX_INLINE];
	struct wire_pkt p;
	struct conn *c = conn_open(b, CONN(cfg.sq_entries = 128, cfg.cq_entries = 256,
					   cfg.max_inline = QP_MAX_INLINE));

	assert_int_equal(c->qp->bind.sqes.shift, 0);
	for (uint32_t i = 0; i < 128; i++) {
		memset(data, (int)i, sizeof(data));
		post_inline(c, (struct wr){.id = i, .op = UROCE_WR_SEND, .flags = SIG}, data,
			    sizeof(data));
	}
	for (uint32_t i = 0; i < 128; i++) {
		p = pkt_expect(c, WIRE_OP_SEND_ONLY, conn_rc.sq_psn + i);
		assert_int_equal(p.payload[0], i);
		assert_int_equal(p.payload[p.payload_len - 1], i);
		if (i % 32 == 31) {
			assert_int_equal(taken(c), 32);
			ack(c, i + 1);
		}
	}
	assert_true(qp_sqe_pool_whole(b->sqes));
}
