/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Debian's dpdk-testpmd (package dpdk-dev) as the reference. It
 * is controlled through its prompt; the rate is what it prints for the time between two
 * queries.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "bounds.h"

#define MEM_MIB   "512"
#define MBUFS     "--total-num-mbufs=16384"
#define ROOM      "--mbuf-size=8448" /* as in the daemon */
#define XDP_ROOM  "--mbuf-size=3712" /* fits into a page with its headers */
#define SETTLE_MS 10

/* Reads up to the line that contains what; text gets the part after what. */
static void
read_until(FILE *from, const char *what, char *text, size_t size)
{
	char line[512];

	while (fgets(line, sizeof(line), from) != NULL) {
		const char *at = strstr(line, what);

		if (at == NULL)
			continue;
		snprintf(text, size, "%s", at + strlen(what));
		return;
	}
	bench_die("dpdk-testpmd (package dpdk-dev) ended, or did not start");
}

static void
say(const struct testpmd_pair *t, unsigned s, const char *what)
{
	fprintf(t->to[s], "%s\n", what);
	fflush(t->to[s]);
}

/* Received or sent frames per second since the last query. */
static double
rate(const struct testpmd_pair *t, unsigned s, const char *which)
{
	char text[64];

	say(t, s, "show port stats all");
	read_until(t->from[s], which, text, sizeof(text));
	return strtod(text, NULL);
}

/* Starts the testpmd of side s and waits until it forwards. */
static void
start(struct testpmd_pair *t, unsigned s, const char *vdev)
{
	static unsigned serial;
	char prefix[32], lcores[32], text[64];
	/* line buffered, or its output is delayed */
	char *argv[] = {"stdbuf",
			"-oL",
			"dpdk-testpmd",
			"--no-huge",
			"--no-shconf",
			"--no-pci",
			"-m",
			MEM_MIB,
			"--no-telemetry",
			"--log-level=error",
			"--file-prefix",
			prefix,
			"--lcores",
			lcores,
			"--vdev",
			(char *)vdev,
			"--",
			"-i",
			"--auto-start",
			"--no-mlockall",
			MBUFS,
			strstr(vdev, "af_xdp") != NULL ? XDP_ROOM : ROOM,
			s == 0 ? "--forward-mode=txonly" : "--forward-mode=rxonly",
			NULL};
	int in[2], out[2];

	snprintf(prefix, sizeof(prefix), "testpmd-%d-%u", getpid(), serial++);
	snprintf(lcores, sizeof(lcores), "0@%u,1@%u", s, s);
	if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0)
		bench_die("pipe: %m");
	t->pid[s] = bench_spawn(argv, in[0], out[1], SIGKILL, NULL);
	close(in[0]);
	close(out[1]);
	t->to[s] = fdopen(in[1], "we");
	t->from[s] = fdopen(out[0], "re");
	if (t->to[s] == NULL || t->from[s] == NULL)
		bench_die("no memory");
	read_until(t->from[s], "packet forwarding - ", text, sizeof(text));
	/* testpmd continues without a port and prints no rate */
	if (strncmp(text, "ports=0", 7) == 0)
		bench_die("dpdk-testpmd has no port: it could not open %s", vdev);
}

void
testpmd_pair_open(struct testpmd_pair *t, const struct bench_options *o, unsigned link)
{
	char vdev[2][256];

	node_net_port(o, link, vdev);
	for (unsigned s = 2; s-- > 0;)
		start(t, s, vdev[s]);
	for (unsigned s = 0; s < 2; s++)
		kill(t->pid[s], SIGSTOP);
}

double
testpmd_pair_run(struct testpmd_pair *t, uint32_t frame, uint32_t run_ms)
{
	char set[32];
	double got = 0;

	for (unsigned s = 0; s < 2; s++)
		kill(t->pid[s], SIGCONT);
	snprintf(set, sizeof(set), "set txpkts %u", frame);
	say(t, 0, "stop");
	say(t, 0, set);
	say(t, 0, "start");
	rate(t, 0, "Tx-pps:"); /* commands run in order: it has started */
	usleep(SETTLE_MS * 1000);
	rate(t, 1, "Rx-pps:");
	for (unsigned i = 0; i < NODE_TRIES && got <= 0; i++) {
		usleep(run_ms * 1000);
		got = rate(t, 1, "Rx-pps:");
	}
	if (got <= 0)
		bench_die("testpmd got no frame in %u times %u ms", NODE_TRIES, run_ms);
	for (unsigned s = 0; s < 2; s++)
		kill(t->pid[s], SIGSTOP);
	return got;
}

void
testpmd_pair_close(struct testpmd_pair *t)
{
	for (unsigned s = 0; s < 2; s++) {
		kill(t->pid[s], SIGKILL);
		waitpid(t->pid[s], NULL, 0);
		fclose(t->to[s]);
		fclose(t->from[s]);
	}
}
