/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Commands of a channel: from librdmacm's write(2) to a request of the daemon and back.
 *
 * A thread may be cancelled while GET_EVENT waits, as rping cancels its own: no lock is held there.
 * Between a request and its reply cancellation is disabled.
 */
#include "cm_channel.h"
#include "cm_command.h"
#include "sched/waiting.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
#include <rdma/rdma_user_cm.h>

#define NO_RESPONSE UINT16_MAX

/* Offset of the response address in each command's body. */
static const uint16_t response_at[] = {
	[RDMA_USER_CM_CMD_CREATE_ID] = offsetof(struct rdma_ucm_create_id, response),
	[RDMA_USER_CM_CMD_DESTROY_ID] = offsetof(struct rdma_ucm_destroy_id, response),
	[RDMA_USER_CM_CMD_BIND_IP] = NO_RESPONSE, /* the field is not used */
	[RDMA_USER_CM_CMD_RESOLVE_IP] = NO_RESPONSE,
	[RDMA_USER_CM_CMD_RESOLVE_ROUTE] = NO_RESPONSE,
	[RDMA_USER_CM_CMD_QUERY_ROUTE] = offsetof(struct rdma_ucm_query, response),
	[RDMA_USER_CM_CMD_CONNECT] = NO_RESPONSE,
	[RDMA_USER_CM_CMD_LISTEN] = NO_RESPONSE,
	[RDMA_USER_CM_CMD_ACCEPT] = NO_RESPONSE,
	[RDMA_USER_CM_CMD_REJECT] = NO_RESPONSE,
	[RDMA_USER_CM_CMD_DISCONNECT] = NO_RESPONSE,
	[RDMA_USER_CM_CMD_INIT_QP_ATTR] = offsetof(struct rdma_ucm_init_qp_attr, response),
	[RDMA_USER_CM_CMD_GET_EVENT] = offsetof(struct rdma_ucm_get_event, response),
	[RDMA_USER_CM_CMD_GET_OPTION] = NO_RESPONSE,
	[RDMA_USER_CM_CMD_SET_OPTION] = NO_RESPONSE,
	[RDMA_USER_CM_CMD_NOTIFY] = NO_RESPONSE,
	[RDMA_USER_CM_CMD_JOIN_IP_MCAST] = offsetof(struct rdma_ucm_join_ip_mcast, response),
	[RDMA_USER_CM_CMD_LEAVE_MCAST] = offsetof(struct rdma_ucm_destroy_id, response),
	[RDMA_USER_CM_CMD_MIGRATE_ID] = offsetof(struct rdma_ucm_migrate_id, response),
	[RDMA_USER_CM_CMD_QUERY] = offsetof(struct rdma_ucm_query, response),
	[RDMA_USER_CM_CMD_BIND] = NO_RESPONSE,
	[RDMA_USER_CM_CMD_RESOLVE_ADDR] = NO_RESPONSE,
	[RDMA_USER_CM_CMD_JOIN_MCAST] = offsetof(struct rdma_ucm_join_mcast, response),
};
#define NCOMMANDS (sizeof(response_at) / sizeof(response_at[0]))

/* A command being executed. */
struct command {
	struct uroce_cm_req req;
	uint8_t body[UROCE_CM_MAX_BODY];
	void *response; /* where the response goes; NULL: nowhere */
	size_t reply_len;
	uint8_t reply[UROCE_CM_MAX_BODY];
};

struct cm_shared *
cm_shared_map(void)
{
	struct cm_shared *s =
		mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_mutexattr_t attr;

	if (s == MAP_FAILED)
		return NULL;
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&s->lock, &attr);
	pthread_mutexattr_destroy(&attr);
	return s;
}

void
cm_shared_unmap(struct cm_shared *shared)
{
	if (shared)
		munmap(shared, sizeof(*shared));
}

static int
command_send(int sock, struct command *c)
{
	struct iovec iov[2] = {{&c->req, sizeof(c->req)}, {c->body, c->req.in}};
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};
	ssize_t n;

	do {
		n = sendmsg(sock, &msg, MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? EIO : 0;
}

/* Receives the reply into rep and c->reply. EIO: the daemon is gone or sent anything else. */
static int
command_receive(int sock, struct command *c, struct uroce_cm_rep *rep)
{
	struct iovec iov[2] = {{rep, sizeof(*rep)}, {c->reply, sizeof(c->reply)}};
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};
	ssize_t n;

	do {
		n = recvmsg(sock, &msg, 0);
	} while (n < 0 && errno == EINTR);
	if (n < (ssize_t)sizeof(*rep) || (msg.msg_flags & MSG_TRUNC) ||
	    rep->cookie != c->req.cookie || (size_t)n - sizeof(*rep) != rep->len ||
	    rep->len > c->req.out || (rep->status && rep->len))
		return EIO;
	c->reply_len = rep->len;
	return 0;
}

