/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Preloaded into uroced: receive buffers of sockets are what an ordinary user gets with
 * net.core.rmem_max=212992, the default of kernels older than 6.18, such as Debian 12's. Setting
 * the sysctl would change the whole machine.
 */
#include <errno.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define RMEM_MAX 212992

int
setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
	const int most = RMEM_MAX;

	if (level == SOL_SOCKET && name == SO_RCVBUFFORCE) {
		errno = EPERM;
		return -1;
	}
	if (level == SOL_SOCKET && name == SO_RCVBUF && len == sizeof(most) &&
	    *(const int *)value > most)
		value = &most;
	return (int)syscall(SYS_setsockopt, fd, level, name, value, len);
}
