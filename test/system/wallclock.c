/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Preloaded into uroced by test_wallclock.py: the time of day is wrong by the seconds that the file
 * WALLCLOCK_FILE contains, and changes when they do. The kernel keeps the real time, so a wait
 * until a time of day ends early or late, as it does when the clock is stepped during the wait.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const int64_t *wrong_s;

__attribute__((constructor)) static void
prepare(void)
{
	const char *path = getenv("WALLCLOCK_FILE");
	int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	void *at = fd < 0 ? MAP_FAILED : mmap(NULL, 8, PROT_READ, MAP_SHARED, fd, 0);

	if (at == MAP_FAILED)
		abort();
	wrong_s = at;
	close(fd);
}

int
clock_gettime(clockid_t id, struct timespec *ts)
{
	long rc = syscall(SYS_clock_gettime, id, ts);

	if (rc == 0 && id == CLOCK_REALTIME && wrong_s != NULL)
		ts->tv_sec += __atomic_load_n(wrong_s, __ATOMIC_RELAXED);
	return (int)rc;
}

time_t
time(time_t *to)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	if (to != NULL)
		*to = ts.tv_sec;
	return ts.tv_sec;
}

int
gettimeofday(struct timeval *tv, void *zone)
{
	struct timespec ts;

	(void)zone;
	clock_gettime(CLOCK_REALTIME, &ts);
	tv->tv_sec = ts.tv_sec;
	tv->tv_usec = ts.tv_nsec / 1000;
	return 0;
}
