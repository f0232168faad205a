/* SPDX-License-Identifier: BSD-3-Clause */
/* Workers over net_ring ports: test_worker NWORKERS poll|adaptive. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <rte_eal.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include "bench.h"
#include "qp/segs.h"

static void
note_lcore(struct worker *w, void *arg)
{
	((unsigned *)arg)[worker_index(w)] = rte_lcore_id();
}

UNIT_TEST(calls_run_on_the_worker)
{
	unsigned lcore[UROCE_MAX_WORKERS] = {0};

	worker_call_all(ws, note_lcore, lcore);
	for (unsigned i = 0; i < nworkers; i++)
		assert_int_equal(lcore[i], i + 1);
	for (unsigned i = 0; i < 1000; i++)
		worker_quiesce(ws);
}

static void
spin(struct worker *w, void *arg)
{
	uint64_t end = timer_now_ns() + *(const uint64_t *)arg;

	while (timer_now_ns() < end)
		rte_pause();
}

/* A call is work. All of the time since the start is either busy or idle. */
UNIT_TEST(time_of_a_worker_is_busy_or_idle)
{
	uint64_t busy_ns = 20000000;
	struct worker_usage before, after;
	struct worker *w = worker_get(ws, nworkers - 1);

	worker_quiesce(ws);
	worker_usage_get(w, &before);
	worker_call(w, spin, &busy_ns);
	worker_quiesce(ws); /* the iteration of the call has ended */
	worker_quiesce(ws);
	worker_usage_get(w, &after);
	assert_int_equal(after.lcore, nworkers);
	assert_true(after.busy_ns - before.busy_ns >= busy_ns);
	assert_true(WAIT_FOR(({
		worker_usage_get(w, &before);
		before.idle_ns > after.idle_ns;
	})));
	assert_true(after.busy_ns + after.idle_ns <= timer_now_ns());
}

/* Each worker has its own mbuf segments, enough for the payloads of a burst. */
UNIT_TEST(each_worker_has_mbuf_segments)
{
	for (unsigned i = 0; i < nworkers; i++) {
		const struct qp_segs *segs = worker_engine(worker_get(ws, i))->env.segs;

		assert_non_null(segs);
		assert_int_equal(segs->n, ENGINE_TX_CAP);
		assert_true(qp_segs_whole(segs));
		for (unsigned k = 0; k < i; k++)
			assert_ptr_not_equal(segs, worker_engine(worker_get(ws, k))->env.segs);
	}
}

UNIT_TEST(frames_reach_the_engine_with_their_device)
{
	uint32_t n = fake[0].rx_n;

	for (uint32_t i = 0; i < 10; i++) {
		send_from_test(&far[i % 2], FAKE_FOR, 0, 100 + i);
		assert_true(WAIT_FOR(FAKE_COUNT(fake[0].rx_n) == n + i + 1));
		assert_int_equal(fake[0].rx[(n + i) % FAKE_LOG].seq, 100 + i);
		assert_int_equal(fake[0].rx[(n + i) % FAKE_LOG].dev, near[i % 2].id);
	}
}

UNIT_TEST(other_frames_reach_the_control_thread)
{
	struct worker_event ev;

	send_from_test(&far[1], FAKE_SLOW, 0, 4711);
	assert_true(WAIT_FOR(worker_events(ws, &ev, 1) == 1));
	assert_int_equal(ev.kind, WORKER_EV_FRAME);
	assert_int_equal(ev.dev, near[1].id);
	assert_int_equal(rte_pktmbuf_mtod((struct rte_mbuf *)ev.obj, struct fake_frame *)->seq,
			 4711);
	rte_pktmbuf_free(ev.obj);
}

