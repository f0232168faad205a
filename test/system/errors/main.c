/* SPDX-License-Identifier: BSD-3-Clause */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "rows.h"

#define OPEN_WAIT_S 60 /* for slow emulated guests */

static const char usage[] =
	"usage: errmatrix [options] [HOST]     no HOST: respond to a requester\n"
	"  -d, --dev NAME       verbs device (the first one)\n"
	"  -i, --ib-port N      its port (1)\n"
	"  -g, --gid-index N    source GID (1)\n"
	"  -p, --port N         TCP port of the exchange (18516)\n"
	"      --no-events      this device raises no queue pair events: expect none\n"
	"      --look CMD       run CMD ROW QPN at the end of each row\n"
	"      --patience S     seconds to wait for an expected event (15)\n"
	"decided by the requester:\n"
	"      --list           print the rows' names and end\n"
	"      --only TEXT      rows whose name contains TEXT\n"
	"      --rows FILE      rows that FILE names, one per line\n"
	"      --timeout N      local ACK timeout, 4.096 us x 2^N (16)\n"
	"      --mtu N          path MTU 256 .. 4096 (1024)\n"
	"      --lossy          packets get lost: RC rows only, and a NAK may not arrive\n"
	"      --json           one JSON object per row instead of TAP\n"
	"exit status: 0 every row passed, 1 a row failed\n";

static const struct row *const tables[] = {rows_responder, rows_requester, rows_unreliable, NULL};

const struct row *
row_at(uint32_t i)
{
	for (const struct row *const *t = tables; *t; t++)
		for (const struct row *row = *t; row->name; row++)
			if (i-- == 0)
				return row;
	return NULL;
}

enum {
	OPT_NO_EVENTS = 256,
	OPT_PATIENCE,
	OPT_LOOK,
	OPT_LIST,
	OPT_ONLY,
	OPT_ROWS,
	OPT_TIMEOUT,
	OPT_MTU,
	OPT_LOSSY,
	OPT_JSON,
};

static const struct option long_options[] = {
	{"dev", required_argument, NULL, 'd'},
	{"ib-port", required_argument, NULL, 'i'},
	{"gid-index", required_argument, NULL, 'g'},
	{"port", required_argument, NULL, 'p'},
	{"help", no_argument, NULL, 'h'},
	{"no-events", no_argument, NULL, OPT_NO_EVENTS},
	{"patience", required_argument, NULL, OPT_PATIENCE},
	{"look", required_argument, NULL, OPT_LOOK},
	{"list", no_argument, NULL, OPT_LIST},
	{"only", required_argument, NULL, OPT_ONLY},
	{"rows", required_argument, NULL, OPT_ROWS},
	{"timeout", required_argument, NULL, OPT_TIMEOUT},
	{"mtu", required_argument, NULL, OPT_MTU},
	{"lossy", no_argument, NULL, OPT_LOSSY},
	{"json", no_argument, NULL, OPT_JSON},
	{0},
};

#define MAX_FILE 65536

/* Reads a whole file and puts a newline around each line; never freed. */
static const char *
file_read(const char *path)
{
	static char text[MAX_FILE] = "\n";
	FILE *f = fopen(path, "r");
	size_t n;

	if (!f)
		die("cannot read %s", path);
	n = fread(text + 1, 1, sizeof(text) - 3, f);
	if (!feof(f))
		die("%s: longer than %d bytes", path, MAX_FILE - 3);
	fclose(f);
	text[n + 1] = '\n';
	return text;
}

