/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Debian's dpdk-testpmd (package dpdk-dev) as the reference, and as what forwards packets between
 * two nodes. It is controlled through its prompt; the rate is what it prints for the time between
 * two queries.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "node.h"

#define MEM_MIB      512u
#define MBUFS        "--total-num-mbufs=16384"
#define ROOM         "--mbuf-size=8448" /* as in the daemon */
#define XDP_ROOM     "--mbuf-size=3712" /* fits into a page with its headers */
#define SETTLE_MS    10
#define LINK_TRIES   300
#define LINK_US      100000
#define L2_BYTES     18u /* around a packet of the MTU: header and FCS */
#define LEAST_LEN    1518u
#define MAX_ARGS     48

#define SUMMARY      "show port summary all"
#define SUMMARY_HEAD "Number of available ports"

/*
 * Reads up to the line that contains what; text gets the part after what. Returns false if a line
 * contains instead, unless that is NULL.
 */
static bool
read_until(FILE *from, const char *what, const char *instead, char *text, size_t size)
{
	char line[512];

	while (fgets(line, sizeof(line), from) != NULL) {
		const char *at = strstr(line, what);

		if (at != NULL) {
			snprintf(text, size, "%s", at + strlen(what));
			return true;
		}
		if (instead != NULL && strstr(line, instead) != NULL)
			return false;
	}
	bench_die("dpdk-testpmd (package dpdk-dev) ended, or did not start");
}

static void
say(const struct testpmd *t, const char *what)
{
	fprintf(t->to, "%s\n", what);
	fflush(t->to);
}

/* Received or sent frames per second since the last query. */
static double
rate(const struct testpmd *t, const char *which)
{
	char text[64];

	say(t, "show port stats all");
	read_until(t->from, which, NULL, text, sizeof(text));
	return strtod(text, NULL);
}

/* What a testpmd is to do. */
struct job {
	const char *forward; /* its option */
	const char *order;   /* "--portlist=.." or NULL */
	unsigned cpu;
	const char (*device)[NODE_DEVICE];
	unsigned ndevices;
};

struct args {
	const char *v[MAX_ARGS + 1];
	unsigned n;
};

static void
arg(struct args *a, const char *text)
{
	if (a->n == MAX_ARGS)
		abort();
	a->v[a->n++] = text;
}

/* EAL's arguments for the job's devices, and for memory. */
static void
eal_args(struct args *a, const struct job *job)
{
	bool pci = false, huge;

	for (unsigned i = 0; i < job->ndevices; i++) {
		bool here = bench_is_pci(job->device[i]);

		arg(a, here ? "--allow" : "--vdev");
		arg(a, job->device[i]);
		pci |= here;
	}
	huge = pci && bench_huge_pages_free(MEM_MIB);
	arg(a, huge ? "--in-memory" : "--no-huge");
	if (!huge)
		arg(a, "--no-shconf");
	if (!pci)
		arg(a, "--no-pci");
}

static void
open_pipes(struct testpmd *t, const struct args *a)
{
	int in[2], out[2];

	if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0)
		bench_die("pipe: %m");
	t->pid = bench_spawn((char *const *)a->v, in[0], out[1], SIGKILL, NULL);
	close(in[0]);
	close(out[1]);
	t->to = fdopen(in[1], "we");
	t->from = fdopen(out[0], "re");
	if (t->to == NULL || t->from == NULL)
		bench_die("no memory");
}

/* Lets the PCI devices of a testpmd, which come first, carry packets of the MTU. */
static void
jumbo_later(const struct testpmd *t, const struct job *job, uint32_t mtu)
{
	char text[96];

	say(t, "stop");
	for (unsigned i = 0; i < job->ndevices && bench_is_pci(job->device[i]); i++) {
		snprintf(text, sizeof(text), "port stop %u\nport config mtu %u %u\nport start %u",
			 i, i, mtu, i);
		say(t, text);
	}
	say(t, "start");
}