UNIT_TEST(flood_of_other_frames_leaves_space_for_events)
{
	struct worker_event ev;
	uint32_t frames = 0, cqs = 0, n = 1;
	uint64_t dropped0 = sum_of(near[1].id, true, DROP_SLOW_PATH_FULL), dropped;

	for (uint32_t i = 0; i < 10000; i++)
		send_from_test(&far[1], FAKE_SLOW, 0, i);
	/* half of the space (16383) is for events */
	assert_true(
		WAIT_FOR(sum_of(near[1].id, true, DROP_SLOW_PATH_FULL) - dropped0 == 10000 - 8191));
	worker_call(last_worker(), raise_events, &n);
	assert_true(WAIT_FOR(({
		while (worker_events(ws, &ev, 1) == 1) {
			frames += ev.kind == WORKER_EV_FRAME;
			cqs += ev.kind == WORKER_EV_CQ;
			if (ev.kind == WORKER_EV_FRAME)
				rte_pktmbuf_free(ev.obj);
		}
		dropped = sum_of(near[1].id, true, DROP_SLOW_PATH_FULL) - dropped0;
		frames + dropped == 10000 && cqs == 1;
	})));
}

UNIT_TEST(handoff_to_the_owner_keeps_device_and_order)
{
	uint8_t owner = (uint8_t)(nworkers - 1);
	uint32_t n = fake[owner].rx_n;

	/* 500 fit the ring between workers even if it is not read */
	for (uint32_t i = 0; i < 500; i++)
		send_from_test(&far[1], FAKE_FOR, owner, i);
	assert_true(WAIT_FOR(FAKE_COUNT(fake[owner].rx_n) == n + 500));
	for (uint32_t i = 0; i < 500; i++) {
		assert_int_equal(fake[owner].rx[(n + i) % FAKE_LOG].seq, i);
		assert_int_equal(fake[owner].rx[(n + i) % FAKE_LOG].dev, near[1].id);
	}
}

/* A job that holds its worker until the test lets it go. */
static bool held, let_go; /* atomic */

static bool
hold(struct worker *w, void *arg)
{
	__atomic_store_n(&held, true, __ATOMIC_RELEASE);
	while (!FAKE_FLAG(let_go))
		sched_yield();
	return true;
}

/* A worker that takes no frames costs others no more than a wait; its own are lost. */
UNIT_TEST(stuck_worker_does_not_stop_the_receiver)
{
	uint8_t owner = (uint8_t)(nworkers - 1);
	uint64_t lost0 = sum_of(near[1].id, true, DROP_HANDOFF_FULL);
	uint32_t n = fake[owner].rx_n, n0 = fake[0].rx_n;
	struct worker_job job = {.run = hold};

	if (owner == 0)
		return;
	__atomic_store_n(&held, false, __ATOMIC_RELAXED);
	__atomic_store_n(&let_go, false, __ATOMIC_RELAXED);
	worker_post(last_worker(), &job);
	assert_true(WAIT_FOR(FAKE_FLAG(held)));
	for (uint32_t i = 0; i < 3000; i++)
		send_from_test(&far[1], FAKE_FOR, owner, i);
	send_from_test(&far[1], FAKE_FOR, 0, 1);
	assert_true(WAIT_FOR(FAKE_COUNT(fake[0].rx_n) == n0 + 1));
	__atomic_store_n(&let_go, true, __ATOMIC_RELEASE);
	assert_true(WAIT_FOR(worker_job_done(&job)));
	assert_true(WAIT_FOR(FAKE_COUNT(fake[owner].rx_n) - n +
				     sum_of(near[1].id, true, DROP_HANDOFF_FULL) - lost0 ==
			     3000));
	assert_true(FAKE_COUNT(fake[owner].rx_n) - n >= 1023); /* what the ring holds */
}

UNIT_TEST(loopback_reaches_the_owner_and_not_the_wire)
{
	uint64_t looped = sum_of(near[0].id, false, COUNTER_LOOPBACK);

	for (unsigned owner = 0; owner < nworkers; owner++) {
		struct sending s = {near[0].id, (uint8_t)owner, true, 900};
		uint32_t n = fake[owner].rx_n;

		worker_call(worker_get(ws, 0), start_sending, &s);
		assert_true(WAIT_FOR(FAKE_COUNT(fake[owner].rx_n) == n + 900));
		for (uint32_t i = 0; i < 900; i++) {
			assert_int_equal(fake[owner].rx[(n + i) % FAKE_LOG].seq, i);
			assert_int_equal(fake[owner].rx[(n + i) % FAKE_LOG].dev, near[0].id);
		}
		assert_int_equal(receive_in_test(&far[0]), -1);
	}
	assert_int_equal(sum_of(near[0].id, false, COUNTER_LOOPBACK), looped + 900 * nworkers);
}

