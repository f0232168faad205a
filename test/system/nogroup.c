/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Preloaded into uroced: packet sockets make no group, as with some kernels on an interface that is
 * down.
 */
#include <errno.h>
#include <linux/if_packet.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

int
setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
	if (level == SOL_PACKET && name == PACKET_FANOUT) {
		errno = EINVAL;
		return -1;
	}
	return (int)syscall(SYS_setsockopt, fd, level, name, value, len);
}