/* Sends c and waits for its reply. Shared lock held. Returns the command's status; -1: no reply. */
static int
command_exchange(struct cm_channel *ch, int fd, struct command *c)
{
	struct uroce_cm_rep rep;
	uint8_t token;

	c->req.cookie = ++ch->shared->cookie;
	if (command_send(ch->command, c))
		return -1;
	sched_spin_readable(&ch->shared->spin, ch->command);
	if (command_receive(ch->command, c, &rep))
		return -1;
	if (rep.flags & UROCE_CM_TAKE_TOKEN)
		recv(fd, &token, 1, MSG_DONTWAIT);
	return (int)rep.status;
}

/* Executes a command without the daemon, which is gone (cm_command.h). Returns the command's
 * status. */
static int
command_lost(struct cm_channel *ch, struct command *c)
{
	int rc;

	c->reply_len = 0;
	rc = cm_ids_lost(ch, c->req.cmd, c->body, c->req.in, c->reply, &c->reply_len);
	if (c->reply_len > c->req.out)
		c->reply_len = c->req.out;
	return rc;
}

/*
 * Executes one request on channel ch, whose descriptor is fd. Returns the command's status, or EIO.
 * A process that is killed between request and reply leaves an unexpected reply or token, which
 * breaks the channel for the other processes. Releases ch. Called with cancellation disabled.
 */
static int
command_run(struct cm_channel *ch, int fd, struct command *c)
{
	int status, rc;

	rc = pthread_mutex_lock(&ch->shared->lock);
	if (rc == EOWNERDEAD) {
		pthread_mutex_consistent(&ch->shared->lock);
		ch->shared->broken = true;
	}
	status = ch->shared->broken ? -1 : command_exchange(ch, fd, c);
	if (status == 0)
		cm_ids_note(ch, c->req.from, c->req.cmd, c->body, c->req.in, c->reply,
			    c->reply_len);
	if (status < 0) {
		ch->shared->broken = true;
		status = command_lost(ch, c);
	}
	pthread_mutex_unlock(&ch->shared->lock);
	cm_channel_put(ch);
	return status;
}

/* Checks for an event. Returns 0, EAGAIN, or EIO if the daemon is gone. flags: as for recv(2). */
static int
event_peek(int fd, int flags)
{
	uint8_t token;
	ssize_t n = recv(fd, &token, 1, MSG_PEEK | flags);

	if (n < 0)
		return errno == ECONNRESET ? EIO : errno;
	return n ? 0 : EIO;
}

static void
turn_end(void *turn)
{
	sem_post(turn);
}

static void
channel_put(void *ch)
{
	cm_channel_put(ch);
}

/*
 * Waits until fd has an event. Returns 0, EINTR or EIO. The socket wakes one waiting thread per
 * token, but a token may stand for several events. The thread that wakes therefore wakes the next
 * one.
 */
static int
event_wait(int fd)
{
	struct cm_channel *ch = cm_channel_get(fd);
	int rc;

	if (!ch)
		return EIO;
	pthread_cleanup_push(channel_put, ch);
	if (sem_wait(&ch->turn) < 0) {
		rc = errno;
	} else {
		pthread_cleanup_push(turn_end, &ch->turn);
		rc = event_peek(fd, 0);
		pthread_cleanup_pop(1);
	}
	pthread_cleanup_pop(1);
	return rc;
}

/* Executes GET_EVENT on the channel of fd. */
static int
event_take(int fd, struct command *c)
{
	struct cm_channel *ch;
	int rc, cancel;

	do {
		rc = event_peek(fd, MSG_DONTWAIT);
		if (rc == EAGAIN && !(fcntl(fd, F_GETFL) & O_NONBLOCK))
			rc = event_wait(fd);
		if (rc && rc != EIO) /* the daemon is gone: the ids get their event */
			return rc;
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
		ch = cm_channel_get(fd);
		rc = ch ? command_run(ch, fd, c) : EIO;
		pthread_setcancelstate(cancel, NULL);
	} while (rc == EAGAIN); /* another thread took the event */
	return rc;
}

