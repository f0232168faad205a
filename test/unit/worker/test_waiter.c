/* SPDX-License-Identifier: BSD-3-Clause */
/* Clients on the worker's CPU that a yield does not reach: waiter.c, with idle.c. */
#include <sys/eventfd.h>
#include <unistd.h>
#include "cq/cq.h"
#include "idle_fixture.h"

/* A thread of the client sleeps on this CPU, and a completion is posted to a CQ of its context. */
static void
complete_for_waiter(void)
{
	struct uroce_cq_hdr hdr[4] = {{0}};
	struct cq cq;

	cq_init(&cq, hdr, 1);
	assert_false(cq_has_waiter(&cq));
	cq.waiter = &db.waiter;
	db.waiter = uroce_waiter(CPU, 7);
	assert_true(cq_has_waiter(&cq));
	waiter_found(&worker, &cq);
	waiters_notify(&worker);
}

#define TEST(name) UNIT_TEST_IN(name, setup, NULL)

TEST(completion_wakes_the_client_and_the_worker_sleeps_at_once)
{
	queue.inward = true;
	complete_for_waiter();
	assert_int_equal(futex.wakes, 1);
	assert_ptr_equal(futex.woken, &db.waiter);
	assert_int_equal(db.waiter, 0);
	empty();
	assert_int_equal(os.sleeps, 1);
	assert_int_equal(os.yields, 0);
	assert_true(os.slept_ns > MAX_NS); /* its doorbell ends the sleep, not a timer */
}

/* The client has nothing to post and sleeps again: the worker has the core for itself. */
TEST(worker_polls_while_its_client_sleeps)
{
	const uint64_t one = 1;

	queue.inward = true;
	complete_for_waiter();
	worker.client_fd = eventfd(0, EFD_NONBLOCK);
	assert_int_equal(write(worker.client_fd, &one, sizeof(one)), sizeof(one));
	empty();
	assert_int_equal(os.sleeps, 1);
	close(worker.client_fd);
	db.waiter = uroce_waiter(CPU, 8);
	for (unsigned i = 0; i < 100; i++)
		empty();
	assert_int_equal(os.sleeps, 1);
}

/* The first wake-up may let the client poll both completions, and sleep on the word again. */
TEST(completions_to_two_cqs_of_a_context_wake_it_once)
{
	struct uroce_cq_hdr hdr[2][4] = {{{0}}};
	struct cq cq[2];

	db.waiter = uroce_waiter(CPU, 7);
	for (unsigned i = 0; i < 2; i++) {
		cq_init(&cq[i], hdr[i], 1);
		cq[i].waiter = &db.waiter;
		waiter_found(&worker, &cq[i]);
	}
	assert_int_equal(worker.nwaiters, 1);
	waiters_notify(&worker);
	assert_int_equal(futex.wakes, 1);
	assert_int_equal(worker.nwaiters, 0);
}

/* On another CPU it needs nothing from this one. */
TEST(client_elsewhere_is_woken_and_does_not_get_this_core)
{
	struct uroce_cq_hdr hdr[4] = {{0}};
	struct cq cq;

	cq_init(&cq, hdr, 1);
	cq.waiter = &db.waiter;
	db.waiter = uroce_waiter(CPU + 1, 7);
	waiter_found(&worker, &cq);
	waiters_notify(&worker);
	assert_int_equal(futex.wakes, 1);
	empty();
	assert_int_equal(os.sleeps, 0);
	assert_int_equal(os.yields, 1);
}

/* Nobody completes, but the thread may have other things to poll. */
TEST(client_that_waits_for_long_is_woken)
{
	uint64_t start = worker.now_ns = os.now_ns;

	db.waiter = uroce_waiter(CPU, 1);
	while (futex.wakes == 0) {
		waiter_seen(&worker, &bell);
		worker.now_ns += ROUND_NS;
		assert_true(worker.now_ns < start + 2 * UROCE_WAITER_NS);
	}
	assert_true(worker.now_ns >= start + UROCE_WAITER_NS);
	/* the time of the next one begins anew */
	db.waiter = uroce_waiter(CPU, 2);
	waiter_seen(&worker, &bell);
	worker.now_ns += UROCE_WAITER_NS - ROUND_NS;
	waiter_seen(&worker, &bell);
	assert_int_equal(futex.wakes, 1);
	worker.now_ns += ROUND_NS;
	waiter_seen(&worker, &bell);
	assert_int_equal(futex.wakes, 2);
}

/* One that pretends to have waited for long costs few system calls. */
TEST(wake_ups_without_completions_are_bounded)
{
	worker.now_ns = os.now_ns;
	for (unsigned i = 0; i < 1000; i++) {
		db.waiter = bell.waited = uroce_waiter(CPU, i);
		bell.waited_ns = 0;
		waiter_seen(&worker, &bell);
		worker.now_ns += ROUND_NS;
	}
	assert_in_range(futex.wakes, 1, 1000 * ROUND_NS / 5000 + 1);
}

TEST(worker_that_goes_to_sleep_wakes_its_waiting_client)
{
	db.waiter = uroce_waiter(CPU, 1);
	until_asleep();
	assert_int_equal(futex.wakes, 1);
	assert_int_equal(db.waiter, 0);
}
