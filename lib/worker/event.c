/* SPDX-License-Identifier: BSD-3-Clause */
#include <unistd.h>
#include <rte_branch_prediction.h>
#include <rte_log.h>
#include <rte_ring_elem.h>
#include "worker/worker_parts.h"

_Static_assert(sizeof(struct worker_event) % 4 == 0, "an event is an element of an rte_ring");

static bool
put(struct worker *w, struct worker_event *ev)
{
	if (rte_ring_enqueue_elem(w->ws->events, ev, sizeof(*ev)) != 0)
		return false;
	w->notify = true;
	return true;
}

/* Puts an event. If the ring is full, the event is held and the loop takes no new work. */
static void
put_or_hold(struct worker *w, struct worker_event *ev)
{
	if (likely(w->held_n == 0) && likely(put(w, ev)))
		return;
	if (w->held_n < WORKER_HELD_EVENTS)
		w->held[w->held_n++] = *ev;
	else if (w->events_lost++ == 0)
		RTE_LOG(ERR, USER1, "worker %u: events lost, the control thread hangs\n", w->index);
}

bool
event_retry_held(struct worker *w)
{
	uint32_t n = 0;

	if (likely(w->held_n == 0))
		return true;
	while (n < w->held_n && put(w, &w->held[n]))
		n++;
	for (uint32_t i = n; i < w->held_n; i++)
		w->held[i - n] = w->held[i];
	w->held_n -= n;
	return w->held_n == 0;
}

bool
event_frame(void *ctx, uint16_t dev, struct rte_mbuf *m)
{
	struct worker *w = ctx;
	struct worker_event ev = {
		.kind = WORKER_EV_FRAME,
		.obj = m,
		.dev = dev,
		.worker = (uint16_t)w->index,
	};

	/* other users' frames must not take the space of our clients' events */
	if (rte_ring_free_count(w->ws->events) > WORKER_EVENTS / 2 && put(w, &ev))
		return true;
	rte_pktmbuf_free(m);
	return false;
}

enum drop_reason
event_datagram(void *ctx, uint16_t dev, struct rte_mbuf *m, const struct wire_pkt *pkt)
{
	struct worker *w = ctx;
	struct worker_event ev = {
		.kind = WORKER_EV_DATAGRAM,
		.obj = m,
		.dev = dev,
		.worker = (uint16_t)w->index,
	};
	bool peer;

	if (!mad_gate_admit(&w->ws->mads, pkt, w->now_ns, &ev.id, &peer)) {
		rte_pktmbuf_free(m);
		return DROP_MAD_LIMIT;
	}
	/* Counted first, because the control thread may take it at once. */
	if (__atomic_fetch_add(&w->ws->datagrams, 1, __ATOMIC_RELAXED) <
		    (peer ? WORKER_DATAGRAMS : WORKER_STRANGERS) &&
	    rte_ring_free_count(w->ws->events) > WORKER_EVENTS / 2 && put(w, &ev))
		return DROP_NUM;
	__atomic_fetch_sub(&w->ws->datagrams, 1, __ATOMIC_RELAXED);
	mad_gate_forgive(&w->ws->mads, ev.id); /* its sender did not cause this */
	rte_pktmbuf_free(m);
	return DROP_SLOW_PATH_FULL;
}

void
worker_datagram_useful(struct worker_set *ws, const struct worker_event *ev)
{
	mad_gate_forgive(&ws->mads, ev->id);
}

void
worker_host_connected(struct worker_set *ws, const uint8_t gid[16], bool more)
{
	mad_gate_connected(&ws->mads, gid, more);
}

void
event_cq(void *ctx, struct cq *cq)
{
	struct worker *w = ctx;
	struct worker_event ev = {
		.kind = WORKER_EV_CQ,
		.obj = cq,
		.worker = (uint16_t)w->index,
		.id = cq->id,
	};

	if (cq_event_raise(cq))
		put_or_hold(w, &ev);
}

void
event_async(void *ctx, enum qp_event event, struct qp *qp, struct cq *cq)
{
	struct worker *w = ctx;
	struct worker_event ev = {
		.kind = WORKER_EV_ASYNC,
		.ev = (uint16_t)event,
		.worker = (uint16_t)w->index,
	};

	if (qp != NULL) {
		ev.obj = qp;
		ev.dev = qp->bind.port;
		ev.id = qp->conn.qpn;
		ev.why = qp->conn.why;
	} else {
		ev.obj = cq;
		ev.id = cq->id;
	}
	put_or_hold(w, &ev);
}

void
event_failed(void *ctx, const struct qp *qp)
{
	struct worker *w = ctx;
	struct worker_event ev = {
		.kind = WORKER_EV_FAILED,
		.obj = (void *)(uintptr_t)qp,
		.dev = qp->bind.port,
		.worker = (uint16_t)w->index,
		.id = qp->conn.qpn,
	};

	/* Only a log line: it must not take the space of our clients' events. */
	if (rte_ring_free_count(w->ws->events) > WORKER_EVENTS / 2)
		(void)put(w, &ev);
}

/* Wakes the control thread, if it waits. */
static void
wake_listener(struct worker_set *ws)
{
	static const uint64_t one = 1;

	/* Partner: worker_events, between setting asleep and the last check. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (__atomic_exchange_n(&ws->listener_asleep, 0, __ATOMIC_RELAXED) == 0)
		return;
	if (write(ws->event_fd, &one, sizeof(one)) < 0)
		return; /* full, hence readable */
}

void
event_paused(struct worker_set *ws, uint8_t user)
{
	struct worker_event ev = {.kind = WORKER_EV_PAUSED, .id = user};

	if (rte_ring_free_count(ws->events) > WORKER_EVENTS / 2 &&
	    rte_ring_enqueue_elem(ws->events, &ev, sizeof(ev)) == 0)
		wake_listener(ws);
}

void
event_notify(struct worker *w)
{
	if (likely(!w->notify))
		return;
	w->notify = false;
	wake_listener(w->ws);
}

int
worker_event_fd(struct worker_set *ws)
{
	return ws->event_fd;
}

static unsigned
take(struct worker_set *ws, struct worker_event *ev, unsigned max)
{
	unsigned n = rte_ring_dequeue_burst_elem(ws->events, ev, sizeof(*ev), max, NULL);

	for (unsigned i = 0; i < n; i++) {
		if (ev[i].kind == WORKER_EV_DATAGRAM)
			__atomic_fetch_sub(&ws->datagrams, 1, __ATOMIC_RELAXED);
	}
	return n;
}

unsigned
worker_events(struct worker_set *ws, struct worker_event *ev, unsigned max)
{
	static const uint64_t one = 1;
	uint64_t count;
	unsigned n = take(ws, ev, max);

	if (n != 0)
		return n;
	/* no event: from here on a worker that puts one makes event_fd readable */
	if (read(ws->event_fd, &count, sizeof(count)) < 0)
		count = 0;
	__atomic_store_n(&ws->listener_asleep, 1, __ATOMIC_RELAXED);
	/* Partner: event_notify. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	n = take(ws, ev, max);
	/*
	 * These were put before listener_asleep was set, so event_fd was not written, and there may
	 * be more than max.
	 */
	if (n != 0 && __atomic_exchange_n(&ws->listener_asleep, 0, __ATOMIC_RELAXED) != 0 &&
	    write(ws->event_fd, &one, sizeof(one)) < 0)
		return n; /* full, hence readable */
	return n;
}
