/* SPDX-License-Identifier: BSD-3-Clause */
/* Events from workers to the control thread: tests of test_worker.c. */
#include <poll.h>
#include <string.h>
#include "bench.h"

void
raise_events(struct worker *w, void *arg)
{
	struct engine *e = worker_engine(w);
	struct cq cq = {0};

	/* only the address matters; the CQ is not accessed */
	for (uint32_t i = 0; i < *(uint32_t *)arg; i++) {
		cq.id = i;
		cq.event_pending = false; /* each has a separate event */
		e->ops->cq_event(e->ops_ctx, &cq);
	}
}

static void
raise_again(struct worker *w, void *arg)
{
	struct engine *e = worker_engine(w);

	e->ops->cq_event(e->ops_ctx, arg);
}

static bool
event_fd_is_readable(int ms)
{
	struct pollfd fd = {.fd = worker_event_fd(ws), .events = POLLIN};

	return poll(&fd, 1, ms) == 1;
}

UNIT_TEST(events_arrive_and_wake_the_control_thread)
{
	struct worker_event ev[64];
	uint32_t n = 1;

	worker_quiesce(ws); /* a worker may still have to tell of the last grace period */
	for (uint32_t round = 0; round < 20; round++) {
		uint32_t taken;

		/* a worker may tell late, with nothing left to take; the descriptor does not stay
		 * readable */
		do
			assert_int_equal(worker_events(ws, ev, 64), 0);
		while (event_fd_is_readable(0));
		worker_call(last_worker(), raise_events, &n);
		do {
			assert_true(event_fd_is_readable(WAIT_MS));
			taken = worker_events(ws, ev, 64);
		} while (taken == 0);
		assert_int_equal(taken, 1);
		assert_int_equal(ev[0].kind, WORKER_EV_CQ);
		assert_int_equal(ev[0].worker, nworkers - 1);
	}
	assert_int_equal(worker_events(ws, ev, 64), 0);
}

/* A client that keeps arming has one outstanding event, and gets another when that was taken. */
UNIT_TEST(events_of_a_cq_are_merged_until_taken)
{
	struct worker_event ev[64];
	struct cq cq = {.id = 7};

	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < 100; i++)
			worker_call(worker_get(ws, i % nworkers), raise_again, &cq);
		assert_true(event_fd_is_readable(WAIT_MS));
		assert_int_equal(worker_events(ws, ev, 64), 1);
		assert_int_equal(ev[0].id, 7);
		cq_event_taken(&cq);
		assert_int_equal(worker_events(ws, ev, 64), 0);
	}
}

/* A reader of a few events at a time finds the descriptor readable until none is left. */
UNIT_TEST(remaining_events_keep_the_descriptor_readable)
{
	struct worker_event ev[8];
	uint32_t n = 20, seen = 0;

	worker_call(last_worker(), raise_events, &n);
	while (seen < n) {
		assert_true(event_fd_is_readable(WAIT_MS));
		seen += worker_events(ws, ev, 8);
	}
	assert_int_equal(seen, n);
	assert_int_equal(worker_events(ws, ev, 8), 0);
	assert_false(event_fd_is_readable(0));
}

static void
raise_twenty(void)
{
	uint32_t n = 20;

	worker_call(last_worker(), raise_events, &n);
	worker_quiesce(ws); /* so that it has reported them, or found that it need not */
}

/* More events than fit, raised after the last poll found none and before a notification is due. */
UNIT_TEST(events_between_two_polls_are_not_missed)
{
	struct worker_event ev[8];
	uint32_t one = 1, seen;

	worker_call(last_worker(), raise_events, &one);
	assert_true(event_fd_is_readable(WAIT_MS));
	assert_int_equal(worker_events(ws, ev, 8), 1);
	fake_read_fd = worker_event_fd(ws);
	fake_before_read = raise_twenty;
	seen = worker_events(ws, ev, 8);
	assert_null(fake_before_read);
	while (seen < 20) {
		assert_true(event_fd_is_readable(WAIT_MS));
		seen += worker_events(ws, ev, 8);
	}
	assert_int_equal(seen, 20);
	assert_int_equal(worker_events(ws, ev, 8), 0);
	assert_false(event_fd_is_readable(0));
}

UNIT_TEST(no_event_is_lost_on_overflow)
{
	struct worker_event ev[64];
	uint32_t n = 16384 + 1000, seen = 0;
	uint64_t end = clock_ns() + WAIT_NS;

	worker_call(last_worker(), raise_events, &n);
	/* calls run even while events wait for space */
	worker_quiesce(ws);
	while (seen < n && clock_ns() < end) {
		unsigned k = worker_events(ws, ev, 64);

		for (unsigned i = 0; i < k; i++)
			assert_int_equal(ev[i].id, seen++);
		if (k == 0)
			assert_true(event_fd_is_readable(WAIT_MS));
	}
	assert_int_equal(seen, n);
	while (worker_events(ws, ev, 64) != 0)
		fail_msg("too many");
}
