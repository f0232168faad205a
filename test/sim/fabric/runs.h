/* SPDX-License-Identifier: BSD-3-Clause */
/* The measurements of uroce-fabric. */
#ifndef FABRIC_RUNS_H
#define FABRIC_RUNS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "cc/cc.h"

struct runs_options {
	struct cc_param policy; /* filled for gbps */
	uint32_t gbps;
	uint32_t senders; /* 1 .. 33 */
	uint32_t ms;      /* measured time */
	uint32_t warm_ms; /* time before that */
	uint32_t cnp_us;  /* least time between two CNPs for one QP */
	bool pfc;
	bool read; /* incast: READs in place of WRITEs */
	bool sr;   /* all have agreed to selective repeat */
	uint64_t seed;
};

struct incast_result {
	double goodput; /* share of the bottleneck's rate, as payload delivered in order */
	double jain;
	uint32_t queue_p99, queue_max; /* bytes at the receiver's port */
	uint64_t kmax_bytes;
	uint32_t victim_p99_ns, unloaded_p99_ns;
	uint64_t exhausted, timeouts, probes, naks, resent, marked, cnps, dropped, pauses, messages;
	uint64_t selective, spurious, sacks, fallbacks; /* of selective repeat */
	bool failed;
};

/*
 * Senders 1 .. n write 64 KiB messages to host 0, one behind the other. Beside them host 1 writes
 * 4 KiB messages to a host that no other QP uses: the victim. With read, host 0 READs from hosts 1
 * .. n, and the other host READs from host 1.
 */
struct incast_result runs_incast(const struct runs_options *o);

/*
 * Two flows over one bottleneck; the second one begins at a quarter and ends at three quarters of
 * the time. Writes lines "ms,flow 1 Gb/s,flow 2 Gb/s,queue KB" to out.
 */
struct share_result {
	double jain;    /* of both, while both run, without the first tenth of the time */
	double goodput; /* sum over the link's rate, in the same time */
	bool failed;
};
struct share_result runs_share(const struct runs_options *o, FILE *out);

#endif
