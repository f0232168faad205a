/* SPDX-License-Identifier: BSD-3-Clause */
#include "ipc/client.h"
#include "ipc/ops.h"
#include "ipc/sockpath.h"
#include "sched/waiting.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* Another thread may close a descriptor soon. */
#define ROOM_TRIES   20
#define ROOM_WAIT_NS 1000000

#define NO_ROOM      "this process has no room for the reply's descriptors; raise RLIMIT_NOFILE"

const char *
ipc_client_path(const char *path)
{
	if (path && *path)
		return path;
	/* Not in set-user-id programs: the caller must not choose their daemon. */
	path = secure_getenv(UROCE_SOCK_ENV);
	return path && *path ? path : ipc_socket_to_use();
}

void
ipc_client_init(struct ipc_client *c, int sock)
{
	c->sock = sock;
	c->cookie = 0;
	c->offer = ipc_offer_own;
	c->version = c->offer.version_max;
	c->features = 0;
	c->spin = (struct backoff){0};
	pthread_mutex_init(&c->mutex, NULL);
}

int
ipc_client_connect(struct ipc_client *c, const char *path)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	int sock, rc;

	ipc_client_init(c, -1);
	path = ipc_client_path(path);
	if (strlen(path) >= sizeof(sun.sun_path))
		return -ENAMETOOLONG;
	strcpy(sun.sun_path, path);
	sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (sock < 0)
		return -errno;
	do {
		rc = connect(sock, (struct sockaddr *)&sun, sizeof(sun));
	} while (rc < 0 && errno == EINTR);
	if (rc < 0) {
		rc = -errno;
		close(sock);
		return rc;
	}
	c->sock = sock;
	return 0;
}

static void
client_end(struct ipc_client *c)
{
	int sock = c->sock;

	/* First, because other threads look at it without the mutex. */
	__atomic_store_n(&c->sock, -1, __ATOMIC_RELAXED);
	if (sock >= 0)
		close(sock);
}

void
ipc_client_close(struct ipc_client *c)
{
	pthread_mutex_lock(&c->mutex);
	client_end(c);
	pthread_mutex_unlock(&c->mutex);
}

void
ipc_client_abandon(struct ipc_client *c)
{
	/* A mutex that another thread of the parent held would never be unlocked here. */
	pthread_mutex_init(&c->mutex, NULL);
	client_end(c);
}

