/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads on one queue, and the two races that shared memory allows: a WQE posted while the
 * daemon arms, and a doorbell rung while the worker goes to sleep. The daemon's side is played as
 * include/uroce_abi/ring.h prescribes it; a lost wake-up shows as a time-out.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "provider_fixture.h"
#include "../../kit/hang.h"

#define POSTERS  3
#define PER_POST 100000
#define TOTAL    (POSTERS * PER_POST)
#define WAIT_MS  (HANGS_S * 1000)
#define RACE_MS  500
#define ENTRIES  1024 /* of the queues: deep, so that the threads run concurrently */

struct poster {
	struct ibv_qp *qp;
	const uint32_t *sleeps; /* atomic; the consumer's */
	uint64_t first;
	pthread_t t;
};

static void *
post_many(void *arg)
{
	struct poster *p = arg;

	for (uint64_t i = 0; i < PER_POST; i++) {
		struct ibv_send_wr wr = {.wr_id = p->first + i, .opcode = IBV_WR_SEND}, *bad;

		/* A consumer that is slower than all posters finds work until they pause. */
		while (i == PER_POST / 2 && __atomic_load_n(p->sleeps, __ATOMIC_RELAXED) == 0)
			sched_yield();
		while (ibv_post_send(p->qp, &wr, &bad) == ENOMEM)
			sched_yield();
		/* Pauses of many lengths, so that the other side falls asleep at every position. */
		for (uint64_t spin = i * 7 % 97; spin; spin--)
			sched_relax();
	}
	return NULL;
}

/* The worker's view of one send queue and of its doorbells. */
struct consumer {
	struct fixture *r;
	uint8_t seen[TOTAL];
	uint32_t cons, got, sleeps;
	uint64_t last[POSTERS]; /* wr_ids of a thread must come in its order */
	bool disordered;
	bool lost; /* a doorbell that should have come */
};

static bool
consume(struct consumer *c)
{
	struct uroce_ring_hdr *sq = c->r->f->qp[1].sq;
	uint32_t prod = __atomic_load_n(&sq->prod, __ATOMIC_ACQUIRE);
	bool any = c->cons != prod;

	while (c->cons != prod) {
		uint64_t id = fake_send_wqe(c->r->f, 1, c->cons)->wr_id;

		c->seen[id]++;
		c->disordered |= id % PER_POST && id <= c->last[id / PER_POST];
		c->last[id / PER_POST] = id;
		c->got++;
		__atomic_store_n(&sq->cons, ++c->cons, __ATOMIC_RELEASE);
	}
	return any;
}

