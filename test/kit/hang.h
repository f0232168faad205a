/* SPDX-License-Identifier: BSD-3-Clause */
/* Bounds of waits in tests. They only end a hang: no working code takes so long, however busy the
 * machine is. */
#ifndef KIT_HANG_H
#define KIT_HANG_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>
#include <time.h>

#define HANGS_S 90

/*
 * Evaluates cond every 100 us until it is true; false after 600,000 naps, at least 60 s. Naps are
 * counted because they are longer on a busy machine.
 */
#define COMES_TRUE(cond)                                                                           \
	({                                                                                         \
		const struct timespec nap_ = {.tv_nsec = 100000};                                  \
		unsigned int left_ = 600000;                                                       \
		bool true_;                                                                        \
		while (!(true_ = (cond)) && left_-- != 0)                                          \
			nanosleep(&nap_, NULL);                                                    \
		true_;                                                                             \
	})

/* Whether a thread of this process sleeps in the kernel; false if it has ended. */
static inline bool
thread_sleeps(pid_t tid)
{
	char path[64], state = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)tid);
	f = fopen(path, "r");
	if (f == NULL)
		return false;
	if (fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
		state = 0;
	fclose(f);
	return state == 'S';
}

#endif
