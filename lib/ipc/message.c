/* SPDX-License-Identifier: BSD-3-Clause */
#include "ipc/hello.h"
#include "ipc/server.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

/* Stores the descriptors of a received message; the control buffer limits their number. */
static void
take_fds(struct ipc_msg *m, struct msghdr *msg)
{
	m->nfds = 0;
	for (struct cmsghdr *cm = CMSG_FIRSTHDR(msg); cm != NULL; cm = CMSG_NXTHDR(msg, cm)) {
		size_t n = (cm->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (cm->cmsg_level != SOL_SOCKET || cm->cmsg_type != SCM_RIGHTS)
			continue;
		memcpy(m->fds + m->nfds, CMSG_DATA(cm), n * sizeof(int));
		m->nfds += n;
	}
}

static void
close_fds_from(struct ipc_msg *m, unsigned keep)
{
	while (m->nfds > keep)
		close(m->fds[--m->nfds]);
}

void
ipc_msg_close_fds(struct ipc_msg *m)
{
	close_fds_from(m, 0);
}

int
ipc_msg_receive(int sock, struct ipc_msg *m)
{
	struct iovec iov[2] = {{&m->hdr, sizeof(m->hdr)}, {m->body, sizeof(m->body)}};
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};
	ssize_t n;
	int rc;

	m->nfds = 0;
	/* Without control space, MSG_PEEK reports descriptors (MSG_CTRUNC) but installs none. */
	n = recvmsg(sock, &msg, MSG_DONTWAIT | MSG_PEEK);
	if (n < 0)
		return -errno;
	/* An empty packet looks like the end of the connection, and ends it. */
	if (n == 0)
		return 0;
	rc = 1;
	if ((msg.msg_flags & MSG_TRUNC) || (size_t)n < sizeof(m->hdr) ||
	    (size_t)n - sizeof(m->hdr) != m->hdr.len)
		rc = -EPROTO;
	if (msg.msg_flags & MSG_CTRUNC)
		return rc < 0 ? rc : 2;
	return recv(sock, NULL, 0, MSG_DONTWAIT) < 0 ? -errno : rc;
}

bool
ipc_msg_end(int sock)
{
	const int on = 1;

	shutdown(sock, SHUT_RDWR);
	/* Credentials distinguish an empty message from the end and fill the control buffer. */
	if (setsockopt(sock, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0)
		return false;
	for (;;) {
		union {
			struct cmsghdr first;
			char bytes[CMSG_SPACE(sizeof(struct ucred))];
		} control = {0};
		struct msghdr msg = {.msg_control = control.bytes,
				     .msg_controllen = sizeof(control.bytes)};

		if (recvmsg(sock, &msg, MSG_DONTWAIT | MSG_PEEK) < 0)
			return errno == EAGAIN;
		if (msg.msg_flags & MSG_CTRUNC)
			return false;
		/* qemu-user leaves msg_controllen as it was. */
		if (msg.msg_controllen == 0 || control.first.cmsg_len == 0)
			return true;
		if (recv(sock, NULL, 0, MSG_DONTWAIT) < 0)
			return false;
	}
}

int
ipc_msg_receive_fds(int sock, struct ipc_msg *m)
{
	struct iovec iov[2] = {{&m->hdr, sizeof(m->hdr)}, {m->body, sizeof(m->body)}};
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(UROCE_CTRL_MAX_FDS * sizeof(int))];
	} control;
	struct msghdr msg = {
		.msg_iov = iov,
		.msg_iovlen = 2,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	ssize_t n;

	m->nfds = 0;
	n = recvmsg(sock, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n < 0)
		return -errno;
	take_fds(m, &msg);
	/* An empty packet looks like the end of the connection, and ends it. */
	if (n == 0) {
		ipc_msg_close_fds(m);
		return 0;
	}
	if ((msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) || (size_t)n < sizeof(m->hdr) ||
	    (size_t)n - sizeof(m->hdr) != m->hdr.len) {
		ipc_msg_close_fds(m);
		return -EPROTO;
	}
	return 1;
}

