/* SPDX-License-Identifier: BSD-3-Clause */
/* Mode "wire": RC traffic over a port between two workers, each on a separate core. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <rte_common.h>
#include "node_pair.h"

/* Header bytes of a packet, Ethernet to ICRC: with RETH, without it, with AETH. */
#define WHOLE_OVERHEAD  74u
#define MIDDLE_OVERHEAD 58u
#define AETH_OVERHEAD   62u

enum { LINK_WIRE, LINK_FRAMES, LINK_TESTPMD };

static uint32_t
packets_of(const struct bench_options *o)
{
	return o->size <= o->mtu ? 1 : (o->size + o->mtu - 1) / o->mtu;
}

/* Bytes of the frames that carry most of the payload. */
static uint32_t
frame_of(const struct bench_options *o)
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

struct wire {
	struct node_pair rc, frames;
	struct testpmd_pair pmd;
};

static void
wire_open(struct wire *w, const struct bench_options *o)
{
	memset(w, 0, sizeof(*w));
	node_pair_open(&w->rc, o, NODE_RC, LINK_WIRE);
	if (o->versus_limit)
		node_pair_open(&w->frames, o, NODE_ONEWAY, LINK_FRAMES);
	if (o->versus_testpmd)
		testpmd_pair_open(&w->pmd, o, LINK_TESTPMD);
}

static void
wire_close(struct wire *w, const struct bench_options *o)
{
	node_pair_close(&w->rc);
	if (o->versus_limit)
		node_pair_close(&w->frames);
	if (o->versus_testpmd)
		testpmd_pair_close(&w->pmd);
}

/*
 * Packets per second that the sender's core could make if it did only testpmd's work, the ICRC and,
 * if the driver does not copy, the copy into the port's buffers. On af_packet and af_xdp the
 * sender's core is the limit, because the kernel does the work of both ends there.
 */
static double
possible(const struct bench_options *o, double testpmd)
{
	uint32_t payload = RTE_MIN(o->size, o->mtu);
	double ns = bench_crc_ns(payload + BENCH_CRC_HEADERS);

	if (o->port == BENCH_PORT_AF_XDP)
		ns += bench_copy_ns(payload);
	return 1e9 / (1e9 / testpmd + ns);
}

/* Measures the transfer and, directly after it, what it is compared with. */
static void
measure(struct wire *w, const struct bench_options *o, struct bench_report *r)
{
	uint32_t frame = frame_of(o);
	struct node_pair_sample s, port = {0};
	double packets, other, bytes_ns;

	node_pair_run(&w->rc, NODE_RC, 0, &s);
	packets = s.rate * packets_of(o);
	if (o->versus_limit)
		node_pair_run(&w->frames, NODE_ONEWAY, frame, &port);
	bench_add(r, "messages", "M/s", s.rate * 1e-6);
	bench_add(r, "goodput", "Gb/s", s.rate * o->size * 8e-9);
	bench_add(r, "packets", "M/s", packets * 1e-6);
	bench_add(r, "distance", "ns", RTE_MAX(s.distance_ns, port.distance_ns));
	bench_add(r, "core_speed", "ns", RTE_MAX(s.speed_ns, port.speed_ns));
	if (o->versus_limit) {
		bytes_ns = bench_packet_ns(RTE_MIN(o->size, o->mtu), o->size);
		/* sockets: compared with bare UDP sockets, the maximum that the kernel allows */
		other = node_net_is_socket(o->port) ? port.rate
						    : 1e9 / (1e9 / port.rate + bytes_ns);
		bench_add(r, "port", "M/s", port.rate * 1e-6);
		bench_add(r, "crc_and_copy", "ns", bytes_ns);
		bench_add(r, "limit", "M/s", other * 1e-6);
		bench_add(r, "versus_limit", "of it", packets / other);
	}
	if (o->versus_testpmd) {
		other = testpmd_pair_run(&w->pmd, frame, o->run_ms);
		bench_add(r, "testpmd", "M/s", other * 1e-6);
		bench_add(r, "versus_testpmd", "of it", packets / other);
		bench_add(r, "possible", "M/s", possible(o, other) * 1e-6);
	}
}

int
bench_wire(const struct bench_options *o, struct bench_report *r)
{
	struct wire w;
	bool equal;

	wire_open(&w, o);
	for (uint32_t i = 0; i < o->runs; i++)
		measure(&w, o, r);
	equal = node_pair_verify(&w.rc);
	wire_close(&w, o);
	bench_report_row(r, "wire, %s, RC %s, %u B, MTU %u, %u QP%s%s%s", bench_port_name[o->port],
			 bench_op_name[o->op], o->size, o->mtu, o->qps, o->qps == 1 ? "" : "s",
			 node_pair_far(r), equal ? "" : ": BYTES DIFFER");
	return equal ? 0 : 1;
}
