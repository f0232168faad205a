/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Channels. A channel ends when all copies of the client's end of its socket are closed, or when
 * the client breaks the protocol. The daemon receives nothing from the channel's socket. A message
 * with descriptors on the command socket ends the channel and is not received, because closing
 * the descriptors could block (ipc/broker.h).
 */
#include <errno.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>
#include "control/cm_parts.h"
#include "control/log.h"
#include "control/session.h"

#define SLICE_IDS 64 /* ids, events and memberships that end in one turn of the loop */

/* Formats of a received command, and of a sent reply. */
struct message_in {
	struct uroce_cm_req req;
	uint8_t body[UROCE_CM_MAX_BODY] __attribute__((aligned(8)));
};
struct message_out {
	struct uroce_cm_rep rep;
	uint8_t body[UROCE_CM_MAX_BODY] __attribute__((aligned(8)));
};

static struct ucma_channels *
bucket(struct cm_service *svc, const uint8_t *secret)
{
	return &svc->channels[secret[0] % UCMA_BUCKETS];
}

/* Returns lib/cm's number of the channel with this secret; 0: none. */
static uint32_t
channel_of(struct cm_service *svc, const uint8_t *secret)
{
	const struct ucma_channel *ch;

	LIST_FOREACH (ch, bucket(svc, secret), link) {
		if (memcmp(ch->secret, secret, sizeof(ch->secret)) == 0)
			return ch->number;
	}
	return 0;
}

/* Closes the command socket when the client is done. Never blocks, whatever the client sent. */
static void
commands_close(struct ucma_channel *ch)
{
	struct daemon *d = ch->svc->d;

	if (ch->commands.fd < 0)
		return;
	loop_del(&d->loop, &ch->commands);
	throttle_end(d, &ch->throttle);
	broker_drop(d, ch->id,
		    &(struct ipc_peer){.sock = ch->commands.fd, .pidfd = -1, .uid = ch->uid},
		    false);
	ch->commands.fd = -1;
}

/* Frees a channel that has no ids any more. */
static void
channel_free(struct ucma_channel *ch)
{
	struct quota_user *user = ch->user;

	LIST_REMOVE(ch, link);
	quota_give(user, QUOTA_FDS, UCMA_CHANNEL_FDS);
	quota_give(user, QUOTA_CM_CHANNELS, 1);
	quota_user_put(user);
	free(ch);
}

/* Ends at most `most` of its ids and events. Returns true when the channel is freed. */
static bool
channel_end_some(struct ucma_channel *ch, uint32_t most)
{
	struct cm_service *svc = ch->svc;
	bool over;

	svc->by = ch->user;
	over = cma_channel_close(svc->cma, ch->number, most, daemon_now_ns());
	svc->by = NULL;
	ucma_arm(svc);
	if (over)
		channel_free(ch);
	return over;
}

static void
on_end_turn(struct defer *df)
{
	struct ucma_channel *ch = WATCH_OF(df, struct ucma_channel, end);
	struct quota_user *user = ch->user;
	struct daemon *d = ch->svc->d;

	user->refs++; /* so that it outlives the channel */
	throttle_begin(d, user);
	if (!channel_end_some(ch, SLICE_IDS))
		defer_turn(d, df);
	throttle_slice(d, user);
	quota_user_put(user);
}

/* Closes the sockets at once, and ends the channel's ids in slices, one per turn of the loop. */
static void
channel_close(struct ucma_channel *ch)
{
	struct cm_service *svc = ch->svc;

	LIST_REMOVE(ch, link);
	LIST_INSERT_HEAD(&svc->closing, ch, link);
	loop_del(&svc->d->loop, &ch->events);
	close(ch->events.fd);
	commands_close(ch);
	ch->end.then = on_end_turn;
	if (!channel_end_some(ch, SLICE_IDS))
		defer_turn(svc->d, &ch->end);
}

void
ucma_channels_close(struct cm_service *svc)
{
	struct ucma_channel *ch;

	for (uint32_t i = 0; i < UCMA_BUCKETS; i++) {
		while (!LIST_EMPTY(&svc->channels[i]))
			channel_close(LIST_FIRST(&svc->channels[i]));
	}
	while ((ch = LIST_FIRST(&svc->closing)) != NULL) {
		defer_cancel(svc->d, &ch->end);
		channel_end_some(ch, UINT32_MAX);
	}
}

void *
ucma_charge(void *ctx, void *user)
{
	struct ucma_channel *ch = user;

	if (quota_take(ch->user, QUOTA_CM_IDS, 1) < 0)
		return NULL;
	ch->user->refs++;
	return ch->user;
}

void
ucma_discharge(void *ctx, void *payer)
{
	quota_give(payer, QUOTA_CM_IDS, 1);
	quota_user_put(payer);
}

