/* SPDX-License-Identifier: BSD-3-Clause */
/* Process helpers for all modes: errors, the clock, starting and ending child processes. */
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>
#include "bench.h"

void
bench_die(const char *fmt, ...)
{
	va_list ap;

	fputs("uroce-bench: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(1);
}

uint64_t
bench_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

pid_t
bench_spawn(char *const argv[], int in, int out, int dies_of, const cpu_set_t *cpus)
{
	static const int handled[] = {SIGINT, SIGTERM, SIGHUP};
	pid_t parent = getpid(), pid = fork();
	cpu_set_t all;

	if (pid < 0)
		bench_die("fork: %m");
	if (pid > 0)
		return pid;
	for (unsigned i = 0; i < sizeof(handled) / sizeof(handled[0]); i++)
		signal(handled[i], SIG_DFL);
	prctl(PR_SET_PDEATHSIG, dies_of);
	if (getppid() != parent)
		_exit(1);
	memset(&all, 0xff, sizeof(all));
	sched_setaffinity(0, sizeof(all), cpus != NULL ? cpus : &all);
	if (in >= 0)
		dup2(in, STDIN_FILENO);
	if (out >= 0)
		dup2(out, STDOUT_FILENO);
	execvp(argv[0], argv);
	fprintf(stderr, "uroce-bench: %s: %m\n", argv[0]);
	_exit(127);
}
