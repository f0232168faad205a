/* SPDX-License-Identifier: BSD-3-Clause */
/* QPs that move between workers (lib/worker/move.c), with the fake engine. */
#include <stdlib.h>
#include <string.h>
#include "bench.h"

#define QPN 0x123u

static struct qp *
qpn_on(uint32_t qpn, unsigned i)
{
	struct qp *qp = calloc(1, sizeof(*qp));

	assert_non_null(qp);
	qp->conn.type = QP_TYPE_RC;
	qp->conn.qpn = qpn;
	qp->bind.worker = (uint16_t)i;
	assert_int_equal(worker_adopt_qp(worker_get(ws, i), qp), 0);
	qp_table_own(&qps, qpn, i);
	__atomic_store_n(&qps.slot[qpn & qps.mask], qp, __ATOMIC_RELEASE);
	return qp;
}

/* A QP on worker i, whose frames the fake engine checks: they have numbers from 0 on. */
static struct qp *
qp_on(unsigned i)
{
	return qpn_on(QPN, i);
}

static void
forget(struct worker *w, void *arg)
{
	worker_forget_qp(w, arg);
}

static void
qp_off(struct qp *qp)
{
	__atomic_store_n(&qps.slot[qp->conn.qpn & qps.mask], NULL, __ATOMIC_RELEASE);
	worker_call_qp(ws, qp, forget, qp);
	worker_wait_readers(ws);
	free(qp);
}

/* Sends a frame for the QP, which comes to worker 0. */
static void
send_to_qp(uint32_t seq)
{
	struct rte_mbuf *m = fake_frame_make(pool, FAKE_QP, 0, seq);

	assert_non_null(m);
	rte_pktmbuf_mtod(m, struct fake_frame *)->qpn = QPN;
	assert_true(WAIT_FOR(port_tx_burst(far[0].id, 0, &m, 1) == 1));
}

/* Frames that have come to the QP, on whatever worker. */
static uint32_t
received(void)
{
	uint32_t n = 0;

	for (unsigned i = 0; i < nworkers; i++)
		n += FAKE_COUNT(fake[i].rx_n);
	return n;
}

static void
all_came(uint32_t before, uint32_t n)
{
	assert_true(WAIT_FOR(received() - before == n));
	assert_int_equal(__atomic_load_n(&fake_disorder, __ATOMIC_RELAXED), 0);
}

/* 500 frames fit the rings between workers even if these are not read. */

UNIT_TEST(qp_follows_its_frames)
{
	struct qp *qp = qp_on(nworkers - 1);
	uint32_t n = received(), i;

	/* 63 frames: no worker asks */
	for (i = 0; i < 63; i++)
		send_to_qp(i);
	all_came(n, 63);
	assert_int_equal(qp_worker(qp), nworkers - 1);
	/* as many as it may ask for, and some that come to the QP's own worker */
	for (; i < 200; i++)
		send_to_qp(i);
	all_came(n, 200);
	assert_int_equal(qp_worker(qp), 0);
	assert_int_equal(qp->bind.moves, nworkers != 1);
	qp_off(qp);
}

UNIT_TEST(qp_stays_where_most_frames_come)
{
	struct qp *qp = qp_on(nworkers - 1);
	uint32_t n = received(), i;

	/* As if its own worker had got more: the first to ask, for 64 to 127 frames, is refused. */
	qp->bind.rx_bytes_asked = 0 - 1000000ull;
	for (i = 0; i < 127; i++)
		send_to_qp(i);
	all_came(n, 127);
	assert_int_equal(qp_worker(qp), nworkers - 1);
	assert_int_equal(qp->bind.moves, 0);
	for (; i < 255; i++)
		send_to_qp(i);
	all_came(n, 255);
	assert_int_equal(qp_worker(qp), 0);
	qp_off(qp);
}

UNIT_TEST(frames_of_a_moving_qp_keep_their_order)
{
	struct qp *qp = qp_on(0);
	uint32_t n = received(), i, seq = 0;

	qp->bind.pinned = true;
	for (i = 1; i <= 500; i++) {
		for (uint32_t k = 0; k < i % 8; k++)
			send_to_qp(seq++);
		assert_null(worker_move_qp(ws, qp, i % nworkers));
		assert_int_equal(qp_worker(qp), i % nworkers);
	}
	all_came(n, seq);
	assert_int_equal(qp->bind.moves, nworkers != 1 ? 500 : 0);
	qp_off(qp);
}

