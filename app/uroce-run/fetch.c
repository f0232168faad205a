/* SPDX-License-Identifier: BSD-3-Clause */
#include "run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "ipc/client.h"
#include "ipc/sockpath.h"

/* How long a daemon's process may not have its name yet. */
#define FORK_MS  200
#define TELL_MS  2000
#define PAUSE_MS 20

static int
ask(struct ipc_client *c, uint16_t op, const void *req, size_t req_len, void *rep, size_t rep_len)
{
	struct ipc_call call = {
		.op = op,
		.req = req,
		.req_len = req_len,
		.rep = rep,
		.rep_len = rep_len,
	};

	return ipc_client_call(c, &call);
}

/*
 * Returns true if the words of a command line, len bytes with a NUL behind each, start a daemon
 * whose socket will be at socket (NULL: the default).
 */
static bool
starts_at(const char *words, size_t len, const char *socket)
{
	bool given = false;

	for (const char *w = words; w < words + len; w += strlen(w) + 1) {
		const char *value = strncmp(w, "--socket=", 9) == 0 ? w + 9 : NULL;

		if (strcmp(w, "--socket") == 0)
			value = w + strlen(w) + 1;
		if (!value || value >= words + len)
			continue;
		given = true;
		if (socket && strcmp(value, socket) == 0)
			return true;
	}
	return !given && !socket;
}

/* Reads the beginning of a file; "" if that is not possible. Returns the number of bytes. */
static size_t
read_at(int dir, const char *name, char *text, size_t size)
{
	int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);

	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = '\0';
	return n > 0 ? (size_t)n : 0;
}

/*
 * The functions below use only files of /proc that every user may read. No other process may attach
 * to a daemon; therefore root owns the daemon's folder in /proc, and others cannot see its
 * namespaces.
 */
static bool
is_of_this_user(int dir)
{
	char text[1024];
	unsigned int uid;
	const char *p;

	read_at(dir, "status", text, sizeof(text));
	p = strstr(text, "\nUid:");
	return p && sscanf(p, "\nUid: %*u %u", &uid) == 1 && uid == geteuid();
}

/* The kernel's number of the first mount that the process sees; mount namespaces share none. */
static long
first_mount(int dir)
{
	char text[32];

	read_at(dir, "mountinfo", text, sizeof(text));
	return atol(text);
}

static bool
sees_same_files(int dir)
{
	int self = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool same = self >= 0 && first_mount(dir) == first_mount(self);

	if (self >= 0)
		close(self);
	return same;
}

/*
 * Before main renames the thread of a daemon, it is the process's only one; a daemon that is ready
 * has several.
 */
static bool
is_not_ready(int dir)
{
	char text[1024], name[32] = "";
	char *end;

	read_at(dir, "stat", text, sizeof(text)); /* PID (NAME) STATE .., threads in field 20 */
	sscanf(text, "%*d (%31[^)]", name);
	if (strcmp(name, UROCED_STARTING_NAME) == 0)
		return true;
	end = strrchr(text, ')');
	for (unsigned int field = 2; end && field < 20; field++)
		end = strchr(end + 1, ' ');
	return end && atol(end) == 1 && strcmp(name, UROCED_STARTER_NAME) != 0;
}

/*
 * Returns true if the process whose folder in /proc is name starts a daemon, as starts_at, that may
 * be about to listen at a path of ours.
 */
static bool
process_starts_at(int proc, const char *name, const char *socket)
{
	int dir = openat(proc, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char words[4096];
	size_t n = dir < 0 ? 0 : read_at(dir, "cmdline", words, sizeof(words));
	bool starts = n > 0 && strcmp(basename(words), "uroced") == 0 &&
		      starts_at(words, n, socket) && is_of_this_user(dir) && sees_same_files(dir) &&
		      is_not_ready(dir);

	if (dir >= 0)
		close(dir);
	return starts;
}

/* Returns true if a daemon may be about to listen at socket (NULL: the default). */
static bool
is_starting(const char *socket)
{
	DIR *proc = opendir("/proc");
	bool found = false;
	struct dirent *d;

	while (proc && !found && (d = readdir(proc)))
		found = d->d_name[0] > '0' && d->d_name[0] <= '9' &&
			process_starts_at(dirfd(proc), d->d_name, socket);
	if (proc)
		closedir(proc);
	return found;
}

/*
 * Connects to the daemon. One that was started just before, as in "uroced & uroce-run ..", has no
 * socket yet: waits while it starts, however long that takes.
 */
static int
connect_daemon(struct ipc_client *c, const char *socket)
{
	static const struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000l};
	const char *named = socket ? socket : getenv(UROCE_SOCK_ENV);
	int rc;

	for (unsigned int n = 0;; n++) {
		rc = ipc_client_connect(c, socket);
		if ((rc != -ENOENT && rc != -ECONNREFUSED) ||
		    (n >= FORK_MS / PAUSE_MS && !is_starting(named)))
			return rc;
		if (n == TELL_MS / PAUSE_MS)
			complain("waiting for uroced, which is starting");
		nanosleep(&pause, NULL);
	}
}