/* As in the kernel, where rdma_cm asks for CAP_NET_BIND_SERVICE. */
bool
ucma_low_port(void *ctx, void *user, uint16_t port)
{
	const struct ucma_channel *ch = user;

	if (ch->user->privileged)
		return true;
	LOG_LIMITED(NOTICE,
		    "%s (pid %d, uid %u): rdma_cm port %u refused: only root with CAP_NET_ADMIN "
		    "and the daemon's user "
		    "may bind ports below %u",
		    ch->comm, ch->pid, ch->uid, port, CMA_LOW_PORTS);
	return false;
}

static void
token_send(struct ucma_channel *ch)
{
	static const char token = 1;
	ssize_t n = send(ch->events.fd, &token, 1, MSG_DONTWAIT | MSG_NOSIGNAL);

	ch->token = true;
	/* Full: the client never took its tokens. Other errors: the hang-up follows. */
	ch->late_token = n < 0 && (errno == EAGAIN || errno == ENOBUFS);
	loop_set(&ch->svc->d->loop, &ch->events, ch->late_token ? EPOLLOUT : 0);
}

void
ucma_readable(void *ctx, void *user)
{
	struct ucma_channel *ch = user;

	if (!ch->token)
		token_send(ch);
}

/*
 * Called after a command. Returns true if the client must take a token, because no event waits. If
 * a client ends before it takes the token, another process that shares the channel takes it.
 */
static bool
token_take(struct ucma_channel *ch)
{
	int unread = 0;

	if (cma_events_waiting(ch->svc->cma, ch->number) != 0)
		return false;
	if (!ch->token && (ioctl(ch->events.fd, SIOCOUTQ, &unread) < 0 || unread == 0))
		return false;
	ch->token = false;
	if (!ch->late_token)
		return true;
	ch->late_token = false;
	loop_set(&ch->svc->d->loop, &ch->events, 0);
	return false;
}

/* Executes a command and replies. Returns 0, or -errno if the channel must end. */
static int
command(struct ucma_channel *ch, const struct message_in *in)
{
	static struct message_out out;
	struct cm_service *svc = ch->svc;
	struct ucma_call c = {
		.ch = ch,
		.cma = svc->cma,
		.now_ns = daemon_now_ns(),
		.req = &in->req,
		.body = in->body,
		.rep = out.body,
	};
	ssize_t n;
	int rc;

	memset(&out, 0, sizeof(out));
	if (in->req.cmd == RDMA_USER_CM_CMD_MIGRATE_ID)
		c.from = channel_of(svc, in->req.from);
	quota_refusal_clear(&svc->d->quota);
	svc->by = ch->user;
	rc = ucma_perform(&c);
	svc->by = NULL;
	ucma_arm(svc);
	if (svc->d->quota.refusal[0] != '\0')
		LOG_LIMITED(NOTICE, "%s (pid %d): connection id refused: %s", ch->comm, ch->pid,
			    svc->d->quota.refusal);
	out.rep.cookie = in->req.cookie;
	out.rep.status = (uint32_t)-rc;
	out.rep.flags = token_take(ch) ? UROCE_CM_TAKE_TOKEN : 0;
	out.rep.len = rc == 0 ? c.rep_len : 0;
	n = send(ch->commands.fd, &out, sizeof(out.rep) + out.rep.len, MSG_DONTWAIT | MSG_NOSIGNAL);
	return n < 0 ? -errno : 0;
}

/* Returns 1 and a command, 0: the client has closed its end, or -errno: the channel must end. */
static int
receive(struct ucma_channel *ch, struct message_in *in)
{
	static const uint8_t zero[sizeof(in->req.spare)];
	struct iovec iov = {in, sizeof(*in)};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	ssize_t n = recvmsg(ch->commands.fd, &msg, MSG_DONTWAIT | MSG_PEEK);

	if (n <= 0)
		return n < 0 ? -errno : 0;
	/* Without control space, MSG_PEEK reports descriptors (MSG_CTRUNC) but installs none. */
	if ((msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) || (size_t)n < sizeof(in->req) ||
	    (size_t)n - sizeof(in->req) != in->req.in ||
	    memcmp(in->req.spare, zero, sizeof(zero)) != 0)
		return -EPROTO;
	return recv(ch->commands.fd, NULL, 0, MSG_DONTWAIT) < 0 ? -errno : 1;
}

static void
on_command(struct watch *w, uint32_t events)
{
	static struct message_in in; /* too large for a stack; there is only one control thread */
	struct ucma_channel *ch = WATCH_OF(w, struct ucma_channel, commands);
	struct quota_user *user = ch->user;
	struct daemon *d = ch->svc->d;
	int rc;

	if (throttle_waits(d, &ch->throttle))
		return;
	throttle_begin(d, user);
	rc = receive(ch, &in);
	if (rc == -EAGAIN) {
		throttle_after(d, user);
		return;
	}
	user->refs++; /* so that it outlives the channel */
	if (rc == 1)
		rc = command(ch, &in);
	else if (rc == 0)
		commands_close(ch);
	if (rc < 0) {
		LOG_LIMITED(NOTICE, "%s (pid %d, uid %u): connection channel ended: %s", ch->comm,
			    ch->pid, user->uid, strerror(-rc));
		channel_close(ch);
	}
	throttle_after(d, user);
	quota_user_put(user);
}

