/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Work that a client can post without limit and that sends no packet: each engine_run does at most
 * ENGINE_WORK steps of it, in order, and other QPs have their turns (QP-19, QP-22, CQE-05, MEM-04).
 */
#include <string.h>
#include "harness.h"
#include "qp/retire.h"

#define SQ      0x001000u
#define DEEP    16384u
#define CQ_DEEP 65536u

static struct conn *
deep_conn(void **state, struct conn_cfg cfg)
{

	cfg.sq_entries = cfg.rq_entries = DEEP;
	cfg.cq_entries = CQ_DEEP;
	return conn_open(*state, cfg);
}

/* Posts that a QP in the error state flushes, and a doorbell after the last of them. */
static void
fill(struct conn *c, uint32_t sends, uint32_t recvs)
{
	for (uint32_t i = 0; i < recvs; i++)
		recv_post(c, i, 0, 8);
	for (uint32_t i = 0; i < sends; i++)
		post_quiet(c, (struct wr){.id = i, .op = UROCE_WR_SEND, .flags = SIG, .len = 8});
	ring_doorbell(c);
}

/* Frees the frames of the last engine_run unexamined. */
static uint32_t
take(struct bench *b)
{
	struct qp_env *env = &b->engine.env;
	uint32_t n = env->tx_n;

	for (; env->tx_n != 0; env->tx_n--)
		b->frame[b->nframes++] = env->tx[env->tx_n - 1];
	return n;
}

/* Polls completions of cq with this status, whose ids continue from *next. */
static uint32_t
poll_in_order(struct bench_cq *cq, uint64_t *next, uint32_t status)
{
	struct uroce_cqe cqe;
	uint32_t n = 0;

	for (; cqe_poll(cq, &cqe); n++) {
		assert_int_equal(cqe.wr_id, (*next)++);
		assert_int_equal(cqe.status, status);
	}
	return n;
}

/*
 * Runs the engine until it is idle. In no run are more than ENGINE_WORK of c's WQEs completed, and
 * the neighbour's message, posted before each of the first runs, leaves in that run.
 */
static void
run_bounded(struct conn *c, struct conn *other, uint64_t sent, uint64_t received)
{
	struct bench *b = c->b;
	uint32_t runs = 0;
	bool more = true;

	for (; more; runs++) {
		uint32_t n;

		if (runs < 20)
			post(other, (struct wr){.id = runs, .op = UROCE_WR_SEND, .len = 8});
		more = engine_run(&b->engine, b->now);
		assert_int_equal(take(b), runs < 20);
		n = poll_in_order(&c->scq, &sent, QP_WC_WR_FLUSH_ERR);
		n += poll_in_order(&c->rcq, &received, QP_WC_WR_FLUSH_ERR);
		assert_true(n <= ENGINE_WORK);
		assert_true(runs < 2000);
	}
	assert_int_equal(sent, DEEP);
	assert_int_equal(received, DEEP);
	assert_true(runs >= 2 * DEEP / ENGINE_WORK);
}

REQUIREMENT("QP-19")
BENCH_TEST(deep_flush_is_spread_over_turns)
{
	struct conn *c = deep_conn(state, conn_rc), *other = conn_open(*state, conn_rc);
	struct bench *b = *state;

	bench_run(b);
	c->qp->conn.path_ok = false; /* nothing is sent, so everything is flushed */
	fill(c, DEEP, DEEP);
	bench_run(b);
	qp_error(&b->engine.env, c->qp, QP_WC_SUCCESS);
	run_bounded(c, other, 0, 0);
	/* Later posts are flushed at once, and the queue is armed for their doorbell. */
	post(c, (struct wr){.id = DEEP, .op = UROCE_WR_SEND});
	send_cqe(c, DEEP, QP_WC_WR_FLUSH_ERR);
	cqe_none(c);
}

