/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bounds that this machine sets, which the report compares uroce with: a program like
 * uroce-bench, of which it has the options, the table and the JSON.
 *
 *   limits.c   CRC and copy; a port's frames; a transfer beside them; sleeping threads
 *   frames.c   a node that moves frames without queue pairs
 *   sockets.c  the latency of bare sockets
 *   testpmd.c  Debian's dpdk-testpmd
 *   hops.c     the way to the worker and back
 */
#ifndef BENCH_BOUNDS_H
#define BENCH_BOUNDS_H

#include <stdio.h>
#include "app/uroce-bench/client.h"
#include "app/uroce-bench/node.h"

#define HOPS_MODE "hops-process" /* argv[1] of a process of mode "hops"; internal */

/* Packet buffers of this process; made at the first call. */
struct rte_mempool *limits_pool(void);
int limits_hops(const struct bench_options *o, struct bench_report *r);
int limits_sockets(const struct bench_options *o, struct bench_report *r);
int hops_main(int argc, char **argv);
int frames_main(int argc, char **argv);

/* Two testpmd: one sends on one core, one receives on the other. */
struct testpmd_pair {
	pid_t pid[2];
	FILE *to[2], *from[2];
};
void testpmd_pair_open(struct testpmd_pair *t, const struct bench_options *o, unsigned link);
/* Received frames per second over run_ms; never 0, as with node_pair_run. */
double testpmd_pair_run(struct testpmd_pair *t, uint32_t frame, uint32_t run_ms);
void testpmd_pair_close(struct testpmd_pair *t);

#endif
