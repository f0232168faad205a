/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libibverbs has no provider operation for GIDs and P_Keys: it reads files of sysfs. For our
 * devices uroce-run has written these before the program started. An operator may change both
 * tables while the program runs (EVT-12, EVT-13), so libibverbs gets the daemon's reply in place of
 * the file. Programs that read sysfs without libibverbs see the tables as of their start. (The
 * daemon writes the files of the port's state and counters: app/uroced/live.c.)
 */
#include "provider.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CLASS "/infiniband/"

enum table {
	TABLE_GID,
	TABLE_PKEY,
};

struct entry {
	char device[UROCE_DEV_NAME_MAX];
	enum table table;
	uint32_t index;
};

/* Skips the prefix what of *p. Returns false if *p does not start with it. */
static bool
skip(const char **p, const char *what)
{
	size_t len = strlen(what);

	if (strncmp(*p, what, len) != 0)
		return false;
	*p += len;
	return true;
}

/* Finds the table and entry that a path like /sys/class/infiniband/uroce0/ports/1/gids/3 names. */
static bool
entry_of(const char *path, struct entry *e)
{
	const char *p = strstr(path, CLASS), *name;
	size_t len;
	char *end;

	if (!p)
		return false;
	name = p + strlen(CLASS);
	len = strcspn(name, "/");
	if (len >= sizeof(e->device))
		return false;
	memcpy(e->device, name, len);
	e->device[len] = 0;
	p = name + len;
	if (!skip(&p, "/ports/1/"))
		return false;
	if (skip(&p, "gids/"))
		e->table = TABLE_GID;
	else if (skip(&p, "pkeys/"))
		e->table = TABLE_PKEY;
	else
		return false;
	e->index = (uint32_t)strtoul(p, &end, 10);
	return *p >= '0' && *p <= '9' && *end == 0;
}

static bool
is_empty(const struct uroce_gid_rep *gid)
{
	static const uint8_t none[16];

	return memcmp(gid->gid, none, sizeof(none)) == 0;
}

/*
 * Warns of an empty GID that the program has asked for by its index, once: such a program does not
 * look at the GID, and its peer fails later. A program that looks for a GID reads all indexes from
 * 0 on, so it has read the index before.
 */
static void
note_gid(const struct entry *e, const struct uroce_gid_rep *gid)
{
	static uint64_t read_before; /* a bit for each index, of all devices */
	struct uroce_gid_req req = {.port = 1};
	struct uroce_gid_rep rep;
	char list[96] = "none";
	size_t len = 0;
	uint64_t before;

	if (e->index >= UROCE_MAX_GIDS)
		return;
	before = __atomic_fetch_or(&read_before, 1ull << e->index, __ATOMIC_RELAXED);
	if (!is_empty(gid) || e->index == 0 || (before >> (e->index - 1) & 3) != 0)
		return;
	for (; req.index < UROCE_MAX_GIDS && len + 8 < sizeof(list); req.index++) {
		if (!prov_call_device(e->device, UROCE_CTRL_QUERY_GID, &req, sizeof(req), &rep,
				      sizeof(rep)) &&
		    !is_empty(&rep))
			len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%u",
						len ? ", " : "", req.index);
	}
	fprintf(stderr, "uroce: GID index %u of %s is empty; indexes: %s\n", e->index, e->device,
		list);
}

/* Gets the file's text in the kernel's format. Returns false if the daemon does not provide it. */
static bool
read_gid(const struct entry *e, char *text, size_t room)
{
	struct uroce_gid_req req = {.port = 1, .index = e->index};
	struct uroce_gid_rep rep;
	size_t n = 0;

	if (prov_call_device(e->device, UROCE_CTRL_QUERY_GID, &req, sizeof(req), &rep, sizeof(rep)))
		return false;
	note_gid(e, &rep);
	for (unsigned int k = 0; k < 16; k += 2)
		n += (size_t)snprintf(text + n, room - n, "%02x%02x%c", rep.gid[k], rep.gid[k + 1],
				      k < 14 ? ':' : '\n');
	return true;
}

static bool
read_pkey(const struct entry *e, char *text, size_t room)
{
	struct uroce_pkey_req req = {.port = 1, .index = e->index};
	struct uroce_pkey_rep rep;

	if (prov_call_device(e->device, UROCE_CTRL_QUERY_PKEY, &req, sizeof(req), &rep,
			     sizeof(rep)))
		return false;
	snprintf(text, room, "0x%04x\n", rep.pkey & 0xffff);
	return true;
}

static int
text_fd(const char *text)
{
	ssize_t len = (ssize_t)strlen(text);
	int fd = memfd_create("uroce-sysfs", MFD_CLOEXEC);

	if (fd >= 0 && (write(fd, text, (size_t)len) != len || lseek(fd, 0, SEEK_SET) < 0)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

int
prov_sysfs_open(int dir, const char *path)
{
	char full[PATH_MAX], self[40], text[64];
	struct entry e;
	ssize_t n = 0;
	int saved = errno, fd = -1;

	/* Quick check: most files that libibverbs opens are unrelated. */
	if (!strstr(path, "ports/1/"))
		return -1;
	if (*path != '/' && dir != AT_FDCWD) {
		snprintf(self, sizeof(self), "/proc/self/fd/%d", dir);
		n = readlink(self, full, sizeof(full) - 1);
		if (n < 0)
			n = 0;
	}
	if ((size_t)snprintf(full + n, sizeof(full) - (size_t)n, "/%s", path) <
		    sizeof(full) - (size_t)n &&
	    entry_of(full, &e) &&
	    (e.table == TABLE_GID ? read_gid : read_pkey)(&e, text, sizeof(text)))
		fd = text_fd(text);
	errno = saved;
	return fd;
}
