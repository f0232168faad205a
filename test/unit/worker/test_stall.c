/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether a stalled worker excuses an ACK timeout (stall.c): every rule at its bounds. */
#include <stdlib.h>
#include <string.h>
#include "worker/worker_parts.h"
#include "../../kit/unit.h"

#define MS    1000000ull
#define NOW   (1000 * MS)
#define SINCE (900 * MS)
#define MID   (950 * MS)
#define DEV   2

static struct worker_set ws;
static struct qp qp;
static struct qp_table qps;

/* Four workers that have always run; the first two have receive queues, the first sends for all. */
static int
setup(void **state)
{
	memset(&ws, 0, sizeof(ws));
	memset(&qp, 0, sizeof(qp));
	qp.bind.port = DEV;
	ws.n = 4;
	assert_int_equal(qp_table_init(&qps, 64), 0);
	for (uint32_t qpn = 0; qpn <= qps.mask; qpn++)
		qp_table_own(&qps, qpn, (uint8_t)(qpn % ws.n));
	for (unsigned i = 0; i < ws.n; i++) {
		struct worker *w = aligned_alloc(64, (sizeof(*w) + 63) & ~63ul);

		assert_non_null(w);
		memset(w, 0, sizeof(*w));
		w->ws = &ws;
		w->engine.qps = &qps;
		w->now_ns = w->ran_ns = w->out_clear_ns = NOW;
		w->dev[DEV].present = true;
		w->dev[DEV].own_queue = i == 0;
		w->dev[DEV].rx_workers = 2;
		ws.worker[i] = w;
	}
	return 0;
}

static int
teardown(void **state)
{
	for (unsigned i = 0; i < ws.n; i++)
		free(ws.worker[i]);
	qp_table_free(&qps);
	return 0;
}

static bool
held_up(unsigned worker)
{
	return stall_held_up(ws.worker[worker], &qp, SINCE);
}

#define TEST(name) UNIT_TEST_IN(name, setup, teardown)

REQUIREMENT("REQ-04")
TEST(running_workers_excuse_no_timeout)
{
	for (unsigned i = 0; i < ws.n; i++)
		assert_false(held_up(i));
}

/* It resumed in the second half of the time: received frames may not be processed yet. */
REQUIREMENT("REQ-04")
TEST(resumed_worker_excuses_timeouts)
{
	for (unsigned i = 0; i < ws.n; i++) {
		ws.worker[i]->resumed_ns = MID;
		assert_false(held_up(i));
		ws.worker[i]->resumed_ns = MID + 1;
		assert_true(held_up(i));
		ws.worker[i]->resumed_ns = 0;
	}
}

/* Responses arrive through the queues of the first two workers; the others do not matter. */
REQUIREMENT("REQ-04")
TEST(stalled_receiving_worker_excuses_timeouts)
{
	for (unsigned i = 0; i < ws.n; i++) {
		struct worker *other = ws.worker[i];

		other->ran_ns = MID - 1;
		assert_int_equal(held_up(3), i < 2 || i == 3);
		assert_int_equal(held_up(2), i < 2 || i == 2);
		other->ran_ns = MID;
		assert_false(held_up(3));
		other->ran_ns = NOW;
		other->resumed_ns = MID + 1;
		assert_int_equal(held_up(3), i < 2 || i == 3);
		other->resumed_ns = 0;
	}
}

/* A sleep is not a stall, however short the timeout is. */
REQUIREMENT("REQ-04")
TEST(sleeping_worker_is_not_stalled)
{
	uint64_t since = NOW - 2 * MS;

	ws.worker[3]->out_clear_ns = ws.worker[0]->out_clear_ns = NOW;
	ws.worker[0]->ran_ns = NOW - WORKER_STALL_NS + 1;
	assert_false(stall_held_up(ws.worker[3], &qp, since));
	ws.worker[0]->ran_ns = NOW - WORKER_STALL_NS;
	assert_true(stall_held_up(ws.worker[3], &qp, since));
}

/* The queue belongs to another worker, which has not sent all frames it got since. */
REQUIREMENT("REQ-04")
TEST(frames_that_another_worker_holds_excuse_timeouts)
{
	ws.worker[0]->out_clear_ns = SINCE;
	for (unsigned i = 0; i < ws.n; i++)
		assert_int_equal(held_up(i), i != 0);
	ws.worker[0]->out_clear_ns = SINCE + 1;
	for (unsigned i = 0; i < ws.n; i++)
		assert_false(held_up(i));
}

/* Our own queue is full, and the port is not taken for dead yet. */
REQUIREMENT("REQ-04")
TEST(frames_that_the_port_refuses_excuse_timeouts)
{
	struct worker_dev *d = &ws.worker[0]->dev[DEV];

	d->refused_since_ns = NOW - WORKER_PORT_DEAD_NS + 1;
	assert_true(held_up(0));
	assert_false(held_up(3));
	d->refused_since_ns = NOW - WORKER_PORT_DEAD_NS;
	assert_false(held_up(0));
}

/* Loopback frames use no port but depend on the worker of the other end. */
REQUIREMENT("REQ-04")
TEST(stalled_worker_of_a_loopback_peer_excuses_timeouts)
{
	qp.conn.loopback = true;
	qp.conn.dest_qpn = 0x1002;
	ws.worker[0]->out_clear_ns = ws.worker[0]->ran_ns = ws.worker[1]->ran_ns = 0;
	assert_false(held_up(3));
	ws.worker[2]->ran_ns = MID - 1;
	assert_true(held_up(3));
}

/* A port counts as dead after refusing for some time, not after a time without attempts. */
TEST(stall_is_not_a_refusal)
{
	struct worker *w = ws.worker[0];

	w->dev[DEV].refused_since_ns = NOW - 300 * MS;
	stall_over(w, 290 * MS);
	assert_int_equal(w->resumed_ns, NOW);
	assert_int_equal(w->dev[DEV].refused_since_ns, NOW - 10 * MS);
	assert_int_equal(w->dev[DEV + 1].refused_since_ns, 0);
	for (int i = 0; i < 4; i++)
		stall_over(w, MS);
	assert_int_equal(w->dev[DEV].refused_since_ns, NOW - 8 * MS);
}
