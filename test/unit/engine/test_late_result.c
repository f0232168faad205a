/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests whose copied memory was late, but that were executed after all: the program may have
 * seen that and taken the region away before the next attempt (mem/late.h).
 */
#include <errno.h>
#include <string.h>
#include "harness.h"

#define RQ       conn_rc.rq_psn
#define MTU      1024
#define RETRY_NS 100000u /* of engine/rx_late.c */
#define MS       1000000ull
#define UC(op)   (WIRE_SVC_UC | WIRE_OP_##op)

/* The first access to its remote region is executed, but late; the program then deregisters it. */
static struct conn *
conn_seen(void **state, enum qp_type type)
{
	struct conn_cfg cfg = conn_rc;
	struct conn *c;

	cfg.type = type;
	cfg.access |= MEM_REMOTE_ATOMIC;
	c = conn_open(*state, cfg);
	c->remote->mr.access |= MEM_REMOTE_ATOMIC;
	region_by_ops(c->local, UINT32_MAX);
	region_by_ops(c->remote, UINT32_MAX);
	c->remote->late = 1;
	c->remote->late_done = true;
	c->remote->drop = c->b;
	return c;
}

/* A fetch and add of 5. */
static struct wire_fields
fetch_add(const struct conn *c, uint64_t va)
{
	return (struct wire_fields){.opcode = WIRE_OP_FETCH_ADD,
				    .psn = RQ,
				    .ackreq = true,
				    .va = va,
				    .rkey = c->remote->mr.key,
				    .swap_add = 5};
}

REQUIREMENT("MEM-05", "RSP-01")
BENCH_TEST(late_write_needs_no_region_any_more)
{
	struct conn *c = conn_seen(state, QP_TYPE_RC);

	peer_write(c, WIRE_OP_WRITE_ONLY, RQ, REMOTE_VA, 100, 0, 100);
	pkt_none(c);
	assert_int_equal(c->remote->stores, 1);
	bench_pass(c->b, RETRY_NS);
	ack_expect(c, RQ);
	assert_int_equal(c->remote->stores, 1);
	/* Later requests are refused. */
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ + 1, REMOTE_VA, 100, 0, 100);
	answer_expect(c, RQ + 1, NAK_SYN(REM_ACCESS));
}

/* Only the written bytes: the rest of the message needs the region. */
REQUIREMENT("MEM-05", "MEM-03")
BENCH_TEST(rest_of_a_late_write_needs_the_region)
{
	struct conn *c = conn_seen(state, QP_TYPE_RC);

	peer_write(c, WIRE_OP_WRITE_FIRST, RQ, REMOTE_VA, MTU + 9, 0, MTU);
	pkt_none(c);
	bench_pass(c->b, RETRY_NS);
	ack_expect(c, RQ);
	peer_write(c, WIRE_OP_WRITE_LAST, RQ + 1, 0, 0, MTU, 9);
	answer_expect(c, RQ + 1, NAK_SYN(REM_ACCESS));
	assert_int_equal(c->remote->stores, 1);
}

REQUIREMENT("MEM-05", "MEM-03")
BENCH_TEST(withdrawn_write_is_refused)
{
	struct conn *c = conn_seen(state, QP_TYPE_RC);

	c->remote->late_done = false;
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ, REMOTE_VA, 100, 0, 100);
	pkt_none(c);
	region_drop(c->b, c->remote);
	bench_pass(c->b, RETRY_NS);
	answer_expect(c, RQ, NAK_SYN(REM_ACCESS));
	assert_int_equal(c->remote->stores, 0);
}

/* The program may see the last byte before the copy has ended. */
REQUIREMENT("MEM-05", "RSP-01")
BENCH_TEST(write_that_has_not_ended_waits)
{
	struct conn *c = conn_seen(state, QP_TYPE_RC);

	c->remote->runs = true;
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ, REMOTE_VA, 100, 0, 100);
	pkt_none(c);
	bench_pass(c->b, 3 * RETRY_NS);
	pkt_none(c);
	c->remote->runs = false;
	bench_pass(c->b, RETRY_NS);
	ack_expect(c, RQ);
	assert_int_equal(OBS(c, RSP_WRONG_KEY), 0);
}

