/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <string.h>
#include "cli/cli.h"

static int
unknown_key(const struct cli_field *table, const char *key, char *err, size_t room)
{
	size_t len = (size_t)snprintf(err, room, "unknown '%.60s'; legal:", key);

	for (; table->name != NULL && len < room; table++)
		len += (size_t)snprintf(err + len, room - len, " %s", table->name);
	return -EINVAL;
}

static int
take_pair(const struct cli_field *table, void *base, char *key, uint64_t *seen, char *err,
	  size_t room)
{
	char *value = strchr(key, '='), why[CLI_ERR_MAX];
	const struct cli_field *f;
	uint64_t bit;

	if (value != NULL)
		*value++ = '\0';
	f = cli_find(table, key, strlen(key));
	if (f == NULL)
		return unknown_key(table, key, err, room);
	bit = 1ull << (f - table);
	if (value == NULL || *value == '\0')
		snprintf(err, room, "%s: needs a value, %s=..%s%s", key, key,
			 f->legal != NULL ? ": " : "", f->legal != NULL ? f->legal : "");
	else if ((*seen & bit) != 0 && !f->many)
		snprintf(err, room, "%s: given twice", key);
	else if (cli_set(f, base, value, why, sizeof(why)) < 0)
		snprintf(err, room, "%s: %s", key, why);
	else
		return *seen |= bit, 0;
	return -EINVAL;
}

/* Reports an empty item. last: key of the item before it; NULL: there is none. Returns -EINVAL. */
static int
empty_item(const char *last, char *err, size_t room)
{
	if (last == NULL)
		snprintf(err, room, "begins with ','; legal: key=value,key=value");
	else
		snprintf(err, room,
			 "nothing follows the ',' after %.60s=..; legal: "
			 "key=value,key=value",
			 last);
	return -EINVAL;
}

int
cli_pairs(const struct cli_field *table, void *base, char *text, uint64_t *seen, char *err,
	  size_t room)
{
	char *pair, *last = NULL;
	int rc = 0;

	if (*text == '\0')
		return 0;
	while (rc == 0 && (pair = strsep(&text, ",")) != NULL) {
		if (*pair != '\0')
			rc = take_pair(table, base, pair, seen, err, room);
		else
			rc = empty_item(last, err, room);
		last = pair;
	}
	return rc;
}