/* Says why there is no connection, with every path that was tried. */
static void
complain_no_daemon(const char *socket, int err)
{
	const char *path = ipc_client_path(socket), *own = ipc_own_socket(), *other = NULL;

	if (err == EACCES) {
		complain("may not connect to uroced at %s: %s: its --socket-mode and "
			 "--socket-group decide who may",
			 path, strerror(err));
		return;
	}
	if (strcmp(path, UROCE_DEFAULT_SOCK) == 0 && !socket && !getenv(UROCE_SOCK_ENV))
		other = own;
	complain("no uroced at %s%s%s: %s: start one (`uroced --daemon`), or name its socket with "
		 "--socket or " UROCE_SOCK_ENV,
		 other ? other : path, other ? ", nor at " : "", other ? path : "", strerror(err));
}

/* Connects and sends HELLO for device ("": as an observer). Closes the descriptors of the reply. */
static int
introduce(struct ipc_client *c, const char *socket, const char *device)
{
	struct uroce_hello_rep hello;
	int fds[UROCE_HELLO_FDS];
	char why[UROCE_CTRL_MAX_WHY + 1];
	unsigned int nfds;
	int rc;

	rc = connect_daemon(c, socket);
	if (rc) {
		complain_no_daemon(socket, -rc);
		return -1;
	}
	rc = ipc_client_hello(c, device, &hello, fds, &nfds, why);
	if (rc) {
		complain("uroced refuses %s: %s%s%s", *device ? device : "an observer",
			 strerror(-rc), *why ? ": " : "", why);
		ipc_client_close(c);
		return -1;
	}
	while (nfds)
		close(fds[--nfds]);
	return 0;
}

static int
fetch_gids(struct ipc_client *c, struct run_device *d)
{
	for (uint32_t i = 0; i < d->ngids; i++) {
		struct uroce_gid_req req = {.port = 1, .index = i};
		int rc = ask(c, UROCE_CTRL_QUERY_GID, &req, sizeof(req), &d->gid[i],
			     sizeof(d->gid[i]));

		if (rc)
			return rc;
	}
	return 0;
}

static int
fetch_pkeys(struct ipc_client *c, struct run_device *d)
{
	for (uint32_t i = 0; i < d->npkeys; i++) {
		struct uroce_pkey_req req = {.port = 1, .index = i};
		int rc = ask(c, UROCE_CTRL_QUERY_PKEY, &req, sizeof(req), &d->pkey[i],
			     sizeof(d->pkey[i]));

		if (rc)
			return rc;
	}
	return 0;
}

/*
 * Finds the daemon's files beside its socket, if they are visible. They are not in a container that
 * has only the socket.
 */
static void
find_live(const char *socket, struct run_device *d)
{
	char real[PATH_MAX], seen[PATH_MAX + 64];

	d->live[0] = 0;
	if (!realpath(ipc_client_path(socket), real) ||
	    (size_t)snprintf(seen, sizeof(seen), "%s" UROCE_LIVE_SUFFIX "/%s", real, d->name) >=
		    sizeof(d->live))
		return;
	strcpy(d->live, seen);
	strcat(seen, "/counters");
	if (access(seen, R_OK | X_OK) < 0)
		d->live[0] = 0;
}

static int
fetch_one(const char *socket, struct run_device *d)
{
	struct uroce_port_req port = {.port = 1};
	struct ipc_client c;
	int rc;

	find_live(socket, d);
	if (introduce(&c, socket, d->name))
		return -1;
	rc = ask(&c, UROCE_CTRL_QUERY_DEVICE, NULL, 0, &d->dev, sizeof(d->dev));
	if (rc == 0)
		rc = ask(&c, UROCE_CTRL_QUERY_PORT, &port, sizeof(port), &d->port, sizeof(d->port));
	if (rc == 0)
		rc = fetch_gids(&c, d);
	if (rc == 0)
		rc = fetch_pkeys(&c, d);
	if (rc)
		complain("uroced does not describe %s: %s", d->name, strerror(-rc));
	ipc_client_close(&c);
	return rc ? -1 : 0;
}

int
fetch_devices(const char *socket, struct run_device *dev, unsigned int *n)
{
	struct uroce_list_devices_rep list;
	struct ipc_client c;
	int rc;

	if (introduce(&c, socket, ""))
		return -1;
	rc = ask(&c, UROCE_CTRL_LIST_DEVICES, NULL, 0, &list, sizeof(list));
	ipc_client_close(&c);
	if (rc || list.ndevices > UROCE_MAX_DEVICES) {
		complain("uroced does not list its devices: %s", strerror(rc ? -rc : EPROTO));
		return -1;
	}
	for (*n = 0; *n < list.ndevices; (*n)++) {
		struct run_device *d = &dev[*n];

		memset(d, 0, sizeof(*d));
		memcpy(d->name, list.dev[*n].name, sizeof(d->name) - 1);
		memcpy(d->netdev, list.dev[*n].netdev, sizeof(d->netdev) - 1);
		d->ngids = list.dev[*n].gid_tbl_len;
		d->npkeys = list.dev[*n].pkey_tbl_len;
		if (d->ngids > UROCE_MAX_GIDS)
			d->ngids = UROCE_MAX_GIDS;
		if (d->npkeys > UROCE_MAX_PKEYS)
			d->npkeys = UROCE_MAX_PKEYS;
		if (fetch_one(socket, d))
			return -1;
		parent_read(d);
	}
	return 0;
}
