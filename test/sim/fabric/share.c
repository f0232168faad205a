/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>
#include <rte_common.h>
#include "fabric.h"
#include "measure.h"
#include "runs.h"
#include "scenario.h"

#define BIN_NS 100000ull
#define MS     1000000ull
#define FLOWS  2
#define DEPTH  4

/* Bytes of each flow that left for the receiver within the current bin. */
struct bins {
	uint64_t bytes[FLOWS];
};

static void
on_sent(void *arg, uint64_t now_ns, uint32_t out, uint32_t in, uint32_t bytes)
{
	struct bins *b = arg;

	if (out == 0 && in >= 1 && in <= FLOWS)
		b->bytes[in - 1] += bytes;
}

struct share_result
runs_share(const struct runs_options *o, FILE *out)
{
	uint64_t all_ns = o->ms * MS, end = FABRIC_START_NS + all_ns;
	struct flow flow = {.size = 65536,
			    .depth = DEPTH,
			    .start_ns = FABRIC_START_NS,
			    .stop_ns = UINT64_MAX};
	struct fabric *f = scenario_open(o, FLOWS + 1);
	struct bins bins = {0};
	double share[FLOWS] = {0}, measured_ns = 0;
	struct share_result r;

	f->sent = on_sent;
	f->sent_arg = &bins;
	fabric_flow(f, 1, 0, &flow);
	flow.start_ns = FABRIC_START_NS + all_ns / 4;
	flow.stop_ns = FABRIC_START_NS + all_ns * 3 / 4;
	fabric_flow(f, 2, 0, &flow);
	fprintf(out, "ms,flow 1 Gb/s,flow 2 Gb/s,queue KB\n");
	for (uint64_t t = FABRIC_START_NS + BIN_NS; t <= end; t += BIN_NS) {
		fabric_run(f, t);
		fprintf(out, "%.1f,%.3f,%.3f,%.1f\n", (double)(t - FABRIC_START_NS) / MS,
			(double)bins.bytes[0] * 8 / BIN_NS, (double)bins.bytes[1] * 8 / BIN_NS,
			(double)f->sw.port[0].out.waiting_bytes / 1000);
		if (t > flow.start_ns + all_ns / 10 && t <= flow.stop_ns) {
			share[0] += (double)bins.bytes[0];
			share[1] += (double)bins.bytes[1];
			measured_ns += BIN_NS;
		}
		memset(&bins, 0, sizeof(bins));
	}
	r = (struct share_result){
		.jain = measure_jain(share, FLOWS),
		.goodput = (share[0] + share[1]) * 8 / (measured_ns * o->gbps),
		.failed = !fabric_finish(f) || fabric_failed(f),
	};
	r.failed |= !fabric_close(f);
	return r;
}
