/* SPDX-License-Identifier: BSD-3-Clause */
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <rte_pause.h>
#include "worker/steps_put.h"
#include "worker/worker_parts.h"

#define AWAKE_NS       1000000ull /* idle time before the first sleep */
#define SLEEP_FIRST_NS 50000ull   /* each sleep is twice as long as the last, */
#define SLEEP_MAX_NS   2000000ull /* for ports that cannot wake the worker */
#define SLEEP_MIN_NS   5000ull    /* spins for a nearer timer */

/*
 * If every source of work can wake the worker, a sleep may take a part of the idle time so far.
 * Longer first sleeps would be cheaper, but a core that has slept for long wakes slowly (on a
 * virtual machine, half as fast after 10 ms as after 2 ms).
 */
#define SLEEP_PART     32
#define SLEEP_WOKEN_NS 10000000ull

/*
 * After a client on this CPU was woken. Longer than the scheduler's tick, because the kernel
 * programs the timer of an earlier one, for which a virtual machine exits.
 */
#define SLEEP_HANDED_NS 10000000ull

#define RINGS_AT_ONCE   64 /* clients whose eventfds are drained between two sleeps */
#define FIXED_FDS       2  /* polled in every sleep: the daemon's and the clients' */

/*
 * A yield takes about 0.5 us without polling if no other thread wants the core. A yield that lets
 * another thread run takes two switches, several times as long. A thread that was alone spins for a
 * while.
 */
#define ALONE_NS 5000ull

/*
 * Returns true if there is work that a sleep would delay and for which nothing would wake the
 * worker.
 */
static bool
has_work(struct worker *w)
{
	return __atomic_load_n(&w->mail.posted, __ATOMIC_ACQUIRE) != w->mail.done || job_waits(w) ||
	       grace_newest(w) != w->grace || __atomic_load_n(&w->stop, __ATOMIC_RELAXED) != 0 ||
	       !rte_ring_empty(w->in) || !rte_ring_empty(w->out) || move_waits(w) ||
	       doorbell_waits(w);
}

/*
 * Fetches the socket error that a port's descriptor reports beside "readable" (the interface was
 * down): it is reported until it is fetched. A descriptor without an error to fetch is not polled
 * any more.
 */
static void
hear_error(struct worker_rxq *q)
{
	int err = 0;
	socklen_t len = sizeof(err);

	if (getsockopt(q->fd, SOL_SOCKET, SO_ERROR, &err, &len) < 0 || err == 0)
		q->fd = 0;
}

static void
sleep_on_fd(struct worker *w, uint64_t ns, bool ports)
{
	struct pollfd fd[FIXED_FDS + ENGINE_MAX_DEVS] = {{.fd = w->own_fd, .events = POLLIN},
							 {.fd = w->client_fd, .events = POLLIN}};
	struct worker_rxq *of[FIXED_FDS + ENGINE_MAX_DEVS];
	struct timespec limit = {.tv_nsec = (long)ns};
	unsigned n = FIXED_FDS;

	/* a port with descriptors has one queue for each worker, at most */
	for (unsigned i = 0; ports && i < w->nrxqs; i++) {
		if (w->rxqs[i].fd == 0)
			continue;
		of[n] = &w->rxqs[i];
		fd[n++] = (struct pollfd){.fd = w->rxqs[i].fd, .events = POLLIN};
	}
	if (ppoll(fd, n, &limit, NULL) <= 0)
		return;
	w->own_rang = fd[0].revents != 0;
	w->client_rang = fd[1].revents != 0;
	if (w->client_rang) {
		/* A client has posted, or is about to sleep: either way frames are polled for. */
		w->handed = NULL;
		w->idle_since_ns = 0;
	}
	for (unsigned i = FIXED_FDS; i < n; i++) {
		w->port_rang |= fd[i].revents != 0;
		if ((fd[i].revents & ~POLLIN) != 0)
			hear_error(of[i]);
	}
}

/*
 * Drains the descriptors that ended the last sleep. Not right after the sleep, because each call
 * takes 1 .. 2 us, for which the thread that woke the worker would wait.
 */
static void
drain(struct worker *w)
{
	struct epoll_event ev[RINGS_AT_ONCE];
	bool own = w->own_rang, client = w->client_rang;
	uint64_t count;

	w->own_rang = w->client_rang = false;
	if (own && read(w->own_fd, &count, sizeof(count)) < 0)
		return;
	/* Clients that are left end the next sleep. */
	if (client && epoll_wait(w->client_fd, ev, RINGS_AT_ONCE, 0) < 0)
		return;
}

/* Returns true if frames can arrive without a wake-up. */
static bool
must_poll(const struct worker *w)
{
	for (unsigned i = 0; i < w->nrxqs; i++) {
		const struct worker_rxq *q = &w->rxqs[i];

		if ((!q->inward && q->fd == 0) || port_queue_hooked(&q->q))
			return true;
	}
	return false;
}

