/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The view without namespaces: the same files in an ordinary folder, and a library in the program
 * that looks there (drivers/verbs/preload.c).
 */
#include "run.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

/* Hash of len bytes, continued from h (FNV-1a). */
static uint64_t
hash(uint64_t h, const void *data, size_t len)
{
	for (const uint8_t *p = data; len > 0; len--, p++)
		h = (h ^ *p) * 0x100000001b3;
	return h;
}

/*
 * Makes a folder of this user in base, where others may have made one of that name. Stores its path
 * in own. Returns 0 or an errno.
 */
static int
own_folder(const char *base, char own[PATH_MAX])
{
	struct stat st;

	if ((size_t)snprintf(own, PATH_MAX, "%s/uroce-view-%u", base, (unsigned int)geteuid()) >=
	    PATH_LEN / 2)
		return ENAMETOOLONG;
	if (mkdir(own, 0755) < 0 && errno != EEXIST)
		return errno;
	if (lstat(own, &st) < 0)
		return errno;
	if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || st.st_mode & (S_IWGRP | S_IWOTH))
		return EPERM;
	return access(own, W_OK) == 0 ? 0 : errno;
}

/* The kernel's and other providers' entries that programs see with --keep. */
static const char *const kept[] = {"/sys/class/infiniband", "/sys/class/infiniband_verbs",
				   "/dev/infiniband", "/etc/libibverbs.d"};

/* Returns true for the entries of these folders that uroce's replace. */
static bool
is_ours(const char *name)
{
	static const char *const ours[] = {"abi_version", "rdma_cm", RUN_DRIVER, RUN_LINKS};

	for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++) {
		if (strcmp(name, ours[i]) == 0)
			return true;
	}
	return false;
}

/*
 * Calls fn with each entry of kept and arg, except for those that are uroce's. Returns 0, or what
 * fn returned if it was not 0.
 */
static int
for_each_kept(int (*fn)(const char *dir, const char *name, void *arg), void *arg)
{
	struct dirent *d;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < sizeof(kept) / sizeof(kept[0]); i++) {
		DIR *dir = opendir(kept[i]);

		while (dir && rc == 0 && (d = readdir(dir))) {
			if (d->d_name[0] != '.' && !is_ours(d->d_name))
				rc = fn(kept[i], d->d_name, arg);
		}
		if (dir)
			closedir(dir);
	}
	return rc;
}

static int
hash_entry(const char *dir, const char *name, void *h)
{
	*(uint64_t *)h = hash(hash(*(uint64_t *)h, dir, strlen(dir)), name, strlen(name) + 1);
	return 0;
}

static int
link_entry(const char *dir, const char *name, void *folder)
{
	char to[PATH_LEN], target[PATH_LEN];

	path_of(to, "%s%s", (const char *)folder, dir);
	path_of(target, "%s/%s", dir, name);
	return put_link(to, name, target);
}

/*
 * Descriptors of locks, which programs inherit, have this number or a higher one: shells and other
 * programs use low numbers for themselves.
 */
#define LOCK_FD 100
/* Attempts to make a folder that other processes remove. */
#define TRIES 100

/* Creates the lock of folder, shared until this process ends or executes a program. */
static int
make_lock(const char *folder)
{
	char fresh[PATH_LEN], path[PATH_LEN];
	int fd;

	path_of(path, "%s/" UROCE_VIEW_LOCK, folder);
	path_of(fresh, "%s/new", folder);
	/* Other users could keep the folder forever, or stop us, if they could lock it. */
	fd = open(fresh, O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) == 0 && rename(fresh, path) == 0)
		return 0;
	complain("cannot make %s: %s", path, strerror(errno));
	return -1;
}

/*
 * Takes the lock of folder. Returns its descriptor; -1 with ENOENT or EWOULDBLOCK if the folder
 * does not exist or is being removed, or with another errno.
 */
static int
take_lock(const char *folder, int how)
{
	struct stat now, locked;
	char path[PATH_LEN];
	int fd, err = 0;

	path_of(path, "%s/" UROCE_VIEW_LOCK, folder);
	fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -1;
	if (flock(fd, how | LOCK_NB) < 0)
		err = errno;
	else if (fstat(fd, &locked) < 0 || lstat(path, &now) < 0 || locked.st_ino != now.st_ino)
		err = ENOENT; /* removed after open */
	if (err == 0)
		return fd;
	close(fd);
	errno = err;
	return -1;
}

