/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The pool of selective repeat (qp/selective.h) between users, and between the peers of one user:
 * one of them takes all it can get, and the next one still gets parts of each kind.
 */
#include <stdlib.h>
#include <string.h>
#include "qp/qp.h"
#include "qp/selective.h"
#include "../../kit/unit.h"

#define ALICE 1000u
#define BOB   1001u
#define CAROL 1002u
#define BUFS  1000u

static struct {
	struct qp_sr_pool *pool;
	struct counter_block counters;
	struct qp *qp[2 * QP_SR_QPS];
	uint32_t nqps;
	uint8_t bufs; /* its address stands for a mempool */
} t;

static int
setup(void **state)
{
	t.pool = qp_sr_pool_create((const struct rte_mempool *)&t.bufs, BUFS);
	t.nqps = 0;
	return t.pool == NULL;
}

static int
teardown(void **state)
{
	while (t.nqps != 0) {
		struct qp *qp = t.qp[--t.nqps];

		qp_sr_drop(t.pool, qp);
		free(qp);
	}
	assert_true(qp_sr_pool_whole(t.pool));
	assert_int_equal(t.pool->scoreboards.nfree, QP_SR_QPS);
	qp_sr_pool_free(t.pool);
	return 0;
}

/* A QP of this user whose peer has this address. */
static struct qp *
qp_of(uint32_t uid, uint8_t peer)
{
	struct qp *qp = calloc(1, sizeof(*qp));

	assert_non_null(qp);
	assert_true(t.nqps < RTE_DIM(t.qp));
	t.qp[t.nqps++] = qp;
	qp->bind.counters = &t.counters;
	qp->bind.run_user = qp_user_place(uid);
	qp->conn.type = QP_TYPE_RC;
	memcpy(qp->conn.dgid, (uint8_t[16]){[10] = 0xff, 0xff, 10, 9, 0, peer}, 16);
	qp_sr_set(t.pool, qp, QP_SR_ON);
	return qp;
}

/* The last QP is not needed if it has got nothing. */
static bool
got(bool some)
{
	if (!some)
		free(t.qp[--t.nqps]);
	return some;
}

static bool
takes_reorder(uint32_t uid, uint8_t peer)
{
	return got(qp_reorder_take(t.pool, qp_of(uid, peer)) != NULL);
}

static bool
takes_idle_scoreboard(uint32_t uid, uint8_t peer)
{
	return got(qp_scoreboard_take(t.pool, qp_of(uid, peer)) != NULL);
}

/* A scoreboard on which a packet is lost. */
static bool
takes_scoreboard(uint32_t uid, uint8_t peer)
{
	if (!takes_idle_scoreboard(uid, peer))
		return false;
	qp_psns_add(&t.qp[t.nqps - 1]->bind.scoreboard->lost, 1);
	t.qp[t.nqps - 1]->conn.snd.high_psn = 2;
	return true;
}

/*
 * How many parts QPs of npeers peers can take in turns. Several attempts in a row must fail: each
 * looks at some idle scoreboards only.
 */
static uint32_t
takes_all(bool (*take)(uint32_t, uint8_t), uint32_t uid, uint32_t npeers)
{
	uint32_t n = 0, failed = 0;

	for (uint32_t i = 0; failed < QP_SR_QPS; i++) {
		bool took = take(uid, (uint8_t)(1 + i % npeers));

		failed = took ? 0 : failed + 1;
		n += took;
	}
	return n;
}

#define TEST(name) UNIT_TEST_IN(name, setup, teardown)

REQUIREMENT("SR-03")
TEST(a_user_leaves_lists_and_scoreboards_to_others)
{
	static bool (*const kinds[])(uint32_t, uint8_t) = {takes_reorder, takes_scoreboard};

	for (uint32_t i = 0; i < RTE_DIM(kinds); i++) {
		uint32_t alice = takes_all(kinds[i], ALICE, 40);
		uint32_t bob = takes_all(kinds[i], BOB, 1);

		assert_in_range(alice, QP_SR_QPS / 4, QP_SR_QPS / 2);
		assert_in_range(bob, QP_SR_QPS / 10, QP_SR_QPS / 4);
		assert_true(takes_all(kinds[i], CAROL, 1) >= QP_SR_QPS / 16);
		teardown(state);
		setup(state);
	}
}

