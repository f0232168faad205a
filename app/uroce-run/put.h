/* SPDX-License-Identifier: BSD-3-Clause */
/* Files of a made-up tree. Functions return 0, or print why not and return -1. */
#ifndef UROCE_RUN_PUT_H
#define UROCE_RUN_PUT_H

#define PATH_LEN 512

/* Builds a path; one that does not fit comes out empty, which nothing can be written to. */
const char *path_of(char path[PATH_LEN], const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Makes a directory and those above it, as far as they are missing. */
int put_dir(const char *path);
/* Writes a line into dir/file, making dir. */
int put(const char *dir, const char *file, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/*
 * Makes dir/file a hard link to dir/other, whose contents are the same: on tmpfs each file takes a
 * page.
 */
int put_like(const char *dir, const char *file, const char *other);
/* Makes dir/name a symbolic link to target, making dir. */
int put_link(const char *dir, const char *name, const char *target);

#endif
