/* SPDX-License-Identifier: BSD-3-Clause */
/* Hosts 0 .. n - 1 on ports 0 .. n - 1 of one switch. */
#ifndef FABRIC_FABRIC_H
#define FABRIC_FABRIC_H

#include <stdbool.h>
#include <stdint.h>
#include "../heap.h"
#include "../prng.h"
#include "host.h"
#include "switch.h"

#define FABRIC_HOSTS    36u
#define FABRIC_FLOWS    40u
#define FABRIC_START_NS 1000000u
#define FABRIC_SAMPLES  65536u

struct fabric_params {
	uint32_t hosts;
	uint64_t bps, delay_ns; /* of each line */
	struct switch_params sw;
	uint64_t cnp_ns;
	struct cc_param policy; /* of all QPs; filled */
	bool sr;                /* all hosts do selective repeat */
	uint64_t seed;
};

struct fabric_flow {
	struct flow flow;
	uint32_t src, src_conn, dst, dst_conn;
	uint32_t start_psn; /* at the last fabric_mark */
};

struct fabric {
	struct fabric_params p;
	struct fabric_switch sw;
	struct host host[FABRIC_HOSTS];
	struct fabric_flow flow[FABRIC_FLOWS];
	uint32_t nflows;
	struct sim_heap heap;
	uint64_t now_ns;
	uint64_t up_at[FABRIC_HOSTS], down_at[FABRIC_HOSTS]; /* of the lines' scheduled events */
	struct sim_rng rng;
	bool overrun; /* too many events */
	/* Called for each frame that leaves port `out`, which came through port `in`. */
	void (*sent)(void *arg, uint64_t now_ns, uint32_t out, uint32_t in, uint32_t bytes);
	void *sent_arg;
	/* Bytes that wait at port `watched`, once a microsecond, since fabric_mark. */
	uint32_t watched;
	uint32_t *queue, nqueue;
};

/* Call once: starts the EAL and makes frames. */
void fabric_open_eal(void);
/* Makes a fabric without flows. */
struct fabric *fabric_open(const struct fabric_params *p);
/*
 * Frees f. Returns false if a host keeps buffers or memory for selective repeat, which the next
 * fabric lacks then.
 */
bool fabric_close(struct fabric *f);
/* Adds a flow that host src requests and dst responds to, copied from *flow. Returns it. */
struct fabric_flow *fabric_flow(struct fabric *f, uint32_t src, uint32_t dst,
				const struct flow *flow);
/* Runs until virtual time until_ns. */
void fabric_run(struct fabric *f, uint64_t until_ns);
/*
 * Lets all flows post nothing more, and runs until the posted messages have completed. Returns
 * false if some do not complete within a second, which is more than all retries take.
 */
bool fabric_finish(struct fabric *f);
/* Starts measuring: queue samples, and fabric_delivered. */
void fabric_mark(struct fabric *f);
/* Payload bytes of whole packets that the flow's receiver took in order since fabric_mark. */
uint64_t fabric_delivered(const struct fabric *f, const struct fabric_flow *flow);
/* Sum of a counter over all hosts. */
uint64_t fabric_counter(const struct fabric *f, uint32_t counter);
/*
 * A message failed, its bytes are not at the receiver, a host broke a rule (check.h), an engine
 * reported an error, or the simulator ran out of space.
 */
bool fabric_failed(const struct fabric *f);

#endif
