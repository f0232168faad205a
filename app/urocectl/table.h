/* SPDX-License-Identifier: BSD-3-Clause */
/* The daemon's JSON as text for people, on standard output. */
#ifndef UROCECTL_TABLE_H
#define UROCECTL_TABLE_H

#include <stdbool.h>
#include <jansson.h>

/* One line for each element of rows, with the columns of the topic what ("qp", "mr" ..). */
void table_print(const char *what, const json_t *rows);
/* The same with these columns, NULL after the last. */
void table_print_columns(const char *const *column, const json_t *rows);
/* All fields of one object, one on each line. */
void table_print_record(json_t *row);
/* Counters of each device, one on each line, with a column for each worker; all: zeros too. */
void table_print_counters(const json_t *rows, bool all);

/* The same without workers, with rates.h's rates: "counter  value  a second". */
void table_print_rates(const json_t *rows, bool all);

#endif
