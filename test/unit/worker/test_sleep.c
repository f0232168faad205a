/* SPDX-License-Identifier: BSD-3-Clause */
/* Workers that sleep, and what wakes them; their timers. */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <linux/falloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>
#include <rte_common.h>
#include <rte_cycles.h>
#include "bench.h"
#include "worker/worker_parts.h"

/* All workers into a ppoll that only their eventfd ends. */
static void
let_all_sleep(void)
{
	__atomic_store_n(&fake_sleep_for_ever, true, __ATOMIC_RELEASE);
	assert_true(WAIT_FOR(FAKE_COUNT(fake_sleeping) == nworkers));
}

UNIT_TEST(sleeping_worker_is_woken_by_a_call)
{
	if (idle == WORKER_IDLE_POLL)
		skip();
	for (int i = 0; i < 5; i++) {
		let_all_sleep();
		worker_quiesce(ws); /* without a wake-up it hangs until meson's timeout */
	}
	__atomic_store_n(&fake_sleep_for_ever, false, __ATOMIC_RELEASE);
	worker_quiesce(ws);
}

/* A sleeping worker holds no references; an awake one may until it is between two bursts. */
REQUIREMENT("MEM-03")
UNIT_TEST(nobody_waits_for_a_sleeping_worker)
{
	if (idle == WORKER_IDLE_POLL)
		skip();
	let_all_sleep();
	worker_wait_readers(ws);
	for (unsigned i = 0; i < nworkers; i++)
		assert_int_equal(FAKE_COUNT(worker_get(ws, i)->state->asleep), 1);
	__atomic_store_n(&fake_sleep_for_ever, false, __ATOMIC_RELEASE);
	worker_quiesce(ws);
	worker_wait_readers(ws);
}

UNIT_TEST(sleeping_worker_is_woken_by_a_doorbell)
{
	struct fake_worker *f = &fake[nworkers - 1];
	uint64_t one = 1;

	if (idle == WORKER_IDLE_POLL)
		skip();
	memset(&bell_ring, 0, sizeof(bell_ring));
	bell_add(&bell_ring, &bell_ring);
	for (int i = 0; i < 5; i++) {
		uint32_t n = FAKE_COUNT(f->bell_n);

		let_all_sleep();
		assert_true(WAIT_FOR(FAKE_COUNT(last_worker()->state->asleep) == 1));
		ring_bell(5);
		assert_int_equal(write(worker_wake_fd(last_worker(), &bell_ring), &one,
				       sizeof(one)),
				 sizeof(one));
		assert_true(WAIT_FOR(FAKE_COUNT(f->bell_n) == n + 1));
	}
	__atomic_store_n(&fake_sleep_for_ever, false, __ATOMIC_RELEASE);
	worker_quiesce(ws);
	bell_del(&bell_ring);
}

/* What clients see of the workers' sleep, and cannot change. */
UNIT_TEST(clients_read_the_workers_states)
{
	size_t len = nworkers * sizeof(struct uroce_worker_state);
	int fd = worker_states_fd(ws);
	const struct uroce_worker_state *seen = mmap(NULL, len, PROT_READ, MAP_SHARED, fd, 0);

	assert_true(seen != MAP_FAILED);
	assert_true(mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
	assert_int_equal(write(fd, &len, sizeof(len)), -1);
	assert_int_equal(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), -1);
	assert_int_equal(ftruncate(fd, 0), -1);
	if (idle != WORKER_IDLE_POLL) {
		let_all_sleep();
		for (unsigned i = 0; i < nworkers; i++) {
			assert_int_equal(FAKE_COUNT(seen[i].asleep), 1);
			assert_int_not_equal(FAKE_COUNT(seen[i].cpu), 0);
		}
		__atomic_store_n(&fake_sleep_for_ever, false, __ATOMIC_RELEASE);
		worker_quiesce(ws);
	}
	munmap((void *)(uintptr_t)seen, len);
}

/*
 * A client shares its eventfd with the worker. It makes it blocking, then drains it before the
 * worker can, or fills it. The worker still serves calls, and the eventfd of another client still
 * works.
 */
