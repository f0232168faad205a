/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>
#include <rte_branch_prediction.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_launch.h>
#include <rte_lcore.h>
#include <rte_malloc.h>
#include <rte_pause.h>
#include <rte_ring_elem.h>
#include "qp/lines.h"
#include "qp/segs.h"
#include "worker/worker_parts.h"

/* RTS: a preempted producer does not block the others. */
#define MANY_TO_ONE  (RING_F_MP_RTS_ENQ | RING_F_SC_DEQ)

#define STATES_BYTES (UROCE_MAX_WORKERS * sizeof(struct uroce_worker_state))
#define HELD_SHARE   8 /* of all packet buffers, one in so many may hold early requests */

static const struct engine_ops worker_engine_ops = {
	.slow_path = event_frame,
	.consumer = event_datagram,
	.host = host_frame,
	.handoff = handoff_to,
	.set_timer = timer_set,
	.cq_event = event_cq,
	.cq_waiter = waiter_found,
	.cq_watched = steps_cq,
	.async_event = event_async,
	.held_up = stall_held_up,
	.failed = event_failed,
};

/* Counts received frames. Not in the engine, which also gets frames that were handed over. */
void
worker_count_rx(struct counter_block *counters, struct rte_mbuf *const *m, unsigned n)
{
	counters->ctr[COUNTER_RX_FRAMES] += n;
	for (unsigned i = 0; i < n; i++)
		counters->ctr[COUNTER_RX_BYTES] += m[i]->pkt_len;
}

/*
 * Frames that come while this thread has no CPU stay in the socket. READ responses of a QP may have
 * half of its buffer: the kernel counts its own overhead, and others send, too.
 */
static void
watch_overflow(struct worker *w, struct worker_rxq *q)
{
	uint32_t bytes = port_queue_overflow(&q->q, &q->lost);

	if (likely(bytes == 0))
		return;
	w->engine.env.read_bytes = bytes / 2;
	w->engine.env.read_limit_ns = w->now_ns + WORKER_OVERFLOW_NS;
}

static unsigned
ports_rx(struct worker *w)
{
	struct rte_mbuf *m[WORKER_RX_SUPER];
	unsigned total = 0;
	bool behind = false;

	w->rx_full = false;
	w->from_port = true;
	for (unsigned i = 0; i < w->nrxqs; i++) {
		const struct port_queue *q = &w->rxqs[i].q;
		uint16_t most = q->kind <= PORT_ETHDEV_GUARDED ? WORKER_RX_BURST : WORKER_RX_SUPER;
		uint16_t dev = q->port, n = port_queue_rx(q, m, most);

		if (n == 0)
			continue;
		if (unlikely(q->socket != NULL))
			watch_overflow(w, &w->rxqs[i]);
		worker_count_rx(&w->counters[dev], m, n);
		if (unlikely(w->watches != 0))
			captured_rx(&w->engine, w->now_ns, dev, m, n);
		else
			engine_rx(&w->engine, w->now_ns, dev, m, n);
		total += n;
		w->rx_full |= n == most;
		behind |= n >= most / 2;
	}
	w->from_port = false;
	w->engine.env.behind = behind;
	return total;
}

/*
 * Runs timers. A worker that had to wait for its core finds timers due and, in its ports, the
 * responses they wait for. It receives those first, or each such wait would cause a retransmission
 * without a loss (REQ-04).
 */
static unsigned
timers(struct worker *w)
{
	if (unlikely(w->rx_full) && ++w->timers_wait < WORKER_TIMERS_WAIT)
		return 0;
	w->timers_wait = 0;
	return timer_poll(w);
}

static void
run_engine(struct worker *w)
{
	const struct qp_env *env = &w->engine.env;
	uint32_t first = env->tx_n;

	if (likely(w->watches == 0)) {
		w->more = engine_run(&w->engine, w->now_ns);
		return;
	}
	steps_run(w);
	if (w->ncaps != 0)
		captured_sent(w, env->tx + first, env->tx_n - first);
}