/* Shares the lock of folder, also in the program that this process will execute. */
static int
keep_folder(const char *folder)
{
	int fd = take_lock(folder, LOCK_SH), high, err;

	if (fd < 0)
		return -1;
	high = fcntl(fd, F_DUPFD, LOCK_FD);
	err = errno;
	/* With fewer descriptors than LOCK_FD: this one. */
	if (high < 0 && fcntl(fd, F_SETFD, 0) == 0)
		return 0;
	close(fd);
	errno = err;
	return high < 0 ? -1 : 0;
}

/*
 * Removes the folders in own that no process uses, except for kept. Folders without a lock are of
 * an earlier version, or are being made.
 */
static void
remove_unused(const char *own, const char *used)
{
	char path[PATH_LEN], gone[PATH_LEN];
	DIR *dir = opendir(own);
	struct dirent *d;
	int fd;

	while (dir && (d = readdir(dir))) {
		path_of(path, "%s/%s", own, d->d_name);
		if (strncmp(d->d_name, "gone-", 5) == 0) {
			put_remove(path); /* by a process that was killed, or by another one, too */
			continue;
		}
		if (d->d_name[0] == '.' || strcmp(path, used) == 0)
			continue;
		fd = take_lock(path, LOCK_EX);
		if (fd < 0)
			continue;
		path_of(gone, "%s/gone-%s", own, d->d_name); /* nobody finds it half removed */
		if (rename(path, gone) == 0)
			put_remove(gone);
		close(fd);
	}
	if (dir)
		closedir(dir);
}

/* Writes all files below folder, which will be renamed to final. */
static int
fill(const struct run_plan *plan, const struct run_device *dev, unsigned int ndev, char *folder,
     const char *final)
{
	unsigned int first = plan->keep ? view_first_free() : 0;
	char class[PATH_LEN], node[PATH_LEN], config[PATH_LEN], links[PATH_LEN], seen[PATH_LEN];

	if (make_lock(folder))
		return -1;
	path_of(class, "%s/sys/class", folder);
	path_of(node, "%s/dev", folder);
	path_of(config, "%s/etc/libibverbs.d", folder);
	/* The loader of the program's libraries is not redirected. */
	path_of(links, "%s/provider", folder);
	path_of(seen, "%s/provider", final);
	if ((plan->keep && for_each_kept(link_entry, folder)) || tree_common(class, node) ||
	    tree_rdma_cm(class) || tree_driver(config, links, seen, plan->provider))
		return -1;
	/* The last one first, as in a mount namespace. */
	for (unsigned int i = ndev; i-- > 0;) {
		if (tree_device(class, node, &dev[i], first + i, plan->keep))
			return -1;
	}
	return 0;
}

int
preload_folder(const struct run_plan *plan, const struct run_device *dev, unsigned int ndev,
	       char *folder)
{
	/* Root's programs may become other users, who cannot enter $XDG_RUNTIME_DIR. */
	const char *const bases[] = {geteuid() != 0 ? getenv("XDG_RUNTIME_DIR") : NULL, "/run",
				     "/dev/shm", "/tmp"};
	uint64_t h = hash(0xcbf29ce484222325, dev, ndev * sizeof(*dev));
	char own[PATH_MAX], fresh[PATH_MAX];
	int err = ENOENT;

	h = hash(h, plan->provider, strlen(plan->provider));
	h = hash(h, UROCE_VERSION "+" UROCE_VIEW_LOCK, strlen(UROCE_VERSION "+" UROCE_VIEW_LOCK));
	if (plan->keep)
		for_each_kept(hash_entry, &h);
	for (size_t i = 0; err != 0 && i < sizeof(bases) / sizeof(bases[0]); i++) {
		if (bases[i] && *bases[i] == '/')
			err = own_folder(bases[i], own);
	}
	if (err) {
		complain("no folder for the devices' files in $XDG_RUNTIME_DIR, /run, /dev/shm or "
			 "/tmp: %s",
			 strerror(err));
		return -1;
	}
	snprintf(folder, PATH_MAX, "%.300s/%016llx", own, (unsigned long long)h);
	for (unsigned int i = 0; i < TRIES; i++) {
		if (keep_folder(folder) == 0) {
			remove_unused(own, folder);
			return 0;
		}
		if (errno != ENOENT && errno != EWOULDBLOCK)
			break;
		snprintf(fresh, sizeof(fresh), "%.300s/new-XXXXXX", own);
		if (!mkdtemp(fresh) || chmod(fresh, 0755) < 0)
			break;
		if (fill(plan, dev, ndev, fresh, folder)) {
			put_remove(fresh);
			return -1;
		}
		/* fails if another process was quicker, or is removing it */
		if (rename(fresh, folder) < 0)
			put_remove(fresh);
	}
	complain("cannot use %s: %s", folder, strerror(errno));
	return -1;
}

