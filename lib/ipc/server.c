/* SPDX-License-Identifier: BSD-3-Clause */
#include "ipc/server.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

#define STATUS_MOST 3000 /* of /proc/PID/status; CapEff is within the first 1500 bytes */
#define MAP_MOST    512  /* of /proc/PID/uid_map */

/* Opens the directory of path, creating it if it is missing. Returns a descriptor or -errno. */
static int
parent_dir_open(struct ipc_server *s, mode_t mode)
{
	char dir[sizeof(s->addr.sun_path)];
	char *slash;
	mode_t old;
	int fd, rc;

	strcpy(dir, s->addr.sun_path);
	slash = strrchr(dir, '/');
	if (slash == NULL)
		strcpy(dir, ".");
	else if (slash == dir)
		strcpy(dir, "/");
	else
		*slash = '\0';
	old = umask(022); /* the socket's mode decides who may connect */
	rc = mkdir(dir, mode & 0077 ? 0755 : 0700);
	umask(old);
	if (rc == 0)
		s->made_dir = true;
	else if (errno != EEXIST)
		return -errno;
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static const char *
name_of(const struct ipc_server *s)
{
	const char *slash = strrchr(s->addr.sun_path, '/');

	return slash != NULL ? slash + 1 : s->addr.sun_path;
}

/* Removes a socket file without a listener from dir. 0, -EADDRINUSE, or -EEXIST for other files. */
static int
stale_socket_remove(const struct ipc_server *s, int dir)
{
	struct stat st;
	int probe, rc = 0;

	if (fstatat(dir, name_of(s), &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(st.st_mode))
		return -EEXIST;
	probe = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (probe < 0)
		return -errno;
	/* Only ECONNREFUSED proves that nobody listens: a busy server causes EAGAIN. */
	if (connect(probe, (const struct sockaddr *)&s->addr, sizeof(s->addr)) == 0 ||
	    errno != ECONNREFUSED)
		rc = -EADDRINUSE;
	close(probe);
	if (rc == 0 && unlinkat(dir, name_of(s), 0) < 0)
		rc = -errno;
	return rc;
}

/*
 * Sets group and mode of the socket that bind has made in dir, and remembers its inode. In a folder
 * of another user its name may mean another file by now. So the file is opened and checked first,
 * and nothing else is changed. Returns 0 or -errno; -EEXIST if it is not the socket.
 */
static int
socket_own(struct ipc_server *s, int dir, mode_t mode, gid_t group)
{
	int fd = openat(dir, name_of(s), O_PATH | O_NOFOLLOW | O_CLOEXEC), rc = 0;
	char path[32];
	struct stat st;

	if (fd < 0)
		return -errno;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (fstat(fd, &st) < 0) {
		rc = -errno;
	} else if (!S_ISSOCK(st.st_mode) || st.st_nlink != 1) {
		rc = -EEXIST;
	} else {
		s->dev = st.st_dev;
		s->ino = st.st_ino;
		if ((group != IPC_GROUP_KEEP &&
		     fchownat(fd, "", (uid_t)-1, group, AT_EMPTY_PATH) < 0) ||
		    chmod(path, mode) < 0)
			rc = -errno;
	}
	close(fd);
	return rc;
}

/* Removes the socket file from dir, unless another file has taken its place. */
static void
socket_remove(const struct ipc_server *s, int dir)
{
	struct stat st;

	if (fstatat(dir, name_of(s), &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_dev == s->dev &&
	    st.st_ino == s->ino)
		unlinkat(dir, name_of(s), 0);
}

/* Binds, sets group and permissions, and only then listens: nobody connects before. */
static int
socket_open(struct ipc_server *s, int dir, mode_t mode, gid_t group)
{
	mode_t old;
	int rc;

	s->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (s->fd < 0)
		return -errno;
	old = umask(0177);
	rc = bind(s->fd, (struct sockaddr *)&s->addr, sizeof(s->addr)) < 0 ? -errno : 0;
	umask(old);
	if (rc == 0)
		rc = socket_own(s, dir, mode, group);
	if (rc == 0 && listen(s->fd, 64) < 0)
		rc = -errno;
	if (rc == 0)
		return 0;
	socket_remove(s, dir);
	close(s->fd);
	s->fd = -1;
	return rc;
}

/* rmdir by path, so the directory is removed only if it is empty. */
static void
made_dir_remove(const struct ipc_server *s)
{
	char dir[sizeof(s->addr.sun_path)];

	strcpy(dir, s->addr.sun_path);
	*strrchr(dir, '/') = '\0';
	rmdir(dir);
}

int
ipc_server_listen(struct ipc_server *s, const char *path, mode_t mode, gid_t group)
{
	int dir, rc;

	memset(s, 0, sizeof(*s));
	s->fd = -1;
	s->addr.sun_family = AF_UNIX;
	if (*path == '\0' || strlen(path) >= sizeof(s->addr.sun_path))
		return -ENAMETOOLONG;
	strcpy(s->addr.sun_path, path);
	dir = parent_dir_open(s, mode);
	if (dir < 0)
		return dir;
	/* Two daemons that start together must not each treat the other's socket as stale. */
	rc = flock(dir, LOCK_EX) < 0 ? -errno : 0;
	if (rc == 0)
		rc = stale_socket_remove(s, dir);
	if (rc == 0)
		rc = socket_open(s, dir, mode, group);
	close(dir);
	if (rc < 0 && s->made_dir)
		made_dir_remove(s);
	return rc;
}

void
ipc_server_use(struct ipc_server *s, int fd, const char *path)
{
	memset(s, 0, sizeof(*s)); /* no file has inode 0 */
	s->fd = fd;
	s->addr.sun_family = AF_UNIX;
	strcpy(s->addr.sun_path, path);
}

void
ipc_server_close(struct ipc_server *s)
{
	struct stat st;

	if (s->fd < 0)
		return;
	if (fstatat(AT_FDCWD, s->addr.sun_path, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    st.st_dev == s->dev && st.st_ino == s->ino)
		unlink(s->addr.sun_path);
	close(s->fd);
	s->fd = -1;
	if (s->made_dir)
		made_dir_remove(s);
}

/* Returns a pidfd of the peer, which stays valid if the pid is reused. */
static int
peer_pidfd(int sock, pid_t pid)
{
	int fd = -1;
	socklen_t len = sizeof(fd);

	if (getsockopt(sock, SOL_SOCKET, SO_PEERPIDFD, &fd, &len) == 0)
		return fd;
	return pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
}

void
ipc_server_confine_root(struct ipc_server *s)
{
	s->confines = true;
}

/* Reads the start of a file of /proc, at most size - 1 bytes and a 0. */
static bool
proc_read(pid_t pid, const char *name, char *text, size_t size)
{
	char path[48];
	ssize_t n = -1;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, text, size - 1);
		close(fd);
	}
	text[n > 0 ? n : 0] = '\0';
	return n > 0;
}

void
ipc_peer_cgroup(pid_t pid, char *text, size_t size)
{
	text[0] = '\0';
	if (pid > 0 && proc_read(pid, "cgroup", text, size) && strncmp(text, "0::", 3) == 0)
		text[strcspn(text, "\n")] = '\0';
}

/*
 * Returns true if a process of root has CAP_NET_ADMIN in our user namespace. Within its own user
 * namespace a process has every capability, but over nothing outside; such a namespace has another
 * map of uids than ours. Returns false if /proc cannot be read, or if the process has ended: its
 * pid, and so what was read, may then be another process's.
 */
static bool
root_is_admin(pid_t pid, int pidfd)
{
	struct pollfd end = {.fd = pidfd, .events = POLLIN};
	const struct timespec at_once = {0};
	char status[STATUS_MOST], theirs[MAP_MOST], ours[MAP_MOST];
	unsigned long long caps;
	const char *at;

	if (pid <= 0 || !proc_read(pid, "status", status, sizeof(status)) ||
	    !proc_read(pid, "uid_map", theirs, sizeof(theirs)) ||
	    !proc_read(getpid(), "uid_map", ours, sizeof(ours)))
		return false;
	if (pidfd < 0 || ppoll(&end, 1, &at_once, NULL) != 0)
		return false;
	at = strstr(status, "\nCapEff:");
	return at != NULL && sscanf(at, "\nCapEff: %llx", &caps) == 1 &&
	       (caps >> CAP_NET_ADMIN & 1) != 0 && strcmp(theirs, ours) == 0;
}

int
ipc_server_accept(struct ipc_server *s, struct ipc_peer *peer)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);
	int rc;

	peer->sock = accept4(s->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (peer->sock < 0)
		return -errno;
	if (getsockopt(peer->sock, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0) {
		rc = -errno;
		close(peer->sock);
		return rc;
	}
	peer->pid = cred.pid;
	peer->uid = cred.uid;
	peer->gid = cred.gid;
	peer->pidfd = peer_pidfd(peer->sock, cred.pid);
	if (cred.uid == 0 && s->confines && !root_is_admin(cred.pid, peer->pidfd))
		peer->uid = UROCE_UID_CONFINED;
	return 0;
}
