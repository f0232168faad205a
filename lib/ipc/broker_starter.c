/* SPDX-License-Identifier: BSD-3-Clause */
/* The process that starts brokers: forked early, with the broker's capabilities, a loop of one
 * call. */
#include "ipc/broker_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>
#include "ipc/sockpath.h"

#define CHAN_FD      3 /* the channel's descriptor in the broker, the daemon's socket in the starter */
#define CHAN_FD_TEXT "3"
#define ANSWER_S     5  /* seconds to wait for a starter that does not run */
#define ACTIVATE_S   30 /* the same while a service manager may still start it */

extern char **environ;

/*
 * Starts a broker with flags CLONE_PARENT (the daemon, which forked the starter, sees its end) or
 * 0. Not fork: the daemon may have had threads when it forked the starter, so only system calls are
 * safe here.
 */
static pid_t
start_broker(int chan, char *arg, unsigned long flags)
{
	char *const argv[] = {"uroced-broker", BROKER_ARG, CHAN_FD_TEXT, arg, NULL};
	pid_t pid = (pid_t)syscall(SYS_clone, flags | SIGCHLD, NULL, NULL, NULL, NULL);

	/* qemu-user has no CLONE_PARENT. The broker is then the starter's child. */
	if (pid < 0 && errno == EINVAL && flags != 0)
		pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
	if (pid != 0)
		return pid < 0 ? -errno : pid;
	if (dup2(chan, CHAN_FD) == CHAN_FD)
		execve("/proc/self/exe", argv, environ);
	_exit(127);
}

/* Receives a request: the brokers' argument and a channel. Returns the channel, or -1. */
static int
receive_request(char arg[BROKER_ARG_MAX])
{
	struct iovec iov = {arg, BROKER_ARG_MAX - 1};
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.bytes,
			     .msg_controllen = sizeof(control.bytes)};
	ssize_t n = recvmsg(CHAN_FD, &msg, MSG_CMSG_CLOEXEC);
	int chan;

	if (n <= 0)
		return -1;
	arg[n] = '\0';
	if (CMSG_FIRSTHDR(&msg) == NULL || CMSG_FIRSTHDR(&msg)->cmsg_type != SCM_RIGHTS)
		return -1;
	memcpy(&chan, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(chan));
	return chan;
}

/* The starter's process: serves its socket, CHAN_FD. */
static void __attribute__((noreturn)) serve(unsigned long flags)
{
	char arg[BROKER_ARG_MAX];
	sigset_t set;
	int chan;

	sigfillset(&set);
	sigprocmask(SIG_SETMASK, &set, NULL);
	prctl(PR_SET_NAME, UROCED_STARTER_NAME);
	broker_close_above(CHAN_FD);
	while ((chan = receive_request(arg)) >= 0) {
		pid_t pid = start_broker(chan, arg, flags);

		close(chan);
		if (send(CHAN_FD, &pid, sizeof(pid), MSG_NOSIGNAL) < 0)
			break;
	}
	_exit(0);
}

static void
limit_waits(int sock, unsigned seconds)
{
	struct timeval limit = {.tv_sec = seconds};

	setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
}

int
broker_starter_fork(void)
{
	int sv[2], rc, null;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0)
		return -errno;
	limit_waits(sv[0], ANSWER_S);
	pid = fork();
	rc = pid < 0 ? -errno : sv[0];
	if (pid == 0) {
		dup2(sv[1], CHAN_FD);
		null = open("/dev/null", O_RDWR);
		for (int fd = 0; fd < CHAN_FD; fd++)
			dup2(null, fd);
		serve(CLONE_PARENT);
	}
	close(sv[1]);
	if (rc < 0)
		close(sv[0]);
	return rc;
}

int
broker_starter_connect(const char *path)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int sock, rc;

	if (strlen(path) >= sizeof(to.sun_path))
		return -ENAMETOOLONG;
	strcpy(to.sun_path, path);
	sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (sock < 0)
		return -errno;
	limit_waits(sock, ACTIVATE_S);
	if (connect(sock, (struct sockaddr *)&to, sizeof(to)) == 0)
		return sock;
	rc = -errno;
	close(sock);
	return rc;
}

void
broker_starter_main(void)
{
	signal(SIGCHLD, SIG_IGN); /* its brokers leave no zombies */
	serve(0);
}

int
starter_ask(int starter, const char *arg, int theirs, pid_t *pid)
{
	ssize_t n;

	while (recv(starter, pid, sizeof(*pid), MSG_DONTWAIT) > 0)
		; /* late answers */
	n = broker_put(starter, arg, strlen(arg), &theirs, 1, MSG_DONTWAIT);
	if (n > 0) {
		do /* a stop of the process interrupts a wait with a limit, too */
			n = recv(starter, pid, sizeof(*pid), 0);
		while (n < 0 && errno == EINTR);
	}
	if (n < 0)
		return -errno;
	if (n != sizeof(*pid))
		return -EPIPE;
	return *pid < 0 ? *pid : 0;
}
