/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * liburoce-preload.so: shows uroce's devices to one program where no namespace may be created.
 *
 * LD_PRELOAD loads it before libc, so that the calls below come here. It does two things:
 *
 * - It refuses netlink sockets of the kernel's RDMA core. libibverbs and librdmacm ask the kernel
 *   first and read sysfs only if this fails.
 * - If UROCE_VIEW names a folder, the paths in moved[] are looked up below that folder, where
 *   uroce-run has put the files that libibverbs expects (app/uroce-run/preload.c).
 *
 * It keeps that folder for as long as the process lives: uroce-run removes folders whose lock
 * nobody shares.
 *
 * It cannot serve static programs, programs that the loader starts in secure mode (set-user-id),
 * and Go's own file operations, because these do not call libc. uroce-run prefers a mount namespace
 * and a seccomp filter, which serve these, too, and otherwise warns about them.
 *
 * A call passes its path through view_path() and continues in the next library, which may be
 * another preloaded one. Every symbol that a program calls needs its definition here: libc's own
 * calls do not come here. Any thread.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <linux/netlink.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>
#include "old_glibc.h"
#include "uroce_abi/ctrl.h"

#define EXPORT __attribute__((visibility("default")))

/* Folders and files in the kernel's places that the view replaces. */
static const char *const moved[] = {
	"/sys/class/infiniband", "/sys/class/infiniband_verbs", "/sys/class/misc/rdma_cm",
	"/dev/infiniband",       "/etc/libibverbs.d",
};

/* Room for a path in the view; longer ones do not exist there. */
#define THERE 512

/*
 * Returns the path under which the program finds what it calls path: in there, if the view replaces
 * it, else path.
 */
static const char *
view_path(const char *path, char there[THERE])
{
	static const char *view; /* "": none. Threads store the same value. */
	const char *v = __atomic_load_n(&view, __ATOMIC_ACQUIRE);
	size_t len, root;

	if (!path || path[0] != '/')
		return path;
	if (!v) {
		v = getenv(UROCE_VIEW_ENV);
		v = v ? strdup(v) : NULL; /* the program may change its environment */
		v = v ? v : "";
		__atomic_store_n(&view, v, __ATOMIC_RELEASE);
	}
	if (!*v)
		return path;
	for (size_t i = 0; i < sizeof(moved) / sizeof(moved[0]); i++) {
		len = strlen(moved[i]);
		if (strncmp(path, moved[i], len) != 0 || (path[len] && path[len] != '/'))
			continue;
		root = strlen(v);
		len = strlen(path);
		if (root + len >= THERE)
			return path;
		memcpy(there, v, root);
		memcpy(there + root, path, len + 1);
		return there;
	}
	return path;
}

OLD_DECLARE(OLD_FIRST, void *, dlsym, (void *handle, const char *name));

/* The definition of name that would be called without this library. Aborts if there is none. */
static void *
next_of(const char *name, void **cache)
{
	void *next = __atomic_load_n(cache, __ATOMIC_ACQUIRE);

	if (!next) {
		next = old_dlsym(RTLD_NEXT, name);
		if (!next)
			abort();
		__atomic_store_n(cache, next, __ATOMIC_RELEASE);
	}
	return next;
}

#define NEXT(name) ((__typeof__(&name))next_of(#name, &cache))

/* Defines the function name, one of whose parameters is `const char *path`. */
#define WRAP(type, name, params, args)                                                             \
	EXPORT type name params;                                                                   \
	type name params                                                                           \
	{                                                                                          \
		static void *cache;                                                                \
		char there[THERE];                                                                 \
                                                                                                   \
		path = view_path(path, there);                                                     \
		return NEXT(name) args;                                                            \
	}

/* The same for open and openat, whose argument mode exists only if flags say so. */
#define WRAP_OPEN(name, params, args)                                                              \
	EXPORT int name params;                                                                    \
	int name params                                                                            \
	{                                                                                          \
		static void *cache;                                                                \
		char there[THERE];                                                                 \
		mode_t mode = 0;                                                                   \
		va_list ap;                                                                        \
                                                                                                   \
		if (flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE) {                         \
			va_start(ap, flags);                                                       \
			mode = va_arg(ap, mode_t);                                                 \
			va_end(ap);                                                                \
		}                                                                                  \
		path = view_path(path, there);                                                     \
		return NEXT(name) args;                                                            \
	}

/*
 * The same for the forms of stat that programs call which were built with glibc 2.32 or earlier.
 * Later ones have them under a version that dlsym does not find; on 64-bit machines the kernel's
 * structure is libc's.
 */
#define WRAP_OLD_STAT(name, params, dir, flags)                                                    \
	EXPORT int name params;                                                                    \
	int name params                                                                            \
	{                                                                                          \
		char there[THERE];                                                                 \
                                                                                                   \
		(void)version;                                                                     \
		return (int)syscall(SYS_newfstatat, dir, view_path(path, there), st, flags);       \
	}

