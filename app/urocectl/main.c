/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * urocectl: looks into a running daemon. Exit status: 0; 1 when the daemon cannot be asked or
 * refuses; 2 for wrong use, with the argument and what is legal.
 */
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <jansson.h>
#include "ipc/client.h"
#include "table.h"
#include "urocectl.h"

#define EXIT_USAGE 2
#define TOPICS     "device port gid neigh qp cq mr client stats drops"

static void
usage(FILE *out)
{
	fprintf(out,
		"usage: urocectl [--socket PATH] [--json] [--all] show WHAT\n"
		"       urocectl [--socket PATH] [--json] [--all] impair DEVICE set SPEC | show | "
		"clear\n"
		"       urocectl [--socket PATH] [--json] capture DEVICE start FILE | show | stop\n"
		"       urocectl [--socket PATH] [--json] addr add|del IP/LEN dev DEVICE\n"
		"       urocectl [--socket PATH] [--json] pkey set KEY dev DEVICE index N\n"
		"       urocectl [--socket PATH] [--json] pkey del dev DEVICE index N\n"
		"       urocectl [--socket PATH] install | uninstall\n"
		"WHAT: device port gid neigh qp [QPN] cq mr client stats drops\n\n"
		"  --socket PATH  the daemon's control socket [$UROCE_SOCKET, else %s]\n"
		"  --json         print JSON instead of a table\n"
		"  --all          of counters show those that are zero too\n"
		"  --help         print this\n",
		UROCE_DEFAULT_SOCK);
	fputs("\nshow WHAT\n"
	      "  device        MAC, link, path MTU, clients of each\n"
	      "  port          the DPDK port of each, its GIDs and P_Keys with their index\n"
	      "  gid neigh     all GIDs; neighbours and their MACs\n"
	      "  qp [QPN]      queue pairs; of one everything\n"
	      "  cq mr client  completion queues, memory regions, programs\n"
	      "  stats drops   counters; packets that were dropped, by reason\n"
	      "  Of other users' objects only root and the daemon's user see more than that they\n"
	      "  are there.\n"
	      "\ncapture: the frames that DEVICE receives and sends, into FILE as pcapng\n"
	      "\nExit status: 0; 1 when the daemon cannot be asked or refuses; 2 for wrong use.\n",
	      out);
	set_usage(out);
	impair_usage(out);
}

void
wrong(const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "urocectl: ");
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "\n");
	exit(EXIT_USAGE);
}

static bool
is_topic(const char *word)
{
	static const char *const topic[] = {"device", "port", "gid",    "neigh", "qp",
					    "cq",     "mr",   "client", "stats", "drops"};

	for (unsigned i = 0; i < sizeof(topic) / sizeof(topic[0]); i++) {
		if (strcmp(topic[i], word) == 0)
			return true;
	}
	return false;
}

static uint32_t
qpn_of(const char *text)
{
	char *end;
	unsigned long n = strtoul(text, &end, 0);

	if (*text < '0' || *text > '9' || *end != '\0' || n > 0xffffff)
		wrong("QPN '%s' is not a number from 0 to 0xffffff", text);
	return (uint32_t)n;
}

/* Words that are no options, in order: show, WHAT, QPN; or impair and its own. */
static void
take_word(struct request *rq, unsigned nth, const char *word)
{
	if (nth == 0 && strcmp(word, "impair") == 0)
		rq->impair = true;
	if (rq->impair) {
		if (nth > 0)
			impair_take_word(rq, nth - 1, word);
		return;
	}
	if (nth == 0 && strcmp(word, "capture") == 0)
		rq->capture = true;
	if (rq->capture) {
		if (nth > 0)
			capture_take_word(rq, nth - 1, word);
		return;
	}
	if (nth == 0 && (strcmp(word, "addr") == 0 || strcmp(word, "pkey") == 0))
		rq->set = true;
	if (rq->set) {
		set_take_word(rq, nth, word);
		return;
	}
	if (nth == 0 && strcmp(word, "show") != 0)
		wrong("unknown command '%s'; legal: show impair capture addr pkey "
		      "install uninstall",
		      word);
	if (nth == 1 && !is_topic(word))
		wrong("show: unknown '%s'; legal: %s", word, TOPICS);
	if (nth == 1)
		rq->what = word;
	if (nth >= 3 || (nth == 2 && strcmp(rq->what, "qp") != 0))
		wrong("show %s: surplus argument '%s'", rq->what, word);
	if (nth == 2) {
		rq->qpn = qpn_of(word);
		rq->has_qpn = true;
	}
}

static bool
is_install(const char *word)
{
	return strcmp(word, "install") == 0 || strcmp(word, "uninstall") == 0;
}

/* install and uninstall are uroce-run's, which knows the files: beside this program, or in PATH. */
static void
run_install(const struct request *rq, const char *word)
{
	char option[16], exe[PATH_MAX], beside[PATH_MAX + 32];
	char *argv[] = {"uroce-run", option, NULL, NULL, NULL};
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	snprintf(option, sizeof(option), "--%s", word);
	if (rq->socket != NULL) {
		argv[2] = "--socket";
		argv[3] = (char *)(uintptr_t)rq->socket;
	}
	if (n > 0) {
		exe[n] = '\0';
		snprintf(beside, sizeof(beside), "%s/../uroce-run/uroce-run", dirname(exe));
		execv(beside, argv);
	}
	execvp(argv[0], argv);
	fprintf(stderr, "urocectl: cannot run uroce-run: %s\n", strerror(errno));
	exit(EXIT_FAILURE);
}

