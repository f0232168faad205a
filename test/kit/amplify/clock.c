/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A library that `amplify clock` preloads: clocks that count from the machine's start jump forward.
 * UROCE_AMPLIFY_CLOCK has the time of the start (CLOCK_MONOTONIC, ns) and a seed, so all processes
 * see the same jumps.
 *
 * Absolute deadlines of these clocks are translated; relative ones pass through.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define MS    UINT64_C(1000000)
#define S     (1000 * MS)
#define JUMPS 512 /* the last after about 17 minutes */

/* Jump i happens at at_ns after the start; from then on clocks are ahead by ahead_ns. */
static struct {
	uint64_t at_ns, ahead_ns;
} jumps[JUMPS];
static uint64_t start_ns; /* 0: no jumps */

static uint64_t
real_ns(clockid_t id)
{
	struct timespec ts;

	syscall(SYS_clock_gettime, id, &ts);
	return (uint64_t)ts.tv_sec * S + (uint64_t)ts.tv_nsec;
}

/* Uniform in [0, n); splitmix64. */
static uint64_t
draw(uint64_t *state, uint64_t n)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return (z ^ z >> 31) % n;
}

/* Earlier than other libraries' constructors where the linker allows it; clocks read before are
 * real. */
__attribute__((constructor(101))) static void
prepare(void)
{
	const char *env = getenv("UROCE_AMPLIFY_CLOCK");
	uint64_t start, seed, at = 0, ahead = 0, gap = 20 * MS;

	if (!env || sscanf(env, "%lu %lu", &start, &seed) != 2)
		return;
	for (unsigned int i = 0; i < JUMPS; i++) {
		at += gap / 2 + draw(&seed, gap);
		ahead += 100 * MS + draw(&seed, 1900 * MS);
		jumps[i].at_ns = at;
		jumps[i].ahead_ns = ahead;
		gap = gap * 2 < 2 * S ? gap * 2 : 2 * S;
	}
	start_ns = start;
}

static int
jumping(clockid_t id)
{
	return start_ns && (id == CLOCK_MONOTONIC || id == CLOCK_MONOTONIC_RAW ||
			    id == CLOCK_MONOTONIC_COARSE || id == CLOCK_BOOTTIME);
}

/* By how much the clocks are ahead now. */
static uint64_t
ahead_ns(void)
{
	uint64_t since = real_ns(CLOCK_MONOTONIC) - start_ns, ahead = 0;

	for (unsigned int i = 0; i < JUMPS && jumps[i].at_ns <= since; i++)
		ahead = jumps[i].ahead_ns;
	return ahead;
}

/* The real time of a deadline, in place; the past becomes 1 ns after the machine's start. */
static void
translate(struct timespec *ts)
{
	uint64_t ns = (uint64_t)ts->tv_sec * S + (uint64_t)ts->tv_nsec, ahead = ahead_ns();

	ns = ns > ahead ? ns - ahead : 1;
	ts->tv_sec = (time_t)(ns / S);
	ts->tv_nsec = (long)(ns % S);
}

int
clock_gettime(clockid_t id, struct timespec *ts)
{
	uint64_t ns;

	if (!jumping(id))
		return (int)syscall(SYS_clock_gettime, id, ts);
	ns = real_ns(id) + ahead_ns();
	ts->tv_sec = (time_t)(ns / S);
	ts->tv_nsec = (long)(ns % S);
	return 0;
}

int
clock_nanosleep(clockid_t id, int flags, const struct timespec *want, struct timespec *left)
{
	struct timespec at = *want;

	if (flags & TIMER_ABSTIME && jumping(id))
		translate(&at);
	return syscall(SYS_clock_nanosleep, id, flags, &at, left) ? errno : 0;
}

int
timerfd_settime(int fd, int flags, const struct itimerspec *new, struct itimerspec *old)
{
	struct itimerspec at = *new;

	/* A monotonic one: the machine has not been up for 30 years. */
	if (start_ns && flags & TFD_TIMER_ABSTIME && (at.it_value.tv_sec || at.it_value.tv_nsec) &&
	    at.it_value.tv_sec < 1000000000)
		translate(&at.it_value);
	return (int)syscall(SYS_timerfd_settime, fd, flags, &at, old);
}

/*
 * Those of libc that take a deadline and are used by threads of the tests and of Python. x86-64 has
 * an older version of pthread_cond_timedwait, too, which dlsym may find.
 */
static void *
next(const char *name)
{
	void *call = dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2");

	return call ? call : dlsym(RTLD_NEXT, name);
}
#define NEXT(name) ((__typeof__(&name))next(#name))

int
sem_clockwait(sem_t *sem, clockid_t id, const struct timespec *until)
{
	struct timespec at = *until;

	if (jumping(id))
		translate(&at);
	return NEXT(sem_clockwait)(sem, id, &at);
}

int
pthread_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t id,
		       const struct timespec *until)
{
	struct timespec at = *until;

	if (jumping(id))
		translate(&at);
	return NEXT(pthread_cond_clockwait)(cond, mutex, id, &at);
}

int
pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until)
{
	struct timespec at = *until;

	if (start_ns && at.tv_sec < 1000000000) /* as above */
		translate(&at);
	return NEXT(pthread_cond_timedwait)(cond, mutex, &at);
}
