/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The futex calls of a unit test with a simulated clock; one file of the test includes it. All
 * other system calls are the kernel's.
 */
#ifndef KIT_FAKE_FUTEX_H
#define KIT_FAKE_FUTEX_H

#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static struct {
	unsigned int waits, wakes;
	uint64_t limit_ns;     /* of the last wait */
	const uint32_t *woken; /* word of the last wake-up */
	/* Set by the test: a thread sleeps for limit_ns. NULL: no thread may sleep. */
	void (*sleep)(uint64_t limit_ns);
} futex;

static long
futex_call(const uint32_t *word, long op, uint32_t value, const struct timespec *limit)
{
	if (op == FUTEX_WAKE) {
		futex.wakes++;
		futex.woken = word;
		return 1;
	}
	if (__atomic_load_n(word, __ATOMIC_RELAXED) != value) {
		errno = EAGAIN;
		return -1;
	}
	futex.waits++;
	futex.limit_ns = (uint64_t)limit->tv_sec * 1000000000u + (uint64_t)limit->tv_nsec;
	if (futex.sleep == NULL)
		abort();
	futex.sleep(futex.limit_ns);
	errno = ETIMEDOUT;
	return -1;
}

long
syscall(long number, ...)
{
	static long (*real)(long, ...);
	long arg[6];
	va_list ap;

	va_start(ap, number);
	for (int i = 0; i < 6; i++)
		arg[i] = va_arg(ap, long);
	va_end(ap);
	if (number == SYS_futex)
		return futex_call((const uint32_t *)arg[0], arg[1], (uint32_t)arg[2],
				  (const struct timespec *)arg[3]);
	if (real == NULL)
		real = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
	return real(number, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
}

#endif