/*
 * Returns the name of a spare field of m that is not zero, or NULL. m: a request for a known
 * operation.
 */
static const char *
spare_used(const struct ipc_msg *m)
{
	if (m->hdr.status != 0)
		return "ctrl_hdr.status";
	if (m->hdr.spare[0] != 0 || m->hdr.spare[1] != 0)
		return "ctrl_hdr.spare";
	return ipc_body_spare_used(&ipc_op_get(m->hdr.op)->req, m->body);
}

/* Returns true for the HELLO of a client older than version 7, which has a different length. */
static bool
hello_is_old(const struct ipc_msg *m)
{
	return m->hdr.op == UROCE_CTRL_HELLO && m->hdr.version < UROCE_ABI_VERSION_FIRST;
}

int
ipc_msg_check(struct ipc_msg *m, enum ipc_state st, uint16_t version)
{
	const struct ipc_op *op = ipc_op_get(m->hdr.op);

	if (m->hdr.magic != UROCE_CTRL_MAGIC || m->hdr.nfds > m->nfds)
		return -EPROTO;
	close_fds_from(m, m->hdr.nfds);
	if (st == IPC_STATE_NEW && m->hdr.op != UROCE_CTRL_HELLO)
		return -EPROTO;
	if (st != IPC_STATE_NEW && m->hdr.version != version)
		return -EPROTO;
	if (op == NULL)
		return EOPNOTSUPP;
	if (m->hdr.len != op->req.len)
		return hello_is_old(m) ? EPROTONOSUPPORT : -EPROTO;
	if (m->nfds > op->max_fds)
		return EINVAL;
	if (m->hdr.op == UROCE_CTRL_HELLO && st != IPC_STATE_NEW)
		return EINVAL;
	if (st < op->min_state)
		return EPERM;
	return m->hdr.op != UROCE_CTRL_HELLO && spare_used(m) != NULL ? EINVAL : 0;
}

void
ipc_msg_why(const struct ipc_msg *m, int rc, char why[UROCE_CTRL_MAX_WHY])
{
	const char *field = ipc_op_get(m->hdr.op) != NULL ? spare_used(m) : NULL;

	why[0] = '\0';
	if (rc == EPROTONOSUPPORT)
		ipc_hello_refuse_old(&ipc_offer_own, m->hdr.version, why);
	else if (rc == EINVAL && field != NULL)
		snprintf(why, UROCE_CTRL_MAX_WHY,
			 "%s must be zero: it is spare in version %u of uroce's ABI", field,
			 m->hdr.version);
}

int
ipc_reply_send(int sock, const struct uroce_ctrl_hdr *req, uint32_t status, const void *body,
	       uint32_t len, const int *fds, unsigned nfds)
{
	struct uroce_ctrl_hdr hdr = {
		.magic = UROCE_CTRL_MAGIC,
		.version = req->version,
		.op = req->op,
		.cookie = req->cookie,
		.status = status,
		.len = len,
		.nfds = (uint16_t)(status == 0 ? nfds : 0),
	};
	struct iovec iov[2] = {{&hdr, sizeof(hdr)}, {(void *)(uintptr_t)body, hdr.len}};
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(UROCE_CTRL_MAX_FDS * sizeof(int))];
	} control;
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = hdr.len > 0 ? 2 : 1};
	ssize_t n;

	if (nfds > UROCE_CTRL_MAX_FDS)
		return -EINVAL;
	if (hdr.nfds > 0) {
		struct cmsghdr *cm = &control.align;

		memset(&control, 0, sizeof(control));
		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_SPACE(hdr.nfds * sizeof(int));
		cm->cmsg_level = SOL_SOCKET;
		cm->cmsg_type = SCM_RIGHTS;
		cm->cmsg_len = CMSG_LEN(hdr.nfds * sizeof(int));
		memcpy(CMSG_DATA(cm), fds, hdr.nfds * sizeof(int));
	}
	n = sendmsg(sock, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
	return n < 0 ? -errno : 0;
}
