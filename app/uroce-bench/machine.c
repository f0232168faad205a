/* SPDX-License-Identifier: BSD-3-Clause */
/* Processes, the clock, EAL, and what the machine can do: the cores' distance and speed, CRC and
 * copy. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>
#include <rte_common.h>
#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include "bench.h"
#include "wire/icrc.h"

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

bool
bench_huge_pages_free(unsigned mib)
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

bool
bench_is_pci(const char *device)
{
	size_t len = strcspn(device, ",");

	return memchr(device, ':', len) != NULL &&
	       strspn(device, "0123456789abcdefABCDEF:.") >= len;
}

/* Starts EAL; device: NULL or as of bench_eal_plain. */
static int
eal_init(const char *lcores, unsigned mib, const char *device, bool huge)
{
	char prefix[64], mem[16];
	bool pci = device != NULL && bench_is_pci(device);
	char *argv[20] = {"uroce-bench", "--no-telemetry", "--log-level=error", "-m",
			  mem,           "--lcores",       (char *)lcores};
	int argc = 7;

	if (huge) {
		argv[argc++] = "--in-memory";
	} else {
		argv[argc++] = "--no-huge";
		argv[argc++] = "--no-shconf";
		argv[argc++] = prefix;
	}
	if (!pci) {
		argv[argc++] = "--no-pci";
		argv[argc++] = "--iova-mode=va";
	}
	if (device != NULL) {
		argv[argc++] = pci ? "--allow" : "--vdev";
		argv[argc++] = (char *)device;
	}
	snprintf(mem, sizeof(mem), "%u", mib);
	snprintf(prefix, sizeof(prefix), "--file-prefix=bench-%d", getpid());
	return rte_eal_init(argc, argv);
}

int
bench_eal_plain(const char *lcores, unsigned mib, const char *device)
{
	return eal_init(lcores, mib, device,
			device != NULL && bench_is_pci(device) && bench_huge_pages_free(mib));
}

void
bench_eal_start(bool no_huge, const char *lcores, unsigned mib, char **plain)
{
	bool use_huge = !no_huge && bench_huge_pages_free(mib);
	int rc = eal_init(lcores, mib, NULL, use_huge);

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

/*
 * Measures the share of a core that this program gets. A CPU of a virtual machine may be one thread
 * of a core whose sibling thread belongs to another machine. While the sibling is busy, code that
 * keeps all adders busy runs at as little as half the speed, and nothing else inside the machine
 * shows this. The loop therefore has six independent additions.
 */

#define TURNS 20000u /* about 10 us: shorter than a time slice of other processes */
#define TRIES 40u

static uint64_t
additions(void)
{
	uint64_t a = 1, b = 2, c = 3, d = 4, e = 5, f = 6, start = rte_rdtsc();

	for (uint64_t i = 0; i < TURNS; i++) {
		a += i;
		b ^= i;
		c += i;
		d ^= i;
		e += i;
		f ^= i;
		__asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f));
	}
	return rte_rdtsc() - start;
}

double
bench_speed_here(void)
{
	struct bench_figure ns = {.n = 0};

	for (unsigned i = 0; i < TRIES; i++)
		bench_figure_add(&ns, bench_ns(additions()) / TURNS);
	/*
	 * Not the minimum: a busy neighbour also pauses during some of the tries. Other processes
	 * of this machine on the core take only a few tries away, which does not move the median.
	 */
	return bench_figure_median(&ns);
}

struct place {
	unsigned cpu;
	pthread_barrier_t *both;
	double ns;
};

static void *
measure(void *arg)
{
	struct place *p = arg;

	bench_pin(p->cpu);
	pthread_barrier_wait(p->both);
	p->ns = bench_speed_here();
	return NULL;
}

void
bench_core_speed(double ns[BENCH_CORES])
{
	unsigned n = sysconf(_SC_NPROCESSORS_ONLN) < BENCH_CORES ? 1 : BENCH_CORES;
	struct place place[BENCH_CORES];
	pthread_t th[BENCH_CORES];
	pthread_barrier_t both;

	pthread_barrier_init(&both, NULL, n);
	for (unsigned i = 0; i < n; i++) {
		place[i] = (struct place){.cpu = i, .both = &both};
		if (pthread_create(&th[i], NULL, measure, &place[i]) != 0)
			abort();
	}
	for (unsigned i = 0; i < n; i++)
		pthread_join(th[i], NULL);
	pthread_barrier_destroy(&both);
	for (unsigned i = 0; i < BENCH_CORES; i++)
		ns[i] = i < n ? place[i].ns : 0;
}

#define HOT_BYTES (64 * 1024) /* memory in use: fits the L2 cache */
#define SWEEPS    5

static uint8_t hot[2 * HOT_BYTES] __attribute__((aligned(64)));

/* ns of one call over len bytes, the best of five sweeps. */
static double
best_ns(void (*call)(uint32_t off, uint32_t len), uint32_t len)
{
	uint32_t step = (len + 63) & ~63u, turns = 1 + 2000000 / (len + 200);
	uint64_t best = UINT64_MAX;

	for (unsigned k = 0; k < SWEEPS; k++) {
		uint64_t start = rte_rdtsc_precise();
		uint32_t off = 0;

		for (uint32_t i = 0; i < turns; i++) {
			call(off, len);
			off += step;
			if (off + len > HOT_BYTES)
				off = 0;
		}
		start = rte_rdtsc_precise() - start;
		best = start < best ? start : best;
	}
	return bench_ns(best) / turns;
}

static volatile uint32_t crc_sink;

static void
crc_once(uint32_t off, uint32_t len)
{
	crc_sink = wire_icrc_update(crc_sink, hot + off, len);
}

static void
copy_once(uint32_t off, uint32_t len)
{
	memcpy(hot + HOT_BYTES + off, hot + off, len);
	__asm__ volatile("" ::: "memory");
}

double
bench_crc_ns(uint32_t len)
{
	return best_ns(crc_once, len);
}

double
bench_copy_ns(uint32_t len)
{
	return best_ns(copy_once, len);
}
