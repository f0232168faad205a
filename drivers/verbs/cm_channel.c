/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of channels: open and close.
 *
 * This process gets no notification when the last copy of a channel's descriptor is closed, maybe
 * in a child. But then the daemon ends the channel and hangs up on the command socket. Each open
 * and close checks a few entries and removes those that were hung up on, so that the number of dead
 * entries stays in proportion to that of live ones.
 *
 * Fork: the table is changed by single stores, so a child can use its copy even if another thread
 * was changing it (fork.h).
 */
#include "cm_channel.h"
#include "cm_command.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include "fork.h"
#include "ipc/client.h"
#include "provider.h"

#define DEV_FILE   "/sys/class/misc/rdma_cm/dev"
#define CM_BUCKETS 1024
#define CM_SWEEP   4 /* entries that an open or close checks */

static struct {
	pthread_mutex_t mutex;
	struct cm_channel *bucket[CM_BUCKETS];
	unsigned int count;
	unsigned int cursor; /* bucket where the next sweep starts */
} channels = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void
channels_lock(void)
{
	fork_enter();
	pthread_mutex_lock(&channels.mutex);
}

static void
channels_unlock(void)
{
	pthread_mutex_unlock(&channels.mutex);
}

static void
cm_fork_child(void)
{
	pthread_mutex_init(&channels.mutex, NULL);
	cm_ids_fork_child();
	/* The threads that used them do not exist here. */
	for (unsigned int i = 0; i < CM_BUCKETS; i++) {
		for (struct cm_channel *c = channels.bucket[i]; c; c = c->next) {
			c->users = 0;
			TAILQ_INIT(&c->ids);
			sem_init(&c->turn, 0, 1);
		}
	}
}

static struct fork_part cm_fork = {.child = cm_fork_child};

static __attribute__((constructor)) void
cm_fork_install(void)
{
	fork_part_add(&cm_fork);
}

/* Returns the channel whose socket is fd, or NULL. Lock held. Preserves errno. */
static struct cm_channel *
channel_find(int fd)
{
	struct cm_channel *c = NULL;
	int err = errno;
	struct stat st;

	if (fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode)) {
		c = channels.bucket[st.st_ino % CM_BUCKETS];
		while (c && (c->ino != st.st_ino || c->dev != st.st_dev))
			c = c->next;
	}
	errno = err;
	return c;
}

struct cm_channel *
cm_channel_get(int fd)
{
	struct cm_channel *c;

	channels_lock();
	c = channel_find(fd);
	if (c)
		c->users++;
	channels_unlock();
	return c;
}

void
cm_channel_put(struct cm_channel *c)
{
	channels_lock();
	c->users--;
	channels_unlock();
}

unsigned int
prov_cm_count(void)
{
	return __atomic_load_n(&channels.count, __ATOMIC_RELAXED);
}

/*
 * Returns true if the daemon has hung up because all copies of the channel were closed. If the
 * daemon has died instead, the program still has its descriptor and gets the loss of its ids as
 * events.
 */
static bool
is_dead(const struct cm_channel *c)
{
	struct pollfd pfd = {.fd = c->command};
	struct stat st;

	if (c->users != 0 || poll(&pfd, 1, 0) <= 0 ||
	    !(pfd.revents & (POLLHUP | POLLERR | POLLNVAL)))
		return false;
	return fstat(c->fd, &st) < 0 || st.st_ino != c->ino || st.st_dev != c->dev;
}

static void
channel_free(struct cm_channel *c)
{
	cm_ids_forget(c);
	cm_shared_unmap(c->shared);
	sem_destroy(&c->turn);
	close(c->command);
	fork_free(c);
}

/* Removes ended channels among the next few; lock held. */
static void
channels_sweep(void)
{
	unsigned int seen = 0;

	for (unsigned int i = 0; i < CM_BUCKETS && seen < CM_SWEEP; i++) {
		struct cm_channel **p = &channels.bucket[channels.cursor++ % CM_BUCKETS];

		while (*p) {
			struct cm_channel *c = *p;

			seen++;
			if (!is_dead(c)) {
				p = &c->next;
				continue;
			}
			__atomic_store_n(p, c->next, __ATOMIC_RELEASE);
			channels.count--;
			channel_free(c);
		}
	}
}

static void
channel_link(struct cm_channel *c)
{
	struct cm_channel **p = &channels.bucket[c->ino % CM_BUCKETS];

	channels_lock();
	channels_sweep();
	c->next = *p;
	__atomic_store_n(p, c, __ATOMIC_RELEASE);
	channels.count++;
	channels_unlock();
}

