/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ethdev's own MTU says 1500 for drivers that carry far more, and refuses to be told better. What
 * counts is the kernel interface under the port, and the buffers that the driver was given.
 */
#include <net/if.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include "port/devarg.h"
#include "port/log.h"
#include "port/mtu.h"
#include "wire/hdr.h"

#define MIN_MTU            576 /* of a link */
#define MIN_WANTED         (256 + WIRE_IP_OVERHEAD)
#define AF_PACKET_OVERHEAD 64 /* of a slot's framesz, for what the kernel puts before the frame */
#define ROCE_MAX_MTU       (4096 + WIRE_IP_OVERHEAD)
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

/*
 * A peer may send as much as the link carries, whatever we ask for. The kernel truncates a frame to
 * an af_packet slot; the other drivers on an interface would have to split it over buffers.
 */
static bool
takes_longer_frames(const struct port *p)
{
	return p->netdev[0] == '\0' || strcmp(p->driver, "net_af_packet") == 0;
}

/* The argument of --vdev that makes the driver's own buffers large enough for any path MTU. */
static const char *
buffer_remedy(const struct port *p)
{
	if (strcmp(p->driver, "net_memif") == 0)
		return "bsize=4608 in --vdev, at both ends,";
	if (strcmp(p->driver, "net_af_packet") == 0)
		return "blocksz=16384,framesz=8192 in --vdev";
	return NULL;
}

/* Says what the buffers take from the link, if that matters to anyone. */
static void
tell_clipped(const struct port *p, uint32_t link, uint32_t fits, uint32_t want)
{
	const char *remedy = buffer_remedy(p);

	if (fits < link && fits < ROCE_MAX_MTU && remedy != NULL)
		PORT_LOG(NOTICE, p->name,
			 "its buffers carry IP packets of %u bytes; path MTU 4096 takes %u: %s "
			 "gives that",
			 fits, ROCE_MAX_MTU, remedy);
	else if (fits < link && p->netdev[0] != '\0')
		PORT_LOG(NOTICE, p->name,
			 "MTU %u of %s: only IP packets of up to %u bytes are received; RoCE sends "
			 "%u "
			 "at most",
			 link, p->netdev, fits, ROCE_MAX_MTU);
	else if (want > link)
		PORT_LOG(WARNING, p->name,
			 "IP packets of %u bytes asked for, but the link carries %u%s%s", want,
			 link, p->netdev[0] != '\0' ? ": raise the MTU of " : "", p->netdev);
}

static void
tell_too_small(const struct port *p, uint32_t link, uint32_t fits)
{
	const char *remedy = buffer_remedy(p);

	if (link < MIN_MTU && p->netdev[0] != '\0')
		PORT_LOG(ERR, p->name,
			 "MTU %u of %s is less than %u: `ip link set %s mtu 1500`, for example",
			 link, p->netdev, MIN_MTU, p->netdev);
	else if (link < MIN_MTU)
		PORT_LOG(ERR, p->name, "the link's MTU of %u is less than %u", link, MIN_MTU);
	else
		PORT_LOG(ERR, p->name,
			 "its buffers carry IP packets of %u bytes, %u are needed%s%s", fits,
			 MIN_MTU, remedy != NULL ? ": try " : "", remedy != NULL ? remedy : "");
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
	if (!takes_longer_frames(p) && link + PORT_L2_BYTES > room) {
		PORT_LOG(ERR, p->name,
			 "MTU %u of %s is more than %s takes: `ip link set %s mtu %u` or less, or "
			 "--vdev net_af_packet0,iface=%s, which takes any",
			 link, p->netdev, p->driver, p->netdev, room - PORT_L2_BYTES, p->netdev);
		return 0;
	}
	fits = fits < room ? fits : room;
	fits = fits > PORT_L2_BYTES ? fits - PORT_L2_BYTES : 0;
	mtu = link < fits ? link : fits;
	if (mtu < MIN_MTU) {
		tell_too_small(p, link, fits);
		return 0;
	}
	if (want != 0 && want < MIN_WANTED) {
		PORT_LOG(ERR, p->name, "IP packets of %u bytes carry no path MTU", want);
		return 0;
	}
	tell_clipped(p, link, fits, want);
	return want != 0 && want < mtu ? want : mtu;
}
