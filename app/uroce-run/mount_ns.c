/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Directories with the host's entries and additional ones: a tmpfs with a bind mount of each old
 * entry is moved over the old directory. An overlay would need fewer mounts, but an ordinary user
 * may not mount one over /dev, and some kernels have no overlays.
 */
#include "run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define SCRATCH "/tmp" /* exists everywhere; hidden only until mount_ns_leave */

static int
write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : write(fd, text, strlen(text));
	int err = errno;

	if (fd >= 0)
		close(fd);
	errno = err;
	return n < 0 ? -1 : 0;
}

/* Gives an ordinary user the right to mount, in a user namespace that maps its ids to themselves.
 */
static int
enter_as_user(void)
{
	uid_t uid = geteuid();
	gid_t gid = getegid();
	char map[64];

	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0) {
		complain("no private mount namespace: %s (it takes root, or user namespaces for "
			 "ordinary users)",
			 strerror(errno));
		return -1;
	}
	snprintf(map, sizeof(map), "%u %u 1", (unsigned int)uid, (unsigned int)uid);
	if (write_text("/proc/self/setgroups", "deny") < 0 ||
	    write_text("/proc/self/uid_map", map) < 0) {
		complain("cannot map uid %u: %s", (unsigned int)uid, strerror(errno));
		return -1;
	}
	snprintf(map, sizeof(map), "%u %u 1", (unsigned int)gid, (unsigned int)gid);
	if (write_text("/proc/self/gid_map", map) < 0) {
		complain("cannot map gid %u: %s", (unsigned int)gid, strerror(errno));
		return -1;
	}
	return 0;
}

int
mount_ns_enter(void)
{
	if (unshare(CLONE_NEWNS) < 0 && enter_as_user())
		return -1;
	/* Later mounts must not propagate to the host. */
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
		complain("cannot make mounts private: %s", strerror(errno));
		return -1;
	}
	return 0;
}

static int
mount_tmpfs(const char *where)
{
	if (mount("uroce", where, "tmpfs", MS_NOSUID, "mode=0755,size=64m") < 0) {
		complain("cannot mount a tmpfs on %s: %s", where, strerror(errno));
		return -1;
	}
	return 0;
}

const char *
mount_ns_scratch(void)
{
	/* A mount in a shared one cannot be moved. */
	return mount_tmpfs(SCRATCH) || mount(NULL, SCRATCH, NULL, MS_PRIVATE, NULL) < 0 ? NULL
											: SCRATCH;
}

int
mount_ns_leave(void)
{
	if (umount2(SCRATCH, MNT_DETACH) < 0) {
		complain("cannot unmount %s: %s", SCRATCH, strerror(errno));
		return -1;
	}
	return 0;
}

static bool
listed(const char *name, const char *const *list)
{
	for (; *list; list++) {
		if (strcmp(name, *list) == 0)
			return true;
	}
	return false;
}

/* Makes to look like from: a symbolic link is copied, anything else bound. */
static int
bind_entry(const char *from, const char *to)
{
	char link[PATH_MAX];
	struct stat st;
	ssize_t n;
	int fd;

	if (lstat(from, &st) < 0)
		return errno == ENOENT ? 0 : -1; /* removed since it was listed */
	if (S_ISLNK(st.st_mode)) {
		n = readlink(from, link, sizeof(link) - 1);
		if (n < 0)
			return -1;
		link[n] = 0;
		return symlink(link, to);
	}
	if (S_ISDIR(st.st_mode)) {
		if (mkdir(to, 0755) < 0)
			return -1;
		return mount(from, to, NULL, MS_BIND | MS_REC, NULL);
	}
	fd = open(to, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return -1;
	close(fd);
	return mount(from, to, NULL, MS_BIND, NULL);
}

int
mount_ns_stage_empty(const char *stage)
{
	if (mkdir(stage, 0755) < 0) {
		complain("cannot make %s: %s", stage, strerror(errno));
		return -1;
	}
	return mount_tmpfs(stage);
}

int
mount_ns_stage(const char *stage, const char *target, const char *const *hide)
{
	char from[PATH_MAX], to[PATH_MAX];
	struct dirent *d;
	int rc = 0;
	DIR *dir;

	if (mount_ns_stage_empty(stage))
		return -1;
	dir = opendir(target);
	if (!dir) {
		complain("cannot read %s: %s", target, strerror(errno));
		return -1;
	}
	while (rc == 0 && (d = readdir(dir))) {
		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0 ||
		    listed(d->d_name, hide))
			continue;
		snprintf(from, sizeof(from), "%s/%s", target, d->d_name);
		snprintf(to, sizeof(to), "%s/%s", stage, d->d_name);
		rc = bind_entry(from, to);
		if (rc)
			complain("cannot keep %s: %s", from, strerror(errno));
	}
	closedir(dir);
	return rc;
}

int
mount_ns_commit(const char *stage, const char *target)
{
	if (mount(stage, target, NULL, MS_MOVE, NULL) < 0) {
		complain("cannot mount over %s: %s", target, strerror(errno));
		return -1;
	}
	return 0;
}
