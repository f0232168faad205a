/* SPDX-License-Identifier: BSD-3-Clause */
/* The daemon's JSON as text for people, on standard output. */
#ifndef UROCECTL_TABLE_H
#define UROCECTL_TABLE_H

#include <stdbool.h>
#include <jansson.h>

/* One line an element of rows, in the columns that belong to what ("qp", "mr" ..). */
void table_print(const char *what, const json_t *rows);
/* Everything that one object says, a line each. */
void table_print_record(json_t *row);
/* Counters of each device, a line each, with those of the workers beside; zeros too if all. */
void table_print_counters(const json_t *rows, bool all);

#endif
