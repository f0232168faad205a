/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "cli/cli.h"

static uint64_t
field_max(const struct cli_field *f)
{
	return f->max != 0 ? f->max : UINT64_MAX >> (64 - 8 * f->size);
}

static void
store(const struct cli_field *f, void *member, uint64_t value)
{
	switch (f->size) {
	case 1:
		*(uint8_t *)member = (uint8_t)value;
		break;
	case 2:
		*(uint16_t *)member = (uint16_t)value;
		break;
	case 4:
		*(uint32_t *)member = (uint32_t)value;
		break;
	default:
		*(uint64_t *)member = value;
	}
}

static int
wrong_power2(const struct cli_field *f, const char *value, char *err, size_t room)
{
	size_t len = (size_t)snprintf(err, room, "'%.100s' is not", value);

	for (uint64_t n = f->min; n <= f->max && len < room; n *= 2)
		len += (size_t)snprintf(err + len, room - len, "%s%llu",
					n == f->min       ? " "
					: n * 2 <= f->max ? ", "
							  : " or ",
					(unsigned long long)n);
	return -EINVAL;
}

static bool
read_number(const char *text, int base, uint64_t min, uint64_t max, uint64_t *n)
{
	unsigned long long v;
	char *end;

	/* strtoull accepts a sign and leading space, which no number here may have */
	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	v = strtoull(text, &end, base);
	if (*end != '\0' || errno != 0 || v < min || v > max)
		return false;
	*n = v;
	return true;
}

bool
cli_number(const char *text, uint64_t min, uint64_t max, uint64_t *n)
{
	return read_number(text, strncmp(text, "0x", 2) == 0 ? 16 : 10, min, max, n);
}

/* Returns the word that stands for 0; NULL: none. */
static const char *
zero_word(const struct cli_field *f)
{
	return f->type == CLI_NUMBER && f->names != NULL ? f->names[0] : NULL;
}

static int
set_number(const struct cli_field *f, void *member, const char *value, char *err, size_t room)
{
	uint64_t max = field_max(f), n;
	const char *word = zero_word(f);

	if (word != NULL && strcmp(value, word) == 0) {
		store(f, member, 0);
		return 0;
	}
	if (f->type == CLI_OCTAL ? read_number(value, 8, f->min, max, &n)
				 : cli_number(value, f->min, max, &n)) {
		if (f->type != CLI_POWER2 || (n & (n - 1)) == 0) {
			store(f, member, n);
			return 0;
		}
	}
	if (f->type == CLI_POWER2)
		return wrong_power2(f, value, err, room);
	snprintf(err, room,
		 f->type == CLI_OCTAL ? "'%.200s' is not %s%san octal number from %llo to %llo"
				      : "'%.200s' is not %s%sa number from %llu to %llu",
		 value, word != NULL ? word : "", word != NULL ? " or " : "",
		 (unsigned long long)f->min, (unsigned long long)max);
	return -EINVAL;
}

static int
set_choice(const struct cli_field *f, void *member, const char *value, char *err, size_t room)
{
	size_t len;

	for (unsigned i = 0; f->names[i] != NULL; i++) {
		if (strcmp(f->names[i], value) == 0) {
			store(f, member, f->min + i);
			return 0;
		}
	}
	len = (size_t)snprintf(err, room, "unknown '%.200s'; legal:", value);
	for (unsigned i = 0; f->names[i] != NULL && len < room; i++)
		len += (size_t)snprintf(err + len, room - len, " %s", f->names[i]);
	return -EINVAL;
}

static int
set_switch(bool *member, const char *value, char *err, size_t room)
{
	*member = strcmp(value, "yes") == 0;
	if (*member || strcmp(value, "no") == 0)
		return 0;
	snprintf(err, room, "'%.200s' is not yes or no", value);
	return -EINVAL;
}

