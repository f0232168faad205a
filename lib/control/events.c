/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/events.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <rte_mbuf.h>
#include "control/device.h"
#include "control/log.h"
#include "control/session.h"

#define BATCH 64

/* A pair of which ours stays unwatched for input: clients have nothing to say on it. */
static int
event_socket(struct daemon *d, struct watch *w, int *client_fd)
{
	int sv[2], rc;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0)
		return -errno;
	w->fd = sv[0];
	/* What it might say anyhow could carry descriptors, and their end blocks (ipc/broker.h). */
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

/* True unless the socket is full. One that the client has closed swallows everything. */
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
events_async_send(struct events_async *a, uint64_t user_handle, uint32_t event)
{
	if (a->n == EVENTS_MAX_ASYNC) {
		a->lost++;
		return;
	}
	a->wait[(a->head + a->n++) % EVENTS_MAX_ASYNC] =
		(struct events_async_msg){.user_handle = user_handle, .event = event};
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

/* The CQ of an event; NULL: it is gone, and the pointer in the event with it. */
static struct obj_cq *
event_cq(struct daemon *d, const struct worker_event *ev)
{
	struct obj_cq *cq = idtab_get(&d->cqs, ev->id);

	return cq != NULL && &cq->cq == ev->obj ? cq : NULL;
}

/* An event that a QP raised: its own, or its SRQ's. */
static void
on_qp_event(struct daemon *d, struct obj_qp *q, uint32_t ev)
{
	bool srq_event = ev == QP_EVENT_SRQ_ERR || ev == QP_EVENT_SRQ_LIMIT_REACHED;

	if (srq_event && q->srq == NULL)
		return;
	events_async_send(&q->s->async, srq_event ? q->srq->srq.user_handle : q->qp->user_handle,
			  ev);
	if (ev == QP_EVENT_SRQ_ERR)
		srq_failed(q->srq);
}

static void
on_async(struct daemon *d, const struct worker_event *ev)
{
	if (ev->ev == QP_EVENT_CQ_ERR) {
		struct obj_cq *cq = event_cq(d, ev);

		if (cq == NULL)
			return;
		events_async_send(&cq->s->async, cq->cq.user_handle, ev->ev);
		cq_failed(cq);
	} else {
		struct qp *qp = qp_table_find(&d->qps, ev->id);

		if (qp != NULL && qp == ev->obj)
			on_qp_event(d, qp->owner, ev->ev);
	}
}

static void
on_event(struct daemon *d, const struct worker_event *ev)
{
	struct device *dev;
	struct obj_cq *cq;

	switch (ev->kind) {
	case WORKER_EV_CQ:
		cq = event_cq(d, ev);
		if (cq == NULL)
			break;
		cq_event_taken(&cq->cq);
		if (cq->channel != NULL)
			events_channel_send(&cq->channel->ch, cq);
		break;
	case WORKER_EV_ASYNC:
		on_async(d, ev);
		break;
	case WORKER_EV_FRAME:
		dev = daemon_device(d, ev->dev);
		if (dev != NULL)
			neigh_rx(dev, ev->obj);
		rte_pktmbuf_free(ev->obj);
		break;
	}
}

static unsigned
events_batch(struct daemon *d)
{
	struct worker_event ev[BATCH];
	unsigned n = worker_events(d->workers, ev, BATCH);

	for (unsigned i = 0; i < n; i++)
		on_event(d, &ev[i]);
	return n;
}

/*
 * One batch a turn of the loop, however many events wait: clients and timers have their turns in
 * between. The descriptor stays readable until worker_events has found nothing.
 */
static void
on_worker_events(struct watch *w, uint32_t events)
{
	events_batch(WATCH_OF(w, struct daemon, worker_events));
}

int
events_start(struct daemon *d)
{
	d->worker_events.fd = worker_event_fd(d->workers);
	d->worker_events.ready = on_worker_events;
	return loop_add(&d->loop, &d->worker_events, EPOLLIN);
}

void
events_stop(struct daemon *d)
{
	/* the clients are gone: nothing new comes but frames, which are freed here */
	while (events_batch(d) != 0)
		;
	loop_del(&d->loop, &d->worker_events);
}

void
events_port(struct device *dev, enum events_port_type event)
{
	struct session *s;

	TAILQ_FOREACH (s, &dev->d->sessions, link) {
		if (s->dev == dev)
			events_async_send(&s->async, 1, event);
	}
}
