/* SPDX-License-Identifier: BSD-3-Clause */
#include "control_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include "control/session.h"
#include "ipc/broker_parts.h"

#define CHAN_FD 900 /* the broker's channel; the broker closes descriptors above it */
#define MAX_FD  896 /* of all others */

pid_t host_client;

static int prototypes[HOST_FD_KINDS];
static struct broker kept; /* the daemon's end of the broker, between inputs */
static uint32_t last_session;

/* ---- the broker ---- */

static void *
broker_thread(void *arg)
{
	broker_main((int)(intptr_t)arg);
}

/* These replace broker_starter.c. */
int
broker_starter_fork(void)
{
	return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

int
broker_starter_connect(const char *path)
{
	return -ENOENT;
}

int
starter_ask(int starter, const char *arg, int theirs, pid_t *pid)
{
	int chan = fcntl(theirs, F_DUPFD, CHAN_FD);
	pthread_t t;

	require(chan == CHAN_FD, "a second broker was started");
	require(pthread_create(&t, NULL, broker_thread, (void *)(intptr_t)chan) == 0, "no thread");
	pthread_detach(t);
	*pid = getpid();
	return 0;
}

static void
on_refused(unsigned call)
{
}

void
host_open(void)
{
	struct daemon *d = &fuzz_daemon;

	d->next_session = last_session; /* ids are not used again */
	require(ftruncate(prototypes[1], HOST_BYTES) == 0, "no memory file"); /* after captures */
	if (kept.starter == 0) {
		require(broker_open(d, request_found, on_refused, "fuzz") == 0, "no broker");
		return;
	}
	d->broker = kept;
	TAILQ_INIT(&d->broker.waits);
	loop_add(&d->loop, &d->broker.w, EPOLLIN);
	loop_add(&d->loop, &d->broker.timer, EPOLLIN);
}

void
host_close(void)
{
	struct daemon *d = &fuzz_daemon;

	require(d->broker.w.fd >= 0, "the broker has ended");
	require(TAILQ_EMPTY(&d->broker.waits), "a request waits for the broker without a session");
	loop_del(&d->loop, &d->broker.w);
	loop_del(&d->loop, &d->broker.timer);
	kept = d->broker;
	last_session = d->next_session;
}

/* ---- the client's process ---- */

static void *
client_thread(void *arg)
{
	for (;;)
		pause();
	return NULL;
}

static void
client_main(int mem, int ready)
{
	pthread_t t;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (mmap((void *)HOST_MEM_VA, HOST_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
		 mem, 0) == MAP_FAILED ||
	    mmap((void *)HOST_ANON_VA, HOST_BYTES, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED ||
	    pthread_create(&t, NULL, client_thread, NULL) != 0 || write(ready, "", 1) != 1)
		_exit(1);
	client_thread(NULL);
}

static int
memory(bool sealed)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	require(fd >= 0 && ftruncate(fd, HOST_BYTES) == 0, "no memory file");
	if (sealed)
		require(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0, "no seal");
	return fd;
}

void
host_init(void)
{
	int ends[2], pair[2];
	char byte;

	prototypes[0] = memory(true);
	prototypes[1] = memory(false);
	require(pipe(ends) == 0 && socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0, "no pipe");
	prototypes[2] = ends[0];
	prototypes[3] = pair[0];
	prototypes[4] = open("/", O_RDONLY | O_DIRECTORY);
	prototypes[5] = open("/dev/null", O_RDWR);
	prototypes[6] = ends[1];
	prototypes[7] = memory(true); /* and another file than 0 */
	host_client = fork();
	if (host_client == 0)
		client_main(prototypes[0], ends[1]);
	require(host_client > 0 && read(ends[0], &byte, 1) == 1, "no client process");
}

int
host_fd(uint32_t kind)
{
	return prototypes[kind % HOST_FD_KINDS];
}

uint32_t
host_fds(void)
{
	struct stat ours, st;
	uint32_t open = 0;

	require(fstat(prototypes[2], &ours) == 0, "no pipe");
	for (int fd = 0; fd < MAX_FD; fd++)
		/* other pipes are the sanitizer's, to its symbolizer */
		open += fstat(fd, &st) == 0 && (!S_ISFIFO(st.st_mode) || st.st_ino == ours.st_ino);
	return open;
}

void
host_fds_print(void)
{
	char path[32], to[128];

	for (int fd = 0; fd < MAX_FD; fd++) {
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		n = readlink(path, to, sizeof(to));
		if (n > 0)
			fprintf(stderr, "%d: %.*s\n", fd, (int)n, to);
	}
}

/* ---- timers ---- */

static uint64_t timer_at[CHAN_FD]; /* by descriptor: 0 is never */

/* The fake clock is far ahead: only host_time lets timers expire. Replaces libc's. */
int
timerfd_settime(int fd, int flags, const struct itimerspec *to, struct itimerspec *old)
{
	if (fd >= 0 && fd < CHAN_FD)
		timer_at[fd] =
			(uint64_t)to->it_value.tv_sec * NS_PER_S + (uint64_t)to->it_value.tv_nsec;
	return 0;
}

void
host_time(uint64_t ns)
{
	const struct itimerspec soon = {.it_value.tv_nsec = 1};

	fake_now_ns += ns;
	for (int fd = 0; fd < CHAN_FD; fd++) {
		struct pollfd p = {.fd = fd, .events = POLLIN};

		if (timer_at[fd] == 0 || timer_at[fd] > fake_now_ns)
			continue;
		timer_at[fd] = 0;
		if (syscall(SYS_timerfd_settime, fd, 0, &soon, NULL) == 0)
			poll(&p, 1, 10000);
	}
}
