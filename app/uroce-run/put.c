/* SPDX-License-Identifier: BSD-3-Clause */

#include <errno.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "run.h"

const char *
path_of(char path[PATH_LEN], const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(path, PATH_LEN, fmt, ap);
	va_end(ap);
	if (n < 0 || n >= PATH_LEN) {
		complain("a path below %s is too long", path);
		path[0] = 0;
	}
	return path;
}

int
put_dir(const char *path)
{
	char part[PATH_LEN];
	size_t len = strlen(path);

	if (len == 0 || len >= sizeof(part))
		return -1;
	for (size_t i = 1; i <= len; i++) {
		if (path[i] != '/' && path[i] != 0)
			continue;
		memcpy(part, path, i);
		part[i] = 0;
		if (mkdir(part, 0755) < 0 && errno != EEXIST) {
			complain("cannot make %s: %s", part, strerror(errno));
			return -1;
		}
	}
	return 0;
}

/* Writes a line into dir/file, making dir. */
int
put(const char *dir, const char *file, const char *fmt, ...)
{
	char path[PATH_LEN];
	va_list ap;
	FILE *f;

	if (put_dir(dir))
		return -1;
	path_of(path, "%s/%s", dir, file);
	f = fopen(path, "we");
	if (!f) {
		complain("cannot write %s: %s", path, strerror(errno));
		return -1;
	}
	va_start(ap, fmt);
	vfprintf(f, fmt, ap);
	va_end(ap);
	fputc('\n', f);
	if (fclose(f)) {
		complain("cannot write %s: %s", path, strerror(errno));
		return -1;
	}
	return 0;
}

int
put_like(const char *dir, const char *file, const char *other)
{
	char path[PATH_LEN], from[PATH_LEN];

	path_of(path, "%s/%s", dir, file);
	path_of(from, "%s/%s", dir, other);
	if (link(from, path) < 0) {
		complain("cannot make %s: %s", path, strerror(errno));
		return -1;
	}
	return 0;
}

int
put_link(const char *dir, const char *name, const char *target)
{
	char path[PATH_LEN];

	if (put_dir(dir))
		return -1;
	path_of(path, "%s/%s", dir, name);
	if (symlink(target, path) < 0) {
		complain("cannot make %s: %s", path, strerror(errno));
		return -1;
	}
	return 0;
}

static int
remove_entry(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	(void)st;
	(void)kind;
	(void)at;
	return remove(path);
}

int
put_remove(const char *dir)
{
	return nftw(dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS | FTW_MOUNT) < 0 ? -1 : 0;
}
