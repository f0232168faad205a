/* SPDX-License-Identifier: BSD-3-Clause */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <rte_common.h>
#include <rte_pause.h>
#include "app/uroce-bench/bench.h"
#include "lines.h"

#define STOP         SIGUSR2
#define REGIONS      1024u
#define NAME_LEN     48
#define LOOK_US      200
#define OTHERS_LOOKS 20
#define OTHERS_US    10000
#define OTHERS       0x80u /* bit of the threads that are not looked at */

/* A writable mapping. */
struct region {
	uint8_t *at, *old;
	size_t bytes;
	uint8_t *writers; /* for each line, a bit for each thread */
	char name[NAME_LEN];
};

struct lines {
	unsigned n;
	unsigned nregions;
	struct region region[REGIONS];
};

/* Alone on its lines, or this test would find itself. */
static struct {
	uint32_t may_run __attribute__((aligned(128))); /* written by the main thread */
	uint32_t stopped __attribute__((aligned(128))); /* written by the thread */
	pthread_t thread;
} gate[LINES_THREADS];

static __thread unsigned me;

/* Memory is compared page by page first. */
static size_t
block_bytes(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

static void
stop_here(int sig)
{
	(void)sig;
	__atomic_store_n(&gate[me].stopped, 1, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&gate[me].may_run, __ATOMIC_ACQUIRE))
		rte_pause();
	__atomic_store_n(&gate[me].stopped, 0, __ATOMIC_RELEASE);
}

void
lines_enter(unsigned thread)
{
	me = thread;
	gate[thread].thread = pthread_self();
}

static void
stop(unsigned thread)
{
	__atomic_store_n(&gate[thread].may_run, 0, __ATOMIC_RELEASE);
	pthread_kill(gate[thread].thread, STOP);
	while (!__atomic_load_n(&gate[thread].stopped, __ATOMIC_ACQUIRE))
		usleep(LOOK_US);
}

static void
go_on(unsigned thread)
{
	__atomic_store_n(&gate[thread].may_run, 1, __ATOMIC_RELEASE);
	while (__atomic_load_n(&gate[thread].stopped, __ATOMIC_ACQUIRE))
		usleep(LOOK_US);
}

/*
 * Adds a mapping, unless it is a thread's stack: the kernel writes there when a thread changes its
 * CPU (rseq). guard: where the last mapping ended if it was a guard page.
 */
static void
add_region(struct lines *l, const char *line, uint64_t *guard)
{
	struct region *r = &l->region[l->nregions];
	uint64_t from, to, after_guard = *guard;
	char perms[5];
	int name = 0;

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %*s %*s %*s %n", &from, &to, perms, &name) <
	    3)
		return;
	*guard = strcmp(perms, "---p") == 0 && to - from == block_bytes() ? to : 0;
	if (perms[0] != 'r' || perms[1] != 'w' || strstr(line, "[stack]") != NULL ||
	    from == after_guard)
		return;
	if (l->nregions == REGIONS)
		bench_die("more than %u mappings", REGIONS);
	*r = (struct region){.at = (uint8_t *)(uintptr_t)from, .bytes = (size_t)(to - from)};
	snprintf(r->name, sizeof(r->name), "%.*s", (int)strcspn(line + name, "\n"), line + name);
	l->nregions++;
}

static void *
map(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		bench_die("no memory for a copy of this process's memory");
	return p;
}

/* The list is complete before memory for the copies is mapped, which is therefore not in it. */
static void
find_regions(struct lines *l)
{
	FILE *f = fopen("/proc/self/maps", "re");
	char line[512];
	uint64_t guard = 0;

	if (f == NULL)
		bench_die("/proc/self/maps: %m");
	while (fgets(line, sizeof(line), f) != NULL)
		add_region(l, line, &guard);
	fclose(f);
	for (unsigned i = 0; i < l->nregions; i++) {
		struct region *r = &l->region[i];

		r->old = map(r->bytes);
		r->writers = map(r->bytes / LINES_BYTES);
	}
}

/* Lines that changed since the last call count as written by these threads (bits; 0: by none). */
static void
look(struct lines *l, unsigned writers)
{
	const size_t block = block_bytes();

	for (unsigned i = 0; i < l->nregions; i++) {
		struct region *r = &l->region[i];

		for (size_t at = 0; at < r->bytes; at += block) {
			if (memcmp(r->at + at, r->old + at, block) == 0)
				continue;
			for (size_t k = at; writers != 0 && k < at + block; k += LINES_BYTES)
				if (memcmp(r->at + k, r->old + k, LINES_BYTES) != 0)
					r->writers[k / LINES_BYTES] |= (uint8_t)writers;
			memcpy(r->old + at, r->at + at, block);
		}
	}
}

struct lines *
lines_open(unsigned n, void (*meanwhile)(void *arg), void *arg)
{
	struct sigaction sa = {.sa_handler = stop_here, .sa_flags = SA_RESTART};
	struct lines *l = map(sizeof(*l));

	l->n = n;
	sigaction(STOP, &sa, NULL);
	for (unsigned i = 0; i < n; i++)
		stop(i);
	find_regions(l);
	look(l, 0);
	for (unsigned i = 0; i < OTHERS_LOOKS; i++) {
		meanwhile(arg);
		usleep(OTHERS_US);
		look(l, OTHERS);
	}
	return l;
}

void
lines_run_alone(struct lines *l, unsigned thread, bool (*enough)(void *arg), void *arg)
{
	look(l, 0);
	go_on(thread);
	while (!enough(arg))
		usleep(LOOK_US);
	stop(thread);
	look(l, 1u << thread);
}

uint64_t
lines_written(const struct lines *l, unsigned thread)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < l->nregions; i++)
		for (size_t k = 0; k < l->region[i].bytes / LINES_BYTES; k++)
			n += l->region[i].writers[k] >> thread & 1;
	return n;
}

/* What others write, too, says nothing about the threads. */
static bool
several(unsigned writers)
{
	return (writers & OTHERS) == 0 && (writers & (writers - 1)) != 0;
}

void
lines_shared(const struct lines *l,
	     void (*found)(uintptr_t line, unsigned writers, const char *mapping, void *arg),
	     void *arg)
{
	for (unsigned i = 0; i < l->nregions; i++) {
		const struct region *r = &l->region[i];

		for (size_t k = 0; k < r->bytes / LINES_BYTES; k++)
			if (several(r->writers[k]))
				found((uintptr_t)r->at + k * LINES_BYTES, r->writers[k], r->name,
				      arg);
	}
}

void
lines_close(struct lines *l)
{
	for (unsigned i = 0; i < l->n; i++)
		go_on(i);
	for (unsigned i = 0; i < l->nregions; i++) {
		munmap(l->region[i].old, l->region[i].bytes);
		munmap(l->region[i].writers, l->region[i].bytes / LINES_BYTES);
	}
	munmap(l, sizeof(*l));
}
