/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 128 /* tests of a program */

static struct {
	const char *file;
	int line;
} place[MOST];
static struct CMUnitTest tests[MOST];
static size_t ntests;
static CMFixtureFunction group_setup, group_teardown;
static bool (*can_run)(void);

/* Is this line of a file behind that of test i? */
static bool
is_behind(const char *file, int line, size_t i)
{
	int order = strcmp(file, place[i].file);

	return order != 0 ? order > 0 : line > place[i].line;
}

/* Constructors run in no particular order. */
void
unit_enrol(const struct CMUnitTest *test, const char *file, int line)
{
	size_t at = ntests;

	if (ntests == MOST)
		abort();
	for (; at > 0 && !is_behind(file, line, at - 1); at--) {
		place[at] = place[at - 1];
		tests[at] = tests[at - 1];
	}
	place[at].file = file;
	place[at].line = line;
	tests[at] = *test;
	ntests++;
}

void
unit_fixtures(CMFixtureFunction setup, CMFixtureFunction teardown)
{
	group_setup = setup;
	group_teardown = teardown;
}

void
unit_needs(bool (*can)(void))
{
	can_run = can;
}

int
unit_run(void)
{
	if (ntests == 0) {
		fprintf(stderr, "unit: the program has no tests\n");
		return 1;
	}
	if (can_run != NULL && !can_run())
		return 77;
	return _cmocka_run_group_tests("tests", tests, ntests, group_setup, group_teardown);
}
