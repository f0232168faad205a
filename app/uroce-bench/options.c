/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench.h"

const char *const bench_op_name[BENCH_OPS] = {
	[BENCH_WRITE] = "write",
	[BENCH_SEND] = "send",
	[BENCH_READ] = "read",
	[BENCH_ATOMIC] = "atomic",
};

static const char usage[] =
	"usage: uroce-bench MODE [OPTION...]\n"
	"\n"
	"  engine   two engines back to back on one core, over net_ring: what the transport costs\n"
	"  limit    what CRC, copy and the port alone cost, at the frame sizes of the MTU\n"
	"\n"
	"  --op write|send|read|atomic   operation (write)\n"
	"  --size BYTES      of a message, 0 .. 8388608 (64); atomic: 8\n"
	"  --mtu BYTES       path MTU: 256 512 1024 2048 4096 (4096)\n"
	"  --qps N           connections, 1 .. 4096 (1)\n"
	"  --depth N         messages in flight on each, 1 .. 4096 (128)\n"
	"  --count N         messages of a run (as many as take about 50 ms)\n"
	"  --runs N          measurements of each figure, 1 .. 64 (9)\n"
	"  --sweep           every operation, sizes 8 B to 1 MiB\n"
	"  --no-probe        do not measure the distance of the cores (under valgrind)\n"
	"  --json            one JSON document instead of a table\n"
	"  --help\n";

static uint64_t
number(const char *option, const char *text, uint64_t least, uint64_t most)
{
	unsigned long long n;
	char *end;

	errno = 0;
	n = strtoull(text, &end, 0);
	if (errno != 0 || end == text || *end != '\0' || *text == '-' || n < least || n > most) {
		fprintf(stderr, "uroce-bench: --%s %s: must be %llu .. %llu\n", option, text,
			(unsigned long long)least, (unsigned long long)most);
		exit(2);
	}
	return n;
}

static enum bench_op
op_of(const char *text)
{
	for (unsigned i = 0; i < BENCH_OPS; i++)
		if (strcmp(text, bench_op_name[i]) == 0)
			return i;
	fprintf(stderr, "uroce-bench: --op %s: must be write, send, read or atomic\n", text);
	exit(2);
}

static uint32_t
mtu_of(const char *text)
{
	uint64_t n = number("mtu", text, 256, 4096);

	if ((n & (n - 1)) != 0) {
		fprintf(stderr, "uroce-bench: --mtu %s: must be 256, 512, 1024, 2048 or 4096\n",
			text);
		exit(2);
	}
	return (uint32_t)n;
}

void
bench_options_parse(struct bench_options *o, int argc, char **argv)
{
	static const struct option longs[] = {
		{"op", required_argument, NULL, 'o'},    {"size", required_argument, NULL, 's'},
		{"mtu", required_argument, NULL, 'm'},   {"qps", required_argument, NULL, 'q'},
		{"depth", required_argument, NULL, 'd'}, {"count", required_argument, NULL, 'n'},
		{"runs", required_argument, NULL, 'r'},  {"sweep", no_argument, NULL, 'a'},
		{"json", no_argument, NULL, 'j'},        {"help", no_argument, NULL, 'h'},
		{"no-probe", no_argument, NULL, 'p'},    {NULL, 0, NULL, 0},
	};
	int c;

	*o = (struct bench_options){.size = 64, .mtu = 4096, .qps = 1, .depth = 128, .runs = 9};
	while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		switch (c) {
		case 'o':
			o->op = op_of(optarg);
			break;
		case 's':
			o->size = (uint32_t)number("size", optarg, 0, 1 << 23);
			break;
		case 'm':
			o->mtu = mtu_of(optarg);
			break;
		case 'q':
			o->qps = (uint32_t)number("qps", optarg, 1, 4096);
			break;
		case 'd':
			o->depth = (uint32_t)number("depth", optarg, 1, 4096);
			break;
		case 'n':
			o->count = number("count", optarg, 1, UINT32_MAX);
			break;
		case 'r':
			o->runs = (uint32_t)number("runs", optarg, 1, BENCH_MAX_RUNS);
			break;
		case 'a':
			o->sweep = true;
			break;
		case 'p':
			o->no_probe = true;
			break;
		case 'j':
			o->json = true;
			break;
		case 'h':
			fputs(usage, stdout);
			exit(0);
		default:
			fputs("uroce-bench: --help tells what there is\n", stderr);
			exit(2);
		}
	}
	if (optind + 1 != argc) {
		fputs(usage, stderr);
		exit(2);
	}
	o->mode = argv[optind];
	if (o->op == BENCH_ATOMIC)
		o->size = 8;
}
