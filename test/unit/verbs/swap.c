/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * LD_PRELOAD of uroce-run in test_run.py: what another container that shares the root's files may
 * do. As soon as uroce-run, which has checked the folders by then, makes its first folder, those in
 * $SWAP (separated by colons) are renamed, and links to /victim take their places.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static void
swap(const char *path)
{
	char was[256];

	snprintf(was, sizeof(was), "%s.was", path);
	if (rename(path, was) != 0 || symlink("/victim", path) != 0)
		perror(path);
}

int
mkdir(const char *path, mode_t mode)
{
	static char list[256];
	const char *given = getenv("SWAP");

	if (given != NULL && *list == 0) {
		snprintf(list, sizeof(list), "%s", given);
		for (char *p = strtok(list, ":"); p != NULL; p = strtok(NULL, ":"))
			swap(p);
	}
	return (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}
