/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel's slices of this thread; skipped where it has none (before Linux 6.12). */
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>
#include "sched/waiting.h"
#include "../../kit/unit.h"

#define OTHER_NS 700000

UNIT_TEST(slice_is_set_and_restored)
{
	int nice = getpriority(PRIO_PROCESS, 0);
	uint64_t was = sched_slice_set(SCHED_SLICE_SHORT_NS);

	if (was == 0)
		skip();
	assert_int_equal(sched_slice_set(SCHED_SLICE_SHORT_NS), 0);
	assert_int_equal(sched_slice_set(OTHER_NS), SCHED_SLICE_SHORT_NS);
	assert_int_equal(sched_slice_set(was), OTHER_NS);
	assert_int_equal(getpriority(PRIO_PROCESS, 0), nice);
	assert_int_equal(sched_getscheduler(0), SCHED_OTHER);
}

UNIT_TEST(other_scheduling_policies_are_left_unchanged)
{
	struct sched_param param = {0};

	assert_int_equal(sched_setscheduler(0, SCHED_BATCH, &param), 0);
	assert_int_equal(sched_slice_set(SCHED_SLICE_SHORT_NS), 0);
	assert_int_equal(sched_getscheduler(0), SCHED_BATCH);
	assert_int_equal(sched_setscheduler(0, SCHED_OTHER, &param), 0);
}

/* A thread may have one of two ways to run soon; the result says which. */
UNIT_TEST(urgent_thread_is_real_time_or_has_short_slices)
{
	struct rlimit none = {0, 0};
	bool urgent;

	if (geteuid() != 0)
		assert_int_equal(setrlimit(RLIMIT_RTPRIO, &none), 0);
	urgent = sched_urgent();
	assert_int_equal(sched_getscheduler(0), urgent ? SCHED_FIFO : SCHED_OTHER);
	if (!urgent)
		assert_int_equal(sched_slice_set(SCHED_SLICE_SHORT_NS), 0);
}
