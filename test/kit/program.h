/* SPDX-License-Identifier: BSD-3-Clause */
/* Helpers of a test program: parse numbers, read the clock, end when it cannot continue. */
#ifndef KIT_PROGRAM_H
#define KIT_PROGRAM_H

#include <stdint.h>

/* Prints the program's name and the message on standard output, and ends with status 1 at once. */
void die(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));
/* Monotonic clock, ns. */
uint64_t now_ns(void);
/*
 * The value of the option --name (optarg) as a number in lo .. hi; otherwise dies and prints the
 * range.
 */
uint64_t option_number(const char *name, uint64_t lo, uint64_t hi);

#endif