/*
 * Sends n frames from worker w on device i. All arrive in order except those that were dropped.
 * Returns how many arrived.
 */
static uint32_t
send_and_check(struct worker *w, unsigned i, uint32_t n)
{
	struct sending s = {near[i].id, 0, false, n};
	uint64_t lost0 = sum_of(near[i].id, false, COUNTER_TX_PORT_DOWN);
	uint64_t end = clock_ns() + WAIT_NS;
	uint32_t got = 0;
	int64_t last = -1;

	worker_call(w, start_sending, &s);
	while (got + sum_of(near[i].id, false, COUNTER_TX_PORT_DOWN) - lost0 < n &&
	       clock_ns() < end) {
		int64_t seq = receive_in_test(&far[i]);

		if (seq < 0) {
			sched_yield();
			continue;
		}
		assert_true(seq > last);
		last = seq;
		got++;
	}
	assert_int_equal(got + sum_of(near[i].id, false, COUNTER_TX_PORT_DOWN) - lost0, n);
	/* how many depends on how long the machine lets this thread wait */
	assert_true(got != 0);
	return got;
}

UNIT_TEST(frames_refused_by_a_full_port_are_sent_later_in_order)
{
	uint64_t busy = sum_of(near[0].id, false, COUNTER_TX_BUSY);

	/* rings of 8, batches of 64 */
	send_and_check(worker_get(ws, 0), 0, 3000);
	assert_true(sum_of(near[0].id, false, COUNTER_TX_BUSY) > busy);
	assert_true(sum_of(near[0].id, false, COUNTER_TX_FRAMES) > 0);
}

/* A zero-copy frame does not wait in a queue: if the port refuses it, a copy waits. */
REQUIREMENT("MEM-03")
UNIT_TEST(refused_frames_are_copied)
{
	uint64_t busy = sum_of(near[0].id, false, COUNTER_TX_BUSY);

	__atomic_store_n(&fake_views, true, __ATOMIC_RELAXED);
	send_and_check(worker_get(ws, 0), 0, 3000);
	__atomic_store_n(&fake_views, false, __ATOMIC_RELAXED);
	assert_true(sum_of(near[0].id, false, COUNTER_TX_BUSY) > busy);
	assert_int_equal(FAKE_COUNT(fake_views_kept), 0);
}

static void
next_epoch(struct worker *w, void *arg)
{
	fake_epoch++;
}

/*
 * A call may unmap client memory. Loopback frames with their payload in it were received before, or
 * have it in their own buffer, for example when the worker waits until its events find space.
 */
REQUIREMENT("MEM-03")
UNIT_TEST(no_reference_to_a_payload_outlasts_a_call)
{
	struct sending s = {.dev = near[0].id, .loopback = true, .n = 40};
	struct worker *w = worker_get(ws, 0);
	uint32_t n = fake[0].rx_n, seen;
	struct worker_event ev[64];

	__atomic_store_n(&fake_views, true, __ATOMIC_RELAXED);
	fake_views_seen = fake_views_late = 0;
	for (uint32_t i = 1; i <= 1000; i++) {
		worker_call(w, start_sending, &s);
		worker_call(w, next_epoch, NULL);
		assert_true(WAIT_FOR(FAKE_COUNT(fake[0].rx_n) - n == 40 * i));
	}
	assert_int_equal(fake_views_seen, 40 * 1000);
	assert_int_equal(fake_views_late, 0);

	n = fake[0].rx_n;
	s.events = 16384 + 1000;
	worker_call(w, start_sending, &s);
	assert_true(WAIT_FOR(FAKE_COUNT(fake[0].send.events) == 0));
	worker_call(w, next_epoch, NULL);
	assert_int_equal(fake[0].rx_n, n); /* all is held up */
	for (seen = 0; seen < s.events;)
		seen += worker_events(ws, ev, 64);
	assert_true(WAIT_FOR(FAKE_COUNT(fake[0].rx_n) - n == 40));
	assert_int_equal(fake_views_seen, 40 * 1000);
	assert_int_equal(fake_views_late, 0);
	__atomic_store_n(&fake_views, false, __ATOMIC_RELAXED);
}

