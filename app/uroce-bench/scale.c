/* SPDX-License-Identifier: BSD-3-Clause */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <rte_common.h>
#include "cli/cli.h"
#include "client.h"
#include "scale.h"
#include "uroce_abi/hello.h"

#define MIB_BASE   128u
#define MIB_WORKER 40u

/* The CPUs that workers use, in this order. */
static struct {
	unsigned cpu[UROCE_MAX_WORKERS];
	unsigned n, cores; /* the first `cores` of them are on different cores */
} cpus;

/* Is this CPU the first thread of its core, of those that the program may use? */
static bool
first_of_core(unsigned cpu)
{
	char path[96], list[128], *at = list;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/topology/thread_siblings_list",
		 cpu);
	f = fopen(path, "re");
	if (f == NULL)
		return true;
	if (fgets(list, sizeof(list), f) == NULL)
		list[0] = '\0';
	fclose(f);
	while (*at >= '0' && *at <= '9') {
		unsigned first = (unsigned)strtoul(at, &at, 10), last = first;

		if (*at == '-')
			last = (unsigned)strtoul(at + 1, &at, 10);
		for (; first <= last && first < cpu; first++)
			if (client_may_use(first))
				return false;
		at += *at == ',';
	}
	return true;
}

/* The first threads of all cores come before the others. */
static void
cpus_find(void)
{
	for (unsigned pass = 0; pass < 2; pass++) {
		for (unsigned i = 0; i < client_cpus() && cpus.n < RTE_DIM(cpus.cpu); i++) {
			if (first_of_core(client_cpu(i)) == (pass == 0))
				cpus.cpu[cpus.n++] = client_cpu(i);
		}
		cpus.cores = pass == 0 ? cpus.n : cpus.cores;
	}
}

/* The numbers of workers to measure. */
static struct {
	unsigned v[SCALE_LISTS];
	unsigned n;
} counts;

unsigned
scale_most_workers(void)
{
	unsigned most = 1;

	for (unsigned i = 0; i < counts.n; i++)
		most = RTE_MAX(most, counts.v[i]);
	return most;
}

static void
counts_add(unsigned n)
{
	if (counts.n == SCALE_LISTS)
		cli_wrong(&bench_program, "--workers: more than %d numbers", SCALE_LISTS);
	counts.v[counts.n++] = n;
}

static void
counts_parse(const char *text)
{
	char *end;

	for (;; text = end + 1) {
		unsigned long n = strtoul(text, &end, 10);

		if (end == text || (*end != ',' && *end != '\0') || *text < '0' || *text > '9')
			cli_wrong(&bench_program, "--workers: %s: not a list like 1,2,4", text);
		if (n < 1 || n > cpus.n)
			cli_wrong(&bench_program,
				  "--workers: %lu: not 1 .. %u, the CPUs that this program may use "
				  "(at most %d)",
				  n, cpus.n, UROCE_MAX_WORKERS);
		counts_add((unsigned)n);
		if (*end == '\0')
			return;
	}
}

void
scale_check_options(const struct bench_options *o)
{
	if (strcmp(o->mode, "scale") != 0)
		return;
	cpus_find();
	if (o->workers != NULL) {
		counts_parse(o->workers);
		return;
	}
	for (unsigned n = 1; n < cpus.n; n *= 2)
		counts_add(n);
	counts_add(cpus.n);
}

void
scale_eal_start(const struct bench_options *o, char **plain)
{
	unsigned most = scale_most_workers();
	char lcores[24 * (UROCE_MAX_WORKERS + 1)];
	int n;

	/* the main thread, which sleeps nearly always, where there is room */
	n = snprintf(lcores, sizeof(lcores), "0@(%u", cpus.cpu[0]);
	for (unsigned i = 1; i < cpus.n; i++)
		n += snprintf(lcores + n, sizeof(lcores) - (size_t)n, ",%u", cpus.cpu[i]);
	n += snprintf(lcores + n, sizeof(lcores) - (size_t)n, ")");
	for (unsigned i = 0; i < most; i++)
		n += snprintf(lcores + n, sizeof(lcores) - (size_t)n, ",%u@%u", i + 1, cpus.cpu[i]);
	bench_eal_start(o->no_huge, lcores, MIB_BASE + MIB_WORKER * most, plain);
}

