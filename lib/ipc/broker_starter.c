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
#include <unistd.h>

#define CHAN_FD      3 /* the channel's descriptor in the broker, the daemon's socket in the starter */
#define CHAN_FD_TEXT "3"
#define ANSWER_S     5 /* seconds to wait for a starter that does not run */

extern char **environ;

/*
 * Starts a broker as a child of the daemon, which sees its end. Not fork: the daemon may have had
 * threads when it forked the starter, so only system calls are safe here.
 */
static pid_t
start_broker(int chan, const char *arg)
{
	char *const argv[] = {"uroced-broker", BROKER_ARG, CHAN_FD_TEXT, (char *)(uintptr_t)arg,
			      NULL};
	pid_t pid = (pid_t)syscall(SYS_clone, CLONE_PARENT | SIGCHLD, NULL, NULL, NULL, NULL);

	if (pid != 0)
		return pid < 0 ? -errno : pid;
	if (dup2(chan, CHAN_FD) == CHAN_FD)
		execve("/proc/self/exe", argv, environ);
	_exit(127);
}

static int
receive_channel(void)
{
	char byte;
	struct iovec iov = {&byte, 1};
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.bytes,
			     .msg_controllen = sizeof(control.bytes)};
	int chan;

	if (recvmsg(CHAN_FD, &msg, MSG_CMSG_CLOEXEC) != 1)
		return -1;
	if (CMSG_FIRSTHDR(&msg) == NULL || CMSG_FIRSTHDR(&msg)->cmsg_type != SCM_RIGHTS)
		return -1;
	memcpy(&chan, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(chan));
	return chan;
}

/* The starter's process. The daemon's environment and memory stay as they were at the fork. */
static void __attribute__((noreturn)) serve(int sock, const char *arg)
{
	int null, chan;
	sigset_t set;

	sigfillset(&set);
	sigprocmask(SIG_SETMASK, &set, NULL);
	prctl(PR_SET_NAME, "uroced-starter");
	dup2(sock, CHAN_FD);
	null = open("/dev/null", O_RDWR);
	for (int fd = 0; fd < CHAN_FD; fd++)
		dup2(null, fd);
	broker_close_above(CHAN_FD);
	while ((chan = receive_channel()) >= 0) {
		pid_t pid = start_broker(chan, arg);

		close(chan);
		if (send(CHAN_FD, &pid, sizeof(pid), MSG_NOSIGNAL) < 0)
			break;
	}
	_exit(0);
}

int
broker_starter_open(const char *arg)
{
	struct timeval limit = {.tv_sec = ANSWER_S};
	int sv[2], rc;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0)
		return -errno;
	setsockopt(sv[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	pid = fork();
	rc = pid < 0 ? -errno : sv[0];
	if (pid == 0)
		serve(sv[1], arg);
	close(sv[1]);
	if (rc < 0)
		close(sv[0]);
	return rc;
}

int
starter_ask(int starter, int theirs, pid_t *pid)
{
	ssize_t n;

	while (recv(starter, pid, sizeof(*pid), MSG_DONTWAIT) > 0)
		; /* late answers */
	n = broker_put(starter, "", 1, &theirs, 1, MSG_DONTWAIT);
	if (n == 1)
		n = recv(starter, pid, sizeof(*pid), 0);
	if (n < 0)
		return -errno;
	if (n != sizeof(*pid))
		return -EPIPE;
	return *pid < 0 ? *pid : 0;
}
