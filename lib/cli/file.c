/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "cli/cli.h"

#define BLANK " \t\r"

struct reader {
	const struct cli_field *table;
	void *base;
	const char *section;
	bool inside; /* inside the section */
	char *err;
	size_t room;
};

/* Strips blanks at both ends; modifies text. */
static char *
trim(char *text)
{
	size_t len;

	text += strspn(text, BLANK);
	len = strlen(text);
	while (len > 0 && strchr(BLANK, text[len - 1]) != NULL)
		text[--len] = '\0';
	return text;
}

static int
take_section(struct reader *r, char *line)
{
	char *end = strchr(line, ']');

	if (end == NULL) {
		snprintf(r->err, r->room, "'%.64s' has no ']'; legal: [%s]", line, r->section);
		return -EINVAL;
	}
	*end = '\0';
	r->inside = end[1] == '\0' && strcmp(line + 1, r->section) == 0;
	if (r->inside)
		return 0;
	snprintf(r->err, r->room, "unknown section [%.64s]; there is only [%s]", line + 1,
		 r->section);
	return -EINVAL;
}

static int
take_value(struct reader *r, char *name, char *value)
{
	const struct cli_field *f = cli_find(r->table, name, strlen(name));
	char why[CLI_ERR_MAX];

	if (f == NULL)
		snprintf(r->err, r->room, "unknown option %.64s (--help lists them)", name);
	else if (f->args_only)
		snprintf(r->err, r->room, "option %s is for the command line only", name);
	else if (cli_set(f, r->base, value, why, sizeof(why)) < 0)
		snprintf(r->err, r->room, "option %s: %.380s", name, why);
	else
		return 0;
	return -EINVAL;
}

static int
take_line(struct reader *r, char *line)
{
	char *value;

	line[strcspn(line, "#")] = '\0';
	line = trim(line);
	if (*line == '\0')
		return 0;
	if (*line == '[')
		return take_section(r, line);
	value = strchr(line, '=');
	if (value == NULL || value == line || !r->inside) {
		snprintf(r->err, r->room, "'%.64s' is not 'name = value' under [%s]", line,
			 r->section);
		return -EINVAL;
	}
	*value++ = '\0';
	return take_value(r, trim(line), trim(value));
}

/* Reads the whole file and appends a NUL; NULL with errno. */
static char *
read_all(const char *path)
{
	FILE *f = fopen(path, "re");
	char *text = NULL;
	size_t size = 0;

	if (f == NULL)
		return NULL;
	/* A configuration file contains no NUL, so this reads to its end. */
	if (getdelim(&text, &size, '\0', f) < 0) {
		if (ferror(f)) {
			free(text);
			text = NULL;
		} else if (text != NULL) {
			*text = '\0'; /* the file is empty */
		}
	}
	fclose(f);
	return text;
}

int
cli_file(const struct cli_field *table, void *base, const char *path, const char *section,
	 char **text, char *err, size_t room)
{
	char why[CLI_ERR_MAX], *rest, *line;
	struct reader r = {
		.table = table, .base = base, .section = section, .err = why, .room = sizeof(why)};
	unsigned number = 0;
	int rc = 0;

	*text = read_all(path);
	if (*text == NULL) {
		snprintf(err, room, "%.200s: %s", path, strerror(errno));
		return -EINVAL;
	}
	rest = *text;
	while (rc == 0 && (line = strsep(&rest, "\n")) != NULL) {
		number++;
		rc = take_line(&r, line);
	}
	if (rc < 0) {
		snprintf(err, room, "%.120s: line %u: %.360s", path, number, why);
		free(*text);
		*text = NULL;
	}
	return rc;
}

/* ---- "key=value,key=value" ---- */

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
