/* SPDX-License-Identifier: BSD-3-Clause */
/* Filters of rows, in the words of ip(8): "dev uroce0 pid 4711". All must match. */
#ifndef UROCECTL_FILTER_H
#define UROCECTL_FILTER_H

#include <stdbool.h>
#include <stdint.h>
#include <jansson.h>

#define FILTER_MAX 8

enum filter_kind {
	FILTER_DEV = 1 << 0,
	FILTER_QPN = 1 << 1,
	FILTER_PID = 1 << 2,
	FILTER_UID = 1 << 3,
	FILTER_STATE = 1 << 4,
	FILTER_TYPE = 1 << 5,
	FILTER_WORKER = 1 << 6,
};

struct filter {
	const char *key; /* of the rows */
	const char *text;
	uint64_t number; /* text is NULL */
};
struct filters {
	struct filter f[FILTER_MAX];
	unsigned n;
	const char *waits; /* a filter's word whose value comes next; NULL: none */
};

/*
 * Takes a word: a filter's name, or its value. legal: enum filter_kind bits. Returns false if it is
 * neither; exits with a usage error, which names `of`, if it is wrong.
 */
bool filter_take(struct filters *fs, unsigned legal, const char *of, const char *word);
/*
 * All words were taken: exits if a value is missing, or is not one of states or types, words with
 * spaces between them; NULL: there is no such filter.
 */
void filter_check(const struct filters *fs, const char *of, const char *states, const char *types);
/* Writes the words of legal, like "dev NAME, qpn N". */
void filter_words(unsigned legal, char *out, size_t room);
/* Removes the rows that do not match. Rows in which other users' fields are hidden do not match. */
void filter_rows(const struct filters *fs, json_t *rows);
/* The text of filter key ("device"), or NULL. */
const char *filter_text(const struct filters *fs, const char *key);

#endif