REQUIREMENT("QP-19")
BENCH_TEST(modify_to_error_flushes_one_quantum_at_once)
{
	struct conn *c = deep_conn(state, conn_rc);
	struct uroce_cqe cqe;
	uint32_t n = 0;

	bench_run(c->b);
	c->qp->conn.path_ok = false;
	fill(c, DEEP, DEEP);
	assert_int_equal(conn_to(c, QP_ERR), 0);
	while (cqe_poll(&c->scq, &cqe) || cqe_poll(&c->rcq, &cqe))
		n++;
	assert_int_equal(n, 2 * QP_TURN_STEPS);
}

REQUIREMENT("QP-22")
BENCH_TEST(reset_and_destroy_end_a_flush)
{
	struct conn *c = deep_conn(state, conn_rc), *other = deep_conn(state, conn_rc);
	struct bench *b = *state;
	struct conn_cfg cfg = conn_rc;
	struct uroce_cqe cqe;

	bench_run(b);
	c->qp->conn.path_ok = other->qp->conn.path_ok = false;
	fill(c, DEEP, DEEP);
	fill(other, DEEP, DEEP);
	assert_int_equal(conn_to(c, QP_ERR), 0);
	assert_int_equal(conn_to(other, QP_ERR), 0);
	engine_run(&b->engine, b->now);
	engine_forget(&b->engine, other->qp);
	assert_int_equal(conn_to(c, QP_RESET), 0);
	while (cqe_poll(&c->scq, &cqe) || cqe_poll(&c->rcq, &cqe) || cqe_poll(&other->scq, &cqe) ||
	       cqe_poll(&other->rcq, &cqe))
		assert_int_equal(cqe.status, QP_WC_WR_FLUSH_ERR);
	cqe_none(c);
	cqe_none(other);
	/* As new. */
	c->sq.prod = c->rq.prod = 0;
	conn_raise(c, &cfg);
	post(c, (struct wr){.id = 7, .op = UROCE_WR_SEND, .flags = SIG, .len = 8});
	pkt_expect(c, WIRE_OP_SEND_ONLY, SQ);
	peer_ack(c, SQ);
	send_cqe(c, 7, QP_WC_SUCCESS);
	cqe_none(c);
}

REQUIREMENT("EVT-07")
BENCH_TEST(last_wqe_event_comes_after_the_flush)
{
	struct bench *b = *state;
	struct bench_srq *srq = srq_open(b, 16);
	struct conn_cfg cfg = conn_rc;
	struct uroce_cqe cqe;
	struct conn *c;
	uint32_t n = 0;

	cfg.srq = &srq->srq;
	c = deep_conn(state, cfg);
	bench_run(b);
	c->qp->conn.path_ok = false;
	fill(c, DEEP, 0);
	assert_int_equal(conn_to(c, QP_ERR), 0);
	while (engine_run(&b->engine, b->now)) {
		assert_int_equal(b->nevents, 0);
	}
	event_expect(b, QP_EVENT_QP_LAST_WQE_REACHED);
	while (cqe_poll(&c->scq, &cqe))
		n++;
	assert_int_equal(n, DEEP);
	/* Once. */
	post(c, (struct wr){.id = 1, .op = UROCE_WR_SEND});
	send_cqe(c, 1, QP_WC_WR_FLUSH_ERR);
	event_none(b);
	srq_close(srq);
}

