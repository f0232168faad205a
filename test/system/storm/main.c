/* SPDX-License-Identifier: BSD-3-Clause */
/*
 *   storm DEVICE ADDRESS [SECONDS [THREADS [SEED]]]
 *
 * ADDRESS: the device's IPv4 address, for rdma_cm. Prints one TAP line. Exit status 0: no call
 * failed, no byte was wrong.
 */
#include "storm.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "kit/program.h"
#include "kit/verbs.h"

#define MAX_SAID    20
#define FORK_US     50000
#define HANG_FACTOR 20 /* a program that runs for so many times its length counts as hung */

struct storm storm = {.device = "uroce0"};

static const struct {
	const char *name;
	storm_job *run;
	unsigned int weight;
} jobs[] = {
	{"connection", job_connection, 8},
	{"datagrams", job_datagrams, 3},
	{"queues", job_queues, 4},
	{"domains", job_domains, 2},
	{"regions", job_regions, 4},
	{"same pages", job_same_pages, 3},
	{"channel", job_channel, 4},
	{"limit", job_limit, 2},
	{"context", job_context, 2},
	{"import", job_import, 1},
	{"cm", job_cm, 3},
	{"cm group", job_cm_group, 1},
	{"hub", job_hub, 4},
	{"burst", job_burst, 4},
};
#define JOBS (sizeof(jobs) / sizeof(jobs[0]))

static atomic_uint done[JOBS];

void
storm_failed(const struct worker *w, const char *file, int line, const char *what)
{
	int err = errno;

	if (atomic_fetch_add(&storm.failed, 1) < MAX_SAID) {
		printf("# thread %u, job %s: %s:%d: %s (errno %d: %s)\n", w->id, w->job, file, line,
		       what, err, strerror(err));
		fflush(stdout);
	}
	storm.stop = true;
}

uint32_t
storm_random(struct worker *w, uint32_t n)
{
	w->rng = w->rng * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)((w->rng >> 33) % n);
}

static uint8_t
pattern(size_t i, uint32_t seed)
{
	return (uint8_t)((i + 1) * 167 + seed * 31 + (i >> 8) + (seed >> 8));
}

void
storm_fill(uint8_t *to, size_t len, uint32_t seed)
{
	for (size_t i = 0; i < len; i++)
		to[i] = pattern(i, seed);
}

bool
storm_is_filled(const uint8_t *from, size_t len, uint32_t seed)
{
	for (size_t i = 0; i < len; i++) {
		if (from[i] != pattern(i, seed))
			return false;
	}
	return true;
}

static bool
over(void)
{
	return storm.stop || now_ns() > storm.end_ns;
}

static void *
worker(void *arg)
{
	struct worker *w = arg;
	unsigned int total = 0;

	for (unsigned int i = 0; i < JOBS; i++)
		total += jobs[i].weight;
	/* Each kind once, so that a short or slow run has them all. */
	for (unsigned int i = 0; !over(); i++) {
		uint32_t pick = storm_random(w, total), k = 0;

		if (i == 0) {
			k = w->id % JOBS;
		} else {
			while (pick >= jobs[k].weight)
				pick -= jobs[k++].weight;
		}
		w->job = jobs[k].name;
		jobs[k].run(w);
		done[k]++;
	}
	return NULL;
}

/*
 * In the child of a fork: the parent's objects do nothing, and its context makes no new ones. The
 * exit status has a bit for each thing that is wrong.
 */
static void
child(void)
{
	int bad = 0;

	alarm(STORM_WAIT_S);
	if (!storm_is_filled(storm.common, STORM_COMMON_BYTES, 0))
		bad |= 1;
	if (!storm.sanitized) {
		if (ibv_alloc_pd(storm.ctx))
			bad |= 2;
		if (ibv_create_cq(storm.ctx, 10, NULL, NULL, 0))
			bad |= 4;
		if (ibv_reg_mr(storm.pd, storm.common, STORM_COMMON_BYTES, 0))
			bad |= 8;
	}
	_exit(bad);
}

static pthread_barrier_t forker_ready;