/* Starts a testpmd and waits until it forwards. */
static void
start(struct testpmd *t, const struct bench_options *o, const struct job *job)
{
	static unsigned serial;
	char prefix[32], lcores[32], text[64], longest[32], mem[16];
	uint32_t bytes = node_net_mtu(o) + L2_BYTES;
	/* line buffered, or its output is delayed */
	struct args a = {.v = {"stdbuf", "-oL", "dpdk-testpmd", "--no-telemetry",
			       "--log-level=error", "--file-prefix", prefix, "--lcores", lcores,
			       "-m", mem},
			 .n = 11};

	snprintf(prefix, sizeof(prefix), "testpmd-%d-%u", getpid(), serial++);
	snprintf(lcores, sizeof(lcores), "0@%u,1@%u", job->cpu, job->cpu);
	snprintf(mem, sizeof(mem), "%u", MEM_MIB);
	eal_args(&a, job);
	arg(&a, "--");
	arg(&a, "-i");
	arg(&a, "--auto-start");
	arg(&a, "--no-mlockall");
	arg(&a, MBUFS);
	arg(&a, o->port == BENCH_PORT_AF_XDP ? XDP_ROOM : ROOM);
	arg(&a, job->forward);
	arg(&a, job->order != NULL ? job->order : "--port-topology=loop"); /* a port alone */
	arg(&a, "--disable-link-check");                                   /* testpmd_wait_links */
	snprintf(longest, sizeof(longest), "--max-pkt-len=%u", bytes);
	/* virtual ports need none, and some refuse it: jumbo_later */
	if (job->ndevices == 1 && bench_is_pci(job->device[0]) && bytes > LEAST_LEN)
		arg(&a, longest);
	t->nports = job->ndevices;
	open_pipes(t, &a);
	/* it takes a command only after it has started, or has failed to start, its ports */
	say(t, SUMMARY);
	if (!read_until(t->from, "packet forwarding - ports=", SUMMARY_HEAD, text, sizeof(text)))
		bench_die("dpdk-testpmd could not start its port %s with packets of %u bytes",
			  job->device[0], node_net_mtu(o));
	/* testpmd continues without a port and prints no rate */
	if (strtoul(text, NULL, 10) != job->ndevices)
		bench_die("dpdk-testpmd could not open %s: it has %lu of %u ports", job->device[0],
			  strtoul(text, NULL, 10), job->ndevices);
	read_until(t->from, SUMMARY_HEAD, NULL, text, sizeof(text));
	if (job->ndevices > 1 && bytes > LEAST_LEN)
		jumbo_later(t, job, node_net_mtu(o));
}

/* How many of its ports have a link. */
static unsigned
links_up(const struct testpmd *t)
{
	char line[512];
	unsigned n = 0;

	say(t, SUMMARY);
	read_until(t->from, SUMMARY_HEAD, NULL, line, sizeof(line));
	read_until(t->from, "MAC Address", NULL, line, sizeof(line));
	for (unsigned i = 0; i < t->nports; i++)
		if (fgets(line, sizeof(line), t->from) != NULL)
			n += strstr(line, " up ") != NULL;
	return n;
}

void
testpmd_wait_links(struct testpmd *t)
{
	unsigned up = 0;

	if (t->pid == 0)
		return;
	for (unsigned i = 0; i < LINK_TRIES; i++) {
		up = links_up(t);
		if (up == t->nports)
			return;
		usleep(LINK_US);
	}
	bench_die("dpdk-testpmd: %u of its %u ports have a link", up, t->nports);
}

void
testpmd_between_open(struct testpmd *t, const struct bench_options *o, const struct node_path *path)
{
	char order[32];
	struct job job = {.forward = "--forward-mode=io",
			  .order = order,
			  .cpu = node_net_cpu(o, 2),
			  .device = path->between,
			  .ndevices = path->nbetween};

	*t = (struct testpmd){.pid = 0};
	if (path->nbetween == 0)
		return;
	snprintf(order, sizeof(order), "--portlist=%s", path->order);
	start(t, o, &job);
}

void
testpmd_close(struct testpmd *t)
{
	if (t->pid == 0)
		return;
	kill(t->pid, SIGKILL);
	waitpid(t->pid, NULL, 0);
	fclose(t->to);
	fclose(t->from);
	t->pid = 0;
}

/* Stops or continues the two ends. A testpmd between them runs all the time. */
static void
signal_pair(const struct testpmd_pair *t, int sig)
{
	for (unsigned s = 0; s < 2; s++)
		kill(t->side[s].pid, sig);
}

void
testpmd_pair_open(struct testpmd_pair *t, const struct bench_options *o, unsigned link)
{
	struct node_path path;

	node_net_path(o, link, &path);
	testpmd_between_open(&t->between, o, &path);
	for (unsigned s = 2; s-- > 0;) {
		struct job job = {.forward = s == 0 ? "--forward-mode=txonly"
						    : "--forward-mode=rxonly",
				  .cpu = node_net_cpu(o, s),
				  .device = path.node + s,
				  .ndevices = 1};

		start(&t->side[s], o, &job);
	}
	testpmd_wait_links(&t->between);
	for (unsigned s = 0; s < 2; s++)
		testpmd_wait_links(&t->side[s]);
	signal_pair(t, SIGSTOP);
}

double
testpmd_pair_run(struct testpmd_pair *t, uint32_t frame, uint32_t run_ms)
{
	char set[32];
	double got = 0;

	signal_pair(t, SIGCONT);
	snprintf(set, sizeof(set), "set txpkts %u", frame);
	say(&t->side[0], "stop");
	say(&t->side[0], set);
	say(&t->side[0], "start");
	rate(&t->side[0], "Tx-pps:"); /* commands run in order: it has started */
	usleep(SETTLE_MS * 1000);
	rate(&t->side[1], "Rx-pps:");
	for (unsigned i = 0; i < NODE_TRIES && got <= 0; i++) {
		usleep(run_ms * 1000);
		got = rate(&t->side[1], "Rx-pps:");
	}
	if (got <= 0)
		bench_die("testpmd got no frame in %u times %u ms", NODE_TRIES, run_ms);
	signal_pair(t, SIGSTOP);
	return got;
}

void
testpmd_pair_close(struct testpmd_pair *t)
{
	for (unsigned s = 0; s < 2; s++)
		testpmd_close(&t->side[s]);
	testpmd_close(&t->between);
}
