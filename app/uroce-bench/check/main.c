/* SPDX-License-Identifier: BSD-3-Clause */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "rcdata.h"

#define OPEN_WAIT_S 90

static const char usage[] =
	"usage: uroce-bench check [options] [HOST]      no HOST: wait for a client\n"
	"Moves random data between two verbs devices and compares every byte.\n"
	"  -d, --dev NAME       verbs device (the first one)\n"
	"  -i, --ib-port N      its port (1)\n"
	"  -g, --gid-index N    source GID (1)\n"
	"  -p, --port N         TCP port of the exchange (18515)\n"
	"  -e, --events         sleep on a completion channel\n"
	"      --timeout N      local ACK timeout, 4.096 us x 2^N (16)\n"
	"      --retry N        retries before RETRY_EXC_ERR (7)\n"
	"      --stall S        give up after S seconds without progress (20)\n"
	"      --json           one line of JSON instead of a table\n"
	"decided by the client:\n"
	"      --bench          measure instead of checking random operations\n"
	"      --seed N         seed of all random choices (1)\n"
	"      --qps N          queue pairs, 1 .. 64 (4)\n"
	"      --depth N        requests in flight per queue pair (16)\n"
	"      --ops N          requests per queue pair and direction (1000)\n"
	"      --duration MS    post for this long instead, or until SIGUSR1 on each side\n"
	"      --max-len N      longest message; the message length of --bench (65536)\n"
	"      --oneway         only the client posts requests\n"
	"      --mixed          atomics, fences and solicited events too\n"
	"      --srq            receive from one shared receive queue\n"
	"      --mtu N          path MTU 256 .. 4096 (the smaller of both ports')\n"
	"      --bytes N        bench: bytes per round (64 MiB)\n"
	"      --rounds N       bench: rounds per operation (5); fewer if they take over 5 s\n"
	"      --iters N        bench: ping-pong round trips (5000)\n"
	"exit status: 0 success, 1 set-up failed or data differ, 3 completion error, 4 no "
	"progress\n";

enum {
	OPT_TIMEOUT = 256,
	OPT_RETRY,
	OPT_STALL,
	OPT_JSON,
	OPT_BENCH,
	OPT_SEED,
	OPT_QPS,
	OPT_DEPTH,
	OPT_OPS,
	OPT_DURATION,
	OPT_MAX_LEN,
	OPT_ONEWAY,
	OPT_MIXED,
	OPT_SRQ,
	OPT_MTU,
	OPT_BYTES,
	OPT_ROUNDS,
	OPT_ITERS,
};

static const struct option long_options[] = {
	{"dev", required_argument, NULL, 'd'},
	{"ib-port", required_argument, NULL, 'i'},
	{"gid-index", required_argument, NULL, 'g'},
	{"port", required_argument, NULL, 'p'},
	{"events", no_argument, NULL, 'e'},
	{"help", no_argument, NULL, 'h'},
	{"timeout", required_argument, NULL, OPT_TIMEOUT},
	{"retry", required_argument, NULL, OPT_RETRY},
	{"stall", required_argument, NULL, OPT_STALL},
	{"json", no_argument, NULL, OPT_JSON},
	{"bench", no_argument, NULL, OPT_BENCH},
	{"seed", required_argument, NULL, OPT_SEED},
	{"qps", required_argument, NULL, OPT_QPS},
	{"depth", required_argument, NULL, OPT_DEPTH},
	{"ops", required_argument, NULL, OPT_OPS},
	{"duration", required_argument, NULL, OPT_DURATION},
	{"max-len", required_argument, NULL, OPT_MAX_LEN},
	{"oneway", no_argument, NULL, OPT_ONEWAY},
	{"mixed", no_argument, NULL, OPT_MIXED},
	{"srq", no_argument, NULL, OPT_SRQ},
	{"mtu", required_argument, NULL, OPT_MTU},
	{"bytes", required_argument, NULL, OPT_BYTES},
	{"rounds", required_argument, NULL, OPT_ROUNDS},
	{"iters", required_argument, NULL, OPT_ITERS},
	{0},
};

