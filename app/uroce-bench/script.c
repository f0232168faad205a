/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Modes that are other programs. Those in Python start and compare programs (daemons, clients,
 * iperf3, a guest); they are in report/ of the source tree, or in the data directory of an
 * installation. "check" is a verbs program that links neither DPDK nor the transport
 * (check/rcdata.h), in the build or in the libexec directory.
 */
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "bench.h"

#define PYTHON "/usr/bin/python3"

static const char *const scripted[] = {"report", "versus", "loss", "incast"};

static int
is_scripted(const char *mode)
{
	for (unsigned i = 0; i < sizeof(scripted) / sizeof(scripted[0]); i++)
		if (strcmp(mode, scripted[i]) == 0)
			return 1;
	return 0;
}

/* Find what belongs to the program at exe: its scripts, with their environment, or (check) rcdata.
 */
static void
find(const char *exe, bool check, char *path, size_t size)
{
	int folder = (int)(strrchr(exe, '/') - exe);
	char build[PATH_MAX];

	setenv("UROCE_BENCH", exe, 1);
	unsetenv("UROCE_BENCH_SOURCE");
	if (realpath(BENCH_BUILD, build) != NULL && strlen(build) == (size_t)folder &&
	    strncmp(exe, build, folder) == 0) {
		setenv("UROCE_BENCH_SOURCE", BENCH_SOURCE, 1);
		snprintf(path, size, "%s",
			 check ? BENCH_BUILD "/check/rcdata"
			       : BENCH_SOURCE "/app/uroce-bench/report");
	} else {
		snprintf(path, size, "%.*s/../%s", folder, exe,
			 check ? BENCH_LIBEXEC "/rcdata" : BENCH_SCRIPTS);
	}
}

int
bench_script(int argc, char **argv)
{
	char exe[PATH_MAX], path[2 * PATH_MAX];
	/* not the first in PATH: that of conda or pyenv lacks the distribution's matplotlib */
	char *args[BENCH_MAX_ARGS + 4] = {PYTHON, "-B", path};
	bool check = argc > 1 && strcmp(argv[1], "check") == 0;
	ssize_t n;

	if (argc < 2 || (!check && !is_scripted(argv[1])))
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
	find(exe, check, path, sizeof(path));
	if (access(path, R_OK | X_OK) != 0) {
		fprintf(stderr, "uroce-bench: %s: its %s not in %s: %s\n", argv[1],
			check ? "program is" : "scripts are", path, strerror(errno));
		return 2;
	}
	if (check) {
		argv[1] = "uroce-bench check";
		execv(path, argv + 1);
		fprintf(stderr, "uroce-bench: check: %s: %s\n", path, strerror(errno));
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

int
bench_probe(const struct bench_options *o, struct bench_report *r)
{
	(void)o;
	(void)r;
	return 0; /* the report always contains the cores */
}