UNIT_TEST(no_client_stops_a_worker_by_its_eventfd)
{
	static struct uroce_db_ring hostile_ring;
	struct fake_worker *f = &fake[nworkers - 1];
	uint64_t full = UINT64_MAX - 1, one = 1, count;
	int fd, other;

	if (idle == WORKER_IDLE_POLL)
		skip();
	memset(&bell_ring, 0, sizeof(bell_ring));
	bell_add(&hostile_ring, NULL);
	bell_add(&bell_ring, &bell_ring);
	fd = worker_wake_fd(last_worker(), &hostile_ring);
	other = worker_wake_fd(last_worker(), &bell_ring);
	assert_int_equal(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK), 0);
	for (int i = 0; i < 200; i++) {
		uint32_t n = FAKE_COUNT(f->bell_n);

		let_all_sleep();
		if (i % 2 == 0)
			assert_int_equal(write(fd, &full, sizeof(full)), sizeof(full));
		else
			assert_int_equal(read(fd, &count, sizeof(count)), sizeof(count));
		worker_quiesce(ws);
		let_all_sleep();
		assert_true(WAIT_FOR(FAKE_COUNT(last_worker()->state->asleep) == 1));
		ring_bell(5);
		assert_true(fcntl(other, F_GETFL) & O_NONBLOCK);
		assert_int_equal(write(other, &one, sizeof(one)), sizeof(one));
		assert_true(WAIT_FOR(FAKE_COUNT(f->bell_n) == n + 1));
	}
	__atomic_store_n(&fake_sleep_for_ever, false, __ATOMIC_RELEASE);
	worker_quiesce(ws);
	bell_del(&hostile_ring);
	bell_del(&bell_ring);
}

/* A frame by worker_send_frame wakes worker 0; looped back for another, that wakes the other. */
UNIT_TEST(sleeping_worker_is_woken_by_a_handoff)
{
	struct sending s = {near[0].id, (uint8_t)(nworkers - 1), true, 10};
	struct fake_worker *f = &fake[nworkers - 1];
	uint32_t n = f->rx_n;

	if (idle == WORKER_IDLE_POLL)
		skip();
	let_all_sleep();
	worker_call(worker_get(ws, 0), start_sending, &s);
	assert_true(WAIT_FOR(FAKE_COUNT(f->rx_n) == n + 10));
	__atomic_store_n(&fake_sleep_for_ever, false, __ATOMIC_RELEASE);
	worker_quiesce(ws);
}

static struct {
	bool begun, over;
} pause_of_worker;

static void
do_not_run(struct worker *w, void *arg)
{
	__atomic_store_n(&pause_of_worker.begun, true, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&pause_of_worker.over, __ATOMIC_ACQUIRE))
		sched_yield();
}

static void *
pause_first_worker(void *arg)
{
	worker_call(worker_get(ws, 0), do_not_run, NULL);
	return NULL;
}

/* Worker 0 does not run until resume_first_worker. */
static pthread_t
stop_first_worker(void)
{
	pthread_t thread;

	memset(&pause_of_worker, 0, sizeof(pause_of_worker));
	assert_int_equal(pthread_create(&thread, NULL, pause_first_worker, NULL), 0);
	assert_true(WAIT_FOR(FAKE_COUNT(pause_of_worker.begun)));
	return thread;
}

