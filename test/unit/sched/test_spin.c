/* SPDX-License-Identifier: BSD-3-Clause */
/* Waits without sleeping, and when they are left out; clock, scheduler and poll are this file's. */
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <time.h>
#include "sched/waiting.h"
#include "../../kit/unit.h"

#define FD      7
#define POLL_NS 300

static struct {
	uint64_t now_ns, yield_ns, readable_ns;
	unsigned polls, yields;
	int result; /* of poll once readable_ns is reached */
} os;
static struct backoff b;

int
poll(struct pollfd *fds, nfds_t n, int timeout)
{
	assert_int_equal(n, 1);
	assert_int_equal(fds->fd, FD);
	assert_int_equal(fds->events, POLLIN);
	assert_int_equal(timeout, 0);
	os.polls++;
	os.now_ns += POLL_NS;
	return os.now_ns >= os.readable_ns ? os.result : 0;
}

int
sched_yield(void)
{
	os.yields++;
	os.now_ns += os.yield_ns;
	return 0;
}

int
clock_gettime(clockid_t id, struct timespec *ts)
{
	ts->tv_sec = (time_t)(os.now_ns / 1000000000);
	ts->tv_nsec = (long)(os.now_ns % 1000000000);
	return 0;
}

static int
setup(void **state)
{
	memset(&os, 0, sizeof(os));
	os.now_ns = 1000000;
	os.yield_ns = 1000;
	os.readable_ns = UINT64_MAX;
	os.result = 1;
	b = (struct backoff){0};
	return 0;
}

#define TEST(name) UNIT_TEST_IN(name, setup, NULL)

TEST(spin_ends_when_the_descriptor_is_readable)
{
	uint64_t start = os.now_ns;

	os.readable_ns = start + SCHED_SPIN_NS / 2;
	sched_spin_readable(&b, FD);
	assert_in_range(os.now_ns - start, SCHED_SPIN_NS / 2,
			SCHED_SPIN_NS / 2 + 2 * (POLL_NS + os.yield_ns));
	assert_true(os.yields > 5);
	/* an error is for the caller's read */
	os.result = -1;
	os.polls = 0;
	sched_spin_readable(&b, FD);
	assert_int_equal(os.polls, 1);
	assert_false(backoff_skips(&b));
}

/* Beside a thread that computes, one yield may take longer than the spin. */
TEST(spin_is_bounded)
{
	uint64_t start = os.now_ns;

	sched_spin_readable(&b, FD);
	assert_in_range(os.now_ns - start, SCHED_SPIN_NS, SCHED_SPIN_NS + POLL_NS + os.yield_ns);
	setup(state);
	os.yield_ns = 36000000;
	sched_spin_readable(&b, FD);
	assert_int_equal(os.yields, 1);
}

/* Returns how many waits are left out before the next one spins. */
static unsigned
left_out(void)
{
	unsigned n = 0;

	for (os.polls = 0;; n++) {
		sched_spin_readable(&b, FD);
		if (os.polls != 0)
			return n;
	}
}

TEST(spins_in_vain_become_rare_until_one_is_worth_it)
{
	unsigned want = 0;

	for (unsigned i = 0; i < 12; i++) {
		assert_int_equal(left_out(), want);
		want = 2 * want + 1 < SCHED_SPIN_SKIPS ? 2 * want + 1 : SCHED_SPIN_SKIPS;
	}
	os.readable_ns = 0;
	assert_int_equal(left_out(), SCHED_SPIN_SKIPS);
	assert_int_equal(left_out(), 0);
	assert_int_equal(left_out(), 0);
}
