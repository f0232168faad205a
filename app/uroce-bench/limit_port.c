/* SPDX-License-Identifier: BSD-3-Clause */
/* Mode "limit" with a port: only frames, between two processes, in the sizes of each path MTU. */
#include <stdio.h>
#include <rte_common.h>
#include "node_pair.h"

#define OVERHEAD 74u /* of a WRITE of one packet, Ethernet to ICRC */

enum { LINK_FRAMES, LINK_TESTPMD };

static void
row(struct bench_report *r, const struct bench_options *o, struct node_pair *p,
    struct testpmd_pair *pmd, uint32_t payload)
{
	uint32_t frame = payload + OVERHEAD;
	bool two = o->port != BENCH_PORT_RING;
	struct node_pair_sample s, back;
	double packet_ns, testpmd;

	for (uint32_t i = 0; i < o->runs; i++) {
		node_pair_run(p, NODE_ONEWAY, frame, &s);
		packet_ns = 1e9 / s.rate + bench_packet_ns(payload, o->size);
		bench_add(r, "oneway", "M/s", s.rate * 1e-6);
		bench_add(r, "oneway_bits", "Gb/s", s.rate * frame * 8e-9);
		bench_add(r, "with_crc_and_copy", "Gb/s", payload * 8 / packet_ns);
		if (two) {
			node_pair_run(p, NODE_SWAP, frame, &back);
			bench_add(r, "swap", "M/s", back.rate * 1e-6);
			bench_add(r, "distance", "ns", s.distance_ns);
			bench_add(r, "core_speed", "ns", s.speed_ns);
		}
		if (o->versus_testpmd) {
			testpmd = testpmd_pair_run(pmd, frame, o->run_ms);
			bench_add(r, "testpmd", "M/s", testpmd * 1e-6);
			bench_add(r, "versus_testpmd", "of it", s.rate / testpmd);
		}
	}
	bench_report_row(r, "port, %s, frames of %u B (payload %u B)%s", bench_port_name[o->port],
			 frame, payload, two ? node_pair_far(r) : "");
}

int
bench_limit_port(const struct bench_options *o, struct bench_report *r)
{
	static const uint32_t payloads[] = {64, 256, 512, 1024, 2048, 4096};
	struct testpmd_pair pmd;
	struct node_pair p;

	node_pair_open(&p, o, NODE_ONEWAY, LINK_FRAMES, NULL);
	if (o->versus_testpmd)
		testpmd_pair_open(&pmd, o, LINK_TESTPMD);
	for (unsigned i = 0; i < RTE_DIM(payloads) && payloads[i] <= o->mtu; i++)
		row(r, o, &p, &pmd, payloads[i]);
	node_pair_close(&p);
	if (o->versus_testpmd)
		testpmd_pair_close(&pmd);
	return 0;
}
