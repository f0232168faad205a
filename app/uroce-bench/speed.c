/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measures the share of a core that this program gets. A CPU of a virtual machine may be one thread
 * of a core whose sibling thread belongs to another machine. While the sibling is busy, code that
 * keeps all adders busy runs at as little as half the speed, and nothing else inside the machine
 * shows this. The loop therefore has six independent additions.
 */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
#include <rte_cycles.h>
#include "bench.h"

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
