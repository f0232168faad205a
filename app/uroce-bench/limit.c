/* SPDX-License-Identifier: BSD-3-Clause */
/* Lower bounds for any transport: CRC and copy of the bytes, and a port's bursts. */
#include <string.h>
#include <sys/mman.h>
#include <rte_common.h>
#include <rte_cycles.h>
#include "node_pair.h"
#include "wire/hdr.h"
#include "wire/icrc.h"

#define HOT_BYTES    (64 * 1024) /* memory in use: fits the L2 cache */
#define MIN_MESSAGE  (64 * 1024) /* memory of smaller messages */
#define PACKETS      64          /* built between two bursts to the port */
#define PACKET_BYTES 8704        /* distance of the buffers of a pool */
#define PAYLOAD_AT   (128 + 54)  /* offset in a buffer: headroom, then Ethernet to BTH */
#define SWEEPS       5
#define OVERHEAD     74u /* of a WRITE of one packet, Ethernet to ICRC */

static const uint32_t sizes[] = {64, 256, 512, 1024, 2048, 4096};

static uint8_t hot[2 * HOT_BYTES] __attribute__((aligned(64)));

/* ns of one call over len bytes, the best of five sweeps. */
static double
best_ns(void (*call)(uint32_t off, uint32_t len), uint32_t len)
{
	uint32_t step = (len + 63) & ~63u, turns = 1 + 2000000 / (len + 200);
	uint64_t best = UINT64_MAX;

	for (unsigned k = 0; k < SWEEPS; k++) {
		uint64_t start = rte_rdtsc_precise();
		uint32_t off = 0;

		for (uint32_t i = 0; i < turns; i++) {
			call(off, len);
			off += step;
			if (off + len > HOT_BYTES)
				off = 0;
		}
		start = rte_rdtsc_precise() - start;
		best = start < best ? start : best;
	}
	return bench_ns(best) / turns;
}

static volatile uint32_t crc_sink;

static void
crc_once(uint32_t off, uint32_t len)
{
	crc_sink = wire_icrc_update(crc_sink, hot + off, len);
}

static void
copy_once(uint32_t off, uint32_t len)
{
	memcpy(hot + HOT_BYTES + off, hot + off, len);
	__asm__ volatile("" ::: "memory");
}

double
bench_crc_ns(uint32_t len)
{
	return best_ns(crc_once, len);
}

double
bench_copy_ns(uint32_t len)
{
	return best_ns(copy_once, len);
}

/* Memory as in a transfer: a message and the buffers of its packets. */
struct pages {
	uint8_t *message, *packets;
	uint32_t message_bytes;
};

/* Populated ordinary pages, as clients and the nodes of mode "wire" have. */
static uint8_t *
pages_map(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (p == MAP_FAILED)
		bench_die("no memory for %zu bytes", bytes);
	return p;
}

static struct pages
pages_open(uint32_t message)
{
	struct pages p = {.message_bytes = RTE_MAX(message, (uint32_t)MIN_MESSAGE)};

	p.message = pages_map(p.message_bytes);
	p.packets = pages_map(PACKETS * PACKET_BYTES);
	return p;
}

static void
pages_close(struct pages *p)
{
	munmap(p->message, p->message_bytes);
	munmap(p->packets, PACKETS * PACKET_BYTES);
}

/* ns for a packet of payload bytes: copy from the message, CRC, or both. */
static double
packet_ns(const struct pages *p, uint32_t payload, bool copy, bool crc)
{
	uint32_t step = (payload + 63) & ~63u, turns = p->message_bytes / step;
	uint64_t best = UINT64_MAX;
	uint32_t sum = crc_sink;

	turns = RTE_MAX(turns, 1 + 2000000 / (payload + 200));
	for (unsigned k = 0; k < SWEEPS; k++) {
		uint64_t start = rte_rdtsc_precise();
		uint32_t off = 0;

		for (uint32_t i = 0; i < turns; i++) {
			uint8_t *at =
				p->packets + (size_t)(i % PACKETS) * PACKET_BYTES + PAYLOAD_AT;

			if (copy)
				memcpy(at, p->message + off, payload);
			if (crc)
				sum = wire_icrc_update(sum, at - BENCH_CRC_HEADERS,
						       payload + BENCH_CRC_HEADERS);
			__asm__ volatile("" ::: "memory");
			off += step;
			if (off + payload > p->message_bytes)
				off = 0;
		}
		start = rte_rdtsc_precise() - start;
		best = start < best ? start : best;
	}
	crc_sink = sum;
	return bench_ns(best) / turns;
}

double
bench_packet_ns(uint32_t payload, uint32_t message)
{
	struct pages p = pages_open(message);
	double ns = packet_ns(&p, payload, true, true);

	pages_close(&p);
	return ns;
}

/* Frames alone between two processes, in the sizes of each path MTU. */
static void
limit_port(const struct bench_options *o, struct bench_report *r)
{
	struct node_pair p;

	node_pair_open(&p, o, NODE_ONEWAY, 0);
	for (unsigned i = 0; i < RTE_DIM(sizes) && sizes[i] <= o->mtu; i++) {
		uint32_t frame = sizes[i] + OVERHEAD;

		for (uint32_t k = 0; k < o->runs; k++) {
			struct node_pair_sample s;
			double packet_ns;

			node_pair_run(&p, NODE_ONEWAY, frame, &s);
			packet_ns = 1e9 / s.rate + bench_packet_ns(sizes[i], o->size);
			bench_add(r, "oneway", "M/s", s.rate * 1e-6);
			bench_add(r, "oneway_bits", "Gb/s", s.rate * frame * 8e-9);
			bench_add(r, "with_crc_and_copy", "Gb/s", sizes[i] * 8 / packet_ns);
			bench_add(r, "distance", "ns", s.distance_ns);
			bench_add(r, "core_speed", "ns", s.speed_ns);
		}
		bench_report_row(r, "port, %s, frames of %u B (payload %u B)%s",
				 bench_port_name[o->port], frame, sizes[i], node_pair_far(r));
	}
	node_pair_close(&p);
}

int
bench_limit(const struct bench_options *o, struct bench_report *r)
{
	struct pages p;

	if (o->measure == BENCH_LATENCY) {
		bench_limit_latency(o, r);
		return 0;
	}
	if (o->port != BENCH_PORT_NONE) {
		limit_port(o, r);
		return 0;
	}
	p = pages_open(o->size);
	for (unsigned i = 0; i < RTE_DIM(sizes) && sizes[i] <= o->mtu; i++) {
		for (uint32_t k = 0; k < o->runs; k++) {
			double ns = packet_ns(&p, sizes[i], true, true);

			bench_add(r, "crc", "ns", packet_ns(&p, sizes[i], false, true));
			bench_add(r, "copy", "ns", packet_ns(&p, sizes[i], true, false));
			bench_add(r, "packet", "ns", ns);
			bench_add(r, "both", "Gb/s", sizes[i] * 8 / ns);
			bench_add(r, "hot_crc", "ns", bench_crc_ns(sizes[i]));
			bench_add(r, "hot_copy", "ns", bench_copy_ns(sizes[i]));
		}
		bench_report_row(r, "memory, %u B, between %u KiB of message and %u packet buffers",
				 sizes[i], p.message_bytes / 1024, PACKETS);
	}
	pages_close(&p);
	return 0;
}
