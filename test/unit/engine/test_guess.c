/* SPDX-License-Identifier: BSD-3-Clause */
/* A peer that guesses R_Keys: counted, and not for long at the rate that it likes (MEM-01). */
#include <string.h>
#include "harness.h"

#define RQ            0x555000u
#define UC_WRITE_ONLY (WIRE_SVC_UC | WIRE_OP_WRITE_ONLY)
#define WRONG         0x7fedcba9u /* in a slot that has no entry */

static struct conn *
victim(void **state, enum qp_type type)
{
	struct conn_cfg cfg = conn_rc;
	struct conn *c;

	cfg.type = type;
	cfg.rq_psn = RQ;
	cfg.access |= type == QP_TYPE_RC ? MEM_REMOTE_ATOMIC : 0;
	c = conn_open(*state, cfg);
	c->remote->mr.access |= MEM_REMOTE_ATOMIC;
	return c;
}

/* The client reconnects the QP after it has failed. */
static void
again(struct conn *c)
{
	struct conn_cfg cfg = conn_rc;

	cfg.type = c->qp->conn.type;
	cfg.rq_psn = RQ;
	cfg.access |= cfg.type == QP_TYPE_RC ? MEM_REMOTE_ATOMIC : 0;
	assert_int_equal(conn_to(c, QP_RESET), 0);
	c->sq.prod = c->rq.prod = 0;
	conn_raise(c, &cfg);
}

static void
ask(struct conn *c, uint8_t op, uint32_t psn, uint32_t rkey)
{
	peer_put(c,
		 (struct wire_fields){.opcode = op,
				      .psn = psn,
				      .ackreq = true,
				      .va = REMOTE_VA,
				      .rkey = rkey,
				      .inv_rkey = rkey,
				      .dmalen = 8},
		 0, op == WIRE_OP_READ_REQ || op == WIRE_OP_FETCH_ADD ? 0 : 8);
}

static void
events_take(struct bench *b)
{
	b->events_seen = b->nevents = 0;
}

static void
guess(struct conn *c, uint8_t op)
{
	if (op == WIRE_OP_SEND_ONLY_INV)
		recv_post(c, 1, 0, 64);
	ask(c, op, RQ, WRONG);
	bench_run(c->b);
	events_take(c->b);
}

/* Each wrong key is refused as usual up to a limit; then the QP does not respond for a while. */
REQUIREMENT("MEM-01", "NAK-06")
BENCH_TEST(wrong_keys_are_rate_limited)
{
	static const uint8_t ops[] = {WIRE_OP_WRITE_ONLY, WIRE_OP_READ_REQ, WIRE_OP_FETCH_ADD};
	uint32_t i, k;

	for (i = 0; i < 3; i++) {
		struct conn *c = victim(state, QP_TYPE_RC);
		uint64_t counted = OBS(c, RSP_WRONG_KEY), paused = DROPS(c, KEY_PAUSE);

		for (k = 0; k < QP_WRONG_KEYS; k++) {
			guess(c, ops[i]);
			answer_expect(c, RQ, NAK_SYN(REM_ACCESS));
			state_expect(c, QP_ERR);
			again(c);
		}
		guess(c, ops[i]);
		pkt_none(c);
		state_expect(c, QP_RTS);
		assert_int_equal(OBS(c, RSP_WRONG_KEY) - counted, QP_WRONG_KEYS + 1);
		/* A good key or another connection does not end the wait. */
		ask(c, ops[i], RQ, c->remote->mr.key);
		bench_run(c->b);
		pkt_none(c);
		again(c);
		ask(c, ops[i], RQ, c->remote->mr.key);
		bench_run(c->b);
		pkt_none(c);
		assert_int_equal(DROPS(c, KEY_PAUSE) - paused, 3);
		assert_int_equal(c->qp->conn.wrong_keys.total, QP_WRONG_KEYS + 1);
		/* After the wait, retransmitted requests are answered. */
		bench_pass(c->b, QP_WRONG_KEY_NS);
		ask(c, ops[i], RQ, c->remote->mr.key);
		bench_run(c->b);
		assert_int_equal(pkt_count(c), 1);
		assert_int_equal(DROPS(c, KEY_PAUSE) - paused, 3);
		state_expect(c, QP_RTS);
	}
}

/* A SEND with invalidate can guess keys, too. */
REQUIREMENT("MEM-01")
BENCH_TEST(wrong_keys_to_invalidate_count_as_wrong)
{
	struct conn *c = victim(state, QP_TYPE_RC);
	uint32_t k;

	for (k = 0; k <= QP_WRONG_KEYS; k++) {
		guess(c, WIRE_OP_SEND_ONLY_INV);
		answer_expect(c, RQ, NAK_SYN(REM_ACCESS));
		again(c);
	}
	guess(c, WIRE_OP_SEND_ONLY_INV);
	pkt_none(c);
	assert_int_equal(DROPS(c, KEY_PAUSE), 1);
	assert_int_equal(c->qp->conn.wrong_keys.total, QP_WRONG_KEYS + 1);
}

REQUIREMENT("MEM-01", "RSP-06")
BENCH_TEST(unreliable_peer_is_rate_limited_too)
{
	struct conn *c = victim(state, QP_TYPE_UC);
	uint32_t k;

	for (k = 0; k < QP_WRONG_KEYS; k++) {
		guess(c, UC_WRITE_ONLY);
		state_expect(c, QP_ERR);
		again(c);
	}
	for (k = 0; k < 100; k++)
		guess(c, UC_WRITE_ONLY);
	state_expect(c, QP_RTS);
	assert_int_equal(DROPS(c, KEY_PAUSE), 100);
	assert_int_equal(OBS(c, RSP_WRONG_KEY), QP_WRONG_KEYS + 1);
}

/* Rare wrong keys, and a range or right that a valid key lacks, count as program errors. */
REQUIREMENT("MEM-01")
BENCH_TEST(other_errors_are_not_rate_limited)
{
	struct conn *c = victim(state, QP_TYPE_RC);
	uint32_t k;

	for (k = 0; k < 3 * QP_WRONG_KEYS; k++) {
		guess(c, WIRE_OP_WRITE_ONLY);
		answer_expect(c, RQ, NAK_SYN(REM_ACCESS));
		again(c);
		bench_pass(c->b, QP_WRONG_KEY_NS / QP_WRONG_KEYS);
	}
	for (k = 0; k < 3 * QP_WRONG_KEYS; k++) {
		peer_write(c, WIRE_OP_WRITE_ONLY, RQ, REMOTE_VA + BENCH_BYTES, 8, 0, 8);
		bench_run(c->b);
		events_take(c->b);
		answer_expect(c, RQ, NAK_SYN(REM_ACCESS));
		again(c);
	}
	assert_int_equal(DROPS(c, KEY_PAUSE), 0);
	assert_int_equal(OBS(c, RSP_WRONG_KEY), 3 * QP_WRONG_KEYS);
}