REQUIREMENT("MEM-05", "MEM-03")
BENCH_TEST(write_that_fails_late_is_refused)
{
	struct conn *c = conn_seen(state, QP_TYPE_RC);

	c->remote->runs = true;
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ, REMOTE_VA, 100, 0, 100);
	pkt_none(c);
	c->remote->lost = true;
	c->remote->runs = false;
	bench_pass(c->b, RETRY_NS);
	answer_expect(c, RQ, NAK_SYN(REM_ACCESS));
}

/* A retransmission under another key is another request. */
REQUIREMENT("MEM-05", "MEM-02")
BENCH_TEST(other_write_with_the_psn_is_refused)
{
	struct conn *c = conn_seen(state, QP_TYPE_RC);

	peer_write(c, WIRE_OP_WRITE_ONLY, RQ, REMOTE_VA, 100, 0, 100);
	pkt_none(c);
	peer_put(c,
		 (struct wire_fields){.opcode = WIRE_OP_WRITE_ONLY,
				      .psn = RQ,
				      .ackreq = true,
				      .va = REMOTE_VA,
				      .rkey = c->remote->mr.key ^ 1,
				      .dmalen = 100},
		 0, 100);
	answer_expect(c, RQ, NAK_SYN(REM_ACCESS));
}

/* It has taken its receive WQE before. */
REQUIREMENT("MEM-05", "RSP-05")
BENCH_TEST(late_write_with_immediate_takes_its_receive)
{
	struct conn *c = conn_seen(state, QP_TYPE_RC);
	struct wire_fields f = {.opcode = WIRE_OP_WRITE_ONLY_IMM,
				.psn = RQ,
				.ackreq = true,
				.va = REMOTE_VA,
				.rkey = c->remote->mr.key,
				.dmalen = 100,
				.imm = 5};

	recv_post(c, 1, 0, 0);
	peer_put(c, f, 0, 100);
	pkt_none(c);
	bench_pass(c->b, RETRY_NS);
	recv_cqe(c, 1, QP_WC_SUCCESS);
	ack_expect(c, RQ);
	assert_int_equal(c->remote->stores, 1);
}

REQUIREMENT("MEM-05", "RSP-04")
BENCH_TEST(late_atomic_needs_no_region_any_more)
{
	struct conn *c = conn_seen(state, QP_TYPE_RC);
	struct wire_fields f = fetch_add(c, REMOTE_VA);
	uint64_t word = 37;

	memcpy(c->remote->bytes, &word, sizeof(word));
	peer_put(c, f, 0, 0);
	pkt_none(c);
	bench_pass(c->b, RETRY_NS);
	assert_int_equal(pkt_expect(c, WIRE_OP_ATOMIC_ACK, RQ).orig, 37);
	pkt_none(c);
	memcpy(&word, c->remote->bytes, sizeof(word));
	assert_int_equal(word, 42);
	f.psn = RQ + 1;
	peer_put(c, f, 0, 0);
	answer_expect(c, RQ + 1, NAK_SYN(REM_ACCESS));
}

/* On UC, a refused key would put the QP into ERR. */
REQUIREMENT("MEM-05", "RSP-06")
BENCH_TEST(late_unreliable_write_needs_no_region_any_more)
{
	struct conn *c = conn_seen(state, QP_TYPE_UC);

	peer_write(c, UC(WRITE_ONLY), RQ, REMOTE_VA, 100, 0, 100);
	bench_run(c->b);
	bench_pass(c->b, MS);
	state_expect(c, QP_RTS);
	assert_int_equal(c->remote->stores, 1);
	event_none(c->b);
	peer_write(c, UC(WRITE_ONLY), RQ + 1, REMOTE_VA, 100, 0, 100);
	bench_run(c->b);
	state_expect(c, QP_ERR);
	event_expect(c->b, QP_EVENT_QP_ACCESS_ERR);
}

