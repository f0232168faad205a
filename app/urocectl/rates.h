/* SPDX-License-Identifier: BSD-3-Clause */
/* How fast counters of rows grow, from two answers of the daemon. */
#ifndef UROCECTL_RATES_H
#define UROCECTL_RATES_H

#include <stdbool.h>
#include <stdint.h>
#include <jansson.h>

/*
 * Gives each row of after a member "rates": an object of numbers a second, which topic what ("qp",
 * "stats" ..) counts; "busy_percent" is one. A row that is not in before, or whose counters started
 * anew, gets null. seconds: between the two, more than 0. Returns true if the topic has rates.
 */
bool rates_add(const char *what, const json_t *before, json_t *after, double seconds);

/* Columns of a table of rows with rates, NULL after the last; NULL: the topic's usual ones. */
const char *const *rates_columns(const char *what);

/* CLOCK_MONOTONIC in nanoseconds. */
uint64_t rates_now_ns(void);

/* Sleeps for this long; false if a key was pressed on the terminal tty (-1: none) meanwhile. */
bool rates_sleep(double seconds, int tty);

/* word is an interval, 0.1 to 3600 seconds. Exits with a usage error, which names `of`. */
double rates_interval(const char *of, const char *word);

#endif
