/* SPDX-License-Identifier: BSD-3-Clause */
/* Whose memory is on another NUMA node than the workers: tables of nodes. */
#include "control/numa.h"
#include "../../kit/unit.h"

#define PAGES   4
#define WORKERS 2
#define ABSENT  -2 /* -ENOENT: not in memory */
#define ANY     -1

static const struct {
	int page[PAGES], worker[WORKERS];
	int node;
} table[] = {
	{{0, 0, 0, 0}, {0, 0}, -1},
	{{1, 1, 1, 1}, {0, 0}, 1},
	{{0, 0, 0, 0}, {1, 1}, 0},
	{{1, 1, 1, 1}, {0, 1}, -1},
	{{1, 1, 1, 0}, {0, 0}, 1},
	{{0, 1, 1, 1}, {0, 0}, 1},
	{{0, 0, 1, 1}, {0, 0}, -1},
	{{1, 2, 3, 1}, {0, 0}, -1},
	{{2, 2, 2, 2}, {0, 1}, 2},
	{{ABSENT, 1, 1, 1}, {0, 0}, 1},
	{{ABSENT, ABSENT, 1, 1}, {0, 0}, -1},
	{{ABSENT, ABSENT, ABSENT, ABSENT}, {0, 0}, -1},
	{{1, 1, 1, 1}, {0, ANY}, -1},
};

UNIT_TEST(most_of_the_memory_where_no_worker_runs)
{
	for (unsigned i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		assert_int_equal(numa_elsewhere(table[i].page, PAGES, table[i].worker, WORKERS),
				 table[i].node);
	assert_int_equal(numa_elsewhere(table[0].page, 0, table[0].worker, WORKERS), -1);
}
