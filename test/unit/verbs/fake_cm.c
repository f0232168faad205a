/* SPDX-License-Identifier: BSD-3-Clause */
#include "fake_cm.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
#include <rdma/rdma_user_cm.h>
#include "../../kit/hang.h"

/* A reply being made. */
struct reply {
	struct uroce_cm_rep rep;
	uint8_t body[UROCE_CM_MAX_BODY];
};

static void
put(struct reply *r, const void *body, size_t len)
{
	memcpy(r->body, body, len);
	r->rep.len = (uint32_t)len;
}

static void
take_event(struct fake_cm *cm, struct reply *r)
{
	struct rdma_ucm_event_resp event = {.uid = cm->first,
					    .id = cm->first + cm->new_ids,
					    .event = cm->event};

	if (!cm->events) {
		r->rep.status = EAGAIN;
		return;
	}
	cm->first++;
	cm->events--;
	if (!cm->events)
		r->rep.flags = UROCE_CM_TAKE_TOKEN;
	put(r, &event, cm->req.out < sizeof(event) ? cm->req.out : sizeof(event));
}

static void
serve_command(struct fake_cm *cm, struct reply *r)
{
	struct rdma_ucm_create_id create;

	r->rep.cookie = cm->req.cookie;
	r->rep.status = cm->refuse;
	if (cm->refuse)
		return;
	switch (cm->req.cmd) {
	case RDMA_USER_CM_CMD_CREATE_ID:
		memcpy(&create, cm->body, sizeof(create));
		put(r, &(struct rdma_ucm_create_id_resp){.id = (uint32_t)create.uid}, 4);
		break;
	case RDMA_USER_CM_CMD_GET_EVENT:
		take_event(cm, r);
		break;
	case RDMA_USER_CM_CMD_MIGRATE_ID:
		put(r, &(struct rdma_ucm_migrate_resp){.events_reported = cm->req.from[0]}, 4);
		break;
	}
}

/* Makes the reply wrong, if it is to be. Number of bytes to send, 0: none. */
static size_t
spoil(struct fake_cm *cm, struct reply *r)
{
	size_t len = sizeof(r->rep) + r->rep.len;

	switch (cm->wrong) {
	case FAKE_CM_RIGHT:
		return len;
	case FAKE_CM_SHORT:
		return sizeof(r->rep) - 1;
	case FAKE_CM_LESS:
		return len - 1;
	case FAKE_CM_TOO_LONG:
		r->rep.len = cm->req.out + 1;
		return sizeof(r->rep) + r->rep.len;
	case FAKE_CM_COOKIE:
		r->rep.cookie++;
		return len;
	case FAKE_CM_BYTES_OF_REFUSAL:
		r->rep.status = EINVAL;
		return len;
	case FAKE_CM_SILENT:
		break;
	}
	return 0;
}

/* One command. False: the client's end is closed. */
static bool
serve(struct fake_cm *cm, int command)
{
	struct iovec iov[2] = {{&cm->req, sizeof(cm->req)}, {cm->body, sizeof(cm->body)}};
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};
	struct reply r = {0};
	size_t len;
	ssize_t n;

	n = recvmsg(command, &msg, 0);
	if (n <= 0)
		return false;
	assert((size_t)n == sizeof(cm->req) + cm->req.in);
	pthread_mutex_lock(&cm->mutex);
	serve_command(cm, &r);
	len = spoil(cm, &r);
	cm->commands++;
	pthread_mutex_unlock(&cm->mutex);
	if (len)
		send(command, &r, len, MSG_NOSIGNAL);
	return true;
}

static void *
cm_main(void *arg)
{
	struct fake_cm *cm = arg;
	struct pollfd pfd[2] = {{.fd = cm->channel, .events = POLLIN},
				{.fd = cm->command, .events = POLLIN}};

	while (poll(pfd, 2, -1) >= 0) {
		if (pfd[1].revents && !serve(cm, cm->command))
			break;
		if (pfd[0].revents)
			break;
	}
	pthread_mutex_lock(&cm->mutex);
	cm->ended = true;
	close(cm->channel);
	close(cm->command);
	cm->channel = cm->command = -1;
	pthread_mutex_unlock(&cm->mutex);
	return NULL;
}

void
fake_cm_open(struct fake_cm *cm, uint8_t number, struct uroce_cm_open_rep *rep, int fds[2])
{
	int channel[2], command[2];

	assert(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channel) == 0);
	assert(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, command) == 0);
	pthread_mutex_init(&cm->mutex, NULL);
	cm->channel = channel[0];
	cm->command = command[0];
	cm->first = 1;
	fds[UROCE_CM_CHANNEL_FD] = channel[1];
	fds[UROCE_CM_COMMAND_FD] = command[1];
	memset(rep->channel, number, sizeof(rep->channel));
	cm->started = true;
	assert(pthread_create(&cm->thread, NULL, cm_main, cm) == 0);
}

void
fake_cm_events(struct fake_cm *cm, uint32_t n)
{
	pthread_mutex_lock(&cm->mutex);
	if (cm->events == 0)
		assert(send(cm->channel, "", 1, MSG_NOSIGNAL) == 1);
	cm->events += n;
	pthread_mutex_unlock(&cm->mutex);
}

void
fake_cm_die(struct fake_cm *cm)
{
	if (!cm->started)
		return;
	cm->started = false;
	pthread_mutex_lock(&cm->mutex);
	if (cm->command >= 0)
		shutdown(cm->command, SHUT_RDWR);
	pthread_mutex_unlock(&cm->mutex);
	pthread_join(cm->thread, NULL);
}

bool
fake_cm_ended(struct fake_cm *cm)
{
	return COMES_TRUE(({
		bool ended;

		pthread_mutex_lock(&cm->mutex);
		ended = cm->ended;
		pthread_mutex_unlock(&cm->mutex);
		ended;
	}));
}