static void
parse(struct request *rq, int argc, char **argv)
{
	const char *first = NULL;
	unsigned words = 0;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--help") == 0) {
			usage(stdout);
			exit(EXIT_SUCCESS);
		} else if (strcmp(argv[i], "--json") == 0) {
			rq->json = true;
		} else if (strcmp(argv[i], "--all") == 0) {
			rq->all = true;
		} else if (strncmp(argv[i], "--socket=", 9) == 0) {
			rq->socket = argv[i] + 9;
		} else if (strcmp(argv[i], "--socket") == 0) {
			if (++i == argc)
				wrong("--socket: needs a value PATH");
			rq->socket = argv[i];
		} else if (argv[i][0] == '-') {
			wrong("unknown option '%s'; legal: --socket PATH --json --all --help",
			      argv[i]);
		} else {
			if (words == 0)
				first = argv[i];
			if (first == argv[i] && is_install(first))
				words++;
			else if (first != NULL && is_install(first))
				wrong("%s: surplus argument '%s'", first, argv[i]);
			else
				take_word(rq, words++, argv[i]);
		}
	}
	if (first != NULL && is_install(first))
		run_install(rq, first);
	if (rq->impair)
		impair_check(rq);
	else if (rq->capture)
		capture_check(rq);
	else if (rq->set)
		set_check(rq);
	else if (words < 2)
		wrong("%s: nothing to show; legal: show %s", words == 0 ? "no command" : "show",
		      TOPICS);
}

json_t *
read_json(int fd, uint64_t bytes)
{
	char *text = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
	json_t *all;

	if (text == MAP_FAILED)
		return NULL;
	all = json_loadb(text, bytes, 0, NULL);
	if (all == NULL)
		errno = EPROTO;
	munmap(text, bytes);
	return all;
}

/* NULL with errno. */
static json_t *
ask(struct ipc_client *c, const struct request *rq)
{
	struct uroce_show_req req = {.arg = rq->qpn, .has_arg = rq->has_qpn};
	struct uroce_show_rep rep;
	int fd, rc;
	struct ipc_call call = {
		.op = UROCE_CTRL_SHOW,
		.req = &req,
		.req_len = sizeof(req),
		.rep = &rep,
		.rep_len = sizeof(rep),
		.rep_fds = &fd,
		.rep_fds_max = 1,
	};
	json_t *all;

	strncpy(req.what, rq->what, sizeof(req.what) - 1);
	rc = ipc_client_call(c, &call);
	if (rc == 0 && call.rep_nfds != 1)
		rc = -EPROTO;
	if (rc < 0) {
		errno = -rc;
		return NULL;
	}
	all = read_json(fd, rep.bytes);
	close(fd);
	return all;
}

static json_t *
fetch(const struct request *rq)
{
	const char *path = ipc_client_path(rq->socket);
	int fds[UROCE_MAX_WORKERS + 2];
	char why[UROCE_CTRL_MAX_WHY + 1];
	struct uroce_hello_rep hello;
	struct ipc_client c;
	unsigned int nfds;
	json_t *all;
	int rc = ipc_client_connect(&c, rq->socket);

	if (rc < 0) {
		fprintf(stderr, "urocectl: no daemon at %s: %s\n", path, strerror(-rc));
		return NULL;
	}
	rc = ipc_client_hello(&c, "", &hello, fds, &nfds, why);
	if (rc != 0 && *why != '\0')
		fprintf(stderr, "urocectl: %s\n", why);
	errno = -rc;
	all = rc != 0       ? NULL
	      : rq->impair  ? impair_ask(&c, rq)
	      : rq->capture ? capture_ask(&c, rq)
	      : rq->set     ? set_ask(&c, rq)
			    : ask(&c, rq);
	if (all == NULL && errno != 0)
		fprintf(stderr, "urocectl: the daemon at %s: %s\n", path, strerror(errno));
	ipc_client_close(&c);
	return all;
}

int
main(int argc, char **argv)
{
	struct request rq = {0};
	json_t *all, *rows;

	parse(&rq, argc, argv);
	all = fetch(&rq);
	if (all == NULL)
		return EXIT_FAILURE;
	rows = json_object_get(all, rq.impair    ? "impair"
				    : rq.capture ? "capture"
				    : rq.set     ? "set"
						 : rq.what);
	if (rq.has_qpn && json_array_size(rows) == 0) {
		fprintf(stderr, "urocectl: no QP %u, or another user's\n", rq.qpn);
		json_decref(all);
		return EXIT_FAILURE;
	}
	if (rq.json) {
		json_dumpf(all, stdout, JSON_INDENT(1));
		fputc('\n', stdout);
	} else if (rq.impair) {
		impair_print(json_array_get(rows, 0), rq.all);
	} else if (rq.has_qpn || rq.capture || rq.set) {
		table_print_record(json_array_get(rows, 0));
	} else if (strcmp(rq.what, "stats") == 0 || strcmp(rq.what, "drops") == 0) {
		table_print_counters(rows, rq.all);
	} else {
		table_print(rq.what, rows);
	}
	json_decref(all);
	return ferror(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
}
