/* SPDX-License-Identifier: BSD-3-Clause */
#include "port/socket.h"
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include "port/log.h"

/* Socket buffers to request: a window of 128 packets of 4 KiB, for a few QPs. */
#define BUFFER_WANTED (8 * 1024 * 1024)
#define BUFFER_ENOUGH (2 * 1024 * 1024)

void
port_socket_failed(const char *name, int err, uint64_t said[PORT_SAID], uint64_t *errors)
{
	__atomic_store_n(errors, *errors + 1, __ATOMIC_RELAXED);
	/* the link state tells about an interface that goes down */
	if (err == ENETDOWN || err <= 0 || err >= 64 * PORT_SAID ||
	    (said[err / 64] >> err % 64 & 1))
		return;
	said[err / 64] |= 1ull << err % 64;
	PORT_LOG(WARNING, name, "cannot receive: %s (logged once)", strerror(err));
}

bool
port_socket_set(int fd, int level, int option, int value)
{
	return setsockopt(fd, level, option, &value, sizeof(value)) == 0;
}

void
port_socket_buffers(int fd, const char *name, bool tell)
{
	int have = 0;
	socklen_t len = sizeof(have);

	if (!port_socket_set(fd, SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_WANTED))
		port_socket_set(fd, SOL_SOCKET, SO_RCVBUF, BUFFER_WANTED);
	if (!port_socket_set(fd, SOL_SOCKET, SO_SNDBUFFORCE, BUFFER_WANTED))
		port_socket_set(fd, SOL_SOCKET, SO_SNDBUF, BUFFER_WANTED);
	if (!tell)
		return;
	if (getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &have, &len) == 0 && have < BUFFER_ENOUGH)
		PORT_LOG(NOTICE, name,
			 "the socket's receive buffer holds %d KiB only, so packets may be lost: "
			 "`sysctl net.core.rmem_max=%d` permits a larger one",
			 have / 1024, BUFFER_WANTED / 2);
}