/* Sleeps until the client's doorbell; after a lost one it only polls. */
static void
sleep_for_doorbell(struct consumer *c)
{
	const struct uroce_ring_hdr *sq = c->r->f->qp[1].sq;
	struct uroce_db_ring *db = c->r->f->db[1];
	struct pollfd pfd = {.fd = c->r->f->wake_fd[1], .events = POLLIN};
	uint64_t n;

	__atomic_store_n(&c->r->f->states[1].asleep, 1, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (__atomic_load_n(&db->prod, __ATOMIC_ACQUIRE) == db->cons) {
		__atomic_add_fetch(&c->sleeps, 1, __ATOMIC_RELAXED);
		/* posters that get no core for as long have lost nothing */
		if (poll(&pfd, 1, c->lost ? 0 : WAIT_MS) != 1)
			c->lost |= __atomic_load_n(&sq->prod, __ATOMIC_ACQUIRE) != c->cons;
		else if (read(pfd.fd, &n, sizeof(n)) < 0)
			c->lost = true;
	}
	__atomic_store_n(&c->r->f->states[1].asleep, 0, __ATOMIC_RELAXED);
}

FIXTURE_TEST(no_post_and_no_doorbell_is_lost)
{
	struct fixture *r = *state;
	struct ibv_qp *qp = fixture_create_qp_of(r, IBV_QPT_RC, ENTRIES); /* 0x101: worker 1's */
	struct uroce_ring_hdr *sq = r->f->qp[1].sq;
	struct uroce_db_ring *db = r->f->db[1];
	struct consumer *c = calloc(1, sizeof(*c));
	struct poster p[POSTERS];

	c->r = r;
	fixture_qp_to(qp, IBV_QPS_RTS);
	for (unsigned int i = 0; i < POSTERS; i++) {
		p[i] = (struct poster){.qp = qp,
				       .sleeps = &c->sleeps,
				       .first = (uint64_t)i * PER_POST};
		pthread_create(&p[i].t, NULL, post_many, &p[i]);
	}
	while (c->got < TOTAL) {
		if (consume(c))
			continue;
		__atomic_store_n(&sq->armed, 1, __ATOMIC_RELAXED);
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		if (consume(c)) {
			__atomic_store_n(&sq->armed, 0, __ATOMIC_RELAXED);
			continue;
		}
		sleep_for_doorbell(c);
		while (db->cons != __atomic_load_n(&db->prod, __ATOMIC_ACQUIRE)) {
			assert_int_equal(db->qpn[db->cons % UROCE_DB_ENTRIES], 0x101);
			__atomic_store_n(&db->cons, db->cons + 1, __ATOMIC_RELEASE);
		}
	}
	for (unsigned int i = 0; i < POSTERS; i++)
		pthread_join(p[i].t, NULL);
	for (uint32_t i = 0; i < TOTAL; i++)
		assert_int_equal(c->seen[i], 1);
	assert_false(c->lost);
	assert_false(c->disordered);
	assert_int_equal(db->overflow, 0);
	assert_true(c->sleeps > 0); /* else nothing was tried */
	free(c);
	ibv_destroy_qp(qp);
}

/*
 * One WR at a time, and the next only when it was consumed: no later doorbell makes up for a lost
 * one. The waits do not sleep, so that the two sides race.
 */
struct lockstep {
	struct ibv_qp *qp;
	struct uroce_ring_hdr *sq;
	bool stop;
	pthread_t t;
};

static void *
post_in_lockstep(void *arg)
{
	struct lockstep *l = arg;
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad;

	for (uint32_t i = 1; !__atomic_load_n(&l->stop, __ATOMIC_RELAXED); i++) {
		for (uint32_t spin = i * 7 % 61; spin; spin--)
			sched_relax();
		ibv_post_send(l->qp, &wr, &bad);
		for (uint32_t n = 0; __atomic_load_n(&l->sq->cons, __ATOMIC_ACQUIRE) != i &&
				     !__atomic_load_n(&l->stop, __ATOMIC_RELAXED);
		     n++) {
			if (n % 256 == 255)
				sched_yield();
		}
	}
	return NULL;
}

static uint64_t
now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/*
 * Waits until the client has rung. Returns false if it does not for WAIT_MS although it has posted
 * beyond cons.
 */
static bool
wait_for_ring(const struct uroce_db_ring *db, const struct uroce_ring_hdr *sq, uint32_t cons)
{
	uint64_t start = now_ms();

	for (uint32_t n = 1; __atomic_load_n(&db->prod, __ATOMIC_ACQUIRE) == db->cons; n++) {
		if (n % 256)
			continue;
		if (__atomic_load_n(&sq->prod, __ATOMIC_ACQUIRE) == cons)
			start = now_ms();
		else if (now_ms() - start > WAIT_MS)
			return false;
		sched_yield();
	}
	return true;
}

FIXTURE_TEST(armed_queue_always_rings)
{
	struct fixture *r = *state;
	struct uroce_db_ring *db = r->f->db[0];
	struct lockstep l = {.qp = r->qp, .sq = r->f->qp[0].sq};
	uint64_t end = now_ms() + RACE_MS;
	bool rung = true;

	fixture_qp_to(r->qp, IBV_QPS_RTS);
	pthread_create(&l.t, NULL, post_in_lockstep, &l);
	while (rung && now_ms() < end) {
		for (unsigned int i = 0; i < 1000 && rung; i++) {
			uint32_t cons = l.sq->cons;

			__atomic_store_n(&l.sq->armed, 1, __ATOMIC_RELAXED);
			__atomic_thread_fence(__ATOMIC_SEQ_CST);
			if (__atomic_load_n(&l.sq->prod, __ATOMIC_ACQUIRE) == cons)
				rung = wait_for_ring(db, l.sq, cons);
			else
				__atomic_exchange_n(&l.sq->armed, 0, __ATOMIC_ACQ_REL);
			__atomic_store_n(&db->cons, __atomic_load_n(&db->prod, __ATOMIC_ACQUIRE),
					 __ATOMIC_RELEASE);
			if (l.sq->prod != cons)
				__atomic_store_n(&l.sq->cons, cons + 1, __ATOMIC_RELEASE);
		}
	}
	__atomic_store_n(&l.stop, true, __ATOMIC_RELAXED);
	pthread_join(l.t, NULL);
	assert_true(rung);
}

struct poller {
	struct ibv_cq *cq;
	uint8_t *seen;
	uint32_t *taken;
	pthread_t t;
};

static void *
poll_many(void *arg)
{
	struct poller *p = arg;
	struct ibv_wc wc[5];

	while (__atomic_load_n(p->taken, __ATOMIC_RELAXED) < TOTAL) {
		int n = ibv_poll_cq(p->cq, 5, wc);

		for (int i = 0; i < n; i++)
			__atomic_fetch_add(&p->seen[wc[i].wr_id], 1, __ATOMIC_RELAXED);
		if (n > 0)
			__atomic_fetch_add(p->taken, (uint32_t)n, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* The daemon shares the cores: an idle poller must not keep them from it. */
static int
yielding_setup(void **state)
{
	struct fixture *r;
	int rc = fixture_setup(state);

	r = *state;
	prov_context_of(r->ctx)->poll = PROV_POLL_ADAPTIVE;
	return rc;
}

REQUIREMENT("CQ-01")
UNIT_TEST_IN(each_completion_goes_to_one_thread, yielding_setup, fixture_teardown)
{
	struct fixture *r = *state;
	struct ibv_cq *cq = ibv_create_cq(r->ctx, ENTRIES, NULL, NULL, 0);
	struct uroce_cq_hdr *h = r->f->cq[1].hdr;
	uint8_t *seen = calloc(TOTAL, 1);
	uint32_t taken = 0;
	struct poller p[2];

	for (unsigned int i = 0; i < 2; i++) {
		p[i] = (struct poller){.cq = cq, .seen = seen, .taken = &taken};
		pthread_create(&p[i].t, NULL, poll_many, &p[i]);
	}
	for (uint32_t i = 0; i < TOTAL; i++) {
		while (i - __atomic_load_n(&h->cons, __ATOMIC_ACQUIRE) >= ENTRIES)
			sched_yield();
		fake_complete(r->f, 1, (struct uroce_cqe){.wr_id = i, .qp_num = 0x100});
	}
	for (unsigned int i = 0; i < 2; i++)
		pthread_join(p[i].t, NULL);
	for (uint32_t i = 0; i < TOTAL; i++)
		assert_int_equal(seen[i], 1);
	free(seen);
	ibv_destroy_cq(cq);
}

int __real_ipc_client_call(struct ipc_client *c, struct ipc_call *call);
int __wrap_ipc_client_call(struct ipc_client *c, struct ipc_call *call);

static bool slow_with_segments; /* a thread that receives a new segment goes on late */

int
__wrap_ipc_client_call(struct ipc_client *c, struct ipc_call *call)
{
	int rc = __real_ipc_client_call(c, call);

	if (slow_with_segments && rc == 0 && call->rep_nfds > 0)
		usleep(RACE_MS * 1000 / 5);
	return rc;
}

struct creator {
	struct fixture *r;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	pthread_t t;
};

static void *
create_cq_and_qp(void *arg)
{
	struct creator *c = arg;

	c->cq = ibv_create_cq(c->r->ctx, 16, NULL, NULL, 0);
	c->qp = fixture_create_qp(c->r, IBV_QPT_RC);
	return NULL;
}

/* A thread may need a segment that another one is just getting. */
FIXTURE_TEST(rings_of_a_new_segment_reach_every_thread)
{
	struct fixture *r = *state;
	struct creator c[POSTERS];

	fake_new_segment(r->f);
	slow_with_segments = true;
	for (unsigned int i = 0; i < POSTERS; i++) {
		c[i] = (struct creator){.r = r};
		pthread_create(&c[i].t, NULL, create_cq_and_qp, &c[i]);
	}
	for (unsigned int i = 0; i < POSTERS; i++)
		pthread_join(c[i].t, NULL);
	slow_with_segments = false;
	for (unsigned int i = 0; i < POSTERS; i++) {
		assert_non_null(c[i].cq);
		assert_non_null(c[i].qp);
	}
	for (unsigned int i = 0; i < POSTERS; i++) {
		assert_int_equal(ibv_destroy_qp(c[i].qp), 0);
		assert_int_equal(ibv_destroy_cq(c[i].cq), 0);
	}
}
