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

const char *const bench_measure_name[BENCH_MEASURES] = {
	[BENCH_RATE] = "rate", [BENCH_LATENCY] = "latency", [BENCH_HOPS] = "hops",
	[BENCH_WAKE] = "wake", [BENCH_IDLE] = "idle",       [BENCH_MEMORY] = "memory",
};

static const char *const idle_name[] = {"poll", "adaptive"};

const char *const bench_port_name[BENCH_PORTS] = {
	[BENCH_PORT_MEMIF] = "memif",   [BENCH_PORT_VHOST] = "vhost",
	[BENCH_PORT_AF_XDP] = "af_xdp", [BENCH_PORT_AF_PACKET] = "af_packet",
	[BENCH_PORT_RING] = "ring",
};

static const char usage[] =
	"usage: uroce-bench MODE [OPTION...]\n"
	"\n"
	"  engine   two engines back to back on one core, over net_ring: what the transport costs\n"
	"  client   verbs programs on a daemon: what they get of it\n"
	"  limit    what CRC and copy alone cost, between a message of --size and the buffers\n"
	"           of a burst of packets; with --port, frames alone over it\n"
	"  wire     two processes, a worker on a core each, and a port between them (root)\n"
	"  probe    how far the cores are from each other, how fast each is; nothing else\n"
	"  versus   the same transfer by what a user would take instead; --help tells more\n"
	"  report   every goal and what is reached of it; --help tells more\n"
	"\n"
	"  --op write|send|read|atomic   operation (write)\n"
	"  --size BYTES      of a message, 0 .. 8388608 (64); atomic: 8\n"
	"  --mtu BYTES       path MTU: 256 512 1024 2048 4096 (4096)\n"
	"  --qps N           connections, 1 .. 4096 (1)\n"
	"  --depth N         messages in flight on each, 1 .. 4096 (128)\n"
	"  --count N         messages of a run (as many as take about 50 ms)\n"
	"  --runs N          measurements of each figure, 1 .. 64 (9)\n"
	"  --sweep           every operation, sizes 8 B to 1 MiB\n"
	"  --port memif|vhost|af_xdp|af_packet|ring   limit, wire: the port between them\n"
	"  --run-ms N        wire, limit of a port: a measurement's time, 5 .. 10000 (50)\n"
	"  --through testpmd wire: a dpdk-testpmd forwards between the two, over two memifs\n"
	"  --versus-limit    wire: and the limit model of the same port, with the ratio\n"
	"  --versus-testpmd  wire, limit: and a dpdk-testpmd on such a port, with the ratio\n"
	"  --no-probe        do not measure the cores' distance and speed (under valgrind)\n"
	"  --no-huge         do not use huge pages (under valgrind)\n"
	"  --json            one JSON document instead of a table\n"
	"\n"
	" of mode client:\n"
	"  --measure WHAT    rate: of messages, many in flight (the default)\n"
	"                    latency: one at a time; SEND there and back, half of it\n"
	"                    hops: to the worker and back, no packet made: a window unbound\n"
	"                    wake: one message after 100 ms of silence\n"
	"                    idle: CPU time of the daemon when nothing is sent\n"
	"                    memory: of daemon and client, a QP; queues are as deep as --depth\n"
	"  --clients N       processes that post, each with --qps connections, 1 .. 64 (1)\n"
	"  --batch N         messages of one post, the last signaled, 1 .. 64 (a quarter of the\n"
	"                    depth, 16 at most)\n"
	"  --apart           the other end of the connections in processes of its own\n"
	"  --loss PERCENT    rate with so many of the frames either way lost, and of it the share\n"
	"                    of the rate without loss; between uroce0 and uroce1, both of one\n"
	"                    daemon, or between --dev and --peer-dev\n"
	"  --idle POLICY     of the daemon: poll or adaptive (poll)\n"
	"  --socket PATH     a daemon that is there, instead of one of our own\n"
	"  --dev NAME        the device (the first)\n"
	"  --peer-socket PATH, --peer-dev NAME   daemon and device of the other end (the same)\n"
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

/* Which of names[0 .. n) text is; else says so and exits. */
static unsigned
choice(const char *option, const char *text, const char *const *names, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (strcmp(text, names[i]) == 0)
			return i;
	fprintf(stderr, "uroce-bench: --%s %s: must be", option, text);
	for (unsigned i = 0; i < n; i++)
		fprintf(stderr, "%s %s", i == 0 ? "" : i + 1 < n ? "," : " or", names[i]);
	fputc('\n', stderr);
	exit(2);
}