static bool
parse_one(int c, struct options *opt, struct plan *plan)
{
	switch (c) {
	case 'd':
		opt->dev = optarg;
		break;
	case 'i':
		opt->ib_port = (uint8_t)option_number("ib-port", 1, 255);
		break;
	case 'g':
		opt->gid_index = (uint8_t)option_number("gid-index", 0, 255);
		break;
	case 'p':
		opt->tcp_port = (uint16_t)option_number("port", 1, 65535);
		break;
	case OPT_NO_EVENTS:
		opt->no_events = true;
		break;
	case OPT_PATIENCE:
		opt->patience_s = (double)option_number("patience", 1, 3600);
		break;
	case OPT_LOOK:
		opt->look = optarg;
		break;
	case OPT_LIST:
		opt->list = true;
		break;
	case OPT_ONLY:
		opt->only = optarg;
		break;
	case OPT_ROWS:
		opt->rows = file_read(optarg);
		break;
	case OPT_TIMEOUT:
		plan->timeout = (uint32_t)option_number("timeout", 0, 31);
		break;
	case OPT_MTU:
		plan->mtu = verbs_mtu(option_number("mtu", 256, 4096));
		if (!plan->mtu)
			die("--mtu: must be 256, 512, 1024, 2048 or 4096");
		break;
	case OPT_LOSSY:
		plan->lossy = 1;
		break;
	case OPT_JSON:
		opt->json = true;
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

	while ((c = getopt_long(argc, argv, "d:i:g:p:h", long_options, NULL)) != -1) {
		if (c == 'h') {
			fputs(usage, stdout);
			exit(0);
		}
		if (!parse_one(c, opt, plan)) {
			fputs(usage, stderr);
			exit(1);
		}
	}
	if (optind < argc)
		opt->host = argv[optind];
}

static bool
chosen(const struct row *row, const struct options *opt, const struct plan *plan)
{
	char line[128];

	snprintf(line, sizeof(line), "\n%s\n", row->name);
	if (opt->rows && !strstr(opt->rows, line))
		return false;
	if (opt->only && !strstr(row->name, opt->only))
		return false;
	/* An unreliable queue pair does not retransmit. */
	return !plan->lossy || (row_type(row) == IBV_QPT_RC && !(row->flags & ROW_LOSSLESS));
}

static int
list(const struct options *opt, const struct plan *plan)
{
	const struct row *row;

	for (uint32_t i = 0; (row = row_at(i)); i++)
		if (chosen(row, opt, plan))
			puts(row->name);
	return 0;
}

static int
requester(struct side *s, struct plan *plan)
{
	uint32_t nr = 0, bad = 0;
	const struct row *row;

	for (uint32_t i = 0; (row = row_at(i)); i++) {
		struct run r = {.s = s, .row = row, .plan = plan};
		struct report theirs;

		if (!chosen(row, s->opt, plan))
			continue;
		plan->row = i;
		link_send(s->link, plan, sizeof(*plan));
		row_run(&r);
		link_recv(s->link, &theirs, sizeof(theirs));
		bad += !row_judge(&r, &theirs, ++nr);
	}
	plan->row = ROW_END;
	link_send(s->link, plan, sizeof(*plan));
	if (!s->opt->json)
		printf("1..%u\n", nr);
	return nr == 0 || bad != 0;
}

static int
responder(struct side *s, struct plan *plan)
{
	for (;;) {
		struct run r = {.s = s, .plan = plan};

		link_recv(s->link, plan, sizeof(*plan));
		if (plan->row == ROW_END)
			return 0;
		r.row = row_at(plan->row);
		if (!r.row)
			die("the requester has other rows");
		row_run(&r);
		link_send(s->link, &r.rep, sizeof(r.rep));
	}
}

int
main(int argc, char **argv)
{
	struct options opt = {.tcp_port = 18516, .ib_port = 1, .gid_index = 1, .patience_s = 15};
	struct plan plan = {.timeout = 16, .mtu = IBV_MTU_1024};
	struct side s = {0};
	int rc;

	parse(argc, argv, &opt, &plan);
	if (opt.list)
		return list(&opt, &plan);
	s.requester = opt.host != NULL;
	s.link = link_open(opt.host, opt.tcp_port, OPEN_WAIT_S);
	side_open(&s, &opt);
	rc = s.requester ? requester(&s, &plan) : responder(&s, &plan);
	side_close(&s);
	return rc;
}
