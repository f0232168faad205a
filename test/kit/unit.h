/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Unit tests with cmocka. A program has no list of its tests: it runs each one that UNIT_TEST or
 * UNIT_TEST_IN begins, in the order of the source.
 */
#ifndef KIT_UNIT_H
#define KIT_UNIT_H

/* cmocka needs these in front of its header. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "requirement.h"

/* Begins a test: UNIT_TEST(name) { .. }. */
#define UNIT_TEST(name) UNIT_TEST_IN(name, NULL, NULL)
/* The same with cmocka's fixtures. A suite gives its own a short name, as BENCH_TEST. */
#define UNIT_TEST_IN(name, setup, teardown)                                                        \
	static void name(void **state);                                                            \
	__attribute__((constructor)) static void name##_enrol(void)                                \
	{                                                                                          \
		static const struct CMUnitTest test_ = {#name, name, setup, teardown, NULL};       \
		unit_enrol(&test_, __FILE__, __LINE__);                                            \
	}                                                                                          \
	static void name(void **state)

/* Fixtures of the program, once; NULL: none. In a file of the program or of its harness. */
#define UNIT_PROGRAM(setup, teardown)                                                              \
	__attribute__((constructor)) static void unit_program_enrol(void)                          \
	{                                                                                          \
		unit_fixtures(setup, teardown);                                                    \
	}                                                                                          \
	_Static_assert(1, "a semicolon follows")

/* Skips the program, as meson has it (77), unless can(), which is called first, returns true. */
#define UNIT_NEEDS(can)                                                                            \
	__attribute__((constructor)) static void unit_needs_enrol(void)                            \
	{                                                                                          \
		unit_needs(can);                                                                   \
	}                                                                                          \
	_Static_assert(1, "a semicolon follows")

/*
 * Runs the program's tests. Returns the number of those that failed, 1 if there are none, or 77. A
 * program without a main has one that does nothing else.
 */
int unit_run(void);

/* For the macros above. */
void unit_enrol(const struct CMUnitTest *test, const char *file, int line);
void unit_fixtures(CMFixtureFunction setup, CMFixtureFunction teardown);
void unit_needs(bool (*can)(void));

#endif
