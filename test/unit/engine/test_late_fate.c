/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests whose copied memory was late, but that were executed after all: the program may have
 * seen that and taken the region away before the next attempt (mem/fate.h).
 */
#include <errno.h>
#include <string.h>
#include "harness.h"
#include "mem/fate.h"
#include "../../kit/requirement.h"

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
static void
late_write_needs_no_region_any_more(void **state)
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
static void
rest_of_a_late_write_needs_the_region(void **state)
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
static void
withdrawn_write_is_refused(void **state)
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
static void
write_that_has_not_ended_waits(void **state)
{
	struct mem_fate_result res = {.len = 100};
	struct conn *c = conn_seen(state, QP_TYPE_RC);

	c->remote->runs = true;
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ, REMOTE_VA, 100, 0, 100);
	pkt_none(c);
	bench_pass(c->b, 3 * RETRY_NS);
	pkt_none(c);
	mem_fate_end(c->remote->kept, 0, &res);
	bench_pass(c->b, RETRY_NS);
	ack_expect(c, RQ);
	assert_int_equal(OBS(c, RSP_WRONG_KEY), 0);
}

REQUIREMENT("MEM-05", "MEM-03")
static void
write_that_fails_late_is_refused(void **state)
{
	struct conn *c = conn_seen(state, QP_TYPE_RC);

	c->remote->runs = true;
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ, REMOTE_VA, 100, 0, 100);
	pkt_none(c);
	mem_fate_end(c->remote->kept, -EFAULT, NULL);
	bench_pass(c->b, RETRY_NS);
	answer_expect(c, RQ, NAK_SYN(REM_ACCESS));
}

/* A retransmission under another key is another request. */
REQUIREMENT("MEM-05", "MEM-02")
static void
other_write_with_the_psn_is_refused(void **state)
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
static void
late_write_with_immediate_takes_its_receive(void **state)
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
static void
late_atomic_needs_no_region_any_more(void **state)
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
static void
late_unreliable_write_needs_no_region_any_more(void **state)
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