static void
resume_first_worker(pthread_t thread)
{
	__atomic_store_n(&pause_of_worker.over, true, __ATOMIC_RELEASE);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

/* Frames of the control thread without space are counted, the others are sent. */
UNIT_TEST(control_frames_without_space_are_counted)
{
	const struct counter_block *counters = worker_control_obs(ws, near[1].id);
	uint64_t lost = counters->ctr[COUNTER_TX_CONTROL_LOST], down;
	uint32_t sent = 0, tries = WORKER_RING_FRAMES + 100, got = 0;
	pthread_t thread = stop_first_worker();

	for (uint32_t i = 0; i < tries; i++) {
		struct rte_mbuf *m = fake_frame_make(pool, FAKE_SLOW, 0, i);

		assert_non_null(m);
		sent += worker_send_frame(ws, near[1].id, m) == 0;
	}
	assert_in_range(sent, 1, WORKER_RING_FRAMES);
	assert_int_equal(counters->ctr[COUNTER_TX_CONTROL_LOST] - lost, tries - sent);
	down = sum_of(near[1].id, false, COUNTER_TX_PORT_DOWN);
	resume_first_worker(thread);
	assert_true(WAIT_FOR(({
		got += receive_in_test(&far[1]) >= 0;
		got + sum_of(near[1].id, false, COUNTER_TX_PORT_DOWN) - down == sent;
	})));
}

struct question {
	const struct qp *qp;
	uint64_t since_ns; /* 0: as it is now */
	bool held_up;
};

static void
ask(struct worker *w, void *arg)
{
	struct engine *e = worker_engine(w);
	struct question *q = arg;

	if (q->since_ns == 0)
		q->since_ns = w->now_ns;
	q->held_up = e->ops->held_up(e->ops_ctx, q->qp, q->since_ns);
}

static bool
is_held_up(struct question *q)
{
	worker_call(last_worker(), ask, q);
	return q->held_up;
}

/* The same for frames sent now, after each worker has completed an iteration. */
static bool
is_held_up_once_sent(struct question *q)
{
	q->since_ns = 0;
	is_held_up(q);
	worker_quiesce(ws);
	worker_quiesce(ws);
	return is_held_up(q);
}

/* The last worker sends by the first one's queue, which does not run for a while. */
REQUIREMENT("REQ-04")
UNIT_TEST(frames_of_a_stalled_worker_count_as_held)
{
	struct sending s = {near[1].id, 0, false, 10};
	struct qp qp = {.bind = {.port = near[1].id}};
	struct question q = {.qp = &qp};
	pthread_t thread;
	int64_t seq = -1;

	if (nworkers == 1)
		skip();
	thread = stop_first_worker();
	is_held_up(&q); /* in an iteration that may have begun before worker 0 stopped */
	q.since_ns = 0;
	is_held_up(&q);
	worker_call(last_worker(), start_sending, &s);
	for (int i = 0; i < 100; i++)
		assert_true(is_held_up(&q));
	assert_int_equal(receive_in_test(&far[1]), -1);
	resume_first_worker(thread);
	for (int i = 0; i < 10; i++)
		assert_true(WAIT_FOR((seq = receive_in_test(&far[1])) == i));
	assert_true(WAIT_FOR(!is_held_up_once_sent(&q)));
}

/* No lost wake-up: rings at any moment while a worker goes to sleep, by the client's protocol. */
UNIT_TEST(sleeping_worker_misses_no_doorbell)
{
	struct fake_worker *f = &fake[nworkers - 1];
	uint64_t one = 1;
	uint32_t n;

	if (idle == WORKER_IDLE_POLL)
		skip();
	memset(&bell_ring, 0, sizeof(bell_ring));
	bell_add(&bell_ring, &bell_ring);
	let_all_sleep();
	n = f->bell_n;
	for (uint32_t i = 0; i < 300; i++) {
		uint64_t until = clock_ns() + 900000 + i * 1500;

		ring_bell(i);
		if (FAKE_COUNT(last_worker()->state->asleep) != 0)
			assert_int_equal(write(worker_wake_fd(last_worker(), &bell_ring), &one,
					       sizeof(one)),
					 sizeof(one));
		assert_true(WAIT_FOR(FAKE_COUNT(f->bell_n) == n + i + 1));
		while (clock_ns() < until)
			sched_yield();
	}
	__atomic_store_n(&fake_sleep_for_ever, false, __ATOMIC_RELEASE);
	worker_quiesce(ws);
	bell_del(&bell_ring);
}

/* w has each queues of p. Only the control thread, which this is, has w's queues changed. */
static void
expect_inward(const struct worker *w, const struct port *p, unsigned each)
{
	unsigned queues = 0;

	for (unsigned i = 0; i < w->nrxqs; i++) {
		if (w->rxqs[i].q.port != p->id)
			continue;
		/* frames of others arrive without a signal */
		assert_int_equal(w->rxqs[i].inward, p->inward && w->rxqs[i].q.queue == w->index);
		queues++;
	}
	assert_int_equal(queues, each);
}

UNIT_TEST(only_the_workers_own_queue_is_exempt_from_polling)
{
	unsigned each = 2 * nworkers <= RTE_PMD_RING_MAX_RX_RINGS ? 2 : 1;
	struct port_params params = {.nqueues = each * nworkers, .link_mtu = 1500};
	struct port p;

	assert_int_equal(port_ring_pair("n2", "f2", params.nqueues, 8), 0);
	for (int i = 0; i < 2; i++) {
		params.name = i == 0 ? "net_ring_n2" : "net_ring_f2";
		params.inward = i == 0;
		assert_int_equal(port_open(&p, &params, pool), 0);
		assert_int_equal(worker_add_port(ws, &p), 0);
		for (unsigned w = 0; w < nworkers; w++)
			expect_inward(worker_get(ws, w), &p, each);
		worker_del_port(ws, &p);
		port_close(&p);
	}
}

struct timing {
	struct qp *qp;
	uint64_t after_ns;
	uint64_t deadline_ns;
};

static void
arm(struct worker *w, void *arg)
{
	struct engine *e = worker_engine(w);
	struct timing *t = arg;

	if (t->qp->bind.timer == NULL)
		assert_int_equal(worker_adopt_qp(w, t->qp), 0);
	t->deadline_ns = e->env.now_ns + t->after_ns;
	t->qp->conn.snd.probe_ns = t->deadline_ns;
	if (t->qp->bind.timer_at_ns == 0 || t->deadline_ns < t->qp->bind.timer_at_ns)
		e->ops->set_timer(e->ops_ctx, t->qp, t->deadline_ns);
}

/* Set, and moved away before it can go off. */
static void
arm_and_move(struct worker *w, void *arg)
{
	struct timing *t = arg;

	t->after_ns = 5000000;
	arm(w, t);
	t->after_ns = 30000000;
	arm(w, t);
}

static void
arm_and_forget(struct worker *w, void *arg)
{
	struct timing *t = arg;

	arm(w, t);
	worker_forget_qp(w, t->qp);
}

#define WAITING 200 /* frames: several bursts */

/*
 * A worker that waited for its core: a timer is due, and the response that cancels it waits in the
 * port.
 */
static void
arm_and_oversleep(struct worker *w, void *arg)
{
	struct timing *t = arg;

	t->after_ns = 0;
	arm(w, t);
	for (uint32_t i = 0; i < WAITING; i++)
		send_from_test(&far[1], FAKE_FOR, 0, 0x700000 + i);
}

REQUIREMENT("REQ-04")
UNIT_TEST(waiting_frames_are_received_before_timers_fire)
{
	struct qp *qp = aligned_alloc(64, sizeof(*qp));
	struct fake_worker *f = &fake[0];
	struct timing t = {.qp = qp};
	uint32_t n = f->timer_n, came = f->rx_n;

	assert_non_null(qp);
	memset(qp, 0, sizeof(*qp));
	worker_call(worker_get(ws, 0), arm_and_oversleep, &t);
	assert_true(WAIT_FOR(FAKE_COUNT(f->timer_n) == n + 1));
	assert_int_equal(f->timer_rx_n - came, WAITING);
	worker_call(worker_get(ws, 0), arm_and_forget, &t);
	free(qp);
}

UNIT_TEST(timers_fire_at_their_deadline_and_not_before)
{
	struct qp *qp = aligned_alloc(64, sizeof(*qp));
	struct fake_worker *f = &fake[nworkers - 1];
	struct timing t = {.qp = qp};
	uint32_t n = f->timer_n;

	assert_non_null(qp);
	memset(qp, 0, sizeof(*qp));
	for (uint32_t i = 0; i < 20; i++) {
		t.after_ns = i * 700000;
		worker_call(last_worker(), arm, &t);
		assert_true(WAIT_FOR(FAKE_COUNT(f->timer_n) == n + i + 1));
		assert_true(f->timer_now_ns >= t.deadline_ns);
		assert_true(f->timer_now_ns < t.deadline_ns + WAIT_NS);
	}
	/* goes off once, at the later time */
	worker_call(last_worker(), arm_and_move, &t);
	assert_true(WAIT_FOR(FAKE_COUNT(f->timer_n) == n + 21));
	assert_true(f->timer_now_ns >= t.deadline_ns);
	/* a destroyed QP has none */
	t.after_ns = 2000000;
	worker_call(last_worker(), arm_and_forget, &t);
	assert_null(qp->bind.timer);
	free(qp);
	usleep(10000);
	worker_quiesce(ws);
	assert_int_equal(f->timer_n, n + 21);
}

#define AT_ONCE 200u /* timers */
#define BOUND   64u  /* of an iteration */

struct many {
	struct qp *qp[AT_ONCE];
	unsigned polled, most; /* timers handled in all, and by one timer_poll */
};

/* All expire at the same time; one that waits for its turn is destroyed meanwhile. */
static void
expire_many(struct worker *w, void *arg)
{
	struct many *m = arg;
	unsigned n;

	for (uint32_t i = 0; i < AT_ONCE; i++) {
		struct timing t = {.qp = m->qp[i]};

		arm(w, &t);
	}
	rte_delay_us_block(100);
	m->polled = m->most = 0;
	do {
		n = timer_poll(w);
		m->polled += n;
		m->most = RTE_MAX(m->most, n);
		if (m->polled == n)
			worker_forget_qp(w, m->qp[AT_ONCE - 1]);
	} while (n != 0);
	for (uint32_t i = 0; i < AT_ONCE - 1; i++)
		worker_forget_qp(w, m->qp[i]);
}

UNIT_TEST(timers_that_expire_at_once_are_spread)
{
	struct many m;

	for (uint32_t i = 0; i < AT_ONCE; i++) {
		m.qp[i] = aligned_alloc(64, sizeof(*m.qp[i]));
		assert_non_null(m.qp[i]);
		memset(m.qp[i], 0, sizeof(*m.qp[i]));
	}
	worker_call(last_worker(), expire_many, &m);
	assert_int_equal(m.polled, AT_ONCE - 1);
	assert_int_equal(m.most, BOUND);
	for (uint32_t i = 0; i < AT_ONCE; i++)
		free(m.qp[i]);
}
