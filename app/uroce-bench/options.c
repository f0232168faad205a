/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>
#include "bench.h"
#include "client.h"
#include "node.h"
#include "uroce_abi/wr.h"

const char *const bench_op_name[BENCH_OPS + 1] = {
	[BENCH_WRITE] = "write",
	[BENCH_SEND] = "send",
	[BENCH_READ] = "read",
	[BENCH_ATOMIC] = "atomic",
};

const uint8_t bench_opcode[BENCH_OPS] = {
	[BENCH_WRITE] = UROCE_WR_RDMA_WRITE,
	[BENCH_SEND] = UROCE_WR_SEND,
	[BENCH_READ] = UROCE_WR_RDMA_READ,
	[BENCH_ATOMIC] = UROCE_WR_ATOMIC_FETCH_ADD,
};

const char *const bench_measure_name[BENCH_MEASURES + 1] = {
	[BENCH_RATE] = "rate", [BENCH_LATENCY] = "latency", [BENCH_WAKE] = "wake",
	[BENCH_IDLE] = "idle", [BENCH_MEMORY] = "memory",
};

const char *const bench_port_name[BENCH_PORTS + 1] = {
	[BENCH_PORT_EAL] = "EAL",
	[BENCH_PORT_MEMIF] = "memif",
	[BENCH_PORT_VHOST] = "vhost",
	[BENCH_PORT_AF_XDP] = "af_xdp",
	[BENCH_PORT_AF_PACKET] = "af_packet",
	[BENCH_PORT_UDP] = "udp",
	[BENCH_PORT_PACKET] = "packet",
};

static const char *const through_names[] = {"testpmd", NULL};
static const char *const idle_names[] = {"poll", "adaptive", NULL};

static bool
take_percent(void *member, const char *text)
{
	char *end;
	double p = strtod(text, &end);

	*(double *)member = p;
	return end != text && *end == '\0' && p > 0 && p < 100;
}

static bool
take_cpus(void *member, const char *text)
{
	struct bench_cpus *cpus = member;
	char *end;

	for (cpus->n = 0; cpus->n < BENCH_MAX_CPUS && *text >= '0' && *text <= '9';
	     text = end + 1) {
		cpus->v[cpus->n++] = (unsigned)strtoul(text, &end, 10);
		if (*end != ',')
			return *end == '\0';
	}
	return false;
}

void
bench_cpus_check(const struct bench_options *o, unsigned n, const char *what)
{
	if (o->cpus.n != 0 && o->cpus.n != n)
		cli_wrong(&bench_program, "mode %s: --cpus: must be %u CPUs: %s", o->mode, n, what);
	for (unsigned i = 0; i < o->cpus.n; i++)
		if (!client_may_use(o->cpus.v[i]))
			cli_wrong(&bench_program,
				  "mode %s: --cpus: must be %u CPUs: %s: this program may not use "
				  "CPU %u",
				  o->mode, n, what, o->cpus.v[i]);
}

#define ROW(option, kind, member) .name = option, .type = kind, CLI_AT(struct bench_options, member)
#define NUMBER(option, member, unit, least, most, preset, text)                                    \
	{                                                                                          \
		ROW(option, CLI_NUMBER, member), .arg = unit, .min = least, .max = most,           \
						 .def = preset, .help = text                       \
	}
#define SWITCH(option, member, text)                                                               \
	{                                                                                          \
		ROW(option, CLI_SWITCH, member), .help = text                                      \
	}
#define TEXT(option, member, what, text)                                                           \
	{                                                                                          \
		ROW(option, CLI_TEXT, member), .arg = what, .help = text                           \
	}
#define HEADING(text)                                                                              \
	{                                                                                          \
		.name = "", .type = CLI_HEADING, .help = text                                      \
	}

