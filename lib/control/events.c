/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/events.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "control/device.h"
#include "control/session.h"

/* Creates a socket pair. Our end is not watched for input: clients send nothing on it. */
static int
event_socket(struct daemon *d, struct watch *w, int *client_fd)
{
	int sv[2], rc;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0)
		return -errno;
	w->fd = sv[0];
	/* Input could carry descriptors, and closing them blocks (ipc/broker.h). */
	rc = shutdown(sv[0], SHUT_RD) < 0 ? -errno : loop_add(&d->loop, w, 0);
	if (rc < 0) {
		close(sv[0]);
		close(sv[1]);
		return rc;
	}
	*client_fd = sv[1];
	return 0;
}

static void
event_socket_close(struct daemon *d, struct watch *w)
{
	if (w->fd < 0)
		return;
	loop_del(&d->loop, w);
	close(w->fd);
	w->fd = -1;
}

/* Returns false if the socket is full. A socket closed by the client discards everything. */
static bool
event_put(int fd, const void *msg, size_t len)
{
	return fd < 0 || send(fd, msg, len, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0 ||
	       (errno != EAGAIN && errno != ENOBUFS);
}

static void
async_flush(struct events_async *a)
{
	while (a->n > 0 && event_put(a->w.fd, &a->wait[a->head], sizeof(a->wait[0]))) {
		a->head = (a->head + 1) % EVENTS_MAX_ASYNC;
		a->n--;
	}
	if (a->w.fd >= 0)
		loop_set(&a->d->loop, &a->w, a->n > 0 ? EPOLLOUT : 0);
}

static void
async_ready(struct watch *w, uint32_t events)
{
	struct events_async *a = WATCH_OF(w, struct events_async, w);

	if (events & (EPOLLHUP | EPOLLERR))
		event_socket_close(a->d, w);
	async_flush(a);
}

int
events_async_open(struct events_async *a, struct daemon *d, int *client_fd)
{
	a->d = d;
	a->head = a->n = 0;
	a->w.ready = async_ready;
	return event_socket(d, &a->w, client_fd);
}

void
events_async_close(struct events_async *a)
{
	event_socket_close(a->d, &a->w);
}

void
events_async_send(struct events_async *a, uint64_t user_handle, uint32_t event, uint32_t reason)
{
	if (a->n == EVENTS_MAX_ASYNC) {
		a->lost++;
		return;
	}
	a->wait[(a->head + a->n++) % EVENTS_MAX_ASYNC] =
		(struct events_async_msg){.user_handle = user_handle,
					  .event = event,
					  .reason = reason};
	async_flush(a);
}

static void
channel_flush(struct events_channel *ch)
{
	struct obj_cq *cq;

	while ((cq = TAILQ_FIRST(&ch->wait)) != NULL) {
		if (!event_put(ch->w.fd, &cq->cq.user_handle, sizeof(cq->cq.user_handle)))
			break;
		events_channel_forget(ch, cq);
	}
	loop_set(&ch->d->loop, &ch->w, cq != NULL ? EPOLLOUT : 0);
}

static void
channel_ready(struct watch *w, uint32_t events)
{
	struct events_channel *ch = WATCH_OF(w, struct events_channel, w);

	if (events & (EPOLLHUP | EPOLLERR))
		ch->closed(ch);
	else
		channel_flush(ch);
}

int
events_channel_open(struct events_channel *ch, struct daemon *d, int *client_fd)
{
	ch->d = d;
	ch->w.ready = channel_ready;
	TAILQ_INIT(&ch->wait);
	return event_socket(d, &ch->w, client_fd);
}

void
events_channel_close(struct events_channel *ch)
{
	event_socket_close(ch->d, &ch->w);
}

void
events_channel_send(struct events_channel *ch, struct obj_cq *cq)
{
	if (!cq->waiting) {
		cq->waiting = true;
		TAILQ_INSERT_TAIL(&ch->wait, cq, wait);
	}
	channel_flush(ch);
}

void
events_channel_forget(struct events_channel *ch, struct obj_cq *cq)
{
	if (!cq->waiting)
		return;
	cq->waiting = false;
	TAILQ_REMOVE(&ch->wait, cq, wait);
}

void
events_port(struct device *dev, enum events_port_type event)
{
	struct session *s;

	TAILQ_FOREACH (s, &dev->d->sessions, link) {
		if (s->dev == dev)
			events_async_send(&s->async, 1, event, 0);
	}
}
