/* SPDX-License-Identifier: BSD-3-Clause */
/* What no transport can be quicker than: CRC and copy of the bytes, a port's bursts. */
#include <stdio.h>
#include <string.h>
#include <rte_cycles.h>
#include "bench.h"
#include "wire/hdr.h"
#include "wire/icrc.h"

#define HOT_BYTES (64 * 1024) /* what is gone over: fits the second cache */

static uint8_t hot[2 * HOT_BYTES] __attribute__((aligned(64)));

/* ns of one call over len bytes, the best of five sweeps. */
static double
best_ns(void (*call)(uint32_t off, uint32_t len), uint32_t len)
{
	uint32_t step = (len + 63) & ~63u, turns = 1 + 2000000 / (len + 200);
	uint64_t best = UINT64_MAX;

	for (unsigned k = 0; k < 5; k++) {
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

double
bench_limit_rate(double port_rate, uint32_t payload)
{
	/* with the payload: BTH and RETH of a WRITE */
	return 1e9 / (1e9 / port_rate + bench_crc_ns(payload + 28) + bench_copy_ns(payload));
}

int
bench_limit(const struct bench_options *o, struct bench_report *r)
{
	static const uint32_t sizes[] = {64, 256, 512, 1024, 2048, 4096};

	if (o->port != BENCH_PORT_NONE)
		return bench_limit_port(o, r);
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct bench_figure crc = {.n = 0}, copy = {.n = 0}, both = {.n = 0};
		char name[32];

		if (sizes[i] > o->mtu)
			break;
		for (uint32_t k = 0; k < o->runs; k++) {
			double a = bench_crc_ns(sizes[i]), b = bench_copy_ns(sizes[i]);

			bench_figure_add(&crc, a);
			bench_figure_add(&copy, b);
			bench_figure_add(&both, sizes[i] * 8 / (a + b));
		}
		snprintf(name, sizeof(name), "memory, %u B", sizes[i]);
		bench_report_row(r, name, "crc", &crc, "ns", "copy", &copy, "ns", "both", &both,
				 "Gb/s", NULL);
	}
	return 0;
}
