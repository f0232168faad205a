/* SPDX-License-Identifier: BSD-3-Clause */
/* Workers over net_ring ports, and the test at the other end of them. */
#ifndef TEST_WORKER_BENCH_H
#define TEST_WORKER_BENCH_H

#include <sched.h>
#include "fake.h"
#include "port/burst.h"
#include "port/port.h"
#include "worker/worker.h"
#include "../../kit/unit.h"

#define WAIT_NS 90000000000ull /* ends a hang; threads that share busy cores are slow */
#define WAIT_MS ((int)(WAIT_NS / 1000000))

extern unsigned nworkers;
extern enum worker_idle idle;
extern struct rte_mempool *pool;
extern struct worker_set *ws;
extern struct qp_table qps; /* 16 slots */
/* Two pairs tied back to back. The workers have near[], the test itself uses far[]. */
extern struct port near[2], far[2];
extern struct uroce_db_ring bell_ring;
extern unsigned overflows, scans_left; /* scans of bell_ring; those that leave more */

uint64_t clock_ns(void);

/* Yield to the workers, which share our cores, until cond; false after WAIT_NS. */
#define WAIT_FOR(cond)                                                                             \
	({                                                                                         \
		uint64_t end_ = clock_ns() + WAIT_NS;                                              \
		bool ok_;                                                                          \
		while (!(ok_ = (cond)) && clock_ns() < end_)                                       \
			sched_yield();                                                             \
		ok_;                                                                               \
	})

/*
 * EAL, and cmocka's group fixtures: they create the workers and ports that main chose, and free
 * them.
 */
int bench_eal(void);
int bench_start(void **state);
int bench_stop(void **state);

struct worker *last_worker(void);

struct sending {
	uint16_t dev;
	uint8_t owner;
	bool loopback;
	uint32_t n;
	uint32_t events;     /* that come with the first of them */
	uint32_t qpn;        /* not 0: the frames are for this QP, whatever the owner */
	uint32_t first;      /* number of the first frame */
	const struct qp *qp; /* not NULL: the sending moves with this QP */
};
/* For worker_call: from now on the worker's engine sends as arg, a struct sending, describes. */
void start_sending(struct worker *w, void *arg);

void send_from_test(const struct port *p, uint8_t action, uint8_t owner, uint32_t seq);
/* Receive on a far port. The next sequence number, or -1 where nothing came. */
int64_t receive_in_test(const struct port *p);
/* A counter or drop reason of a device, of all workers together. */
uint64_t sum_of(uint16_t dev, bool drop, unsigned which);

/* Rings as a client does, without the eventfd. */
void ring_bell(uint32_t qpn);
/* The last worker begins to poll ring. ctx: NULL if it does not overflow, else bell_ring. */
void bell_add(struct uroce_db_ring *ring, void *ctx);
void bell_del(struct uroce_db_ring *ring);

/* test_move.c */

/*
 * test_events.c. raise_events: for worker_call; the engine of w reports *(uint32_t *)arg events,
 * each of another CQ.
 */
void raise_events(struct worker *w, void *arg);

/* test_grace.c */

/* test_sleep.c */

#endif