/* Replaces the descriptor by which MIGRATE_ID names the other channel by that channel's secret. */
static int
migrate_prepare(struct command *c)
{
	struct rdma_ucm_migrate_id cmd;
	struct cm_channel *from;

	if (c->req.in < sizeof(cmd))
		return 0; /* the daemon refuses it */
	memcpy(&cmd, c->body, sizeof(cmd));
	if (fcntl((int)cmd.fd, F_GETFD) < 0)
		return EBADF;
	from = cm_channel_get((int)cmd.fd);
	if (!from)
		return EINVAL;
	memcpy(c->req.from, from->secret, sizeof(c->req.from));
	cm_channel_put(from);
	return 0;
}

/* Replaces the address of SET_OPTION's value by the value itself, appended to the command. */
static int
option_prepare(struct command *c)
{
	struct rdma_ucm_set_option cmd;

	if (c->req.in < sizeof(cmd))
		return 0;
	memcpy(&cmd, c->body, sizeof(cmd));
	if (cmd.optlen > sizeof(c->body) - sizeof(cmd))
		return EINVAL;
	if (!cmd.optval && cmd.optlen)
		return EFAULT;
	if (cmd.optlen)
		memcpy(c->body + sizeof(cmd), (void *)(uintptr_t)cmd.optval, cmd.optlen);
	c->req.in = (uint32_t)sizeof(cmd) + cmd.optlen;
	return 0;
}

/* Parses the program's write into c. 0 or a positive errno. */
static int
command_prepare(struct command *c, const void *buf, size_t len)
{
	struct rdma_ucm_cmd_hdr hdr;
	uint16_t at;

	if (len < sizeof(hdr))
		return EINVAL;
	memcpy(&hdr, buf, sizeof(hdr));
	if (hdr.in > len - sizeof(hdr) || hdr.in > sizeof(c->body))
		return EINVAL;
	memset(&c->req, 0, sizeof(c->req));
	c->req.cmd = hdr.cmd;
	c->req.in = hdr.in;
	c->req.out = hdr.out;
	c->response = NULL;
	memcpy(c->body, (const uint8_t *)buf + sizeof(hdr), hdr.in);
	at = hdr.cmd < NCOMMANDS ? response_at[hdr.cmd] : NO_RESPONSE;
	if (at != NO_RESPONSE && hdr.in >= at + sizeof(uint64_t)) {
		uint64_t response;

		memcpy(&response, c->body + at, sizeof(response));
		c->response = (void *)(uintptr_t)response;
		if (!c->response && hdr.out)
			return EFAULT;
	}
	if (hdr.cmd == RDMA_USER_CM_CMD_MIGRATE_ID)
		return migrate_prepare(c);
	if (hdr.cmd == RDMA_USER_CM_CMD_SET_OPTION)
		return option_prepare(c);
	return 0;
}

/* Returns true if c is a GET_EVENT of a size that the daemon accepts. */
static bool
waits_for_event(const struct command *c)
{
	return c->req.cmd == RDMA_USER_CM_CMD_GET_EVENT &&
	       c->req.in >= sizeof(struct rdma_ucm_get_event) &&
	       c->req.out >= offsetof(struct rdma_ucm_event_resp, reserved);
}

ssize_t
prov_cm_write(int fd, const void *buf, size_t len)
{
	struct cm_channel *ch;
	struct command c;
	int rc, cancel;
	bool event;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	ch = cm_channel_get(fd);
	if (!ch) {
		pthread_setcancelstate(cancel, NULL);
		return write(fd, buf, len);
	}
	rc = command_prepare(&c, buf, len);
	event = rc == 0 && waits_for_event(&c);
	if (rc == 0 && !event)
		rc = command_run(ch, fd, &c);
	else
		cm_channel_put(ch);
	pthread_setcancelstate(cancel, NULL);
	if (event) /* can be cancelled, and the descriptor may be closed while it waits */
		rc = event_take(fd, &c);
	if (rc == 0 && c.reply_len && c.response)
		memcpy(c.response, c.reply, c.reply_len);
	if (rc) {
		errno = rc;
		return -1;
	}
	return (ssize_t)len;
}