/* Writes through a window, which the program then unbinds; the region stays. runs: for good. */
static struct conn *
conn_window_unbound(void **state, struct mr *mw, bool runs)
{
	struct conn *c = conn_seen(state, QP_TYPE_RC);
	struct mw_bind b = {.lkey = c->remote->mr.key,
			    .access = MEM_REMOTE_WRITE,
			    .pd = c->remote->mr.pd,
			    .qpn = c->qp->conn.qpn,
			    .addr = REMOTE_VA,
			    .len = 100};

	c->remote->drop = NULL;
	c->remote->runs = runs;
	c->remote->mr.access |= MEM_MW_BIND;
	*mw = (struct mr){.kind = MR_WINDOW_1, .pd = c->remote->mr.pd};
	assert_int_equal(mr_table_add(&c->b->mrs, mw, bench_key(c->b)), 0);
	b.key = b.new_key = mw->key;
	assert_true(mw_bind(&c->b->mrs, &b));
	peer_put(c,
		 (struct wire_fields){.opcode = WIRE_OP_WRITE_ONLY,
				      .psn = RQ,
				      .ackreq = true,
				      .va = REMOTE_VA,
				      .rkey = mw->key,
				      .dmalen = 100},
		 0, 100);
	pkt_none(c);
	assert_int_equal(c->remote->stores, 1);
	mw_unbind(mw);
	mr_table_del(&c->b->mrs, mw);
	return c;
}

REQUIREMENT("MEM-05", "MEM-04")
BENCH_TEST(late_write_needs_no_window_any_more)
{
	struct mr mw;
	struct conn *c = conn_window_unbound(state, &mw, false);

	bench_pass(c->b, RETRY_NS);
	ack_expect(c, RQ);
	assert_int_equal(c->remote->stores, 1);
}

/* While the region is there, too: a WRITE under its own key is another one. */
REQUIREMENT("MEM-05", "RSP-01")
BENCH_TEST(other_write_after_a_late_one_is_written)
{
	struct mr mw;
	struct conn *c = conn_window_unbound(state, &mw, false);

	peer_write(c, WIRE_OP_WRITE_ONLY, RQ, REMOTE_VA + 200, 100, 100, 100);
	ack_expect(c, RQ);
	assert_int_equal(c->remote->stores, 2);
	assert_memory_equal(c->remote->bytes + 200, bench_bytes + 100, 100);
}

/* Nobody waits longer for the end of a copy than its region's other users do. */
REQUIREMENT("MEM-05", "MEM-04")
BENCH_TEST(write_that_never_ends_is_refused)
{
	struct mr mw;
	struct conn *c = conn_window_unbound(state, &mw, true);

	bench_pass(c->b, 3 * RETRY_NS);
	pkt_none(c);
	c->remote->error = -ETIMEDOUT;
	bench_pass(c->b, RETRY_NS);
	answer_expect(c, RQ, NAK_SYN(REM_ACCESS));
}

/* A SEND's receive has not completed: its buffer still belongs to the QP, and must be registered.
 */
REQUIREMENT("MEM-05", "RSP-05")
BENCH_TEST(late_send_needs_its_region)
{
	struct conn *c = conn_seen(state, QP_TYPE_RC);

	recv_post(c, 1, 0, 100);
	c->local->late = 1;
	c->local->late_done = true;
	c->local->drop = c->b;
	peer_send(c, WIRE_OP_SEND_ONLY, RQ, 0, 100);
	pkt_none(c);
	bench_pass(c->b, RETRY_NS);
	answer_expect(c, RQ, NAK_SYN(REM_OP));
	recv_cqe(c, 1, QP_WC_LOC_PROT_ERR);
}

/*
 * A WRITE was late and executed. A request of another kind with its PSN is another request: it is
 * executed, and its response does not have what the WRITE's copy left.
 */
