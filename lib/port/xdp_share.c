/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * af_xdp on an interface shared with the kernel: the XDP program that selects RoCE frames, and the
 * socket that receives a copy of neighbours' replies, which go to the kernel.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include "port/log.h"
#include "port/socket.h"
#include "port/xdp.h"
#include "wire/hdr.h"
#include <xdp_share.h> /* made by embed.py */

int
port_xdp_share_program(char *path, size_t room)
{
	int fd, rc;

	if (xdp_share_program_bytes == 0)
		return -ENOTSUP;
	fd = memfd_create("uroce_xdp_share", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (write(fd, xdp_share_program, xdp_share_program_bytes) !=
	    (ssize_t)xdp_share_program_bytes) {
		rc = errno != 0 ? -errno : -EIO;
		close(fd);
		return rc;
	}
	snprintf(path, room, "/proc/self/fd/%d", fd);
	return 0;
}

int
port_xdp_may_share(const struct port *p)
{
	if (strcmp(p->driver, "net_af_xdp") != 0) {
		PORT_LOG(ERR, p->name, "share=yes is for port=packet and net_af_xdp, not for %s",
			 p->driver);
		return -EINVAL;
	}
	/* with several queues, the driver of DPDK 22.11 loads its own program */
	if (p->nrxq == 1)
		return 0;
	PORT_LOG(ERR, p->name, "share=yes takes one queue: no queue_count= in --vdev");
	return -EINVAL;
}

/* Makes the NIC pass frames to multicast groups for as long as the socket is open. */
static int
take_groups(int fd, int ifindex)
{
	struct packet_mreq all = {.mr_ifindex = ifindex, .mr_type = PACKET_MR_ALLMULTI};

	return setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof(all)) == 0 ? 0
											 : -errno;
}

int
port_xdp_neigh_open(struct port *p)
{
	struct sockaddr_ll at = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(ETH_P_ALL),
		.sll_ifindex = (int)if_nametoindex(p->netdev),
	};
	/* protocol 0: receive nothing until the filter is attached */
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), rc;

	if (fd < 0)
		return -errno;
	rc = packet_filter_set(fd, p->mac, true);
	if (rc == 0 && bind(fd, (struct sockaddr *)&at, sizeof(at)) != 0)
		rc = -errno;
	if (rc == 0)
		rc = take_groups(fd, at.sll_ifindex);
	if (rc == 0) {
		p->neigh_fd = fd;
		return 0;
	}
	PORT_LOG(ERR, p->name, "share=yes: socket for neighbours: %s", strerror(-rc));
	close(fd);
	return rc;
}
