/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/quota.h"

#include <fcntl.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "cli/cli.h"

/* Finds the uid of name, which may be a number. */
static bool
uid_of(const char *name, FILE *passwd, uid_t *uid)
{
	struct passwd *p;
	uint64_t n;

	if (cli_number(name, 0, UINT32_MAX - 1, &n)) {
		*uid = (uid_t)n;
		return true;
	}
	if (passwd == NULL)
		return false;
	rewind(passwd);
	while ((p = fgetpwent(passwd)) != NULL && strcmp(p->pw_name, name) != 0)
		;
	if (p != NULL)
		*uid = p->pw_uid;
	return p != NULL;
}

/* Parses OWNER:FIRST:COUNT. */
static bool
range_parse(char *line, FILE *passwd, struct owner_range *r)
{
	char *first = strchr(line, ':'), *count = first != NULL ? strchr(first + 1, ':') : NULL;
	uint64_t from, n;

	if (count == NULL)
		return false;
	*first++ = *count++ = '\0';
	count[strcspn(count, "\n")] = '\0';
	if (!cli_number(first, 0, UINT32_MAX - 1, &from) ||
	    !cli_number(count, 1, UINT32_MAX - from, &n) || !uid_of(line, passwd, &r->owner))
		return false;
	r->first = (uint32_t)from;
	r->count = (uint32_t)n;
	return true;
}

void
owner_read(struct owner_table *t, FILE *subuid, FILE *passwd)
{
	struct owner_range r, *more;
	size_t room = 0;
	char line[256];

	free(t->range);
	t->range = NULL;
	t->n = 0;
	while (subuid != NULL && fgets(line, sizeof(line), subuid) != NULL) {
		if (!range_parse(line, passwd, &r))
			continue;
		if (t->n == room) {
			room = room != 0 ? 2 * room : 16;
			more = realloc(t->range, room * sizeof(*more));
			if (more == NULL)
				return;
			t->range = more;
		}
		t->range[t->n++] = r;
	}
}

bool
owner_changed(struct owner_table *t, const char *subuid)
{
	struct stat st;

	if (fstatat(AT_FDCWD, subuid, &st, 0) < 0)
		memset(&st, 0, sizeof(st));
	if (st.st_mtim.tv_sec == t->changed.tv_sec && st.st_mtim.tv_nsec == t->changed.tv_nsec &&
	    st.st_size == t->bytes && st.st_ino == t->inode)
		return false;
	t->changed = st.st_mtim;
	t->bytes = st.st_size;
	t->inode = st.st_ino;
	return true;
}

uid_t
owner_of(const struct owner_table *t, uid_t uid)
{
	for (size_t i = 0; i < t->n; i++) {
		if (uid >= t->range[i].first && uid - t->range[i].first < t->range[i].count)
			return t->range[i].owner;
	}
	return uid;
}

void
owner_free(struct owner_table *t)
{
	free(t->range);
	memset(t, 0, sizeof(*t));
}
