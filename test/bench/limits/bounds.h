/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bounds that this machine sets, which the report compares uroce with: a program like
 * uroce-bench, of which it has the options, the table and the JSON.
 *
 *   limits.c   CRC and copy; a port's frames; a transfer beside them; sleeping threads
 *   frames.c   a node that moves frames without queue pairs
 *   sockets.c  the latency of bare sockets
 *   hops.c     the way to the worker and back
 *   latency.c  mode "latency" of uroce-bench; breakdown.c: from stamps to times of steps
 *   scale.c    its mode "scale"; scale_lines.c, lines.c: cache lines that two workers write
 */
#ifndef BENCH_BOUNDS_H
#define BENCH_BOUNDS_H

#include "app/uroce-bench/client.h"
#include "app/uroce-bench/node.h"

#define HOPS_MODE "hops-process" /* argv[1] of a process of mode "hops"; internal */

/* Packet buffers of this process; made at the first call. */
struct rte_mempool *limits_pool(void);
int limits_hops(const struct bench_options *o, struct bench_report *r);
/* Modes of uroce-bench, which executes this program for them. */
int bench_latency(const struct bench_options *o, struct bench_report *r);
void latency_check(const struct bench_options *o);
int bench_scale(const struct bench_options *o, struct bench_report *r);
void scale_check_options(const struct bench_options *o);
/* Starts DPDK with an lcore for each worker. */
void scale_eal_start(const struct bench_options *o, char **plain);
int limits_sockets(const struct bench_options *o, struct bench_report *r);
int hops_main(int argc, char **argv);
int frames_main(int argc, char **argv);

#endif