static void *
forker(void *arg)
{
	struct worker *w = arg;

	/* Attaches an arena to this thread, before another thread has used it. */
	free(w->own = malloc(sizeof(*w)));
	pthread_barrier_wait(&forker_ready);
	for (int status = 0; !over(); usleep(FORK_US)) {
		pid_t pid = fork();

		if (pid == 0)
			child();
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
			printf("# a child's status: 0x%x\n", (unsigned int)status);
		if (pid < 0 || status != 0)
			storm_failed(w, __FILE__, __LINE__, "a child succeeds");
	}
	return NULL;
}

static bool
set_up(void)
{
	/*
	 * The child of a fork allocates: from an arena of the forking thread alone. Other threads
	 * store into registered pages until the child has its copy (doc/memory.md).
	 */
	mallopt(M_ARENA_MAX, 4 * STORM_MAX_THREADS);
	storm.ctx = verbs_open(storm.device);
	storm.hub = storm.ctx ? ibv_create_cq(storm.ctx, STORM_HUB_CQES, NULL, NULL, 0) : NULL;
	storm.pd = storm.ctx ? ibv_alloc_pd(storm.ctx) : NULL;
	storm.common = aligned_alloc(4096, STORM_COMMON_BYTES);
	if (storm.common)
		storm_fill(storm.common, STORM_COMMON_BYTES, 0);
	storm.sanitized = getenv("UROCE_SANITIZED") != NULL;
	return storm.hub && storm.pd && storm.common;
}

static void
run(uint64_t seed)
{
	struct worker w[STORM_MAX_THREADS], forks = {.id = storm.threads, .job = "fork"};
	pthread_t t[STORM_MAX_THREADS], events, fork_thread;

	pthread_barrier_init(&forker_ready, NULL, 2);
	if (pthread_create(&events, NULL, storm_events, NULL) ||
	    pthread_create(&fork_thread, NULL, forker, &forks))
		abort();
	pthread_barrier_wait(&forker_ready);
	for (unsigned int i = 0; i < storm.threads; i++) {
		w[i] = (struct worker){.id = i, .rng = seed * 1000 + i};
		storm_random(&w[i], 2);
		if (pthread_create(&t[i], NULL, worker, &w[i]))
			abort();
	}
	for (unsigned int i = 0; i < storm.threads; i++)
		pthread_join(t[i], NULL);
	pthread_join(fork_thread, NULL);
	storm.stop = true;
	pthread_join(events, NULL);
}

int
main(int argc, char **argv)
{
	unsigned int seconds = argc > 3 ? (unsigned int)atoi(argv[3]) : 5;
	uint64_t seed = argc > 5 ? strtoull(argv[5], NULL, 0) : (uint64_t)getpid();
	bool all = true;

	storm.threads = argc > 4 ? (unsigned int)atoi(argv[4]) : JOBS;
	if (argc < 3 || seconds == 0 || storm.threads == 0 || storm.threads > STORM_MAX_THREADS)
		return 2;
	storm.device = argv[1];
	storm.address = argv[2];
	if (!set_up()) {
		printf("Bail out! %s cannot be set up: %s\n", storm.device, strerror(errno));
		return 1;
	}
	printf("# seed %llu\n", (unsigned long long)seed);
	fflush(stdout);
	alarm(seconds * HANG_FACTOR + STORM_WAIT_S);
	storm.end_ns = now_ns() + seconds * 1000000000ull;
	run(seed);
	for (unsigned int i = 0; i < JOBS; i++) {
		printf("# %s: %u\n", jobs[i].name, done[i]);
		all &= done[i] != 0;
	}
	if (ibv_destroy_cq(storm.hub) != 0 || ibv_dealloc_pd(storm.pd) != 0 ||
	    ibv_close_device(storm.ctx) != 0)
		storm.failed++;
	if (!all && storm.threads >= JOBS) {
		printf("# not every job ran\n");
		storm.failed++;
	}
	printf("%s 1 - threads create, use and destroy everything\n1..1\n",
	       storm.failed ? "not ok" : "ok");
	return storm.failed != 0;
}
