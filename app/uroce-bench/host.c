/* SPDX-License-Identifier: BSD-3-Clause */
/* The machine: EAL, clock, and the distance between its two cores. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <rte_common.h>
#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include "bench.h"

#define DISTANCE_TURNS 20000u /* a multiple of the group */
#define PING_GROUP     100u

/* Frequency of the TSC while DPDK is not running. */
static double
own_hz(void)
{
	static double hz;
	struct timespec from, to, nap = {.tv_nsec = 10000000};
	uint64_t cycles;

	if (hz != 0)
		return hz;
	clock_gettime(CLOCK_MONOTONIC_RAW, &from);
	cycles = rte_rdtsc();
	nanosleep(&nap, NULL);
	clock_gettime(CLOCK_MONOTONIC_RAW, &to);
	cycles = rte_rdtsc() - cycles;
	hz = (double)cycles /
	     ((double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) * 1e-9);
	return hz;
}

double
bench_ns(uint64_t cycles)
{
	uint64_t hz = rte_get_tsc_hz();

	return (double)cycles * 1e9 / (hz != 0 ? (double)hz : own_hz());
}

uint64_t
bench_tsc(void)
{
#ifdef __x86_64__
	__builtin_ia32_lfence();
#endif
	return rte_rdtsc();
}

double
bench_tsc_ns(void)
{
	uint64_t best = UINT64_MAX;

	for (unsigned i = 0; i < 1000; i++) {
		uint64_t start = bench_tsc(), end = bench_tsc();

		best = end - start < best ? end - start : best;
	}
	return bench_ns(best);
}

static bool
huge_pages_free(unsigned mib)
{
	FILE *f = fopen("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "re");
	unsigned long n = 0;

	if (f == NULL)
		return false;
	if (fscanf(f, "%lu", &n) != 1)
		n = 0;
	fclose(f);
	return n >= (mib + 1) / 2;
}

/* EAL leaves its empty folder behind. */
static void
runtime_dir_away(void)
{
	rmdir(rte_eal_get_runtime_dir());
}

int
bench_eal_plain(const char *lcores, unsigned mib, const char *vdev)
{
	char prefix[64], mem[16];
	char *argv[] = {"uroce-bench",
			"--no-huge",
			"--no-shconf",
			"--no-pci",
			"-m",
			mem,
			"--no-telemetry",
			"--log-level=error",
			"--iova-mode=va",
			prefix,
			"--lcores",
			(char *)lcores,
			"--vdev",
			(char *)vdev};

	snprintf(mem, sizeof(mem), "%u", mib);
	snprintf(prefix, sizeof(prefix), "--file-prefix=bench-%d", getpid());
	return rte_eal_init((int)RTE_DIM(argv) - (vdev == NULL ? 2 : 0), argv);
}

void
bench_eal_start(bool no_huge, const char *lcores, unsigned mib, char **plain)
{
	char mem[16];
	char *huge[] = {"uroce-bench",    "--in-memory",       "--no-pci", "-m",          mem,
			"--no-telemetry", "--log-level=error", "--lcores", (char *)lcores};
	bool use_huge = !no_huge && huge_pages_free(mib);
	int rc;

	snprintf(mem, sizeof(mem), "%u", mib);
	rc = use_huge ? rte_eal_init((int)RTE_DIM(huge), huge) : bench_eal_plain(lcores, mib, NULL);

	if (rc < 0 && use_huge && plain != NULL)
		execv("/proc/self/exe", plain); /* a process can start EAL only once */
	if (rc < 0)
		bench_die("DPDK does not start: %s", rte_strerror(rte_errno));
	atexit(runtime_dir_away);
}

static struct {
	uint32_t word __attribute__((aligned(64)));
	uint32_t pad[31];
} flag;

bool
bench_pin(unsigned cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return pthread_setaffinity_np(pthread_self(), sizeof(set), &set) == 0;
}

void
bench_pong(uint32_t *word, uint32_t turns)
{
	for (uint32_t i = 1; i <= 2 * turns; i += 2) {
		while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != i)
			;
		__atomic_store_n(word, i + 1, __ATOMIC_RELEASE);
	}
}

double
bench_ping(uint32_t *word, uint32_t turns)
{
	uint64_t start, best = UINT64_MAX;

	/* The minimum over groups of turns excludes preemption by other threads. */
	for (uint32_t i = 1; i <= 2 * turns;) {
		start = rte_rdtsc();
		for (unsigned k = 0; k < PING_GROUP; k++, i += 2) {
			__atomic_store_n(word, i, __ATOMIC_RELEASE);
			while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != i + 1)
				;
		}
		start = rte_rdtsc() - start;
		best = start < best ? start : best;
	}
	return bench_ns(best) / (2 * PING_GROUP);
}

static void *
echo(void *arg)
{
	bench_pin(1);
	bench_pong(&flag.word, DISTANCE_TURNS);
	return NULL;
}

double
bench_core_distance(void)
{
	cpu_set_t before;
	pthread_t th;
	double ns;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		return 0;
	pthread_getaffinity_np(pthread_self(), sizeof(before), &before);
	flag.word = 0;
	if (pthread_create(&th, NULL, echo, NULL) != 0)
		return 0;
	bench_pin(0);
	ns = bench_ping(&flag.word, DISTANCE_TURNS);
	pthread_join(th, NULL);
	pthread_setaffinity_np(pthread_self(), sizeof(before), &before);
	return ns;
}