static void
commands_broken(struct throttle *t)
{
	channel_close(WATCH_OF(t, struct ucma_channel, throttle));
}

static void
on_events_socket(struct watch *w, uint32_t events)
{
	struct ucma_channel *ch = WATCH_OF(w, struct ucma_channel, events);
	struct quota_user *user = ch->user;
	struct daemon *d = ch->svc->d;

	if (!(events & (EPOLLHUP | EPOLLERR))) {
		token_send(ch);
		return;
	}
	throttle_begin(d, user);
	user->refs++; /* so that it outlives the channel */
	channel_close(ch);
	throttle_after(d, user);
	quota_user_put(user);
}

/* Creates two socket pairs: the daemon's ends go to ch, the client's to theirs. */
static int
sockets_open(struct ucma_channel *ch, int theirs[2])
{
	int sv[2], cv[2], rc;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0)
		return -errno;
	/* Input could carry descriptors: none is accepted. */
	if (shutdown(sv[0], SHUT_RD) < 0 ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, cv) < 0) {
		rc = -errno;
		close(sv[0]);
		close(sv[1]);
		return rc;
	}
	ch->events.fd = sv[0];
	ch->commands.fd = cv[0];
	theirs[UROCE_CM_CHANNEL_FD] = sv[1];
	theirs[UROCE_CM_COMMAND_FD] = cv[1];
	return 0;
}

static void
sockets_close(const struct ucma_channel *ch, const int theirs[2])
{
	close(ch->events.fd);
	close(ch->commands.fd);
	close(theirs[0]);
	close(theirs[1]);
}

/* Creates the channel of lib/cm and watches the sockets. */
static int
channel_start(struct ucma_channel *ch)
{
	struct cm_service *svc = ch->svc;
	int rc = cma_channel_open(svc->cma, ch, &ch->number);

	if (rc < 0)
		return rc;
	ch->events.ready = on_events_socket;
	ch->commands.ready = on_command;
	ch->throttle =
		(struct throttle){.w = &ch->commands, .user = ch->user, .broken = commands_broken};
	rc = loop_add(&svc->d->loop, &ch->events, 0);
	if (rc < 0)
		goto fail_channel;
	rc = loop_add(&svc->d->loop, &ch->commands, EPOLLIN);
	if (rc < 0)
		goto fail_events;
	while (getrandom(ch->secret, sizeof(ch->secret), 0) != sizeof(ch->secret))
		;
	LIST_INSERT_HEAD(bucket(svc, ch->secret), ch, link);
	return 0;

fail_events:
	loop_del(&svc->d->loop, &ch->events);
fail_channel:
	cma_channel_close(svc->cma, ch->number, 1, daemon_now_ns()); /* it has no ids */
	return rc;
}

static int
channel_make(struct session *s, struct ucma_channel **made, int theirs[2])
{
	struct ucma_channel *ch = calloc(1, sizeof(*ch));
	int rc = -ENOMEM;

	if (ch == NULL)
		return rc;
	ch->svc = s->d->ucma;
	ch->user = s->user;
	ch->uid = s->peer.uid;
	ch->id = ++s->d->next_session;
	ch->pid = s->peer.pid;
	memcpy(ch->comm, s->comm, sizeof(ch->comm));
	rc = sockets_open(ch, theirs);
	if (rc == 0) {
		rc = channel_start(ch);
		if (rc < 0)
			sockets_close(ch, theirs);
	}
	if (rc < 0) {
		free(ch);
		return rc;
	}
	ch->user->refs++;
	*made = ch;
	return 0;
}

int
ucma_channel_open(struct session *s, const struct ctrl_req *req, struct ctrl_rep *rp)
{
	struct uroce_cm_open_rep *rep = rp->body;
	struct ucma_channel *ch = NULL;
	int theirs[2] = {-1, -1}, rc;

	if (s->d->ucma == NULL)
		return EOPNOTSUPP;
	rc = quota_take(s->user, QUOTA_CM_CHANNELS, 1);
	if (rc < 0)
		return -rc;
	rc = quota_take(s->user, QUOTA_FDS, UCMA_CHANNEL_FDS);
	if (rc < 0)
		goto fail_channels;
	rc = channel_make(s, &ch, theirs);
	if (rc < 0)
		goto fail_fds;
	memcpy(rep->channel, ch->secret, sizeof(rep->channel));
	ctrl_rep_fd(rp, theirs[UROCE_CM_CHANNEL_FD], true);
	ctrl_rep_fd(rp, theirs[UROCE_CM_COMMAND_FD], true);
	return 0;

fail_fds:
	quota_give(s->user, QUOTA_FDS, UCMA_CHANNEL_FDS);
fail_channels:
	quota_give(s->user, QUOTA_CM_CHANNELS, 1);
	return -rc;
}