REQUIREMENT("SR-03")
TEST(a_peer_leaves_lists_and_scoreboards_to_others_of_its_user)
{
	static bool (*const kinds[])(uint32_t, uint8_t) = {takes_reorder, takes_scoreboard};

	for (uint32_t i = 0; i < RTE_DIM(kinds); i++) {
		assert_in_range(takes_all(kinds[i], ALICE, 1), QP_SR_QPS / 5, QP_SR_QPS / 4);
		assert_true(kinds[i](ALICE, 2));
		assert_true(kinds[i](ALICE, 2));
		assert_true(kinds[i](BOB, 1));
		teardown(state);
		setup(state);
	}
}

/* Puts early requests into lists of QPs of this user until one is refused. Returns their number. */
static uint32_t
holds(uint32_t uid, uint8_t peer, const struct rte_mempool *bufs)
{
	static uint8_t frame[QP_SR_FRAME_BYTES];
	static struct rte_mbuf m;
	struct wire_pkt pkt = {.l2 = frame, .ip = frame, .bth = frame, .payload = frame};
	bool kept;

	m.pool = (struct rte_mempool *)(uintptr_t)bufs;
	for (uint32_t n = 0;;) {
		struct qp_reorder *h = qp_reorder_take(t.pool, qp_of(uid, peer));

		assert_non_null(h);
		for (pkt.psn = 1; pkt.psn < QP_SR_WINDOW; pkt.psn++, n++) {
			uint32_t was = t.pool->kept.nfree;

			if (!qp_reorder_put(t.pool, h, &pkt, 64, &m, &kept))
				return n;
			assert_int_equal(kept, was != t.pool->kept.nfree);
			h->n++;
		}
	}
}

/* Returns the requests that the QPs from number first on hold. */
static void
release(uint32_t first)
{
	for (; first < t.nqps; first++) {
		struct qp_reorder *h = t.qp[first]->bind.reorder;

		for (uint32_t psn = 1; psn < QP_SR_WINDOW && h != NULL && h->n != 0; psn++, h->n--)
			(void)qp_reorder_release(t.pool, h, psn);
	}
}

REQUIREMENT("SR-03")
TEST(early_requests_of_a_user_leave_memory_to_others)
{
	uint32_t alice = holds(ALICE, 1, (const void *)&t.bufs);

	assert_int_equal(alice, BUFS / 4 + QP_SR_FRAMES / 4);
	/* Another peer of the same user, and another user. */
	assert_true(holds(ALICE, 2, (const void *)&t.bufs) >= QP_SR_FRAMES / 16);
	assert_true(holds(BOB, 1, (const void *)&t.bufs) >= QP_SR_FRAMES / 16);
	release(0);
}

/*
 * Idle scoreboards stay with their QPs until another QP needs them: one of the same user and peer,
 * or one whose user has fewer.
 */
REQUIREMENT("SR-03")
TEST(idle_scoreboards_go_to_users_with_fewer)
{
	const uint16_t *user = t.pool->scoreboards.user;
	uint32_t alice = qp_user_place(ALICE), n, uid;

	for (n = 0; n < QP_SR_QPS / 2; n++)
		assert_true(takes_idle_scoreboard(ALICE, 1));
	assert_int_equal(user[alice], QP_SR_QPS / 4);
	/* They are taken by others once no free ones are left for these. */
	for (uid = BOB; uid < BOB + 8; uid++)
		takes_all(takes_scoreboard, uid, 1);
	for (uid = BOB; uid < BOB + 8; uid++)
		assert_true(user[qp_user_place(uid)] != 0);
	/* Not all: they have as many now, and take no more. */
	assert_in_range(user[alice], 2, QP_SR_QPS / 8);
}
