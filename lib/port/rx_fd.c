/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * net_af_packet has one socket per queue but does not expose it as a receive interrupt. We find the
 * socket among this process's descriptors by the interface that it is bound to.
 */
#include <dirent.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include "port/rx_fd.h"

static bool
bound_to(int fd, unsigned ifindex)
{
	struct sockaddr_ll at = {0};
	socklen_t len = sizeof(at);

	return getsockname(fd, (struct sockaddr *)&at, &len) == 0 && at.sll_family == AF_PACKET &&
	       at.sll_ifindex == (int)ifindex;
}

/* Returns the only packet socket on an interface; 0: none, or several. */
static int
packet_socket(unsigned ifindex)
{
	DIR *dir = opendir("/proc/self/fd");
	const struct dirent *e;
	int found = 0, n = 0;

	while (dir != NULL && (e = readdir(dir)) != NULL) {
		int fd = atoi(e->d_name);

		if (fd > 0 && bound_to(fd, ifindex)) {
			found = fd;
			n++;
		}
	}
	if (dir != NULL)
		closedir(dir);
	return n == 1 ? found : 0;
}

int
port_find_rx_fd(const struct port *p)
{
	unsigned ifindex = if_nametoindex(p->netdev);

	if (strcmp(p->driver, "net_af_packet") != 0 || p->nrxq != 1 || ifindex == 0)
		return 0;
	return packet_socket(ifindex);
}
