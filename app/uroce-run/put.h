/* SPDX-License-Identifier: BSD-3-Clause */
/* Creates files of the emulated sysfs tree. Functions return 0, or print the reason and return -1.
 */
#ifndef UROCE_RUN_PUT_H
#define UROCE_RUN_PUT_H

#define PATH_LEN 512

/* Builds a path. One that does not fit becomes "", and every write to it fails. */
const char *path_of(char path[PATH_LEN], const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Makes a directory and its missing parents. */
int put_dir(const char *path);
/* Writes a line into dir/file, making dir. */
int put(const char *dir, const char *file, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/*
 * Makes dir/file a hard link to dir/other, which has the same contents. This saves a page of tmpfs.
 */
int put_like(const char *dir, const char *file, const char *other);
/* Removes a folder with all its contents, but nothing that is mounted in it. 0 or -1 with errno. */
int put_remove(const char *dir);
/* Makes dir/name a symbolic link to target, making dir. */
int put_link(const char *dir, const char *name, const char *target);

#endif
