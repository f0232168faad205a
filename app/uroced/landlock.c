/* SPDX-License-Identifier: BSD-3-Clause */
#include "sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <rte_eal.h>
#include "control/daemon.h"
#include "uroce_abi/ctrl.h"
#include "vdev.h"

/*
 * The interface of the kernel. linux/landlock.h is missing before Linux 5.13, and the header of
 * the build machine may be older than the kernel that runs.
 */
#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule       445
#define SYS_landlock_restrict_self  446
#endif
#define VERSION      1u /* flag of the first call: tells the ABI */
#define PATH_BENEATH 1

#define FS(bit)      (1ull << (bit))
#define WRITE_FILE   FS(1)
#define READ_FILE    FS(2)
#define READ_DIR     FS(3)
#define REMOVE_DIR   FS(4)
#define REMOVE_FILE  FS(5)
#define MAKE_DIR     FS(7)
#define MAKE_REG     FS(8)
#define TRUNCATE     FS(14)
#define IOCTL_DEV    FS(15)
#define OF_FILES     (WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV) /* rules of no directory */

/* Rights that each ABI knows, from 1 on; a later one knows at least those of the last. */
static const struct {
	uint64_t fs, net;
} known[] = {
	{FS(13) - 1, 0},
	{FS(14) - 1, 0}, /* moving files between directories: always refused before */
	{FS(15) - 1, 0},
	{FS(15) - 1, 3}, /* TCP */
	{FS(16) - 1, 3},
};

struct ruleset_attr {
	uint64_t fs, net;
};

struct path_beneath {
	uint64_t allowed;
	int32_t parent;
} __attribute__((packed));

struct ruleset {
	int fd;
	uint64_t handled;
	int rc; /* 0 or -errno of the first rule that failed */
};

/* Allows rights for path and what is beneath it. Ignores a path that does not exist. */
static void
allow(struct ruleset *r, const char *path, uint64_t rights)
{
	struct path_beneath rule = {.parent = open(path, O_PATH | O_CLOEXEC)};
	struct stat st;

	if (rule.parent < 0)
		return;
	rule.allowed = rights & r->handled;
	if (fstat(rule.parent, &st) == 0 && !S_ISDIR(st.st_mode))
		rule.allowed &= OF_FILES;
	if (rule.allowed != 0 &&
	    syscall(SYS_landlock_add_rule, r->fd, PATH_BENEATH, &rule, 0) < 0 && r->rc == 0)
		r->rc = -errno;
	close(rule.parent);
}

/* The same for the directory that path is in. Returns its path in dir. */
static const char *
allow_dir(struct ruleset *r, const char *path, uint64_t rights, char dir[PATH_MAX])
{
	char *slash;

	snprintf(dir, PATH_MAX, "%s", path);
	slash = strrchr(dir, '/');
	if (slash == NULL)
		strcpy(dir, ".");
	else
		slash[slash == dir] = '\0';
	allow(r, dir, rights);
	return dir;
}

/* The control socket and the counters beside it (live.c). */
static void
allow_socket(struct ruleset *r, const struct daemon *d)
{
	char path[PATH_MAX], dir[PATH_MAX], above[PATH_MAX];

	snprintf(path, sizeof(path), "%s" UROCE_LIVE_SUFFIX, d->cfg->socket);
	allow(r, path,
	      READ_FILE | READ_DIR | WRITE_FILE | TRUNCATE | MAKE_REG | MAKE_DIR | REMOVE_FILE |
		      REMOVE_DIR);
	allow_dir(r, d->cfg->socket, REMOVE_FILE | REMOVE_DIR, dir);
	if (d->server.made_dir)
		allow_dir(r, dir, REMOVE_DIR, above);
}

static void
allow_ports(struct ruleset *r, const struct options *o, bool unknown)
{
	char path[VDEV_VALUE_MAX], dir[PATH_MAX];

	for (uint32_t i = 0; i < o->vdev.n; i++) {
		/* memif: the socket is removed at the end. */
		if (vdev_value(o->vdev.v[i], "socket", path))
			allow_dir(r, path, REMOVE_FILE, dir);
	}
	if (!unknown)
		return;
	/* What such a driver needs when its NIC is reset or replaced is not known. */
	allow(r, "/sys", READ_FILE | READ_DIR | WRITE_FILE | TRUNCATE);
	allow(r, "/dev", READ_FILE | READ_DIR | WRITE_FILE | TRUNCATE | IOCTL_DEV);
}

int
landlock_ruleset(const struct daemon *d, const struct options *o, bool unknown, int *abi)
{
	int last = (int)(sizeof(known) / sizeof(known[0])) - 1, row;
	struct ruleset r = {.rc = 0};
	struct ruleset_attr attr;
	char telemetry[PATH_MAX];

	*abi = (int)syscall(SYS_landlock_create_ruleset, NULL, 0, VERSION);
	if (*abi < 1)
		return *abi < 0 ? -errno : -EOPNOTSUPP;
	row = *abi - 1 < last ? *abi - 1 : last;
	attr = (struct ruleset_attr){known[row].fs, known[row].net};
	r.handled = attr.fs;
	r.fd = (int)syscall(SYS_landlock_create_ruleset, &attr,
			    attr.net != 0 ? sizeof(attr) : offsetof(struct ruleset_attr, net), 0);
	if (r.fd < 0)
		return -errno;
	allow(&r, "/proc", READ_FILE | READ_DIR); /* of clients: names, capabilities, groups */
	allow(&r, "/dev/null", READ_FILE | WRITE_FILE);
	allow(&r, "/dev/urandom", READ_FILE); /* jansson's hash tables */
	allow_socket(&r, d);
	snprintf(telemetry, sizeof(telemetry), "%s", rte_eal_get_runtime_dir());
	allow(&r, telemetry, REMOVE_FILE);
	allow_ports(&r, o, unknown);
	if (r.rc == 0)
		return r.fd;
	close(r.fd);
	return r.rc;
}

bool
landlock_restrict(int ruleset)
{
	return syscall(SYS_landlock_restrict_self, ruleset, 0) == 0;
}