REQUIREMENT("MEM-05", "RSP-04")
BENCH_TEST(atomic_after_a_late_write_is_executed)
{
	struct conn *c = conn_seen(state, QP_TYPE_RC);
	struct wire_fields f = fetch_add(c, REMOTE_VA + 64);
	uint64_t word = 37;

	c->remote->drop = NULL;
	memcpy(c->remote->bytes + 64, &word, sizeof(word));
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ, REMOTE_VA, 8, 0, 8);
	pkt_none(c);
	assert_int_equal(c->remote->stores, 1);
	peer_put(c, f, 0, 0);
	assert_int_equal(pkt_expect(c, WIRE_OP_ATOMIC_ACK, RQ).orig, 37);
	assert_int_equal(c->remote->stores, 2);
}

/* The same without the region: it is refused. */
REQUIREMENT("MEM-05", "MEM-03")
BENCH_TEST(atomic_after_a_late_write_needs_the_region)
{
	struct conn *c = conn_seen(state, QP_TYPE_RC);
	struct wire_fields f = fetch_add(c, REMOTE_VA);

	peer_write(c, WIRE_OP_WRITE_ONLY, RQ, REMOTE_VA, 8, 0, 8);
	pkt_none(c);
	peer_put(c, f, 0, 0);
	answer_expect(c, RQ, NAK_SYN(REM_ACCESS));
}

/* The other way round. */
REQUIREMENT("MEM-05", "RSP-01")
BENCH_TEST(write_after_a_late_atomic_is_executed)
{
	struct conn *c = conn_seen(state, QP_TYPE_RC);
	struct wire_fields f = fetch_add(c, REMOTE_VA + 64);

	c->remote->drop = NULL;
	peer_put(c, f, 0, 0);
	pkt_none(c);
	assert_int_equal(c->remote->stores, 1);
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ, REMOTE_VA, 8, 0, 8);
	ack_expect(c, RQ);
	assert_int_equal(c->remote->stores, 2);
	assert_memory_equal(c->remote->bytes, bench_bytes, 8);
}

/* The same without the region: it is refused. */
REQUIREMENT("MEM-05", "MEM-03")
BENCH_TEST(write_after_a_late_atomic_needs_the_region)
{
	struct conn *c = conn_seen(state, QP_TYPE_RC);
	struct wire_fields f = fetch_add(c, REMOTE_VA + 64);

	peer_put(c, f, 0, 0);
	pkt_none(c);
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ, REMOTE_VA, 8, 0, 8);
	answer_expect(c, RQ, NAK_SYN(REM_ACCESS));
}

/* A QP that is reset or destroyed while its operation is pending: nobody asks for the result. */
REQUIREMENT("MEM-05")
BENCH_TEST(qp_that_goes_forgets_its_late_write)
{
	struct conn *c = conn_seen(state, QP_TYPE_RC);

	c->remote->drop = NULL;
	c->remote->runs = true;
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ, REMOTE_VA, 100, 0, 100);
	pkt_none(c);
	assert_int_equal(c->remote->forgotten, 0);
	assert_ptr_equal(c->b->engine.env.late_ops.first, &c->qp->bind.late_op.op);
	engine_forget(&c->b->engine, c->qp);
	assert_int_equal(c->remote->forgotten, 1);
	assert_null(c->b->engine.env.late_ops.first);
}

/* Three QPs wait; the results come in any order. */
REQUIREMENT("MEM-05", "RSP-01")
BENCH_TEST(late_writes_of_several_qps_end_by_themselves)
{
	struct conn *c[3];

	for (uint32_t i = 0; i < 3; i++) {
		struct conn_cfg cfg = conn_rc;

		cfg.qpn = BENCH_QPN + 2 * i;
		c[i] = conn_open(*state, cfg);
		region_by_ops(c[i]->remote, UINT32_MAX);
		c[i]->remote->late = 1;
		c[i]->remote->late_done = c[i]->remote->runs = true;
		peer_write(c[i], WIRE_OP_WRITE_ONLY, RQ, REMOTE_VA, 100, 0, 100);
		pkt_none(c[i]);
	}
	for (uint32_t i = 0; i < 3; i++) {
		struct conn *now = c[(i + 1) % 3];

		now->remote->runs = false;
		bench_pass(now->b, RETRY_NS);
		ack_expect(now, RQ);
		assert_int_equal(now->remote->stores, 1);
	}
	assert_null(c[0]->b->engine.env.late_ops.first);
}
