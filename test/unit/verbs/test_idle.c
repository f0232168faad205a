/* SPDX-License-Identifier: BSD-3-Clause */
/* When a thread that polls empty CQs gives up its core; clock and scheduler are the test's. */
#include "idle.h"
#include "kit/fake_clock.h"
#include "../../kit/unit.h"

#define SWITCHED_NS 3000     /* a yield that let another thread run */
#define NOBODY_NS   500      /* one that did not */
#define LONG_NS     36000000 /* one beside threads that compute */
#define POLL_NS     50

/* An empty poll of cq as in cq_idle.c. Returns true if it polled the same CQ again. */
static bool
poll_empty_with(const void *cq, bool outstanding)
{
	os.now_ns += POLL_NS;
	if (!prov_idle_round(cq))
		return false;
	if (prov_idle_sleeps(os.now_ns))
		prov_idle_sleep(NULL, 0, outstanding);
	else
		prov_idle_yield(os.now_ns);
	return true;
}

static bool
poll_empty(const void *cq)
{
	return poll_empty_with(cq, true);
}

static int
setup(void **state)
{
	os.now_ns = 1000000;
	os.yield_ns = SWITCHED_NS;
	os.yields = os.sleeps = 0;
	prov_idle = (struct prov_idle){0};
	return 0;
}

#define TEST(name) UNIT_TEST_IN(name, setup, NULL)

TEST(one_queue_yields_from_its_second_empty_poll_on)
{
	int cq = 0;

	assert_false(poll_empty(&cq));
	for (unsigned int i = 1; i <= 5; i++) {
		assert_true(poll_empty(&cq));
		assert_int_equal(os.yields, i);
	}
	prov_idle_busy();
	assert_false(poll_empty(&cq));
	assert_int_equal(os.yields, 5);
}

TEST(several_queues_yield_once_a_round)
{
	int cq[3] = {0};

	for (unsigned int round = 0; round < 6; round++) {
		assert_int_equal(poll_empty(&cq[0]), round != 0);
		assert_false(poll_empty(&cq[1]));
		assert_false(poll_empty(&cq[2]));
		assert_int_equal(os.yields, round);
	}
}

/* The queue where it began is polled no more. */
TEST(abandoned_queue_does_not_prevent_yielding)
{
	int left = 0, cq = 0;

	poll_empty(&left);
	for (unsigned int i = 0; i < PROV_YIELD_CQS; i++)
		poll_empty(&cq);
	assert_int_equal(os.yields, 1);
	assert_true(poll_empty(&cq));
	assert_int_equal(os.yields, 2);
}

TEST(lone_thread_spins_for_a_while)
{
	int cq = 0;

	os.yield_ns = NOBODY_NS;
	poll_empty(&cq);
	poll_empty(&cq);
	assert_int_equal(os.yields, 1);
	for (unsigned int i = 1; i < PROV_ALONE_NS / POLL_NS; i++)
		poll_empty(&cq);
	assert_int_equal(os.yields, 1);
	/* then another thread needs the core, and gets it every time */
	os.yield_ns = SWITCHED_NS;
	poll_empty(&cq);
	assert_int_equal(os.yields, 2);
	poll_empty(&cq);
	assert_int_equal(os.yields, 3);
}

/* Polls for ns. Returns the number of sleeps. */
static unsigned int
sleeps_in(uint64_t ns, bool outstanding)
{
	unsigned int before = os.sleeps;
	uint64_t end = os.now_ns + ns;
	int cq = 0;

	while (os.now_ns < end)
		poll_empty_with(&cq, outstanding);
	return os.sleeps - before;
}

/* With outstanding sends the thread sleeps as long as it was awake, first after PROV_YIELD_NS. */
TEST(thread_without_progress_sleeps)
{
	assert_int_equal(sleeps_in(PROV_YIELD_NS, true), 0);
	assert_in_range(os.yields, PROV_YIELD_NS / (SWITCHED_NS + POLL_NS), 20);
	assert_in_range(sleeps_in(10 * ((PROV_SLEEP_NS + SLACK_NS) + PROV_YIELD_NS), true), 9, 11);
}

TEST(spin_is_longer_after_waking_a_worker)
{
	prov_idle.waking = true;
	assert_int_equal(sleeps_in(PROV_YIELD_WAKING_NS, true), 0);
	assert_int_equal(sleeps_in(2 * SWITCHED_NS + PROV_SLEEP_NS + SLACK_NS, true), 1);
}

/* Without, each sleep comes twice as late as the last: sleeps are a small part of a long wait. */
TEST(thread_that_waits_for_others_sleeps_less_each_time)
{
	unsigned int first = sleeps_in(1000000, false);

	assert_in_range(first, 2, 4);
	assert_in_range(sleeps_in(7000000, false), 2, 4);
	assert_in_range(sleeps_in(92000000, false), 2, 4);
	prov_idle_busy();
	assert_int_equal(sleeps_in(1000000, false), first);
}

/* Busy, then twice an empty poll, of which the second pauses. */
static void
pause_after_work(void)
{
	int cq = 0;

	prov_idle_busy();
	assert_false(poll_empty(&cq));
	assert_true(poll_empty(&cq));
}

/* A thread that yields to computing threads gets its core back after all their time slices. */
TEST(thread_on_an_oversubscribed_core_sleeps_instead_of_yielding)
{
	os.yield_ns = LONG_NS;
	for (unsigned int i = 1; i <= CROWD_ROW; i++) {
		assert_int_equal(os.sleeps, 0);
		pause_after_work();
		assert_int_equal(os.yields, i);
	}
	for (unsigned int i = 1; i <= 100; i++) {
		pause_after_work();
		assert_int_equal(os.sleeps, i);
	}
	assert_int_equal(os.yields, CROWD_ROW);
	/* the crowd is gone */
	os.yield_ns = SWITCHED_NS;
	os.now_ns += CROWD_FIRST_NS;
	for (unsigned int i = 1; i <= 100; i++) {
		pause_after_work();
		assert_int_equal(os.yields, CROWD_ROW + i);
	}
	assert_int_equal(os.sleeps, 100);
}

/* A long yield is not polling time: the thread yields again to detect other threads. */
TEST(no_sleep_follows_a_long_yield)
{
	int cq = 0;

	poll_empty(&cq);
	os.yield_ns = LONG_NS;
	poll_empty(&cq);
	os.yield_ns = SWITCHED_NS;
	for (unsigned int i = 0; i < PROV_YIELD_NS / (SWITCHED_NS + POLL_NS); i++)
		poll_empty(&cq);
	assert_int_equal(os.sleeps, 0);
	for (unsigned int i = 0; i < 3; i++)
		poll_empty(&cq);
	assert_int_equal(os.sleeps, 1);
}