const struct cli_field bench_fields[] = {
	{ROW("op", CLI_CHOICE, op), .arg = "OP", .names = bench_op_name, .def = "write",
	 .help = "operation; an atomic moves 8 bytes"},
	NUMBER("size", size, "BYTES", 0, 1 << 23, "64", "of a message"),
	{ROW("policy", CLI_TEXT, policy), .arg = "POLICY",
	 .help = "engine: congestion policy, NAME:parameter=value:.. (as urocectl cc set) [fixed]"},
	{ROW("mtu", CLI_POWER2, mtu), .arg = "BYTES", .min = 256, .max = 4096, .def = "4096",
	 .help = "path MTU, a power of two"},
	NUMBER("qps", qps, "N", 1, 4096, NULL, "connections [1; mode scale: 16 for each worker]"),
	NUMBER("depth", depth, "N", 1, 4096, NULL,
	       "messages in flight on each [128; mode scale: 16]"),
	NUMBER("count", count, "N", 1, UINT32_MAX, NULL,
	       "messages of a run; default: as many as take about 50 ms"),
	NUMBER("runs", runs, "N", 1, BENCH_MAX_RUNS, "9", "measurements of each figure"),
	SWITCH("sweep", sweep, "every operation, sizes 8 B to 1 MiB"),
	SWITCH("no-probe", no_probe,
	       "do not measure the cores' distance and speed (under valgrind)"),
	SWITCH("no-huge", no_huge, "do not use huge pages (under valgrind)"),
	SWITCH("json", json, "one JSON document instead of a table"),
	{ROW("quiet", CLI_SWITCH, quiet), .letter = 'q',
	 .help = "do not print progress (printed on terminals only)"},
	HEADING("Modes wire and latency:"),
	{ROW("port", CLI_CHOICE, port), .arg = "KIND", .names = bench_port_name + BENCH_PORT_MEMIF,
	 .min = BENCH_PORT_MEMIF,
	 .help = "the port between the two processes; mode latency: memif, af_packet, udp or\n"
		 "packet between two daemons [one daemon with two devices on --pair]"},
	{ROW("allow", CLI_LIST, allow), .arg = "PCI",
	 .help = "wire, instead of --port: a PCI device by its address, as uroced's; give two\n"
		 "that a cable joins, or that reach each other. The first sends"},
	{ROW("vdev", CLI_LIST, vdev), .arg = "VDEV",
	 .help = "wire: any other port of DPDK, as uroced's, in the place of a --allow"},
	{ROW("through", CLI_CHOICE, through), .arg = "PROGRAM", .names = through_names, .min = 1,
	 .help = "wire: all packets pass a dpdk-testpmd (testpmd) that forwards them. It also\n"
		 "forwards frames of testpmd of the same length, for comparison"},
	NUMBER("link-mtu", link_mtu, "BYTES", 576, 65535, NULL,
	       "MTU of the interface below the port; default: as --mtu needs"),
	NUMBER("run-ms", run_ms, "MS", 5, 10000, "50", "duration of a measurement over a port"),
	HEADING("Mode latency:"),
	SWITCH("breakdown", breakdown,
	       "the time of each step of a message, at both ends: median and p99"),
	{ROW("cpus", CLI_OTHER, cpus), .arg = "LIST", .take = take_cpus,
	 .legal = "a list of at most 4 CPUs, like 0,2,3",
	 .help = "CPUs of worker,client,worker,client; --pair: worker,client,client;\n"
		 "--socket: client,client [one each if there are enough, else one for each end]"},
	HEADING("Mode scale (and --run-ms):"),
	TEXT("workers", workers, "LIST",
	     "numbers of workers, each on a CPU [1,2,4 .. and all CPUs]"),
	{ROW("handed-over", CLI_NUMBER, split), .arg = "PERCENT", .max = 100,
	 .given = offsetof(struct bench_options, split_given),
	 .help = "share of the connections whose packets arrive at another worker than\n"
		 "their QP's; 0: do not measure it [as with a random queue]"},
	SWITCH("lines", lines,
	       "count the cache lines that two workers write, with all packets on the\n"
	       "right queue; measure no rates. The exit status is 1 if there are any"),
	HEADING("Mode connect:"),
	NUMBER("live", live, "N", 0, 20000, "0",
	       "also measure with this many other connections alive"),
	SWITCH("no-qps", no_qps,
	       "these have no queue pairs, and nothing else is measured:\n"
	       "memory is that of the two ids; needs --live"),
	HEADING("Mode client (and latency, from --socket on):"),
	{ROW("measure", CLI_CHOICE, measure), .arg = "WHAT", .names = bench_measure_name,
	 .def = "rate",
	 .help = "rate: messages per second, many in flight\n"
		 "latency: one at a time; for SEND half of the round trip\n"
		 "wake: one message after 100 ms of silence\n"
		 "idle: CPU time of the daemon when nothing is sent\n"
		 "memory: of daemon and client, per QP; queues are as deep as --depth"},
	NUMBER("clients", clients, "N", 1, 64, "1",
	       "processes that post, each with --qps connections"),
	NUMBER("batch", batch, "N", 1, 64, NULL,
	       "messages per post, the last signaled;\n"
	       "default: a quarter of the depth, at most 16"),
	SWITCH("apart", apart, "the other end of the connections in separate processes"),
	{ROW("loss", CLI_OTHER, loss), .arg = "PERCENT", .take = take_percent,
	 .legal = "a percentage above 0 and below 100",
	 .help = "the rate when this share of the frames is lost each way, and its share of the\n"
		 "rate without loss; between uroce0 and uroce1 of one daemon, or between --dev\n"
		 "and --peer-dev. Mode engine: the cost with selective repeat while this share\n"
		 "is lost; the same frames in every run"},
	{ROW("idle", CLI_CHOICE, adaptive), .arg = "POLICY", .names = idle_names, .def = "poll",
	 .help = "idle policy of the daemon"},
	TEXT("dev-options", options, "LIST",
	     "for --dev of the new daemon's devices, such as sr=on,cc=dcqcn"),
	TEXT("socket", socket, "PATH", "a running daemon, instead of a new one"),
	TEXT("dev", dev, "NAME", "the device [the first]"),
	TEXT("peer-socket", peer_socket, "PATH", "daemon of the other end [the same]"),
	TEXT("peer-dev", peer_dev, "NAME", "device of the other end [the same]"),
	HEADING("All:"),
	{NULL},
};

