/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uroce-bench. Some of its modes are other programs: those in Python start and compare programs
 * (daemons, clients, iperf3, a guest); "check" is a verbs program that links neither DPDK nor the
 * transport (check/rcdata.h); "latency" and "scale" are of test/bench/limits. They are in the trees
 * of the source and of the build, or in the data and libexec directories of an installation.
 */
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "bench.h"
#include "client.h"
#include "node.h"

#define PYTHON "/usr/bin/python3"

/* The modes that are other programs, and where these are: in a build, and in an installation. */
static const struct elsewhere {
	const char *mode, *build, *installed;
	bool script;
} elsewhere[] = {
#define SCRIPT(mode)                                                                               \
	{                                                                                          \
		mode, BENCH_SOURCE "/test/bench/report", BENCH_SCRIPTS, true                       \
	}
	SCRIPT("report"),
	SCRIPT("versus"),
	SCRIPT("loss"),
	SCRIPT("incast"),
	SCRIPT("nic"),
	{"check", BENCH_BUILD "/check/rcdata", BENCH_LIBEXEC "/rcdata", false},
	{"latency", BENCH_LIMITS, BENCH_LIBEXEC "/limits", false},
	{"scale", BENCH_LIMITS, BENCH_LIBEXEC "/limits", false},
};

/* Finds the program of a mode, and tells it where this one (exe) is. */
static void
find(const char *exe, const struct elsewhere *e, char *path, size_t size)
{
	int folder = (int)(strrchr(exe, '/') - exe);
	char build[PATH_MAX];

	setenv("UROCE_BENCH", exe, 1);
	unsetenv("UROCE_BENCH_SOURCE");
	if (realpath(BENCH_BUILD, build) != NULL && strlen(build) == (size_t)folder &&
	    strncmp(exe, build, folder) == 0) {
		setenv("UROCE_BENCH_SOURCE", BENCH_SOURCE, 1);
		snprintf(path, size, "%s", e->build);
	} else {
		snprintf(path, size, "%.*s/../%s", folder, exe, e->installed);
	}
}

/*
 * Executes the program of argv[1] if that is another one. Returns 0 if it is not, else the exit
 * status of a failure, which is printed.
 */
static int
bench_elsewhere(int argc, char **argv)
{
	char exe[PATH_MAX], path[2 * PATH_MAX];
	/* not the first in PATH: that of conda or pyenv lacks the distribution's matplotlib */
	char *args[BENCH_MAX_ARGS + 4] = {PYTHON, "-B", path};
	const struct elsewhere *e = NULL;
	ssize_t n;

	for (unsigned i = 0; argc > 1 && i < sizeof(elsewhere) / sizeof(elsewhere[0]); i++)
		if (strcmp(argv[1], elsewhere[i].mode) == 0)
			e = &elsewhere[i];
	if (e == NULL)
		return 0;
	if (argc > BENCH_MAX_ARGS) {
		fprintf(stderr, "uroce-bench: more than %d arguments\n", BENCH_MAX_ARGS);
		return 2;
	}
	n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	if (n < 0) {
		fprintf(stderr, "uroce-bench: /proc/self/exe: %s\n", strerror(errno));
		return 2;
	}
	exe[n] = '\0';
	find(exe, e, path, sizeof(path));
	if (access(path, R_OK | X_OK) != 0) {
		fprintf(stderr, "uroce-bench: %s: its %s not in %s: %s\n", argv[1],
			e->script ? "scripts are" : "program is", path, strerror(errno));
		return 2;
	}
	if (!e->script) {
		if (strcmp(e->mode, "check") == 0)
			*++argv = "uroce-bench check";
		execv(path, argv);
		fprintf(stderr, "uroce-bench: %s: %s: %s\n", e->mode, path, strerror(errno));
		return 2;
	}
	memcpy(args + 3, argv + 1, (size_t)(argc - 1) * sizeof(*argv));
	execv(args[0], args);
	args[0] = "python3";
	execvp(args[0], args);
	fprintf(stderr,
		"uroce-bench: %s is a mode in Python, and python3 does not start: %s"
		" (apt-get install python3)\n",
		argv[1], strerror(errno));
	return 2;
}

const struct cli_program bench_program = {
	.name = "uroce-bench",
	.usage =
		"usage: uroce-bench MODE [OPTION...]\n"
		"\n"
		"  engine   two engines back to back on one core, over net_ring: the cost of the "
		"transport\n"
		"  client   verbs programs on a daemon\n"
		"  latency  one message at a time between two verbs programs, each on a daemon; "
		"with --breakdown\n"
		"           where its time goes\n"
		"  check    two verbs programs that move random data between two devices, each "
		"byte compared;\n"
		"           see check --help\n"
		"  connect  rdma_cm connections on a daemon, made and ended by --clients threads\n"
		"  wire     two processes, each with a worker on a core, and a port between them, "
		"or two NICs\n"
		"           (root)\n"
		"  scale    the daemon's workers, 1 to 16 of them, each with traffic of its own: "
		"what "
		"more cores\n"
		"           are worth, with packets on the right queue and on any queue\n"
		"  probe    the distance between the cores, and the speed of each\n"
		"  versus   the same transfer over alternatives such as TCP; see versus "
		"--help\n"
		"  loss     goodput and latency while frames are lost, next to kernel TCP\n"
		"  incast   many senders to one receiver behind a bottleneck\n"
		"  report   every goal and the measured result; see report --help\n"
		"  nic      what two ports of NICs and this machine do: one file to send back; see "
		"nic --help\n",
	.options = bench_fields,
};

const struct bench_mode bench_modes[] = {
	{"engine", bench_engine, bench_eal_one, NULL},
	{"client", bench_client, NULL, client_check},
	{"wire", bench_wire, bench_eal_one, node_net_check_options},
	{"connect", bench_connect, NULL, NULL},
	{"probe", NULL, NULL, NULL},
	{NULL},
};

int
main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*main)(int argc, char **argv);
	} process[] = {
		{CLIENT_MODE, client_main},
		{CONNECT_MODE, connect_main},
		{"node", node_main},
	};
	int status = bench_elsewhere(argc, argv);

	if (status != 0)
		return status;
	for (unsigned i = 0; i < sizeof(process) / sizeof(process[0]); i++)
		if (argc > 2 && strcmp(argv[1], process[i].name) == 0)
			return process[i].main(argc, argv);
	return bench_main(argc, argv);
}
