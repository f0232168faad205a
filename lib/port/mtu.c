/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Some drivers report and accept an MTU of 1500 only, although they carry longer frames. The limits
 * used here are the MTU of the kernel interface under the port and the size of the driver's
 * buffers.
 */
#include <stdbool.h>
#include <string.h>
#include "port/ethdev.h"
#include "port/host.h"
#include "port/log.h"
#include "wire/hdr.h"

#define MIN_MTU            576 /* smallest MTU of a link */
#define MIN_WANTED         (256 + WIRE_IP_OVERHEAD)
#define AF_PACKET_OVERHEAD 64 /* part of framesz used by the kernel's own header */
#define ROCE_MAX_MTU       (4096 + WIRE_IP_OVERHEAD)
#define DRIVER_BUF_DEFAULT 2048 /* default of memif's bsize and af_packet's framesz */

/* Returns the longest frame that the driver's buffers hold; UINT32_MAX if it has none. */
static uint32_t
driver_frame_bytes(const struct port *p, const struct rte_eth_dev_info *info)
{
	/* memif sometimes corrupts frames that span several buffers. */
	if (strcmp(p->driver, "net_memif") == 0)
		return port_devarg_number(info, "bsize", DRIVER_BUF_DEFAULT);
	/* The kernel silently drops longer frames. */
	if (strcmp(p->driver, "net_af_packet") == 0) {
		uint32_t slot = port_devarg_number(info, "framesz", DRIVER_BUF_DEFAULT);

		return slot > AF_PACKET_OVERHEAD ? slot - AF_PACKET_OVERHEAD : 0;
	}
	if (strcmp(p->driver, "net_af_xdp") == 0)
		return info->max_rx_pktlen;
	return UINT32_MAX;
}

/* Returns the MTU of the link, before any configured limit. */
static uint32_t
native_mtu(const struct port *p, uint32_t want, uint32_t room)
{
	uint16_t mtu = 0;
	uint32_t netdev = p->netdev[0] != '\0' ? host_mtu(p->netdev) : 0;

	if (netdev != 0)
		return netdev;
	/* Shared memory has no MTU: the buffers are the limit. */
	if (strcmp(p->driver, "net_ring") == 0 || strcmp(p->driver, "net_memif") == 0)
		return room - PORT_L2_BYTES;
	/* rte_eth_dev_configure sets a NIC to the requested MTU. */
	if (want != 0)
		return want;
	return rte_eth_dev_get_mtu(p->id, &mtu) == 0 ? mtu : 0;
}

/*
 * Returns true if frames may arrive that exceed our buffers, because peers may use the whole MTU of
 * the link. The kernel truncates such frames to an af_packet slot; other drivers on an interface
 * would have to split them.
 */
static bool
takes_longer_frames(const struct port *p)
{
	return p->netdev[0] == '\0' || strcmp(p->driver, "net_af_packet") == 0;
}

/* --vdev arguments that make the driver's buffers large enough for any path MTU; NULL: none. */
static const char *
buffer_remedy(const struct port *p)
{
	if (strcmp(p->driver, "net_memif") == 0)
		return "bsize=4608 in --vdev at both ends";
	if (strcmp(p->driver, "net_af_packet") == 0)
		return "blocksz=16384,framesz=8192 in --vdev";
	return NULL;
}

/* Logs if the buffers or the link limit the MTU in a way that matters. */
static void
log_clipped(const struct port *p, uint32_t link, uint32_t fits, uint32_t want)
{
	const char *remedy = buffer_remedy(p);

	if (fits < link && fits < ROCE_MAX_MTU && remedy != NULL)
		PORT_LOG(
			NOTICE, p->name,
			"buffers hold IP packets of up to %u bytes; path MTU 4096 needs %u: use %s",
			fits, ROCE_MAX_MTU, remedy);
	else if (fits < link && p->netdev[0] != '\0')
		PORT_LOG(NOTICE, p->name,
			 "MTU %u of %s: IP packets of more than %u bytes are not received; RoCE "
			 "sends at most %u",
			 link, p->netdev, fits, ROCE_MAX_MTU);
	else if (want > link)
		PORT_LOG(WARNING, p->name,
			 "IP packets of %u bytes requested, but the link carries %u%s%s", want,
			 link, p->netdev[0] != '\0' ? ": raise the MTU of " : "", p->netdev);
}

static void
log_too_small(const struct port *p, uint32_t link, uint32_t fits)
{
	const char *remedy = buffer_remedy(p);

	if (link < MIN_MTU && p->netdev[0] != '\0')
		PORT_LOG(ERR, p->name,
			 "MTU %u of %s is below the minimum of %u: use `ip link set %s mtu 1500`",
			 link, p->netdev, MIN_MTU, p->netdev);
	else if (link < MIN_MTU)
		PORT_LOG(ERR, p->name, "the link's MTU of %u is below the minimum of %u", link,
			 MIN_MTU);
	else
		PORT_LOG(ERR, p->name,
			 "buffers hold IP packets of up to %u bytes, %u are needed%s%s", fits,
			 MIN_MTU, remedy != NULL ? ": use " : "", remedy != NULL ? remedy : "");
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
			 "MTU %u of %s exceeds that of %s: use `ip link set %s mtu %u` or less, or "
			 "--vdev net_af_packet0,iface=%s, which supports any MTU",
			 link, p->netdev, p->driver, p->netdev, room - PORT_L2_BYTES, p->netdev);
		return 0;
	}
	fits = fits < room ? fits : room;
	fits = fits > PORT_L2_BYTES ? fits - PORT_L2_BYTES : 0;
	mtu = link < fits ? link : fits;
	if (mtu < MIN_MTU) {
		log_too_small(p, link, fits);
		return 0;
	}
	if (want != 0 && want < MIN_WANTED) {
		PORT_LOG(ERR, p->name, "IP packets of %u bytes are too small for any path MTU",
			 want);
		return 0;
	}
	log_clipped(p, link, fits, want);
	return want != 0 && want < mtu ? want : mtu;
}
