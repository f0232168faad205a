/* SPDX-License-Identifier: BSD-3-Clause */
/* urocectl: shows and changes a running daemon. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "cli/cli.h"
#include "urocectl.h"

static const struct cli_field options[] = {
	{.name = "socket",
	 .type = CLI_TEXT,
	 CLI_AT(struct request, socket),
	 .arg = "PATH",
	 .help = "the daemon's control socket [$UROCE_SOCKET, else the user's own daemon, "
		 "else\n" UROCE_DEFAULT_SOCK "]"},
	{.name = "json",
	 .type = CLI_SWITCH,
	 CLI_AT(struct request, json),
	 .letter = 'j',
	 .help = "print JSON instead of a table"},
	{.name = "pretty",
	 .type = CLI_SWITCH,
	 CLI_AT(struct request, pretty),
	 .letter = 'p',
	 .help = "rdma: indent the JSON"},
	{.name = "details",
	 .type = CLI_SWITCH,
	 CLI_AT(struct request, details),
	 .letter = 'd',
	 .help = "show every field of each object"},
	{.name = "all",
	 .type = CLI_SWITCH,
	 CLI_AT(struct request, all),
	 .letter = 'a',
	 .help = "also show counters that are zero and unused quotas"},
	{.name = "batch",
	 .type = CLI_SWITCH,
	 CLI_AT(struct request, batch),
	 .letter = 'b',
	 .help = "top: print one report below the other"},
	{.name = "iterations",
	 .type = CLI_NUMBER,
	 CLI_AT(struct request, count),
	 .letter = 'n',
	 .arg = "N",
	 .min = 1,
	 .max = 1000000000,
	 .given = offsetof(struct request, count_given),
	 .help = "top, watch: end after N reports"},
	{.name = "output",
	 .type = CLI_TEXT,
	 CLI_AT(struct request, output),
	 .arg = "FILE",
	 .help = "cdi: write to FILE instead of standard output"},
	{.name = "listen",
	 .type = CLI_TEXT,
	 CLI_AT(struct request, listen),
	 .arg = "WHERE",
	 .help = "metrics: serve by HTTP at PORT on 127.0.0.1, IP:PORT, [IPV6]:PORT, or /PATH of "
		 "a unix socket"},
	{NULL},
};

static struct cli_program program = {
	.name = "urocectl",
	.usage = "usage: urocectl [options] show WHAT [FILTER VALUE]..\n"
		 "       urocectl [options] watch WHAT [FILTER VALUE].. [interval S] [count N]\n"
		 "       urocectl [options] top [interval S] [count N] [sort KEY]\n"
		 "       urocectl [options] trace [QPN] [FILTER VALUE]..\n"
		 "       urocectl [options] set help | SETTING VALUE..\n"
		 "       urocectl [options] addr add|del IP/LEN dev DEVICE\n"
		 "       urocectl [options] pkey set KEY dev DEVICE index N\n"
		 "       urocectl [options] pkey del dev DEVICE index N\n"
		 "       urocectl [options] cc set POLICY dev DEVICE [qp QPN]\n"
		 "       urocectl [options] probe set on|off dev DEVICE [qp QPN]\n"
		 "       urocectl [options] impair DEVICE set SPEC | show | clear\n"
		 "       urocectl [options] capture DEVICE start FILE [qpn=N] | show | stop\n"
		 "       urocectl [options] rdma dev|link|statistic|res [show ..]\n"
		 "       urocectl [options] doctor [PEER]\n"
		 "       urocectl [--socket PATH] metrics [--listen WHERE]\n"
		 "       urocectl [--socket PATH] cdi [--output FILE]\n"
		 "       urocectl [--socket PATH] install | uninstall\n",
	.options = options,
};

/* The commands in the order of --help; each has a file. */
static const struct command *const commands[] = {
	&show_command,    &watch_command, &top_command,    &trace_command,   &set_command,
	&addr_command,    &pkey_command,  &cc_command,     &probe_command,   &impair_command,
	&capture_command, &rdma_command,  &doctor_command, &metrics_command, &cdi_command,
};
#define NCOMMANDS (sizeof(commands) / sizeof(commands[0]))

static const char other_help[] =
	"\ntrace: why a queue pair failed and what happened before, also for destroyed ones; "
	"without QPN\n  it prints the list\n"
	"\ncapture: writes the frames that DEVICE receives and sends to FILE, as pcapng\n";

static const char status_help[] =
	"\nExit status: 0 success; 1 the daemon cannot be reached, refuses, or has no such object; "
	"2 wrong\n  usage.\n";

/* The topics with their filters. */
static void
show_help(FILE *out)
{
	char words[256];

	fprintf(out, "show WHAT; objects must match all FILTERs\n");
	for (unsigned i = 0; topic_at(i) != NULL; i++) {
		const struct topic *t = topic_at(i);

		filter_words(t->filters, words, sizeof(words));
		fprintf(out, "  %-9s %s%s%s%s\n", t->name, t->help, words[0] != '\0' ? " (" : "",
			words, words[0] != '\0' ? ")" : "");
	}
	fprintf(out,
		"  Only root and the daemon's user see the details of other users' objects.\n");
}

