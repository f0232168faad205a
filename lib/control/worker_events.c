/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/daemon.h"

#include <poll.h>
#include <rte_cycles.h>
#include <rte_mbuf.h>
#include <uroce/errors.h>
#include "control/device.h"
#include "control/events.h"
#include "control/fault_log.h"
#include "control/log.h"
#include "control/neigh.h"
#include "control/obj.h"
#include "control/slow_path.h"

#define BATCH 64

/* Returns the CQ of an event; NULL: it was destroyed, and the event's pointer is stale. */
static struct obj_cq *
event_cq(struct daemon *d, const struct worker_event *ev)
{
	struct obj_cq *cq = idtab_get(&d->cqs, ev->id);

	return cq != NULL && &cq->cq == ev->obj ? cq : NULL;
}

/* Handles an event of a QP or of its SRQ. */
static void
on_qp_event(struct daemon *d, struct obj_qp *q, uint32_t ev, uint32_t why)
{
	bool srq_event = ev == QP_EVENT_SRQ_ERR || ev == QP_EVENT_SRQ_LIMIT_REACHED;

	if (srq_event && q->srq == NULL)
		return;
	events_async_send(&q->o.s->async,
			  srq_event ? q->srq->srq.user_handle : q->qp->bind.user_handle, ev, why);
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
		events_async_send(&cq->o.s->async, cq->cq.user_handle, ev->ev,
				  UROCE_ERROR_CQ_OVERRUN);
		cq_failed(cq);
	} else {
		struct qp *qp = qp_table_find(&d->qps, ev->id);

		if (qp != NULL && qp == ev->obj)
			on_qp_event(d, qp->bind.owner, ev->ev, ev->why);
	}
}

static void
on_failed(struct daemon *d, const struct worker_event *ev)
{
	struct qp *qp = qp_table_find(&d->qps, ev->id);

	if (qp != NULL && qp == ev->obj)
		fault_log(qp->bind.owner);
}

/* Workers have waited too long for the memory of the users at this place. */
static void
on_paused(struct daemon *d, uint8_t place)
{
	const struct quota_user *u = NULL;

	while ((u = quota_user_next(&d->quota, u)) != NULL) {
		if (u->used[QUOTA_CONTEXTS] != 0 && qp_user_place(u->id) == place)
			LOG(WARNING,
			    "uid %u%s%s: workers had to wait for its memory too often or too long; "
			    "its queue pairs pause, so that other users' go on (doc/security.md)",
			    u->uid, u->cgroup != NULL ? " in control group " : "",
			    u->cgroup != NULL ? u->cgroup : "");
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
	case WORKER_EV_FAILED:
		on_failed(d, ev);
		break;
	case WORKER_EV_PAUSED:
		on_paused(d, (uint8_t)ev->id);
		break;
	case WORKER_EV_DATAGRAM:
		dev = daemon_device(d, ev->dev);
		if (dev != NULL && slow_path_rx(dev, ev->obj))
			worker_datagram_useful(d->workers, ev);
		rte_pktmbuf_free(ev->obj);
		break;
	case WORKER_EV_FRAME:
		dev = daemon_device(d, ev->dev);
		if (dev != NULL)
			neigh_rx(dev, ev->obj);
		/* frames of neighbours also go to the kernel's interface */
		if (dev == NULL || dev->hostif == NULL || !hostif_give(dev->hostif, ev->obj))
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
 * Takes one batch per turn of the loop, however many events wait, so that clients and timers get
 * their turns. The descriptor stays readable until worker_events finds no event.
 */
static void
on_worker_events(struct watch *w, uint32_t events)
{
	struct daemon *d = WATCH_OF(w, struct daemon, worker_events);

	events_batch(d);
	/*
	 * Afterwards, so that anything a worker reports later makes the descriptor readable.
	 */
	defer_poll(d);
}

int
worker_events_start(struct daemon *d)
{
	d->worker_events.fd = worker_event_fd(d->workers);
	d->worker_events.ready = on_worker_events;
	return loop_add(&d->loop, &d->worker_events, EPOLLIN);
}

void
worker_events_wait(struct daemon *d, uint64_t wait_ns)
{
	struct pollfd fd = {.fd = d->worker_events.fd, .events = POLLIN};
	const struct timespec wait = {.tv_sec = (time_t)(wait_ns / NS_PER_S),
				      .tv_nsec = (long)(wait_ns % NS_PER_S)};

	if (ppoll(&fd, 1, &wait, NULL) > 0)
		events_batch(d);
}

void
worker_events_stop(struct daemon *d)
{
	/* the clients are gone: only frames can still arrive; free them */
	while (events_batch(d) != 0)
		;
	loop_del(&d->loop, &d->worker_events);
}
