/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * urocectl: shows and changes a running daemon. Exit status: 0; 1 when the daemon cannot be reached
 * or refuses; 2 for wrong use.
 */
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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
	 .help = "print JSON instead of a table"},
	{.name = "all",
	 .type = CLI_SWITCH,
	 CLI_AT(struct request, all),
	 .help = "of counters show those that are zero too"},
	{.name = "output",
	 .type = CLI_TEXT,
	 CLI_AT(struct request, output),
	 .arg = "FILE",
	 .help = "of cdi: write FILE instead of standard output"},
	{NULL},
};

static struct cli_program program = {
	.name = "urocectl",
	.usage =
		"usage: urocectl [--socket PATH] [--json] [--all] show WHAT\n"
		"       urocectl [--socket PATH] [--json] [--all] impair DEVICE set SPEC | show | "
		"clear\n"
		"       urocectl [--socket PATH] [--json] capture DEVICE start FILE | show | stop\n"
		"       urocectl [--socket PATH] [--json] addr add|del IP/LEN dev DEVICE\n"
		"       urocectl [--socket PATH] [--json] pkey set KEY dev DEVICE index N\n"
		"       urocectl [--socket PATH] [--json] pkey del dev DEVICE index N\n"
		"       urocectl [--socket PATH] [--json] trace [QPN]\n"
		"       urocectl [--socket PATH] cdi [--output FILE]\n"
		"       urocectl [--socket PATH] install | uninstall\n"
		"WHAT: device port gid neigh qp [QPN] cq mr client stats drops\n",
	.options = options,
};

static const char show_help[] =
	"show WHAT\n"
	"  device        MAC, link, path MTU, clients of each\n"
	"  port          the DPDK port of each, its GIDs and P_Keys with their index\n"
	"  gid neigh     all GIDs; neighbours and their MACs\n"
	"  qp [QPN]      queue pairs; everything about one\n"
	"  cq mr client  completion queues, memory regions, programs\n"
	"  stats drops   counters; packets that were dropped, by reason\n"
	"  Only root and the daemon's user see more of other users' objects than that they exist.\n"
	"\ntrace: why a queue pair failed and what happened before, also if it was destroyed; "
	"without QPN "
	"the list\n"
	"\ncapture: the frames that DEVICE receives and sends, into FILE as pcapng\n"
	"\nExit status: 0; 1 when the daemon cannot be reached or refuses; 2 for wrong use.\n";

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
	if (strlen(word) >= UROCE_DEV_NAME_MAX)
		usage_error("%s: device name '%s' is longer than %u bytes", rq->cmd->name, word,
			    UROCE_DEV_NAME_MAX - 1);
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

/* Run uroce-run for install and uninstall: in the build tree's folder, else from PATH. */
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

/* Find the command that the words name. Does not return for install and uninstall. */
static void
find_command(struct request *rq, int words, char **argv)
{
	static const struct command *const commands[] = {&show_command,    &impair_command,
							 &capture_command, &addr_command,
							 &pkey_command,    &trace_command,
							 &cdi_command};

	if (words == 0)
		usage_error("no command; legal: show impair capture addr pkey trace cdi install "
			    "uninstall");
	for (unsigned i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (strcmp(argv[1], commands[i]->name) == 0)
			rq->cmd = commands[i];
	}
	if (rq->cmd != NULL)
		return;
	if (strcmp(argv[1], "install") != 0 && strcmp(argv[1], "uninstall") != 0)
		usage_error("unknown command '%s'; legal: show impair capture addr pkey "
			    "trace cdi install uninstall",
			    argv[1]);
	if (words > 1)
		usage_error("%s: surplus argument '%s'", argv[1], argv[2]);
	run_install(rq, argv[1]);
}

static void
parse(struct request *rq, int argc, char **argv)
{
	char more[6144];
	int words;

	snprintf(more, sizeof(more), "%s%s%s%s", show_help, set_help, cdi_help, impair_help);
	program.more = more;
	words = cli_parse(&program, rq, argc, argv);
	program.more = NULL;
	find_command(rq, words, argv);
	for (int i = 2; i <= words; i++)
		rq->cmd->take_word(rq, (unsigned)i - 2, argv[i]);
	rq->cmd->check(rq);
	if (rq->output != NULL && rq->cmd != &cdi_command)
		usage_error("--output is for cdi, not for %s", rq->cmd->name);
}

json_t *
call_for_json(struct ipc_client *c, struct ipc_call *call, const uint64_t *bytes)
{
	json_t *all = NULL;
	char *text;
	int fd, rc;

	call->rep_fds = &fd;
	call->rep_fds_max = 1;
	rc = ipc_client_call(c, call);
	if (rc == 0 && call->rep_nfds != 1)
		rc = -EPROTO;
	errno = -rc;
	if (rc < 0)
		return NULL;
	text = mmap(NULL, *bytes, PROT_READ, MAP_PRIVATE, fd, 0);
	if (text != MAP_FAILED) {
		all = json_loadb(text, *bytes, 0, NULL);
		munmap(text, *bytes);
		errno = all == NULL ? EPROTO : 0;
	}
	close(fd);
	return all;
}

void
print_refusal(const struct request *rq, int rc)
{
	const char *why = rc == -EPERM    ? "only root and the daemon's user may do that"
			  : rc == -ENODEV ? "no such device"
					  : NULL;

	if (why != NULL)
		fprintf(stderr, "urocectl: %s %s: %s\n", rq->cmd->name, rq->what, why);
	errno = why != NULL ? 0 : -rc;
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
	all = rc != 0 ? NULL : rq->cmd->ask(&c, rq);
	if (all == NULL && errno != 0)
		fprintf(stderr, "urocectl: the daemon at %s: %s\n", path, strerror(errno));
	ipc_client_close(&c);
	return all;
}

int
main(int argc, char **argv)
{
	static struct request rq;
	json_t *all, *rows;

	parse(&rq, argc, argv);
	all = fetch(&rq);
	if (all == NULL)
		return EXIT_FAILURE;
	if (rq.cmd == &cdi_command) {
		int rc = cdi_output(&rq, all);

		json_decref(all);
		return rc < 0 || ferror(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
	}
	rows = json_object_get(all, rq.cmd->key != NULL ? rq.cmd->key : rq.what);
	if (rq.has_qpn && json_array_size(rows) == 0) {
		fprintf(stderr, "urocectl: no QP %u, or another user's\n", rq.show.arg);
		json_decref(all);
		return EXIT_FAILURE;
	}
	if (rq.json) {
		json_dumpf(all, stdout, JSON_INDENT(1));
		fputc('\n', stdout);
	} else {
		rq.cmd->print(&rq, rows);
	}
	json_decref(all);
	return ferror(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
}
