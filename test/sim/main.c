/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uroce-sim: runs schedules of the simulator, by seed. See pair/pair.h.
 */
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
#include <rte_eal.h>
#include "eal.h"
#include "mesh/mesh.h"
#include "pair/pair.h"
#include "suites.h"

#define MAIN_MAX_SET     64
#define MAIN_CPU_SECONDS 20    /* that one schedule may take */
#define MAIN_LONG_TIMES  2     /* runs of a suite in --long */
#define MAIN_LONG_ANY    33000 /* schedules of any kind there, of each simulator */

static const char *main_program;
static uint64_t main_seed; /* under way; for the signal handler */
static const char *main_set[MAIN_MAX_SET];
static unsigned main_nset;
static bool main_mesh; /* schedules are of the mesh */

struct main_opts {
	uint64_t start, runs, seconds;
	const char *list;
	bool verbose, keep_going, all, digest;
};

/* A crash or an endless loop names its seed too. Only async-signal-safe calls here. */
static void
main_on_signal(int sig)
{
	char text[128];
	int n = snprintf(text, sizeof(text),
			 "\nsignal %d in seed %" PRIu64 "; replay: %s%s --seed %" PRIu64 " -v\n",
			 sig, main_seed, main_program, main_mesh ? " --mesh" : "", main_seed);

	if (n > 0 && write(STDERR_FILENO, text, (size_t)n) < 0)
		_exit(3);
	if (sig == SIGVTALRM)
		_exit(1);
	signal(sig, SIG_DFL);
	raise(sig);
}

static void
main_watch(void)
{
	static const int sigs[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGVTALRM};
	size_t i;

	for (i = 0; i < sizeof(sigs) / sizeof(sigs[0]); i++)
		signal(sigs[i], main_on_signal);
}

static void
main_arm_watch(void)
{
	struct itimerval limit = {.it_value.tv_sec = MAIN_CPU_SECONDS};

	setitimer(ITIMER_VIRTUAL, &limit, NULL);
}

struct main_sims {
	struct pair *pair;
	struct mesh *mesh;
};

static bool
main_schedule(struct main_sims *s, uint64_t seed)
{
	struct sim *sim = main_mesh ? &s->mesh->sim : &s->pair->sim;
	unsigned i;
	bool good;

	main_seed = seed;
	main_arm_watch();
	good = sim_run(sim, seed, main_set, main_nset);
	if (sim->digest.on)
		printf("%s%" PRIu64 " %016" PRIx64 "\n", main_mesh ? "mesh " : "", seed,
		       sim->digest.value);
	if (good)
		return true;
	printf("FAILED seed %" PRIu64 ": %s\n  replay: %s%s --seed %" PRIu64 " -v", seed, sim->why,
	       main_program, main_mesh ? " --mesh" : "", seed);
	for (i = 0; i < main_nset; i++)
		printf(" --set %s", main_set[i]);
	printf("\n");
	return false;
}

/* Each line of a list: a seed, and why it is there; "mesh" before one of the mesh. */
static unsigned
main_list(struct main_sims *s, const char *path, uint64_t *runs)
{
	FILE *f = fopen(path, "r");
	unsigned failed = 0;
	char line[512];

	if (f == NULL) {
		perror(path);
		exit(2);
	}
	while (fgets(line, sizeof(line), f) != NULL) {
		char *end, *start = line;
		uint64_t seed;

		main_mesh = strncmp(line, "mesh ", 5) == 0;
		start += main_mesh ? 5 : 0;
		seed = strtoull(start, &end, 10);
		if (end == start)
			continue;
		failed += !main_schedule(s, seed);
		++*runs;
	}
	fclose(f);
	return failed;
}

