/* SPDX-License-Identifier: BSD-3-Clause */
#include "ipc/sockpath.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include "uroce_abi/ctrl.h"

#define NAME "uroced.sock"

static char own[sizeof(((struct sockaddr_un *)0)->sun_path)];
static pthread_once_t own_once = PTHREAD_ONCE_INIT;

/* Returns true if path is a folder of this user that no other user may write to. */
static bool
is_ours_alone(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
	       (st.st_mode & 022) == 0;
}

/* The folder of path, which has a slash. */
static const char *
folder_of(const char *path, char folder[PATH_MAX])
{
	snprintf(folder, PATH_MAX, "%.*s", (int)(strrchr(path, '/') - path), path);
	return folder;
}

static void
own_find(void)
{
	const char *run = secure_getenv("XDG_RUNTIME_DIR");

	if (geteuid() == 0 || getauxval(AT_SECURE) != 0)
		return;
	if (run != NULL && *run == '/' && is_ours_alone(run) &&
	    (size_t)snprintf(own, sizeof(own), "%s/uroce/" NAME, run) < sizeof(own))
		return;
	snprintf(own, sizeof(own), "/tmp/uroce-%u/" NAME, (unsigned)geteuid());
}

const char *
ipc_own_socket(void)
{
	pthread_once(&own_once, own_find);
	return *own != '\0' ? own : NULL;
}

const char *
ipc_socket_to_use(void)
{
	const char *path = ipc_own_socket();
	char folder[PATH_MAX];
	struct stat st;

	if (path != NULL && is_ours_alone(folder_of(path, folder)) && lstat(path, &st) == 0 &&
	    S_ISSOCK(st.st_mode))
		return path;
	return UROCE_DEFAULT_SOCK;
}

/* Returns true if this process may create path, including its folder but no further one. */
static bool
may_create(const char *path)
{
	char folder[PATH_MAX], above[PATH_MAX];

	folder_of(path, folder);
	if (access(folder, W_OK | X_OK) == 0)
		return true;
	return errno == ENOENT && access(folder_of(folder, above), W_OK | X_OK) == 0;
}

const char *
ipc_socket_to_make(void)
{
	const char *path = ipc_own_socket();
	char folder[PATH_MAX];
	struct stat st;

	if (path == NULL || may_create(UROCE_DEFAULT_SOCK))
		return UROCE_DEFAULT_SOCK;
	folder_of(path, folder);
	return is_ours_alone(folder) || lstat(folder, &st) != 0 ? path : NULL;
}
