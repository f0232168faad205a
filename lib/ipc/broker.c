/* SPDX-License-Identifier: BSD-3-Clause */
/* Daemon side of the broker: its start, and the messages to and from it. */
#include "ipc/broker_parts.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#define CHAN_ROOM (4 << 20) /* bytes queued in a channel, at most; the kernel may allow less */
#define SEND_S    1         /* seconds to wait for a slow broker */

int
broker_spawn(int starter, const char *arg, pid_t *pid)
{
	struct timeval limit = {.tv_sec = SEND_S};
	int room = CHAN_ROOM, sv[2], rc;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0)
		return -errno;
	for (int i = 0; i < 2; i++) {
		if (setsockopt(sv[i], SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room)) < 0)
			(void)setsockopt(sv[i], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	}
	rc = setsockopt(sv[0], SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) < 0 ? -errno : 0;
	if (rc == 0)
		rc = starter_ask(starter, arg, sv[1], pid);
	close(sv[1]);
	if (rc == 0)
		return sv[0];
	close(sv[0]);
	return rc;
}

ssize_t
broker_put(int chan, const void *body, size_t len, const int *fds, unsigned nfds, int flags)
{
	struct iovec iov = {(void *)(uintptr_t)body, len};
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(MRMAP_MAX_FDS * sizeof(int))];
	} control;
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (nfds > 0) {
		struct cmsghdr *cm = &control.align;

		memset(&control, 0, sizeof(control));
		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_SPACE(nfds * sizeof(int));
		cm->cmsg_level = SOL_SOCKET;
		cm->cmsg_type = SCM_RIGHTS;
		cm->cmsg_len = CMSG_LEN(nfds * sizeof(int));
		memcpy(CMSG_DATA(cm), fds, nfds * sizeof(int));
	}
	return sendmsg(chan, &msg, flags | MSG_NOSIGNAL);
}

int
broker_send(int chan, const struct broker_cmd *cmd, const int *fds, unsigned nfds)
{
	size_t len = cmd->op == BROKER_FIND ? sizeof(*cmd) : BROKER_CMD_SHORT;
	ssize_t n;

	do
		n = broker_put(chan, cmd, len, fds, nfds, 0);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

int
broker_receive(int chan, struct broker_msg *m, int *fds, unsigned *nfds)
{
	struct iovec iov = {m, sizeof(*m)};
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(MRMAP_MAX_FDS * sizeof(int))];
	} control;
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.bytes,
			     .msg_controllen = sizeof(control.bytes)};
	struct cmsghdr *cm;
	ssize_t n = recvmsg(chan, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	*nfds = 0;
	if (n < 0)
		return errno == ECONNRESET ? 0 : -errno;
	cm = CMSG_FIRSTHDR(&msg);
	if (cm != NULL && cm->cmsg_level == SOL_SOCKET && cm->cmsg_type == SCM_RIGHTS) {
		*nfds = (unsigned)((cm->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(fds, CMSG_DATA(cm), *nfds * sizeof(int));
	}
	/* No free descriptor for those of the response: it is useless. */
	if (n > 0 && m->says == BROKER_FOUND && m->found.err == 0 && *nfds != m->found.nfds)
		m->found.err = -EMFILE;
	return n > 0;
}