/* Messages per second of one worker, by the last row of one; 0: not measured. */
static double one_worker;

static bool
measure(const struct bench_options *o, struct bench_report *r, unsigned n, unsigned split)
{
	struct scale_set *s = scale_set_open(o, n, split);
	struct scale_sample a;
	char where[64] = "";
	bool equal;

	for (uint32_t i = 0; i < o->runs; i++) {
		scale_set_run(s, &a);
		bench_add(r, "messages", "M/s", a.messages * 1e-6);
		bench_add(r, "goodput", "Gb/s", a.messages * o->size * 8e-9);
		if (one_worker > 0 && n > 1)
			bench_add(r, "versus_one", "x", a.messages / one_worker);
		bench_add(r, "worker", "ns", n * 1e9 / a.messages);
		bench_add(r, "slowest_worker", "M/s", a.slowest * 1e-6);
		bench_add(r, "fastest_worker", "M/s", a.fastest * 1e-6);
		bench_add(r, "handed_over", "%", 100 * a.handed_over);
		bench_add(r, "handoff_full", "a message", a.dropped);
		bench_add(r, "resent", "a message", a.resent);
		bench_add(r, "core_speed", "ns", a.speed_ns);
	}
	equal = o->op == BENCH_ATOMIC || scale_set_verify(s);
	scale_set_close(s);
	if (n == 1)
		one_worker = bench_median(r, "messages") * 1e6;
	if (split != 0 && o->split_given)
		snprintf(where, sizeof(where), ", %u %% of the QPs on a wrong queue", split);
	else if (split != 0)
		snprintf(where, sizeof(where), ", random queue");
	bench_report_row(r, "scale, RC %s, %u B, MTU %u, %u worker%s, %u QP%s each%s%s%s",
			 bench_op_name[o->op], o->size, o->mtu, n, n == 1 ? "" : "s", o->qps,
			 o->qps == 1 ? "" : "s", where, n > cpus.cores ? ", some on one core" : "",
			 equal ? "" : ": BYTES DIFFER");
	return equal;
}

/* Measures one operation and size with every number of workers. */
static bool
measure_all(const struct bench_options *o, struct bench_report *r)
{
	bool equal = true;

	one_worker = 0;
	for (unsigned i = 0; i < counts.n; i++) {
		unsigned n = counts.v[i];
		/* a queue by chance is the right one once in n */
		unsigned split = o->split_given ? o->split : (100 * (n - 1) + n / 2) / n;

		equal &= measure(o, r, n, 0);
		if (n > 1 && split != 0)
			equal &= measure(o, r, n, split);
	}
	return equal;
}

int
bench_scale(const struct bench_options *o, struct bench_report *r)
{
	static const enum bench_op ops[] = {BENCH_WRITE, BENCH_SEND, BENCH_READ};
	static const uint32_t sizes[] = {64, 4096};
	bool equal = true;
	char list[8 * UROCE_MAX_WORKERS] = "";

	for (unsigned i = 0, k = 0; i < cpus.n; i++)
		k += (unsigned)snprintf(list + k, sizeof(list) - k, "%s%u", i == 0 ? "" : ",",
					cpus.cpu[i]);
	bench_report_text(r, "cpus", list);
	if (!o->sweep)
		return measure_all(o, r) ? 0 : 1;
	for (unsigned op = 0; op < RTE_DIM(ops); op++) {
		for (unsigned i = 0; i < RTE_DIM(sizes); i++) {
			struct bench_options one = *o;

			one.op = ops[op];
			one.size = sizes[i];
			equal &= measure_all(&one, r);
		}
	}
	return equal ? 0 : 1;
}