/* Runs one iteration. Returns the amount of work done. */
static unsigned
iterate(struct worker *w)
{
	uint64_t was_ns = w->now_ns;
	unsigned done = 0, received = 0;
	bool held, full;

	w->now_ns = timer_now_ns();
	w->spent_ns[w->worked] += w->now_ns - was_ns;
	__atomic_store_n(&w->ran_ns, w->now_ns, __ATOMIC_RELAXED);
	if (unlikely(w->now_ns - was_ns >= WORKER_STALL_NS))
		stall_over(w, w->now_ns - was_ns);
	blame_look(w);
	move_look(w);
	full = handoff_waits(w);
	/* A call may unmap memory that contains the payload of frames that loop back (MEM-03). */
	if (event_retry_held(w) && likely(!full)) {
		/* Of a QP that has come: other frames of it loop back since then. */
		move_receive(w);
		if (unlikely(w->move.first != 0))
			move_receive_handed(w);
		done = loopback_rx(w);
	} else {
		loopback_own(w);
	}
	qp_env_serve(&w->engine.env, 0); /* calls and jobs may use anybody's */
	done += call_run(w);
	grace_quiescent(w);
	held = w->hold.n != 0;
	if (event_retry_held(w)) {
		done += job_run(w);
		move_receive(w);
		if (unlikely(full))
			w->rx_full = true; /* what timers wait for may not have been received */
		else if (likely(!held))    /* ACKs wait: the client's answer first */
			received = ports_rx(w);
		received += handoff_rx(w);
		done += received;
		done += doorbell_poll(w);
		done += hot_queue_poll(w);
		if (unlikely(w->steps != NULL))
			steps_found(w);
		done += timers(w);
		run_engine(w);
		waiters_notify(w);
		ack_delay_run(w, received);
	} else {
		w->hold.n = 0;
	}
	qp_env_serve(&w->engine.env, 0); /* a call may send the memory of several users */
	if (likely(w->hold.n == 0))
		done += tx_flush(w);
	move_end(w);
	event_notify(w);
	host_notify(w);
	wake_poked(w);
	return done;
}

static int
worker_main(void *arg)
{
	struct worker *w = arg;

	w->tid = (uint32_t)rte_gettid();
	/* Partner: worker_set_create. EAL's launch orders memory, too, but does not promise it. */
	while (__atomic_load_n(&w->launched, __ATOMIC_ACQUIRE) == 0)
		rte_pause();
	grace_online(w);
	while (!__atomic_load_n(&w->stop, __ATOMIC_ACQUIRE)) {
		w->worked = iterate(w) != 0;
		if (w->worked)
			idle_busy(w);
		else
			idle_empty(w);
		if (unlikely(w->hold.n != 0))
			idle_hold(w);
	}
	grace_offline(w);
	__atomic_store_n(&w->launched, 0, __ATOMIC_RELEASE); /* partner: worker_set_destroy */
	return 0;
}

static void
free_frames(struct rte_ring *ring)
{
	void *m;

	while (ring != NULL && rte_ring_dequeue(ring, &m) == 0) {
		if (!move_is_message(m))
			rte_pktmbuf_free(m);
	}
	rte_ring_free(ring);
}

static void
worker_free(struct worker *w)
{
	if (w == NULL)
		return;
	rte_pktmbuf_free_bulk(w->lo, w->lo_n);
	rte_pktmbuf_free_bulk(w->fwd, w->fwd_n);
	rte_pktmbuf_free_bulk(w->move.frame, w->move.nframes);
	rte_pktmbuf_free_bulk(w->engine.env.tx, w->engine.env.tx_n);
	free_frames(w->in);
	free_frames(w->out);
	if (w->own_fd >= 0)
		close(w->own_fd);
	for (unsigned i = 0; i < w->nwakes; i++)
		close(w->wakes[i].fd);
	if (w->client_fd >= 0)
		close(w->client_fd);
	free(w->rxqs);
	free(w->doorbells);
	free(w->wakes);
	rte_free(w->move.wqes);
	rte_free(w->move.stray);
	qp_segs_free(w->segs);
	qp_sqe_pool_free(w->sqes);
	qp_sr_pool_free(w->sr);
	rte_free(w);
}

static struct rte_ring *
frame_ring(const char *what, unsigned index, int socket)
{
	char name[RTE_RING_NAMESIZE];

	snprintf(name, sizeof(name), "worker%u_%s", index, what);
	return rte_ring_create(name, WORKER_RING_FRAMES, socket, MANY_TO_ONE);
}

