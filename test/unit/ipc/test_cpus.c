/* SPDX-License-Identifier: BSD-3-Clause */
/* How many workers --workers auto means. */

#include <limits.h>
#include "cpus.h"
#include "../../kit/unit.h"

UNIT_TEST(one_cpu_is_left_to_the_control_thread)
{
	static const struct {
		struct cpus_found found;
		unsigned queues, workers;
	} table[] = {
		/* allowed, quota, --lcores; queues */
		{{1, 0, 0}, 16, 1},
		{{2, 0, 0}, 16, 1},
		{{3, 0, 0}, 16, 2},
		{{8, 0, 0}, 16, 7},
		{{64, 0, 0}, UINT_MAX, 16},
		{{8, 4, 0}, 16, 3},
		{{8, 1, 0}, 16, 1},
		{{2, 32, 0}, 16, 1},
		{{8, 0, 0}, 4, 4},
		{{8, 0, 0}, 1, 1},
		{{8, 0, 0}, 0, 1},
		/* the user has chosen CPUs for workers only */
		{{8, 0, 2}, 16, 2},
		{{8, 1, 3}, 16, 3},
		{{2, 0, 2}, 1, 1},
	};

	for (unsigned i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		assert_int_equal(cpus_workers(&table[i].found, table[i].queues), table[i].workers);
}

UNIT_TEST(quota_is_read_in_whole_cpus)
{
	assert_int_equal(cpus_of_quota("max 100000\n"), 0);
	assert_int_equal(cpus_of_quota("200000 100000\n"), 2);
	assert_int_equal(cpus_of_quota("399999 100000"), 3);
	assert_int_equal(cpus_of_quota("50000 100000"), 1);
	assert_int_equal(cpus_of_quota("1 0"), 0);
	assert_int_equal(cpus_of_quota("18446744073709551615 1"), UINT_MAX);
	assert_int_equal(cpus_of_quota("200000"), 0);
	assert_int_equal(cpus_of_quota(""), 0);
}

UNIT_TEST(this_process_has_cpus)
{
	struct cpus_found f;

	cpus_find(&f, NULL);
	assert_true(f.allowed >= 1);
	assert_int_equal(f.lcores, 0);
	cpus_find(&f, "0,2-3");
	assert_int_equal(f.lcores, 3);
}
