/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cost of the wake-ups of a thread that does nothing else. The report shows it beside the figures
 * of an idle daemon, to separate the machine's cost from the daemon's. A daemon that sleeps longer
 * than SLEEP_NS wakes less often than this thread.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>
#include <rte_pause.h>
#include "client.h"

#define SLEEP_NS 2000000 /* the longest sleep of a worker that polls a port */
#define WAKE_NS  3000000 /* of a worker that need not poll, 100 ms after its last work */

struct sleeper {
	unsigned cpu;
	uint64_t until_ns; /* end of the sleep, CLOCK_MONOTONIC */
	double share;      /* of its core that the thread used */
	int fd;            /* eventfd that wakes the thread */
	uint64_t found;    /* wake-ups seen */
	bool stop;
};

static uint64_t
cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void
start(pthread_t *thread, void *(*fn)(void *), struct sleeper *s)
{
	errno = pthread_create(thread, NULL, fn, s);
	if (errno != 0)
		bench_die("a thread: %m");
}

static void *
sleeps(void *arg)
{
	static const struct timespec limit = {.tv_nsec = SLEEP_NS};
	uint64_t begin, used;
	struct sleeper *s = arg;

	bench_pin(s->cpu);
	begin = bench_now_ns();
	used = cpu_ns();
	while (bench_now_ns() < s->until_ns)
		ppoll(NULL, 0, &limit, NULL);
	used = cpu_ns() - used;
	s->share = (double)used / (double)(bench_now_ns() - begin);
	return NULL;
}

double
client_bare_sleeps(unsigned cpu, uint64_t ns)
{
	struct sleeper s = {.cpu = cpu, .until_ns = bench_now_ns() + ns};
	pthread_t thread;

	start(&thread, sleeps, &s);
	pthread_join(thread, NULL);
	return s.share;
}

static void *
is_woken(void *arg)
{
	static const struct timespec limit = {.tv_nsec = WAKE_NS};
	struct sleeper *s = arg;
	struct pollfd p = {.fd = s->fd, .events = POLLIN};
	uint64_t count;

	bench_pin(s->cpu);
	while (!__atomic_load_n(&s->stop, __ATOMIC_ACQUIRE)) {
		if (ppoll(&p, 1, &limit, NULL) != 1)
			continue;
		__atomic_add_fetch(&s->found, 1, __ATOMIC_RELEASE);
		if (read(s->fd, &count, sizeof(count)) < 0)
			break;
	}
	return NULL;
}

void
client_bare_wakes(unsigned from, unsigned to, uint32_t n, uint32_t pause_us, struct client_hist *h)
{
	const struct timespec pause = {.tv_nsec = (long)pause_us * 1000};
	const uint64_t one = 1;
	struct sleeper s = {.cpu = to, .fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
	pthread_t thread;
	cpu_set_t were;

	if (s.fd < 0)
		bench_die("an eventfd: %m");
	sched_getaffinity(0, sizeof(were), &were);
	start(&thread, is_woken, &s);
	bench_pin(from);
	for (uint64_t i = 1; i <= n; i++) {
		uint64_t begin;

		nanosleep(&pause, NULL);
		begin = bench_now_ns();
		if (write(s.fd, &one, sizeof(one)) < 0)
			break;
		while (__atomic_load_n(&s.found, __ATOMIC_ACQUIRE) != i)
			rte_pause();
		client_hist_add(h, bench_now_ns() - begin);
	}
	__atomic_store_n(&s.stop, true, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	sched_setaffinity(0, sizeof(were), &were);
	close(s.fd);
}