/* Worker i sends n frames that loop back. */
static void
loop_back(unsigned i, uint32_t qpn, uint32_t first, uint32_t n)
{
	struct sending s = {
		.dev = near[0].id, .loopback = true, .qpn = qpn, .first = first, .n = n};

	worker_call(worker_get(ws, i), start_sending, &s);
}

UNIT_TEST(frames_that_loop_back_keep_their_order)
{
	struct qp *qp = qp_on(nworkers - 1);
	uint32_t n = received(), i;

	qp->bind.pinned = true;
	for (i = 0; i < 20; i++) {
		loop_back(0, QPN, i * 100, 100);
		assert_null(worker_move_qp(ws, qp, i % 2 != 0 ? nworkers - 1 : 0));
		all_came(n, (i + 1) * 100);
	}
	qp_off(qp);
}

/* The QP that sends them moves, the other one does not. */
UNIT_TEST(frames_that_a_moving_qp_loops_back_keep_their_order)
{
	struct qp *to = qp_on(0), *from = qpn_on(QPN + 1, nworkers - 1);
	struct sending s = {.dev = near[0].id, .loopback = true, .qpn = QPN, .n = 500, .qp = from};
	uint32_t n = received(), i;

	to->conn.loopback = from->conn.loopback = true;
	to->bind.pinned = from->bind.pinned = true;
	for (i = 0; i < 20; i++) {
		s.first = i * 500;
		worker_call_qp(ws, from, start_sending, &s);
		assert_null(worker_move_qp(ws, from, i % 2 != 0 ? nworkers - 1 : 0));
		all_came(n, (i + 1) * 500);
	}
	qp_off(from);
	qp_off(to);
}

/* Both move: the receiver follows the sender, which the operator moves. */
UNIT_TEST(frames_between_two_moving_qps_keep_their_order)
{
	struct qp *to = qp_on(0), *from = qpn_on(QPN + 1, nworkers - 1);
	struct sending s = {.dev = near[0].id, .loopback = true, .qpn = QPN, .n = 500, .qp = from};
	uint32_t n = received(), i;

	to->conn.loopback = from->conn.loopback = true;
	from->bind.pinned = true;
	for (i = 0; i < 20; i++) {
		s.first = i * 500;
		to->bind.moved_ns = 0; /* it may follow at once */
		worker_call_qp(ws, from, start_sending, &s);
		assert_null(worker_move_qp(ws, from, i % nworkers));
		all_came(n, (i + 1) * 500);
	}
	qp_off(from);
	qp_off(to);
}

/* Takes the events of the workers until there are n. */
static void
take_events(uint32_t n)
{
	struct worker_event ev[64];
	uint64_t end = clock_ns() + WAIT_NS;

	while (n != 0 && clock_ns() < end)
		n -= worker_events(ws, ev, 64);
	assert_int_equal(n, 0);
}

/* The worker begins to hold events, and the frames that were looped back, when the QP leaves. */
UNIT_TEST(frames_that_a_moving_qp_loops_back_keep_their_order_behind_held_events)
{
	struct qp *to = qp_on(0), *from = qpn_on(QPN + 1, nworkers - 1);
	struct fake_send s = {.dev = near[0].id, .loopback = true, .qpn = QPN, .qp = from};
	uint32_t n = received(), i;

	to->conn.loopback = from->conn.loopback = true;
	to->bind.pinned = from->bind.pinned = true;
	for (i = 0; i < 10 && nworkers != 1; i++) {
		unsigned target = i % 2 != 0 ? nworkers - 1 : 0;
		const char *why;

		s.next = i * 500;
		s.end = s.next + 500;
		s.events = 16384 + 1000; /* more than the ring takes */
		__atomic_store_n(&fake_at_leave, &s, __ATOMIC_RELEASE);
		why = worker_move_qp(ws, from, target);
		take_events(s.events);
		all_came(n, (i + 1) * 500);
		assert_non_null(why);
		assert_non_null(strstr(why, "events"));
		/* The move that was asked for goes on. */
		assert_true(WAIT_FOR(qp_worker(from) == target));
	}
	qp_off(from);
	qp_off(to);
}

static void
connect_looped(struct qp *a, struct qp *b)
{
	a->conn.loopback = b->conn.loopback = true;
	a->conn.dest_qpn = b->conn.qpn;
	b->conn.dest_qpn = a->conn.qpn;
}