/* Creates as many as a burst has frames. They are freed, or copied, before the next burst. */
static struct qp_segs *
view_segs(unsigned index, int socket)
{
	char name[RTE_MEMPOOL_NAMESIZE];

	snprintf(name, sizeof(name), "worker%u_segs", index);
	return qp_segs_create(name, ENGINE_TX_CAP, socket);
}

/*
 * The memory of a worker comes from the NUMA node of its core: that of DPDK by its socket, large
 * blocks of the C library because the worker touches them first.
 */
static struct worker *
worker_make(struct worker_set *ws, const struct worker_params *p, unsigned i)
{
	int socket = (int)rte_lcore_to_socket_id(p->lcores[i]);
	struct worker *w = rte_zmalloc_socket("worker", sizeof(*w), RTE_CACHE_LINE_SIZE, socket);

	if (w == NULL) {
		errno = ENOMEM;
		return NULL;
	}
	w->ws = ws;
	w->index = i;
	w->state = &ws->states[i];
	w->lcore = p->lcores[i];
	TAILQ_INIT(&w->due);
	w->own_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	w->client_fd = epoll_create1(EPOLL_CLOEXEC);
	/* every nworkers-th queue of each port */
	w->rxqs = qp_lines_zalloc((size_t)ENGINE_MAX_DEVS *
				  ((RTE_MAX_QUEUES_PER_PORT + p->nworkers - 1) / p->nworkers) *
				  sizeof(*w->rxqs));
	w->in = frame_ring("in", i, socket);
	w->out = frame_ring("out", i, socket);
	w->segs = view_segs(i, socket);
	/* All QPs may move to it. */
	w->sqes = qp_sqe_pool_create(p->qps->mask + 1, QP_WQE_CHUNKS + QP_QP_CHUNKS);
	w->move.wqes = rte_malloc_socket(NULL, ENGINE_MOVE_BYTES, 0, socket);
	w->move.stray =
		rte_calloc_socket(NULL, p->qps->mask + 1, sizeof(*w->move.stray), 0, socket);
	w->sr = qp_sr_pool_create(p->pool, p->pool->size / HELD_SHARE / p->nworkers);
	if (w->own_fd < 0 || w->client_fd < 0 || w->rxqs == NULL || w->in == NULL ||
	    w->out == NULL || w->segs == NULL || w->sqes == NULL || w->move.wqes == NULL ||
	    w->move.stray == NULL || w->sr == NULL) {
		errno = w->own_fd < 0 || w->client_fd < 0 ? errno : ENOMEM;
		worker_free(w);
		return NULL;
	}
	w->sqes->kept = QP_QP_CHUNKS;
	engine_init(&w->engine, p->pool, w->sqes, p->mrs, p->qps, i, &worker_engine_ops, w);
	engine_set_lcore(&w->engine, w->lcore);
	engine_set_segs(&w->engine, w->segs);
	engine_set_sr(&w->engine, w->sr);
	engine_set_loop_zero_copy(&w->engine, WORKER_VIEW_BYTES);
	w->engine.env.counters = &w->counters_none;
	return w;
}

/*
 * Makes the page that clients read. The seal refuses later mappings for writing, and holes. Returns
 * 0 or a positive errno.
 */
