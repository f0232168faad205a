/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The directories of a root file system that uroce-run reads and replaces. A container's root is
 * hostile: a symbolic link through /proc/1/root leads out of it, which chroot does not prevent, and
 * another container with the same files may create one at any time. Its directories are therefore
 * opened without following links, and no path below its root is used afterwards.
 */
#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#define FAILED   (-2) /* the reason was printed; -1: there is none */
#define NO_LINKS (RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS)

/* Opens path below the directory at, following no symbolic links. Returns a descriptor or -1. */
static int
open_below(int at, const char *path, uint64_t flags)
{
	struct open_how how = {.flags = flags | O_PATH | O_CLOEXEC, .resolve = NO_LINKS};

	return (int)syscall(SYS_openat2, at, path, &how, sizeof(how));
}

/*
 * Opens the directory path below at, or path itself if it is absolute. Returns a descriptor, or -1
 * after printing the reason; prints nothing if an optional directory is missing. name: for the
 * message.
 */
static int
open_dir(const struct run_root *r, int at, const char *path, const char *name, bool may_miss)
{
	int fd = r->container ? open_below(at, path, O_DIRECTORY)
			      : open(name, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (fd >= 0 || (may_miss && errno == ENOENT))
		return fd;
	complain("%s%s: %s", name, r->container ? " of the container" : "",
		 r->container && errno == ELOOP
			 ? "a symbolic link, which could lead out of the container; use an image "
			   "that has a folder there"
			 : strerror(errno));
	return FAILED;
}

/* Opens the directories that both kinds of root have. sys: /sys of a container. */
static int
open_all(struct run_root *r, int sys)
{
	r->tmp = open_dir(r, AT_FDCWD, "tmp", "/tmp", false);
	r->dev = open_dir(r, AT_FDCWD, "dev", "/dev", false);
	r->config = open_dir(r, AT_FDCWD, "etc/libibverbs.d", "/etc/libibverbs.d", true);
	r->class = open_dir(r, sys, "class", "/sys/class", false);
	r->misc = open_dir(r, sys, "class/misc", "/sys/class/misc", true);
	return r->tmp == FAILED || r->dev == FAILED || r->config == FAILED || r->class == FAILED ||
			       r->misc == FAILED
		       ? -1
		       : 0;
}

int
root_open(struct run_root *r)
{
	r->container = false;
	return open_all(r, AT_FDCWD);
}

/* Refuses a symbolic link in place of the node that represents rdma_cm. */
static int
check_node(int dev)
{
	int fd = open_below(dev, "full", 0);

	if (fd >= 0)
		close(fd);
	if (fd >= 0 || errno != ELOOP)
		return 0;
	complain("/dev/full of the container: a symbolic link, which could lead out of the "
		 "container; use an image without it");
	return -1;
}

/* Opens /sys of a container. Returns a descriptor or FAILED. */
static int
open_sys(const struct run_root *r)
{
	int fd = open_dir(r, AT_FDCWD, "sys", "/sys", false);
	struct statfs fs;

	/* Links in a sysfs are trusted: the kernel creates them. */
	if (fd < 0 || (fstatfs(fd, &fs) == 0 && fs.f_type == SYSFS_MAGIC))
		return fd;
	complain("/sys of the container is not a sysfs");
	close(fd);
	return FAILED;
}

int
root_open_container(struct run_root *r)
{
	int sys, rc;

	r->container = true;
	sys = open_sys(r);
	if (sys < 0)
		return -1;
	rc = open_all(r, sys);
	close(sys);
	return rc ? -1 : check_node(r->dev);
}
