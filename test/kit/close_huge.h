/* SPDX-License-Identifier: BSD-3-Clause */
/* Replaces close() of a unit program, to count large files that a thread closes: the last close of
 * a file frees all of its pages. */
#ifndef KIT_CLOSE_HUGE_H
#define KIT_CLOSE_HUGE_H

#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HUGE (64u << 20) /* bytes of a large file, at least */

static pthread_t self;   /* the thread that is watched */
static unsigned dropped; /* large files that it has closed */

int
close(int fd)
{
	struct stat st;

	if (pthread_equal(pthread_self(), self) && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
	    st.st_size >= HUGE)
		dropped++;
	return (int)syscall(SYS_close, fd);
}

#endif
