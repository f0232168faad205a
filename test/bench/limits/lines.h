/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds cache lines that several threads write (false sharing), without a processor's counters. One
 * thread runs while the others are stopped: it has written all memory of the process that changes
 * in this time. A store of the value that was there before is not seen.
 *
 * Not seen either: stacks of threads, and memory that was mapped after lines_open.
 */
#ifndef UROCE_BENCH_LINES_H
#define UROCE_BENCH_LINES_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define LINES_THREADS 7
#define LINES_BYTES   64u

struct lines;

/* On each thread that is to be looked at, before lines_open: its number, 0 .. LINES_THREADS - 1. */
void lines_enter(unsigned thread);
/*
 * Stops the threads 0 .. n - 1, and finds out which lines others write: the main thread, which
 * calls meanwhile(arg) several times, and those of EAL. These lines do not count. Main thread,
 * once. Exits with 1 on failure.
 */
struct lines *lines_open(unsigned n, void (*meanwhile)(void *arg), void *arg);
/* Lets one thread run until enough(arg) is true. */
void lines_run_alone(struct lines *l, unsigned thread, bool (*enough)(void *arg), void *arg);
/* How many lines the thread has written. */
uint64_t lines_written(const struct lines *l, unsigned thread);
/* Calls found for each line that several threads have written; writers: a bit for each. */
void lines_shared(const struct lines *l,
		  void (*found)(uintptr_t line, unsigned writers, const char *mapping, void *arg),
		  void *arg);
/* Lets all threads run again. */
void lines_close(struct lines *l);

#endif