/* WQEs posted before the QP left SQE are flushed, later ones are sent. */
REQUIREMENT("QP-17")
BENCH_TEST(leaving_sqe_still_flushes_the_remaining_wqes)
{
	struct conn_cfg cfg = conn_rc;
	struct conn *c;
	uint64_t next = 1;
	uint32_t n = 0;

	cfg.type = QP_TYPE_UC;
	c = deep_conn(state, cfg);
	bench_run(c->b);
	post_quiet(c, (struct wr){.id = 0, .op = UROCE_WR_RDMA_READ, .flags = SIG, .len = 8});
	for (uint32_t i = 1; i < DEEP - 1; i++)
		post_quiet(c, (struct wr){.id = i, .op = UROCE_WR_SEND, .flags = SIG, .len = 8});
	ring_doorbell(c);
	engine_run(&c->b->engine, c->b->now);
	send_cqe(c, 0, QP_WC_LOC_QP_OP_ERR);
	state_expect(c, QP_SQE);
	/* bench_run has flushed everything; now destroy in the middle of a flush */
	n = poll_in_order(&c->scq, &next, QP_WC_WR_FLUSH_ERR);
	assert_int_equal(n, DEEP - 2);
	next = DEEP;
	for (uint32_t i = 0; i < DEEP - 1; i++)
		post_quiet(c, (struct wr){
				      .id = DEEP + i, .op = UROCE_WR_SEND, .flags = SIG, .len = 8});
	ring_doorbell(c);
	engine_run(&c->b->engine, c->b->now);
	assert_int_equal(conn_to(c, QP_RTS), 0);
	post(c, (struct wr){.id = 2 * DEEP - 1, .op = UROCE_WR_SEND, .flags = SIG, .len = 8});
	bench_run(c->b);
	for (uint32_t i = 0; i < DEEP - 1; i++)
		send_cqe(c, next++, QP_WC_WR_FLUSH_ERR);
	send_cqe(c, next, QP_WC_SUCCESS);
	pkt_expect(c, WIRE_SVC_UC | WIRE_OP_SEND_ONLY, SQ);
	cqe_none(c);
}

REQUIREMENT("EVT-08")
BENCH_TEST(flush_into_a_full_cq_ends)
{
	struct bench *b = *state;
	struct conn *c = conn_open(b, CONN(cfg.sq_entries = DEEP, cfg.cq_entries = 512));

	bench_run(b);
	c->qp->conn.path_ok = false;
	fill(c, DEEP, 0);
	assert_int_equal(conn_to(c, QP_ERR), 0);
	bench_run(b);
	event_expect(b, QP_EVENT_CQ_ERR);
	event_none(b);
	assert_int_equal(c->sq.hdr->cons, DEEP);
}

/* Binds of a window and invalidations of it, one after the other: no packet comes of them. */
static void
post_local(struct conn *c, const struct bench_region *r, uint32_t key, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		bool bind = i % 2 == 0;
		uint32_t now = key ^ (i / 2 % 2);
		struct uroce_send_wqe *q =
			(struct uroce_send_wqe *)(c->sq.slots +
						  (size_t)(c->sq.prod & (DEEP - 1)) * c->sq.stride);

		post_quiet(c, (struct wr){.id = i,
					  .op = bind ? UROCE_WR_BIND_MW : UROCE_WR_LOCAL_INV,
					  .flags = SIG,
					  .imm = now ^ 1});
		if (!bind)
			continue;
		q->bind.addr = 0x90100;
		q->bind.length = 256;
		q->bind.mr_lkey = r->mr.key;
		q->bind.mw_rkey = now;
		q->bind.access = MEM_REMOTE_WRITE;
		q->bind.new_rkey = now ^ 1;
	}
	ring_doorbell(c);
}

REQUIREMENT("MEM-04")
BENCH_TEST(local_operations_of_one_turn_have_a_limit)
{
	struct conn *c = deep_conn(state, conn_rc), *other = conn_open(*state, conn_rc);
	struct bench *b = *state;
	struct bench_region *r = region_add(b, 7, 0x90000, 4096, MEM_LOCAL_WRITE | MEM_MW_BIND);
	struct mr mw = {.kind = MR_WINDOW_2, .pd = 7};
	uint32_t runs = 0, n = 0, k;
	uint64_t next = 0;
	bool more = true;

	assert_int_equal(mr_table_add(&b->mrs, &mw, bench_key(b)), 0);
	bench_run(b);
	post_local(c, r, mw.key, DEEP);
	for (; more; runs++) {
		if (runs < 20)
			post(other, (struct wr){.id = runs, .op = UROCE_WR_SEND, .len = 8});
		more = engine_run(&b->engine, b->now);
		assert_int_equal(take(b), runs < 20);
		k = poll_in_order(&c->scq, &next, QP_WC_SUCCESS);
		assert_true(k <= ENGINE_WORK);
		n += k;
		assert_true(runs < 2000);
	}
	assert_int_equal(n, DEEP);
	mw_unbind(&mw);
	mr_table_del(&b->mrs, &mw);
}
