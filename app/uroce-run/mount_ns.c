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
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
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
		complain("no private mount namespace: %s (needs root, or user namespaces for "
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

/* Creates a detached tmpfs. Returns a descriptor, or -1. */
static int
make_tmpfs(void)
{
	int fs = fsopen("tmpfs", FSOPEN_CLOEXEC), fd = -1;

	if (fs >= 0 && fsconfig(fs, FSCONFIG_SET_STRING, "source", "uroce", 0) == 0 &&
	    fsconfig(fs, FSCONFIG_SET_STRING, "mode", "0755", 0) == 0 &&
	    fsconfig(fs, FSCONFIG_SET_STRING, "size", "64m", 0) == 0 &&
	    fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0)
		fd = fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID);
	if (fs >= 0)
		close(fs);
	return fd;
}

const char *
mount_ns_scratch(const struct run_root *r)
{
	const char *path = r->container ? "." : SCRATCH;
	int fd = make_tmpfs();
	bool good;

	good = fd >= 0 &&
	       move_mount(fd, "", r->tmp, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) ==
		       0 &&
	       (!r->container || fchdir(fd) == 0) &&
	       /* A mount below a shared mount cannot be moved. */
	       mount(NULL, path, NULL, MS_PRIVATE, NULL) == 0;
	if (!good)
		complain("cannot mount a tmpfs on " SCRATCH ": %s", strerror(errno));
	if (fd >= 0)
		close(fd);
	return good ? path : NULL;
}

int
mount_ns_leave(const char *scratch)
{
	if (umount2(scratch, MNT_DETACH) < 0) {
		complain("cannot unmount " SCRATCH ": %s", strerror(errno));
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

/* Bind-mounts from on to. from may be anything except a symbolic link. */
static int
bind_to(int from, bool is_dir, const char *to)
{
	int fd = is_dir ? mkdir(to, 0755) : open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int rc;

	if (fd < 0)
		return -1;
	if (!is_dir)
		close(fd);
	fd = open_tree(from, "",
		       AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC |
			       (is_dir ? AT_RECURSIVE : 0u));
	if (fd < 0)
		return -1;
	rc = move_mount(fd, "", AT_FDCWD, to, MOVE_MOUNT_F_EMPTY_PATH);
	close(fd);
	return rc;
}

/* Reproduces the entry name of dir at to: copies a symbolic link, bind-mounts anything else. */
static int
bind_entry(int dir, const char *name, const char *to)
{
	int fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC), rc = -1;
	char link[PATH_MAX];
	struct stat st;
	ssize_t n;

	if (fd < 0)
		return errno == ENOENT ? 0 : -1; /* removed since it was listed */
	if (fstat(fd, &st) == 0 && !S_ISLNK(st.st_mode)) {
		rc = bind_to(fd, S_ISDIR(st.st_mode), to);
	} else {
		n = readlinkat(fd, "", link, sizeof(link) - 1);
		link[n > 0 ? n : 0] = 0;
		rc = n < 0 ? -1 : symlink(link, to);
	}
	close(fd);
	return rc;
}

int
mount_ns_stage_empty(const char *stage)
{
	int fd = mkdir(stage, 0755) == 0 ? make_tmpfs() : -1;
	bool good = fd >= 0 && move_mount(fd, "", AT_FDCWD, stage, MOVE_MOUNT_F_EMPTY_PATH) == 0;

	if (!good)
		complain("cannot mount a tmpfs on %s: %s", stage, strerror(errno));
	if (fd >= 0)
		close(fd);
	return good ? 0 : -1;
}

int
mount_ns_stage(const char *stage, int target, const char *name, const char *const *hide)
{
	char to[PATH_MAX];
	struct dirent *d;
	int fd, rc = 0;
	DIR *dir;

	if (mount_ns_stage_empty(stage))
		return -1;
	fd = openat(target, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	dir = fd >= 0 ? fdopendir(fd) : NULL;
	if (!dir) {
		complain("cannot read %s: %s", name, strerror(errno));
		if (fd >= 0)
			close(fd);
		return -1;
	}
	while (rc == 0 && (d = readdir(dir))) {
		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0 ||
		    listed(d->d_name, hide))
			continue;
		snprintf(to, sizeof(to), "%s/%s", stage, d->d_name);
		rc = bind_entry(fd, d->d_name, to);
		if (rc)
			complain("cannot keep %s/%s: %s", name, d->d_name, strerror(errno));
	}
	closedir(dir);
	return rc;
}

int
mount_ns_commit(const char *stage, int target, const char *name)
{
	if (move_mount(AT_FDCWD, stage, target, "", MOVE_MOUNT_T_EMPTY_PATH) < 0) {
		complain("cannot mount over %s: %s", name, strerror(errno));
		return -1;
	}
	return 0;
}

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#else
#error "which audit architecture is this?"
#endif

/* The lower 32 bits of a system call's argument n: its value if it is an int. */
#define ARG(n)   ((uint32_t)offsetof(struct seccomp_data, args[n]))
#define LOAD(at) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (at))
/* Continues with the next instruction if the loaded word is value, else skip instructions later. */
#define SKIP_UNLESS(value, skip) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), 0, (skip))

int
mount_ns_refuse_netlink(void)
{
	/* 32-bit programs call sockets by other numbers and are not filtered. */
	static struct sock_filter filter[] = {
		LOAD((uint32_t)offsetof(struct seccomp_data, arch)),
		SKIP_UNLESS(ARCH, 7),
		LOAD((uint32_t)offsetof(struct seccomp_data, nr)),
		SKIP_UNLESS(SYS_socket, 5),
		LOAD(ARG(0)),
		SKIP_UNLESS(AF_NETLINK, 3),
		LOAD(ARG(2)),
		SKIP_UNLESS(NETLINK_RDMA, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPROTONOSUPPORT),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	static const struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};

	/* Without the flag, older kernels slow the program down by mitigations for sandboxes. */
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW,
		       &program) == 0
		       ? 0
		       : -1;
}
