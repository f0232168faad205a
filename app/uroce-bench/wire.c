/* SPDX-License-Identifier: BSD-3-Clause */
#include <rte_common.h>
#include "node.h"

/* Header bytes of a packet, Ethernet to ICRC: with RETH, without it, with AETH. */
#define WHOLE_OVERHEAD  74u
#define MIDDLE_OVERHEAD 58u
#define AETH_OVERHEAD   62u

static uint32_t
packets_of(const struct bench_options *o)
{
	return o->size <= o->mtu ? 1 : (o->size + o->mtu - 1) / o->mtu;
}

uint32_t
wire_frame(const struct bench_options *o)
{
	uint32_t payload = (RTE_MIN(o->size, o->mtu) + 3) & ~3u;

	if (o->op == BENCH_ATOMIC)
		return 86;
	if (packets_of(o) > 1)
		return payload + MIDDLE_OVERHEAD;
	return payload + (o->op == BENCH_READ   ? AETH_OVERHEAD
			  : o->op == BENCH_SEND ? MIDDLE_OVERHEAD
						: WHOLE_OVERHEAD);
}

double
wire_run(struct node_pair *p, struct bench_report *r, const struct node_pair_sample *other)
{
	const struct bench_options *o = &p->sh->o;
	double packets = packets_of(o);
	struct node_pair_sample s;

	node_pair_run(p, NODE_RC, 0, &s);
	packets *= s.rate;
	bench_add(r, "messages", "M/s", s.rate * 1e-6);
	bench_add(r, "goodput", "Gb/s", s.rate * o->size * 8e-9);
	bench_add(r, "packets", "M/s", packets * 1e-6);
	bench_add(r, "distance", "ns", RTE_MAX(s.distance_ns, other->distance_ns));
	bench_add(r, "core_speed", "ns", RTE_MAX(s.speed_ns, other->speed_ns));
	return packets;
}

static void
wire_row(const struct bench_options *o, struct bench_report *r, bool equal)
{
	char port[2 * NODE_DEVICE];

	node_net_name(o, port, sizeof(port));
	bench_report_row(r, "wire, %s%s, RC %s, %u B, MTU %u, %u QP%s%s%s", port,
			 o->through == BENCH_THROUGH_TESTPMD ? ", through testpmd" : "",
			 bench_op_name[o->op], o->size, o->mtu, o->qps, o->qps == 1 ? "" : "s",
			 node_pair_far(r), equal ? "" : ": BYTES DIFFER");
}

bool
wire_end(struct node_pair *p, struct bench_report *r)
{
	const struct bench_options o = p->sh->o;
	bool equal = node_pair_verify(p);

	node_pair_close(p);
	wire_row(&o, r, equal);
	return equal;
}

/* One run on ports that are opened for it. equal becomes false if the bytes differ. */
static double
wire_once(const struct bench_options *o, struct bench_report *r, bool *equal)
{
	static const struct node_pair_sample none;
	struct node_pair p;
	double packets;

	node_pair_open(&p, o, NODE_RC, 0);
	packets = wire_run(&p, r, &none);
	*equal &= node_pair_verify(&p);
	node_pair_close(&p);
	return packets;
}

static double
testpmd_once(const struct bench_options *o)
{
	struct testpmd_pair t;
	double frames;

	testpmd_pair_open(&t, o, 0);
	frames = testpmd_pair_run(&t, wire_frame(o), o->run_ms);
	testpmd_pair_close(&t);
	return frames;
}

int
wire_in_turn(const struct bench_options *o, struct bench_report *r)
{
	bool equal = true;

	for (uint32_t i = 0; i < o->runs; i++) {
		double packets = wire_once(o, r, &equal), other = testpmd_once(o);

		bench_add(r, "testpmd", "M/s", other * 1e-6);
		bench_add(r, "versus_testpmd", "of it", packets / other);
	}
	wire_row(o, r, equal);
	return equal ? 0 : 1;
}

int
bench_wire(const struct bench_options *o, struct bench_report *r)
{
	static const struct node_pair_sample none;
	struct node_pair p;

	if (o->through != BENCH_THROUGH_NONE)
		return wire_in_turn(o, r);
	node_pair_open(&p, o, NODE_RC, 0);
	for (uint32_t i = 0; i < o->runs; i++)
		wire_run(&p, r, &none);
	return wire_end(&p, r) ? 0 : 1;
}