static int
set_text(const struct cli_field *f, void *member, const char *value, char *err, size_t room)
{
	struct cli_list *list = member;
	int rc = f->check != NULL ? f->check(value, err, room) : 0;

	if (rc < 0)
		return rc;
	if (*value == '\0') {
		snprintf(err, room, "the value is empty");
		return -EINVAL;
	}
	if (f->type == CLI_TEXT) {
		*(const char **)member = value;
		return 0;
	}
	if (list->n == CLI_LIST_MAX) {
		snprintf(err, room, "given more than %d times", CLI_LIST_MAX);
		return -EINVAL;
	}
	list->v[list->n++] = value;
	return 0;
}

static int
set_other(const struct cli_field *f, void *member, const char *value, char *err, size_t room)
{
	if (f->take(member, value))
		return 0;
	snprintf(err, room, "'%.100s' is not %s", value, f->legal);
	return -EINVAL;
}

static int
set_member(const struct cli_field *f, void *member, const char *value, char *err, size_t room)
{
	switch (f->type) {
	case CLI_SWITCH:
		return set_switch(member, value, err, room);
	case CLI_NUMBER:
	case CLI_OCTAL:
	case CLI_POWER2:
		return set_number(f, member, value, err, room);
	case CLI_CHOICE:
		return set_choice(f, member, value, err, room);
	case CLI_TEXT:
	case CLI_LIST:
		return set_text(f, member, value, err, room);
	case CLI_OTHER:
		return set_other(f, member, value, err, room);
	case CLI_HEADING:
		break;
	}
	return -EINVAL;
}

int
cli_set(const struct cli_field *f, void *base, const char *value, char *err, size_t room)
{
	int rc = set_member(f, (char *)base + f->offset, value, err, room);

	if (rc == 0 && f->given != 0)
		*(bool *)((char *)base + f->given) = true;
	return rc;
}

static uint64_t
load(const struct cli_field *f, const void *member)
{
	switch (f->size) {
	case 1:
		return *(const uint8_t *)member;
	case 2:
		return *(const uint16_t *)member;
	case 4:
		return *(const uint32_t *)member;
	default:
		return *(const uint64_t *)member;
	}
}

static void
list_text(const struct cli_list *list, char *out, size_t room)
{
	size_t len = 0;

	out[0] = '\0';
	for (uint32_t i = 0; i < list->n && len < room; i++)
		len += (size_t)snprintf(out + len, room - len, "%s%s", i > 0 ? " " : "",
					list->v[i]);
}

void
cli_text(const struct cli_field *f, const void *base, char *out, size_t room)
{
	const void *member = (const char *)base + f->offset;
	const char *text = "";

	switch (f->type) {
	case CLI_NUMBER:
	case CLI_POWER2:
	case CLI_OCTAL:
		if (zero_word(f) != NULL && load(f, member) == 0) {
			text = zero_word(f);
			break;
		}
		snprintf(out, room, f->type == CLI_OCTAL ? "0%llo" : "%llu",
			 (unsigned long long)load(f, member));
		return;
	case CLI_LIST:
		list_text(member, out, room);
		return;
	case CLI_SWITCH:
		text = *(const bool *)member ? "yes" : "no";
		break;
	case CLI_CHOICE:
		text = f->names[load(f, member) - f->min];
		break;
	case CLI_TEXT:
		text = *(const char *const *)member;
		break;
	case CLI_OTHER:
	case CLI_HEADING:
		break;
	}
	snprintf(out, room, "%s", text != NULL ? text : "");
}

const struct cli_field *
cli_find(const struct cli_field *table, const char *name, size_t len)
{
	for (const struct cli_field *f = table; f->name != NULL; f++) {
		if (f->type != CLI_HEADING && strlen(f->name) == len &&
		    memcmp(f->name, name, len) == 0)
			return f;
	}
	return NULL;
}

void
cli_defaults(const struct cli_field *table, void *base)
{
	char err[CLI_ERR_MAX];

	for (const struct cli_field *f = table; f->name != NULL; f++) {
		if (f->def != NULL)
			(void)cli_set(f, base, f->def, err, sizeof(err));
	}
}