void
bench_options_parse(struct bench_options *o, int argc, char **argv)
{
	bool scale;
	int words;

	*o = (struct bench_options){0};
	words = cli_parse(&bench_program, o, argc, argv);
	if (words != 1)
		cli_wrong(&bench_program, words == 0
						  ? "no mode given (--help lists them)"
						  : "more than one mode given (--help lists them)");
	o->mode = argv[1];
	scale = strcmp(o->mode, "scale") == 0;
	o->qps = o->qps != 0 ? o->qps : scale ? 16 : 1;
	o->depth = o->depth != 0 ? o->depth : scale ? 16 : 128;
	if (!scale && (o->workers != NULL || o->split_given || o->lines))
		cli_wrong(&bench_program,
			  "--workers, --handed-over, --lines: only with mode scale");
	if (o->allow.n + o->vdev.n != 0) {
		if (o->port != BENCH_PORT_NONE)
			cli_wrong(&bench_program, "--port and --allow or --vdev: only one of them");
		o->port = BENCH_PORT_EAL;
	}
	if (o->policy != NULL && strcmp(o->mode, "engine") != 0)
		cli_wrong(&bench_program, "--policy: only with mode engine");
	if (o->op == BENCH_ATOMIC)
		o->size = 8;
	if (o->loss > 0) { /* frames that loop back are not lost */
		o->dev = o->dev != NULL ? o->dev : "uroce0";
		o->peer_dev = o->peer_dev != NULL ? o->peer_dev : "uroce1";
	}
}

void
bench_eal_one(const struct bench_options *o, char **plain)
{
	char lcores[16];

	snprintf(lcores, sizeof(lcores), "0@%u", client_cpu(0));
	bench_eal_start(o->no_huge, lcores, BENCH_EAL_MIB, plain);
}

int
bench_main(int argc, char **argv)
{
	static char **plain; /* the command line of execv */
	const struct bench_mode *m = bench_modes;
	struct bench_options o;
	struct bench_report *r;
	int rc = 0;

	plain = cli_args_with(argc, argv, "--no-huge");
	bench_options_parse(&o, argc, argv);
	while (m->name != NULL && strcmp(o.mode, m->name) != 0)
		m++;
	if (m->name == NULL)
		cli_wrong(&bench_program, "unknown mode %s (--help lists them)", o.mode);
	client_host_init();
	if (m->check != NULL)
		m->check(&o);
	if (o.port != BENCH_PORT_NONE)
		node_net_open(o.port);
	if (m->eal != NULL)
		m->eal(&o, plain);
	r = bench_report_start(&o);
	if (m->run != NULL) /* the report always contains the cores */
		rc = m->run(&o, r);
	bench_report_end(r);
	return rc;
}
