/* SPDX-License-Identifier: BSD-3-Clause */
/* Mode "limit" of a port: frames alone, between two processes, at the sizes of each path MTU. */
#include <stdio.h>
#include <rte_common.h>
#include "node_pair.h"

#define OVERHEAD 74u /* of a WRITE of one packet, Ethernet to ICRC */

enum { LINK_FRAMES, LINK_TESTPMD };

static void
row(struct bench_report *r, const struct bench_options *o, struct node_pair *p,
    struct testpmd_pair *pmd, uint32_t payload)
{
	struct bench_figure rate = {.n = 0}, gbps = {.n = 0}, swap = {.n = 0}, distance = {.n = 0},
			    model = {.n = 0}, testpmd = {.n = 0}, ratio = {.n = 0},
			    speed = {.n = 0};
	uint32_t frame = payload + OVERHEAD;
	bool two = o->port != BENCH_PORT_RING;
	struct node_pair_sample s, back;
	char name[96];
	double packet_ns;

	for (uint32_t i = 0; i < o->runs; i++) {
		node_pair_run(p, NODE_ONEWAY, frame, &s);
		bench_figure_add(&rate, s.rate * 1e-6);
		bench_figure_add(&gbps, s.rate * frame * 8e-9);
		bench_figure_add(&distance, s.distance_ns);
		bench_figure_add(&speed, s.speed_ns);
		packet_ns = 1e9 / s.rate + bench_packet_ns(payload, o->size);
		bench_figure_add(&model, payload * 8 / packet_ns);
		if (two) {
			node_pair_run(p, NODE_SWAP, frame, &back);
			bench_figure_add(&swap, back.rate * 1e-6);
		}
		if (o->versus_testpmd) {
			bench_figure_add(&testpmd, testpmd_pair_run(pmd, frame, o->run_ms) * 1e-6);
			bench_figure_add(&ratio, s.rate * 1e-6 / testpmd.run[testpmd.n - 1]);
		}
	}
	snprintf(name, sizeof(name), "port, %s, frames of %u B (payload %u B)%s",
		 bench_port_name[o->port], frame, payload,
		 !two                                             ? ""
		 : bench_figure_median(&distance) <= NODE_NEAR_NS ? ", near"
								  : ", far");
	bench_report_row(r, name, "oneway", &rate, "M/s", "oneway_bits", &gbps, "Gb/s",
			 "with_crc_and_copy", &model, "Gb/s", NULL);
	if (two)
		bench_report_more(r, "swap", &swap, "M/s", "distance", &distance, "ns",
				  "core_speed", &speed, "ns", NULL);
	if (o->versus_testpmd)
		bench_report_more(r, "testpmd", &testpmd, "M/s", "versus_testpmd", &ratio, "of it",
				  NULL);
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
