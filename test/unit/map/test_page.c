/* SPDX-License-Identifier: BSD-3-Clause */
/* Arithmetic of pages (map/page.h), with the page of each kernel that arm64 has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>
#include <cmocka.h>
#include "map/page.h"

static const uint64_t pages[] = {4096, 16384, 65536};

#define EACH_PAGE(p) for (const uint64_t *p = pages; p < pages + 3; p++)

static void
the_page_is_the_kernels(void **state)
{
	(void)state;
	assert_int_equal(page_bytes(), sysconf(_SC_PAGESIZE));
	assert_true(page_bytes() >= PAGE_LEAST);
	assert_int_equal(page_bytes() & (page_bytes() - 1), 0);
}

static void
floor_and_ceil_are_the_next_pages(void **state)
{
	(void)state;
	EACH_PAGE(p)
	{
		uint64_t at = 5 * *p;

		assert_int_equal(page_floor(at, *p), at);
		assert_int_equal(page_floor(at + 1, *p), at);
		assert_int_equal(page_floor(at - 1, *p), at - *p);
		assert_int_equal(page_ceil(at, *p), at);
		assert_int_equal(page_ceil(at + 1, *p), at + *p);
		assert_int_equal(page_ceil(at - 1, *p), at);
		assert_int_equal(page_floor(UINT64_MAX, *p), UINT64_MAX - *p + 1);
	}
}

/* A region of one byte counts a page, and one across a page's end counts two. */
static void
a_range_counts_each_page_that_it_touches(void **state)
{
	(void)state;
	EACH_PAGE(p)
	{
		uint64_t at = 7 * *p;

		assert_int_equal(page_span(at, 1, *p), *p);
		assert_int_equal(page_span(at, *p, *p), *p);
		assert_int_equal(page_span(at + *p - 1, 1, *p), *p);
		assert_int_equal(page_span(at + *p - 1, 2, *p), 2 * *p);
		assert_int_equal(page_span(at + 1, *p, *p), 2 * *p);
		assert_int_equal(page_span(at, 3 * *p + 1, *p), 4 * *p);
	}
}

static void
the_common_alignment_is_that_of_both_ends(void **state)
{
	(void)state;
	EACH_PAGE(p)
	{
		assert_int_equal(page_common(3 * *p, 4 * *p, 1 << 30), *p);
		assert_int_equal(page_common(8 * *p, 6 * *p, 1 << 30), 2 * *p);
		assert_int_equal(page_common(8 * *p, 6 * *p, *p), *p);
		assert_int_equal(page_common(0, 0, 1 << 30), 1 << 30);
		assert_int_equal(page_common(*p << 11, *p << 11, 1 << 30), *p << 11);
	}
}

/* A client chooses address and length. */
static void
no_range_overflows(void **state)
{
	(void)state;
	EACH_PAGE(p)
	{
		assert_int_equal(page_span(12345, 0, *p), 0);
		assert_int_equal(page_span(UINT64_MAX, 1, *p), 1);
		assert_int_equal(page_span(UINT64_MAX, UINT64_MAX, *p), UINT64_MAX);
		assert_int_equal(page_span(UINT64_MAX - *p, 1, *p), 1);
		assert_int_equal(page_span(UINT64_MAX - 2 * *p, 1, *p), *p);
		assert_int_equal(page_span(0, UINT64_MAX, *p), UINT64_MAX);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_page_is_the_kernels),
		cmocka_unit_test(floor_and_ceil_are_the_next_pages),
		cmocka_unit_test(a_range_counts_each_page_that_it_touches),
		cmocka_unit_test(the_common_alignment_is_that_of_both_ends),
		cmocka_unit_test(no_range_overflows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
