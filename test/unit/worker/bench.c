/* SPDX-License-Identifier: BSD-3-Clause */
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <rte_eal.h>
#include <rte_mbuf.h>
#include "bench.h"
#include "../../kit/unit_eal.h"

#define POOL_BUFFERS 16383

unsigned nworkers;
enum worker_idle idle;
struct rte_mempool *pool;
struct worker_set *ws;
/* Two pairs tied back to back. The workers have near[], the test itself uses far[]. */
struct port near[2], far[2];
struct uroce_db_ring bell_ring;
unsigned overflows, scans_left;

uint64_t
clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

struct worker *
last_worker(void)
{
	return worker_get(ws, nworkers - 1);
}

void
start_sending(struct worker *w, void *arg)
{
	const struct sending *s = arg;
	struct fake_worker *f = &fake[worker_index(w)];

	f->send.dev = s->dev;
	f->send.owner = s->owner;
	f->send.loopback = s->loopback;
	f->send.qpn = s->qpn;
	f->send.qp = s->qp;
	f->send.next = s->first;
	f->send.end = s->first + s->n;
	f->send.events = s->events;
}

void
send_from_test(const struct port *p, uint8_t action, uint8_t owner, uint32_t seq)
{
	struct rte_mbuf *m = fake_frame_make(pool, action, owner, seq);

	assert_non_null(m);
	assert_true(WAIT_FOR(port_tx_burst(p->id, 0, &m, 1) == 1));
}

/* Receive on a far port. The next sequence number, or -1 where nothing came. */
int64_t
receive_in_test(const struct port *p)
{
	struct rte_mbuf *m;
	uint32_t seq;

	for (uint16_t q = 0; q < p->nrxq; q++) {
		if (port_rx_burst(p->id, q, &m, 1) != 1)
			continue;
		seq = rte_pktmbuf_mtod(m, const struct fake_frame *)->seq;
		rte_pktmbuf_free(m);
		return seq;
	}
	return -1;
}

uint64_t
sum_of(uint16_t dev, bool drop, unsigned which)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < nworkers; i++) {
		struct counter_block *counters = worker_counters(worker_get(ws, i), dev);

		sum += counters_read(drop ? &counters->drop[which] : &counters->ctr[which]);
	}
	return sum;
}

static bool
on_overflow(struct worker *w, void *ctx, bool first)
{
	assert_ptr_equal(ctx, &bell_ring);
	__atomic_add_fetch(&overflows, 1, __ATOMIC_RELEASE);
	return __atomic_load_n(&scans_left, __ATOMIC_ACQUIRE) != 0 &&
	       __atomic_sub_fetch(&scans_left, 1, __ATOMIC_RELEASE) != 0;
}

/* Rings as a client does, without the eventfd. */
void
ring_bell(uint32_t qpn)
{
	assert_true(bell_ring.prod - FAKE_COUNT(bell_ring.cons) < UROCE_DB_ENTRIES);
	bell_ring.qpn[bell_ring.prod % UROCE_DB_ENTRIES] = qpn;
	__atomic_store_n(&bell_ring.prod, bell_ring.prod + 1, __ATOMIC_RELEASE);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

void
bell_add(struct uroce_db_ring *ring, void *ctx)
{
	assert_int_equal(worker_add_doorbell(last_worker(), ring), 0);
	worker_poll_doorbell(last_worker(), ring, &ring->waiter, 0, on_overflow, ctx);
}

static void
bell_leave(struct worker *w, void *ring)
{
	worker_leave_doorbell(w, ring);
}

void
bell_del(struct uroce_db_ring *ring)
{
	worker_call(last_worker(), bell_leave, ring);
	worker_close_doorbell(last_worker(), ring);
}

static void
open_port(struct port *p, const char *name, unsigned nqueues)
{
	struct port_params params = {.name = name, .nqueues = nqueues, .link_mtu = 1500};

	assert_int_equal(port_open(p, &params, pool), 0);
}

struct qp_table qps;

int
bench_start(void **state)
{
	unsigned lcores[UROCE_MAX_WORKERS];
	struct worker_params p = {.nworkers = nworkers, .lcores = lcores, .idle = idle};

	for (unsigned i = 0; i < UROCE_MAX_WORKERS; i++)
		lcores[i] = i + 1;
	p.qps = &qps;
	if (qp_table_init(&qps, 16) != 0)
		return -1;
	pool = rte_pktmbuf_pool_create("pool", POOL_BUFFERS, 0, 0, 1536 + RTE_PKTMBUF_HEADROOM,
				       SOCKET_ID_ANY);
	p.pool = pool;
	if (pool == NULL || port_ring_pair("n0", "f0", nworkers, 8) != 0 ||
	    port_ring_pair("n1", "f1", 1, 256) != 0)
		return -1;
	open_port(&near[0], "net_ring_n0", nworkers);
	open_port(&far[0], "net_ring_f0", nworkers);
	open_port(&near[1], "net_ring_n1", nworkers);
	open_port(&far[1], "net_ring_f1", nworkers);
	ws = worker_set_create(&p);
	if (ws == NULL)
		return -1;
	return worker_add_port(ws, &near[0]) != 0 || worker_add_port(ws, &near[1]) != 0;
}

/* Everything ends, and every buffer is back. */
int
bench_stop(void **state)
{
	worker_del_port(ws, &near[0]);
	worker_del_port(ws, &near[1]);
	worker_set_destroy(ws);
	qp_table_free(&qps);
	for (int i = 0; i < 2; i++) {
		struct rte_mbuf *m;

		while (receive_in_test(&far[i]) >= 0)
			;
		for (uint16_t q = 0; q < near[i].nrxq; q++) {
			while (port_rx_burst(near[i].id, q, &m, 1) == 1)
				rte_pktmbuf_free(m);
		}
		port_close(&near[i]);
		port_close(&far[i]);
	}
	if (rte_mempool_avail_count(pool) != POOL_BUFFERS) {
		print_error("%u buffers leaked\n", POOL_BUFFERS - rte_mempool_avail_count(pool));
		return -1;
	}
	return 0;
}

/* For EAL: the control thread and all workers, on the first two CPUs that the process may use. */
static void
lcores_on_two_cpus(char *text, size_t size)
{
	int cpu[2], n = 0;
	cpu_set_t set;

	assert_int_equal(sched_getaffinity(0, sizeof(set), &set), 0);
	for (int i = 0; i < CPU_SETSIZE && n < 2; i++) {
		if (CPU_ISSET(i, &set))
			cpu[n++] = i;
	}
	snprintf(text, size, "(0-%u)@(%d,%d)", UROCE_MAX_WORKERS, cpu[0], cpu[n - 1]);
}

int
bench_eal(void)
{
	char lcores[64];

	lcores_on_two_cpus(lcores, sizeof(lcores));
	return unit_eal_with(lcores, "error", NULL, 0);
}