UNIT_TEST(worker_without_a_queue_sends_through_another_worker)
{
	const uint64_t *sent =
		&worker_counters(worker_get(ws, 0), near[1].id)->ctr[COUNTER_TX_FRAMES];
	uint64_t before = counters_read(sent);

	/* near[1] has one queue, which is worker 0's */
	assert_int_equal(near[1].ntxq, 1);
	before += send_and_check(last_worker(), 1, 3000);
	worker_quiesce(ws); /* counted after they can be received */
	assert_int_equal(counters_read(sent), before);
}

UNIT_TEST(dead_port_does_not_delay_another)
{
	struct sending dead = {near[0].id, 0, false, 2000};
	uint64_t lost = sum_of(near[0].id, false, COUNTER_TX_PORT_DOWN);
	struct worker *w = worker_get(ws, 0);
	uint32_t rest = 0;

	worker_call(w, start_sending, &dead);
	/* far[0] is not read: frames that its ring does not hold are dropped */
	assert_true(WAIT_FOR(FAKE_COUNT(fake[0].send.next) == 2000 &&
			     sum_of(near[0].id, false, COUNTER_TX_PORT_DOWN) - lost >= 1980));
	send_and_check(w, 1, 1000);
	while (receive_in_test(&far[0]) >= 0)
		rest++;
	assert_true(rest > 0);
	assert_int_equal(sum_of(near[0].id, false, COUNTER_TX_PORT_DOWN) - lost + rest, 2000);
	/* and it works again as soon as it takes frames */
	send_and_check(w, 0, 300);
}

UNIT_TEST(control_thread_sends_frames)
{
	struct rte_mbuf *m = fake_frame_make(pool, FAKE_FOR, 0, 31);
	int64_t seq;

	assert_non_null(m);
	assert_int_equal(worker_send_frame(ws, near[1].id, m), 0);
	assert_true(WAIT_FOR((seq = receive_in_test(&far[1])) >= 0));
	assert_int_equal(seq, 31);
}

UNIT_TEST(doorbells_reach_the_engine)
{
	struct fake_worker *f = &fake[nworkers - 1];
	uint32_t n = f->bell_n;

	memset(&bell_ring, 0, sizeof(bell_ring));
	bell_ring.prod = bell_ring.cons = UINT32_MAX - 300; /* it wraps */
	bell_add(&bell_ring, &bell_ring);
	for (uint32_t i = 0; i < 1000; i++)
		ring_bell(7 * i);
	assert_true(WAIT_FOR(FAKE_COUNT(f->bell_n) == n + 1000));
	for (uint32_t i = 0; i < 1000; i++)
		assert_int_equal(f->bell[(n + i) % FAKE_LOG], 7 * i);
	worker_quiesce(ws);
	assert_int_equal(bell_ring.cons, bell_ring.prod);

	bell_del(&bell_ring);
	ring_bell(1);
	worker_quiesce(ws);
	assert_int_equal(f->bell_n, n + 1000);
}

UNIT_TEST(doorbell_overflow_and_garbage_poll_every_queue)
{
	struct fake_worker *f = &fake[nworkers - 1];
	uint32_t n = f->bell_n;

	memset(&bell_ring, 0, sizeof(bell_ring));
	bell_add(&bell_ring, &bell_ring);
	overflows = 0;
	__atomic_store_n(&bell_ring.overflow, 1, __ATOMIC_RELEASE);
	assert_true(WAIT_FOR(FAKE_COUNT(overflows) == 1));
	assert_int_equal(bell_ring.overflow, 0);
	/* a client that writes arbitrary values */
	__atomic_store_n(&bell_ring.prod, 0x80000000u, __ATOMIC_RELEASE);
	assert_true(WAIT_FOR(FAKE_COUNT(overflows) == 2));
	worker_quiesce(ws);
	assert_int_equal(f->bell_n, n);
	ring_bell(42);
	assert_true(WAIT_FOR(FAKE_COUNT(f->bell_n) == n + 1));
	bell_del(&bell_ring);
}