int
preload_environment(const char *preload, const char *folder)
{
	const char *others = getenv("LD_PRELOAD");
	char all[2 * PATH_MAX];
	bool some = others && *others;

	if (access(preload, R_OK) < 0) {
		complain("cannot preload %s: %s", preload, strerror(errno));
		return -1;
	}
	if ((size_t)snprintf(all, sizeof(all), "%s%s%s", some ? others : "", some ? ":" : "",
			     preload) >= sizeof(all) ||
	    setenv("LD_PRELOAD", all, 1) < 0 || (folder && setenv(UROCE_VIEW_ENV, folder, 1) < 0)) {
		complain("cannot set LD_PRELOAD: its value is too long");
		return -1;
	}
	return 0;
}

/* Opens what execvp(program) executes. Returns a descriptor, or -1. */
static int
open_program(const char *program)
{
	const char *path = getenv("PATH"), *end;
	char at[PATH_MAX];
	int fd = -1;

	if (strchr(program, '/'))
		return open(program, O_RDONLY | O_CLOEXEC);
	for (path = path ? path : "/bin:/usr/bin"; fd < 0; path = end + 1) {
		end = strchrnul(path, ':');
		if ((size_t)snprintf(at, sizeof(at), "%.*s/%s", (int)(end - path), path, program) <
			    sizeof(at) &&
		    access(at, X_OK) == 0)
			fd = open(at, O_RDONLY | O_CLOEXEC);
		if (!*end)
			break;
	}
	return fd;
}

/* Reads the header of a 64-bit ELF program. Returns false if fd is none. */
static bool
read_elf(int fd, Elf64_Ehdr *h)
{
	return pread(fd, h, sizeof(*h), 0) == (ssize_t)sizeof(*h) &&
	       memcmp(h->e_ident, ELFMAG, SELFMAG) == 0 && h->e_ident[EI_CLASS] == ELFCLASS64;
}

/* Returns true if no loader loads the program. */
static bool
is_static(int fd, const Elf64_Ehdr *h)
{
	Elf64_Phdr p;

	for (unsigned int i = 0; i < h->e_phnum; i++) {
		off_t at = (off_t)(h->e_phoff + (uint64_t)i * h->e_phentsize);

		if (pread(fd, &p, sizeof(p), at) != (ssize_t)sizeof(p) || p.p_type == PT_INTERP)
			return false;
	}
	return true;
}

/*
 * Returns true if Go's linker has made the program: it has a section with this name, also after
 * strip.
 */
static bool
is_go(int fd, const Elf64_Ehdr *h)
{
	static const char mark[] = ".go.buildinfo";
	Elf64_Shdr names, s;
	char name[sizeof(mark)];

	if (pread(fd, &names, sizeof(names),
		  (off_t)(h->e_shoff + (uint64_t)h->e_shstrndx * sizeof(s))) !=
	    (ssize_t)sizeof(names))
		return false;
	for (unsigned int i = 0; i < h->e_shnum; i++) {
		if (pread(fd, &s, sizeof(s), (off_t)(h->e_shoff + i * sizeof(s))) !=
		    (ssize_t)sizeof(s))
			return false;
		if (pread(fd, name, sizeof(name), (off_t)(names.sh_offset + s.sh_name)) ==
			    (ssize_t)sizeof(name) &&
		    memcmp(name, mark, sizeof(mark)) == 0)
			return true;
	}
	return false;
}

/* Returns true if executing fd changes the process's privileges, which turns preloading off. */
static bool
is_privileged(int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0 || prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
		return false;
	return ((st.st_mode & S_ISUID) && st.st_uid != getuid()) ||
	       ((st.st_mode & S_ISGID) && st.st_gid != getgid()) ||
	       (getuid() != 0 && fgetxattr(fd, "security.capability", NULL, 0) > 0);
}

void
preload_check(const char *program, const char *why)
{
	int fd = open_program(program);
	const char *what = NULL;
	Elf64_Ehdr h;
	bool elf;

	if (fd < 0)
		return; /* execvp tells why */
	elf = read_elf(fd, &h);
	if (elf && is_static(fd, &h))
		what = "is statically linked and does not load";
	else if (is_privileged(fd))
		what = "is set-user-id or has capabilities and does not load";
	else if (elf && is_go(fd, &h))
		what = "is a Go program, whose system calls bypass";
	if (what)
		complain("warning: %s %s the library that shows the devices; there is no mount "
			 "namespace: %s",
			 program, what, why);
	close(fd);
}
