/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A worker that has nothing but idle.c and waiter.c; clock, scheduler and CPU are this file's. One
 * file of a test includes it.
 */
#ifndef UNIT_WORKER_IDLE_FIXTURE_H
#define UNIT_WORKER_IDLE_FIXTURE_H

#include <poll.h>
#include <sched.h>
#include <string.h>
#include "kit/fake_futex.h"
#include "worker/worker_parts.h"
#include "../../kit/unit.h"

#define SWITCHED_NS 3000 /* a yield that let another thread run */
#define NOBODY_NS   500  /* one that did not */
#define ROUND_NS    100
#define SPIN_NS     5000 /* idle.c's ALONE_NS */

#define LONG_NS     36000000 /* one beside threads that compute */

#define CPU         1 /* the worker's: the kernel may move the test's thread at any time */

/* idle.c's */
#define FIRST_NS   50000
#define MAX_NS     2000000
#define WOKEN_NS   10000000
#define SLEEP_PART 32

static struct {
	uint64_t now_ns, yield_ns, next_timer_ns;
	unsigned yields, sleeps, fds;
	uint64_t slept_ns; /* limit of the last sleep, which lasts this long without a doorbell */
} os;

int
sched_yield(void)
{
	os.yields++;
	os.now_ns += os.yield_ns;
	return 0;
}

int
sched_getcpu(void)
{
	return CPU;
}

uint64_t
timer_now_ns(void)
{
	return os.now_ns;
}

uint64_t
timer_next_ns(const struct worker *w)
{
	return os.next_timer_ns;
}

int
ppoll(struct pollfd *fds, nfds_t nfds, const struct timespec *limit, const sigset_t *mask)
{
	int n = poll(fds, nfds, 0);

	os.sleeps++;
	os.fds = (unsigned)nfds;
	os.slept_ns = (uint64_t)limit->tv_sec * 1000000000u + (uint64_t)limit->tv_nsec;
	if (n == 0)
		os.now_ns += os.slept_ns;
	return n;
}

bool
doorbell_waits(struct worker *w)
{
	return false;
}

/* No grace period begins here, and no job is posted. */
static struct rte_rcu_qsbr qs;

void
grace_offline(struct worker *w)
{
}

void
grace_online(struct worker *w)
{
}

bool
job_waits(const struct worker *w)
{
	return false;
}

static struct worker_set workers = {.idle = WORKER_IDLE_ADAPTIVE, .qs = &qs};
static struct rte_ring ring; /* empty */
static struct worker_rxq queue;
static struct uroce_db_ring db;
static struct worker_doorbell bell = {.ring = &db, .waiter = &db.waiter};
static struct uroce_worker_state shown;
static struct worker worker = {.ws = &workers,
			       .state = &shown,
			       .in = &ring,
			       .out = &ring,
			       .rxqs = &queue,
			       .doorbells = &bell,
			       .ndoorbells = 1};

/* Once round the loop of worker.c, without work. */
static void
empty(void)
{
	os.now_ns += ROUND_NS;
	worker.now_ns = os.now_ns;
	idle_empty(&worker);
}

static int
setup(void **state)
{
	memset(&os, 0, sizeof(os));
	memset(&queue, 0, sizeof(queue));
	os.now_ns = 1000000;
	os.yield_ns = SWITCHED_NS;
	os.next_timer_ns = UINT64_MAX;
	worker.alone_until_ns = worker.idle_since_ns = 0;
	worker.crowd = (struct crowd){0};
	worker.own_fd = worker.client_fd = -1;
	worker.port_rang = false;
	worker.nrxqs = 1;
	worker.handed = NULL;
	worker.spun_ns = worker.beside_until_ns = worker.released_ns = 0;
	memset(&db, 0, sizeof(db));
	bell = (struct worker_doorbell){.ring = &db, .waiter = &db.waiter};
	memset(&futex, 0, sizeof(futex));
	workers.idle = WORKER_IDLE_ADAPTIVE;
	return 0;
}

/* Empty rounds until one of them slept. */
static void
until_asleep(void)
{
	unsigned n = os.sleeps;

	for (unsigned i = 0; os.sleeps == n; i++) {
		assert_true(i < 100000);
		empty();
	}
}

#endif
