/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ethdev's own MTU says 1500 for drivers that carry far more, and refuses to be told better. What
 * counts is the kernel interface under the port, and the buffers that the driver was given.
 */
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include "port/devarg.h"
#include "port/log.h"
#include "port/mtu.h"

#define MIN_MTU            576
#define AF_PACKET_OVERHEAD 64   /* of a slot's framesz, for what the kernel puts before the frame */
#define DRIVER_BUF_DEFAULT 2048 /* memif's bsize and af_packet's framesz where none is given */

/* MTU of an interface of this process's network namespace (sysfs may show another's). 0: unknown.
 */
static uint32_t
netdev_mtu(const char *netdev)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq req = {0};
	uint32_t mtu = 0;

	if (fd < 0)
		return 0;
	memcpy(req.ifr_name, netdev, strnlen(netdev, sizeof(req.ifr_name) - 1));
	if (ioctl(fd, SIOCGIFMTU, &req) == 0 && req.ifr_mtu > 0)
		mtu = (uint32_t)req.ifr_mtu;
	close(fd);
	return mtu;
}

/* The longest frame that the driver's own buffers hold. UINT32_MAX: it has none. */
static uint32_t
driver_frame_bytes(const struct port *p, const struct rte_eth_dev_info *info)
{
	/* a frame over several memif buffers arrives corrupted now and then */
	if (strcmp(p->driver, "net_memif") == 0)
		return port_devarg_number(info, "bsize", DRIVER_BUF_DEFAULT);
	/* a longer one is dropped without a word */
	if (strcmp(p->driver, "net_af_packet") == 0) {
		uint32_t slot = port_devarg_number(info, "framesz", DRIVER_BUF_DEFAULT);

		return slot > AF_PACKET_OVERHEAD ? slot - AF_PACKET_OVERHEAD : 0;
	}
	if (strcmp(p->driver, "net_af_xdp") == 0)
		return info->max_rx_pktlen;
	return UINT32_MAX;
}

/* What the link would carry if nobody asked for less. */
static uint32_t
native_mtu(const struct port *p, uint32_t want, uint32_t room)
{
	uint16_t mtu = 0;
	uint32_t netdev = p->netdev[0] != '\0' ? netdev_mtu(p->netdev) : 0;

	if (netdev != 0)
		return netdev;
	/* memory between two ends has no MTU of its own */
	if (strcmp(p->driver, "net_ring") == 0 || strcmp(p->driver, "net_memif") == 0)
		return room - PORT_L2_BYTES;
	/* a NIC is told what was asked for, by rte_eth_dev_configure */
	if (want != 0)
		return want;
	return rte_eth_dev_get_mtu(p->id, &mtu) == 0 ? mtu : 0;
}

uint32_t
port_find_mtu(const struct port *p, const struct rte_eth_dev_info *info, uint32_t want,
	      uint32_t room)
{
	uint32_t link, fits = driver_frame_bytes(p, info), mtu;

	if (room < MIN_MTU + PORT_L2_BYTES) {
		PORT_LOG(ERR, p->name, "packet buffers of %u bytes are too small", room);
		return 0;
	}
	link = native_mtu(p, want, room);
	/* who shares the link may send as much as it carries, whatever we ask for */
	if (p->netdev[0] != '\0' && link + PORT_L2_BYTES > room) {
		PORT_LOG(ERR, p->name, "MTU %u of %s needs packet buffers of %u bytes, not %u",
			 link, p->netdev, link + PORT_L2_BYTES, room);
		return 0;
	}
	fits = fits < room ? fits : room;
	fits = fits > PORT_L2_BYTES ? fits - PORT_L2_BYTES : 0;
	mtu = link < fits ? link : fits;
	if (want > mtu)
		PORT_LOG(WARNING, p->name,
			 "MTU %u asked for, but it carries %u (link %u, buffers %u)", want, mtu,
			 link, fits);
	else if (want != 0)
		mtu = want;
	if (mtu < MIN_MTU) {
		PORT_LOG(ERR, p->name, "MTU %u is less than %u", mtu, MIN_MTU);
		return 0;
	}
	return mtu;
}
