/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs that the control thread does not wait for, and grace periods. */
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <rte_lcore.h>
#include "bench.h"

struct step {
	unsigned *count; /* of all jobs of a test */
	unsigned at;     /* what it was when this one ended */
	unsigned turns;  /* that it takes */
	unsigned lcore;
};

static bool
take_a_step(struct worker *w, void *arg)
{
	struct step *s = arg;

	if (--s->turns > 0)
		return false;
	s->lcore = rte_lcore_id();
	s->at = ++*s->count;
	return true;
}

UNIT_TEST(jobs_run_in_order_and_are_reported)
{
	enum { N = 100 };
	struct worker_job job[N] = {0};
	struct step step[N];
	struct worker_event ev;
	unsigned count = 0;

	for (unsigned i = 0; i < N; i++) {
		step[i] = (struct step){.count = &count, .turns = 1 + i % 3};
		job[i].run = take_a_step;
		job[i].arg = &step[i];
		worker_post(last_worker(), &job[i]);
	}
	/* as the control thread does: it sleeps until a worker says something */
	while (!worker_job_done(&job[N - 1])) {
		struct pollfd fd = {.fd = worker_event_fd(ws), .events = POLLIN};

		assert_int_equal(worker_events(ws, &ev, 1), 0);
		if (!worker_job_done(&job[N - 1]))
			assert_int_equal(poll(&fd, 1, WAIT_MS), 1);
	}
	for (unsigned i = 0; i < N; i++) {
		assert_true(worker_job_done(&job[i]));
		assert_int_equal(step[i].at, i + 1);
		assert_int_equal(step[i].lcore, nworkers);
	}
}

static struct {
	bool begun, over;
} busy;

static bool
be_busy(struct worker *w, void *arg)
{
	__atomic_store_n(&busy.begun, true, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&busy.over, __ATOMIC_ACQUIRE))
		sched_yield();
	return true;
}

REQUIREMENT("MEM-03")
UNIT_TEST(a_grace_period_waits_for_a_busy_worker)
{
	struct worker_job job = {.run = be_busy};
	struct worker_event ev;
	uint64_t first, second;

	memset(&busy, 0, sizeof(busy));
	worker_post(last_worker(), &job);
	assert_true(WAIT_FOR(FAKE_COUNT(busy.begun)));
	first = worker_grace_start(ws);
	second = worker_grace_start(ws);
	assert_true(second > first);
	for (unsigned i = 0; i < 1000; i++) {
		assert_false(worker_grace_over(ws, first));
		sched_yield();
	}
	while (worker_events(ws, &ev, 1) != 0)
		;
	__atomic_store_n(&busy.over, true, __ATOMIC_RELEASE);
	while (!worker_grace_over(ws, second)) {
		struct pollfd fd = {.fd = worker_event_fd(ws), .events = POLLIN};

		assert_int_equal(worker_events(ws, &ev, 1), 0);
		if (!worker_grace_over(ws, second))
			assert_int_equal(poll(&fd, 1, WAIT_MS), 1);
	}
	assert_true(worker_grace_over(ws, first));
	assert_true(worker_job_done(&job));
}

UNIT_TEST(grace_periods_end_whatever_workers_do)
{
	for (unsigned i = 0; i < 5000; i++)
		worker_wait_readers(ws);
}
