/* SPDX-License-Identifier: BSD-3-Clause */
/* When a worker without work gives up its core: idle.c alone; clock and scheduler are this file's.
 */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "worker/priv.h"

#define SWITCHED_NS 3000 /* a yield that let somebody else run */
#define NOBODY_NS   500  /* one that did not */
#define ROUND_NS    100
#define SPIN_NS     5000 /* idle.c's ALONE_NS */

static struct {
	uint64_t now_ns, yield_ns;
	unsigned yields;
} os;

int
sched_yield(void)
{
	os.yields++;
	os.now_ns += os.yield_ns;
	return 0;
}

uint64_t
timer_now_ns(void)
{
	return os.now_ns;
}

uint64_t
timer_next_ns(void)
{
	return UINT64_MAX;
}

bool
doorbell_waits(const struct worker *w)
{
	return false;
}

void
doorbell_set_asleep(struct worker *w, uint32_t asleep)
{
}

static struct worker_set set = {.idle = WORKER_IDLE_ADAPTIVE};
static struct worker worker = {.ws = &set};

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
	os.now_ns = 1000000;
	os.yields = 0;
	worker.alone_until_ns = worker.idle_since_ns = 0;
	set.idle = WORKER_IDLE_ADAPTIVE;
	return 0;
}

static void
test_who_shares_a_core_yields_every_time(void **state)
{
	os.yield_ns = SWITCHED_NS;
	for (unsigned i = 1; i <= 5; i++) {
		empty();
		assert_int_equal(os.yields, i);
	}
}

static void
test_who_is_alone_spins_for_a_while(void **state)
{
	os.yield_ns = NOBODY_NS;
	for (unsigned i = 0; i < SPIN_NS / ROUND_NS; i++)
		empty();
	assert_int_equal(os.yields, 1);
	/* then somebody has come, and gets the core every time */
	os.yield_ns = SWITCHED_NS;
	empty();
	assert_int_equal(os.yields, 2);
	empty();
	assert_int_equal(os.yields, 3);
}

static void
test_who_has_a_core_of_its_own_never_yields(void **state)
{
	set.idle = WORKER_IDLE_POLL;
	for (unsigned i = 0; i < 100; i++)
		empty();
	assert_int_equal(os.yields, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_who_shares_a_core_yields_every_time, setup),
		cmocka_unit_test_setup(test_who_is_alone_spins_for_a_while, setup),
		cmocka_unit_test_setup(test_who_has_a_core_of_its_own_never_yields, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