/* Polling many QPs takes many iterations; doorbells lost meanwhile start another pass. */
UNIT_TEST(doorbell_overflow_is_polled_in_parts)
{
	struct fake_worker *f = &fake[nworkers - 1];
	uint32_t n = f->bell_n;

	memset(&bell_ring, 0, sizeof(bell_ring));
	bell_add(&bell_ring, &bell_ring);
	overflows = 0;
	scans_left = 1000000000;
	__atomic_store_n(&bell_ring.overflow, 1, __ATOMIC_RELEASE);
	assert_true(WAIT_FOR(FAKE_COUNT(overflows) > 100));
	worker_quiesce(ws); /* calls are heard */
	ring_bell(42);
	assert_true(WAIT_FOR(FAKE_COUNT(f->bell_n) == n + 1)); /* and doorbells */
	__atomic_store_n(&scans_left, 1, __ATOMIC_RELEASE);
	worker_quiesce(ws);
	worker_quiesce(ws);
	n = FAKE_COUNT(overflows);
	worker_quiesce(ws);
	worker_quiesce(ws);
	assert_int_equal(FAKE_COUNT(overflows), n);
	bell_del(&bell_ring);
}

UNIT_TEST(many_doorbell_rings_are_served)
{
	struct fake_worker *f = &fake[nworkers - 1];
	struct uroce_db_ring *rings = calloc(50, sizeof(*rings));
	uint32_t n = f->bell_n;

	assert_non_null(rings);
	for (uint32_t i = 0; i < 50; i++)
		bell_add(&rings[i], NULL);
	for (uint32_t i = 0; i < 50; i += 2)
		bell_del(&rings[i]);
	for (uint32_t i = 0; i < 50; i++) {
		rings[i].qpn[0] = i;
		__atomic_store_n(&rings[i].prod, 1, __ATOMIC_RELEASE);
	}
	assert_true(WAIT_FOR(FAKE_COUNT(f->bell_n) == n + 25));
	worker_quiesce(ws);
	assert_int_equal(f->bell_n, n + 25);
	for (uint32_t i = 0; i < 50; i++)
		assert_int_equal(rings[i].cons, i % 2);
	for (uint32_t i = 1; i < 50; i += 2)
		bell_del(&rings[i]);
	free(rings);
}

UNIT_TEST(removed_port_frees_its_frames)
{
	struct sending stuck = {near[0].id, 0, false, 64};
	uint32_t n;

	worker_call(worker_get(ws, 0), start_sending, &stuck);
	worker_quiesce(ws);
	worker_del_port(ws, &near[0]);
	while (receive_in_test(&far[0]) >= 0)
		;
	/* its frames are not read any more */
	n = FAKE_COUNT(fake[0].rx_n);
	send_from_test(&far[0], FAKE_FOR, 0, 1);
	worker_quiesce(ws);
	worker_quiesce(ws);
	assert_int_equal(FAKE_COUNT(fake[0].rx_n), n);
	assert_int_equal(worker_add_port(ws, &near[0]), 0);
	assert_int_equal(worker_add_port(ws, &near[0]), -EEXIST);
	assert_true(WAIT_FOR(FAKE_COUNT(fake[0].rx_n) == n + 1));
}

UNIT_TEST(paused_port_loses_frames_and_resumes)
{
	struct sending s = {near[1].id, 0, false, 100};
	uint64_t lost = sum_of(near[1].id, false, COUNTER_TX_PORT_DOWN);
	uint32_t n = FAKE_COUNT(fake[0].rx_n);

	worker_pause_port(ws, &near[1]);
	worker_pause_port(ws, &near[1]);
	send_from_test(&far[1], FAKE_FOR, 0, 1);
	worker_call(last_worker(), start_sending, &s);
	assert_true(WAIT_FOR(sum_of(near[1].id, false, COUNTER_TX_PORT_DOWN) == lost + 100));
	assert_int_equal(receive_in_test(&far[1]), -1);
	assert_int_equal(FAKE_COUNT(fake[0].rx_n), n);
	worker_resume_port(ws, &near[1]);
	assert_true(WAIT_FOR(FAKE_COUNT(fake[0].rx_n) == n + 1));
	send_and_check(last_worker(), 1, 500);
}

UNIT_PROGRAM(bench_start, bench_stop);

int
main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	nworkers = (unsigned)atoi(argv[1]);
	idle = strcmp(argv[2], "poll") == 0 ? WORKER_IDLE_POLL : WORKER_IDLE_ADAPTIVE;
	if (bench_eal() < 0)
		return 1;
	return unit_run();
}
