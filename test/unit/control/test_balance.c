/* SPDX-License-Identifier: BSD-3-Clause */
/* Which QP moves to another worker, for balance. */
#include <stdlib.h>
#include <string.h>
#include "control/balance.h"
#include "control/device.h"
#include "control/obj.h"
#include "fake.h"
#include "../../kit/unit.h"

#define WORKERS 4
#define QPS     8
#define NONE    -1

/* qp: bytes of each, and its worker; the row ends with 0 bytes. */
static const struct {
	const char *what;
	uint32_t busy[WORKERS];
	struct balance_qp qp[QPS];
	int moves, to;
} table[] = {
	{"nothing to do", {0, 0, 0, 0}, {{10, 0}, {10, 0}}, NONE, 0},
	{"a QP alone stays", {900, 0, 0, 0}, {{10, 0}}, NONE, 0},
	{"two QPs", {900, 0, 0, 0}, {{10, 0}, {10, 0}}, 0, 1},
	{"to the least busy worker", {900, 300, 100, 200}, {{10, 0}, {10, 0}, {10, 1}}, 0, 2},
	{"not the lone one of the busiest worker",
	 {1000, 800, 100, 300},
	 {{10, 0}, {10, 1}, {10, 1}},
	 1,
	 2},
	{"a difference of less than a fifth", {590, 400, 400, 400}, {{10, 0}, {10, 0}}, NONE, 0},
	{"a difference of a fifth", {600, 400, 400, 400}, {{9, 0}, {9, 0}, {9, 0}, {9, 0}}, 0, 1},
	{"the part closest to half of the difference",
	 {800, 0, 800, 800},
	 {{20, 0}, {70, 0}, {10, 0}},
	 1,
	 1},
	{"a large part and a small one", {800, 0, 800, 800}, {{97, 0}, {3, 0}}, 1, 1},
	{"fixed, pinned by an operator, or moved shortly before",
	 {800, 0, 0, 0},
	 {{50, 0, true}, {50, 0, true}},
	 NONE,
	 0},
	{"one of two stays", {800, 0, 0, 0}, {{50, 0, true}, {50, 0}}, 1, 1},
	{"busy with others' frames", {800, 0, 0, 0}, {{50, 1}, {50, 2}}, NONE, 0},
	{"all are busy all the time", {1000, 1000, 1000, 1000}, {{1, 0}, {1, 0}, {1, 0}}, NONE, 0},
	{"many bytes", {1000, 0, 0, 0}, {{1ull << 50, 0}, {1ull << 50, 0}}, 0, 1},
};

UNIT_TEST(choices)
{
	for (unsigned i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		uint32_t n = 0, to = 99, chosen;

		while (n < QPS && table[i].qp[n].bytes != 0)
			n++;
		chosen = balance_choose(table[i].busy, WORKERS, table[i].qp, n, &to);
		if (chosen != (table[i].moves == NONE ? n : (uint32_t)table[i].moves) ||
		    (chosen != n && to != (uint32_t)table[i].to))
			fail_msg("%s: QP %u to worker %u", table[i].what, chosen, to);
	}
}

/* The busy time that each worker's QPs cause, at most all of it, with noise of 3 %. */
static void
busy_of(const struct balance_qp *qp, const uint32_t *cost, uint32_t n, uint32_t *busy)
{
	memset(busy, 0, WORKERS * sizeof(*busy));
	for (uint32_t i = 0; i < n; i++)
		busy[qp[i].worker] += cost[i];
	for (uint32_t w = 0; w < WORKERS; w++) {
		busy[w] += (uint32_t)rand() % 30;
		busy[w] = busy[w] < 1000 ? busy[w] : 1000;
	}
}

static uint64_t
sum_of_squares(const struct balance_qp *qp, const uint32_t *cost, uint32_t n)
{
	uint64_t load[WORKERS] = {0}, sum = 0;

	for (uint32_t i = 0; i < n; i++)
		load[qp[i].worker] += cost[i];
	for (uint32_t w = 0; w < WORKERS; w++)
		sum += load[w] * load[w];
	return sum;
}

/* Random QPs with steady traffic: each move evens out the real loads, so the moves end. */
UNIT_TEST(moves_end)
{
	srand(1);
	for (unsigned round = 0; round < 2000; round++) {
		struct balance_qp qp[16];
		uint32_t cost[16], n = 2 + (uint32_t)rand() % 15, busy[WORKERS], to, i;

		for (i = 0; i < n; i++) {
			cost[i] = 1 + (uint32_t)rand() % (1000 / n);
			qp[i] = (struct balance_qp){cost[i], (uint32_t)rand() % WORKERS, false};
		}
		for (unsigned second = 0; second < 100; second++) {
			uint64_t before = sum_of_squares(qp, cost, n);

			busy_of(qp, cost, n, busy);
			i = balance_choose(busy, WORKERS, qp, n, &to);
			if (i == n)
				continue;
			qp[i].worker = to;
			assert_true(sum_of_squares(qp, cost, n) < before);
		}
	}
}

/* The counters of a QP that is reset begin again at 0. */
UNIT_TEST(qp_that_begins_again_has_no_part)
{
	struct qp qp[3] = {{.conn.rx_bytes = 1000000}};
	struct obj_qp q[3] = {{.qp = &qp[0]}, {.qp = &qp[1]}, {.qp = &qp[2]}};
	struct daemon d;

	fake_open(&d);
	for (unsigned i = 0; i < 3; i++)
		TAILQ_INSERT_TAIL(&d.dev[0]->qps, &q[i], dev_link);
	assert_int_equal(balance_start(&d), 0);
	qp[0].conn.rx_bytes = 10;
	qp[1].conn.rx_bytes = 500;
	qp[2].conn.tx_bytes = 500;
	fake_busy_ns[0] = fake_now_ns; /* all the time */
	fake_now_ns += NS_PER_S;
	balance_look(&d);
	assert_ptr_equal(fake_moved, &qp[1]);
	balance_stop(&d);
	fake_close(&d);
}