void
usage_error(const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	cli_wrong(&program, "%s", text);
}

void
take_device(struct request *rq, char to[UROCE_DEV_NAME_MAX], const char *word)
{
	if (*word == '\0')
		usage_error("%s: the device name is empty; urocectl show device lists them",
			    rq->cmd->name);
	if (strlen(word) >= UROCE_DEV_NAME_MAX)
		usage_error("%s: device name '%s' is longer than %u bytes", rq->cmd->name, word,
			    UROCE_DEV_NAME_MAX - 1);
	if (rq->what != NULL)
		usage_error("%s: device '%s', but '%s' is given, too", rq->cmd->name, word,
			    rq->what);
	rq->what = word;
	strcpy(to, word);
}

uint32_t
take_verb(struct request *rq, const char *word, const char *const *names, const char *legal)
{
	uint32_t i = 0;

	while (names[i] != NULL && strcmp(names[i], word) != 0)
		i++;
	if (names[i] == NULL)
		usage_error("%s: unknown '%s'; legal: %s", rq->cmd->name, word, legal);
	rq->verb = word;
	return i;
}

void
print_json(const json_t *doc)
{
	json_dumpf(doc, stdout, JSON_INDENT(1));
	fputc('\n', stdout);
}

int
find_uroce_run(char path[PATH_MAX])
{
	static const char *const places[] = {"../uroce-run/uroce-run", "uroce-run",
					     "../bin/uroce-run"};

	return cli_find_beside(places, sizeof(places) / sizeof(places[0]), path);
}

/* Runs uroce-run, else the one in PATH, for install and uninstall. */
static void
run_install(const struct request *rq, const char *word)
{
	char option[16], path[PATH_MAX];
	char *argv[] = {"uroce-run", option, NULL, NULL, NULL};

	snprintf(option, sizeof(option), "--%s", word);
	if (rq->socket != NULL) {
		argv[2] = "--socket";
		argv[3] = (char *)(uintptr_t)rq->socket;
	}
	if (find_uroce_run(path) == 0)
		execv(path, argv);
	execvp(argv[0], argv);
	fprintf(stderr, "urocectl: cannot run uroce-run: %s\n", strerror(errno));
	exit(EXIT_FAILURE);
}

static const char *
command_names(void)
{
	static char names[256];
	size_t len = 0;

	for (unsigned i = 0; i < NCOMMANDS; i++)
		len += (size_t)snprintf(names + len, sizeof(names) - len, "%s ", commands[i]->name);
	snprintf(names + len, sizeof(names) - len, "install uninstall");
	return names;
}

/* Find the command that the words name. Does not return for install and uninstall. */
static void
find_command(struct request *rq, int words, char **argv)
{
	if (words == 0)
		usage_error("no command; legal: %s", command_names());
	for (unsigned i = 0; i < NCOMMANDS; i++) {
		if (strcmp(argv[1], commands[i]->name) == 0)
			rq->cmd = commands[i];
	}
	if (rq->cmd != NULL)
		return;
	if (strcmp(argv[1], "install") != 0 && strcmp(argv[1], "uninstall") != 0)
		usage_error("unknown command '%s'; legal: %s", argv[1], command_names());
	if (words > 1)
		usage_error("%s: unexpected argument '%s'", argv[1], argv[2]);
	run_install(rq, argv[1]);
}

