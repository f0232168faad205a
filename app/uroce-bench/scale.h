/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mode "scale": what more workers are worth. One process with the daemon's workers, two net_ring
 * ports back to back with a queue for each worker, and no client processes: each worker is also
 * the client of its queue pairs.
 *
 *   scale.c      the mode: which CPUs and numbers of workers, and its figures
 *   scale_set.c  a set of workers with their connections
 *
 * A worker sends on its own queue of one port and polls the same queue of the other. A connection
 * whose two ends live on one worker therefore has its packets on the right queue. If its ends live
 * on two workers, every packet of both directions arrives at a worker that does not own its QP and
 * is handed over, as with a NIC that spreads packets without regard to the QPN.
 */
#ifndef UROCE_BENCH_SCALE_H
#define UROCE_BENCH_SCALE_H

#include "bench.h"
#include "counters/counters.h"

#define SCALE_LISTS 8     /* different numbers of workers in one run */
#define SCALE_MBUFS 4096u /* packet buffers for each worker */

/* The main function's part, before EAL starts: checks the options of the mode; exits with 2. */
void scale_check_options(const struct bench_options *o);
/* The largest number of workers that will be measured. */
unsigned scale_most_workers(void);
/* Starts DPDK with an lcore for each worker. Exits with 1 on failure. */
void scale_eal_start(const struct bench_options *o, char **plain);

/* What a set of workers has done between two moments. */
struct scale_sample {
	double messages;         /* a second, of all workers */
	double slowest, fastest; /* of one worker */
	double handed_over;      /* share of the received frames, 0 .. 1 */
	double dropped;          /* of these, because a ring was full; per message */
	double resent;           /* packets sent again, per message */
	double speed_ns;         /* the largest bench_speed_here of a worker's core */
};

struct scale_set;
/*
 * Opens n workers (1 .. UROCE_MAX_WORKERS) on the lcores 1 .. n, with o->qps connections each, of
 * which split percent have their ends on two workers (0 if n is 1). Control thread. Exits with 1 on
 * failure.
 */
struct scale_set *scale_set_open(const struct bench_options *o, unsigned n, unsigned split);
/* Runs traffic for o->run_ms, then stops it. */
void scale_set_run(struct scale_set *s, struct scale_sample *sample);
/* Nothing is in flight. Are the received bytes correct? */
bool scale_set_verify(const struct scale_set *s);
void scale_set_close(struct scale_set *s);

#endif