/* Returns the limit of the next sleep with regard to ports. ports: they can end it. */
static uint64_t
sleep_limit(const struct worker *w, bool ports)
{
	uint64_t part = (w->now_ns - w->idle_since_ns) / SLEEP_PART;

	if ((waiter_has_core(w) || crowd_is(&w->crowd, w->now_ns)) && ports && !must_poll(w))
		return SLEEP_HANDED_NS;
	if (part <= w->sleep_ns || !ports || must_poll(w))
		return w->sleep_ns;
	return part < SLEEP_WOKEN_NS ? part : SLEEP_WOKEN_NS;
}

static void
set_asleep(struct worker *w, uint32_t asleep)
{
	__atomic_store_n(&w->state->cpu, (uint32_t)sched_getcpu() + 1, __ATOMIC_RELAXED);
	__atomic_store_n(&w->state->asleep, asleep, __ATOMIC_RELAXED);
}

/* Sleeps. Returns false if a sleep is not worth it. */
static bool
go_to_sleep(struct worker *w)
{
	/* a descriptor readable without frames (port short of buffers) would prevent sleeps */
	bool ports = !w->port_rang;
	uint64_t ns = timer_next_ns(w), limit = sleep_limit(w, ports);

	if (ns > limit)
		ns = limit;
	if (ns < SLEEP_MIN_NS)
		return false;
	w->port_rang = false;
	if (!waiter_has_core(w))
		waiters_release(w);
	drain(w); /* first, so that the last check finds the work of those who rang */
	set_asleep(w, 1);
	grace_offline(w);
	/* Partners: the client's fence after its doorbell, worker_wake, worker_grace_start. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (!has_work(w)) {
		uint64_t before = timer_now_ns();

		sleep_on_fd(w, ns, ports);
		steps_other(w, STAMP_SLEPT, timer_now_ns() - before);
	}
	set_asleep(w, 0);
	/*
	 * Ends with a fence: objects that the control thread has removed before are not found any
	 * more.
	 */
	grace_online(w);
	w->sleep_ns = 2 * w->sleep_ns < SLEEP_MAX_NS ? 2 * w->sleep_ns : SLEEP_MAX_NS;
	return true;
}

bool
idle_may_yield(const struct worker *w)
{
	return w->ws->idle != WORKER_IDLE_POLL && w->now_ns >= w->alone_until_ns &&
	       !crowd_is(&w->crowd, w->now_ns);
}

/*
 * Yields to threads on this core that may produce our work: a peer's worker or the client. On an
 * oversubscribed core the worker sleeps instead; it gets here only for what no sleep may delay: a
 * near timer, or the few microseconds that a queue stays hot.
 */
static void
idle_yield(struct worker *w)
{
	uint64_t before, after;

	if (!idle_may_yield(w)) {
		rte_pause();
		return;
	}
	before = timer_now_ns();
	sched_yield();
	after = timer_now_ns();
	w->alone_until_ns = after - before < CROWD_ALONE_NS ? after + ALONE_NS : 0;
	if (after - before >= CROWD_ALONE_NS)
		steps_other(w, STAMP_YIELDED, after - before);
	w->spun_ns = after;
	crowd_yielded(&w->crowd, before, after);
}

void
idle_hold(struct worker *w)
{
	if (w->hold.spin) {
		rte_pause();
	} else if (waiter_has_core(w)) {
		w->sleep_ns = SLEEP_FIRST_NS;
		go_to_sleep(w);
	} else {
		idle_yield(w);
	}
}

static bool
may_sleep(const struct worker *w)
{
	if (w->now_ns - w->idle_since_ns < AWAKE_NS && !crowd_is(&w->crowd, w->now_ns) &&
	    !waiter_has_core(w))
		return false;
	/* nothing wakes the worker for frames that a port refused, or for a QP without buffers, or
	 * when another worker has taken its frames */
	return w->full.waits == 0 && !w->more && w->nhot == 0 && w->engine.env.tx_n == 0 &&
	       w->lo_n == 0 && w->fwd_n == 0 && w->held_n == 0 && w->move.leaves == NULL;
}

void
idle_empty(struct worker *w)
{
	if (w->ws->idle == WORKER_IDLE_POLL) {
		rte_pause();
		return;
	}
	if (w->idle_since_ns == 0) {
		w->idle_since_ns = w->now_ns;
		w->sleep_ns = SLEEP_FIRST_NS;
		w->port_rang = false;
	}
	if (w->spun_ns != 0 && !crowd_is(&w->crowd, w->now_ns))
		crowd_gap(&w->crowd, w->spun_ns, w->now_ns);
	w->spun_ns = w->now_ns;
	if (!may_sleep(w) || !go_to_sleep(w))
		idle_yield(w);
	else
		w->spun_ns = 0;
}