/* --help ends with this. The caller frees it; NULL: no memory. */
static char *
help_text(void)
{
	const char *const parts[] = {watch_help,   top_help,    other_help, set_help,
				     cc_help,      impair_help, rdma_help,  doctor_help,
				     metrics_help, cdi_help,    status_help};
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	if (f == NULL)
		return NULL;
	show_help(f);
	for (unsigned i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		fputs(parts[i], f);
	fclose(f);
	return text;
}

/* Options that only some commands have. */
static void
check_options(const struct request *rq)
{
	bool repeats = rq->cmd == &top_command || rq->cmd == &watch_command;

	if (rq->batch && rq->cmd != &top_command)
		usage_error("%s: option --batch is only for top", rq->cmd->name);
	if (rq->count_given && !repeats)
		usage_error("%s: option --iterations is only for top and watch", rq->cmd->name);
	if (rq->pretty && rq->cmd != &rdma_command)
		usage_error("%s: option --pretty is only for rdma", rq->cmd->name);
	if (rq->output != NULL && rq->cmd != &cdi_command)
		usage_error("%s: option --output is only for cdi", rq->cmd->name);
	if (rq->listen != NULL && rq->cmd != &metrics_command)
		usage_error("%s: option --listen is only for metrics", rq->cmd->name);
}

static void
parse(struct request *rq, int argc, char **argv)
{
	char *more = help_text();
	int words;

	program.more = more;
	words = cli_parse(&program, rq, argc, argv);
	program.more = NULL;
	free(more);
	find_command(rq, words, argv);
	for (int i = 2; i <= words; i++)
		rq->cmd->take_word(rq, (unsigned)i - 2, argv[i]);
	rq->cmd->check(rq);
	check_options(rq);
}

void
print_refusal(struct ipc_client *c, const struct request *rq, int rc)
{
	/* set log-level and set quota are of no device */
	const char *of = rq->cmd == &set_command ? rq->verb : rq->what;

	errno = 0;
	if (rc == -EPERM)
		fprintf(stderr,
			"urocectl: %s %s: only root with CAP_NET_ADMIN and the daemon's user may "
			"do that\n",
			rq->cmd->name, of);
	else if (rc != -ENODEV || device_is_known(c, rq->cmd->name, rq->what))
		errno = -rc;
	else
		errno = 0; /* device_is_known has printed it */
}

/* There is no such QP: prints whether it existed. */
static void
print_no_qp(struct ipc_client *c, uint32_t qpn)
{
	json_t *all = query(c, "trace", &qpn), *row;
	long long ended_ns = 0;
	struct timespec now;
	size_t i;

	json_array_foreach(json_object_get(all, "trace"), i, row)
	{
		if (row_int(row, "destroyed_time_ns") > ended_ns)
			ended_ns = row_int(row, "destroyed_time_ns");
	}
	json_decref(all);
	clock_gettime(CLOCK_REALTIME, &now);
	if (ended_ns != 0)
		fprintf(stderr, "urocectl: QP %u was destroyed %lld s ago: urocectl trace %u\n",
			qpn, (long long)now.tv_sec - ended_ns / 1000000000, qpn);
	else
		fprintf(stderr, "urocectl: no QP %u, or another user's\n", qpn);
}

/* Prints the reply, or the reason why there is none. Returns the exit status. */
static int
answer(struct ipc_client *c, const struct request *rq)
{
	json_t *all = rq->cmd->ask(c, rq), *rows;

	if (all == NULL)
		return -1;
	rows = json_object_get(all, rq->cmd->key != NULL ? rq->cmd->key : rq->what);
	if (rq->has_qpn && json_array_size(rows) == 0) {
		print_no_qp(c, rq->qpn);
		json_decref(all);
		return EXIT_FAILURE;
	}
	if (rq->json)
		print_json(all);
	else
		rq->cmd->print(rq, rows);
	json_decref(all);
	return EXIT_SUCCESS;
}

int
daemon_connect(struct ipc_client *c, const struct request *rq, char *why, size_t room)
{
	const char *path = ipc_client_path(rq->socket);
	int fds[UROCE_HELLO_FDS], rc = ipc_client_connect(c, rq->socket);
	char refusal[UROCE_CTRL_MAX_WHY + 1];
	struct uroce_hello_rep hello;
	unsigned int nfds;

	if (rc == -EACCES)
		snprintf(why, room,
			 "no access to the daemon at %s: its --socket-mode and --socket-group "
			 "decide who may connect",
			 path);
	else if (rc < 0)
		snprintf(why, room, "no daemon at %s: %s", path, strerror(-rc));
	if (rc < 0)
		return rc;
	rc = ipc_client_hello(c, "", &hello, fds, &nfds, refusal);
	if (rc == 0)
		return 0;
	snprintf(why, room, "%s%sthe daemon at %s: %s", refusal, *refusal != '\0' ? "; " : "", path,
		 strerror(-rc));
	ipc_client_close(c);
	return rc;
}

static int
connect_and_run(const struct request *rq)
{
	char why[UROCE_CTRL_MAX_WHY + 512];
	struct ipc_client c;
	int status;

	if (daemon_connect(&c, rq, why, sizeof(why)) < 0) {
		fprintf(stderr, "urocectl: %s\n", why);
		return EXIT_FAILURE;
	}
	status = rq->cmd->run != NULL ? rq->cmd->run(&c, rq) : answer(&c, rq);
	if (status < 0 && errno != 0)
		fprintf(stderr, "urocectl: the daemon at %s: %s\n", ipc_client_path(rq->socket),
			strerror(errno));
	ipc_client_close(&c);
	return status < 0 ? EXIT_FAILURE : status;
}

int
main(int argc, char **argv)
{
	static struct request rq;
	int status;

	cli_streams_open();
	parse(&rq, argc, argv);
	status = rq.cmd == &doctor_command ? doctor_run(&rq)
		 : rq.listen != NULL       ? metrics_serve(&rq)
					   : connect_and_run(&rq);
	if (fflush(stdout) != 0 || ferror(stdout)) {
		fprintf(stderr, "urocectl: cannot write the output: %s\n", strerror(errno));
		return EXIT_FAILURE;
	}
	return status;
}
