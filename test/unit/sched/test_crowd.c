/* SPDX-License-Identifier: BSD-3-Clause */
/* When a core counts as crowded; clock and scheduler are this file's. */
#include "sched/waiting.h"
#include "../../kit/unit.h"

#define LONG_NS  36000000
#define SHORT_NS 3000
#define WORK_NS  20000 /* between two yields */
#define SLICE_NS 1400000

static struct {
	uint64_t now_ns, slice_ns;
	unsigned calls;
} os;
static struct crowd crowd;

uint64_t
sched_slice_set(uint64_t slice_ns)
{
	uint64_t was = os.slice_ns;

	os.calls++;
	if (was == 0 || was == slice_ns)
		return 0;
	os.slice_ns = slice_ns;
	return was;
}

static void
yield(uint64_t ns)
{
	uint64_t from = os.now_ns + WORK_NS;

	os.now_ns = from + ns;
	crowd_yielded(&crowd, from, os.now_ns);
}

static bool
crowded(void)
{
	return crowd_is(&crowd, os.now_ns);
}

static void
make_crowd(void)
{
	for (unsigned i = 0; i < CROWD_ROW; i++) {
		assert_false(crowded());
		yield(LONG_NS);
	}
	assert_true(crowded());
}

/* Until the while is over; how long it was. */
static uint64_t
sit_out(void)
{
	uint64_t ns = crowd.until_ns - os.now_ns;

	os.now_ns = crowd.until_ns - 1;
	assert_true(crowded());
	os.now_ns++;
	assert_false(crowded());
	return ns;
}

static int
setup(void **state)
{
	os.now_ns = 1000000000;
	os.slice_ns = SLICE_NS;
	os.calls = 0;
	crowd = (struct crowd){0};
	return 0;
}

#define TEST(name) UNIT_TEST_IN(name, setup, NULL)

TEST(short_yields_do_not_count_as_oversubscription)
{
	for (unsigned i = 0; i < 1000; i++)
		yield(CROWD_YIELD_NS - 1);
	assert_false(crowded());
	assert_int_equal(os.calls, 0);
}

TEST(consecutive_long_yields_count_as_oversubscription)
{
	make_crowd();
	assert_int_equal(sit_out(), CROWD_FIRST_NS);
}

/* The group waited for its turn, and what it has to do goes quickly in between. */
TEST(work_between_long_yields_resets_the_count)
{
	for (unsigned i = 0; i < 100; i++) {
		yield(LONG_NS);
		yield(LONG_NS);
		os.now_ns += CROWD_BETWEEN_NS;
	}
	for (unsigned i = 0; i < 100; i++) {
		yield(LONG_NS);
		yield(LONG_NS);
		yield(SHORT_NS);
	}
	assert_false(crowded());
	assert_int_equal(os.slice_ns, SLICE_NS);
}

TEST(each_period_is_twice_as_long)
{
	uint64_t want = CROWD_FIRST_NS;

	for (unsigned i = 0; i < 10; i++) {
		make_crowd();
		assert_int_equal(sit_out(), want);
		want = 2 * want < CROWD_MAX_NS ? 2 * want : CROWD_MAX_NS;
	}
	assert_int_equal(want, CROWD_MAX_NS);
	/* long after, it begins anew */
	os.now_ns += CROWD_AGAIN_NS;
	make_crowd();
	assert_int_equal(sit_out(), CROWD_FIRST_NS);
}

TEST(slices_are_short_until_a_yield_is_short)
{
	make_crowd();
	assert_int_equal(os.slice_ns, SCHED_SLICE_SHORT_NS);
	sit_out();
	make_crowd();
	assert_int_equal(os.slice_ns, SCHED_SLICE_SHORT_NS);
	sit_out();
	yield(SHORT_NS);
	assert_int_equal(os.slice_ns, SLICE_NS);
	os.calls = 0;
	yield(SHORT_NS);
	assert_int_equal(os.calls, 0);
}

TEST(slices_stay_without_the_right_to_change_them)
{
	os.slice_ns = 0;
	make_crowd();
	sit_out();
	yield(SHORT_NS);
	assert_int_equal(os.slice_ns, 0);
	assert_int_equal(os.calls, 1);
}

/* The caller waited, and others had the core. */
static void
gap(uint64_t ns)
{
	uint64_t from = os.now_ns + WORK_NS;

	os.now_ns = from + ns;
	crowd_gap(&crowd, from, os.now_ns);
}

/* Threads of another group take turns with the caller; no yield reaches them. */
TEST(gaps_count_although_yields_are_short)
{
	for (unsigned i = 0; i < CROWD_ROW; i++) {
		assert_false(crowded());
		for (unsigned k = 0; k < 100; k++)
			yield(CROWD_ALONE_NS - 1);
		gap(CROWD_YIELD_NS);
	}
	assert_true(crowded());
}

TEST(a_yield_that_was_used_resets_the_gaps)
{
	for (unsigned i = 0; i < 100; i++) {
		gap(LONG_NS);
		gap(LONG_NS);
		yield(SHORT_NS);
	}
	for (unsigned i = 0; i < 100; i++)
		gap(CROWD_YIELD_NS - 1);
	for (unsigned i = 0; i < 100; i++) {
		os.now_ns += CROWD_BETWEEN_NS;
		gap(LONG_NS);
	}
	assert_false(crowded());
}