static int
client_send(struct ipc_client *c, const struct ipc_call *call)
{
	struct uroce_ctrl_hdr hdr = {
		.magic = UROCE_CTRL_MAGIC,
		.version = c->version,
		.op = call->op,
		.cookie = ++c->cookie,
		.len = (uint32_t)call->req_len,
		.nfds = (uint16_t)call->req_nfds,
	};
	struct iovec iov[2] = {{&hdr, sizeof(hdr)}, {(void *)(uintptr_t)call->req, call->req_len}};
	char control[CMSG_SPACE(UROCE_CTRL_MAX_FDS * sizeof(int))] = {0};
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = call->req_len ? 2 : 1};
	ssize_t n;

	if (call->req_nfds) {
		size_t bytes = call->req_nfds * sizeof(int);
		struct cmsghdr *cm;

		msg.msg_control = control;
		msg.msg_controllen = CMSG_SPACE(bytes);
		cm = CMSG_FIRSTHDR(&msg);
		cm->cmsg_level = SOL_SOCKET;
		cm->cmsg_type = SCM_RIGHTS;
		cm->cmsg_len = CMSG_LEN(bytes);
		memcpy(CMSG_DATA(cm), call->req_fds, bytes);
	}
	do {
		n = sendmsg(c->sock, &msg, MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	return 0;
}

/* Stores the descriptors of a received message, at most UROCE_CTRL_MAX_FDS. */
static unsigned int
client_take_fds(struct msghdr *msg, int *fds)
{
	unsigned int n = 0;

	for (struct cmsghdr *cm = CMSG_FIRSTHDR(msg); cm; cm = CMSG_NXTHDR(msg, cm)) {
		size_t bytes = cm->cmsg_len - CMSG_LEN(0);

		if (cm->cmsg_level != SOL_SOCKET || cm->cmsg_type != SCM_RIGHTS)
			continue;
		memcpy(fds + n, CMSG_DATA(cm), bytes);
		n += bytes / sizeof(int);
	}
	return n;
}

static void
close_fds(const int *fds, unsigned int n)
{
	while (n--)
		close(fds[n]);
}

/*
 * Returns true if the received message is a valid reply to this call. The body of a refusal is a
 * sentence or empty; that of a reply with status 0 has exactly the operation's length.
 */
static bool
reply_fits(const struct ipc_client *c, const struct ipc_call *call,
	   const struct uroce_ctrl_hdr *hdr, size_t got, unsigned int nfds)
{
	if (got < sizeof(*hdr) || hdr->magic != UROCE_CTRL_MAGIC || hdr->version != c->version ||
	    hdr->op != call->op || hdr->cookie != c->cookie)
		return false;
	if (got != sizeof(*hdr) + hdr->len)
		return false;
	if (hdr->spare[0] || hdr->spare[1])
		return false;
	if (hdr->status)
		return hdr->len <= UROCE_CTRL_MAX_WHY;
	return hdr->len == call->rep_len && nfds <= call->rep_fds_max;
}

/*
 * Copies the sentence of a refusal. Its first bytes arrived in the reply's body, the others in
 * rest. Terminals show it, so characters that are not printable are replaced.
 */
static void
client_take_why(struct ipc_call *call, const char *rest, size_t len)
{
	size_t first = len < call->rep_len ? len : call->rep_len;

	if (first)
		memcpy(call->why, call->rep, first);
	memcpy(call->why + first, rest, len - first);
	call->why[len] = '\0';
	for (char *p = call->why; *p; p++) {
		if (*p < ' ' || *p > '~')
			*p = '?';
	}
}

/* Returns true if the spare bytes of the reply are zero. Otherwise call->why names the field. */
static bool
reply_spare_unused(struct ipc_call *call)
{
	const struct ipc_op *op = ipc_op_get(call->op);
	const char *field = NULL;

	if (op != NULL && op->rep.len == call->rep_len)
		field = ipc_body_spare_used(&op->rep, call->rep);
	if (field != NULL)
		snprintf(call->why, sizeof(call->why), "%s of the reply must be zero", field);
	return field == NULL;
}

/* As recvmsg(2); descriptors are marked close-on-exec. */
static ssize_t
receive_msg(const struct ipc_client *c, struct msghdr *msg, int flags)
{
	ssize_t n;

	do {
		n = recvmsg(c->sock, msg, flags | MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	return n;
}

/* Closes the caller's spare descriptors. Returns false if there were none. */
static bool
close_spares(struct ipc_call *call)
{
	bool any = false;

	for (unsigned int i = 0; i < call->nspare; i++) {
		int fd = call->spare[i];

		call->spare[i] = -1;
		if (fd >= 0)
			close(fd);
		any |= fd >= 0;
	}
	return any;
}

/*
 * Receives a reply with descriptors, which the kernel drops if this process has no room for them.
 * The message therefore stays in the socket until they fit, or until it is clear that they do not.
 */
static ssize_t
receive_fds(const struct ipc_client *c, struct ipc_call *call, struct msghdr *msg, int *fds,
	    unsigned int *nfds)
{
	const struct timespec nap = {.tv_nsec = ROOM_WAIT_NS};
	const size_t room = msg->msg_controllen;
	ssize_t n;
	char byte;

	for (unsigned int i = 0;; i++) {
		msg->msg_controllen = room;
		n = receive_msg(c, msg, MSG_PEEK);
		if (n <= 0)
			return n;
		*nfds = client_take_fds(msg, fds);
		if (!(msg->msg_flags & MSG_CTRUNC) || i == ROOM_TRIES)
			break;
		close_fds(fds, *nfds);
		if (!close_spares(call))
			nanosleep(&nap, NULL);
	}
	recv(c->sock, &byte, sizeof(byte), MSG_DONTWAIT); /* takes the message */
	return n;
}

static int
client_receive(struct ipc_client *c, struct ipc_call *call)
{
	struct uroce_ctrl_hdr hdr;
	char rest[UROCE_CTRL_MAX_WHY];
	struct iovec iov[3] = {{&hdr, sizeof(hdr)},
			       {call->rep, call->rep_len},
			       {rest, sizeof(rest)}};
	char control[CMSG_SPACE(UROCE_CTRL_MAX_FDS * sizeof(int))];
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 3};
	int fds[UROCE_CTRL_MAX_FDS];
	unsigned int nfds = 0;
	bool lost;
	ssize_t n;

	msg.msg_control = control;
	msg.msg_controllen = sizeof(control);
	sched_spin_readable(&c->spin, c->sock);
	if (call->rep_fds_max)
		n = receive_fds(c, call, &msg, fds, &nfds);
	else
		n = receive_msg(c, &msg, 0);
	if (n <= 0)
		return -EIO;
	if (!call->rep_fds_max)
		nfds = client_take_fds(&msg, fds);
	lost = msg.msg_flags & MSG_CTRUNC;
	if ((msg.msg_flags & MSG_TRUNC) || (lost && !call->rep_fds_max) ||
	    !reply_fits(c, call, &hdr, (size_t)n, nfds)) {
		close_fds(fds, nfds);
		return -EPROTO;
	}
	if (hdr.status) {
		close_fds(fds, nfds);
		client_take_why(call, rest, hdr.len);
		return -(int)hdr.status;
	}
	if (!reply_spare_unused(call)) {
		close_fds(fds, nfds);
		return -EPROTO;
	}
	if (lost) {
		close_fds(fds, nfds);
		strcpy(call->why, NO_ROOM);
		return -EMFILE;
	}
	if (nfds)
		memcpy(call->rep_fds, fds, nfds * sizeof(int));
	call->rep_nfds = nfds;
	return 0;
}

int
ipc_client_call(struct ipc_client *c, struct ipc_call *call)
{
	int rc;

	call->rep_nfds = 0;
	call->why[0] = '\0';
	if (call->req_nfds > UROCE_CTRL_MAX_FDS ||
	    call->req_len > UROCE_CTRL_MAX_MSG - sizeof(struct uroce_ctrl_hdr))
		return -EINVAL;
	pthread_mutex_lock(&c->mutex);
	if (c->sock < 0) {
		rc = -EIO;
		goto out;
	}
	rc = client_send(c, call);
	if (rc) {
		/* After these two errors the request was not sent, and the connection is usable. */
		if (rc == -ENOBUFS || rc == -ETOOMANYREFS)
			goto out;
		rc = -EIO;
		client_end(c);
		goto out;
	}
	call->rep_nfds = 0;
	rc = client_receive(c, call);
	if (rc == -EIO || rc == -EPROTO)
		client_end(c);
out:
	pthread_mutex_unlock(&c->mutex);
	return rc;
}

/* Checks the daemon's reply to HELLO. If it contradicts the offer, ends the connection: -EPROTO. */
static int
hello_accept(struct ipc_client *c, struct ipc_call *call)
{
	const struct uroce_hello_rep *rep = call->rep;

	if (ipc_hello_check(&c->offer, rep, call->why) != 0) {
		close_fds(call->rep_fds, call->rep_nfds);
		call->rep_nfds = 0;
		ipc_client_close(c);
		return -EPROTO;
	}
	c->version = rep->version;
	c->features = rep->features;
	return 0;
}

int
ipc_client_hello(struct ipc_client *c, const char *device, struct uroce_hello_rep *rep, int *fds,
		 unsigned int *nfds, char why[UROCE_CTRL_MAX_WHY + 1])
{
	struct uroce_hello_req req = {
		.pid = (uint32_t)getpid(),
		.version_min = c->offer.version_min,
		.version_max = c->offer.version_max,
		.features = c->offer.features,
		.features_required = c->offer.required,
	};
	struct ipc_call call = {
		.op = UROCE_CTRL_HELLO,
		.req = &req,
		.req_len = sizeof(req),
		.rep = rep,
		.rep_len = sizeof(*rep),
		.rep_fds = fds,
		.rep_fds_max = UROCE_HELLO_FDS,
	};
	int rc;

	if (why)
		why[0] = '\0';
	if (strlen(device) >= sizeof(req.device))
		return -EINVAL;
	strcpy(req.device, device);
	c->version = c->offer.version_max;
	rc = ipc_client_call(c, &call);
	if (rc == 0)
		rc = hello_accept(c, &call);
	else if (rc == -EIO)
		strcpy(call.why, "the daemon ended the connection without a reply, as one of a "
				 "version before 7 of uroce's ABI does");
	if (why)
		strcpy(why, call.why);
	*nfds = call.rep_nfds;
	return rc;
}