/* Each gets frames from the other's first worker only, also when one of them has moved there. */
UNIT_TEST(one_of_two_connected_qps_follows_the_other)
{
	for (uint32_t peer = QPN + 1; peer < QPN + 5; peer++) {
		struct qp *a = qp_on(nworkers - 1), *b = qpn_on(peer, 0);
		uint32_t n = received();

		connect_looped(a, b);
		loop_back(0, QPN, 0, 250);
		if (nworkers != 1)
			loop_back(nworkers - 1, peer, 0, 250);
		all_came(n, nworkers != 1 ? 500 : 250);
		assert_int_equal(qp_worker(a), qp_worker(b));
		assert_int_equal(a->bind.moves + b->bind.moves, nworkers != 1);
		qp_off(a);
		qp_off(b);
	}
}

UNIT_TEST(qp_follows_a_connected_one_that_stays)
{
	for (uint32_t peer = QPN + 1; peer < QPN + 5; peer++) {
		struct qp *a = qp_on(nworkers - 1), *b = qpn_on(peer, 0);
		uint32_t n = received();

		connect_looped(a, b);
		a->conn.type = b->conn.type = peer % 2 != 0 ? QP_TYPE_RC : QP_TYPE_UC;
		b->bind.pinned = true;
		loop_back(0, QPN, 0, 250);
		all_came(n, 250);
		assert_int_equal(qp_worker(a), 0);
		qp_off(a);
		qp_off(b);
	}
}

UNIT_TEST(refused_move_loses_nothing)
{
	struct qp *qp = qp_on(nworkers - 1);
	uint32_t n = received(), i;

	__atomic_store_n(&fake_gives, FAKE_GIVES_NOT, __ATOMIC_RELAXED);
	for (i = 0; i < 500; i++)
		send_to_qp(i);
	all_came(n, 500);
	if (nworkers != 1)
		assert_string_equal(worker_move_qp(ws, qp, 0), "the test refuses");
	assert_int_equal(qp_worker(qp), nworkers - 1);
	__atomic_store_n(&fake_gives, FAKE_GIVES, __ATOMIC_RELAXED);
	assert_null(worker_move_qp(ws, qp, 0));
	qp->bind.fixed = true;
	assert_null(worker_move_qp(ws, qp, 0)); /* it is there */
	if (nworkers != 1)
		assert_non_null(worker_move_qp(ws, qp, 1));
	assert_int_equal(qp_worker(qp), 0);
	qp_off(qp);
}

/* Memory is late, or a packet is lost, when the QP has begun to leave. */
UNIT_TEST(qp_that_cannot_leave_after_all_stays)
{
	struct qp *qp = qp_on(nworkers - 1);
	uint32_t n = received(), i, seq = 0;

	qp->bind.pinned = true;
	__atomic_store_n(&fake_gives, FAKE_GIVES_NOT_THEN, __ATOMIC_RELAXED);
	for (i = 1; i < 20; i++) {
		for (uint32_t k = 0; k < i; k++)
			send_to_qp(seq++);
		assert_true(nworkers == 1 || worker_move_qp(ws, qp, 0) != NULL);
	}
	all_came(n, seq);
	assert_int_equal(qp_worker(qp), nworkers - 1);
	assert_int_equal(qp->bind.moves, 0);
	__atomic_store_n(&fake_gives, FAKE_GIVES, __ATOMIC_RELAXED);
	assert_null(worker_move_qp(ws, qp, 0));
	qp_off(qp);
}

UNIT_TEST(stopped_moves_wait)
{
	struct qp *qp = qp_on(nworkers - 1);
	uint32_t n = received(), i;

	worker_moves_stop(ws);
	worker_moves_stop(ws);
	worker_moves_go(ws);
	for (i = 0; i < 500; i++)
		send_to_qp(i);
	all_came(n, 500);
	assert_int_equal(qp_worker(qp), nworkers - 1);
	worker_moves_go(ws);
	for (; i < 1000; i++)
		send_to_qp(i);
	all_came(n, 1000);
	assert_int_equal(qp_worker(qp), 0);
	qp_off(qp);
}

static unsigned ran_on;

static bool
note_worker(struct worker *w, void *arg)
{
	ran_on = worker_index(w);
	return true;
}

UNIT_TEST(job_runs_where_its_qp_is)
{
	struct qp *qp = qp_on(0);
	struct worker_job job = {.run = note_worker, .qp = qp};

	for (unsigned i = 0; i < nworkers; i++) {
		assert_null(worker_move_qp(ws, qp, i));
		/* posted to a worker that had the QP a moment ago */
		worker_post(worker_get(ws, 0), &job);
		assert_true(WAIT_FOR(worker_job_done(&job)));
		assert_int_equal(ran_on, i);
	}
	qp_off(qp);
}
