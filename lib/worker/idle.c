/* SPDX-License-Identifier: BSD-3-Clause */
#include <poll.h>
#include <sched.h>
#include <sys/uio.h>
#include <unistd.h>
#include <rte_pause.h>
#include "worker/priv.h"

#define AWAKE_NS       1000000ull /* without work, before the first sleep */
#define SLEEP_FIRST_NS 50000ull   /* each sleep is twice as long as the last, for ports .. */
#define SLEEP_MAX_NS   2000000ull /* .. that cannot wake us */
#define SLEEP_MIN_NS   5000ull    /* a nearer timer is waited for awake */

/*
 * A yield on a core that nobody else wants takes some 0.5 us in which nothing is looked at; one
 * that let somebody run takes two switches, several times as long. Who was alone spins for a while.
 */
#define ALONE_YIELD_NS 1000ull
#define ALONE_NS       5000ull

/* Is there anything to do that a sleep would delay, and that nobody would end it for? */
static bool
has_work(const struct worker *w)
{
	return __atomic_load_n(&w->mail.posted, __ATOMIC_ACQUIRE) != w->mail.done ||
	       __atomic_load_n(&w->stop, __ATOMIC_RELAXED) != 0 || !rte_ring_empty(w->in) ||
	       !rte_ring_empty(w->out) || doorbell_waits(w);
}

static void
sleep_on_fd(struct worker *w, uint64_t ns)
{
	struct pollfd fd[2] = {{.fd = w->own_fd, .events = POLLIN},
			       {.fd = w->client_fd, .events = POLLIN}};
	struct timespec limit = {.tv_nsec = (long)ns};
	uint64_t count;
	struct iovec iov = {&count, sizeof(count)};

	if (ppoll(fd, 2, &limit, NULL) <= 0)
		return;
	if (fd[0].revents != 0 && read(w->own_fd, &count, sizeof(count)) < 0)
		return;
	/*
	 * A client may have read it before us, and may have made it a blocking one, flags being of
	 * the description that is shared: so not to wait is asked for with the call.
	 */
	if (fd[1].revents != 0 && preadv2(w->client_fd, &iov, 1, -1, RWF_NOWAIT) < 0)
		return;
}

static void
go_to_sleep(struct worker *w)
{
	uint64_t ns = timer_next_ns();

	if (ns > w->sleep_ns)
		ns = w->sleep_ns;
	if (ns < SLEEP_MIN_NS)
		return;
	__atomic_store_n(&w->asleep, 1, __ATOMIC_RELAXED);
	doorbell_set_asleep(w, 1);
	/* Partners: the client's fence after its doorbell, worker_wake. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (!has_work(w))
		sleep_on_fd(w, ns);
	__atomic_store_n(&w->asleep, 0, __ATOMIC_RELAXED);
	doorbell_set_asleep(w, 0);
	if (w->sleep_ns < SLEEP_MAX_NS)
		w->sleep_ns *= 2;
}

/* Who shares this core has what we wait for: a peer's worker, or the client. */
static void
yield(struct worker *w)
{
	uint64_t before;

	if (w->now_ns < w->alone_until_ns) {
		rte_pause();
		return;
	}
	before = timer_now_ns();
	sched_yield();
	w->alone_until_ns = timer_now_ns();
	if (w->alone_until_ns - before < ALONE_YIELD_NS)
		w->alone_until_ns += ALONE_NS;
}

void
idle_empty(struct worker *w)
{
	if (w->ws->idle == WORKER_IDLE_POLL) {
		rte_pause();
		return;
	}
	yield(w);
	if (w->idle_since_ns == 0) {
		w->idle_since_ns = w->now_ns;
		w->sleep_ns = SLEEP_FIRST_NS;
		return;
	}
	/* frames that a port refused, or a QP without buffers, have nobody who would wake us */
	if (w->now_ns - w->idle_since_ns < AWAKE_NS || w->more || w->nhot != 0 ||
	    w->engine.env.tx_n != 0 || w->fwd_n != 0 || w->held_n != 0)
		return;
	go_to_sleep(w);
}