/* Requests a channel and stores its descriptors in fds. On error, prints and returns an errno. */
static int
channel_request(struct uroce_cm_open_rep *rep, int fds[2])
{
	struct uroce_cm_open_req req = {{0}};
	struct ipc_call call = {
		.op = UROCE_CTRL_CM_OPEN,
		.req = &req,
		.req_len = sizeof(req),
		.rep = rep,
		.rep_len = sizeof(*rep),
		.rep_fds = fds,
		.rep_fds_max = 2,
	};
	struct uroce_hello_rep hello;
	int hello_fds[UROCE_HELLO_FDS];
	unsigned int nfds = 0;
	struct ipc_client c;
	int rc;

	rc = -ipc_client_connect(&c, NULL);
	if (rc) {
		prov_unreachable(rc);
		return rc;
	}
	rc = -ipc_client_hello(&c, "", &hello, hello_fds, &nfds, call.why);
	while (nfds)
		close(hello_fds[--nfds]);
	if (rc == 0)
		rc = -ipc_client_call(&c, &call);
	ipc_client_close(&c);
	if (rc)
		fprintf(stderr, "uroce: uroced refuses a channel of rdma_cm: %s%s%s\n",
			strerror(rc), *call.why ? ": " : "", call.why);
	if (rc == 0 && call.rep_nfds != 2) {
		while (call.rep_nfds)
			close(fds[--call.rep_nfds]);
		rc = EPROTO;
	}
	return rc;
}

/* Applies the flags of open(2); descriptors arrive with FD_CLOEXEC. 0 or a positive errno. */
static int
set_flags(int fd, int flags)
{
	if (!(flags & O_CLOEXEC) && fcntl(fd, F_SETFD, 0) < 0)
		return errno;
	if ((flags & O_NONBLOCK) && fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
		return errno;
	return 0;
}

int
prov_cm_open(int flags)
{
	struct uroce_cm_open_rep rep;
	struct cm_channel *c;
	int fds[2], rc;
	struct stat st;

	fork_enter();
	rc = channel_request(&rep, fds);
	if (rc) {
		errno = rc;
		return -1;
	}
	c = calloc(1, sizeof(*c));
	if (c)
		c->shared = cm_shared_map();
	if (!c || !c->shared) {
		rc = ENOMEM;
		goto fail;
	}
	rc = set_flags(fds[UROCE_CM_CHANNEL_FD], flags);
	if (rc == 0 && fstat(fds[UROCE_CM_CHANNEL_FD], &st) < 0)
		rc = errno;
	if (rc)
		goto fail;
	c->dev = st.st_dev;
	c->ino = st.st_ino;
	c->fd = fds[UROCE_CM_CHANNEL_FD];
	c->command = fds[UROCE_CM_COMMAND_FD];
	TAILQ_INIT(&c->ids);
	memcpy(c->secret, rep.channel, sizeof(c->secret));
	sem_init(&c->turn, 0, 1);
	channel_link(c);
	return fds[UROCE_CM_CHANNEL_FD];
fail:
	if (c)
		cm_shared_unmap(c->shared);
	free(c);
	close(fds[0]);
	close(fds[1]);
	errno = rc;
	return -1;
}

/* Returns the device number that librdmacm may have got from the kernel. */
static dev_t
device_number(void)
{
	FILE *f = fopen(DEV_FILE, "re");
	char text[32] = "", *minor;
	dev_t number = 0;

	if (f && fgets(text, sizeof(text), f)) {
		unsigned long major = strtoul(text, &minor, 10);

		if (*minor == ':')
			number = makedev((unsigned int)major,
					 (unsigned int)strtoul(minor + 1, NULL, 10));
	}
	if (f)
		fclose(f);
	return number;
}

int
prov_cm_fstat(int fd, struct stat *st)
{
	struct cm_channel *c;
	int rc = fstat(fd, st);

	if (rc < 0 || !S_ISSOCK(st->st_mode))
		return rc;
	c = cm_channel_get(fd);
	if (!c)
		return rc;
	cm_channel_put(c);
	st->st_mode = S_IFCHR | 0666;
	st->st_rdev = device_number();
	return 0;
}

int
prov_cm_close(int fd)
{
	int rc = close(fd), err = errno;

	channels_lock();
	channels_sweep();
	channels_unlock();
	errno = err;
	return rc;
}
