/* SPDX-License-Identifier: BSD-3-Clause */
/* Arithmetic of pages (map/page.h), with the page of each kernel that arm64 has. */
#include <unistd.h>
#include "map/page.h"
#include "../../kit/unit.h"

static const uint64_t pages[] = {4096, 16384, 65536};

#define EACH_PAGE(p) for (const uint64_t *p = pages; p < pages + 3; p++)

UNIT_TEST(the_page_is_the_kernels)
{
	assert_int_equal(page_bytes(), sysconf(_SC_PAGESIZE));
	assert_true(page_bytes() >= PAGE_LEAST);
	assert_int_equal(page_bytes() & (page_bytes() - 1), 0);
}

UNIT_TEST(floor_and_ceil_are_the_next_pages)
{
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
UNIT_TEST(a_range_counts_each_page_that_it_touches)
{
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

UNIT_TEST(the_common_alignment_is_that_of_both_ends)
{
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
UNIT_TEST(no_range_overflows)
{
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