WRAP_OPEN(open, (const char *path, int flags, ...), (path, flags, mode))
WRAP_OPEN(open64, (const char *path, int flags, ...), (path, flags, mode))
WRAP_OPEN(openat, (int dir, const char *path, int flags, ...), (dir, path, flags, mode))
WRAP_OPEN(openat64, (int dir, const char *path, int flags, ...), (dir, path, flags, mode))
WRAP(int, __open_2, (const char *path, int flags), (path, flags))
WRAP(int, __open64_2, (const char *path, int flags), (path, flags))
WRAP(int, __openat_2, (int dir, const char *path, int flags), (dir, path, flags))
WRAP(int, __openat64_2, (int dir, const char *path, int flags), (dir, path, flags))
WRAP(FILE *, fopen, (const char *path, const char *mode), (path, mode))
WRAP(FILE *, fopen64, (const char *path, const char *mode), (path, mode))
WRAP(FILE *, freopen, (const char *path, const char *mode, FILE *f), (path, mode, f))
WRAP(FILE *, freopen64, (const char *path, const char *mode, FILE *f), (path, mode, f))

WRAP(DIR *, opendir, (const char *path), (path))
WRAP(int, scandir,
     (const char *path, struct dirent ***list, int (*filter)(const struct dirent *),
      int (*compare)(const struct dirent **, const struct dirent **)),
     (path, list, filter, compare))
WRAP(int, scandir64,
     (const char *path, struct dirent64 ***list, int (*filter)(const struct dirent64 *),
      int (*compare)(const struct dirent64 **, const struct dirent64 **)),
     (path, list, filter, compare))
WRAP(int, glob, (const char *path, int flags, int (*error)(const char *, int), glob_t *found),
     (path, flags, error, found))
WRAP(int, glob64, (const char *path, int flags, int (*error)(const char *, int), glob64_t *found),
     (path, flags, error, found))
WRAP(int, chdir, (const char *path), (path))
WRAP(int, inotify_add_watch, (int fd, const char *path, uint32_t mask), (fd, path, mask))

WRAP(int, stat, (const char *path, struct stat *st), (path, st))
WRAP(int, stat64, (const char *path, struct stat64 *st), (path, st))
WRAP(int, lstat, (const char *path, struct stat *st), (path, st))
WRAP(int, lstat64, (const char *path, struct stat64 *st), (path, st))
WRAP(int, fstatat, (int dir, const char *path, struct stat *st, int flags), (dir, path, st, flags))
WRAP(int, fstatat64, (int dir, const char *path, struct stat64 *st, int flags),
     (dir, path, st, flags))
WRAP(int, statx, (int dir, const char *path, int flags, unsigned int mask, struct statx *st),
     (dir, path, flags, mask, st))
WRAP_OLD_STAT(__xstat, (int version, const char *path, struct stat *st), AT_FDCWD, 0)
WRAP_OLD_STAT(__xstat64, (int version, const char *path, struct stat64 *st), AT_FDCWD, 0)
WRAP_OLD_STAT(__lxstat, (int version, const char *path, struct stat *st), AT_FDCWD,
	      AT_SYMLINK_NOFOLLOW)
WRAP_OLD_STAT(__lxstat64, (int version, const char *path, struct stat64 *st), AT_FDCWD,
	      AT_SYMLINK_NOFOLLOW)
WRAP_OLD_STAT(__fxstatat, (int version, int dir, const char *path, struct stat *st, int flags), dir,
	      flags)
WRAP_OLD_STAT(__fxstatat64, (int version, int dir, const char *path, struct stat64 *st, int flags),
	      dir, flags)

WRAP(int, access, (const char *path, int mode), (path, mode))
WRAP(int, eaccess, (const char *path, int mode), (path, mode))
WRAP(int, euidaccess, (const char *path, int mode), (path, mode))
WRAP(int, faccessat, (int dir, const char *path, int mode, int flags), (dir, path, mode, flags))
WRAP(ssize_t, readlink, (const char *path, char *to, size_t len), (path, to, len))
WRAP(ssize_t, readlinkat, (int dir, const char *path, char *to, size_t len), (dir, path, to, len))
WRAP(ssize_t, __readlink_chk, (const char *path, char *to, size_t len, size_t room),
     (path, to, len, room))
WRAP(ssize_t, __readlinkat_chk, (int dir, const char *path, char *to, size_t len, size_t room),
     (dir, path, to, len, room))
WRAP(ssize_t, getxattr, (const char *path, const char *name, void *to, size_t len),
     (path, name, to, len))
WRAP(ssize_t, lgetxattr, (const char *path, const char *name, void *to, size_t len),
     (path, name, to, len))
WRAP(char *, realpath, (const char *path, char *to), (path, to))
WRAP(char *, __realpath_chk, (const char *path, char *to, size_t room), (path, to, room))
WRAP(char *, canonicalize_file_name, (const char *path), (path))

EXPORT int
socket(int domain, int type, int protocol)
{
	static void *cache;

	if (domain == AF_NETLINK && protocol == NETLINK_RDMA) {
		errno = EPROTONOSUPPORT;
		return -1;
	}
	return NEXT(socket)(domain, type, protocol);
}

/*
 * Shares the lock of the view. A mapping holds it, not a descriptor: it survives programs that
 * close all descriptors, and passes to children. A program that may not open the file goes without.
 */
static void __attribute__((constructor)) keep_view(void)
{
	const char *v = getenv(UROCE_VIEW_ENV);
	char path[THERE];
	int fd;

	if (!v || v[0] != '/' ||
	    (size_t)snprintf(path, sizeof(path), "%s/" UROCE_VIEW_LOCK, v) >= sizeof(path))
		return;
	fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return;
	if (flock(fd, LOCK_SH | LOCK_NB) == 0)
		mmap(NULL, 1, PROT_NONE, MAP_SHARED, fd, 0); /* never accessed or unmapped */
	syscall(SYS_close, fd);
}
