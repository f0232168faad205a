/* SPDX-License-Identifier: BSD-3-Clause */
#include "program.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

void
die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	printf("%s: ", program_invocation_short_name);
	vprintf(fmt, ap);
	putchar('\n');
	va_end(ap);
	fflush(stdout);
	_exit(1); /* skip destructors, which may crash on memory that a test has overwritten */
}

uint64_t
now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t
option_number(const char *name, uint64_t lo, uint64_t hi)
{
	char *end;
	uint64_t n = strtoull(optarg, &end, 0);

	if (!*optarg || *end || n < lo || n > hi)
		die("--%s %s: a number in %" PRIu64 " .. %" PRIu64 " is wanted", name, optarg, lo,
		    hi);
	return n;
}
