/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that a daemon of the same ordinary user cannot use: program text with write access, and
 * the stack of a process that cannot be dumped.
 *
 *   unusable DEVICE
 *
 * TAP; exit status 0 when all tests passed.
 */
#include "kit/verbside.h"

#include <errno.h>
#include <stdint.h>
#include <sys/prctl.h>

static struct side side;

static void
text_is_not_writable(void)
{
	errno = 0;
	CHECK(!ibv_reg_mr(side.pd, (void *)(uintptr_t)side_open, 64, SIDE_ACCESS) &&
	      errno == EFAULT);
}

static void
a_process_that_cannot_be_dumped_is_not_read(void)
{
	uint8_t stack[4096];

	CHECK(prctl(PR_SET_DUMPABLE, 0) == 0);
	errno = 0;
	CHECK(!ibv_reg_mr(side.pd, stack, sizeof(stack), SIDE_ACCESS) && errno == EPERM);
}

int
main(int argc, char **argv)
{
	static const struct side_test tests[] = {
		SIDE_TEST(text_is_not_writable),
		SIDE_TEST(a_process_that_cannot_be_dumped_is_not_read),
	};

	return side_main(argc, argv, &side, 1, tests, sizeof(tests) / sizeof(tests[0]));
}