static enum bench_port
port_of(const char *text)
{
	for (unsigned i = BENCH_PORT_NONE + 1; i < BENCH_PORTS; i++)
		if (strcmp(text, bench_port_name[i]) == 0)
			return i;
	fprintf(stderr, "uroce-bench: --port %s: must be memif, vhost, af_xdp, af_packet or ring\n",
		text);
	exit(2);
}

static bool
through_of(const char *text)
{
	if (strcmp(text, "testpmd") == 0)
		return true;
	fprintf(stderr, "uroce-bench: --through %s: must be testpmd\n", text);
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

static double
percent_of(const char *text)
{
	char *end;
	double p = strtod(text, &end);

	if (end == text || *end != '\0' || !(p > 0 && p < 100)) {
		fprintf(stderr, "uroce-bench: --loss %s: must be above 0 and below 100 percent\n",
			text);
		exit(2);
	}
	return p;
}

static const struct option longs[] = {
	{"op", required_argument, NULL, 'o'},       {"size", required_argument, NULL, 's'},
	{"mtu", required_argument, NULL, 'm'},      {"qps", required_argument, NULL, 'q'},
	{"depth", required_argument, NULL, 'd'},    {"count", required_argument, NULL, 'n'},
	{"runs", required_argument, NULL, 'r'},     {"sweep", no_argument, NULL, 'a'},
	{"json", no_argument, NULL, 'j'},           {"help", no_argument, NULL, 'h'},
	{"no-probe", no_argument, NULL, 'p'},       {"measure", required_argument, NULL, 'M'},
	{"clients", required_argument, NULL, 'C'},  {"batch", required_argument, NULL, 'B'},
	{"apart", no_argument, NULL, 'A'},          {"loss", required_argument, NULL, 'l'},
	{"idle", required_argument, NULL, 'I'},     {"socket", required_argument, NULL, 'S'},
	{"dev", required_argument, NULL, 'D'},      {"peer-socket", required_argument, NULL, 'T'},
	{"peer-dev", required_argument, NULL, 'E'}, {"port", required_argument, NULL, 'P'},
	{"run-ms", required_argument, NULL, 't'},   {"through", required_argument, NULL, 'U'},
	{"versus-limit", no_argument, NULL, 'L'},   {"versus-testpmd", no_argument, NULL, 'V'},
	{"no-huge", no_argument, NULL, 'H'},        {NULL, 0, NULL, 0},
};

/* Options of modes limit and wire. False: c is none of them. */
static bool
port_option(struct bench_options *o, int c)
{
	switch (c) {
	case 'P':
		o->port = port_of(optarg);
		break;
	case 't':
		o->run_ms = (uint32_t)number("run-ms", optarg, 5, 10000);
		break;
	case 'U':
		o->through_testpmd = through_of(optarg);
		break;
	case 'L':
		o->versus_limit = true;
		break;
	case 'V':
		o->versus_testpmd = true;
		break;
	default:
		return false;
	}
	return true;
}

/* Options of mode client. False: c is none of them. */
static bool
client_option(struct bench_options *o, int c)
{
	switch (c) {
	case 'M':
		o->measure = choice("measure", optarg, bench_measure_name, BENCH_MEASURES);
		break;
	case 'C':
		o->clients = (uint32_t)number("clients", optarg, 1, 64);
		break;
	case 'B':
		o->batch = (uint32_t)number("batch", optarg, 1, 64);
		break;
	case 'A':
		o->apart = true;
		break;
	case 'l':
		o->loss = percent_of(optarg);
		break;
	case 'I':
		o->adaptive = choice("idle", optarg, idle_name, 2) == 1;
		break;
	case 'S':
		o->socket = optarg;
		break;
	case 'D':
		o->dev = optarg;
		break;
	case 'T':
		o->peer_socket = optarg;
		break;
	case 'E':
		o->peer_dev = optarg;
		break;
	default:
		return false;
	}
	return true;
}

void
bench_options_parse(struct bench_options *o, int argc, char **argv)
{
	int c;

	*o = (struct bench_options){.size = 64,
				    .mtu = 4096,
				    .qps = 1,
				    .depth = 128,
				    .runs = 9,
				    .clients = 1,
				    .run_ms = 50};
	while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		switch (c) {
		case 'o':
			o->op = choice("op", optarg, bench_op_name, BENCH_OPS);
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
		case 'H':
			o->no_huge = true;
			break;
		case 'j':
			o->json = true;
			break;
		case 'h':
			fputs(usage, stdout);
			exit(0);
		default:
			if (port_option(o, c) || client_option(o, c))
				break;
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
	if (o->loss > 0) { /* frames that loop back are not lost */
		o->dev = o->dev != NULL ? o->dev : "uroce0";
		o->peer_dev = o->peer_dev != NULL ? o->peer_dev : "uroce1";
	}
}
