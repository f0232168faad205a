/* SPDX-License-Identifier: BSD-3-Clause */
#include "filter.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "cli/cli.h"
#include "urocectl.h"

static const struct {
	enum filter_kind kind;
	const char *word, *key, *value;
	uint64_t max; /* of a number; 0: text */
} kinds[] = {
	{FILTER_DEV, "dev", "device", "NAME", 0},
	{FILTER_QPN, "qpn", "qpn", "N", 0xffffff},
	{FILTER_PID, "pid", "pid", "N", 1u << 22},
	{FILTER_UID, "uid", "uid", "N", UINT32_MAX},
	{FILTER_STATE, "state", "state", "STATE", 0},
	{FILTER_TYPE, "type", "type", "TYPE", 0},
	{FILTER_WORKER, "worker", "worker", "N", UROCE_MAX_WORKERS - 1},
};
#define NKINDS (sizeof(kinds) / sizeof(kinds[0]))

static unsigned
kind_of(const char *word)
{
	unsigned k = 0;

	while (k < NKINDS && strcmp(kinds[k].word, word) != 0)
		k++;
	return k;
}

void
filter_words(unsigned legal, char *out, size_t room)
{
	size_t len = 0;

	out[0] = '\0';
	for (unsigned k = 0; k < NKINDS && len < room; k++) {
		if (legal & kinds[k].kind)
			len += (size_t)snprintf(out + len, room - len, "%s%s %s",
						len > 0 ? ", " : "", kinds[k].word, kinds[k].value);
	}
}

static void
take_value(struct filters *fs, unsigned k, const char *of, const char *word)
{
	struct filter *f = &fs->f[fs->n]; /* there is one for each kind */

	for (unsigned i = 0; i < fs->n; i++) {
		if (strcmp(fs->f[i].key, kinds[k].key) == 0)
			usage_error("%s: %s is given twice", of, kinds[k].word);
	}
	*f = (struct filter){.key = kinds[k].key};
	if (kinds[k].max == 0)
		f->text = word;
	else if (!cli_number(word, 0, kinds[k].max, &f->number))
		usage_error("%s: %s '%s' is not a number from 0 to %llu", of, kinds[k].word, word,
			    (unsigned long long)kinds[k].max);
	if (kinds[k].kind == FILTER_DEV && strlen(word) >= UROCE_DEV_NAME_MAX)
		usage_error("%s: device name '%s' is longer than %u bytes", of, word,
			    UROCE_DEV_NAME_MAX - 1);
	fs->n++;
	fs->waits = NULL;
}

bool
filter_take(struct filters *fs, unsigned legal, const char *of, const char *word)
{
	unsigned k;

	if (fs->waits != NULL) {
		take_value(fs, kind_of(fs->waits), of, word);
		return true;
	}
	k = kind_of(word);
	if (k == NKINDS || !(legal & kinds[k].kind))
		return false;
	fs->waits = word;
	return true;
}

/* Is word, in letters of either case, one of those in list? */
static bool
is_in(const char *list, const char *word)
{
	size_t len = strlen(word), n;

	for (; *list != '\0'; list += n + (list[n] == ' ')) {
		n = strcspn(list, " ");
		if (n == len && strncasecmp(list, word, n) == 0)
			return true;
	}
	return false;
}

void
filter_check(const struct filters *fs, const char *of, const char *states, const char *types)
{
	if (fs->waits != NULL)
		usage_error("%s: '%s' needs a value: %s %s", of, fs->waits, fs->waits,
			    kinds[kind_of(fs->waits)].value);
	for (unsigned i = 0; i < fs->n; i++) {
		const struct filter *f = &fs->f[i];
		const char *legal = strcmp(f->key, "state") == 0  ? states
				    : strcmp(f->key, "type") == 0 ? types
								  : NULL;

		if (legal != NULL && !is_in(legal, f->text))
			usage_error("%s: unknown %s '%s'; legal: %s", of, f->key, f->text, legal);
	}
}

static bool
matches(const struct filters *fs, const json_t *row)
{
	for (unsigned i = 0; i < fs->n; i++) {
		const json_t *v = json_object_get(row, fs->f[i].key);

		if (fs->f[i].text != NULL
			    ? !json_is_string(v) ||
				      strcasecmp(json_string_value(v), fs->f[i].text) != 0
			    : !json_is_integer(v) ||
				      (uint64_t)json_integer_value(v) != fs->f[i].number)
			return false;
	}
	return true;
}

void
filter_rows(const struct filters *fs, json_t *rows)
{
	for (size_t i = json_array_size(rows); i > 0; i--) {
		if (!matches(fs, json_array_get(rows, i - 1)))
			json_array_remove(rows, i - 1);
	}
}

const char *
filter_text(const struct filters *fs, const char *key)
{
	for (unsigned i = 0; i < fs->n; i++) {
		if (strcmp(fs->f[i].key, key) == 0)
			return fs->f[i].text;
	}
	return NULL;
}