static bool
parse_own(int c, struct options *opt)
{
	switch (c) {
	case 'd':
		opt->dev = optarg;
		break;
	case 'i':
		opt->ib_port = option_number("ib-port", 1, 255);
		break;
	case 'g':
		opt->gid_index = option_number("gid-index", 0, 255);
		break;
	case 'p':
		opt->tcp_port = option_number("port", 1, 65535);
		break;
	case 'e':
		opt->events = true;
		break;
	case OPT_TIMEOUT:
		opt->timeout = option_number("timeout", 0, 31);
		break;
	case OPT_RETRY:
		opt->retry = option_number("retry", 0, 7);
		break;
	case OPT_STALL:
		opt->stall_s = option_number("stall", 1, 3600);
		break;
	case OPT_JSON:
		opt->json = true;
		break;
	default:
		return false;
	}
	return true;
}

static bool
parse_plan(int c, struct plan *plan)
{
	switch (c) {
	case OPT_BENCH:
		plan->bench = 1;
		break;
	case OPT_SEED:
		plan->seed = option_number("seed", 0, UINT64_MAX);
		break;
	case OPT_QPS:
		plan->qps = option_number("qps", 1, MAX_QPS);
		break;
	case OPT_DEPTH:
		plan->depth = option_number("depth", 1, 4096);
		break;
	case OPT_OPS:
		plan->ops = option_number("ops", 1, UINT32_MAX);
		break;
	case OPT_DURATION:
		plan->duration_ms = option_number("duration", 1, 3600 * 1000);
		break;
	case OPT_MAX_LEN:
		plan->max_len = option_number("max-len", 1, 1u << 31);
		break;
	case OPT_ONEWAY:
		plan->oneway = 1;
		break;
	case OPT_MIXED:
		plan->mixed = 1;
		break;
	case OPT_SRQ:
		plan->srq = 1;
		break;
	case OPT_MTU:
		plan->mtu = verbs_mtu(option_number("mtu", 256, 4096));
		if (!plan->mtu)
			die("--mtu: must be 256, 512, 1024, 2048 or 4096");
		break;
	case OPT_BYTES:
		plan->bytes = option_number("bytes", 1, 1ull << 36);
		break;
	case OPT_ROUNDS:
		plan->rounds = option_number("rounds", 1, 64);
		break;
	case OPT_ITERS:
		plan->iters = option_number("iters", 1, 10 * 1000 * 1000);
		break;
	default:
		return false;
	}
	return true;
}

static void
parse(int argc, char **argv, struct options *opt, struct plan *plan)
{
	int c;

	while ((c = getopt_long(argc, argv, "d:i:g:p:eh", long_options, NULL)) != -1) {
		if (c == 'h') {
			fputs(usage, stdout);
			exit(EXIT_GOOD);
		}
		if (!parse_own(c, opt) && !parse_plan(c, plan)) {
			fputs(usage, stderr);
			exit(EXIT_BAD);
		}
	}
	if (optind < argc)
		opt->host = argv[optind];
	if (!plan->bench && plan->max_len > 1u << 30)
		die("--max-len %u: without --bench it must be 1 .. %u", plan->max_len, 1u << 30);
	if (plan->bench) {
		plan->qps = 1;
		plan->mixed = plan->srq = 0;
	}
}

int
main(int argc, char **argv)
{
	struct options opt = {
		.tcp_port = 18515,
		.ib_port = 1,
		.gid_index = 1,
		.timeout = 16, /* eight of 0.27 s: tolerates a busy machine */
		.retry = 7,
		.stall_s = 20,
	};
	struct plan plan = {
		.seed = 1,
		.ops = 1000,
		.bytes = 64 << 20,
		.qps = 4,
		.depth = 16,
		.max_len = 65536,
		.iters = 5000,
		.rounds = 5,
	};
	static struct endpoint ep;
	bool good;

	parse(argc, argv, &opt, &plan);
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
