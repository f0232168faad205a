/* SPDX-License-Identifier: BSD-3-Clause */
#include "fake.h"

#include <poll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <rte_cycles.h>

uint64_t fake_now_ns, fake_cpu_ns;

/* The next three replace libc's. The real clock is EAL's, before fake_open. */
int
clock_gettime(clockid_t id, struct timespec *ts)
{
	uint64_t ns = id == CLOCK_THREAD_CPUTIME_ID ? fake_cpu_ns : fake_now_ns;

	if (fake_now_ns == 0 || (id != CLOCK_MONOTONIC && id != CLOCK_THREAD_CPUTIME_ID))
		return (int)syscall(SYS_clock_gettime, id, ts);
	ts->tv_sec = (time_t)(ns / NS_PER_S);
	ts->tv_nsec = (long)(ns % NS_PER_S);
	return 0;
}

int
nanosleep(const struct timespec *want, struct timespec *left)
{
	if (fake_now_ns == 0)
		return (int)syscall(SYS_nanosleep, want, left);
	fake_now_ns += (uint64_t)want->tv_sec * NS_PER_S + (uint64_t)want->tv_nsec;
	return 0;
}

/* Only the daemon's wait for workers, which here have nothing to say while it sleeps. */
int
ppoll(struct pollfd *fds, nfds_t nfds, const struct timespec *limit, const sigset_t *mask)
{
	int rc = poll(fds, nfds, 0);

	if (rc == 0)
		nanosleep(limit, NULL);
	return rc;
}

void
fake_clock_start(void)
{
	struct timespec ts;

	syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &ts);
	fake_now_ns = ((uint64_t)ts.tv_sec + 86400) * NS_PER_S;
	fake_cpu_ns = 0;
}