static double
main_clock(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void
main_summary(const struct pair *p, uint64_t runs, unsigned failed, double took)
{
	const struct sim_stats *t = &p->stats;
	const struct pair_stats *more = &p->more;

	printf("%" PRIu64 " schedules, %u failed, %.1f s (%.0f/s); %" PRIu64 " frames, %" PRIu64
	       " lost, %" PRIu64 " overflow, %" PRIu64 " doubled, %" PRIu64 " damaged, %" PRIu64
	       " NAKs, %" PRIu64 " RNR, %" PRIu64 " completions, %" PRIu64
	       " WQEs failed as they had "
	       "to, %.1f s virtual\n",
	       runs, failed, took, (double)runs / (took > 0 ? took : 1), t->frames, t->lost,
	       more->overflow, t->doubled, t->damaged, more->naks, more->rnrs, t->cqes,
	       t->failed_wqes, (double)t->virtual_ns / 1e9);
	if (more->moves != 0)
		printf("%" PRIu64 " connections moved to a fresh QP\n", more->moves);
}

static void
main_add_set(const char *text)
{
	struct pair_cfg probe;
	struct mesh_cfg mesh_probe;

	if (main_nset == MAIN_MAX_SET ||
	    (main_mesh ? mesh_cfg_set(&mesh_probe, text) : pair_cfg_set(&probe, text)) != 0) {
		fprintf(stderr, "uroce-sim: --set %s: no such field\n", text);
		exit(2);
	}
	main_set[main_nset++] = text;
}

static void
main_suite(struct main_opts *o, const char *name)
{
	const struct sim_suite *suite = sim_suite_find(name);
	uint32_t i;

	main_mesh = suite != NULL && suite->mesh;
	if (suite == NULL) {
		fprintf(stderr, "uroce-sim: --suite %s: no such suite\n", name);
		exit(2);
	}
	o->runs = suite->runs;
	for (i = 0; suite->set[i] != NULL; i++)
		main_add_set(suite->set[i]);
}

static unsigned
main_runs(struct main_sims *s, const struct main_opts *o, uint64_t *runs)
{
	double t0 = main_clock();
	unsigned failed = 0;
	uint64_t i;

	for (i = 0; failed == 0 || o->keep_going; i++) {
		if (o->seconds != 0 ? main_clock() - t0 >= (double)o->seconds : i >= o->runs)
			break;
		failed += !main_schedule(s, o->start + i);
		++*runs;
	}
	return failed;
}

/* Each suite, its runs many times over, and schedules of any kind, of both simulators. */
static unsigned
main_long(struct main_sims *s, struct main_opts *o, uint64_t *runs)
{
	const struct sim_suite *suite;
	unsigned failed = 0, bad;
	uint64_t was;
	int mesh;

	o->keep_going = true;
	for (suite = sim_suites; suite->name != NULL; suite++) {
		main_nset = 0;
		main_suite(o, suite->name);
		o->runs = MAIN_LONG_TIMES * suite->runs;
		was = *runs;
		failed += bad = main_runs(s, o, runs);
		printf("%s: %" PRIu64 " schedules, %u failed\n", suite->name, *runs - was, bad);
		fflush(stdout);
	}
	for (mesh = 0; mesh < 2; mesh++) {
		main_nset = 0;
		main_mesh = mesh;
		o->runs = MAIN_LONG_ANY;
		was = *runs;
		failed += bad = main_runs(s, o, runs);
		printf("any%s: %" PRIu64 " schedules, %u failed\n", mesh ? ", mesh" : "",
		       *runs - was, bad);
		fflush(stdout);
	}
	return failed;
}

static void
main_suites(void)
{
	const struct sim_suite *suite;

	for (suite = sim_suites; suite->name != NULL; suite++)
		printf("%s\n", suite->name);
}

static void
main_usage(FILE *to)
{
	fprintf(to,
		"usage: uroce-sim [--mesh] [--seed N] [--runs N] [--start S] [--seconds T]\n"
		"                 [--list FILE] [--suite NAME] [--suites]\n"
		"                 [--set NAME=VALUE]... [--keep-going] [--digest] [-v | --trace]\n"
		"  --mesh        schedules of the mesh: all types; stands before --set\n"
		"  --seed N      run the one schedule of seed N\n"
		"  --runs N      run N schedules (default 1000)\n"
		"  --start S     first seed of --runs and --seconds (default 1)\n"
		"  --seconds T   run schedules for T seconds\n"
		"  --suite NAME  run a named suite of schedules (--suites lists them)\n"
		"  --long        run every suite, and more than 100,000 schedules in all\n"
		"  --list FILE   run the seeds in FILE, one a line\n"
		"  --set N=V     override a field of the configuration (-v shows them)\n"
		"  --keep-going  do not stop at the first failure\n"
		"  --digest      print a hash of each schedule's events, frames, completions\n"
		"  -v, --trace   print the configuration, each WQE, frame, event, completion\n");
}

static struct main_opts
main_parse(int argc, char **argv)
{
	static const struct option longs[] = {
		{"seed", required_argument, NULL, 's'},  {"runs", required_argument, NULL, 'n'},
		{"start", required_argument, NULL, 'b'}, {"seconds", required_argument, NULL, 't'},
		{"list", required_argument, NULL, 'l'},  {"set", required_argument, NULL, 'x'},
		{"long", no_argument, NULL, 'L'},        {"keep-going", no_argument, NULL, 'k'},
		{"digest", no_argument, NULL, 'd'},      {"verbose", no_argument, NULL, 'v'},
		{"trace", no_argument, NULL, 'v'},       {"mesh", no_argument, NULL, 'm'},
		{"suite", required_argument, NULL, 'u'}, {"suites", no_argument, NULL, 'U'},
		{"help", no_argument, NULL, 'h'},        {NULL, 0, NULL, 0},
	};
	struct main_opts o = {.start = 1, .runs = 1000};
	int c;

	while ((c = getopt_long(argc, argv, "v", longs, NULL)) != -1) {
		switch (c) {
		case 's':
			o.runs = 1;
			o.start = strtoull(optarg, NULL, 0);
			break;
		case 'n':
			o.runs = strtoull(optarg, NULL, 0);
			break;
		case 'b':
			o.start = strtoull(optarg, NULL, 0);
			break;
		case 't':
			o.seconds = strtoull(optarg, NULL, 0);
			break;
		case 'l':
			o.list = optarg;
			break;
		case 'x':
			main_add_set(optarg);
			break;
		case 'u':
			main_suite(&o, optarg);
			break;
		case 'U':
			main_suites();
			exit(0);
		case 'k':
			o.keep_going = true;
			break;
		case 'L':
			o.all = true;
			break;
		case 'd':
			o.digest = true;
			break;
		case 'm':
			main_mesh = true;
			break;
		case 'v':
			o.verbose = true;
			break;
		case 'h':
			main_usage(stdout);
			exit(0);
		default:
			main_usage(stderr);
			exit(2);
		}
	}
	return o;
}

/* Counters in them are aligned to cache lines. */
static void *
main_zalloc(size_t bytes)
{
	void *p = aligned_alloc(64, RTE_ALIGN_CEIL(bytes, 64));

	if (p == NULL)
		exit(2);
	return memset(p, 0, bytes);
}

int
main(int argc, char **argv)
{
	struct main_opts o = main_parse(argc, argv);
	struct main_sims s = {main_zalloc(sizeof(*s.pair)), main_zalloc(sizeof(*s.mesh))};
	struct sim_stock stock;
	uint64_t runs = 0;
	unsigned failed = 0;
	double t0;

	main_program = argv[0];
	sim_eal_open("uroce-sim", "96");
	main_watch();
	sim_stock_open(&stock);
	pair_open(s.pair, &stock);
	mesh_open(s.mesh, &stock);
	s.pair->verbose = s.mesh->verbose = o.verbose;
	s.pair->digest.on = s.mesh->digest.on = o.digest;
	t0 = main_clock();
	if (o.list != NULL)
		failed = main_list(&s, o.list, &runs);
	else
		failed = o.all ? main_long(&s, &o, &runs) : main_runs(&s, &o, &runs);
	main_summary(s.pair, runs, failed, main_clock() - t0);
	if (s.mesh->stats.frames != 0)
		mesh_summary(s.mesh);
	mesh_close(s.mesh);
	pair_close(s.pair);
	sim_stock_close(&stock);
	rte_eal_cleanup();
	return failed != 0;
}