/* Writes through a window, which the program then unbinds; the region stays. */
static struct conn *
conn_window_unbound(void **state, struct mr *mw)
{
	struct conn *c = conn_seen(state, QP_TYPE_RC);
	struct mw_bind b = {.lkey = c->remote->mr.key,
			    .access = MEM_REMOTE_WRITE,
			    .pd = c->remote->mr.pd,
			    .qpn = c->qp->conn.qpn,
			    .addr = REMOTE_VA,
			    .len = 100};

	c->remote->drop = NULL;
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
static void
late_write_needs_no_window_any_more(void **state)
{
	struct mr mw;
	struct conn *c = conn_window_unbound(state, &mw);

	bench_pass(c->b, RETRY_NS);
	ack_expect(c, RQ);
	assert_int_equal(c->remote->stores, 1);
}

/* While the region is there, too: a WRITE under its own key is another one. */
REQUIREMENT("MEM-05", "RSP-01")
static void
other_write_after_a_late_one_is_written(void **state)
{
	struct mr mw;
	struct conn *c = conn_window_unbound(state, &mw);

	peer_write(c, WIRE_OP_WRITE_ONLY, RQ, REMOTE_VA + 200, 100, 100, 100);
	ack_expect(c, RQ);
	assert_int_equal(c->remote->stores, 2);
	assert_memory_equal(c->remote->bytes + 200, bench_bytes + 100, 100);
}

/* Nobody waits longer for the end of a copy than its region's other users do. */
REQUIREMENT("MEM-05", "MEM-04")
static void
write_that_never_ends_is_refused(void **state)
{
	struct mr mw;
	struct conn *c = conn_window_unbound(state, &mw);

	c->remote->runs = true;
	bench_pass(c->b, 3 * RETRY_NS);
	pkt_none(c);
	c->remote->error = -ETIMEDOUT;
	bench_pass(c->b, RETRY_NS);
	answer_expect(c, RQ, NAK_SYN(REM_ACCESS));
}

/* A SEND's receive has not completed: its buffer still belongs to the QP, and must be registered.
 */
REQUIREMENT("MEM-05", "RSP-05")
static void
late_send_needs_its_region(void **state)
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
static void
atomic_after_a_late_write_is_executed(void **state)
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
static void
atomic_after_a_late_write_needs_the_region(void **state)
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
static void
write_after_a_late_atomic_is_executed(void **state)
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
static void
write_after_a_late_atomic_needs_the_region(void **state)
{
	struct conn *c = conn_seen(state, QP_TYPE_RC);
	struct wire_fields f = fetch_add(c, REMOTE_VA + 64);

	peer_put(c, f, 0, 0);
	pkt_none(c);
	peer_write(c, WIRE_OP_WRITE_ONLY, RQ, REMOTE_VA, 8, 0, 8);
	answer_expect(c, RQ, NAK_SYN(REM_ACCESS));
}

/* The table of fates forgets the oldest, and nothing else. */
REQUIREMENT("MEM-05")
static void
fates_are_forgotten_in_order(void **state)
{
	const uint64_t base = (uint64_t)3 << 56;
	struct mem_fate_result res;
	uint64_t i;

	for (i = 1; i <= MEM_FATES; i++) {
		mem_fate_begin(base + i, NULL);
		assert_int_equal(mem_fate_get(base + i, &res), MEM_FATE_PENDING);
	}
	for (i = 1; i <= MEM_FATES; i++) {
		res = (struct mem_fate_result){.len = (uint32_t)i, .orig = 2 * i};
		mem_fate_end(base + i, i == 6 ? -EFAULT : 0, &res);
	}
	mem_fate_begin(base + MEM_FATES + 3, NULL);
	mem_fate_end(base + 3, 0, &res); /* too late: it lost its cell */
	for (i = 1; i <= MEM_FATES; i++) {
		bool gone = i == 3 || i == 6;

		memset(&res, 0, sizeof(res));
		assert_int_equal(mem_fate_get(base + i, &res),
				 gone ? MEM_FATE_NONE : MEM_FATE_DONE);
		assert_int_equal(res.len, gone ? 0 : i);
		assert_int_equal(res.orig, gone ? 0 : 2 * i);
	}
	assert_int_equal(mem_fate_get(base + MEM_FATES + 3, &res), MEM_FATE_PENDING);
	mem_fate_end(base + MEM_FATES + 3, -EAGAIN, &res);
}

#define SHARE (MEM_FATES / 4) /* of a user: two users here, one of the tests before, one more */

/* One user's many late operations make no other's forgotten: executed WRITEs would be refused. */
REQUIREMENT("MEM-05")
static void
user_with_many_fates_forgets_only_its_own(void **state)
{
	const uint64_t base = (uint64_t)5 << 56, other = (uint64_t)6 << 56,
		       more = (uint64_t)7 << 56;
	struct mem_fate_result res = {.len = 8};
	int users[3];
	uint64_t i, n = 0;

	for (i = 1; i <= SHARE; i++)
		mem_fate_begin(base + i, &users[0]);
	while (n < 10 * MEM_FATES)
		mem_fate_begin(other + ++n, &users[1]);
	for (i = 1; i <= SHARE; i++) {
		assert_int_equal(mem_fate_get(base + i, &res), MEM_FATE_PENDING);
		mem_fate_end(base + i, 0, &res);
	}
	for (i = 1; i <= SHARE; i++)
		mem_fate_begin(more + i, &users[2]);
	while (n < 20 * MEM_FATES)
		mem_fate_begin(other + ++n, &users[1]);
	for (i = 1; i <= SHARE; i++) {
		assert_int_equal(mem_fate_get(base + i, &res), MEM_FATE_DONE);
		assert_int_equal(mem_fate_get(more + i, &res), MEM_FATE_PENDING);
		/* the last operations of that user are still known, too */
		assert_int_equal(mem_fate_get(other + n - SHARE + i, &res), MEM_FATE_PENDING);
	}
	assert_int_equal(mem_fate_get(other + 1, &res), MEM_FATE_NONE);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		bench_test(late_write_needs_no_region_any_more),
		bench_test(rest_of_a_late_write_needs_the_region),
		bench_test(withdrawn_write_is_refused),
		bench_test(write_that_has_not_ended_waits),
		bench_test(write_that_fails_late_is_refused),
		bench_test(other_write_with_the_psn_is_refused),
		bench_test(late_write_with_immediate_takes_its_receive),
		bench_test(late_atomic_needs_no_region_any_more),
		bench_test(late_unreliable_write_needs_no_region_any_more),
		bench_test(late_write_needs_no_window_any_more),
		bench_test(other_write_after_a_late_one_is_written),
		bench_test(write_that_never_ends_is_refused),
		bench_test(late_send_needs_its_region),
		bench_test(atomic_after_a_late_write_is_executed),
		bench_test(atomic_after_a_late_write_needs_the_region),
		bench_test(write_after_a_late_atomic_is_executed),
		bench_test(write_after_a_late_atomic_needs_the_region),
		bench_test(fates_are_forgotten_in_order),
		bench_test(user_with_many_fates_forgets_only_its_own),
	};

	return cmocka_run_group_tests(tests, bench_group_setup, NULL);
}
