/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>
#include "bench.h"
#include "cli/cli.h"
#include "client.h"
#include "connect.h"
#include "node_pair.h"
#include "scale.h"

/* DPDK on one core. */
static void
eal_start(const struct bench_options *o, char **plain)
{
	bench_eal_start(o->no_huge, "0", BENCH_EAL_MIB, plain);
}

static const struct {
	const char *name;
	int (*run)(const struct bench_options *o, struct bench_report *r);
	void (*eal)(const struct bench_options *o, char **plain); /* NULL: needs no DPDK */
} modes[] = {
	{"engine", bench_engine, eal_start},     {"client", bench_client, eal_start},
	{"limit", bench_limit, eal_start},       {"probe", bench_probe, NULL},
	{"wire", bench_wire, eal_start},         {"connect", bench_connect, NULL},
	{"scale", bench_scale, scale_eal_start},
};

int
main(int argc, char **argv)
{
	static char **plain; /* the command line of execv */
	struct bench_options o;
	int status = bench_script(argc, argv);

	if (status != 0)
		return status;
	if (argc > 1 && strcmp(argv[1], CLIENT_MODE) == 0)
		return client_main(argc, argv);
	if (argc > 1 && strcmp(argv[1], CONNECT_MODE) == 0)
		return connect_main(argc, argv);
	if (argc == 4 && strcmp(argv[1], "node") == 0)
		return node_main(argv[2], argv[3]);
	plain = cli_args_with(argc, argv, "--no-huge");
	bench_options_parse(&o, argc, argv);
	client_host_init();
	node_net_check_options(&o);
	scale_check_options(&o);
	if (o.port != BENCH_PORT_NONE)
		node_net_open();
	for (unsigned i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		struct bench_report *r;
		int rc;

		if (strcmp(o.mode, modes[i].name) != 0)
			continue;
		if (modes[i].eal != NULL)
			modes[i].eal(&o, plain);
		r = bench_report_start(&o);
		rc = modes[i].run(&o, r);
		bench_report_end(r);
		return rc;
	}
	cli_wrong(&bench_program, "unknown mode %s (--help lists them)", o.mode);
}
