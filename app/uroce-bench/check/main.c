/* SPDX-License-Identifier: BSD-3-Clause */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "rcdata.h"

#define OPEN_WAIT_S 90
#define FIRST_LONG  256 /* getopt's value of the first row of rows[]; letters are below */

static struct options opt = {
	.tcp_port = 18515,
	.ib_port = 1,
	.gid_index = 1,
	.timeout = 16, /* eight of 0.27 s: tolerates a busy machine */
	.retry = 7,
	.stall_s = 60,
};
static struct plan plan = {
	.seed = 1,
	.ops = 1000,
	.bytes = 64 << 20,
	.qps = 4,
	.depth = 16,
	.max_len = 65536,
	.iters = 5000,
	.rounds = 5,
};

/* An option: text, a switch (most is 0), or a number in least .. most. */
static const struct {
	const char *name, *arg, *help;
	const char **text;
	void *number;
	size_t size; /* of the number's variable */
	uint64_t least, most;
	char letter;
} rows[] = {
#define NUMBER(member, low, high)                                                                  \
	.number = &(member), .size = sizeof(member), .least = low, .most = high
	{"dev", "NAME", "verbs device (the first one)", .text = &opt.dev, .letter = 'd'},
	{"ib-port", "N", "its port (1)", NUMBER(opt.ib_port, 1, 255), .letter = 'i'},
	{"gid-index", "N", "source GID (1)", NUMBER(opt.gid_index, 0, 255), .letter = 'g'},
	{"port", "N", "TCP port of the exchange (18515)", NUMBER(opt.tcp_port, 1, 65535),
	 .letter = 'p'},
	{"events", NULL, "sleep on a completion channel", NUMBER(opt.events, 1, 0), .letter = 'e'},
	{"timeout", "N", "local ACK timeout, 4.096 us x 2^N (16)", NUMBER(opt.timeout, 0, 31)},
	{"retry", "N", "retries before RETRY_EXC_ERR (7)", NUMBER(opt.retry, 0, 7)},
	{"stall", "S", "give up after S seconds without progress (60)",
	 NUMBER(opt.stall_s, 1, 3600)},
	{"json", NULL, "one line of JSON instead of a table", NUMBER(opt.json, 1, 0)},
	{NULL, NULL, "decided by the client:"},
	{"bench", NULL, "measure instead of checking random operations", NUMBER(plan.bench, 1, 0)},
	{"seed", "N", "seed of all random choices (1)", NUMBER(plan.seed, 0, UINT64_MAX)},
	{"qps", "N", "queue pairs, 1 .. 64 (4)", NUMBER(plan.qps, 1, MAX_QPS)},
	{"depth", "N", "requests in flight per queue pair (16)", NUMBER(plan.depth, 1, 4096)},
	{"ops", "N", "requests per queue pair and direction (1000)",
	 NUMBER(plan.ops, 1, UINT32_MAX)},
	{"duration", "MS", "post for this long instead, or until SIGUSR1 on each side",
	 NUMBER(plan.duration_ms, 1, 3600 * 1000)},
	{"max-len", "N", "longest message; the message length of --bench (65536)",
	 NUMBER(plan.max_len, 1, 1u << 31)},
	{"oneway", NULL, "only the client posts requests", NUMBER(plan.oneway, 1, 0)},
	{"mixed", NULL, "atomics, fences and solicited events too", NUMBER(plan.mixed, 1, 0)},
	{"srq", NULL, "receive from one shared receive queue", NUMBER(plan.srq, 1, 0)},
	{"mtu", "N", "path MTU 256 .. 4096 (the smaller of both ports')",
	 NUMBER(plan.mtu, 256, 4096)},
	{"bytes", "N", "bench: bytes per round (64 MiB)", NUMBER(plan.bytes, 1, 1ull << 36)},
	{"rounds", "N", "bench: rounds per operation (5); fewer if they take over 5 s",
	 NUMBER(plan.rounds, 1, 64)},
	{"iters", "N", "bench: ping-pong round trips (5000)",
	 NUMBER(plan.iters, 1, 10 * 1000 * 1000)},
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

static void
usage(FILE *out)
{
	fputs("usage: uroce-bench check [options] [HOST]      no HOST: wait for a client\n"
	      "Moves random data between two verbs devices and compares every byte.\n",
	      out);
	for (unsigned i = 0; i < ROWS; i++) {
		char name[32];

		if (rows[i].name == NULL) {
			fprintf(out, "%s\n", rows[i].help);
			continue;
		}
		snprintf(name, sizeof(name), "%s%s%s", rows[i].name, rows[i].arg != NULL ? " " : "",
			 rows[i].arg != NULL ? rows[i].arg : "");
		fprintf(out, "  %c%c%c --%-16s %s\n", rows[i].letter ? '-' : ' ',
			rows[i].letter ? rows[i].letter : ' ', rows[i].letter ? ',' : ' ', name,
			rows[i].help);
	}
	fputs("exit status: 0 success, 1 set-up failed or data differ, 3 completion error, 4 no "
	      "progress\n",
	      out);
}

static void
set(unsigned i)
{
	uint64_t n =
		rows[i].most == 0 ? 1 : option_number(rows[i].name, rows[i].least, rows[i].most);

	if (rows[i].text != NULL)
		*rows[i].text = optarg;
	else
		memcpy(rows[i].number, &n, rows[i].size); /* little endian */
}

static void
parse(int argc, char **argv)
{
	struct option longs[ROWS + 2] = {{"help", no_argument, NULL, 'h'}};
	unsigned n = 1;
	int c;

	for (unsigned i = 0; i < ROWS; i++)
		if (rows[i].name != NULL)
			longs[n++] = (struct option){rows[i].name,
						     rows[i].arg != NULL ? required_argument
									 : no_argument,
						     NULL, FIRST_LONG + (int)i};
	while ((c = getopt_long(argc, argv, "d:i:g:p:eh", longs, NULL)) != -1) {
		for (unsigned i = 0; i < ROWS; i++)
			if (rows[i].letter != 0 && c == rows[i].letter)
				c = FIRST_LONG + (int)i;
		if (c >= FIRST_LONG) {
			set((unsigned)c - FIRST_LONG);
			continue;
		}
		usage(c == 'h' ? stdout : stderr);
		exit(c == 'h' ? EXIT_GOOD : EXIT_BAD);
	}
	if (optind < argc)
		opt.host = argv[optind];
	if (plan.mtu != 0 && (plan.mtu = verbs_mtu(plan.mtu)) == 0)
		die("--mtu: must be 256, 512, 1024, 2048 or 4096");
	if (!plan.bench && plan.max_len > 1u << 30)
		die("--max-len %u: without --bench it must be 1 .. %u", plan.max_len, 1u << 30);
	if (plan.bench) {
		plan.qps = 1;
		plan.mixed = plan.srq = 0;
	}
}

int
main(int argc, char **argv)
{
	static struct endpoint ep;
	bool good;

	parse(argc, argv);
	ep.link = link_open(opt.host, opt.tcp_port, OPEN_WAIT_S);
	if (opt.host)
		link_send(ep.link, &plan, sizeof(plan));
	else
		link_recv(ep.link, &plan, sizeof(plan));
	endpoint_open(&ep, &opt, &plan);
	good = plan.bench ? bench_run(&ep, &opt, &plan) : check_run(&ep, &opt, &plan);
	endpoint_close(&ep);
	return good ? EXIT_GOOD : EXIT_BAD;
}
