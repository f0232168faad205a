/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uroce-sim: runs schedules of the simulator, by seed. See pair/pair.h.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
#include <rte_eal.h>
#include "cli/cli.h"
#include "eal.h"
#include "mesh/mesh.h"
#include "pair/pair.h"
#include "suites.h"

#define MAIN_CPU_SECONDS 20    /* limit of one schedule */
#define MAIN_LONG_TIMES  2     /* runs of a suite in --long */
#define MAIN_LONG_ANY    33000 /* random schedules in --long, for each simulator */

static const char *main_program;
static uint64_t main_seed; /* current schedule; for the signal handler */
static const char *main_set[CLI_LIST_MAX];
static unsigned main_nset;
static bool main_mesh; /* schedules are of the mesh */

struct main_opts {
	uint64_t seed, start, runs, seconds, moves, part;
	const char *list, *suite;
	struct cli_list set;
	bool has_seed, mesh, suites, verbose, keep_going, all, digest;
};

#define ROW(option, kind, member) .name = option, .type = kind, CLI_AT(struct main_opts, member)

static const struct cli_field main_options[] = {
	{ROW("mesh", CLI_SWITCH, mesh), .help = "schedules of the mesh: all types"},
	{ROW("seed", CLI_NUMBER, seed), .arg = "N", .given = offsetof(struct main_opts, has_seed),
	 .help = "run the one schedule of seed N"},
	{ROW("runs", CLI_NUMBER, runs), .arg = "N", .help = "run N schedules [1000]"},
	{ROW("start", CLI_NUMBER, start), .arg = "S", .def = "1",
	 .help = "first seed of --runs, --seconds and --moves"},
	{ROW("seconds", CLI_NUMBER, seconds), .arg = "T", .help = "run schedules for T seconds"},
	{ROW("moves", CLI_NUMBER, moves), .arg = "N",
	 .help = "run schedules until N QPs have moved (--set move=PPM)"},
	{ROW("suite", CLI_TEXT, suite), .arg = "NAME", .help = "run a named suite of schedules"},
	{ROW("part", CLI_NUMBER, part), .arg = "N", .def = "1",
	 .help = "of --suite: only the first of N equal parts of its schedules"},
	{ROW("suites", CLI_SWITCH, suites), .help = "list the suites"},
	{ROW("long", CLI_SWITCH, all),
	 .help = "run every suite, and more than 100,000 schedules in all"},
	{ROW("list", CLI_TEXT, list), .arg = "FILE", .help = "run the seeds in FILE, one a line"},
	{ROW("set", CLI_LIST, set), .arg = "NAME=VALUE",
	 .help = "override a field of the configuration (-v shows them)"},
	{ROW("keep-going", CLI_SWITCH, keep_going), .help = "do not stop at the first failure"},
	{ROW("digest", CLI_SWITCH, digest),
	 .help = "print a hash of each schedule's events, frames, completions"},
	{ROW("verbose", CLI_SWITCH, verbose), .letter = 'v',
	 .help = "print the configuration, each WQE, frame, event, completion"},
	{NULL},
};

static const struct cli_program main_cli = {
	.name = "uroce-sim",
	.usage = "usage: uroce-sim [options]\n",
	.options = main_options,
};

/* Prints the seed after a crash or an endless loop, too. Only async-signal-safe calls here. */
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

/* Runs the seeds in a list. Each line has a seed and its reason; "mesh" before one of the mesh. */
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
	if (more->sacks != 0)
		printf("%" PRIu64 " selective acknowledgements\n", more->sacks);
	if (t->paced != 0)
		printf("%" PRIu64 " packets waited for their pace\n", t->paced);
}

static void
main_add_set(const char *text)
{
	struct pair_cfg probe;
	struct mesh_cfg mesh_probe;

	if (main_nset == CLI_LIST_MAX ||
	    (main_mesh ? mesh_cfg_set(&mesh_probe, text) : pair_cfg_set(&probe, text)) != 0)
		cli_wrong(&main_cli, "option --set: no field for '%s'", text);
	main_set[main_nset++] = text;
}

static void
main_suite(struct main_opts *o, const char *name)
{
	const struct sim_suite *suite = sim_suite_find(name);
	uint32_t i;

	if (suite == NULL)
		cli_wrong(&main_cli, "option --suite: unknown '%s' (--suites lists them)", name);
	main_mesh = suite->mesh;
	o->runs = suite->runs;
	for (i = 0; suite->set[i] != NULL; i++)
		main_add_set(suite->set[i]);
}

/* Has the program run what the options want, after n schedules since t0? */
static bool
main_enough(const struct main_sims *s, const struct main_opts *o, uint64_t n, double t0)
{
	if (o->seconds != 0)
		return main_clock() - t0 >= (double)o->seconds;
	if (o->moves != 0)
		return s->mesh->more.moves >= o->moves;
	return n >= o->runs;
}

static unsigned
main_runs(struct main_sims *s, const struct main_opts *o, uint64_t *runs)
{
	double t0 = main_clock();
	unsigned failed = 0;
	uint64_t i;

	for (i = 0; (failed == 0 || o->keep_going) && !main_enough(s, o, i, t0); i++) {
		failed += !main_schedule(s, o->start + i);
		++*runs;
	}
	return failed;
}

/* Runs each suite many times, and random schedules of both simulators. */
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

static struct main_opts
main_parse(int argc, char **argv)
{
	struct main_opts o = {0};
	uint64_t runs;

	if (cli_parse(&main_cli, &o, argc, argv) > 0)
		cli_wrong(&main_cli, "'%s' is not an option: all start with --", argv[1]);
	runs = o.runs;
	o.runs = 1000;
	main_mesh = o.mesh;
	if (o.suites) {
		main_suites();
		exit(0);
	}
	if (o.part == 0)
		cli_wrong(&main_cli, "option --part: 0 is not a number of parts");
	if (o.part != 1 && o.suite == NULL)
		cli_wrong(&main_cli, "option --part: needs --suite");
	if (o.suite != NULL) {
		main_suite(&o, o.suite);
		o.runs = (o.runs + o.part - 1) / o.part;
	}
	for (uint32_t i = 0; i < o.set.n; i++)
		main_add_set(o.set.v[i]);
	if (runs != 0)
		o.runs = runs;
	if (o.has_seed) {
		o.runs = 1;
		o.start = o.seed;
	}
	return o;
}

/* Allocates zeroed, cache-line-aligned memory, because counters in it need that. */
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