static int
states_make(struct worker_set *ws)
{
	void *page = MAP_FAILED;

	ws->states_fd = memfd_create("uroce-workers", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (ws->states_fd >= 0 && ftruncate(ws->states_fd, STATES_BYTES) == 0)
		page = mmap(NULL, STATES_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, ws->states_fd,
			    0);
	if (page == MAP_FAILED)
		return errno;
	ws->states = page;
	return fcntl(ws->states_fd, F_ADD_SEALS,
		     F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) == 0
		       ? 0
		       : errno;
}

static void
states_free(struct worker_set *ws)
{
	if (ws->states != NULL)
		munmap(ws->states, STATES_BYTES);
	if (ws->states_fd >= 0)
		close(ws->states_fd);
}

/* Frees the remaining events and their mbufs. */
static void
events_free(struct worker_set *ws)
{
	struct worker_event ev;

	while (ws->events != NULL && rte_ring_dequeue_elem(ws->events, &ev, sizeof(ev)) == 0) {
		if (ev.kind == WORKER_EV_FRAME || ev.kind == WORKER_EV_DATAGRAM)
			rte_pktmbuf_free(ev.obj);
	}
	rte_ring_free(ws->events);
	if (ws->event_fd >= 0)
		close(ws->event_fd);
}

void
worker_set_destroy(struct worker_set *ws)
{
	blame_stop(ws);
	for (unsigned i = 0; i < ws->n && ws->running; i++) {
		__atomic_store_n(&ws->worker[i]->stop, 1, __ATOMIC_RELEASE);
		worker_wake(ws->worker[i]);
		rte_eal_wait_lcore(ws->worker[i]->lcore);
		(void)__atomic_load_n(&ws->worker[i]->launched, __ATOMIC_ACQUIRE);
	}
	for (unsigned i = 0; i < ws->n; i++)
		worker_free(ws->worker[i]);
	events_free(ws);
	states_free(ws);
	free(ws->qs);
	free(ws);
}

static int
check_params(const struct worker_params *p)
{
	if (p->nworkers == 0 || p->nworkers > UROCE_MAX_WORKERS)
		return EINVAL;
	for (unsigned i = 0; i < p->nworkers; i++) {
		if (!rte_lcore_is_enabled(p->lcores[i]) || p->lcores[i] == rte_get_main_lcore())
			return EINVAL;
		if (rte_eal_get_lcore_state(p->lcores[i]) != WAIT)
			return EBUSY;
	}
	return -timer_init();
}

struct worker_set *
worker_set_create(const struct worker_params *p)
{
	struct worker_set *ws;
	int err = check_params(p);

	ws = err == 0 ? calloc(1, sizeof(*ws)) : NULL;
	if (ws == NULL) {
		errno = err != 0 ? err : ENOMEM;
		return NULL;
	}
	ws->idle = p->idle;
	ws->qp_leaves = p->qp_leaves;
	ws->qp_comes = p->qp_comes;
	ws->listener_asleep = 1;
	ws->event_fd = -1;
	err = states_make(ws);
	if (err == 0 && getrandom(&ws->mads.key, sizeof(ws->mads.key), 0) < 0)
		err = errno;
	if (err != 0)
		goto fail;
	ws->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	ws->events = rte_ring_create_elem("worker_events", sizeof(struct worker_event),
					  WORKER_EVENTS, SOCKET_ID_ANY, MANY_TO_ONE);
	if (ws->event_fd < 0 || ws->events == NULL) {
		err = ws->event_fd < 0 ? errno : rte_errno;
		goto fail;
	}
	ws->qs = grace_create(p->nworkers);
	if (ws->qs == NULL) {
		err = ENOMEM;
		goto fail;
	}
	for (; ws->n < p->nworkers; ws->n++) {
		ws->worker[ws->n] = worker_make(ws, p, ws->n);
		if (ws->worker[ws->n] == NULL) {
			err = errno;
			goto fail;
		}
	}
	for (unsigned i = 0; i < ws->n; i++) {
		rte_eal_remote_launch(worker_main, ws->worker[i], ws->worker[i]->lcore);
		__atomic_store_n(&ws->worker[i]->launched, 1, __ATOMIC_RELEASE);
	}
	ws->running = true;
	return ws;

fail:
	worker_set_destroy(ws);
	errno = err;
	return NULL;
}

unsigned
worker_count(const struct worker_set *ws)
{
	return ws->n;
}

struct worker *
worker_get(struct worker_set *ws, unsigned i)
{
	return ws->worker[i];
}

int
worker_states_fd(const struct worker_set *ws)
{
	return ws->states_fd;
}

struct engine *
worker_engine(struct worker *w)
{
	return &w->engine;
}

unsigned
worker_index(const struct worker *w)
{
	return w->index;
}

void
worker_usage_get(const struct worker *w, struct worker_usage *u)
{
	u->idle_ns = counters_read(&w->spent_ns[0]);
	u->busy_ns = counters_read(&w->spent_ns[1]);
	u->lcore = w->lcore;
	u->asleep = __atomic_load_n(&w->state->asleep, __ATOMIC_RELAXED) != 0;
}

int
worker_node(const struct worker *w)
{
	return rte_socket_count() > 1 ? (int)rte_lcore_to_socket_id(w->lcore) : -1;
}

struct counter_block *
worker_control_obs(struct worker_set *ws, uint16_t dev)
{
	return &ws->control_counters[dev];
}

struct counter_block *
worker_counters(struct worker *w, uint16_t dev)
{
	return &w->counters[dev];
}
